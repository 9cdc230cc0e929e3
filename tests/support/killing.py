"""Runs of a Gram matrix that are killed by signal 9 at random moments, and gone on with; run as a script.

`python killing.py FOLDER SEED MOMENTS` prints JSON: for each moment what was killed, the tiles that were complete,
those computed in all, whether the arrays are those of a run that nobody killed, and how many workers outlived it.
Everything is imported once; each run is a fork of this process that forks its pool.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np

import tplimits as tp
from tplimits.regimes.kernels.numbers import grams, job
from tplimits.regimes.kernels.numbers.request import squares

WORKERS = 2
X = np.random.default_rng(0).standard_normal((32, 2, 16))
TAPS = np.array([[-1, *range(15)], range(16), [*range(1, 16), -1]])


@tp.network
def convolution(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector["at"]):
    x = tp.relu(tp.sum(U * ξ.take(at=TAPS, axes=("tap", "at")), over=("d", "tap")))
    y = tp.relu(tp.sum(W @ x.take(at=TAPS, axes=("tap", "at")), over="tap"))
    return tp.sum(v * y, over="at") / 4


LIMIT = tp.derive(convolution, tp.Kernels())


class LoggedJob(job.Job):
    """Tiles of a few inputs, each written down when it begins."""

    log: Path

    @property
    def places(self):
        """Squares of 4 × 4 inputs."""
        return list(squares(len(X), len(X), True, 4))

    def tile(self, number):
        """One tile."""
        with open(LoggedJob.log, "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
        return super().tile(number)


def run(folder: Path) -> int:
    """A run in a process of its own, the first of a group; its number."""
    child = os.fork()
    if not child:
        status = 1
        os.setpgid(0, 0)
        # a worker that is left would keep the reader of our answer waiting; and a broken pool has much to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        try:
            executor = ProcessPoolExecutor(WORKERS)
            LIMIT.evaluate(X, out=folder, executor=executor)
            status = 0
        except tp.EvaluationError as error:
            status = 3 if "gave up" in str(error) else 4
        finally:
            left(executor)
            os._exit(status)
    with suppress(PermissionError, ProcessLookupError):  # the child has done so itself
        os.setpgid(child, child)
    return child


def left(executor: ProcessPoolExecutor) -> None:
    """Leave a pool without waiting for it.

    A worker that is killed while it takes work from the queue keeps the queue's lock for ever, and a pool that is shut
    down then waits for the others, which wait for the lock: the standard library has no way out of this.
    """
    executor.shutdown(wait=False)
    for waiting in alive(children(os.getpid()), 20):
        os.kill(waiting, signal.SIGKILL)


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                if int((place / "stat").read_text().rsplit(")", 1)[1].split()[1]) == process:
                    found.append(int(place.name))
            except (OSError, IndexError):  # it ended meanwhile
                continue
    return found


def tiles(folder: Path) -> int:
    """How many are complete."""
    return sum(1 for _ in folder.glob("tile-*.npz"))


def alive(processes: list[int], looks: int = 200) -> list[int]:
    """Those that run after so many hundredths of a second."""
    for _ in range(looks):
        processes = [p for p in processes if Path(f"/proc/{p}").exists()]
        if not processes:
            break
        time.sleep(0.01)
    return processes


def ended(child: int) -> int:
    """The exit status of a run."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def cleared(group: int) -> None:
    """Kill what is left of a run: workers that its end met before they took work wait for ever, and nobody knows them.

    That is how process pools are; one that is forked after its parent was last looked at has no other name than this.
    """
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def reached(child: int, begun: int) -> None:
    """Wait until so many tiles have begun: seconds would be other moments on a machine with more to do."""
    while len(logged()) < begun and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(0.0005)


def killed(place: Path, begun: int, after: float, parent: bool) -> dict[str, object]:
    """One run that is killed some seconds after so many tiles have begun, and gone on with until it is complete."""
    folder, LoggedJob.log = place / "gram", place / "log"
    place.mkdir()
    child = run(folder)
    reached(child, begun)
    time.sleep(after)
    pool = children(child)
    victim = child if parent or not pool else pool[0]
    os.kill(victim, signal.SIGKILL)  # one that is through still waits to be asked for its status
    status, working = ended(child), set(logged())
    outlived = alive([p for p in pool if p in working])
    cleared(child)
    complete, computed = tiles(folder), len(logged())
    resumed = run(folder)
    again = ended(resumed)
    cleared(resumed)
    return {
        "parent": victim == child,
        "status": status,
        "again": again,
        "complete": complete,
        "computed": computed,
        "in_all": len(logged()),
        "same": [np.array_equal(a, b) for a, b in zip(tp.load_kernels(folder), WHOLE, strict=True)],
        "files": sorted(p.name for p in folder.iterdir()),
        "left": len(outlived),
    }


def logged() -> list[int]:
    """The processes that began the tiles so far."""
    return [int(p) for p in LoggedJob.log.read_text(encoding="utf-8").split()] if LoggedJob.log.exists() else []


if __name__ == "__main__":
    base, rng, moments = Path(sys.argv[1]), np.random.default_rng(int(sys.argv[2])), int(sys.argv[3])
    grams.Job = LoggedJob
    LoggedJob.log = base / "log"
    start = time.monotonic()
    assert ended(run(base / "whole")) == 0
    took, many = time.monotonic() - start, len(logged())
    WHOLE, tile = tp.load_kernels(base / "whole"), took / many
    drawn = [(int(rng.integers(many)), float(rng.uniform(0, 2 * tile))) for _ in range(moments)]
    found = [killed(base / str(i), *moment, i % 2 == 0) for i, moment in enumerate(drawn)]
    print(json.dumps({"tiles": many, "seconds": took, "runs": found}))
