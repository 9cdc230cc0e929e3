"""What both sides of the comparison of kernels share: the data, the clock, memory, and the form of the answer.

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

import numpy as np

WEIGHT, BIAS = 1.5, 0.25
#: rows and columns of both kernels that are handed over for comparison
CORNER = 8


def data(inputs: int, features: int) -> np.ndarray:
    """Standard normal inputs, the same on both sides."""
    return np.random.default_rng(0).standard_normal((inputs, features))


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


def timed(call: Callable[[], tuple[Any, Any]]) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
    """CPU seconds of all threads of this process, and both kernels."""
    begun = time.process_time()
    nngp, ntk = call()
    nngp, ntk = np.asarray(nngp), np.asarray(ntk)  # waits for work under way
    return time.process_time() - begun, (nngp, ntk)


def measure(prepare: Callable[[], Callable[[], tuple[Any, Any]]], repeats: int) -> dict[str, Any]:
    """The first call, from nothing to numbers; later ones; memory of a later one, both kernels included."""
    begun = time.process_time()
    call = prepare()
    first, kernels = timed(call)
    first = time.process_time() - begun
    corners = [k[:CORNER, :CORNER].tolist() for k in kernels]
    del kernels
    again = [timed(call)[0] for _ in range(repeats)]
    known, before = forget_peak(), resident()
    _, kernels = timed(call)
    return {
        "first": first,
        "again": again,
        "peak extra MiB": round((peak() - before) / 2**20, 1) if known else None,
        "outputs MiB": round(sum(k.nbytes for k in kernels) / 2**20, 1),
        "corners": corners,
    }


def run(prepare: Callable[[dict[str, Any]], Callable[[], tuple[Any, Any]]], versions: dict[str, str]) -> None:
    """Answer the job given as JSON on the command line."""
    job = json.loads(sys.argv[1])
    found = measure(lambda: prepare(job), job["repeats"])
    print(json.dumps({**found, "versions": versions}))
