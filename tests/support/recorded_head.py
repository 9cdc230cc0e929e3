"""A recording that is made without training: parameters that move, as those of networks and their limit would."""

from __future__ import annotations

import math

import numpy

import tplimits as tp
from tplimits.watch.run import Run

FRAMES, PROBES, TOKENS = 1001, 16, 6


@tp.network
def head(
    x: tp.Input["token"].of("vocab"),
    E: tp.Scalar["vocab", "d"],
    P: tp.Scalar["token", "d"],
    q: tp.Scalar["d"],
    V: tp.Scalar["e", "d"],
    w: tp.Vector["d"],
    b: tp.Vector,
    u: tp.Vector["d"],
):
    """One head of attention with a learned query, and one hidden layer of n neurons."""
    Y = E.sel(vocab=x) + P
    Z = Y / tp.sqrt(tp.sum(Y**2, over="d"))
    A = tp.softmax(tp.sum(q * Z, over="d"), over="token")
    ξ = tp.sum(V * tp.sum(A * Z, over="token"), over="d").rename(e="d")
    direction = ξ / tp.sqrt(tp.sum(ξ**2, over="d"))
    act = tp.gelu(tp.sum(w * direction, over="d") + b)
    return tp.readout(tp.sum(E * u, over="d") * act) + tp.sum(E * ξ, over="d")


HEAD = head.bind(d=2, e=2, token=TOKENS, vocab=2)


def inputs(numbers) -> numpy.ndarray:
    """Tokens: the binary digits of some numbers."""
    return numpy.array(numbers)[:, None] >> numpy.arange(TOKENS) & 1


def paths(shape: tuple[int, ...], rng: numpy.random.Generator, frames: int) -> numpy.ndarray:
    """Parameters that move: from one draw to another, with a wave and small steps on it."""
    start, end, wave = (rng.standard_normal(shape) for _ in range(3))
    t = numpy.linspace(0, 1, frames).reshape(-1, *[1] * len(shape))
    steps = numpy.cumsum(rng.standard_normal((frames, *shape)), axis=0) / 300
    return (start + (end - start) * t**2 + 0.3 * wave * numpy.sin(9 * t) + steps).astype(numpy.float32)


def run(width: float, seed: int, frames: int) -> Run:
    """A run whose scalars are those of its seed, at every width."""
    shared, own = numpy.random.default_rng(seed), numpy.random.default_rng([seed, 0 if math.isinf(width) else width])
    n = 256 if math.isinf(width) else int(width)
    shapes = {"E": (2, 2), "P": (TOKENS, 2), "q": (2,), "V": (2, 2)}
    parameters = {name: paths(shape, shared, frames) for name, shape in shapes.items()}
    parameters |= {name: paths(shape, own, frames) for name, shape in {"w": (2, n), "b": (n,), "u": (2, n)}.items()}
    falling = numpy.exp(-numpy.linspace(0, 5, frames)) * (1 + 0.1 * own.random(frames))
    curves = {"loss": falling, "accuracy": 1 - falling / 2}
    return Run(width, seed, parameters, curves | {f"gradient {name}": falling for name in parameters})


def recorded(frames: int = FRAMES, program: tp.Program = HEAD, labels: object = None) -> tp.Recording:
    """Two seeds of width 32, one of 48, and the limit of the first."""
    runs = (run(32, 0, frames), run(32, 1, frames), run(48, 0, frames), run(math.inf, 0, frames))
    x = inputs([5 * k + 1 for k in range(PROBES)])
    found = x[:, :3].sum(axis=1) % 2 if labels is None else numpy.array(labels)
    settings = {"a_out": 1.0, "error": "CrossEntropy"}
    return tp.Recording(program, 64 * numpy.arange(frames), runs, {"x": x}, found, settings)
