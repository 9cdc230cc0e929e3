"""Files of arrays, .npy and .npz, read with suspicion: every file of arrays that the package reads comes through here.

Nothing in such a file is ever run.  Arrays hold plain numbers or text; their headers are read as text of one form, not
as Python; what a file says of its sizes has to agree with itself, and with limits, before memory is asked for.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, NoReturn

import numpy

from tplimits.errors import EvaluationError

#: what an archive may hold in all when it is unpacked, and how many arrays
MAX_BYTES, MAX_ARRAYS = 1 << 32, 200_000
#: what is unpacked beyond this may be as large as so many times the file: a small file may not fill the memory
_FREE, _RATIO = 1 << 28, 100
#: bytes of a list of members, of a header; axes; what is read at once
_LISTED, _HEADER, _AXES, _PIECE = 1 << 25, 10_000, 32, 1 << 20
#: entries: truth, whole, real and complex numbers, text
_TYPE = r"[<>|=](?:b1|[iu][1248]|f(?:2|4|8|16)|c(?:8|16|32)|U[0-9]{1,7})"
_FIELD = rf"'descr':\s*'(?P<type>{_TYPE})'|'fortran_order':\s*(?P<order>True|False)|'shape':\s*\((?P<shape>[0-9, ]*)\)"
_WRITTEN = re.compile(rf"\{{(?:\s*(?:{_FIELD})\s*(?:,|(?=\}}))){{3}}\s*\}}\s*")
_OTHER_TYPE = re.compile(r"'descr':\s*(\[.{0,60}|'[^']{0,20}')")
_MAGIC = numpy.lib.format.MAGIC_PREFIX
#: what zipfile and zlib raise at damaged files, and what is raised here: other errors are mistakes of this module
_DAMAGE = (OSError, ValueError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error, struct.error)
_TOO_LARGE = (OverflowError, MemoryError)


def pack(file: BinaryIO, arrays: Mapping[str, Any], compressed: bool = False) -> None:
    """Write arrays by name; the same arrays give the same bytes."""
    save: Any = numpy.savez_compressed if compressed else numpy.savez
    save(file, **{name: numpy.asarray(array) for name, array in arrays.items()})


def read(path: Path) -> numpy.ndarray | dict[str, numpy.ndarray]:
    """The array of a .npy file, or those of an archive by name; raises what `unpack` does."""
    with _opened(path) as (file, size):
        if file.read(len(_MAGIC)) != _MAGIC:
            return _unpacked(file, size, None)
        file.seek(0)
        return _array(file, size)


def unpack(path: Path, only: Collection[str] | None = None) -> dict[str, numpy.ndarray]:
    """The arrays of a file by name, or some of them.

    Raises EvaluationError, which says what is wrong without the name of the file, for a file that is truncated,
    damaged, too large or holds anything but arrays; FileNotFoundError and the like where it cannot be opened.
    """
    with _opened(path) as (file, size):
        return _unpacked(file, size, only)


def mapped(path: Path) -> numpy.ndarray:
    """The array of a .npy file, mapped to memory, read-only; raises what `unpack` does."""
    with _opened(path) as (file, size):
        dtype, shape, order = _header(file, size)
        if not math.prod(shape):
            return numpy.empty(shape, dtype)  # there is nothing to map
        return numpy.memmap(file, dtype, "r", file.tell(), shape, order)  # type: ignore[call-overload]


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """A file and its size; what is wrong with its content becomes an EvaluationError."""
    with open(path, "rb") as file:
        try:
            yield file, file.seek(0, io.SEEK_END) - file.seek(0)
        except (*_DAMAGE, *_TOO_LARGE) as problem:
            raise EvaluationError(f"it is damaged or no file of arrays ({_said(problem)})") from None


def _said(problem: BaseException) -> str:
    """What was wrong, in one short printable line."""
    text = " ".join(str(problem).split()) or type(problem).__name__
    return "".join(c if c.isprintable() else "�" for c in text)[:120]


def _unpacked(file: BinaryIO, size: int, only: Collection[str] | None) -> dict[str, numpy.ndarray]:
    if _listed(file, size) > _LISTED:
        raise ValueError(f"a list of members of more than {_LISTED} bytes")
    with zipfile.ZipFile(file) as archive:
        found = {}
        for name, info in _members(archive, size).items():
            if only is None or name in only:
                with archive.open(info) as member:
                    found[name] = _array(member, info.file_size)
        return found


def _listed(file: BinaryIO, size: int) -> int:
    """The bytes that an archive says its list of members has: zipfile builds all of it before anybody can count."""
    file.seek(max(size - (1 << 16) - 100, 0))
    end = file.read()
    place = end.rfind(b"PK\x05\x06")
    found = int.from_bytes(end[place + 12 : place + 16], "little") if place >= 0 else 0
    locator = end[place - 20 : place] if place >= 20 else b""
    if locator.startswith(b"PK\x06\x07"):  # larger numbers stand in a record of their own
        file.seek(min(int.from_bytes(locator[8:16], "little"), size))
        found = max(found * (found < 0xFFFFFFFF), int.from_bytes(file.read(56)[40:48], "little"))
    file.seek(0)
    return found


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > MAX_ARRAYS:
        raise ValueError(f"{len(infos)} arrays; at most {MAX_ARRAYS} are read")
    unpacked = sum(info.file_size for info in infos)
    if unpacked > min(MAX_BYTES, _FREE + _RATIO * size):
        raise ValueError(f"it unpacks to {unpacked} bytes, from {size}: more than is read")
    found: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.filename.removesuffix(".npy")
        if name == info.filename or name in found or len(name) > 1000:
            raise ValueError(f"a member {info.filename[:60]!r} that is no array, or stands twice")
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"a member {info.filename[:60]!r} that is packed as no array is")
        found[name] = info
    return found


def _header(file: IO[bytes], size: int) -> tuple[numpy.dtype[Any], tuple[int, ...], str]:
    """Type, shape and order ("C" or "F") of an array, whose bytes are as many as these say, and come next."""
    start = file.read(len(_MAGIC) + 2)
    width = {b"\x01\x00": 2, b"\x02\x00": 4}.get(start[len(_MAGIC) :], 0)
    if not start.startswith(_MAGIC) or not width:
        raise ValueError("no array, or in a version that is not read")
    length = int.from_bytes(file.read(width), "little")
    if length > _HEADER:
        raise ValueError(f"an array with a header of {length} bytes")
    text = file.read(length).decode("latin1")
    fields = _WRITTEN.fullmatch(text)
    if fields is None or None in fields.groups():
        _refuse_header(text)
    sizes = [part.strip() for part in fields["shape"].removesuffix(",").split(",")]
    if sizes == [""]:
        sizes = []
    if len(sizes) > _AXES or not all(re.fullmatch(r"0|[1-9][0-9]{0,17}", part) for part in sizes):
        raise ValueError(f"an array of shape ({fields['shape'][:40]})")
    dtype, shape = numpy.dtype(fields["type"]), tuple(map(int, sizes))
    if not dtype.itemsize or math.prod(shape) * dtype.itemsize != size - len(start) - width - length:
        raise ValueError(f"an array of {dtype} of shape {shape} with other bytes than that")
    return dtype, shape, "F" if fields["order"] == "True" else "C"


def _refuse_header(text: str) -> NoReturn:
    other = _OTHER_TYPE.search(text)
    if other is not None and not re.fullmatch(f"'{_TYPE}'", other[1]):
        kind = "object: objects are never read" if other[1] == "'|O'" else other[1]
        raise ValueError(f"an array of type {kind}")
    raise ValueError("an array with a header that cannot be read")


def _array(file: IO[bytes], size: int) -> numpy.ndarray:
    """One array of a file or a member of so many bytes."""
    if size > MAX_BYTES:
        raise ValueError(f"an array of {size} bytes; at most {MAX_BYTES} are read")
    dtype, shape, order = _header(file, size)
    count = math.prod(shape)
    content = numpy.empty(count * dtype.itemsize, numpy.uint8)
    left = content.data
    while left:
        # a piece at a time: memory that is asked for is used only as far as there are bytes for it
        many = file.readinto(left[:_PIECE])  # type: ignore[attr-defined]
        if not many:
            raise ValueError(f"an array of {dtype} of shape {shape} that ends early")
        left = left[many:]
    if file.read(1):  # reading on to the end also compares the checksum of a member
        raise ValueError("an array that something follows")
    found = content.view(dtype) if count else numpy.empty(0, dtype)
    _check_entries(found, content)
    return found.reshape(shape, order=order)  # type: ignore[call-overload]


def _check_entries(found: numpy.ndarray, content: numpy.ndarray) -> None:
    """Refuse bytes that are no truth values and no characters."""
    if found.dtype.kind == "b" and found.size and content.max() > 1:
        raise ValueError("an array of truth values with other bytes")
    if found.dtype.kind == "U" and found.size:
        letters = content.view(numpy.dtype(numpy.uint32).newbyteorder(found.dtype.byteorder))
        if letters.max() > 0x10FFFF:
            raise ValueError("an array of text with no characters")


def digest_of(arrays: Mapping[Any, Any]) -> str:
    """SHA-256 of arrays with their names, types and shapes."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = numpy.asarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def flat(state: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A dictionary of dictionaries as one, with paths for names."""
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
