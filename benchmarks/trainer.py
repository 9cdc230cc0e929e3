"""Compiled training beside loops fused by hand, in one run: the paper's head, and its limit.

    python benchmarks/trainer.py

The hand-written side is the limit step of the head of `tplimits.zoo.networks.sparse_modular_addition` as two Numba
loops over inputs and particles, forward with its means and backward with its gradients; the rest of it, which costs
nothing beside them, is left out.  Asked are CPU seconds (`time.process_time`, the best of five): a step of 256 inputs
and 4096 particles within twice the loops by hand, 64 000 Adam steps with batches of 32 and 1001 copies of the
parameters within 1.5 s, and a step on the whole population within 2 ms.  The same run by `tp.watch`, the second time,
looks at the loss and the accuracy of all 2048 inputs in every frame, and by default at norms of gradients, which are
another pass: within 1.5 s, too, whether the readout is written as a mean and what is added to it, as here, or as one
sum, as in the zoo's program of this network.
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Callable

import numpy
from numba import njit

import tplimits as tp
from tplimits.regimes.training.trainer.trainer import Trainer
from tplimits.zoo.networks.sparse_modular_addition import sparse_modular_addition

TOKENS, PREFIX, WIDTH = 12, 5, 32


@tp.network
def head(
    x: tp.Input["token"].of("vocab"),
    E: tp.Scalar["vocab", "d"],
    P: tp.Scalar["token", "d"],
    q: tp.Scalar["d"],
    V: tp.Scalar["e", "d"],
    c: tp.Scalar["e"],
    w: tp.Vector["e"],
    b: tp.Vector,
    u: tp.Vector["e"],
):
    y = E + P
    Z = y / tp.sqrt(tp.sum(y * y, over="d"))
    attention = tp.softmax(tp.sum(Z * q, over="d").sel(vocab=x), over="token")
    ξ = tp.sum(attention * tp.sum(Z * V, over="d").sel(vocab=x), over="token")
    unit = ξ / tp.sqrt(tp.sum(ξ * ξ, over="e"))
    hidden = tp.gelu(tp.sum(w * unit, over="e") + b)
    rows = E.rename(d="e", vocab="v")
    return tp.readout(WIDTH * tp.sum(rows * u, over="e") * hidden) + tp.sum(rows * (ξ + c), over="e")


head = head.bind(token=TOKENS, d=2, vocab=3, e=2, v=3)


@njit(error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def by_hand(unit, w, b, u, chi, hidden, slope, means, back, dw, db, du):
    """ψ's mean for every input, then the gradients of w, b, u and of the unit vectors."""
    inputs, particles = unit.shape[0], b.shape[0]
    for m in range(inputs):
        first, second = 0.0, 0.0
        for k in range(particles):
            z = w[0, k] * unit[m, 0] + w[1, k] * unit[m, 1] + b[k]
            normal = 0.5 * math.erfc(-z * 0.7071067811865476)
            hidden[m, k] = z * normal
            slope[m, k] = normal + z * 0.3989422804014327 * math.exp(-0.5 * z * z)
            first += u[0, k] * hidden[m, k]
            second += u[1, k] * hidden[m, k]
        means[m, 0], means[m, 1] = first / particles, second / particles
    dw[:], db[:], du[:] = 0.0, 0.0, 0.0
    for m in range(inputs):
        first, second = 0.0, 0.0
        for k in range(particles):
            g = (chi[m, 0] * u[0, k] + chi[m, 1] * u[1, k]) * slope[m, k]
            du[0, k] += chi[m, 0] * hidden[m, k]
            du[1, k] += chi[m, 1] * hidden[m, k]
            dw[0, k] += g * unit[m, 0]
            dw[1, k] += g * unit[m, 1]
            db[k] += g
            first += g * w[0, k]
            second += g * w[1, k]
        back[m, 0], back[m, 1] = first / particles, second / particles


def clocked(work: Callable[[], object], repeats: int = 5) -> float:
    """CPU seconds of the fastest of some calls."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def hand_step(inputs: int, particles: int) -> float:
    """CPU seconds of the loops by hand."""
    rng = numpy.random.default_rng(0)
    shapes = [(inputs, 2), (2, particles), (particles,), (2, particles), (inputs, 2), (inputs, particles)]
    shapes += [(inputs, particles), (inputs, 2), (inputs, 2), (2, particles), (particles,), (2, particles)]
    arrays = [rng.standard_normal(shape) for shape in shapes]
    by_hand(*arrays)
    return clocked(lambda: by_hand(*arrays))


def main() -> int:
    """Measure, print, and compare with the bounds."""
    population = numpy.array(list(itertools.product([0, 1], repeat=TOKENS)))
    labels = population[:, :PREFIX].sum(axis=1) % 2
    rows = numpy.random.default_rng(0).integers(0, len(population), 2048)
    some = rows[:256]

    def started(chosen: numpy.ndarray, batches: object = None, **at: int) -> object:
        trainer = Trainer(head, tp.cross_entropy(labels[chosen]), tp.Adam(), 3e-3, batches=batches)
        run = trainer.start(population[chosen], seed=1, **at)
        run.advance(1)
        return run

    paper = started(rows, tp.batches(32), width=WIDTH)

    def whole_run() -> None:
        for _ in range(1001):
            paper.advance(64)
            _ = paper.parameters

    def watched(gradients: bool, network: object = head) -> None:
        how = {"error": tp.cross_entropy(labels[rows]), "batches": tp.batches(32), "optimizer": tp.Adam(), "lr": 3e-3}
        tp.watch(network, population[rows], **how, steps=64_000, every=64, widths=WIDTH, gradients=gradients)

    everything, limit = started(numpy.arange(4096), width=WIDTH), started(some, particles=4096)
    found = {
        "64 000 Adam steps, 1001 frames, s": (clocked(whole_run, 2), 1.5),
        "the same by tp.watch, without gradients, s": (clocked(lambda: watched(False), 2), 1.5),
        "the same by tp.watch, s": (clocked(lambda: watched(True), 2), 1.5),
        "the zoo's own program by tp.watch, s": (clocked(lambda: watched(True, sparse_modular_addition), 2), 1.5),
        "step on the whole population, ms": (clocked(lambda: everything.advance(50)) / 50 * 1e3, 2.0),
    }
    hand, own = hand_step(256, 4096) * 1e3, clocked(lambda: limit.advance(10)) / 10 * 1e3
    found["limit step / loops by hand"] = (own / hand, 2.0)
    print(f"limit step of 256 inputs and 4096 particles: {own:.2f} ms, by hand {hand:.2f} ms")
    for name, (value, bound) in found.items():
        print(f"{name:44} {value:8.3f}   at most {bound}")
    return int(any(value > bound for value, bound in found.values()))


if __name__ == "__main__":
    sys.exit(main())
