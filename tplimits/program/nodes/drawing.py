"""Entries of initial laws from standard normal draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.laws import GIVEN, ORTHOGONAL, Law

_g = Symbol("g", real=True)


def orthogonal(normal: Array) -> Array:
    """√n times uniformly distributed orthogonal matrices, from square matrices (…, n, n) of standard normal entries.

    The factor Q of G = QR is uniformly distributed if the diagonal of R is made positive.

    >>> W = orthogonal(numpy.random.default_rng(0).standard_normal((3, 3)))
    >>> bool(numpy.allclose(W @ W.T, 3 * numpy.eye(3)))
    True
    """
    q, r = numpy.linalg.qr(normal)
    # LAPACK leaves the signs of R open, and with them Q is not uniformly distributed
    signs = numpy.where(numpy.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return q * signs[..., None, :] * math.sqrt(normal.shape[-1])


def places(size: int) -> Array:
    """The places of neurons, in (0, 1).

    >>> places(2).tolist()
    [0.25, 0.75]
    """
    return (numpy.arange(size) + 0.5) / size


def drawn(law: Law, shape: tuple[int, ...], g: Callable[[], Array], leaves: Mapping[Expr, Any]) -> Array:
    """Entries of a law from standard normal draws of a shape; `g` is not asked for them where the law is a constant."""
    mean, std = (float(evaluate(v, leaves)) for v in (law.mean, law.std))
    if std == 0:
        return numpy.full(shape, mean)
    if law.shape == GIVEN:
        raise EvaluationError(
            "a vector of given numbers has no law to be drawn from; give its entries, as `weights(module)` of an "
            "imported model does."
        )
    if law.shape == ORTHOGONAL:
        return orthogonal(g())
    entries: Array = evaluate(law.shaped(_g), {_g: g()})
    # 1 and 0, which most laws have, cost no copy of a large array
    if std != 1:
        entries = std * entries
    return entries if mean == 0 else mean + entries
