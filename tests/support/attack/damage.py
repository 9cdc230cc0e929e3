"""How files are damaged: blindly by bytes, and by someone who knows what they hold."""

from __future__ import annotations

import io
import json
import random
import zipfile
from typing import Any

import numpy as np

#: what may stand where something else was meant
WORDS = (
    "",
    "NaN",
    "-1",
    "0",
    "1e999",
    "9" * 400,
    "x" * 3000,
    "\u202e",
    "\0",
    "</script>",
    "\\end{document}",
    "🙂",
    "1/0",
)


def bytes_of(rng: random.Random, content: bytes) -> bytes:
    """Cut, flipped, doubled, shuffled, or nothing left."""
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(found)) if found else 0
        match rng.randrange(7):
            case 0:
                del found[at:]
            case 1 if found:
                found[at] ^= 1 << rng.randrange(8)
            case 2:
                found[at : at + rng.randrange(40)] = rng.randbytes(rng.randrange(40))
            case 3:
                found[at:at] = found[: rng.randrange(200)]
            case 4:
                del found[at : at + rng.randrange(200)]
            case 5:
                found[at : at + 8] = rng.choice((b"\xff" * 8, bytes(8), b"\x7f" + b"\xff" * 7))
            case _:
                found += rng.randbytes(rng.randrange(60))
    return bytes(found)


def array_of(rng: random.Random) -> np.ndarray:
    """An array that nobody asked for."""
    shape = rng.choice(((), (0,), (3,), (3, 2), (2, 3), (3, 2, 1), (1, 1), (0, 2), (5000,)))
    values: Any = rng.choice(
        (0.0, 1.0, -1.0, np.nan, np.inf, 1e308, 1e-320, 3, -7, 1 << 62, True, 1j, "text", "\U0001f642", b"raw")
    )
    return np.full(shape, values)


def header_of(rng: random.Random) -> bytes:
    """An array whose header lies."""
    descr = rng.choice(("'<f8'", "'|O'", "'<f9'", "[('a', '<f8')]", "'<U99999999'", "'<M8[s]'", "f8", "'\\u0000'"))
    shape = rng.choice(
        ("(3, 2)", "(99999999999999,)", "(-1,)", "(1" + "0" * 300 + ",)", "3", "(0, 18446744073709551616)")
    )
    order = rng.choice(("True", "False", "None", "__import__('os')"))
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"
    if rng.random() < 0.2:
        text = rng.choice(("(" * 20_000, "{" * 300 + "}" * 300, "{'descr': " * 900, "[" * 9_000))
    start = b"\x93NUMPY" + bytes([rng.choice((1, 2, 3, 9)), 0])
    return start + len(text).to_bytes(2 if start[6] == 1 else 4, "little") + text.encode() + bytes(rng.choice((0, 48)))


def archive_of(rng: random.Random, content: bytes) -> bytes:
    """An archive whose members are exchanged, dropped, renamed, or bombs."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice([*members, "extra.npy"])
        match rng.randrange(8):
            case 0:
                members.pop(name, None)
            case 1:
                members[name] = header_of(rng)
            case 2:
                members[rng.choice(("../up.npy", "/abs.npy", "\0.npy", "x" * 5000 + ".npy", "run.sh"))] = b""
            case 3:
                members[name] = npy(np.zeros(1 << 21))
            case 4 if name in members:
                members[name] = bytes_of(rng, members[name])
            case 5 if name != "extra.npy":
                members[name] = npy(poisoned(rng, np.load(io.BytesIO(content_of(content, name)))))
            case 6:
                members[name] = members[rng.choice([*members])] if members else b""
            case _:
                members[name] = npy(array_of(rng))
    out = io.BytesIO()
    how = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, written in members.items():
            archive.writestr(zipfile.ZipInfo(name), written, how)
    return bytes_of(rng, out.getvalue()) if rng.random() < 0.2 else out.getvalue()


def content_of(content: bytes, name: str) -> bytes:
    """A member as it was."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(name)


def npy(array: np.ndarray) -> bytes:
    """An array as a file."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def poisoned(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """The same array with one entry that does not belong in it."""
    found = array.copy()
    if found.size and found.dtype.kind in "fiu":
        wrong = rng.choice((np.nan, np.inf, -1, 1e30, 0, 255))
        found.reshape(-1)[rng.randrange(found.size)] = wrong if found.dtype.kind == "f" else rng.choice((0, 1, 127))
        return found
    return found.astype(rng.choice(("float32", "<U3", "complex128", "int8"))) if found.dtype.kind in "fiub" else found


def document_of(rng: random.Random, text: str) -> str:
    """JSON in which something is exchanged, dropped or nested too deep."""
    found = json.loads(text)
    for _ in range(rng.choice((1, 1, 2, 4))):
        place, key = _somewhere(rng, found)
        match rng.randrange(6):
            case 0 if isinstance(place, dict):
                del place[key]
            case 1:
                place[key] = rng.choice((None, True, 3, -1, 1.5, [], {}, [[]], "", 10**30))
            case 2:
                place[key] = rng.choice(WORDS)
            case 3 if isinstance(place[key], str):
                place[key] = place[key] + rng.choice(WORDS) if rng.random() < 0.5 else rng.choice(WORDS) + place[key]
            case 4 if isinstance(place, list):
                place.append(place[rng.randrange(len(place))])
            case _:
                other, there = _somewhere(rng, found)
                place[key] = json.loads(json.dumps(other[there]))
        if not found:
            break
    written = json.dumps(found, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.1:
        written = rng.choice(
            ("[" * 5000, '{"a":' * 5000, written[: len(written) // 2], written * 2, '"' * 7, "\ufeff" + written)
        )
    return written


def _somewhere(rng: random.Random, found: Any) -> tuple[Any, Any]:
    """A container of a document, and one of its keys."""
    place: Any = found
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = rng.choice(list(keys))
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.15:
            return place, key
        place = inner
