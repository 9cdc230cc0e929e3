"""One process at a time at a file or in a folder, by a lock that ends with its process, however that ends."""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from tplimits.errors import EvaluationError, ProgramError
from tplimits.pages.files import clear_parts, short
from tplimits.program.files.fields import parse

try:
    import fcntl
except ImportError:  # no POSIX system
    fcntl = None  # type: ignore[assignment]

#: the most characters of what a holder writes
_LONG = 1000
#: what this process holds: locks of files do not tell its threads apart
_HELD: set[Path] = set()
_GUARD = threading.Lock()


class BusyError(Exception):
    """Someone else holds the lock; the text says who."""


class FileLock:
    """A file that says who works here, locked while the context lasts; removed in the end unless it `stays`.

    A record lock (fcntl.lockf): the system drops it when its process dies, so that what a process killed by signal 9
    left behind is no obstacle, and forked workers that outlive their parent do not inherit it.  Raises BusyError where
    another process or thread holds it, OSError where there can be no lock.
    """

    def __init__(self, path: Path, stays: bool = True) -> None:
        self._path, self._stays = path.absolute().parent.resolve() / path.name, stays
        self._file: IO[str] | None = None

    def __enter__(self) -> FileLock:
        if fcntl is None:
            raise OSError(errno.ENOLCK, "this system has no record locks")
        with _GUARD:
            if self._path in _HELD:
                raise BusyError("another thread of this process")
            file = _locked(self._path)
            while not _is_there(self._path, file):  # the last holder has removed it meanwhile
                file.close()
                file = _locked(self._path)
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
            if not self._stays:
                with suppress(OSError):
                    self._path.unlink()
            self._file.close()


@contextmanager
def alone(what: str, path: Path | None) -> Iterator[None]:
    """Keep a file that grows to one run; EvaluationError, with `what` the path was given as, if another has it.

    Where the system has no locks two runs may still meet: each writes whole files, and the last one stays.
    """
    with ExitStack() as stack:
        if path is not None:
            try:
                stack.enter_context(FileLock(path.with_name(f".{short(path.name)}.lock"), stays=False))
                clear_parts(path)
            except BusyError as error:
                raise EvaluationError(
                    f"{what}={str(path)!r}: {error} is at work on this file; wait for it, or give another."
                ) from None
            except OSError:  # no locks here, or a folder that cannot be written to: who writes will say so
                pass
        yield


def _locked(path: Path) -> IO[str]:
    file = open(path, "a+", encoding="utf-8")  # noqa: SIM115 (closed by who holds the lock)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = _holder(file)
        file.close()
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise BusyError(holder) from None
        raise
    return file


def _is_there(path: Path, file: IO[str]) -> bool:
    """Whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _holder(file: IO[str]) -> str:
    """Who wrote the file; it is not locked against readers."""
    try:
        file.seek(0)
        found = parse(file.read(_LONG), numbers=True)
        return f"process {int(found.plain('process'))} on {found.text('machine')!r}"
    except (OSError, ValueError, TypeError, ProgramError):
        return "another process"
