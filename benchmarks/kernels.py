"""NNGP and NTK of perceptrons beside Neural Tangents, in one run: CPU time, first call, memory, agreement.

Each measurement is a process of its own, the two sides in turn, in float64 with one thread, in CPU seconds; of later
calls the fastest counts.  The first call is everything from a network to numbers: derivation or tracing, compilation
with empty caches, evaluation.  Memory is the peak during a later call above what was resident before it, both kernels
included.

    python benchmarks/kernels.py [--quick] [--peer-only] [--peer .venv-peer/bin/python]

Prints a table and exits with 1 when a bound is broken; a full measurement is written to
benchmarks/results/kernels.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import record

HERE = Path(__file__).parent
ROUNDS, REPEATS = 3, 3
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


@dataclass(frozen=True)
class Job:
    """One network and data, and what is asked for: ratios peer/own of CPU time, of memory, of the first call."""

    name: str
    inputs: int
    depth: int
    activation: str = "relu"
    features: int = 784
    faster: float | None = None
    leaner: float | None = None
    sooner: float | None = None
    #: largest relative difference of the kernels: the peer's angle of an input with itself, or its quadrature, sets it
    apart: float = 1e-6


JOBS = (
    Job("relu, depth 20", 2000, 20, faster=8, leaner=10, sooner=1),
    Job("relu, depth 5", 2000, 5, faster=2),
    Job("tanh, depth 5", 500, 5, "tanh", faster=20, apart=2e-2),
)
#: own later calls at depths that double: what a layer costs must not grow
DEPTHS = tuple(Job(f"relu, depth {depth}", 2000, depth, features=8) for depth in (10, 20, 40, 80))
STEEPER = 1.25
QUICK = (Job("relu, depth 20", 200, 20), Job("tanh, depth 5", 50, 5, "tanh", apart=2e-2))


def measured(python: str, side: str, job: Job, repeats: int) -> dict[str, Any]:
    """One process of one side."""
    with tempfile.TemporaryDirectory() as empty:  # no compiled kernel from an earlier run
        caches = {"XDG_CACHE_HOME": empty, "NUMBA_CACHE_DIR": empty}
        done = subprocess.run(
            [python, "-W", "ignore", str(HERE / f"kernel_{side}.py"), json.dumps({**asdict(job), "repeats": repeats})],
            env={**os.environ, **ONE_THREAD, **caches},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{side}, {job.name}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def difference(own: dict[str, Any], peer: dict[str, Any]) -> float:
    """The largest relative difference of the corners of both kernels."""
    pairs = zip(own["corners"], peer["corners"], strict=True)
    return max(float(np.abs(np.divide(a, b) - 1).max()) for a, b in pairs)


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Fastest calls, smallest memory; the single numbers behind them."""
    again = [t for r in runs for t in r["again"]]
    memory = [r["peak extra MiB"] for r in runs if r["peak extra MiB"] is not None]
    return {
        "first": round(min(r["first"] for r in runs), 4),
        "again": round(min(again), 5),
        "peak extra MiB": min(memory) if memory else None,
        "outputs MiB": runs[0]["outputs MiB"],
        "all first": [round(r["first"], 4) for r in runs],
        "all again": [round(t, 5) for t in again],
    }


def ratios(job: Job, own: dict[str, Any], peer: dict[str, Any]) -> list[tuple[str, float, float | None]]:
    """(what, peer over own, bound)."""
    memory = (peer["peak extra MiB"] or 0) / max(own["peak extra MiB"] or 0, 0.1)
    return [
        ("CPU of a later call", peer["again"] / own["again"], job.faster),
        ("memory", memory, job.leaner),
        ("first call", peer["first"] / own["first"], job.sooner),
    ]


def judged(job: Job, own: list[dict[str, Any]], peer: list[dict[str, Any]]) -> tuple[dict[str, Any], bool]:
    """What is kept of a job, printed, and whether the bounds hold."""
    sides = {"own": summary(own), "peer": summary(peer)}
    apart = difference(own[0], peer[0])
    within, rows, content = apart <= job.apart, [], {"job": asdict(job), **sides, "largest relative difference": apart}
    for what, ratio, bound in ratios(job, sides["own"], sides["peer"]):
        good = bound is None or ratio >= bound
        within &= good
        content[f"{what}, peer over own"] = round(ratio, 2)
        rows.append([what, f"{ratio:.1f}", f"≥ {bound}" if bound else "", record.verdict(good) if bound else ""])
    print(f"\n{job.name}, N = {job.inputs}: kernels differ by {apart:.1e}, {record.verdict(apart <= job.apart)}")
    print(record.table(["", "peer/own", "asked", ""], rows))
    return content, within


def by_depth(rounds: int, repeats: int) -> tuple[dict[str, Any], bool]:
    """CPU nanoseconds of a layer for one pair between two depths, printed, and whether the cost is linear."""
    times = []
    for job in DEPTHS:
        times.append(summary([measured(sys.executable, "own", job, repeats) for _ in range(rounds)])["again"])
    pairs = DEPTHS[0].inputs * (DEPTHS[0].inputs + 1) / 2
    depths = [job.depth for job in DEPTHS]
    layer = [1e9 * (b - a) / pairs / (n - m) for a, b, m, n in zip(times, times[1:], depths, depths[1:], strict=False)]
    good = max(layer) <= STEEPER * min(layer)
    print(f"\nown time by depth, {DEPTHS[0].inputs} inputs with {DEPTHS[0].features} features")
    rows = [[str(d), f"{t:.3f}", f"{n:.1f}"] for d, t, n in zip(depths[1:], times[1:], layer, strict=True)]
    print(record.table(["depth", "CPU s", "ns a layer and pair"], rows))
    print(f"largest over smallest {max(layer) / min(layer):.2f}, asked ≤ {STEEPER}: {record.verdict(good)}")
    return {"depths": depths, "again": times, "ns a layer and pair": [round(x, 2) for x in layer]}, good


def main(arguments: Sequence[str]) -> int:
    """Measure, print, judge, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small inputs and no bounds: a look, not a measurement")
    parser.add_argument(
        "--peer-only", action="store_true", help="Neural Tangents alone, for a reference of this machine"
    )
    parser.add_argument("--peer", default=str(HERE.parent / ".venv-peer/bin/python"), help="its Python")
    options = parser.parse_args(arguments)
    jobs, rounds, repeats = (QUICK, 1, 2) if options.quick else (JOBS, ROUNDS, REPEATS)
    begun, content, within = time.time(), {}, True
    versions: dict[str, str] = {}
    for job in jobs:
        own, peer = [], []
        for _ in range(rounds):
            peer.append(measured(options.peer, "peer", job, repeats))
            if not options.peer_only:
                own.append(measured(sys.executable, "own", job, repeats))
        versions = peer[0]["versions"]
        if options.peer_only:
            content[job.name] = {"job": asdict(job), "peer": summary(peer)}
            print(job.name, json.dumps(content[job.name]["peer"]))
        else:
            content[job.name], good = judged(job, own, peer)
            within &= good
    if not (options.quick or options.peer_only):
        content["by depth"], good = by_depth(rounds, repeats)
        within &= good
    if not options.quick:
        name = "kernels_peer.json" if options.peer_only else "kernels.json"
        record.save(record.RESULTS / name, {"jobs": content, "peer": versions}, time.time() - begun)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
