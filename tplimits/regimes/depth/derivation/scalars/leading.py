"""What leads in powers of n: of functions of small scalars by Taylor's series, of those with a kink by their degree."""

from __future__ import annotations

from sympy import Add, Expr, Function, Rational, S, Symbol, expand, factorial

from tplimits.program.nodes.entries import AxisSum, N
from tplimits.program.nodes.functions import kinks, leaky_relu, maximum, minimum, where
from tplimits.program.nodes.properties import DEGREES
from tplimits.program.nodes.scale import in_root, is_infinite, led

#: powers of √n that may stand before a function, to be taken away by what it does or multiplies
GROWN = 6
#: functions of several arguments that are sums and products of functions of one
SEVERAL = (leaky_relu, maximum, minimum, where)
#: f(c y) = c^degree f(y) for c > 0
_DEGREES = {**DEGREES, AxisSum: 1}


def in_front(expr: Expr) -> Expr:
    """An expression with the leading power of n of an argument in front: 1/(S²/n + 1/n) is n/(S² + 1)."""
    plain = expr.replace(lambda h: isinstance(h, SEVERAL), lambda h: h.definition())
    powers = plain.replace(lambda p: p.is_Pow and p.base.is_Add and p.base.has(N), _lead)
    return powers.replace(lambda h: h.func in _DEGREES and h.args[0].has(N), _lead)


def _lead(expr: Expr) -> Expr:
    argument, degree = (expr.base, expr.exp) if expr.is_Pow else (expr.args[0], _DEGREES[expr.func])
    found = led(argument)
    if found is None:
        return expr
    order, rest = found
    return N ** (order * degree) * (rest**degree if expr.is_Pow else expr.func(rest, *expr.args[1:]))


def brought_out(expr: Expr) -> Expr:
    """In powers of n as far as those in front of a function bring them out."""
    return in_front(in_powers(expr, 0))


def in_powers(expr: Expr, least: int) -> Expr:
    """Taylor polynomials in a root of n of what is smooth there, right up to n^(−least/2) whatever stands in front."""
    small, root, q = in_root(expr)
    grown = _grown(small, root)
    if grown > q * GROWN:
        return expr
    # what multiplies a function brings out as many of its powers
    order = max(0, grown) + least * q // 2

    def polynomial(function: Expr) -> Expr:
        terms, derivative = [], function
        for k in range(order + 1):
            terms.append(derivative.xreplace({root: S.Zero}) * root**k / factorial(k))
            derivative = derivative.diff(root)
        found = Add(*terms)
        return function if is_infinite(found) else found

    smooth = small.replace(lambda f: f.has(root) and root not in (f, *f.args[:1]) and _is_smooth(f), polynomial)
    return expand(smooth).xreplace({root: N ** Rational(-1, q)})


def _grown(expr: Expr, root: Symbol) -> int:
    """The highest power of 1/root in an expression whose sums do not cancel."""
    if expr.is_Pow or expr == root:
        base, exponent = expr.as_base_exp()
        if base == root:
            return -int(exponent)
        return int(exponent) * max(0, _grown(base, root)) if exponent.is_Integer and exponent.is_positive else 0
    below = [_grown(a, root) for a in expr.args]
    if expr.is_Mul:
        return sum(below)
    # sin(y/√n) is as small as y/√n, but that is told by its powers: before they are there, it takes none away
    return max(below if expr.is_Add else [0, *below], default=0)


def _is_smooth(expr: Expr) -> bool:
    if expr.is_Pow:
        return not (expr.exp.is_Integer and expr.exp.is_positive)
    return isinstance(expr, Function) and not kinks(expr)
