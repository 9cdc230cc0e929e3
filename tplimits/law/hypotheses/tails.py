"""How fast kets grow, and how that combines in sums."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sympy import Expr, S

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import with_axes_named
from tplimits.program.nodes.functions import truncated
from tplimits.program.parts import found


class InfiniteMoment(NoLimitError):
    """A second moment that is infinite, for certain: averages have powers of n that no counting of entries tells."""


class Growth(enum.Enum):
    """How fast a ket grows in its Gaussian variables."""

    BOUNDED = 0
    POLYNOMIAL = 1
    EXPONENTIAL = 2
    UNKNOWN = 3
    INFINITE = 4


@dataclass(frozen=True)
class Tail:
    """How fast a ket grows: the kind, the degree of a polynomial (or of an exponent), in L^q for q < `power`.

    `unreal` where the doubt is whether the ket is real at all: no bounded function repairs that.  `beside` where a pole
    is infinite beside all factors that it stands with, none of which vanishes there.  `borderline` where the density
    leaves no exponential of what is infinite: a power beside it decides.  `why` are the parts of the
    sentence that says what is in doubt: most bounds are but tried, and a long expression is written out late.
    """

    kind: Growth
    degree: Expr = S.Zero
    why: tuple[Expr | str, ...] = ()
    power: Expr = S.Infinity
    unreal: bool = False
    beside: bool = False
    borderline: bool = False

    @property
    def reason(self) -> str:
        """What is in doubt, as it is told."""
        return with_axes_named("".join(map(str, self.why)))

    @property
    def established(self) -> bool:
        """Whether the second moment is finite."""
        return self.kind.value <= Growth.EXPONENTIAL.value

    @property
    def has_all_moments(self) -> bool:
        """Whether all moments are finite, on a larger scale of the variables too: exp(x), but not exp(x²/8)."""
        tame = self.kind is not Growth.EXPONENTIAL or self.degree <= 1
        return self.established and tame and self.power is S.Infinity


def of_sum(tails: Sequence[Tail]) -> Tail:
    """Of a sum: the largest degree, the least power; two infinite terms may cancel."""
    if not tails:
        return Tail(Growth.BOUNDED)
    # most terms share one of two constant tails: comparing degrees is what costs in sums of thousands
    several, tails = tails, list({id(t): t for t in tails}.values())
    if len(tails) == 1 and (len(several) == 1 or tails[0].established):
        return tails[0]
    worst = max(tails, key=lambda t: (t.unreal, t.kind.value))
    kind = worst.kind
    # 1/x − 1/tanh(x): each alone is certain, the difference is not; what is not real cannot be cancelled
    if kind is Growth.INFINITE and not worst.unreal and sum(not t.established for t in several) > 1:
        kind = Growth.UNKNOWN
    return Tail(kind, max(t.degree for t in tails), worst.why, min(t.power for t in tails), worst.unreal)


def best(bounds: Iterable[Tail]) -> Tail | None:
    """The first of those with a second moment whose power is largest; none is better than one with all moments."""
    good: Tail | None = None
    for bound in bounds:
        if bound.established and bound.power > (2 if good is None else good.power):
            good = bound
            if good.power is S.Infinity:
                break
    return good


def infinite_moment(where: str, ket: str, reason: str) -> str:
    """The words for a ket ("y⟩", or "y⟩ = …") whose second moment is infinite."""
    return (
        f"{where}: |{ket} has no finite second moment: {reason} (hypothesis: ψ pseudo-Lipschitz, or at least square "
        "integrable). Bound the function, or keep it away from its pole."
    )


def untruncated(expr: Expr) -> Expr:
    """With normal variables for truncated ones, whose density is at most a multiple of theirs: E |f| is as well."""
    nodes = found(expr, truncated)
    rest = expr.xreplace(dict.fromkeys(nodes, S.Zero))
    # of other functions of the same variable nothing is known by that
    alone = {node.args[0] for node in nodes if node.args[0].is_Symbol} - rest.free_symbols
    cuts = {x: {node.args[1] for node in nodes if x in node.free_symbols} for x in alone}
    return expr.xreplace({node: node.args[0] for node in nodes if len(cuts.get(node.args[0], ())) == 1})
