"""Hostile files, read as their readers read them; what is accepted is used."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tplimits as tp
from attack import damage, subjects
from tplimits.commands import loading
from tplimits.program.files import arrays

Case = Callable[[], Any]


def program(rng: random.Random, place: Path) -> Case:
    """A program in JSON."""
    text = subjects.files()[f"{rng.choice(subjects.PROGRAMS).name}.json"].decode()
    if rng.random() < 0.3:
        content = damage.bytes_of(rng, text.encode())
    else:
        content = damage.document_of(rng, text).encode("utf-8", "surrogatepass")
    file = place / "program.json"
    file.write_bytes(content)

    def run() -> Any:
        found = loading.load(str(file))
        str(found)
        tp.from_json(tp.to_json(found))
        if len(found) < 30 and not found.is_network and found.state is None:
            limit = tp.derive(found)
            return limit.text(), limit.latex(), limit.document()
        return None

    return run


def array(rng: random.Random, place: Path) -> Case:
    """A file of arrays, as data of a command."""
    name = rng.choice(("one.npy", "many.npz", "packed.npz"))
    content = subjects.files()[name]
    way = rng.random()
    if way < 0.3:
        content = damage.header_of(rng)
    elif way < 0.6 and name.endswith("npz"):
        content = damage.archive_of(rng, content)
    elif way < 0.7:
        content = damage.npy(damage.array_of(rng))
    else:
        content = damage.bytes_of(rng, content)
    file = place / name
    file.write_bytes(content)

    def run() -> Any:
        found = arrays.read(file)
        if not isinstance(found, dict):
            arrays.mapped(file)
        return subjects.kernels().evaluate(found)

    return run


def checkpoint(rng: random.Random, place: Path) -> Case:
    """A checkpoint that a run is to go on from."""
    file = place / "check.npz"
    content = subjects.files()["check.npz"]
    file.write_bytes(damage.archive_of(rng, content) if rng.random() < 0.7 else damage.bytes_of(rng, content))
    steps = rng.choice((2, 2, 3))
    asked = subjects.SMALL | {"steps": steps}
    return lambda: subjects.feature().evaluate(subjects.X, error=tp.squared_error(subjects.Y), checkpoint=file, **asked)


def gram(rng: random.Random, place: Path) -> Case:
    """A folder of Gram matrices."""
    for name, content in subjects.gram().items():
        (place / name).write_bytes(content)
    file = place / rng.choice(("manifest.json", "nngp.npy", "ntk.npy", "lock"))
    content = file.read_bytes()
    if file.suffix == ".json" and rng.random() < 0.7:
        content = damage.document_of(rng, content.decode()).encode("utf-8", "surrogatepass")
    elif rng.random() < 0.4:
        content = rng.choice((damage.header_of, lambda r: damage.npy(damage.array_of(r))))(rng)
    else:
        content = damage.bytes_of(rng, content)
    file.write_bytes(content)
    if rng.random() < 0.5:
        return lambda: tp.load_kernels(place).posterior([0, 1], [0.0, 1.0], [2])
    return lambda: np.asarray(subjects.kernels().evaluate(subjects.X, out=place).nngp)


def recording(rng: random.Random, place: Path) -> Case:
    """A recording, read and looked at."""
    file, content = place / "run.npz", subjects.files()["run.npz"]
    way = rng.random()
    if way < 0.35:
        content = damage.archive_of(rng, content)
    elif way < 0.7:
        content = _with_header(rng, content, file)
    else:
        content = damage.bytes_of(rng, content)
    file.write_bytes(content)

    def run() -> Any:
        found = tp.load_recording(file)
        str(found)
        return found.outputs(), found.loss

    return run


def _with_header(rng: random.Random, content: bytes, file: Path) -> bytes:
    """The same arrays under another header."""
    file.write_bytes(content)
    found = arrays.unpack(file)
    text = damage.document_of(rng, found["header"].tobytes().decode())
    found["header"] = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    with file.open("wb") as out:
        arrays.pack(out, found, True)
    return file.read_bytes()


def plan(rng: random.Random, place: Path) -> Case:
    """A plan for widened models."""
    file, text = place / "plan.json", subjects.files()["plan.json"].decode()
    if rng.random() < 0.7:
        file.write_text(damage.document_of(rng, text), encoding="utf-8", errors="surrogatepass")
    else:
        file.write_bytes(damage.bytes_of(rng, text.encode()))

    def run() -> Any:
        found = tp.load_plan(file)
        return str(found), found.multipliers(128), found.clipping(128, 1.0), found.to_json()

    return run
