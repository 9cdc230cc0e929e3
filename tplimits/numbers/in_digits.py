"""Numbers of functions and constants by mpmath, entry by entry: where a sign decides, and where doubles overflow."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import mpmath
import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.program.language.constants import NUMERICAL
from tplimits.program.nodes.entries import GaussMean
from tplimits.program.nodes.evaluate import standard_normal_mean
from tplimits.program.parts import remembered

#: the heads of the language, and one that kets alone have
_HEADS: dict[str, Callable[..., Any]] = {
    **NUMERICAL,
    "truncated": lambda x, c: (
        mpmath.sqrt(2) * mpmath.erfinv(mpmath.erf(c / mpmath.sqrt(2)) * mpmath.erf(x / mpmath.sqrt(2)))
    ),
}


@remembered(1 << 8)
def _function(expr: Expr, *arguments: Symbol) -> Callable[..., Any]:
    return sympy.lambdify(arguments, expr, modules=[_HEADS, "mpmath"])


def _real(value: Any) -> float:
    return math.nan if isinstance(value, mpmath.mpc) else float(value)


def at_values(expr: Expr, argument: Symbol, values: Array) -> Array:
    """A function of one argument at the entries of an array, NaN where it has no real value.

    >>> from tplimits.program.nodes.functions import relu
    >>> x = Symbol("x", real=True)
    >>> at_values(relu(x) + sympy.log(x), x, numpy.array([1.0, -1.0])).tolist()
    [1.0, nan]
    """
    function = _function(expr, argument)
    different, place = numpy.unique(values, return_inverse=True)
    found = numpy.empty(different.shape)
    for i, x in enumerate(different):
        try:
            found[i] = _real(function(mpmath.mpf(float(x))))
        except (ZeroDivisionError, ValueError, OverflowError):
            found[i] = math.nan
    return found[place].reshape(values.shape)


def value(expr: Expr, at: Mapping[Symbol, Any]) -> Any:
    """An expression at numbers of its symbols, NaN where it has no real value; of mpmath, which e^(−800) is one of."""
    try:
        found = _function(expr, *at)(*map(mpmath.mpf, at.values()))
    except (ZeroDivisionError, ValueError, OverflowError):
        return mpmath.nan
    return mpmath.nan if isinstance(found, mpmath.mpc) else mpmath.mpf(found)


def in_digits(values: Mapping[Any, float]) -> dict[Any, sympy.Float]:
    """Numbers as SymPy's; those that are stay as they are, so that many expressions share what is made once."""
    return {s: v if isinstance(v, sympy.Float) else sympy.Float(v, 17) for s, v in values.items()}


def valued(coefficient: Expr, values: Mapping[Any, float]) -> complex:
    """A coefficient as a number, its means by quadrature.

    >>> g = Symbol("g", real=True)
    >>> round(valued(GaussMean(sympy.tanh(g) ** 2, g), {}).real, 6)
    0.394294
    """
    number = coefficient.xreplace(in_digits(values))
    while number.has(GaussMean):
        inner = min(number.atoms(GaussMean), key=lambda mean: len(mean.atoms(GaussMean)))
        number = number.xreplace({inner: sympy.Float(standard_normal_mean(*inner.args), 17)})
    return complex(sympy.N(number))
