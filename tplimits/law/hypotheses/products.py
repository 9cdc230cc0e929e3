"""How fast products of kets grow: by Hölder's inequality, unless one factor makes up for another."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S, Symbol

from tplimits.law.hypotheses.bounds import bounds
from tplimits.law.hypotheses.tails import Growth, Tail
from tplimits.program.nodes import functions
from tplimits.program.nodes.properties import BOUNDED, FADING, LINEAR
from tplimits.program.parts import found, linked

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Randomness

#: heads beside which a factor that grows too fast may be harmless
_TAMING = (*functions.JUMPS, functions.minimum, functions.maximum, *FADING)


def of_product(tails: Sequence[tuple[Expr, Tail]], gaussians: Randomness) -> Tail:
    """Of a product: degrees add; powers by Hölder's inequality among dependent factors."""
    worst = max((t for _, t in tails), key=lambda t: t.kind.value)
    if worst.kind is Growth.INFINITE and not worst.unreal:
        (infinite, *more) = [f for f, t in tails if t is worst]
        beside = [f for f, _ in tails if f is not infinite]
        if more or any(_makes_up(f, infinite, gaussians, worst.borderline) for f in beside):
            told = (*worst.why, " alone, and whether what stands beside it makes up for that is not decided")
            worst = replace(worst, kind=Growth.UNKNOWN, why=told)
    degree = sympy.Add(*(t.degree for _, t in tails))
    # E|fg|^q = E|f|^q E|g|^q for independent ones: Hölder's loss is paid among dependent ones of finite power
    inverses = ((1 / t.power, gaussians.of(factor)) for factor, t in tails if t.power is not S.Infinity)
    groups = linked(inverses, lambda a, b: _dependent(a, b, gaussians))
    power = min((1 / sympy.Add(*each) for each, _ in groups), default=S.Infinity)
    return Tail(worst.kind, degree, worst.why, power, worst.unreal)


def _makes_up(factor: Expr, infinite: Expr, gaussians: Randomness, borderline: bool) -> bool:
    """Whether a factor may vanish where an infinite one grows: exp(x⁴)·step(−x²), and relu(1/x)·x at a pole.

    E exp(2·x²/4)/(1 + x²) is finite, as the density cancels the exponential: at a `borderline` powers decide.
    """
    if not _dependent(gaussians.of(factor), gaussians.of(infinite), gaussians):
        return False
    if factor.has(*_TAMING) or (borderline and any(p.exp.is_negative for p in found(factor, sympy.Pow))):
        return True
    # 1 - tanh(x) goes to 0 as well: a bounded function may be the limit of what it is added to
    ends = (bounds(total) for total in found(factor, sympy.Add) if total.has(*BOUNDED))
    # of poles that are factors themselves it has been asked; those inside of relu and of sums are somewhere
    core = infinite.base if infinite.is_Pow and infinite.exp.is_positive else infinite
    inside = isinstance(core, (sympy.Add, *LINEAR)) and any(p.exp.is_negative for p in found(core, sympy.Pow))
    return inside or any(low <= 0 <= high for low, high in ends)


def _dependent(a: AbstractSet[Symbol], b: AbstractSet[Symbol], gaussians: Randomness) -> bool:
    return any(x == y or gaussians.covariance(x, y) != 0 for x in a for y in b)
