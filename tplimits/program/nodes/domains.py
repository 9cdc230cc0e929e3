"""Domains: where a function of the language is finite and real, read off its heads alone.

    √u, log u are real for u ≥ 0,   arcsine and its like for |u| ≤ 1;   1/u and log u are not finite at u = 0

What is chosen by `where` is asked on the side where it is chosen alone.
"""

from __future__ import annotations

import sympy
from sympy import Dummy, Expr

from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import entries, reads_vectors
from tplimits.program.nodes.functions import maximum, minimum, where
from tplimits.program.nodes.properties import EXPONENTIAL, POSITIVE, PROPERTIES, SIGNED
from tplimits.program.parts import found, holds, rebuilt

#: what may be real on a part of the line only
INVERSES: tuple[type, ...] = (sympy.asin, sympy.acos, sympy.atanh)
#: what may have a pole
POLES: tuple[type, ...] = (sympy.log, sympy.tan, sympy.Pow)
#: a body without any of these is real and finite
PARTIAL: tuple[type, ...] = (*POLES, *INVERSES)
#: positive with their argument
_LIKE_ARGUMENT: tuple[type, ...] = (functions.step, functions.relu, *SIGNED)


def ends_of_domains(body: Expr) -> list[tuple[Expr, Expr]]:
    """What is real where an argument is not negative: (part of a body, argument)."""
    ends = []
    for node in found(body, sympy.Pow, *INVERSES):
        if not node.is_Pow:
            # arcsine, arccosine and artanh are real for |u| ≤ 1
            ends.append((node, 1 - node.args[0] ** 2))
        elif not node.exp.is_integer and (node.exp.is_number or entries(node.exp)):
            ends.append((node, node.base))
    return sorted(ends, key=str) if len(ends) > 1 else ends


def open_powers(body: Expr) -> list[Expr]:
    """Powers whose exponents are constants without a value: real on a part of the line only where these are broken."""
    return [p for p in found(body, sympy.Pow) if not (p.exp.is_number or entries(p.exp)) and entries(p.base)]


def real_where(body: Expr) -> list[tuple[Expr, Expr]]:
    """The same and logarithms, whose end is a pole."""
    return [*ends_of_domains(body), *((node, node.args[0]) for node in found(body, sympy.log))]


def singular_places(body: Expr) -> list[tuple[Expr, Expr]]:
    """What is not finite where an argument is zero: (part of a body, argument)."""
    places = []
    for node in found(body, *POLES):
        if isinstance(node, sympy.log):
            places.append((node, node.args[0]))
        elif isinstance(node, sympy.tan):
            # tan is sin/cos: its pole is where the cosine vanishes
            places.append((node, sympy.cos(node.args[0])))
        # also exponents in symbols, −p; a power of a number is a constant that was judged when it was made
        elif node.exp.could_extract_minus_sign() and not node.base.is_number:
            places.append((node, node.base))
    return sorted(places, key=str) if len(places) > 1 else places


def partial_parts(expr: Expr) -> frozenset[Expr]:
    """Parts that are no real numbers at some arguments, where a network has none either."""
    roots = (p for p in found(expr, sympy.Pow) if not p.exp.is_integer and not p.base.is_positive)
    return frozenset([*roots, *(e for e in found(expr, sympy.log) if not e.args[0].is_positive)])


def is_singular(body: Expr) -> bool:
    """Whether a function of vectors has an exponential, a logarithm, a root or a pole of them."""
    return any(
        reads_vectors(node) and not (node.is_Pow and node.exp.is_Integer and node.exp.is_positive)
        for node in found(body, *PARTIAL, *EXPONENTIAL)
    )


def jumps(body: Expr) -> bool:
    """Whether a jump of vectors stands in a function, which may take its height away elsewhere."""
    return any(map(reads_vectors, found(body, *functions.JUMPS)))


def seen_nonnegative(expr: Expr) -> bool:
    """Whether the ranges of heads and SymPy's assumptions show that an expression is never negative.

    >>> x = sympy.Symbol("x", real=True)
    >>> seen_nonnegative(functions.relu(x) + x**2), seen_nonnegative(1 - sympy.tanh(x) ** 2)
    (True, False)
    """
    return bool(_with_ranges(expr).is_nonnegative)


def seen_positive(expr: Expr) -> bool:
    """The same of zero, too."""
    return bool(_with_ranges(expr).is_positive)


def _with_ranges(expr: Expr) -> Expr:
    """Symbols that are not negative, or positive, for functions that are."""
    above = [f for f in found(expr, *PROPERTIES) if PROPERTIES[type(f)].values[0] >= 0]
    signs = ({"positive": True} if f.is_positive or isinstance(f, POSITIVE) else {"nonnegative": True} for f in above)
    return expr.xreplace({f: Dummy(**sign) for f, sign in zip(above, signs, strict=True)}) if above else expr


def where_chosen(body: Expr) -> Expr:
    """A body with √|u| for √u, log |u| for log u, … in branches that are chosen only where u ≥ 0: the same function.

    >>> x = sympy.Symbol("x", real=True)
    >>> where_chosen(where(x - 1, sympy.log(x), 0)), where_chosen(where(x, 0, sympy.sqrt(x)))
    (where(x - 1, log(Abs(x)), 0), where(x, 0, sqrt(x)))
    """
    if not body.args or not holds(body, where) or not holds(body, *PARTIAL):
        return body
    body = rebuilt(body, [where_chosen(a) for a in body.args])
    if not isinstance(body, where):
        return body
    condition, above, below = body.args
    return where(condition, _real_where(above, condition), _real_where(below, -condition))


def _real_where(branch: Expr, condition: Expr) -> Expr:
    """A branch that is read where a condition is not negative."""
    if not branch.args or not holds(branch, *PARTIAL):
        return branch
    branch = rebuilt(branch, [_real_where(a, condition) for a in branch.args])
    ends = [end for node, end in real_where(branch) if node == branch]
    if not any(not seen_nonnegative(end) and _follows(end, condition) for end in ends):
        return branch
    u, *others = branch.args
    inside = maximum(minimum(u, 1), -1) if isinstance(branch, INVERSES) else sympy.Abs(u)
    return branch.func(inside, *others)


def _follows(end: Expr, condition: Expr) -> bool:
    """Whether end ≥ 0 is seen wherever a condition is: by their quotient, or by one term of the condition put in."""
    factor, rest = condition.as_coeff_Mul()
    if factor.is_comparable and type(rest) in _LIKE_ARGUMENT:
        return _follows(end, factor * rest.args[0])
    if seen_nonnegative(end / condition):
        return True
    margin = Dummy(nonnegative=True)
    for term in sympy.Add.make_args(condition):
        by, variable = term.as_coeff_Mul()
        put = (margin - condition + term) / by
        if not variable.is_number and seen_nonnegative(sympy.expand(end.xreplace({variable: put}))):
            return True
    return False
