"""Whether E F(g) is defined at given covariances: they are those of a law, and F has a value where g is always 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy
from sympy import Expr, S, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError

#: how far |c12| may pass √(c11 c22), relative: kernels of float32 are accepted
_EXCESS = 1e-5


def insist_on_a_mean(integrand: Expr, variables: Sequence[Symbol], entries: Sequence[Array], det: Array | None) -> None:
    """Refuse covariances, the upper triangle row by row, that are those of no law, and 0/0 of what is always 0."""
    size = len(variables)
    if len(entries) != size * (size + 1) // 2:
        raise EvaluationError(
            f"a moment of {size} variables needs {size * (size + 1) // 2} covariances, got {len(entries)}."
        )
    if not all(numpy.isfinite(e).all() for e in (*entries, *([det] if det is not None else []))):
        raise EvaluationError("a covariance is not a finite number.")
    variances = [entries[i * size - i * (i - 1) // 2] for i in range(size)]
    if any((v < 0).any() for v in variances) or (det is not None and (det < 0).any()):
        raise EvaluationError("a variance or a determinant is negative.")
    if size == 2:
        c11, c12, c22 = entries
        if (c12 * c12 > c11 * c22 * (1 + _EXCESS)).any():
            raise EvaluationError("a covariance is larger than the variances allow: |c12| > √(c11 c22).")
    for z, variance in zip(variables, variances, strict=True):
        if (variance == 0).any():
            _insist_on_a_value(integrand, z)


def _insist_on_a_value(integrand: Expr, z: Symbol) -> None:
    """Refuse 0/0 at z = 0: networks have it there, whatever the limit of the function for z → 0 is."""
    if integrand.xreplace({z: S.Zero}).has(S.NaN, S.ComplexInfinity, S.Infinity, S.NegativeInfinity):
        raise EvaluationError(
            f"E[{integrand}] is not defined where {z} is always 0, as for inputs, tokens and picked entries that are "
            "0: networks divide by 0 there. Leave these out, or keep the divisor or the logarithm away from zero."
        )
