"""Closed expressions as numbers: in high precision, and only where their value is settled.

A value is not settled where a jump, a pole, a logarithm or a root is taken of something that is zero within its
error: the limit may jump there, and no accuracy of the moments decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.nodes import functions
from tplimits.program.nodes.digits import in_digits
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.parts import remembered, symbols

#: digits carried for closed values, so that cancellation in a formula does not show
DIGITS = 40
#: imaginary parts below this, relative, are rounding
_NOISE = 1e-20
#: an argument below this many times its spread is zero within its error
SPREADS = 4.0
#: what moves by more than this, and by more than so many times an error, with what is 0 within it has no value
_STEADY, _SLOPE = 1e-6, 1e3

#: where a zero that is exact gives a value all the same
_JUMPS = {jump.__name__ for jump in functions.JUMPS}


class Unsettled(EvaluationError):
    """An expression has no value that its arguments, with their errors, determine; `{}` in the text stands for it."""

    def __init__(self, text: str, expr: Expr) -> None:
        super().__init__(text.format(f"{expr!s:.200}"))
        self.text, self.expr = text, expr

    def told(self, written_out: Callable[[Expr], Expr], constants: Mapping[Symbol, Expr]) -> Unsettled:
        """The same error with moments written out, and the constants that take part."""
        expr = written_out(self.expr)
        read = sorted((s for s in expr.free_symbols if s in constants), key=lambda s: s.name)
        at = " at " + ", ".join(f"{s} = {float(constants[s]):.6g}" for s in read) if read else ""
        return Unsettled(self.text.replace("`{}`", "`{}`" + at), expr)


def high_precision(expr: Expr, known: Mapping[Symbol, Expr], noise: float = _NOISE) -> Expr:
    """The value of a closed expression; an imaginary part within the noise of its arguments is dropped.

    A correlation of integrated moments can pass 1 by rounding where a Gram is singular.
    """
    read = {s: sympy.sympify(known[s]) for s in symbols(expr) if s in known}
    value = _digits(expr, tuple(sorted(read.items(), key=lambda item: item[0].name)))
    if value.is_Number and value.is_finite:
        return value
    if value.free_symbols:
        names = ", ".join(sorted(s.name for s in value.free_symbols))
        raise EvaluationError(f"no value for {names}: give it by name, as in evaluate({names.split(', ')[0]}=1.0).")
    # arcsines of a correlation beyond 1 by rounding are complex by as little
    real, imaginary = value.as_real_imag()
    if not (real.is_Number and imaginary.is_Number):
        raise EvaluationError(f"`{expr!s:.200}` has no numerical form.")
    if not (real.is_finite and imaginary.is_finite):
        raise Unsettled("`{}` has no finite value: it is divided by zero, or too large.", expr)
    if abs(imaginary) > noise * (1 + abs(real)):
        raise Unsettled("`{}` is not a real number.", expr)
    return real


@remembered(4096)
def _digits(expr: Expr, known: tuple[tuple[Symbol, Expr], ...]) -> Expr:
    """Passes at many resolutions ask again and again for what no integral moves."""
    value = in_digits(expr.xreplace(dict(known)), DIGITS)
    # decimals were calculated with in their own digits: enough to see what is no number
    return in_digits(expr, DIGITS, dict(known)) if known and value.is_Number and value.is_finite else value


def double(value: Expr, expr: Expr) -> float:
    """A number of many digits as a double; EvaluationError where it is too large for one."""
    rounded = float(value)
    if not math.isfinite(rounded):
        raise EvaluationError(
            f"`{expr!s:.200}` is {value.evalf(4)}, too large for a double: its closed form has no rounding, see "
            "scalar() and braket()."
        )
    return rounded


def share_of_error(place: int, pattern: int) -> float:
    """How a mean at a place among others is moved, in units of its error; contrary below 0 to what it is above.

    By different amounts: equal ones would cancel where two means are subtracted.  Signs have two periods along the
    places, so that neighbours move together once and apart once.
    """
    way = (1 if pattern > 0 else -1) * (1 + 0.3 * (place % 5) / 5)
    return way if (place * abs(pattern) // 2) % 2 else -way


def is_steady(value: float | Array, moved: float | Array, error: float) -> bool:
    """Whether numbers move by what the error of a zero in disguise brings along, and not by what it decides."""
    allowed = numpy.maximum(_STEADY * numpy.maximum(1.0, numpy.abs(value)), _SLOPE * error)
    return bool(numpy.all(numpy.abs(numpy.subtract(moved, value)) <= allowed))


def no_settled_value(value: float, moved: float, what: str) -> str:
    """The text of `Unsettled` where they are not."""
    return (
        f"{what} has no settled value, as `{{}}` in it is 0 within its error: it is {value:.2g} here, and moves by "
        f"{moved - value:.1g} with that number. Keep it away from zero."
    )


def check_settled(expr: Expr, variants: Mapping[Symbol, Array], fixed: Mapping[Symbol, Any]) -> None:
    """Raise Unsettled where an expression jumps or is singular at a zero in disguise.

    `variants` are values of the moments, the first the best one, the others within their errors of it.
    """
    nodes = singular_nodes(expr)
    if not nodes:
        return
    known = {**{s: float(v) for s, v in fixed.items()}, **variants}
    memo: dict[Expr, Any] = {}
    with numpy.errstate(all="ignore"):
        for head, argument, _ in nodes:
            values = numpy.atleast_1d(numpy.asarray(evaluate(argument, known, memo), dtype=float))
            spread = float(numpy.max(abs(values - values[0]))) if numpy.isfinite(values).all() else 0.0
            moved = not symbols(argument).isdisjoint(variants)
            # an exact zero is meant at a jump, sign(0) = 0; at a pole or a logarithm it is none the less a singular
            # point
            if abs(values[0]) <= SPREADS * spread and (moved or head not in _JUMPS):
                raise zero_within_error(head, argument, values[0], spread)


def zero_within_error(head: str, argument: Expr, value: float, spread: float) -> Unsettled:
    """The error of a jump, a pole, a logarithm or a root that is met at what is 0 within its error."""
    return Unsettled(
        f"the argument of {head} is 0 within its error: `{{}}` is {value:.2g} ± {spread:.1g}. The limit there depends "
        "on how the argument comes near zero; keep it away from zero.",
        argument,
    )


class Singular(NamedTuple):
    """A jump, logarithm, pole or root: what it is called, its argument, and whether it has a limit where that is 0."""

    head: str
    argument: Expr
    continuous: bool


@remembered(4096)
def singular_nodes(expr: Expr) -> tuple[Singular, ...]:
    """The jumps, logarithms, poles and roots in an expression."""
    found = []
    for node in sympy.preorder_traversal(expr):
        if isinstance(node, functions.JUMPS):
            found.append(Singular(type(node).__name__, node.args[0], False))
        elif isinstance(node, sympy.log):
            found.append(Singular("log", node.args[0], False))
        elif isinstance(node, sympy.Pow) and not (node.exp.is_Integer and node.exp.is_positive):
            found.append(Singular(f"a power with exponent {node.exp}", node.base, bool(node.exp.is_positive)))
    return tuple(s for s in dict.fromkeys(found) if s.argument.free_symbols)
