"""Writing files whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def check_writable(path: Path) -> None:
    """Raise the OSError of a file that cannot be written, before long work is done for it.

    >>> check_writable(Path("no such folder") / "limit.tex")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no such folder'
    """
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path if path.exists() and not path.is_file() else folder, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def write(path: Path, content: str | bytes) -> None:
    """Put the content into a file beside `path`, then rename it: readers see the old file or the new one."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    check_writable(path)
    place = path.resolve()
    if place.exists() and not place.is_file():  # a pipe or a device
        place.write_bytes(data)
        return
    new = place.with_name(f".{place.name}.{os.getpid()}.new")
    try:
        with new.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(place)
    finally:
        new.unlink(missing_ok=True)
