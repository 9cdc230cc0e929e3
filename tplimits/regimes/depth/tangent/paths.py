"""Paths of state and tangent: where they end, with sizes of tangents kept as logarithms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, shown
from tplimits.program.nodes.given import real_array, whole_number
from tplimits.regimes.depth.numbers.covariance import positive

#: entries of a tangent below this part of the largest are rounding
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class TangentPaths:
    """Paths of (V, C, D) to time T.

    `joint` (paths, 2m, 2m) is the covariance of x and of the tangent at a size of its own, `scale` (paths,) the log of
    what D is larger than its block there; `V`, `C` and `D` (paths, m, m) put both together.  A path whose V left the
    allowed eigenvalues stays where it was: `stopped` (paths,) tells which, `stopping_time` when.  `clipped` counts
    steps at which a matrix lost negative eigenvalues.
    """

    joint: Array = field(repr=False)
    scale: Array = field(repr=False)
    T: float
    dt: float
    stopped: NDArray[numpy.bool_] = field(repr=False)
    stopping_time: Array = field(repr=False)
    clipped: NDArray[numpy.int64] = field(repr=False)
    seed: int
    time: Array | None = field(default=None, repr=False)
    history: Array | None = field(default=None, repr=False)
    logs: Array | None = field(default=None, repr=False)
    halved: TangentPaths | None = field(default=None, repr=False)

    @property
    def m(self) -> int:
        """Tokens."""
        return int(self.joint.shape[-1]) // 2

    @property
    def V(self) -> Array:
        """(1/n) x_a·x_b."""
        return self.joint[:, : self.m, : self.m]

    @property
    def C(self) -> Array:
        """(1/n) x_a·δx_b."""
        return numpy.asarray(self.joint[:, : self.m, self.m :] * numpy.exp(self.scale / 2)[:, None, None])

    @property
    def D(self) -> Array:
        """(1/n) δx_a·δx_b."""
        return numpy.asarray(self.joint[:, self.m :, self.m :] * numpy.exp(self.scale)[:, None, None])

    def log(self, readout: Any = None) -> Array:
        """log tr(R D) of every path, R the Gram matrix of readouts: a token, or a matrix (m, m), or all tokens (None).

        −infinity where a path does not reach the readout.
        """
        D = self.joint[:, self.m :, self.m :]
        found, whole = projection(D, readout), projection(D)
        with numpy.errstate(divide="ignore"):
            # D holds squares of entries, and so the square of their rounding; the scale never leaves the logarithm
            return numpy.asarray(numpy.log(numpy.where(found > _ROUNDING**2 * whole, found, 0.0)) + self.scale)

    @property
    def alignment(self) -> Array:
        """C_aa²/(V_aa D_aa) as (paths, m): the squared cosine of a token and its response; 0 where it has none."""
        m = self.m
        return alignment(self.V, self.joint[:, :m, m:], self.joint[:, m:, m:])

    def correlation(self, a: int, b: int) -> Array:
        """D_ab/√(D_aa D_bb): whether two tokens respond alike to one perturbation."""
        D = self.joint[:, self.m :, self.m :]
        with numpy.errstate(divide="ignore", invalid="ignore"):
            size = numpy.sqrt(D[:, a, a]) * numpy.sqrt(D[:, b, b])  # a product of what exploded would overflow
            return numpy.asarray(numpy.clip(D[:, a, b] / size, -1.0, 1.0))


def alignment(V: Array, C: Array, D: Array) -> Array:
    """C_aa²/(V_aa D_aa), 0 where D_aa is."""
    v, c, d = (numpy.diagonal(block, axis1=-2, axis2=-1) for block in (V, C, D))
    sizes = numpy.sqrt(v) * numpy.sqrt(d)
    return numpy.asarray(numpy.where(sizes > 0.0, (c / numpy.where(sizes > 0.0, sizes, 1.0)) ** 2, 0.0))


def projection(D: Array, readout: Any = None) -> Array:
    """tr(R D) for matrices D of shape (…, m, m)."""
    m = D.shape[-1]
    if readout is None:
        return numpy.asarray(numpy.trace(D, axis1=-2, axis2=-1))
    return numpy.asarray(numpy.einsum("...ab,ba->...", D, gram(readout, m, "readout")))


def gram(given: Any, m: int, name: str) -> Array:
    """A Gram matrix (m, m) of what is perturbed or read: one token by its number, or the matrix itself."""
    token = whole_number(given)
    if token is not None and not isinstance(given, (list, tuple, numpy.ndarray)):
        if not -m <= token < m:
            raise EvaluationError(f"{name}={shown(given)}: the tokens are 0 to {m - 1}.")
        found = numpy.zeros((m, m))
        found[token, token] = 1.0
        return found
    matrix = real_array(name, given)
    try:
        return positive(matrix.reshape(m, m), name)
    except (EvaluationError, ValueError):
        raise EvaluationError(f"{name} is a token, or a positive semidefinite matrix of shape ({m}, {m}).") from None
