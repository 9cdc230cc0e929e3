"""What a case ends in: an answer, a refusal in the package's words, or a defect."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import math
import signal
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tplimits.errors import TplimitsError

#: what may not happen
BAD = ("foreign", "hang", "silent", "unprintable")
PATIENCE = 60


class Hang(BaseException):
    """A case that takes longer than anyone waits."""


class Silent(Exception):
    """A number that is none, given as one."""


@dataclass(frozen=True)
class Outcome:
    """How a case ended, what was said, and after how many seconds."""

    kind: str
    said: str
    seconds: float


def judge(run: Any, patience: int = PATIENCE) -> Outcome:
    """Run a case: "ok", "refused", or what is wrong with it."""
    begun = time.monotonic()
    kind, said = _ended(run, patience)
    return Outcome(kind, said, time.monotonic() - begun)


def _ended(run: Any, patience: int) -> tuple[str, str]:
    said = io.StringIO()
    try:
        with _alarm(patience), warnings.catch_warnings(), contextlib.redirect_stdout(said):
            warnings.simplefilter("ignore")
            found = run()
            look(found)
    except Hang:
        return "hang", f"more than {patience} s"
    except Silent as problem:
        return "silent", str(problem)
    except (TplimitsError, OSError) as problem:
        text = str(problem)
        if isinstance(problem, TplimitsError) and (not text.strip() or not _printable(text)):
            return "unprintable", repr(text)[:300]
        return "refused", f"{type(problem).__name__}: {text}"[:300]
    except Exception:
        return "foreign", traceback.format_exc()[-1500:]
    return "ok", ""


def _printable(text: str) -> bool:
    """Whether a terminal can show a message as it is meant; lines of it may be many."""
    return all(c.isprintable() or c == "\n" for c in text)


@contextlib.contextmanager
def _alarm(patience: int) -> Iterator[None]:
    def over(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(patience)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def look(found: Any, name: str = "result", depth: int = 0) -> None:
    """Raise Silent where a result holds a number that is not finite."""
    if depth > 4 or found is None or isinstance(found, (str, bytes, bool, int)):
        return
    if isinstance(found, (float, complex, np.generic)):
        if isinstance(found, (float, np.floating)) and not math.isfinite(found):
            raise Silent(f"{name} = {found}")
        return
    if isinstance(found, np.ndarray):
        if found.dtype.kind in "fc" and not np.isfinite(found).all():
            raise Silent(f"{name}: {np.count_nonzero(~np.isfinite(found))} of {found.size} entries are not finite")
        return
    if isinstance(found, Mapping):
        for key, value in found.items():
            look(value, f"{name}[{key!r:.30}]", depth + 1)
    elif isinstance(found, (list, tuple)):
        for i, value in enumerate(found):
            look(value, f"{name}[{i}]", depth + 1)
    elif type(found).__name__ in LOOKED:
        for field in LOOKED[type(found).__name__]:
            look(getattr(found, field, None), f"{name}.{field}", depth + 1)
    elif dataclasses.is_dataclass(found) and type(found).__module__.startswith("tplimits") and hasattr(found, "value"):
        look(found.value, f"{name}.value", depth + 1)
        look(getattr(found, "error", None), f"{name}.error", depth + 1)


#: numbers inside of results
LOOKED = {
    "Number": ("value", "error", "variance", "variance_error"),
    "TrainingRun": ("f", "stderr", "replicates", "grams", "kets"),
    "KernelPair": ("nngp", "ntk", "nngp_error", "ntk_error"),
    "NNGPAlone": ("nngp", "nngp_error"),
    "Prediction": ("mean", "covariance"),
    "Paths": ("V", "history"),
    "Recording": ("loss",),
    "Kurtosis": ("value", "error"),
}
