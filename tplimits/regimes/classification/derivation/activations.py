"""Assumption 2.8.2 of Yang & Littwin on activations and update functions, under which Thms 2.8.12 to 2.8.19 are proved.

    1. φ and φ′ are nonnegative and pseudo-Lipschitz,     2. φ(x) > 0 for x > 0,
    3. t^δ φ(x/t) → relu(x)^δ uniformly as t → 0, for a δ > 0,     4. Q_t is pseudo-Lipschitz, Q_0 preserves signs.

With y = x/t the distance in 3 is t^δ sup_y |φ(y) − relu(y)^δ|: φ − relu^δ has to be bounded.  A factor in front of φ is
part of the weights behind it and is left out.  Softplus and its powers satisfy 1 to 3; gelu, which Remark 2.8.4 names,
is negative for x < 0, and relu′ jumps, which the remark expects to do no harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol
from sympy.core.function import PoleError

from tplimits.law.hypotheses.bounds import bounds
from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import NO_NEURON, AxisSum, Entry
from tplimits.program.nodes.kinds import Avg, OuterNonlin
from tplimits.program.optimizers.entrywise import lost_by, not_real_at, value_at
from tplimits.program.parts import longer

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer

#: the argument of an activation
X = Symbol("x", real=True)
#: where signs are looked at
_POINTS = tuple(sympy.Rational(k, 8) for k in (*range(1, 33), 40, 48, 64, 96))
_NEAR = sympy.Rational(10) ** -20
#: an argument that goes to infinity, and operations of a function whose limits SymPy finds in a moment
_FAR, _LONG = Symbol("y", positive=True), 120


@dataclass(frozen=True)
class Finding:
    """Whether the assumption holds for a function: True, False, or None where it is not established; and why not."""

    function: Expr
    holds: bool | None
    reason: str = ""

    def __str__(self) -> str:
        if self.holds:
            return f"holds for {self.function}"
        return f"{'fails' if self.holds is False else 'is not established'} for {self.function}: {self.reason}"


def judged(φ: Expr) -> Finding:
    """The assumption for an activation φ(x), its first part that fails."""
    if φ.atoms(Entry):
        return Finding(φ, None, "it depends on scalars")
    slope = φ.diff(X)
    # negative values at sample points refute the assumption; only bounds establish it, below
    for text, f in (("φ", φ), ("φ′", slope)):
        below = next((p for p in _both_sides() if (v := _value(f, p)) is not None and v < 0), None)
        if below is not None:
            return Finding(φ, False, f"{text}({below}) < 0")
    # what rises and is positive before its first corner behind 0 stays so
    first = min((at for at in _corners(φ) if at.is_positive), default=sympy.Integer(1)) / 2
    zero = next((p for p in (*_POINTS, first, _NEAR) if (v := _value(φ, p)) is not None and v <= 0), None)
    if zero is not None:
        return Finding(φ, False, f"φ({zero}) is not positive")
    nowhere = not_real_at(_written(φ), X)
    if nowhere is not None:
        return Finding(φ, False, f"φ({nowhere}) is no real number")
    for text, f in (("φ", φ), ("φ′", slope)):
        for at in _corners(φ):
            # kinks away from 0 are moved there, where the reader looks
            lost = lost_by(_written(f).xreplace({X: X + at}), X)
            if lost is not None:
                where = "" if lost.endswith("polynomial") else f" at {at}"
                return Finding(φ, False, f"{text} is not pseudo-Lipschitz{where}")
    like = _is_like_relu(φ)
    if not like:
        why = "whether φ − relu^δ is bounded for a δ > 0 is not told by limits that are known"
        return Finding(φ, like, why if like is None else "φ − relu^δ is bounded for no δ > 0")
    # last, since it tells nothing where it fails: bounds may be too wide
    if not all(bounds(f)[0] >= 0 for f in (φ, slope)):
        return Finding(φ, None, "no negative value of φ or φ′ was found, and none was excluded")
    return Finding(φ, True)


def findings(network: Program, optimizers: tuple[Optimizer, ...]) -> tuple[Finding, ...]:
    """What the assumption says of the activations of a network and of its optimizers."""
    seen = dict.fromkeys(φ for s in _forward(network) for φ in activations(s.body))
    found = [judged(φ) for φ in seen] or [Finding(X, False, "there is no activation, and φ(-1) < 0")]
    for optimizer in dict.fromkeys(optimizers):
        Q = Symbol(f"Q of {optimizer}")
        if not optimizer.sign_preserving:
            found.append(Finding(Q, False, "Q_0 does not preserve signs"))
        elif optimizer.lost_hypothesis:
            found.append(Finding(Q, False, optimizer.lost_hypothesis.partition(";")[0]))
    return tuple(found)


def activations(body: Expr) -> Iterator[Expr]:
    """The functions φ(x) that a body applies to affine combinations x of vectors; those of several are left out."""
    if _is_affine(body):
        return
    if isinstance(body, (sympy.Add, sympy.Mul, AxisSum)) and len(_apart(body)) > 1:
        parts: dict[frozenset[Expr], list[Expr]] = {}
        for part in body.args[:1] if isinstance(body, AxisSum) else body.args:
            # summands or factors of one argument are one activation of it, as x sigmoid(x)
            parts.setdefault(_apart(part), []).append(part)
        # that all of them read the same several arguments leaves them a function of several
        for same in parts.values() if len(parts) > 1 or isinstance(body, AxisSum) else ():
            yield from activations(body.func(*same) if isinstance(body, sympy.Mul) else sympy.Add(*same))
        return
    if len(arguments := _apart(body)) == 1:
        (argument,) = arguments
        φ = body.xreplace({argument: X})
        # a constant factor changes no part of the assumption but the sign, which weights could have
        yield φ.as_independent(X, as_Add=False)[1] if not φ.atoms(Entry) else φ


def _forward(network: Program) -> Iterator[OuterNonlin]:
    """Functions of vectors, but for those that are only averaged, as squares in a norm are."""
    for position, s in enumerate(network):
        users = [network[p] for p in network.graph.successors(position)]
        if isinstance(s, OuterNonlin) and not s.slots and not (users and all(isinstance(u, Avg) for u in users)):
            yield s


def _is_vector(entry: Entry) -> bool:
    return entry.neuron != NO_NEURON


def _is_free(expr: Expr) -> bool:
    return not any(map(_is_vector, expr.atoms(Entry)))


def _is_affine(expr: Expr) -> bool:
    """Whether an expression is a combination of vectors, with scalars, numbers and data as coefficients."""
    if _is_free(expr) or isinstance(expr, Entry):
        return True
    if isinstance(expr, AxisSum):
        return _is_affine(expr.summand)
    if isinstance(expr, sympy.Add):
        return all(map(_is_affine, expr.args))
    if isinstance(expr, sympy.Mul):
        moving = [f for f in expr.args if not _is_free(f)]
        return len(moving) == 1 and _is_affine(moving[0])
    return False


def _arguments(expr: Expr) -> frozenset[Expr]:
    """The affine combinations of vectors that an expression is a function of."""
    if _is_free(expr):
        return frozenset()
    return frozenset((expr,)) if _is_affine(expr) else frozenset().union(*map(_arguments, expr.args))


def _apart(expr: Expr) -> frozenset[Expr]:
    """The same without multiples of one another: exp(x) - exp(-x) is a function of x alone."""
    found = _arguments(expr)
    return found if len(found) < 2 else frozenset(a.as_coeff_Mul()[1] if a.is_Mul else a for a in found)


def _both_sides() -> Iterator[Expr]:
    for p in _POINTS:
        yield -p
        yield p


def _value(f: Expr, at: Expr) -> Expr | None:
    """A function at a point, None where it has no value that is told."""
    found = value_at(_written(f), X, at)
    return None if found is sympy.nan else found


def _written(f: Expr) -> Expr:
    """A function in heads that SymPy has numbers for."""
    return functions.elementary(f).replace(functions.softplus, lambda x: sympy.log(1 + sympy.exp(x)))


def _corners(φ: Expr) -> tuple[Expr, ...]:
    """0, and where the arguments of functions with a kink are zero."""
    found = [sympy.S.Zero]
    for kink in functions.kinks(φ):
        if kink.diff(X).is_number and kink.diff(X) != 0:
            found.append(-kink.xreplace({X: sympy.S.Zero}) / kink.diff(X))
    return tuple(dict.fromkeys(found))


def _is_like_relu(φ: Expr) -> bool | None:
    """Whether φ − c relu^δ is bounded, by its limits; None where these are not told.

    No point tells it: x + log(x)/20 is x to a part in 10⁷ where x is 10⁸.
    """
    # a quotient of many exponentials takes minutes
    if longer(φ, _LONG):
        return None
    try:
        right, left = (_beyond_kinks(φ, side) for side in (1, -1))
        if right is None or left is None:
            return None
        δ = _limit(sympy.log(right) / sympy.log(_FAR))
        if not (δ > 0 and δ.is_finite):
            return False
        c = _limit(right / _FAR**δ)
        return bool(c.is_number and c.is_positive) and all(
            map(_is_bounded, (_limit(right - c * _FAR**δ), _limit(left)))
        )
    except (NotImplementedError, ValueError, TypeError, AttributeError, ArithmeticError, PoleError, RecursionError):
        return None


def _limit(f: Expr) -> Expr:
    """The limit far out, an interval for what oscillates; ValueError where SymPy has none."""
    found = sympy.limit(f, _FAR, sympy.oo)
    if found.has(sympy.Limit, sympy.nan, _FAR):
        raise ValueError(found)
    return found


def _is_bounded(limit: Expr) -> bool:
    ends = (limit.min, limit.max) if isinstance(limit, sympy.AccumBounds) else (limit,)
    return all(e.is_finite for e in ends)


def _beyond_kinks(φ: Expr, side: int) -> Expr | None:
    """φ far out on a side, without kinks and jumps; None where one of them has no side there."""
    found = _written(φ).xreplace({X: side * _FAR})
    # inner ones first
    while jumps := sorted(found.atoms(functions.step), key=sympy.count_ops):
        argument = jumps[0].args[0]
        tends = S.One if argument.is_positive else _limit(argument)
        if isinstance(tends, sympy.AccumBounds) or not (tends.is_extended_positive or tends.is_extended_negative):
            return None
        found = found.xreplace({jumps[0]: S.One if tends.is_extended_positive else S.Zero})
    return found
