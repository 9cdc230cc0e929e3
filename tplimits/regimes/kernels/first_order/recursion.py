"""NNGP and tangent kernel of a perceptron of width n, to order 1/n: E = K + b/n, Var = C/n.

With K_l = Avg x_l x_l′, forward, and S_l = Avg δ_l δ_l′, backward, where δ_l = φ̇(h_l) u_l and u_l = w Wᵀ δ_{l+1},

    Θ = Σ_l (r w² K_{l−1} + Σ r c²) S_l + r K_L,      K_l = Φ(Σ_l),  S_l = w² S_{l+1} P(Σ_l),  Σ_l = w² K_{l−1} + Σ c²,

each K_l and S_l is an average over the neurons of layer l, given the averages before it: K_{l−1}, and S_{l+1}.  With D
and H the derivatives of Φ by K_{l−1}, F the covariance of x x′, and j_l the derivative of S_l by K_{l−1},

    V_l = F + D V_{l−1} Dᵀ,    G_l = D G_{l−1} + ½ H : V_{l−1}                    (n Cov K_l and n (E K_l − lim))
    j_l = w² (S_{l+1} ∂P + P j_{l+1} D)
    s_l = w² [P s_{l+1} + S_{l+1} (∂P G_{l−1} + ½ ∂²P : V_{l−1}) + ∂P V_{l−1} Dᵀ j_{l+1} + Cov(φ̇φ̇′, x x′) j_{l+1}]
          + w⁴ E[φ̇ φ̇′ x_c x_d] Q_cd                                              (n (E S_l − lim))

The last term is that Wᵀ comes back on what W made: given h = w W x + …, rows of W have the mean (w/n) h Σ⁻¹ X and the
covariance (1 − (w²/n) Xᵀ Σ⁻¹ X)/n, so that u has w² X Σ⁻¹ M in it, M = Avg(h δ), which has mean 0 and covariance N/n:

    N_l = w² S_{l+1} E[h h φ̇ φ̇′] + w⁴ T_a Q T_bᵀ,   T_a = E[h φ̇_a x],    Q = Σ⁻¹ (N_{l+1} − S_{l+1} Σ_{l+1}) Σ⁻¹ .

Q is 0 above the last layer.  The variance of Θ adds up, layer by layer, what the neurons of each do to K_l and S_l.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import Array
from tplimits.regimes.kernels.first_order.laws import Law

if TYPE_CHECKING:
    from numpy.random import Generator

    from tplimits.regimes.kernels.first_order.means import Activation, LayerMeans

#: 1 − ρ² of two arguments below which the second direction of a pair, whose share goes to zero with it, is left out
_ONE_DIRECTION = 1e-8
#: how much of √C one direction alone may be off by, in units of 1 − ρ²
_LEFT_OUT = 10.0
#: how often means are moved by their errors, and what the largest effect is multiplied by: errors rarely add up
_MOVED, _MARGIN = 3, 4.0


@dataclass(frozen=True)
class Weights:
    """Numbers of a layer: w², the variance that biases add to Σ, and what its matrix and its biases add to Θ.

    `rate` is r c² of the matrix (it multiplies K), `biases` Σ r c² of the biases.
    """

    square: float
    shift: float
    rate: float
    biases: float


@dataclass(frozen=True)
class Coefficients:
    """b and C of both kernels at P pairs."""

    nngp_bias: Array
    nngp_variance: Array
    ntk_bias: Array
    ntk_variance: Array


@dataclass
class _Forward:
    """One layer on the way up: its argument (P, E), its means, and K, G, V of the layer below."""

    argument: Array
    means: LayerMeans
    below: Array
    mean: Array
    covariance: Array


def coefficients(
    layers: Sequence[tuple[Activation, Weights]], readout: Weights, data: Array, alone: bool
) -> tuple[Coefficients, Coefficients]:
    """The expansion for Σ ξ ξ′ of P pairs, (P, 3) in the order aa, ab, bb, or (P, 1) of inputs with themselves.

    Beside it what errors of means make of it: how far it goes where each is moved up or down by its own.  Where two
    inputs nearly agree, terms that are larger than their sum by powers of 1/(1 − ρ²) cancel, and errors grow with them.
    """
    laws, K = [], data
    for activation, weights in layers:
        argument = weights.square * K + weights.shift
        laws.append(Law(tuple(numpy.ascontiguousarray(c) for c in argument.T)))
        K = activation.read(laws[-1]).features
    signs = (None, *map(numpy.random.default_rng, range(_MOVED)))
    found, *moved = (_coefficients(layers, readout, data, laws, s, 0 if alone else 1) for s in signs)
    off = {
        f.name: _MARGIN * numpy.max([abs(getattr(m, f.name) - getattr(found, f.name)) for m in moved], axis=0)
        for f in fields(Coefficients)
    }
    off["ntk_bias"] += (
        _LEFT_OUT * numpy.max([_one_direction(law) for law in laws], axis=0) * numpy.sqrt(found.ntk_variance)
    )
    return found, Coefficients(**off)


def _one_direction(law: Law) -> Array:
    """1 − ρ² where the second direction of a pair is left out, and 0 elsewhere."""
    if len(law.covariances) == 1:
        return numpy.zeros_like(law.covariances[0])
    c11, c12, c22 = law.covariances
    product = c11 * c22
    share = numpy.where(product > 0, 1 - c12**2 / numpy.where(product > 0, product, 1.0), 1.0)
    return numpy.where(share < _ONE_DIRECTION, abs(share), 0.0)


def _coefficients(
    layers: Sequence[tuple[Activation, Weights]],
    readout: Weights,
    data: Array,
    laws: Sequence[Law],
    signs: Generator | None,
    pair: int,
) -> Coefficients:
    """With means of given laws, moved by their errors where `signs` are given."""
    up, G, V = _upwards(layers, data, [law.moved(signs) for law in laws])
    w = readout.square
    ntk_bias, ntk_variance = _tangent([numbers for _, numbers in layers], up, readout, (G, V), pair)
    return Coefficients(w * G[:, pair], w**2 * V[:, pair, pair], ntk_bias, ntk_variance)


def _upwards(
    layers: Sequence[tuple[Activation, Weights]], data: Array, laws: Sequence[Law]
) -> tuple[list[_Forward], Array, Array]:
    K, G = data, numpy.zeros_like(data)
    V = numpy.zeros((*data.shape, data.shape[-1]))
    found = []
    for (activation, weights), law in zip(layers, laws, strict=True):
        means = activation.read(law)
        found.append(_Forward(numpy.stack(law.covariances, axis=-1), means, K, G, V))
        D, H = weights.square * means.first, weights.square**2 * means.second
        G = _on(D, G) + numpy.einsum("peij,pij->pe", H, V) / 2
        V = means.spread + D @ V @ D.swapaxes(1, 2)
        K = means.features
    return found, G, V


def _on(matrix: Array, vector: Array) -> Array:
    """Matrix times vector, pair by pair."""
    return numpy.einsum("pij,pj->pi", matrix, vector)


def _dot(a: Array, b: Array) -> Array:
    return numpy.einsum("pi,pi->p", a, b)


@dataclass
class _Backward:
    """S above a layer: its limit, that of inputs with themselves (P, C), n (E S − lim), j (P, E), and Q (P, C, C)."""

    limit: Array
    own: Array
    mean: Array
    slope: Array
    back: Array


def _tangent(
    weights: Sequence[Weights], up: Sequence[_Forward], readout: Weights, top: tuple[Array, Array], pair: int
) -> tuple[Array, Array]:
    """b and C of Θ."""
    count, entries = up[0].argument.shape
    inputs = 1 if entries == 1 else 2
    zero = numpy.zeros(count)
    state = _Backward(
        zero + 1, numpy.ones((count, inputs)), zero, numpy.zeros((count, entries)), numpy.zeros((count, inputs, inputs))
    )
    above = [*(w.square for w in weights[1:]), readout.square]
    states = [state]
    for w, forward, square in zip(reversed(weights), reversed(up), reversed(above), strict=True):
        state = _downwards(forward, w, square, state)
        states.append(state)
    states.reverse()
    bias = readout.rate * top[0][:, pair]
    for w, forward, state in zip(weights, up, states, strict=False):
        factor = w.rate * forward.below[:, pair] + w.biases
        together = _on(forward.covariance, state.slope)[:, pair]
        bias = bias + factor * state.mean + w.rate * (forward.mean[:, pair] * state.limit + together)
    return bias, _variance(weights, up, states, readout, above, pair)


def _downwards(forward: _Forward, weights: Weights, square: float, above: _Backward) -> _Backward:
    """S of a layer from S above; `square` is w² of the matrix between."""
    m, V, G = forward.means, forward.covariance, forward.mean
    D = weights.square * m.first
    p1, p2 = weights.square * m.slope_first, weights.square**2 * m.slope_second
    limit = square * above.limit * m.slope
    beside = m.mixed - m.slope[:, None] * m.features
    carried = _on(D.swapaxes(1, 2), above.slope)
    slope = square * (above.limit[:, None] * p1 + m.slope[:, None] * carried)
    mean = square * (
        m.slope * above.mean
        + above.limit * (_dot(p1, G) + numpy.einsum("pij,pij->p", p2, V) / 2)
        + _dot(p1, _on(V, carried))
        + _dot(beside, above.slope)
    )
    mean = mean + square**2 * numpy.einsum("pij,pij->p", _matrix(m.mixed), above.back)
    noise = square * above.limit[:, None, None] * m.turned
    noise = noise + square**2 * m.back @ above.back @ m.forth.swapaxes(1, 2)
    inverse = _inverse(_matrix(forward.argument))
    rest = noise - limit[:, None, None] * _matrix(forward.argument)
    return _Backward(limit, square * above.own * m.own, mean, slope, inverse @ rest @ inverse)


def _matrix(entries: Array) -> Array:
    """(P, C, C) from aa, ab, bb."""
    if entries.shape[1] == 1:
        return entries[:, :, None]
    return entries[:, numpy.array([[0, 1], [1, 2]])]


def _inverse(matrix: Array) -> Array:
    """Σ⁻¹, on the direction of one input alone where both are one, or the other is 0."""
    variances = numpy.diagonal(matrix, axis1=1, axis2=2)
    # of an argument that is 0 at every width nothing is known by it
    alone = numpy.where(variances > 0, 1 / numpy.where(variances > 0, variances, 1.0), 0.0)
    if matrix.shape[1] == 1:
        return alone[:, :, None]
    det = matrix[:, 0, 0] * matrix[:, 1, 1] - matrix[:, 0, 1] ** 2
    one = det <= _ONE_DIRECTION * matrix[:, 0, 0] * matrix[:, 1, 1]
    adjugate = numpy.stack([matrix[:, 1, 1], -matrix[:, 0, 1], -matrix[:, 0, 1], matrix[:, 0, 0]], axis=-1)
    found = adjugate.reshape(-1, 2, 2) / numpy.where(one, 1.0, det)[:, None, None]
    kept = numpy.zeros_like(found)
    kept[:, 0, 0] = alone[:, 0]
    kept[:, 1, 1] = numpy.where(variances[:, 0] > 0, 0.0, alone[:, 1])
    return numpy.where(one[:, None, None], kept, found)


def _variance(
    weights: Sequence[Weights],
    up: Sequence[_Forward],
    states: Sequence[_Backward],
    readout: Weights,
    above: Sequence[float],
    pair: int,
) -> Array:
    """Σ_l Var(t x x′ + R w² φ̇φ̇′ γγ′), t and R the derivatives of Θ by K_l and S_l, γ ~ N(0, S_{l+1})."""
    lower, direct = [], numpy.zeros_like(up[0].below[:, pair])
    for i, (w, forward) in enumerate(zip(weights, up, strict=True)):
        passed = above[i - 1] * up[i - 1].means.slope * direct if i else 0.0
        direct = w.rate * forward.below[:, pair] + w.biases + passed
        lower.append(direct)
    unit = numpy.zeros_like(up[0].argument)
    unit[:, pair] = 1.0
    t, total = readout.rate * unit, 0.0
    for i in reversed(range(len(up))):
        m, over, square = up[i].means, states[i + 1], above[i]
        s, r = over.limit, square * lower[i]
        beside = m.mixed - m.slope[:, None] * m.features
        four = m.square * (over.own.prod(axis=1) ** (3 - over.own.shape[1]) + 2 * s**2) - (m.slope * s) ** 2
        total = total + _dot(t, _on(m.spread, t)) + 2 * r * s * _dot(beside, t) + r**2 * four
        below = weights[i].square
        t = _on(below * m.first.swapaxes(1, 2), t) + (r * s * below)[:, None] * m.slope_first
        t = t + (weights[i].rate * states[i].limit)[:, None] * unit
    return numpy.asarray(total)
