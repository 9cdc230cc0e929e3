"""Whether networks of a width are near the limit: the scalars that were expanded, by their size at that width.

Softmax weights are expanded in logits of size V/(τ0 √n), and the limit takes two orders of the series.  Networks in
which the logits are not small are not described by it, however well its paths are drawn.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy
import sympy
from numpy.typing import NDArray
from sympy import Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.regimes.depth.algebra.forms import Form
from tplimits.regimes.depth.algebra.products import MOST
from tplimits.regimes.depth.numbers import covariance

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.block import BlockLimit

#: beyond this standard deviation of an argument, what is left out of its series is no longer small: a tenth in exp
LARGEST = 0.3
#: variances below this part of their terms are rounding
_ROUNDING = 1e-13


def spreads(limit: BlockLimit, V: Array, values: Mapping[Symbol, float]) -> dict[str, Array]:
    """√n times the standard deviation of each argument that was expanded, the largest over tokens, at (…, m, m)."""
    found = {}
    for name, form in limit.expanded.items():
        variance = covariance.at_members(form, V, values, limit.arrays, _free(form))
        axes = tuple(range(V.ndim - 2, variance.ndim))
        found[name] = numpy.sqrt(numpy.maximum(variance, 0.0).max(axis=axes))
    return found


def _free(form: Form) -> int:
    """How many indices of a form are free: tokens, and heads where it differs by them."""
    return max((5 + i for factors in form.terms for f in factors for i in f[1] if i < 0), default=0)


def insist_on_chance(limit: BlockLimit, V: Array, values: Mapping[Symbol, float], asked: str) -> None:
    """EvaluationError where a function has to be known at its jump: the variance of its argument is zero.

    `asked` is what is asked for: "diffusion_at" holds nothing of what comes with 1/n, "tangents" hold slopes too.
    """
    arrays = {k: numpy.asarray(abs(a), dtype=numpy.float64) for k, a in limit.arrays.items()}
    for name, (form, order) in limit.jumps.items():
        small = asked == "diffusion_at" and (not limit.diffusion or (order is not None and order >= MOST))
        if small or (order is None and asked != "tangents"):
            continue
        variance = covariance.at_members(form, V, values, limit.arrays, _free(form))
        # what the terms come to if none cancels: equal tokens leave rounding alone
        size = Form({f: sympy.Abs(c) for f, c in form.terms.items()})
        zero = variance <= _ROUNDING * covariance.at_members(size, abs(V), values, arrays, _free(form))
        if not zero.any():
            continue
        place = numpy.argwhere(zero)[0].tolist()
        at, diagonal = place[V.ndim - 2 :], V[tuple(place[: V.ndim - 2])].diagonal()
        entries = [f"V[{t},{t}] = 0" for t in dict.fromkeys(at) if diagonal[t] == 0]
        where = f" at tokens {', '.join(map(str, at))}" if at else ""
        where += f": {' and '.join(entries)}" if entries else ""
        there = "has no derivative" if order is None else "is not the mean of both sides"
        raise EvaluationError(
            f"{name} {'has a kink' if order is None else 'jumps'} where its argument is 0, and at this V the variance "
            f"of the argument is 0{where}. In networks it is exactly 0 there, where the function {there}, or small, "
            "which V does not tell: leave such tokens out."
        )


def warn(
    limit: BlockLimit, V0: Array, ends: Array, exploded: NDArray[numpy.bool_], values: Mapping[Symbol, float], n: int
) -> None:
    """Warn where the networks meant, of width n, are not near the limit at V0 or where half of the paths end.

    Where half of them `exploded`, V at their ends is where simulation gave up, and no width is told from it.
    """
    at_end, found = spreads(limit, ends, values), []
    gone = 2 * int(numpy.sum(exploded)) >= len(exploded)
    for name, at_start in spreads(limit, V0, values).items():
        start, end = float(at_start.max()), float(numpy.median(at_end[name]))
        largest, place = max((start, "at V0"), (0.0 if gone else end, "where the paths end (median)"))
        told = []
        if largest / numpy.sqrt(n) > LARGEST:
            wide = int(numpy.ceil((largest / LARGEST) ** 2))
            told.append(f"{largest / numpy.sqrt(n):.3g} {place}, below {LARGEST} from n = {wide}")
        if gone and end / numpy.sqrt(n) > LARGEST:
            told.append(f"{end / numpy.sqrt(n):.3g} where half of the paths explode, and no width is told from that")
        if told:
            found.append(f"{name} {', '.join(told)}")
    if found:
        warnings.warn(
            f"networks of width n={n} are not near this limit: standard deviations of what is expanded as if it were "
            f"small are, of {'; of '.join(found)}.",
            UserWarning,
            stacklevel=3,
        )
