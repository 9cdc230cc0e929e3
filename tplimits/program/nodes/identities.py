"""Sums that are 0 by an identity between functions: σ(x) − 1/(1 + e⁻ˣ), relu(x) − max(x, 0), log(1 + eˣ) − softplus(x).

Two spellings are one function if their difference is 0 in one normal form: heads by their definitions, exponentials as
powers of one, log(1 + e⁻ᵘ) as softplus(u) − u, and piece by piece between kinks.  Left in a program, such a difference
is rounding, which a jump, a pole or a quotient beside it makes a number of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import sympy
from sympy import Add, Expr, Symbol

from tplimits.program.nodes.digits import value_of
from tplimits.program.nodes.domains import partial_parts
from tplimits.program.nodes.entries import Entry
from tplimits.program.nodes.functions import BENT, gelu, sigmoid, softplus
from tplimits.program.nodes.log_sums import in_doubles
from tplimits.program.nodes.parity import reflected
from tplimits.program.nodes.pieces import pieces
from tplimits.program.parts import found, heads, holds, longer, put_in, rebuilt, remembered

#: heads with more than one spelling
_EXPONENTIAL = frozenset({sympy.exp, sympy.log, sympy.tanh, sympy.sinh, sympy.cosh, sigmoid, softplus})
_KINDS = (_EXPONENTIAL, frozenset({sympy.erf, sympy.erfc, gelu}), frozenset(BENT))
#: points at which a sum is looked at first, digits of that, and what is not 0
_POINTS, _DIGITS, _NOTHING = (sympy.Rational(7, 5), sympy.Rational(-8, 11)), 25, 1e-20
#: what decimals leave of terms that do not cancel
_FAR = 1e-6
#: nodes of a sum that is looked at
_LONG = 120


def without_identities(expr: Expr, written: Callable[[Entry], Expr] = lambda entry: entry) -> Expr:
    """An expression with 0 for terms of its sums that add up to 0 as functions of one entry.

    `written` is an entry as a function of another, which it has been given a name for.

    >>> x, y = (Entry(sympy.Integer(i), Symbol("α", integer=True)) for i in range(2))
    >>> other = (1 + sympy.tanh(x / 2)) / 2
    >>> without_identities(y * (sigmoid(x) - other) / x), without_identities(y + sigmoid(x) - other) == y
    (0, True)
    >>> without_identities(y - sigmoid(x), lambda entry: other if entry == y else entry)
    0
    """
    if not expr.args or not holds(expr, Add):
        return expr
    swap = {e: written(e) for e in found(expr, Entry)}
    return _without_identities(expr, {e: w for e, w in swap.items() if e != w}, {})


def _without_identities(expr: Expr, swap: Mapping[Expr, Expr], done: dict[Expr, Expr]) -> Expr:
    written = put_in(expr, swap, done)
    # |y| − z with z = |y| is 0 as soon as it is written out
    if isinstance(expr, Entry) or not (_may_hold_one(written) or len(found(written, Add)) < len(found(expr, Add))):
        return expr
    whole = rebuilt(expr, [_without_identities(a, swap, done) for a in expr.args])
    # what is divided by, or is no number somewhere, stays, for whoever refuses it
    lost = whole.has(sympy.zoo, sympy.nan) or partial_parts(expr) - partial_parts(whole)
    expr = expr if lost else whole
    if not expr.is_Add:
        return expr
    gone = _terms_that_cancel(tuple(put_in(t, swap, done) for t in expr.args))
    return Add(*(t for t, cancels in zip(expr.args, gone, strict=True) if not cancels)) if any(gone) else expr


def _may_hold_one(expr: Expr) -> bool:
    """Whether a sum stands there, and two functions that may be spellings of one another."""
    read = heads(expr)
    kinds = (read & kind for kind in _KINDS)
    return Add in read and any(k and len(found(expr, *k)) > 1 for k in kinds) and not longer(expr, 10 * _LONG)


@remembered(1 << 12)
def _terms_that_cancel(terms: tuple[Expr, ...]) -> list[bool]:
    """Which terms of a sum are parts of sums that are 0."""
    gone = [False] * len(terms)
    for entry in sorted(frozenset().union(*(found(t, Entry) for t in terms)), key=sympy.default_sort_key):
        beside: dict[Expr, list[Expr]] = {}
        for rest, mine in (_apart(term, entry) for term in terms):
            beside.setdefault(rest, []).append(mine)
        nothing = {r for r, parts in beside.items() if not partial_parts(r) and _cancel(parts, entry)}
        gone = [known or _apart(t, entry)[0] in nothing for known, t in zip(gone, terms, strict=True)]
    return gone


def _apart(term: Expr, entry: Entry) -> tuple[Expr, Expr]:
    """What of a term does not read an entry, but for its number, and the rest."""
    number, product = term.as_coeff_Mul()
    rest, mine = product.as_independent(entry, as_Add=False)
    return rest, number * mine


def _cancel(parts: Sequence[Expr], entry: Entry) -> bool:
    total = Add(*parts)
    return _is_nothing(total, entry) if total != 0 else len(parts) > 1 and not any(map(partial_parts, parts))


def _is_nothing(part: Expr, entry: Entry) -> bool:
    if not part.is_Add or not _may_hold_one(part) or longer(part, _LONG) or partial_parts(part):
        return False
    if found(part, Entry) != {entry}:
        return False
    if any(_is_far(part, entry, point) for point in _POINTS):  # before it is written out in a variable
        return False
    x = Symbol("x", real=True)
    return is_zero(part.xreplace({entry: x}), x)


@remembered(1 << 12)
def is_zero(function: Expr, x: Symbol) -> bool:
    """Whether a function of one variable is 0 everywhere, by algebra.

    >>> from tplimits.program.nodes.functions import maximum, minimum, relu, where
    >>> x = Symbol("x", real=True)
    >>> is_zero(sympy.tanh(x) - 2 * sigmoid(2 * x) + 1, x), is_zero(maximum(x, 1) + minimum(x, 1) - x - 1, x)
    (True, True)
    >>> elu = where(x, x, sympy.exp(x) - 1)
    >>> is_zero(elu - relu(x) - sympy.exp(-relu(-x)) + 1, x), is_zero(relu(x) - softplus(x), x)
    (True, False)
    """
    if function.free_symbols != {x}:
        return bool(function == 0)
    for point in _POINTS:
        if _is_far(function, x, point):
            return False
        value = value_of(function.xreplace({x: point}), _DIGITS)
        if value is None or abs(value) > _NOTHING:
            return False
    parts = pieces(function, x)
    return parts is not None and all(_is_smooth_zero(p) for p in parts)


def _is_far(function: Expr, x: Expr, point: Expr) -> bool:
    """Whether decimals tell a sum from 0 at a point; of exact numbers SymPy would ask for the sign of each function."""
    terms = [_decimal(t, x, point) for t in Add.make_args(function)]
    return all(t.is_Float or t.is_Rational for t in terms) and abs(sum(terms)) > _FAR * sum(map(abs, terms))


@remembered(1 << 14)
def _decimal(expr: Expr, x: Expr, point: Expr) -> Expr:
    """A function in decimals, each of those that it is made of once: in a chain all that come later read the first."""
    if expr == x:
        return sympy.Float(point, _DIGITS)
    args = tuple(_decimal(a, x, point) for a in expr.args)
    return expr if args == expr.args else expr.func(*args)


def _is_smooth_zero(function: Expr) -> bool:
    try:
        return sympy.cancel(_in_generators(function)) == 0
    except sympy.PolynomialError:
        return False


def _in_generators(function: Expr) -> Expr:
    """Powers of one exponential for each e^(r m), softplus and error functions by one name each."""
    written = reflected(function.replace(sympy.log, lambda u: in_doubles(sympy.log(u))))
    written = written.replace(sympy.erfc, lambda u: 1 - sympy.erf(u))
    written = written.rewrite((sympy.tanh, sympy.sinh, sympy.cosh), sympy.exp)
    exponents = {e: sympy.expand(e.args[0]).as_coefficients_dict() for e in found(written, sympy.exp)}
    denominators: dict[Expr, int] = {}
    for exponent in exponents.values():
        for monomial, c in exponent.items():
            if c.is_Rational:
                denominators[monomial] = int(sympy.ilcm(denominators.get(monomial, 1), c.q))
    names = {monomial: sympy.Dummy(positive=True) for monomial in denominators}
    swap = {}
    for e, exponent in exponents.items():
        if all(c.is_Rational for c in exponent.values()):
            swap[e] = sympy.Mul(*(names[m] ** (c * denominators[m]) for m, c in exponent.items()))
    return written.xreplace(swap)
