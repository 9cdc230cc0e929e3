"""tplimits doctor"""

from __future__ import annotations

import platform
import re
import shutil
from importlib.metadata import PackageNotFoundError, requires, version

import typer

from tplimits.numbers import kept
from tplimits.terminal import show, table
from tplimits.version import VERSION

#: programs beside the package, and what they are for
PROGRAMS = {
    "chromium, chromium-browser, google-chrome, chrome": "films and stills of recordings",
    "ffmpeg": "films as .mp4 and .webm",
    "pdflatex": "setting what --latex writes",
}
MISSING = 1


def doctor() -> None:
    """Say what is installed and what is missing; exit status 1 if tplimits cannot run as it should."""
    show(f"tplimits {VERSION}, Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    rows, whole = _packages()
    table(("package", "found", "needed for"), rows)
    show("")
    table(("program", "found", "needed for"), [(names, _place(names) or "no", why) for names, why in PROGRAMS.items()])
    folder = kept.trusted_folder()
    show("", f"compiled code: {folder}" if folder else f"compiled code is not kept, every run compiles again: {_why()}")
    if not whole:
        show("", "some packages are missing or too old: pip install --upgrade tplimits")
        raise typer.Exit(MISSING)


def _packages() -> tuple[list[tuple[str, str, str]], bool]:
    """A row for each dependency, and whether those without an extra are there."""
    rows, whole = [], True
    for line in requires("tplimits") or ():
        needed = re.match(r"([\w.-]+)(?:\[[\w,]*\])?(?:>=([\d.]+))?", line)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if needed is None or needed[1] == "tplimits" or (extra and extra[1].endswith("dev")):
            continue
        found = _version(needed[1])
        enough = found is not None and _numbers(found) >= _numbers(needed[2] or "0")
        whole = whole and (enough or extra is not None)
        least = f" (at least {needed[2]})" if found and not enough else ""
        rows.append((needed[1], f"{found or 'no'}{least}", f"extra {extra[1]}" if extra else "everything"))
    return rows, whole


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text.split("+")[0])[:3]))


def _place(names: str) -> str | None:
    return next(filter(None, map(shutil.which, names.split(", "))), None)


def _why() -> str:
    """Why there is no folder for compiled code."""
    folder = kept.cache_folder()
    if folder is None:
        return "there is no home; name a folder in TPLIMITS_CACHE"
    return f"{folder} cannot be made, is another user's, or others may write to it"
