"""Many different programs in one process: what it holds after a while stays; run as a script.

`python soak.py COUNT SETTLED` prints JSON: megabytes in use after SETTLED programs and after all of them.  No two are
alike: numbers, functions and shapes of a program come from its place in the row.  Every tenth is compiled by Numba.
"""

from __future__ import annotations

import gc
import json
import random
import sys
from pathlib import Path

import numpy as np

import tplimits as tp

FUNCTIONS = ("relu", "tanh", "erf", "sin", "gelu", "abs", "sigmoid")
X = np.array([[1.0, 0.3], [-0.2, 0.8]])


def one(number: int) -> None:
    """Derive and evaluate program number so many."""
    rng = random.Random(number)
    f, g = (getattr(tp, rng.choice(FUNCTIONS)) for _ in range(2))
    a, b = round(rng.uniform(0.2, 2), 6), round(rng.uniform(-1, 1), 6)

    def width(W: tp.Matrix, x: tp.Vector):
        h = f(a * (W @ x) + b)
        return tp.avg(x * (W.T @ h)), tp.avg(h * h)

    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * f(a * (W @ g(tp.sum(U * ξ, over="d"))))

    def pairs(x: tp.Vector):
        β = tp.neuron("β")
        return tp.avg(tp.avg(f(a * x * x[β] + b), over=β))

    if number % 10 == 9:
        tp.derive(tp.program(pairs)).evaluate("particles", particles=32, replicates=2)
    elif number % 2:
        tp.derive(tp.network(network), tp.Kernels()).evaluate(X)
    else:
        tp.derive(tp.program(width)).evaluate("auto", particles=64, replicates=2)


def megabytes() -> float:
    """Resident memory, after what nothing holds has gone."""
    gc.collect()
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def soaked(count: int, settled: int) -> dict[str, float]:
    """Megabytes after some programs and after all."""
    found = {}
    for number in range(count):
        one(number)
        if number + 1 in (settled, count) or (number + 1) % 500 == 0:
            found[str(number + 1)] = round(megabytes(), 1)
    return found


if __name__ == "__main__":
    print(json.dumps(soaked(int(sys.argv[1]), int(sys.argv[2]))))
