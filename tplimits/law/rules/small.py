"""Smooth functions of vectors that a power of n makes small: √n tanh(x/√n) tends to x, n (1 − cos(x/√n)) to x²/2.

    n^(p/2) F(n^(−1/2) x_α) = n^(p/2) Σ_{k ≤ p} F^(k)(0) (n^(−1/2) x_α)^k / k! + O(n^(−1/2) |x_α|^(p + 1))

for all neurons at once: x has moments, so that n^(−1/2) max |x_α| → 0 almost surely, and F is asked near 0 alone.
"""

from __future__ import annotations

import sympy
from sympy import Expr, S, Symbol

from tplimits.law.hypotheses.taylor import is_analytic
from tplimits.program.nodes.entries import N
from tplimits.program.nodes.scale import in_root
from tplimits.program.parts import found

#: so many derivatives are taken
_MOST = 8


def in_powers_of_n(expr: Expr, vectors: type[Expr], order: int = 0) -> Expr | None:
    """The expression as a sum of powers of n to order n^(−order/2); None where n stands inside of other functions.

    >>> from tplimits.program.nodes.entries import Entry
    >>> x = Entry(S.Zero, S.Zero)
    >>> in_powers_of_n(sympy.sqrt(N) * sympy.tanh(x / sympy.sqrt(N)), Entry)
    Entry(0, 0)
    >>> in_powers_of_n(sympy.sqrt(N) * sympy.tanh(x + 1 / sympy.sqrt(N)), Entry) is None
    True
    """
    names = {vector: sympy.Dummy(real=True) for vector in found(expr, vectors)}
    small, root, q = in_root(expr.xreplace(names))
    functions = [f for f in found(small, sympy.Function, sympy.Pow) if f.has(root) and f.as_base_exp()[0] != root]
    if not functions or not all(_is_smooth(f, root, {*names.values()}) for f in functions):
        return None
    # named, so that nothing is multiplied into what is divided by
    apart = {f: sympy.Dummy() for f in functions}
    terms = sympy.Add.make_args(sympy.expand(small.xreplace(apart)))
    lead = max(_power(term, root) for term in terms)
    most = lead + order * q // 2
    if not 0 <= most <= _MOST:
        return None
    whole, total = sympy.Add(*(term * root**lead for term in terms)), S.Zero
    derivative = whole.xreplace({name: f for f, name in apart.items()})
    for k in range(most + 1):
        total += (
            sympy.expand(derivative.xreplace({root: S.Zero})) / sympy.factorial(k) * N ** sympy.Rational(lead - k, q)
        )
        derivative = derivative.diff(root)
    return total.xreplace({name: vector for vector, name in names.items()})


def smoothed_out(expr: Expr, vectors: type[Expr], order: int) -> Expr:
    """An expression with what is such a sum written as one, to an order that no power of n beside it brings out."""
    if not expr.args or not expr.has(N):
        return expr
    series = in_powers_of_n(expr, vectors, order)
    return expr.func(*(smoothed_out(a, vectors, order) for a in expr.args)) if series is None else series


def _power(term: Expr, root: Symbol) -> int:
    """The power of 1/root in front of a term."""
    powers = (f.as_base_exp() for f in sympy.Mul.make_args(term))
    return -sum(int(exponent) for base, exponent in powers if base == root)


def _is_smooth(function: Expr, root: Symbol, vectors: set[Expr]) -> bool:
    """Whether a function is analytic where its arguments tend, and these are the same for all neurons."""
    starts = [a.xreplace({root: S.Zero}) for a in function.args]
    return is_analytic(function, root) and not any(a.free_symbols & vectors for a in starts)
