"""Compiled code kept on disk between processes: read only if it is ours and whole, never needed.

What lies here is run as it stands, so a file counts only if this user wrote it and nobody else can, and if its digest
says that it is whole and stands under its own name.  Everything else is as if there were no file: the code is compiled
again, and kept if that can be.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import platformdirs

_HEAD = b"tplimits compiled code 1\n"
_DIGEST = hashlib.sha256().digest_size
#: what is being written has such a name, and after so many seconds nobody writes it any more
_UNFINISHED, _DAY = ".tmp", 86_400.0
#: who may write to what is read: its owner alone
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
#: absent on systems without links or owners
_NO_LINK, _USER = getattr(os, "O_NOFOLLOW", 0), getattr(os, "geteuid", None)


def cache_folder() -> Path | None:
    """Where compiled code is kept: $TPLIMITS_CACHE, or a part of the user's cache folder; None without a home.

    A user without a home has "~" in the place of one: a folder of that name would be made where the process stands.
    """
    if chosen := os.environ.get("TPLIMITS_CACHE"):
        return Path(chosen)
    try:
        found = Path(platformdirs.user_cache_dir("tplimits")) / "compiled"
    except RuntimeError:  # what newer versions of platformdirs say in place of "~"
        return None
    return found if found.is_absolute() else None


def trusted_folder() -> Path | None:
    """The cache folder, made if it is missing; None where it cannot be, or where others own it or may write to it."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.stat()
    except (OSError, ValueError):
        return None
    return folder if stat.S_ISDIR(found.st_mode) and _is_ours(found) else None


def _is_ours(found: os.stat_result) -> bool:
    """Whether this user owns a file and nobody else may write to it."""
    return _USER is None or (found.st_uid == _USER() and not found.st_mode & _OTHERS)


def read(name: str) -> bytes | None:
    """What was kept under a name; None where nothing is, or where it cannot be trusted."""
    folder = trusted_folder()
    if folder is None:
        return None
    try:
        # opened first, asked afterwards: between a question by name and the opening the file may be exchanged
        handle = os.open(folder / name, os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or not _is_ours(found):
                return None
            whole = file.read()
    except (OSError, ValueError, MemoryError):
        return None
    content = whole[len(_HEAD) + _DIGEST :]
    return content if whole[: len(_HEAD) + _DIGEST] == _head(name, content) else None


def write(name: str, content: bytes) -> None:
    """Keep a content under a name, if that can be: its file is there whole or not at all."""
    folder = trusted_folder()
    if folder is None:
        return
    new = ""
    try:
        # in the same folder, since a rename is atomic within one file system alone
        handle, new = tempfile.mkstemp(dir=folder, suffix=_UNFINISHED)
        with os.fdopen(handle, "wb") as file:
            # not forced to the disk, which can take longer than compiling: the digest tells what a power cut took
            file.write(_head(name, content) + content)
        os.replace(new, folder / name)
    except OSError:  # a full disk, or a folder that was taken away: this process alone has it
        with suppress(OSError):
            os.unlink(new)
    _clear(folder)


def _clear(folder: Path) -> None:
    """Remove what processes that were killed left unfinished; another that does the same is no error."""
    before = time.time() - _DAY
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.name.endswith(_UNFINISHED) and entry.stat(follow_symlinks=False).st_mtime < before:
                    os.unlink(entry.path)


def _head(name: str, content: bytes) -> bytes:
    """What a file begins with: a content under another's name is no content of its own."""
    return _HEAD + hashlib.sha256(name.encode() + b"\0" + content).digest()
