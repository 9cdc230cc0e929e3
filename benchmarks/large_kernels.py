"""What Gram matrices of many images cost: measured for a pair on one core, reckoned for 50 000 images on 100 machines.

python benchmarks/large_kernels.py [--inputs 50000] [--machines 100] [--cores 16]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import record
import threadpoolctl

import tplimits as tp

L = tp.layers


def place(side: int) -> dict[str, tuple[int, int]]:
    """An image row by row on one axis."""
    return {"at": (side, side)}


@tp.network
def four_convolutions(
    ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap", "layer"], v: tp.Vector["at"]
):
    x = tp.relu(L.conv2d(ξ, U, over=place(32), taps={"tap": (3, 3)}) / tp.sqrt(9 * tp.size("d")))
    for layer in range(3):
        x = tp.relu(tp.sqrt(2) * L.conv2d(x, W.sel(layer=layer), over=place(32), taps={"tap": (3, 3)}) / 3)
    return tp.sum(v * x, over="at") / 32


@tp.network
def pooled(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap", "layer"], v: tp.Vector):
    x = tp.relu(L.conv2d(ξ, U, over=place(32), taps={"tap": (3, 3)}) / tp.sqrt(9 * tp.size("d")))
    for layer in range(3):
        x = tp.relu(tp.sqrt(2) * L.conv2d(x, W.sel(layer=layer), over=place(32), taps={"tap": (3, 3)}) / 3)
    return v * tp.mean(x, over="at")


#: networks, and inputs of a Gram matrix that takes seconds, enough of them for single precision
NETWORKS = {
    "4 convolutions, readout of every position": (four_convolutions.bind(layer=3), 64),
    "4 convolutions, average over positions": (pooled.bind(layer=3), 33),
}


def seconds(network: tp.Program, many: int, dtype: type) -> float:
    """Of one pair, in CPU time of one thread; the second call, when loops are compiled."""
    limit = tp.derive(network, tp.Kernels())
    data = np.random.default_rng(0).standard_normal((many, 3, 1024)).astype(dtype)
    with threadpoolctl.threadpool_limits(1):
        for _ in range(2):
            start = time.process_time()
            limit.evaluate(data, progress=False)
            taken = time.process_time() - start
    return taken / (many * (many + 1) / 2)


def main() -> None:
    """Print a row for each network and precision; of the usual sizes they are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    usual = {"inputs": 50_000, "machines": 100, "cores": 16}
    for name, default in usual.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    begun = time.time()
    pairs, cores = asked.inputs * (asked.inputs + 1) / 2, asked.machines * asked.cores
    rows = []
    for name, (network, many) in NETWORKS.items():
        for dtype in (np.float64, np.float32):
            pair = seconds(network, many, dtype)
            hours = pairs * pair / 3600
            each = f"{1e6 * pair:.2g} µs" if pair < 1e-3 else f"{1e3 * pair:.2g} ms"
            whole = _written(3600 * hours / cores)
            rows.append([name, np.dtype(dtype).name, each, f"{float(f'{hours:.2g}'):g}", whole])
    head = ["network, images 32×32×3", "data", "a pair, one core", f"core hours, {asked.inputs} images"]
    print(record.table([*head, f"{asked.machines} × {asked.cores} cores"], rows))
    if vars(asked) == usual:
        record.save(record.RESULTS / "large_kernels.json", {"table": rows}, time.time() - begun)


def _written(time: float) -> str:
    return f"{time:.2g} s" if time < 100 else f"{time / 60:.2g} min" if time < 6000 else f"{time / 3600:.2g} h"


if __name__ == "__main__":
    main()
