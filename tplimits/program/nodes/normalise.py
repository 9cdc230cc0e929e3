"""A user's SymPy expression in the heads of the language."""

from __future__ import annotations

import sympy
from sympy import DiracDelta, Expr, S, sympify

from tplimits.program.nodes.entries import GaussMean
from tplimits.program.nodes.functions import HEADS, maximum, minimum, relu, step, where

#: the irrational numbers that may stand in a body by name
NUMBERS: dict[str, Expr] = {"pi": sympy.pi, "e": sympy.E, "euler": sympy.EulerGamma}

_REWRITTEN = (sympy.Max, sympy.Min, sympy.Heaviside)
_HEADS = {head: arity for head, arity in HEADS.values() if head is not DiracDelta}


def normalise(expr: Expr) -> Expr:
    """The expression in the heads of `functions.HEADS`, with exact numbers.

    `Max`, `Min`, `Heaviside` and `Piecewise` are rewritten, floats become the rationals they are.
    ValueError says what has no counterpart here: a function, an infinite or a complex number.
    """
    expr = sympify(expr, strict=True)  # text is never evaluated
    if isinstance(expr, sympy.Piecewise):
        return _piecewise(expr)
    if isinstance(expr, GaussMean):
        return GaussMean(normalise(expr.args[0]), expr.args[1])
    if not expr.args:
        return _leaf(expr)
    if not isinstance(expr, _REWRITTEN) and _HEADS.get(type(expr), -1) not in (None, len(expr.args)):
        raise ValueError(f"the function {type(expr).__name__}")
    args = [normalise(a) for a in expr.args]
    if isinstance(expr, sympy.Max) and S.Zero in args and len(args) == 2:
        return relu(args[0] if args[1] == 0 else args[1])
    if isinstance(expr, (sympy.Max, sympy.Min)):
        pair = maximum if isinstance(expr, sympy.Max) else minimum
        value = args[0]
        for other in args[1:]:
            value = pair(value, other)
        return value
    if isinstance(expr, sympy.Heaviside):
        return step(args[0])
    rebuilt = expr.func(*args)
    refuse_unreal(rebuilt)
    return rebuilt


def refuse_unreal(expr: Expr) -> None:
    """ValueError when a number in the expression is infinite, undefined or complex."""
    if expr.has(S.NaN, S.ComplexInfinity, S.Infinity, S.NegativeInfinity):
        raise ValueError("a number that is not finite (a division by zero, a logarithm of zero?)")
    if expr.has(S.ImaginaryUnit) or (expr.is_number and expr.is_extended_real is False):
        raise ValueError(f"the complex number {expr}" if expr.is_number else "the imaginary unit")


def _leaf(expr: Expr) -> Expr:
    if not isinstance(expr, Expr):
        raise ValueError(f"the condition {expr}")
    refuse_unreal(expr)
    if expr.is_Float:
        return sympy.Rational(expr)
    if not expr.is_Rational and not expr.is_Symbol and expr not in NUMBERS.values():
        raise ValueError(f"the number {expr}")
    return expr


def _piecewise(expr: sympy.Piecewise) -> Expr:
    branches = [(normalise(value), condition) for value, condition in expr.args]
    result, last = branches[-1]
    if last is not S.true:
        raise ValueError("a Piecewise without a last branch for all other values")
    for value, condition in reversed(branches[:-1]):
        result = _relational(condition, value, result)
    return result


def _relational(condition: Expr, if_true: Expr, if_false: Expr) -> Expr:
    """`if_true` where the condition holds: relations become signs, And/Or become nesting."""
    if condition is S.true:
        return if_true
    if condition is S.false:
        return if_false
    if isinstance(condition, (sympy.StrictGreaterThan, sympy.StrictLessThan)):
        return where(normalise(condition.gts - condition.lts), if_true, if_false)
    if isinstance(condition, (sympy.GreaterThan, sympy.LessThan)):
        return where(normalise(condition.lts - condition.gts), if_false, if_true)
    if isinstance(condition, sympy.And):
        first, rest = condition.args[0], sympy.And(*condition.args[1:])
        return _relational(first, _relational(rest, if_true, if_false), if_false)
    if isinstance(condition, sympy.Or):
        first, rest = condition.args[0], sympy.Or(*condition.args[1:])
        return _relational(first, if_true, _relational(rest, if_true, if_false))
    if isinstance(condition, sympy.Not):
        return _relational(condition.args[0], if_false, if_true)
    raise ValueError(f"the condition {condition}, which is not an inequality")
