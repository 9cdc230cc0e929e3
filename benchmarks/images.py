"""NNGP and NTK of convolutions, pools and attention: first and later calls, memory, beside figures of Neural Tangents.

Each row is two fresh processes with one thread, in CPU seconds: one with empty caches (the first call, from data to
numbers, without imports and derivation), one in which loops are compiled and kept, and then its first and later calls.
Memory is the peak of that second process above what was resident before its first call.  The figures of Neural
Tangents 0.6.5 are later calls of its better mode in float64, measured once on an AMD EPYC with AVX-512; this script
does not run it (`make bench-kernels` does, for perceptrons).

    python benchmarks/images.py [--quick]

A measurement is written to benchmarks/results/images.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import kernel_clock as clock
import numpy as np
import record

import tplimits as tp
from tplimits.regimes.kernels.numbers import plan  # and with it what a first call would import

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
#: name, network, size of an image or number of tokens, channels, inputs, a later call of the peer in seconds
ROWS: tuple[tuple[str, str, int, int, int, float | None], ...] = (
    ("4 conv + Flatten 16×16×3", "flat4", 16, 3, 8, 0.0010),
    ("4 conv + Flatten 16×16×3", "flat4", 16, 3, 32, 0.0278),
    ("4 conv + Flatten 32×32×3", "flat4", 32, 3, 8, 0.0046),
    ("4 conv + Flatten 32×32×3", "flat4", 32, 3, 32, 0.115),
    ("2 conv + Flatten 8×8", "flat2", 8, 1, 40, 0.0032),
    ("2 conv + Flatten 8×8", "flat2", 8, 1, 200, 0.140),
    ("2 conv + Flatten 8×8", "flat2", 8, 1, 1797, None),
    ("Myrtle-5, global pooling 16×16×3", "myrtle", 16, 3, 8, 0.375),
    ("Myrtle-5, global pooling 32×32×3", "myrtle", 32, 3, 4, 2.01),
    ("transformer, 2 blocks, 64 tokens", "transformer", 64, 8, 20, 0.21),
)
QUICK = (ROWS[0], ROWS[4])


def taps(side: int) -> np.ndarray:
    """The place that each of 3 × 3 taps reads at each place of a square image; −1 is outside."""
    padded = np.pad(np.arange(side * side).reshape(side, side), 1, constant_values=-1)
    return np.array([padded[i : i + side, j : j + side].ravel() for i in range(3) for j in range(3)])


def pool(side: int) -> np.ndarray:
    """The four places of each block of 2 × 2."""
    places = np.arange(side * side).reshape(side // 2, 2, side // 2, 2)
    return places.transpose(1, 3, 0, 2).reshape(4, -1)


def flat(side: int, layers: int) -> tp.Program:
    """Convolutions and a readout of every place."""
    places = taps(side)

    @tp.network
    def net(
        ξ: tp.Input["d", "at"],
        U: tp.Vector["d", "tap"],
        W: tp.Matrix["n", "n", "tap", "layer"],
        v: tp.Vector["at"],
    ):
        x = tp.relu(tp.sum(U * ξ.take(at=places, axes=("tap", "at")), over=("d", "tap")))
        for k in range(layers - 1):
            x = tp.relu(tp.sum(W.sel(layer=k) @ x.take(at=places, axes=("tap", "at")), over="tap") * tp.sqrt(2) / 3)
        return tp.sum(v * x, over="at") / tp.sqrt(tp.size("at"))

    return net.bind(at=side * side, layer=layers - 1)


def myrtle(side: int) -> tp.Program:
    """Two convolutions, two more each behind a pool of 2 × 2, a pool and the mean over what is left."""
    sides = [side, side // 2, side // 4]
    at = [taps(s) for s in sides]
    blocks = [pool(s) for s in sides]

    @tp.network
    def net(
        ξ: tp.Input["d", "a0"],
        U: tp.Vector["d", "tap"],
        W: tp.Matrix["n", "n", "tap", "layer"],
        v: tp.Vector,
    ):
        c = tp.sqrt(2) / 3
        x = tp.relu(c * tp.sum(U * ξ.take(a0=at[0], axes=("tap", "a0")), over=("d", "tap")))
        x = tp.relu(c * tp.sum(W.sel(layer=0) @ x.take(a0=at[0], axes=("tap", "a0")), over="tap"))
        x = tp.mean(x.take(a0=blocks[0], axes=("of", "a1")), over="of")
        x = tp.relu(c * tp.sum(W.sel(layer=1) @ x.take(a1=at[1], axes=("tap", "a1")), over="tap"))
        x = tp.mean(x.take(a1=blocks[1], axes=("of", "a2")), over="of")
        x = tp.relu(c * tp.sum(W.sel(layer=2) @ x.take(a2=at[2], axes=("tap", "a2")), over="tap"))
        x = tp.mean(x.take(a2=blocks[2], axes=("of", "a3")), over="of")
        return v * tp.mean(x, over="a3")

    return net.bind(a0=side * side, layer=3)


def transformer(tokens: int) -> tp.Program:
    """Two blocks of softmax attention at 1/n and a hidden layer, both residual with RMS norms, and a mean of tokens."""

    @tp.network
    def net(
        ξ: tp.Input["d", "token"],
        U: tp.Vector["d"],
        Q: tp.Matrix["n", "n", "block"],
        V: tp.Matrix["n", "n", "block"],
        W: tp.Matrix["n", "n", "block"],
        v: tp.Vector,
    ):
        x = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))
        for b in range(2):
            y = x / tp.sqrt(tp.avg(x * x))
            q = Q.sel(block=b) @ y
            A = tp.softmax(tp.avg(q * q.rename(token="key")), over="key")
            x = x + tp.sum(A * (V.sel(block=b) @ y).rename(token="key"), over="key")
            x = x + tp.relu(W.sel(block=b) @ (x / tp.sqrt(tp.avg(x * x))))
        return v * tp.mean(x, over="token")

    return net.bind(token=tokens, block=2)


NETWORKS: dict[str, Callable[[int], tp.Program]] = {
    "flat4": lambda side: flat(side, 4),
    "flat2": lambda side: flat(side, 2),
    "myrtle": myrtle,
    "transformer": transformer,
}


def worker(job: dict[str, Any]) -> dict[str, Any]:
    """One process: calls, and memory."""
    limit = tp.derive(NETWORKS[job["network"]](job["size"]), tp.Kernels())
    places = job["size"] if job["network"] == "transformer" else job["size"] ** 2
    X = np.random.default_rng(0).standard_normal((job["inputs"], job["channels"], places))
    plan._WORTHWHILE = 0.0 if job["compile"] else plan._WORTHWHILE
    known, before = clock.forget_peak(), clock.resident()
    times = []
    for _ in range(1 + job["repeats"]):
        begun = time.process_time()
        found = limit.evaluate(X, progress=False)
        times.append(time.process_time() - begun)
    peak = round((clock.peak() - before) / 2**20, 1) if known else None
    del found
    return {"first": times[0], "again": min(times[1:], default=times[0]), "peak MiB": peak}


def measured(row: tuple[str, str, int, int, int, float | None], repeats: int) -> dict[str, Any]:
    """Both processes of a row, and one between that fills the cache."""
    _, network, size, channels, inputs, _ = row
    job = {"network": network, "size": size, "channels": channels, "inputs": inputs, "repeats": 0, "compile": False}
    with tempfile.TemporaryDirectory() as empty:
        caches = {"XDG_CACHE_HOME": empty, "TPLIMITS_CACHE": f"{empty}/tplimits", "NUMBA_CACHE_DIR": f"{empty}/numba"}

        def run(**changes: Any) -> dict[str, Any]:
            done = subprocess.run(
                [sys.executable, __file__, "--worker", json.dumps({**job, **changes})],
                env={**os.environ, **ONE_THREAD, **caches},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise SystemExit(f"{row[0]}: {done.stderr.strip()[-2000:]}")
            answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
            return answer

        cold = run(repeats=min(repeats, 1))
        compiling = run(compile=True)
        warm = run(compile=True, repeats=repeats)
    return {"cold": cold, "compiling": compiling, "warm": warm}


def main(arguments: Sequence[str]) -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two small rows: a look, not a measurement")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        print(json.dumps(worker(json.loads(options.worker))))
        return 0
    begun, rows, content = time.time(), [], []
    for row in QUICK if options.quick else ROWS:
        found = measured(row, 5 if row[4] < 1000 else 1)
        peer = row[5]
        content.append({"row": row, **found})
        shown = [found["cold"]["first"], found["cold"]["again"], found["warm"]["first"], found["warm"]["again"]]
        ratio = f"{peer / found['warm']['again']:.1f}" if peer else ""
        memory = f"{found['warm']['peak MiB']}"
        rows.append([row[0], str(row[4]), *(f"{t:.4f}" for t in shown), memory, f"{peer or ''}", ratio])
        print(rows[-1], flush=True)
    heading = ["network", "inputs", "first, cold", "arrays", "first, warm", "loops", "MiB", "peer, later", "peer/own"]
    print(record.table(heading, rows))
    if not options.quick:
        record.save(record.RESULTS / "images.json", {"rows": content}, time.time() - begun)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
