"""Quadratic polynomials as sums of squares: their least value, and the forms that vanish where they take it."""

from __future__ import annotations

import sympy
from sympy import Expr, S

from tplimits.program.nodes.entries import entries
from tplimits.program.parts import remembered

#: variables and terms of a polynomial that is asked
_FEW, _LONG = 6, 28


@remembered(1 << 12)
def squares(expr: Expr, small: Expr = S.Zero) -> tuple[tuple[tuple[Expr, Expr], ...], Expr] | None:
    """The (d, ℓ) and the c of a quadratic polynomial Σ d ℓ² + c, ℓ affine and independent; None for all others.

    A symbol that is `small` is no variable of it, but stands in coefficients.

    >>> x, y = sympy.symbols("x y", real=True)
    >>> squares(x**2 + x * y + y**2)
    (((1, x + y/2), (3/4, y)), 0)
    >>> squares(x**2 - 2 * x + 3), squares(x * y), squares(x**2 + y)
    ((((1, x - 1),), 2), None, None)
    """
    if not expr.is_Add or len(expr.args) > _LONG:
        return None
    # sums of products of different factors hold no square: most sums that are asked, and polynomials take a millisecond
    if not any(factor.is_Pow or factor.is_Add for term in expr.args for factor in sympy.Mul.make_args(term)):
        return None
    # entries of vectors stand for themselves, and are real
    named = {entry: sympy.Dummy(f"z{i}", real=True) for i, entry in enumerate(sorted(entries(expr), key=str))}
    polynomial = expr.xreplace(named)
    variables = sorted(polynomial.free_symbols - {small}, key=str)
    if not 0 < len(variables) <= _FEW:
        return None
    if not all(v.is_real for v in variables) or not polynomial.is_polynomial(*variables):
        return None
    rest = sympy.Poly(polynomial, *variables)
    found: list[tuple[Expr, Expr]] = []
    for v in variables if rest.total_degree() == 2 else ():
        d = rest.coeff_monomial(v**2)
        if d == 0:
            continue
        form = (rest.diff(v).as_expr() / (2 * d)).expand()
        found.append((d, form))
        rest = sympy.Poly((rest.as_expr() - d * form**2).expand(), *variables)
    c = sympy.cancel(rest.as_expr())
    # irrational numbers might cancel
    known = c.is_Rational or (c.free_symbols == {small} and c.is_polynomial(small) and _is_rational(c))
    if not (found and known and all(d.is_nonzero is not False for d, _ in found)):
        return None
    back = {v: entry for entry, v in named.items()}
    return tuple((d, form.xreplace(back)) for d, form in found), c


def _is_rational(polynomial: Expr) -> bool:
    return all(c.is_Rational for c in sympy.Poly(polynomial).coeffs())


def roots_of_squares(expr: Expr) -> list[tuple[Expr, Expr]]:
    """The forms of a quadratic polynomial that vanishes where they all do, and nowhere else, and their exponent 2."""
    known = squares(expr)
    if known is None or known[1] != 0 or len({d.is_positive for d, _ in known[0]}) > 1:
        return []
    forms, variables = [form for _, form in known[0]], sorted(expr.free_symbols, key=str)
    # a definite form vanishes where all of its variables do
    whole = len(forms) == len(variables) and all(f.xreplace(dict.fromkeys(variables, S.Zero)) == 0 for f in forms)
    return [(form, S(2)) for form in (variables if whole else forms)]
