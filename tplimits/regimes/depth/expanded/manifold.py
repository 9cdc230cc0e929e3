"""Drift and diffusion of a covariance that layers attract to a manifold of fixed points.

A layer is V′ = M(V) + b/n + fluctuations of covariance C/n.  Where M is not the identity, V is near the fixed points of
M after a few layers, and moves along them at the speed 1/n.  With π = lim Mᵏ, smooth near them,

    drift = Dπ b + ½ D²π : C,      diffusion = Dπ C Dπᵀ                              (at V = M(V))

(Katzenberger 1991).  P = Dπ is the projection on the eigenvalue 1 of J = DM, and π∘M = π, M∘π = π give

    P D²π : C = P D²M : Q,   Q = T Gᵀ + G Tᵀ + Σ_k Jᵏ (R C Rᵀ) Jᵏᵀ,   R = 1 − P,   T = P C Rᵀ,   G = (1 − J)⁻¹ on R,
    R D²π : C = G D²M : P C Pᵀ .

Q/n is how far V is from the manifold, as a covariance; ½ D²M : Q is what a layer of random input adds to its bias.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy
import scipy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, NoLimitError
from tplimits.numbers.expansion.covariances import fixed, full

if TYPE_CHECKING:
    from tplimits.regimes.depth.expanded.layers import Layers

#: M(V) is V up to this, an eigenvalue is 1 up to this
_SAME, _ONE = 1e-6, 1e-6
#: beside the covariance of a layer, what is left of a product that is zero
_ROUNDING = 1e-9
#: an eigenvalue of modulus above this is not attracted in a few layers
_SLOW = 0.985
#: layers until V is to be near its fixed point, and how near before the rest is solved for
_MOST_LAYERS, _NEAR = 900, 1e-6
#: layers in which V has to come nearer as quickly as that
_LOOK = 150
#: how far along the manifold a second fixed point is looked for
_ALONG = 0.05


@dataclass(frozen=True)
class Coefficients:
    """Drift (m, m) and diffusion (P, P) on the manifold, with n E[V′ − V] and n Cov(V′) of one layer there."""

    drift: Array
    diffusion: Array
    layer_drift: Array
    layer_diffusion: Array
    projection: Array


def attracted(layers: Layers, V: Array) -> Array:
    """π(V), the fixed point of M that layers take V to; NoLimitError where they take it to none at once."""
    start, steps = V, list[float]()
    for k in range(_MOST_LAYERS):
        moved = _image(layers, V, start)
        steps.append(float(numpy.abs(moved - V).max()) / float(numpy.abs(V).max()))
        V = moved
        if steps[-1] <= _NEAR:
            break
        # compared over many layers: one step may come nearer by little, where complex eigenvalues turn V about the
        # fixed point
        if k >= 2 * _LOOK and steps[-1] > _SLOW**_LOOK * steps[-1 - _LOOK]:
            raise NoLimitError(_collapsing(layers, f"after {k} layers V still moves by {steps[-1]:.2g} of it in each"))
    law, J = layers.moved(fixed(V))
    P, G = projection(layers, J)
    rest = law.value - fixed(V).value
    # one step of Newton off the manifold; along it V must stay, or π would be another point
    return full(fixed(V).value + G @ (rest - P @ rest))


def _image(layers: Layers, V: Array, start: Array) -> Array:
    try:
        moved = layers.image(V)
    except EvaluationError:
        if V is start:
            raise
        raise NoLimitError(_collapsing(layers, "layers make tokens multiples of one another")) from None
    if not numpy.isfinite(moved).all():
        raise NoLimitError(_collapsing(layers, "V grows without bound"))
    return moved


def _collapsing(layers: Layers, what: str) -> str:
    return (
        f"`{layers.blocks[-1][0].name}` has no limit of depth proportional to width that this route finds: its leading "
        f"map M, V′ = M(V) at n = ∞, has to attract to a manifold of fixed points within a few layers, but {what}. "
        "Shape the branch, so that it changes V by 1/n, or only its size."
    )


def projection(layers: Layers, J: Array) -> tuple[Array, Array]:
    """P on the eigenvalue 1 of J and G = (1 − J)⁻¹ on the rest; NoLimitError where M does not attract."""
    size = len(J)
    # J is not symmetric, and its eigenvectors near 1 are ill-conditioned; null spaces by singular values are not
    left, sizes, right = numpy.linalg.svd(J - numpy.eye(size))
    count = int((sizes <= _ONE).sum())
    if not count:
        raise NoLimitError(_collapsing(layers, "it has a fixed point alone, where all V end"))
    tangent, normal = right[size - count :].T, left[:, size - count :]
    inside = normal.T @ tangent
    # left and right null vectors are orthogonal: 1 has a Jordan block, and powers of J grow like their number
    if numpy.linalg.svd(inside)[1].min() < _ONE:
        raise NoLimitError(_collapsing(layers, "V moves along its fixed points by as much as it is off them"))
    P = tangent @ numpy.linalg.solve(inside, normal.T)
    rest = J @ (numpy.eye(size) - P)
    # J R has 0 in the place of each 1
    largest = float(numpy.abs(numpy.linalg.eigvals(rest)).max())
    if largest > _SLOW:
        raise NoLimitError(
            _collapsing(layers, f"DM has the eigenvalue {largest:.6g} in modulus beside 1: what is off stays off")
        )
    G: Array = numpy.linalg.solve(numpy.eye(size) - rest, numpy.eye(size) - P)
    return P, G


def coefficients(layers: Layers, V: Array) -> Coefficients:
    """Drift and diffusion at a fixed point V of M.

    Raises EvaluationError where V is none, NoLimitError where M does not attract to a manifold of fixed points, and
    where a layer changes V by n^(−1/2).
    """
    start = fixed(V)
    law, J = layers.moved(start)
    scale = float(numpy.abs(V).max())
    off = float(numpy.abs(law.value - start.value).max())
    if off > _SAME * scale:
        raise EvaluationError(
            f"V is no fixed point of the leading map: one layer moves it by {off:.3g} whatever the width, and a few "
            "take it to one. Drift and diffusion are those there: .attracted(V) is the fixed point."
        )
    _insist_on_order(layers, law.root, scale)
    P, G = projection(layers, J)
    C, b, R = law.covariance, law.shift, numpy.eye(len(J)) - P
    tangent, mixed, fast = P @ C @ P.T, P @ C @ R.T @ G.T, R @ C @ R.T
    # Σ_k Jᵏ (R C Rᵀ) Jᵏᵀ solves Q = J Q Jᵀ + R C Rᵀ on the image of R
    off_manifold = mixed + mixed.T + scipy.linalg.solve_discrete_lyapunov(J @ R, fast)

    def curvature(Q: Array) -> Array:
        """½ D²M : Q."""
        # the expansion of a layer whose input varies by Q/n has ½ D²M : Q in its bias, so that no second derivative is
        # taken
        return layers.moved(replace(start, covariance=Q))[0].shift - b

    bent = curvature(tangent)
    # along a curve γ of fixed points D²M(γ′, γ′) = (1 − J) γ″, of which P leaves nothing
    if float(numpy.abs(P @ bent).max()) > _ONE * max(1.0, float(numpy.abs(tangent).max())):
        raise NoLimitError(_collapsing(layers, "V moves along the eigenvalue 1 of DM at second order: M has no others"))
    # where every V is a fixed point, none is off them
    shifted = b + curvature(off_manifold) if numpy.abs(off_manifold).max() > _ROUNDING * numpy.abs(C).max() else b
    drift = P @ shifted + G @ bent
    return Coefficients(full(drift), tangent, full(b), C, P)


def _insist_on_order(layers: Layers, root: Array, scale: float) -> None:
    if float(numpy.abs(root).max()) > _SAME * scale:
        raise NoLimitError(
            f"`{layers.blocks[-1][0].name}`: a layer changes V by {full(root).round(6).tolist()}/√n beside its leading "
            "map, so that over a depth proportional to n there is no limit, or one at other fixed points. Divide the "
            "branch by its size, as with 1/√tp.expect(lambda g: f(g)²)."
        )


def judge(layers: Layers, V: Array) -> None:
    """NoLimitError unless the fixed points of M near V are a manifold: a second one along it, of the same dimension."""
    own = coefficients(layers, V).projection
    # any direction along the eigenvalue 1, and a generic one: a special one may have fixed points by symmetry
    along = own @ numpy.random.default_rng(0).standard_normal(len(own))
    step = full(_ALONG * along / numpy.abs(along).max() * numpy.abs(V).max())
    # half as far until V + step is a covariance well away from the singular ones
    for _ in range(8):
        if numpy.linalg.eigvalsh(V + step)[0] > 0.5 * numpy.linalg.eigvalsh(V)[0]:
            break
        step = step / 2
    there = attracted(layers, V + step)
    moved = own @ (fixed(there).value - fixed(V).value)
    # the trace of a projection is its dimension
    same = abs(numpy.trace(projection(layers, layers.moved(fixed(there))[1])[0]) - numpy.trace(own)) < 0.5
    if not same or numpy.abs(moved - fixed(step).value).max() > 0.5 * numpy.abs(step).max():
        raise NoLimitError(_collapsing(layers, "near a fixed point there are no others"))
