"""The gradient of one token given the forward path: joint laws over layers, and readouts that are the features.

Given what W was applied to, Wᵀ is fresh but for that direction, so that a gradient remembers the states it passes.  For
a block that is homogeneous, f(c x) = c f(x), ζ = g·x/√n is the same in all layers, and with τ = T − t

    dG = s (ζ²/V_t − G) dτ + √(2s) G dB′,   B′ independent of the path,   G = |g|²/n,

s the isotropic noise, of which V is a geometric Brownian motion.  A readout that is standard normal given the network
has G_T = 1 and ζ² = V_T χ²; for one that is the last state itself, ζ² = n V_T² and Γ = G/n starts from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
from sympy import S

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, NoLimitError, shown
from tplimits.program.nodes.degrees import degrees
from tplimits.program.nodes.given import positive_number, word_of
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.finite.request import bound_block
from tplimits.regimes.depth.numbers import covariance
from tplimits.regimes.depth.numbers.settings import settings

if TYPE_CHECKING:
    from tplimits.regimes.depth.tangent.limit import TangentSDE

READOUTS = ("normal", "features")
#: a drift of one token below this part of s V is rounding
_ZERO = 1e-10


@dataclass(frozen=True, eq=False)
class Chain:
    """V and the gradient together along depth: (paths, times), at `time` = layer/n.

    G is |∂L/∂x|²/n, of a readout that is the features |∂L/∂x|²/n².  The gradient of a weight matrix at t is V G there,
    times a number.
    """

    time: Array
    V: Array = field(repr=False)
    G: Array = field(repr=False)
    readout: str
    s: float

    def weights(self, place: float) -> Array:
        """log of V G at a place between 0, the first layer, and 1, the last; EvaluationError for other places."""
        k = round(place_along(place) * (len(self.time) - 1))
        with numpy.errstate(divide="ignore"):
            return numpy.asarray(numpy.log(self.V[:, k] * self.G[:, k]))

    def correlation(self, first: float, second: float) -> float:
        """The correlation of the logarithms of weight gradient norms at two places along depth."""
        return float(numpy.corrcoef(self.weights(first), self.weights(second))[0, 1])


def place_along(given: Any) -> float:
    """A place along depth; EvaluationError where it is not from 0 to 1."""
    try:
        found = float(given)
    except Exception:  # among others the code of users
        found = -1.0
    if not 0.0 <= found <= 1.0:
        raise EvaluationError(f"layers={shown(given)}: places along depth are from 0, the first layer, to 1, the last.")
    return found


def noise(sde: TangentSDE, constants: Mapping[str, Any], ratios: Any) -> float:
    """s of a block whose V of one token is a geometric Brownian motion without drift.

    NoLimitError for blocks whose gradient given the path is not known.
    """
    why = (
        f"`{sde.program.name}`: the law of a gradient given the forward path is derived for one token and homogeneous "
        "blocks without attention, such as those of (leaky) ReLU; elsewhere take .gradients, one layer at a time."
    )
    values = sde.values(1, constants, ratios)
    forms = sde.limit.forms
    if forms.isotropic is None or forms.responses or len(sde.limit.parts) > 1:
        raise NoLimitError(why)
    (found,) = covariance.numbers(Form({(): forms.isotropic}), values)
    # the drift of a homogeneous block is a number times V: one place tells it
    drift = covariance.contracted(forms.drift["V"], numpy.ones((1, 1)), values, sde.limit.arrays, 2)
    if not _homogeneous(sde, constants) or abs(float(drift[0, 0])) > _ZERO * abs(found):
        raise NoLimitError(why)
    return found


def _homogeneous(sde: TangentSDE, constants: Mapping[str, Any]) -> bool:
    """Whether c times the state gives c times the next one, with the same weights, by how the block is written."""
    block, given = bound_block(sde.program.released, 1, constants)
    block = block.bind(**given)
    assert block.state is not None
    state = block[block.state]
    found = degrees(block, lambda s: S.One if s is state else S.Zero)
    return all(found[p] == 1 for p in block.returns)


def chain(
    sde: TangentSDE, T: Any, V0: Any, readout: Any, dt: Any, paths: Any, seed: Any, ratios: Any, constants: Any
) -> Chain:
    """Paths of V and of G back from the end."""
    start = positive_number("V0", V0, EvaluationError)
    asked = settings(T, dt, paths, seed, None, True, False, None, numpy.full((1, 1), start))
    word_of("readout", readout, READOUTS, EvaluationError)
    s = noise(sde, constants or {}, ratios)
    steps, _, h = asked.grid(1)
    count, rng = asked.paths, numpy.random.default_rng(asked.seed)
    jumps = numpy.sqrt(2 * s * h) * rng.standard_normal((count, steps))
    # geometric Brownian motion with mean V0: exact at the grid
    V = start * numpy.exp(numpy.concatenate([numpy.zeros((count, 1)), numpy.cumsum(jumps - s * h, axis=1)], axis=1))
    G = numpy.empty((count, steps + 1))
    if readout == "normal":
        # ζ is one number along the path, drawn once
        G[:, -1], pulled = 1.0, V[:, -1] * rng.standard_normal(count) ** 2
    else:
        G[:, -1], pulled = 0.0, V[:, -1] ** 2
    for k in reversed(range(steps)):
        # half of what is added before the factor of the step and half behind it: the trapezoidal rule along an exact
        # flow
        half = s * h / 2 * pulled
        # exp of −s τ and Itô's −s τ: without a source G is a geometric Brownian motion, which is exact
        factor = numpy.exp(numpy.sqrt(2 * s * h) * rng.standard_normal(count) - 2 * s * h)
        G[:, k] = (G[:, k + 1] + half / V[:, k + 1]) * factor + half / V[:, k]
    return Chain(numpy.arange(steps + 1, dtype=numpy.float64) * h, V, G, readout, s)
