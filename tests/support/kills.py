"""Runs that write files, killed by signal 9 at random moments and gone on with; run as a script, or `make kills`.

`python kills.py FOLDER SEED MOMENTS [SUBJECT…]` prints a line of JSON for each subject: at how many moments the run was
not through, in how many different states it left its file, and at which of them the numbers and files that came in the
end were not those of a run that nobody killed.  Each run is a fork of this process, which has imported everything.
Gram matrices, whose workers are killed too, have `killing.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from attack.subjects import feature
from watched import X, deep, inputs

import tplimits as tp
from tplimits.numbers.loops import machine
from tplimits.watch import watching

HOW = {"error": tp.squared_error(inputs(4, 3, seed=1)), "optimizer": tp.Adam(eps=0.01), "lr": 0.02}


@dataclass(frozen=True)
class Subject:
    """A run, from its folder to what it gives, which has to come again to the bit."""

    name: str
    run: Callable[[Path], bytes]
    #: whether this process runs it first, so that forks need not compile
    once: bool = True


def checkpoint(folder: Path) -> bytes:
    """A feature-learning limit of many steps and two replicates, with its checkpoint."""
    asked = {"steps": 200, "particles": 512, "replicates": 2, "seed": 0, "lr": 0.1}
    inputs_of, targets = np.eye(3, 2), np.array([1.0, -1.0, 0.5])
    found = feature().evaluate(inputs_of, error=tp.squared_error(targets), checkpoint=folder / "run.npz", **asked)
    return np.asarray(found.f).tobytes()


def recording(folder: Path) -> bytes:
    """A recording of one width and its limit."""
    tp.watch(deep, X[:4], path=folder / "run.npz", widths=(6, tp.inf), steps=3, particles=512, replicates=2, **HOW)
    return (folder / "run.npz").read_bytes()


def compilation(folder: Path) -> bytes:
    """Functions that are compiled, kept and read again."""
    os.environ["TPLIMITS_CACHE"] = str(folder)
    for each in range(6):
        body = "\n".join(f"  %x{k} = fmul double %x{k - 1}, 0x3FF{each:X}000000000000" for k in range(1, 400))
        machine.compiled(f"define double @own{each}(double %x0) {{\nentry:\n{body}\n  ret double %x399\n}}\n")
    kept = sorted(folder.glob("*.o"))
    return b"".join(hashlib.sha256(p.read_bytes()).digest() for p in kept)


SUBJECTS = (
    Subject("checkpoint", checkpoint),
    Subject("recording", recording),
    Subject("compilation", compilation, once=False),
)


def begun(subject: Subject, folder: Path) -> int:
    """A run in a process of its own, which leaves what it found in a file beside its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    child = os.fork()
    if not child:
        status = 1
        try:
            found = subject.run(folder)
            (folder.parent / f"{folder.name}.found").write_bytes(found)
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(status)
    return child


def ended(child: int) -> int:
    """The exit status of a run."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def state(folder: Path) -> str:
    """What lies in a folder, as a digest."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(path.name.encode() + (path.read_bytes() if path.is_file() else b""))
    return found.hexdigest()


def left(folder: Path) -> list[str]:
    """Names of what a run leaves; new files that a compilation had not yet given a name stay, and nobody reads them."""
    return sorted(p.name for p in folder.iterdir() if p.suffix != ".tmp")


def attacked(subject: Subject, base: Path, moments: int, rng: random.Random) -> dict[str, object]:
    """One line: the subject's runs, killed and gone on with, beside one that was left alone."""
    whole = base / subject.name / "whole"
    if subject.once:
        (base / "once").mkdir(parents=True)
        subject.run(base / "once")
        shutil.rmtree(base / "once")
    # the first run reads libraries from the disk, which takes longer than the run: moments are those of the second
    for folder in (whole.parent / "first", whole):
        start = time.monotonic()
        assert ended(begun(subject, folder)) == 0
        took = time.monotonic() - start
    expected = (whole.parent / "whole.found").read_bytes()
    cut, states, wrong = 0, set(), []
    for moment in range(moments):
        folder = base / subject.name / str(moment)
        child = begun(subject, folder)
        time.sleep(rng.uniform(0, took))
        os.kill(child, signal.SIGKILL)
        cut += ended(child) == -signal.SIGKILL
        states.add(state(folder))
        status = ended(begun(subject, folder))
        found = folder.parent / f"{folder.name}.found"
        if status or found.read_bytes() != expected or left(folder) != left(whole):
            wrong.append([moment, status, left(folder)])
        else:
            shutil.rmtree(folder)
    return {
        "subject": subject.name,
        "seconds": took,
        "moments": moments,
        "cut": cut,
        "states": len(states),
        "wrong": wrong,
    }


if __name__ == "__main__":
    watching._SHARE = 0  # recordings are written at every frame
    place, seed, many = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for each in [s for s in SUBJECTS if s.name in (sys.argv[4:] or s.name)]:
        print(json.dumps(attacked(each, place, many, random.Random(seed))), flush=True)
