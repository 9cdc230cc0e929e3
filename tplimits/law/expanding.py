"""Sums of products: how far a random expression is multiplied out before its mean is taken."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import sympy
from sympy import Expr, S

from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.hypotheses.quotients import as_quotient
from tplimits.program.nodes import functions
from tplimits.program.nodes.functions import truncated
from tplimits.program.parts import found, heads, holds, longer, product

#: a product of sums with more terms than this is not multiplied out; fewer where it cannot close anyway
_MOST_TERMS, _MOST_OPEN_TERMS = 400, 40
#: powers that may have no mean near a zero of their base
_POLE = -S.Half
#: a random factor with more nodes than this gets a name
_LONG = 160
#: heads that no row of the table of closed forms takes
OPEN_HEADS = (
    *(sympy.tanh, sympy.sech, functions.sigmoid, functions.softplus, truncated),
    *(sympy.log, sympy.atan, sympy.asinh),
)

#: of these heads alone are sums of products of names
_SUMS = frozenset((sympy.Add, sympy.Mul, sympy.Symbol))

#: heads that are straight between kinks: one inside another is still a product of steps and polynomials
PIECEWISE_LINEAR = (*functions.BENT, sympy.DiracDelta)


def is_long(expr: Expr) -> bool:
    """Whether an expression tree has more nodes than a factor should."""
    return longer(expr, _LONG)


def is_flat(expr: Expr) -> bool:
    """Whether an expression is a sum of products of symbols, their powers and whole numbers, which nothing expands."""
    factors = (f for term in sympy.Add.make_args(expr) for f in sympy.Mul.make_args(term))
    return all(f.is_Symbol or f.is_Integer or _is_power(f) for f in factors)


def multiplied_out(expr: Expr) -> Expr:
    """What `sympy.expand` gives, looked for only where there is something to multiply out."""
    if is_flat(expr):
        return expr
    # without powers and functions expand_mul gives the same, several times faster
    if heads(expr) <= _SUMS:
        return sympy.expand_mul(expr)
    return sympy.expand(expr)


def may_close(expr: Expr, random: Callable[[Expr], bool]) -> bool:
    """False where no row of the table can apply, seen before nested functions are multiplied out: that costs 2^depth.

    >>> x = sympy.Symbol("x")
    >>> may_close(sympy.erf(x) * x, lambda e: True), may_close(sympy.erf(x + sympy.erf(x)), lambda e: True)
    (True, False)
    """
    for head in found(expr, sympy.Function):
        if random(head):
            inner = {f for a in head.args for f in found(a, sympy.Function) if random(f)}
            straight = all(isinstance(f, PIECEWISE_LINEAR) for f in (head, *inner))
            if isinstance(head, OPEN_HEADS) or (inner and not straight):
                return False
    return True


def numerators_expanded(expr: Expr) -> Expr:
    """A sum of products with sums that are divided by as they are: of (x² + y²)⁻² the parts of the sum show the zero.

    >>> x, y = sympy.symbols("x y")
    >>> numerators_expanded((x + 1) / (x + y) ** 2)
    x/(x + y)**2 + (x + y)**(-2)
    """
    whole = {p: sympy.Dummy() for p in found(expr, sympy.Pow) if p.base.is_Add and p.exp.could_extract_minus_sign()}
    return sympy.expand(expr.xreplace(whole)).xreplace({name: p for p, name in whole.items()})


def _is_power(factor: Expr) -> bool:
    return bool(factor.is_Pow and factor.base.is_Symbol and factor.exp.is_Integer)


def with_sech(expr: Expr) -> Expr:
    """1 − tanh² as sech²: one factor instead of two terms."""
    if expr.is_Symbol or not holds(expr, sympy.tanh):
        return expr
    if isinstance(expr, sympy.Add) and len(expr.args) == 2 and S.One in expr.args:
        (other,) = (a for a in expr.args if a != 1)
        if isinstance(-other, sympy.Pow) and (-other).exp == 2 and isinstance((-other).base, sympy.tanh):
            return sympy.sech((-other).base.args[0]) ** 2
    return expr.func(*(with_sech(a) for a in expr.args)) if expr.args else expr


def times(c: Expr, d: Expr, mean: Expr = S.One) -> Expr:
    """c·d·mean without building products with 1."""
    if mean == 0:
        return S.Zero
    # most coefficients are 1, and each product of SymPy sorts its factors
    coefficient = d if c == 1 else c if d == 1 else product(c, d)
    return mean if coefficient == 1 else product(coefficient, mean) if mean != 1 else coefficient


def total(terms: Sequence[Expr]) -> Expr:
    """The sum of some terms; one alone is not looked at."""
    return terms[0] if len(terms) == 1 else sympy.Add(*terms)


def needed_by_poles(factors: Sequence[Expr], random: Callable[[Expr], bool]) -> list[Expr]:
    """Sums beside a pole at the same variables: (1 − cos x)/x² has a mean, and neither 1/x² nor cos(x)/x² has one."""
    poles = [f for f in factors if any(_is_pole(p, random) for p in _powers(f))]
    if not poles:
        return []
    reads = set().union(*(found(p, sympy.Symbol) for p in poles))
    return [f for f in factors if f.as_base_exp()[0].is_Add and f not in poles and reads & found(f, sympy.Symbol)]


def _powers(factor: Expr) -> Iterable[Expr]:
    """A factor that is a power, or the powers on the sides of a function that is read on one of them."""
    return (factor,) if factor.is_Pow else found(factor, sympy.Pow) if isinstance(factor, functions.where) else ()


def _is_pole(power: Expr, random: Callable[[Expr], bool]) -> bool:
    return bool(power.exp.is_number and power.exp <= _POLE and random(power.base) and _vanishes(power.base))


def _vanishes(base: Expr) -> bool:
    low, high = bounds(base)
    return bool(low <= 0 <= high)


def two_factors(expr: Expr, random: Callable[[Expr], bool]) -> tuple[Expr, Expr] | None:
    """The two factors of a product of sums, which is better left unexpanded."""
    if isinstance(expr, sympy.Pow) and expr.exp == 2 and expr.base.is_Add:
        return expr.base, expr.base
    if isinstance(expr, sympy.Mul) and len(expr.args) == 2 and any(a.is_Add for a in expr.args):
        return None if needed_by_poles(expr.args, random) else expr.args
    return None


def expanded(expr: Expr, random: Callable[[Expr], bool], finite: Callable[[Expr], bool] = lambda _: True) -> Expr:
    """The expression as a sum of products; constant factors and arguments of functions stay as they are.

    A product with more than _MOST_TERMS terms is left alone: it is then one random factor.  Terms that have no mean by
    themselves, which are not `finite`, stay together where their poles may cancel.
    """
    if not isinstance(expr, (sympy.Add, sympy.Mul, sympy.Pow)):
        return expr
    opens = holds(expr, *OPEN_HEADS) or not may_close(expr, random)
    most = _MOST_OPEN_TERMS if opens else _MOST_TERMS
    terms = _distributed(expr, random, most, lambda e: as_quotient(e, lambda b: random(b) and _vanishes(b), finite))
    return expr if terms is None else sympy.Add(*terms)


def _distributed(
    expr: Expr, random: Callable[[Expr], bool], most: int, together: Callable[[Expr], Expr]
) -> list[Expr] | None:
    if not random(expr):
        return [expr]
    if isinstance(expr, (sympy.Add, sympy.Mul)):
        expr = together(expr)
    if isinstance(expr, sympy.Add):
        parts = [_distributed(a, random, most, together) or [a] for a in expr.args]
        return [t for part in parts for t in part]
    if isinstance(expr, sympy.Pow) and expr.base.is_Add and expr.exp.is_Integer and 1 < expr.exp <= 12:
        base = _distributed(expr.base, random, most, together) or [expr.base]
        # so many monomials of that degree there are in so many terms
        if math.comb(len(base) + int(expr.exp) - 1, int(expr.exp)) > most:
            return None
        terms = [S.One]
        for _ in range(int(expr.exp)):
            # like terms are collected after each factor: the k-th power then has binomially many terms, not
            # exponentially many
            terms = list(sympy.Add.make_args(sympy.Add(*(a * b for a in terms for b in base))))
        return terms
    if isinstance(expr, sympy.Mul):
        whole = needed_by_poles(expr.args, random)
        # what makes up for a pole stays whole: term by term the means are infinite
        lists = [[a] if a in whole else _distributed(a, random, most, together) or [a] for a in expr.args]
        if math.prod(len(part) for part in lists) > most:
            return None
        return [sympy.Mul(*chosen) for chosen in itertools.product(*lists)]
    return [expr]
