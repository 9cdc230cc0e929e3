"""Writing files whole or not at all."""

from __future__ import annotations

import errno
import glob
import hashlib
import io
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from tplimits.errors import EvaluationError, shown

#: bytes of a name from which on a new file beside it has a digest for a name
_LONG = 200


def place_of(what: str, path: Any) -> Path:
    """The place that a user names in an argument.

    >>> place_of("path", 3)
    Traceback (most recent call last):
    tplimits.errors.EvaluationError: path=3: give the name of a file.
    """
    try:
        found = os.fsdecode(path)
        os.fsencode(found)
    except Exception:  # half a surrogate pair, what is no name, and the code of users
        found = ""
    if not found or "\0" in found:
        raise EvaluationError(f"{what}={shown(path, 60)}: give the name of a file.")
    return Path(found)


def check_writable(path: Path) -> None:
    """Raise the OSError of a file that cannot be written, before long work is done for it."""
    if _special(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _special(path: Path) -> bool:
    """Whether the path is a pipe or a device, or leads to an open file of this process (/dev/stdout)."""
    place = path.absolute().as_posix()
    of_this_process = place in ("/dev/stdout", "/dev/stderr") or place.startswith(("/dev/fd/", "/proc/"))
    return path.exists() and not path.is_dir() and (of_this_process or not path.is_file())


def _append(path: Path, data: bytes) -> None:
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(file, left) :]
        finally:
            os.close(file)
    except OSError as error:  # os.write does not know the name of the file
        raise OSError(error.errno, error.strerror, str(path)) from None


def write(path: Path, content: str | bytes) -> None:
    """Put the content into a file beside `path`, then rename it: readers see the old file or the new one."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    place = path.resolve()
    new = place.with_name(f".{short(place.name)}.{os.getpid()}.new")
    _renamed(path, new, "xb", lambda file: file.write(data))


def write_by(path: Path, fill: Callable[[BinaryIO], Any]) -> None:
    """The same by a function that fills the file, for files that one process writes again and again.

    What a process that is killed leaves beside the file, `clear_parts` removes.
    """
    place = path.resolve()
    _renamed(path, place.with_name(f"{short(place.name)}.{os.getpid()}-{threading.get_ident()}.part"), "wb", fill)


def clear_parts(path: Path) -> None:
    """Remove what killed processes have left beside a file; for who holds its lock."""
    place = path.resolve()
    for part in place.parent.glob(f"{glob.escape(short(place.name))}.*.part"):
        with suppress(OSError):
            part.unlink()


def short(name: str) -> str:
    """A name that leaves room for more: file systems take 255 bytes."""
    data = os.fsencode(name)
    return name if len(data) < _LONG else hashlib.sha256(data).hexdigest()


def _renamed(path: Path, new: Path, mode: str, fill: Callable[[BinaryIO], Any]) -> None:
    """Fill the file `new`, then let it take the place of `path`, unless this is a device or a pipe: it stays."""
    check_writable(path)
    if _special(path):
        whole = io.BytesIO()
        fill(whole)
        _append(path, whole.getvalue())
        return
    try:
        with open(new, mode) as file:
            fill(cast(BinaryIO, file))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path.resolve())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        new.unlink(missing_ok=True)
