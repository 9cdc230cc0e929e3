"""Files of arrays: .npz archives, read with suspicion.

Nothing in such a file is ever run: arrays hold plain numbers or text, and what an archive says of sizes has to agree
with itself before anything as large is made.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy

from tplimits.errors import EvaluationError

#: what an archive may hold in all when it is unpacked, and how many arrays
MAX_BYTES, MAX_ARRAYS = 1 << 32, 1_000_000
#: kinds of entries: truth, whole, real and complex numbers, text
_KINDS = "biufcU"
_HEADERS = {
    (1, 0): numpy.lib.format.read_array_header_1_0,
    (2, 0): numpy.lib.format.read_array_header_2_0,
}
#: what zipfile, zlib and NumPy raise at damaged files
_DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, NotImplementedError, RuntimeError, SyntaxError)
_MORE_DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, OverflowError, RecursionError, MemoryError)


def pack(file: BinaryIO, arrays: Mapping[str, Any], compressed: bool = False) -> None:
    """Write arrays by name; the same arrays give the same bytes."""
    save: Any = numpy.savez_compressed if compressed else numpy.savez
    save(file, **{name: numpy.asarray(array) for name, array in arrays.items()})


def read(path: Path) -> numpy.ndarray | dict[str, numpy.ndarray]:
    """The array of a .npy file, or those of an archive by name; raises what `unpack` does."""
    with open(path, "rb") as file:
        if file.read(len(numpy.lib.format.MAGIC_PREFIX)) != numpy.lib.format.MAGIC_PREFIX:
            return unpack(path)
        file.seek(0)
        try:
            return _checked(file.read())
        except (*_DAMAGE, *_MORE_DAMAGE) as problem:
            raise EvaluationError(f"it is damaged or no file of arrays ({_said(problem)})") from None


def unpack(path: Path) -> dict[str, numpy.ndarray]:
    """The arrays of a file by name.

    Raises EvaluationError, which says what is wrong without the name of the file, for a file that is truncated,
    damaged, too large or holds anything but arrays; FileNotFoundError and the like where it cannot be opened.
    """
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return {name: _checked(archive.read(info)) for name, info in _members(archive).items()}
        except (*_DAMAGE, *_MORE_DAMAGE) as problem:
            raise EvaluationError(f"it is damaged or no file of arrays ({_said(problem)})") from None


def _said(problem: BaseException) -> str:
    """What was wrong, in one short printable line."""
    text = " ".join(str(problem).split()) or type(problem).__name__
    return "".join(c if c.isprintable() else "�" for c in text)[:120]


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > MAX_ARRAYS:
        raise ValueError(f"{len(infos)} arrays; at most {MAX_ARRAYS} are read")
    if sum(info.file_size for info in infos) > MAX_BYTES:
        raise ValueError(f"it unpacks to more than {MAX_BYTES} bytes")
    found: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.filename.removesuffix(".npy")
        if name == info.filename or name in found:
            raise ValueError(f"a member {info.filename[:60]!r} that is no array, or stands twice")
        found[name] = info
    return found


def _checked(written: bytes) -> numpy.ndarray:
    """One array, whose bytes are as many as its shape and type say."""
    content = io.BytesIO(written)
    header = _HEADERS.get(numpy.lib.format.read_magic(content))
    if header is None:
        raise ValueError("an array in a version that is not read")
    shape, _, dtype = header(content)
    if dtype.kind not in _KINDS or dtype.itemsize < 1:
        raise ValueError(f"an array of type {dtype}")
    if any(size < 0 for size in shape):
        raise ValueError(f"an array of shape {shape}")
    if math.prod(shape) * dtype.itemsize != len(content.getbuffer()) - content.tell():
        raise ValueError(f"an array of shape {shape} with other bytes than that")
    content.seek(0)
    found: numpy.ndarray = numpy.lib.format.read_array(content, allow_pickle=False)
    return found


def flat(state: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A dictionary of dictionaries as one, with paths for names.

    >>> nested(flat({"a": {"b": 1}, "c": {}})) == {"a": {"b": 1}, "c": {}}
    True
    """
    found: dict[str, Any] = {}
    for key, value in state.items():
        if isinstance(value, Mapping):
            found[f"{prefix}{key}/"] = numpy.empty(0)  # dictionaries may be empty
            found.update(flat(value, f"{prefix}{key}/"))
        else:
            found[prefix + key] = numpy.asarray(value)
    return found


def nested(flattened: Mapping[str, Any]) -> dict[str, Any]:
    """Back from `flat`; ValueError where a name is an array and a dictionary."""
    found: dict[str, Any] = {}
    for key, value in flattened.items():
        *folders, name = key.split("/")
        place = found
        for folder in folders:
            place = place.setdefault(folder, {})
            if not isinstance(place, dict):
                raise ValueError(f"{folder!r} is an array and a folder of arrays")
        if name:
            place[name] = value
    return found
