"""One process at a time in a folder, by a lock that ends with its process, however that ends."""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # no POSIX system
    fcntl = None  # type: ignore[assignment]

#: what this process holds: locks of files do not tell its threads apart
_HELD: set[Path] = set()
_GUARD = threading.Lock()


class BusyError(Exception):
    """Someone else holds the lock; the text says who."""


class FolderLock:
    """The file `lock` of a folder, locked while the context lasts.

    A record lock (fcntl.lockf): the system drops it when its process dies, so that what a process killed by signal 9
    left behind is no obstacle, and forked workers that outlive their parent do not inherit it.  Raises BusyError where
    another process or thread holds it, OSError where there can be no lock.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder.resolve() / "lock"
        self._file: IO[str] | None = None

    def __enter__(self) -> FolderLock:
        if fcntl is None:
            raise OSError(errno.ENOLCK, "this system has no record locks")
        with _GUARD:
            if self._path in _HELD:
                raise BusyError("another thread of this process")
            file = open(self._path, "a+", encoding="utf-8")
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = _holder(file)
                file.close()
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    raise BusyError(holder) from None
                raise
            _HELD.add(self._path)
        self._file = file
        file.truncate(0)
        file.write(json.dumps({"process": os.getpid(), "machine": socket.gethostname()}))
        file.flush()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._file is not None
        with _GUARD:
            _HELD.discard(self._path)
            self._file.close()


def _holder(file: IO[str]) -> str:
    """Who wrote the file; it is not locked against readers."""
    try:
        file.seek(0)
        found = json.loads(file.read())
        return f"process {int(found['process'])} on {str(found['machine'])!r}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
