"""Powers of n in networks that blow up: standard parametrization, rates that do not fall, several steps of training.

Networks are written out here: forward, backward, SGD and sign descent.  The error signal is −1 at every step, so that
f grows as fast as the powers tell: under a loss that f reaches, or where all ReLUs have closed, it stops instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import tplimits as tp

Array = numpy.ndarray[Any, Any]
Pair = tuple[Callable[[Array], Array], Callable[[Array], Array]]
RELU: Pair = (lambda h: numpy.maximum(h, 0), lambda h: 1.0 * (h > 0))
TANH: Pair = (numpy.tanh, lambda h: 1 - numpy.tanh(h) ** 2)
WIDTHS, STEPS, RATE = (256, 512, 1024, 2048), 3, 3.0


def moves(n: int, seed: int, layers: int, pair: Pair, residual: bool, signs: bool) -> list[tuple[float, float]]:
    """How far f and the last features have moved after each step."""
    rng, (phi, slope) = numpy.random.default_rng(seed), pair
    u, v = rng.standard_normal(n), rng.standard_normal(n) / n**0.5
    matrices = [rng.standard_normal((n, n)) / n**0.5 for _ in range(layers)]
    found, start = [], None
    for _ in range(STEPS + 1):
        h, x = [u], [phi(u)]
        for W in matrices:
            h.append(W @ x[-1])
            x.append(phi(h[-1]) + residual * x[-1])
        if start is None:
            start = (v @ x[-1], x[-1])
        else:
            found.append((abs(v @ x[-1] - start[0]), float(numpy.sqrt(numpy.mean((x[-1] - start[1]) ** 2)))))
        step = numpy.sign if signs else lambda g: g
        dx, dv, updates = v, x[-1], []
        for W, below, here in zip(matrices[::-1], x[-2::-1], h[:0:-1], strict=True):
            dh = dx * slope(here)
            updates.append(step(numpy.outer(dh, below)))
            dx = W.T @ dh + residual * dx
        u, v = u + RATE * step(dx * slope(h[0])), v + RATE * step(dv)
        matrices = [W + RATE * g for W, g in zip(matrices, updates[::-1], strict=True)]
    return found


def network(layers: int, phi: Callable[[Any], Any], residual: bool) -> Any:
    @tp.network
    def two(ξ: tp.Input["d"], U: tp.Vector["d"], V: tp.Matrix, W: tp.Matrix, v: tp.Vector):
        x = phi(tp.sum(U * ξ, over="d"))
        if layers > 1:
            x = phi(V @ x) + x if residual else phi(V @ x)
        if layers > 0:
            x = phi(W @ x) + x if residual else phi(W @ x)
        return v * x + (0 * v * (V @ x) if layers < 2 else 0)

    return two


CASES: dict[str, tuple[int, Pair, Any, bool, bool]] = {
    "relu, SGD": (0, RELU, tp.relu, False, False),
    "one matrix, relu, SGD": (1, RELU, tp.relu, False, False),
    "one matrix, tanh, SGD": (1, TANH, tp.tanh, False, False),
    "two matrices, relu, SGD": (2, RELU, tp.relu, False, False),
    "residual, relu, SGD": (1, RELU, tp.relu, True, False),
    "one matrix, relu, signs": (1, RELU, tp.relu, False, True),
    "two matrices, relu, signs": (2, RELU, tp.relu, False, True),
    "two matrices, tanh, signs": (2, TANH, tp.tanh, False, True),
    "residual, relu, signs": (1, RELU, tp.relu, True, True),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_unstable_networks_grow_as_is_counted(name: str) -> None:
    layers, pair, phi, residual, signs = CASES[name]
    counted = tp.classify(network(layers, phi, residual), tp.SP, tp.SignSGD() if signs else tp.SGD())
    assert counted.regime == "unstable"
    logs = [[numpy.log(moves(n, seed, layers, pair, residual, signs)) for seed in range(4)] for n in WIDTHS]
    slopes = numpy.polyfit(numpy.log(WIDTHS), numpy.mean(logs, axis=1).reshape(len(WIDTHS), -1), 1)[0]
    told = [float(counted.powers(t)[k]) for t in range(1, STEPS + 1) for k in ("f", "what v reads")]
    off, within = slopes - told, 0.15 + 0.03 * numpy.abs(told)
    # an odd function that saturates at once forgets the sign of what its readout moved by: there n is a bound
    first = 1 if pair is TANH else 0
    assert (numpy.abs(off) < within)[first:].all() and off[0] < within[0]
    assert (numpy.abs(off - 0.5) > within)[:4].all()  # a power that is half of one larger is told from it
