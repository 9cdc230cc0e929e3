"""Hostile command lines: a defect is exit status 70, a traceback, or a number that is none."""

from __future__ import annotations

import contextlib
import io
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attack import damage, subjects
from tplimits.cli import main

#: commands that are right, in pieces
LINES = (
    ("derive", "tied_relu"),
    ("derive", "{program}", "--regime", "width"),
    ("derive", "{network}", "--regime", "kernels", "--size", "d=2"),
    ("derive", "tied_relu", "--json"),
    ("derive", "{block}", "--regime", "proportional", "--size", "token=2"),
    ("evaluate", "tied_relu", "--particles", "64"),
    ("evaluate", "{program}", "--set", "γ=1", "--method", "particles", "--particles", "64", "--seed", "1"),
    ("evaluate", "{network}", "--regime", "kernels", "--data", "{one}", "--set", "c=1"),
    ("check", "tied_relu", "--widths", "16,32,64", "--draws", "8"),
    ("classify", "{network}", "--parametrization", "mup"),
    ("view", "{run}", "--out", "{page}"),
    ("zoo",),
    ("errors",),
    ("new", "{folder}"),
)
VALUES = (
    "", "-1", "0", "1.5", "nan", "inf", "1e999", "9" * 50, "x", "=", "γ", "γ=", "=1", "γ=nan", "token=-1", "token=99999999999",
    "a=b=c", "../../etc", "/dev/null", "/", "{one}", "{many}", "{check}", "{plan}", "\x1b[31m", "🙂", "--", "-", "%s", "1,2,x",
    "16,16", "[1]", "{}", "None", "--help",
)  # fmt: skip
OPTIONS = (
    "--regime", "--set", "--size", "--seed", "--particles", "--method", "--data", "--json", "--latex", "--widths", "--draws",
    "--level", "--steps", "--lr", "--optimizer", "--out", "--nonsense", "--train", "--ratio", "--fixed", "--full",
)  # fmt: skip


def lines(rng: random.Random, place: Path) -> Callable[[], Any]:
    """A command line that is right but for something."""
    files = {name.split(".")[0]: place / name for name in subjects.files()}
    for name, content in subjects.files().items():
        (place / name).write_bytes(content)
    known = {"{program}": files["tied"], "{network}": files["small"], "{block}": files["layer"]}
    known |= {f"{{{name}}}": path for name, path in files.items()}
    known |= {"{page}": place / "page.html", "{folder}": place / "new.py"}
    given = list(rng.choice(LINES))
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(1, len(given) + 1)
        match rng.randrange(5):
            case 0:
                given[at:at] = [rng.choice(OPTIONS), rng.choice(VALUES)]
            case 1:
                given[at:at] = [rng.choice(OPTIONS)]
            case 2 if at < len(given):
                given[at] = rng.choice(VALUES)
            case 3 if at < len(given):
                del given[at]
            case _:
                given[at:at] = [rng.choice((*VALUES, *damage.WORDS))]
    line = [str(known.get(word, word)) for word in given]

    def run() -> None:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(place):
            status = main(line)
        said = err.getvalue()
        assert status in (0, 1, 2), f"{line}: exit status {status}\n{said[-1500:]}"
        assert "Traceback" not in said, f"{line}: {said[-1500:]}"
        if status == 0 and "--help" not in line and line[0] in ("evaluate", "check"):
            assert not re.search(r"(?<![\w.])(nan|inf|NaN|Infinity)(?![\w.])", out.getvalue()), (
                f"{line}: {out.getvalue()[-800:]}"
            )

    return run
