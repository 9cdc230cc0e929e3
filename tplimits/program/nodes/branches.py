"""What functions with a kink or a jump are on their sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import sympy
from sympy import Expr, S

from tplimits.program.nodes import functions
from tplimits.program.parts import found, holds, put_in

#: what functions with branches are on these, wherever their arguments stand
BRANCHES: dict[type, Callable[..., tuple[Expr, Expr]]] = {
    sympy.Abs: lambda x: (x, -x),
    functions.relu: lambda x: (x, S.Zero),
    functions.leaky_relu: lambda x, slope: (x, slope * x),
    functions.maximum: lambda x, y: (x, y),
    functions.minimum: lambda x, y: (x, y),
    functions.where: lambda _, x, y: (x, y),
}
#: the same, and what jumps are on theirs
SIDES: dict[type, Callable[..., tuple[Expr, Expr]]] = {
    **BRANCHES,
    functions.step: lambda x: (S.One, S.Zero),
    sympy.sign: lambda x: (S.One, S.NegativeOne),
}
#: what is positive on the first of two sides, and nowhere on the second
CONDITIONS: dict[type, Callable[..., Expr]] = {
    **dict.fromkeys(SIDES, lambda x, *_: x),
    functions.maximum: lambda x, y: x - y,
    functions.minimum: lambda x, y: y - x,
}
#: what jumps are, times their argument
_KINKS: dict[type, type[Expr]] = {functions.step: functions.relu, sympy.sign: sympy.Abs}
#: nodes of a difference that is divided
_SHORT = 100
#: so many functions are written by their sides
_MOST = 4


@dataclass(frozen=True)
class Branch:
    """A function on some sides of what is bent in it, and what is positive there."""

    value: Expr
    conditions: tuple[Expr, ...] = ()


def on_sides(expr: Expr, written: Callable[[Expr], bool] = lambda node: True, most: int = _MOST) -> Iterator[Branch]:
    """An expression on all sides of the functions that are `written` by them, from the inside out.

    >>> x, y = sympy.symbols("x y", real=True)
    >>> [(b.value, b.conditions) for b in on_sides(y + functions.relu(x))]
    [(x + y, (x,)), (y, (-x,))]
    """
    bent = [f for f in found(expr, *SIDES) if written(f)]
    inner = [f for f in bent if not any(g != f and f.has(g) for g in bent)]
    if not bent or most == 0:
        yield Branch(expr)
        return
    node = min(inner, key=str)
    condition = CONDITIONS[type(node)](*node.args)
    for value, sign in zip(SIDES[type(node)](*node.args), (S.One, S.NegativeOne), strict=True):
        for branch in on_sides(put_in(expr, {node: value}, {}), written, most - 1):
            yield Branch(branch.value, (sign * condition, *branch.conditions))


def without_jump(node: functions.where) -> Expr | None:
    """where(c, x, y) as y + relu(c) (x − y)/c where c divides x − y, or by its halves; None where it jumps at c = 0.

    >>> c, y = sympy.symbols("c y", real=True)
    >>> without_jump(functions.where(c, c**2 + y, y)), without_jump(functions.where(c, y, 2 * y))
    (c*relu(c) + y, None)
    """
    c, x, y = node.args
    left = _over(x - y, c)
    return _by_halves(c, x, y) if left is None else y + functions.relu(c) * left


def _by_halves(c: Expr, x: Expr, y: Expr) -> Expr | None:
    """f(c₊) + g(−(−c)₊) − f(0) for where(c, f(c), g(c)) with f(0) = g(0), so that each is read on its side alone.

    >>> c = sympy.Symbol("c", real=True)
    >>> _by_halves(c, c, sympy.exp(c) - 1), _by_halves(c, c, sympy.exp(c))
    (relu(c) - 1 + exp(-relu(-c)), None)
    """
    border = with_condition(x, c, S.Zero)
    if sympy.expand(border - with_condition(y, c, S.Zero)) != 0:
        return None
    above, below = (side * functions.relu(side * c) for side in (1, -1))
    return with_condition(x, c, above) + with_condition(y, c, below) - border


def with_condition(
    expr: Expr, condition: Expr, value: Expr, varies: Callable[[Expr], bool] = lambda term: not term.is_number
) -> Expr:
    """An expression with a value for a condition, by one term of it that `varies`, a variable where there is one.

    >>> x, y = sympy.symbols("x y", real=True)
    >>> with_condition(sympy.exp(x - 2 * y), x - 2 * y + 3, S.Zero)
    exp(-3)
    >>> with_condition(x**3 + 1 / x, x**2 - 3, S.Zero)
    x**3 + sqrt(3)*sign(x)/3
    """
    terms = {term: factor for factor, term in (t.as_coeff_Mul() for t in sympy.Add.make_args(condition))}
    moving = sorted((t for t in terms if varies(t)), key=lambda t: (not t.is_Symbol, str(t)))
    for term in moving[:1]:
        rest = condition - terms[term] * term
        read = sympy.expand((value - rest) / terms[term])
        # a symbol beside a variable may be 0: multiples of the two together are looked for
        beside = {m: {*m.args} - {*term.args} for m in found(expr, sympy.Mul) if {*term.args} <= {*m.args}}
        multiples = {m: left for m, left in beside.items() if term.is_Mul and all(f.is_Atom for f in left)}
        # what is divided by a power of u is kept off its pole by a condition on u², as 1/u where u² > 1
        base, even = term.as_base_exp() if term.is_Pow and term.exp.is_even else (term, S.Zero)
        below = [
            p for p in found(expr, sympy.Pow) if even and p.base == base and p.exp.is_integer and p.exp.is_negative
        ]
        poles = {p: read ** (p.exp / even) * (sympy.sign(base) if p.exp.is_odd else 1) for p in below}
        expr = put_in(expr, {term: read, **poles, **{m: sympy.Mul(*left, read) for m, left in multiples.items()}}, {})
    return expr


def without_jumps(expr: Expr) -> Expr:
    """An expression with relu(u) or |u| for a jump at u beside factors that vanish there, as in u² step(u).

    >>> x, y = sympy.symbols("x y", real=True)
    >>> without_jumps(1 + (x - y) * y * functions.step(y - x)), without_jumps(x * functions.step(y))
    (-y*relu(-x + y) + 1, x*step(y))
    """
    if not holds(expr, *_KINKS):
        return expr
    args = [without_jumps(a) for a in expr.args]
    if args != list(expr.args):
        expr = expr.func(*args)
    for jump in expr.args if expr.is_Mul else ():
        if isinstance(jump, (functions.step, sympy.sign)):
            u = jump.args[0]
            left = _over(expr / jump, u)
            if left is not None:
                return without_jumps(left * _KINKS[type(jump)](u))
    return expr


def _over(whole: Expr, u: Expr) -> Expr | None:
    """A quotient that has no pole; None for others."""
    if sympy.count_ops(whole) > _SHORT:
        return None
    left, divisor = sympy.fraction(sympy.cancel(sympy.expand(whole) / u))
    return left / divisor if divisor.is_number else None
