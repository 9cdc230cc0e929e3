"""Row-stochastic arrays in forms: which way round they leave the fewest factors."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import Expr

from tplimits.regimes.depth.algebra.arrays import ARRAYS, Arrays
from tplimits.regimes.depth.algebra.forms import Form, collected
from tplimits.regimes.depth.algebra.means import held_labels

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.products import Factor, Factors

#: orientations of more arrays than this are not all tried
_MOST = 4
#: rows whose sum is less than this part of their entries are divided by no sum
_NEARLY_ONE_SIGN = 1e-9


def with_rows(forms: Sequence[Form], known: Mapping[str, numpy.ndarray]) -> tuple[list[Form], dict[str, numpy.ndarray]]:
    """The forms with row-stochastic arrays in the orientations that leave the fewest factors, and the arrays."""
    labels = {f[0] for form in forms for factors in form.terms for f in factors if f[0][0] in ARRAYS}
    square = sorted(label for label in labels if known[label].ndim == 2 and _has_rows(known[label]))
    best: tuple[int, list[Form], dict[str, numpy.ndarray]] | None = None
    choices = itertools.product((False, True), repeat=len(square)) if len(square) <= _MOST else [(False,) * len(square)]
    for flips in choices:
        arrays = Arrays(dict(known))
        turned = dict(zip(square, flips, strict=True))
        found = [collected(_rewritten(f, c, arrays, turned) for f, c in form.terms.items()) for form in forms]
        size = sum(len(factors) for form in found for factors in form.terms)
        if best is None or size < best[0]:
            best = (size, found, arrays.values)
    assert best is not None
    used = {label for form in best[1] for factors in form.terms for label in held_labels(factors)}
    return best[1], {label: values for label, values in best[2].items() if label in used}


def _has_rows(values: numpy.ndarray) -> bool:
    sizes = numpy.abs(values)
    return all((numpy.abs(values.sum(axis=a)) > _NEARLY_ONE_SIGN * sizes.sum(axis=a)).all() for a in (0, 1))


def _rewritten(factors: Factors, coefficient: Expr, arrays: Arrays, turned: Mapping[str, bool]) -> tuple[Factors, Expr]:
    """One product: row sums of its arrays taken out and merged with what stands at the row's index."""
    kept: list[Factor] = []
    scales: dict[int, numpy.ndarray] = {}
    for label, at, copy in factors:
        if label[0] in ARRAYS and len(at) == 1:
            scales[at[0]] = scales.get(at[0], 1.0) * arrays.values[label]
        elif label in turned:
            values = arrays.values[label].T if turned[label] else arrays.values[label]
            at = at[::-1] if turned[label] else at
            rows = values.sum(axis=1)
            scales[at[0]] = scales.get(at[0], 1.0) * rows
            kept.append((arrays.label(values / rows[:, None]), at, copy))
        else:
            kept.append((label, at, copy))
    for index, values in scales.items():
        number, found = arrays.factor(values, (index,))
        coefficient = coefficient * sympy.Rational(number.numerator, number.denominator)
        kept += found
    return tuple(kept), coefficient
