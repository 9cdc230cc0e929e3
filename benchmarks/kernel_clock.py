"""What both sides of the comparison of kernels share: the clock, memory, and the form of the answer.

Imports nothing but NumPy and the standard library, so that it runs in either environment.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kernel_rows
import numpy as np

#: rows and columns of both kernels that are handed over for comparison
CORNER = 8
#: later calls are at least as many as asked for, and up to so many while they take less than so many seconds in all
OFTEN, BRIEF = 200, 0.5
#: both kernels, by a function that is called again and again
Call = Callable[[], tuple[Any, Any]]


def resident() -> int:
    """Bytes in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def forget_peak() -> bool:
    """Let the peak of memory start again from here; whether the system does that."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return peak() - resident() < 32 << 20


def peak() -> int:
    """The most bytes in memory so far, or since forget_peak()."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def timed(call: Call) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
    """CPU seconds of all threads of this process, and both kernels."""
    begun = time.process_time()
    nngp, ntk = call()
    nngp, ntk = np.asarray(nngp), np.asarray(ntk)  # waits for work under way
    return time.process_time() - begun, (nngp, ntk)


def measure(prepare: Callable[[], Call], repeats: int) -> dict[str, Any]:
    """What comes before the first call, the first call, later ones; the peak of memory of all of them."""
    known, before = forget_peak(), resident()
    begun = time.process_time()
    call = prepare()
    prepared = time.process_time() - begun
    first, kernels = timed(call)
    corners = [k[:CORNER, :CORNER].astype(float).tolist() for k in kernels]
    outputs = sum(k.nbytes for k in kernels)
    del kernels
    again = [timed(call)[0] for _ in range(repeats)]
    while again and len(again) < OFTEN and sum(again) < BRIEF:  # short calls are what the first ones are not
        again.append(timed(call)[0])
    return {
        "prepare": prepared,
        "first": first,
        "again": again,
        "peak MiB": round((peak() - before) / 2**20, 1) if known else None,
        "outputs MiB": round(outputs / 2**20, 1),
        "corners": corners,
    }


def run(prepare: Callable[[kernel_rows.Row, dict[str, Any]], Call], versions: dict[str, str]) -> None:
    """Answer the row and the job given as JSON on the command line."""
    row, job = kernel_rows.Row(**json.loads(sys.argv[1])), json.loads(sys.argv[2])
    print(json.dumps({**measure(lambda: prepare(row, job), job["repeats"]), "versions": versions}))
