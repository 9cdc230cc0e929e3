"""One spelling for functions that have a head of their own: what is asked of the head is then known of all of them.

    max(u, 0) = relu(u),  min(|u|, −1) = −1,  relu(u) + relu(−u) = |u|,  step(u) − step(−u) = sign(u),
    sign(u³) = sign(u),
    1/(1 + e⁻ᵘ) = σ(u),   log(1 + eᵘ) = softplus(u),   u (1 + erf(u/√2))/2 = gelu(u),
    (eᵘ − 1)/(eᵘ + 1) = σ(u) − σ(−u) = tanh(u/2),
    √(u² − 2u v + v²) = |u − v|,   log(u² − 2u v + v²) = 2 log|u − v|
    u where(v, 1/u, 0) = where(v, 1, 0) = step(v)

They are one function at every argument, with one derivative.  So are averages of them one instruction: two copies of
√n ⟨1|x⟩ would be two fluctuations, of which a quotient has a pole where it has none.  Of squares that are written out
rounding may leave what is negative, which has no root.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy
from sympy import Expr, S

from tplimits.program.nodes.domains import partial_parts, seen_nonnegative
from tplimits.program.nodes.functions import gelu, maximum, minimum, relu, sigmoid, softplus, step, where
from tplimits.program.parts import found, heads, holds, rebuilt, remembered, symbols

#: an expression without any of these, and without a square, has no other spelling
_SPELLED = frozenset({maximum, minimum, relu, step, sympy.sign, where, sigmoid, sympy.exp, sympy.erf})
#: terms of squares
_MOST = 45


def in_heads(expr: Expr) -> Expr:
    """An expression in the heads of the language, wherever a function is written by its definition.

    >>> x, y = sympy.symbols("x y", real=True)
    >>> in_heads(y * step(x) - y * step(-x) + maximum(x, 0))
    y*sign(x) + relu(x)
    >>> in_heads(sympy.log(1 + sympy.exp(2 * x))), in_heads(1 / (1 + sympy.exp(-x)) ** 2)
    (softplus(2*x), sigmoid(x)**2)
    >>> in_heads(y * sympy.exp(x) / (1 + sympy.exp(x)))
    y*sigmoid(x)
    >>> in_heads((sympy.exp(x) - 1) / (sympy.exp(x) + 1)), in_heads((1 + 3 * sympy.exp(-x)) / (1 + sympy.exp(-x)))
    (tanh(x/2), 3*sigmoid(-x) + sigmoid(x))
    >>> in_heads(y * x**2 * where(x - y, 1 / x, y / x)), in_heads(x * where(x, 1 / x, 0))
    (y*where(x - y, x, x*y), step(x))
    >>> in_heads(minimum(sympy.Abs(x), -1)), in_heads(maximum(x**2 + 1, 1)), in_heads(minimum(x**2, 1))
    (-1, x**2 + 1, minimum(1, x**2))
    >>> in_heads(sympy.sqrt(x**2 - 2 * x * y + y**2))
    Abs(x - y)
    >>> in_heads((8 * x - 6) * (1 + sympy.erf((8 * x - 6) / sympy.sqrt(2))) / 2)
    gelu(8*x - 6)
    """
    if not _has_others(expr):
        return expr
    whole = _in_heads(expr)
    # what is divided by, or is no number somewhere, stays, for whoever refuses it
    partial = {part for part in map(_in_heads, partial_parts(expr)) if part in partial_parts(part)}
    return expr if whole.has(sympy.zoo, sympy.nan) or partial - partial_parts(whole) else whole


def _has_others(expr: Expr) -> bool:
    if not expr.args:
        return False
    return not _SPELLED.isdisjoint(heads(expr)) or (
        holds(expr, sympy.Add) and any(map(_reads_sum, found(expr, sympy.Pow, sympy.log)))
    )


def _reads_sum(expr: Expr) -> bool:
    """Whether it is a root or a logarithm of a sum."""
    return expr.args[0].is_Add and not (expr.is_Pow and expr.exp.is_Integer)


def _in_heads(expr: Expr) -> Expr:
    if not _has_others(expr):
        return expr
    args = [_in_heads(a) for a in expr.args]
    whole = expr if args == list(expr.args) else rebuilt(expr, args)
    return next((rule(whole) for kind, rule in _RULES if isinstance(whole, kind)), whole)


def _extreme(expr: Expr) -> Expr:
    """One of two where it is seen which is larger, max(|u|, −1) = |u|; relu for max(u, 0)."""
    ahead = 1 if isinstance(expr, maximum) else -1
    for this, other in (expr.args, expr.args[::-1]):
        if seen_nonnegative(ahead * (this - other)):
            return this
    return relu(sympy.Add(*expr.args)) if S.Zero in expr.args and ahead > 0 else expr


def _side(expr: Expr) -> Expr:
    """A jump with first powers in the place of odd ones: they have one sign, and y³ has no slope to cross 0 by."""
    powers = [f.as_base_exp() for f in sympy.Mul.make_args(expr.args[0])]
    return expr.func(sympy.Mul(*(b if k.is_Integer and k.is_odd and k > 0 else b**k for b, k in powers)))


def _raised(expr: Expr) -> Expr:
    if expr.exp.is_number and _reads_sum(expr) and (root := _root(expr.base)) is not None:
        return sympy.Abs(root) ** (2 * expr.exp)
    exponent = _above_one(expr.base) if expr.exp.is_number and expr.exp.is_negative else None
    return expr if exponent is None else sigmoid(-exponent) ** -expr.exp


def _logarithm(expr: Expr) -> Expr:
    if _reads_sum(expr) and (root := _root(expr.args[0])) is not None:
        return 2 * sympy.log(sympy.Abs(root))
    exponent = _above_one(expr.args[0])
    return expr if exponent is None else softplus(exponent)


@remembered(1 << 12)
def _root(total: Expr) -> Expr | None:
    """u of a sum that is u²; None for others."""
    if not 2 < len(total.args) <= _MOST:
        return None
    try:
        poly = sympy.Poly(total)
    except sympy.PolynomialError:
        return None
    # the first and the last term of a square are squares: most sums are told by that
    ends = (poly.terms()[0], poly.terms()[-1])
    if not (poly.domain.is_ZZ or poly.domain.is_QQ) or any(c.is_negative or any(k % 2 for k in m) for m, c in ends):
        return None
    number, factors = poly.sqf_list()
    if not number.is_positive or any(power % 2 for _, power in factors):
        return None
    return sympy.sqrt(number) * sympy.Mul(*(factor.as_expr() ** (power // 2) for factor, power in factors))


def _above_one(expr: Expr) -> Expr | None:
    """u of 1 + eᵘ; None for others."""
    number, rest = expr.as_coeff_Add()
    return rest.args[0] if number == 1 and isinstance(rest, sympy.exp) else None


def _product(expr: Expr) -> Expr:
    expr = _over_sums(_of_factors(_into_branches(expr)))
    return _sum(expr) if expr.is_Add else expr


def _over_sums(expr: Expr) -> Expr:
    """Σ c e^(k u) σ(−u)ᵖ as a sum of powers of σ(u) and σ(−u), 0 ≤ k ≤ p: no term grows where the product does not."""
    for factor in expr.args if expr.is_Mul else ():
        base, power = factor.as_base_exp()
        if not isinstance(base, sigmoid) or not power.is_Integer or not power.is_positive:
            continue
        for other in expr.args:
            terms = [_power_of(-base.args[0], term) for term in other.args] if other.is_Add else [None]
            if all(term is not None and 0 <= term[1] <= power for term in terms):
                rest = sympy.Mul(*_without(expr, factor, other))
                made = [c * sigmoid(-base.args[0]) ** k * base ** (power - k) for c, k in filter(None, terms)]
                return sympy.Add(*(rest * term for term in made))
    return expr


def _power_of(u: Expr, term: Expr) -> tuple[Expr, Expr] | None:
    """(c, k) of a number times e^(k u) with a whole k; None for others."""
    number, rest = term.as_coeff_Mul()
    if rest == 1:
        return number, S.Zero
    share = sympy.cancel(rest.args[0] / u) if isinstance(rest, sympy.exp) else S.NaN
    return (number, share) if share.is_Integer else None


def _into_branches(expr: Expr) -> Expr:
    """A product with those factors in the branches of a `where` that take a pole of theirs away."""
    for chosen in expr.args if expr.is_Mul else ():
        if not isinstance(chosen, where):
            continue
        condition, *branches = chosen.args
        poles = {p.base for b in branches for p in sympy.Mul.make_args(b) if p.is_Pow and p.exp.is_negative}
        for factor in expr.args:
            if factor.as_base_exp()[0] in poles:
                inside = _in_heads(where(condition, *(b * factor for b in branches)))
                return _into_branches(sympy.Mul(*_without(expr, chosen, factor), inside))
    return expr


def _chosen(expr: Expr) -> Expr:
    return step(expr.args[0]) if expr.args[1:] == (S.One, S.Zero) else expr


def _of_factors(expr: Expr) -> Expr:
    """With gelu for what it is made of, and σ(u)ᵏ for e^(k u) σ(−u)ᵏ: eᵘ/(1 + eᵘ) is bounded."""
    for factor in expr.args:
        base, power = factor.as_base_exp()
        for other in expr.args if isinstance(base, sigmoid) else ():
            share = sympy.cancel(other.args[0] / -base.args[0]) if isinstance(other, sympy.exp) else S.NaN
            if share.is_Integer and power.is_number and 0 < share <= power:
                made = sigmoid(-base.args[0]) ** share, base ** (power - share)
                return _of_factors(sympy.Mul(*_without(expr, factor, other), *made))
        number, rest = factor.as_coeff_Add()
        if number != 1 or not isinstance(rest, sympy.erf):
            continue
        u = sympy.expand(sympy.sqrt(2) * rest.args[0])
        for other in expr.args:
            share = S.NaN if other == factor or other.is_number else sympy.cancel(other / u)
            if share.is_Rational:
                return sympy.Mul(*_without(expr, factor, other), 2 * share, gelu(u))
    return expr


def _without(product: Expr, *factors: Expr) -> list[Expr]:
    # a quotient is no way to say it: SymPy keeps e^(u + v) e^(−u − v)
    return [f for f in product.args if f not in factors]


def _sum(expr: Expr) -> Expr:
    bent = _paired(_paired(expr, step, -1, _sign), relu, 1, sympy.Abs)
    return _paired(bent, sigmoid, -1, lambda u: sympy.tanh(u / 2))


def _sign(u: Expr) -> Expr | None:
    """sign(u); None where a width is in u, of which SymPy's sign keeps nothing."""
    scaled = any(s.is_positive and not s.is_integer for s in symbols(u))
    return None if scaled else sympy.sign(u)


def _paired(expr: Expr, head: type, parity: int, one: Callable[[Expr], Expr | None]) -> Expr:
    """A sum with `one(u)` for a pair head(u) ± head(−u), whatever both are multiplied by."""
    if not expr.is_Add:
        return expr
    terms = dict.fromkeys(expr.args)
    for term in expr.args:
        nodes: list[Expr] = [f for f in sympy.Mul.make_args(term) if isinstance(f, head)]
        for node in nodes:
            u = node.args[0]
            if u.could_extract_minus_sign() or term not in terms:
                continue
            other, whole = parity * (term / node) * head(-u), one(u)
            if other in terms and whole is not None:
                del terms[term], terms[other]
                terms[term / node * whole] = None
    return sympy.Add(*terms) if len(terms) < len(expr.args) else expr


_RULES: tuple[tuple[tuple[type, ...], Callable[[Expr], Expr]], ...] = (
    ((maximum, minimum), _extreme),
    ((step, sympy.sign), _side),
    ((where,), _chosen),
    ((sympy.Pow,), _raised),
    ((sympy.log,), _logarithm),
    ((sympy.Mul,), _product),
    ((sympy.Add,), _sum),
)
