"""What the limit of a stable parametrization is made of (Yang & Littwin, Rem. 2.8.21).

All limits are those of μP or NTP with some parameters at rest, or some starts at zero:

    features move       |w⟩ as in the μ-limit; a parameter with r > 0 does not move, a readout with A > 1 starts at 0,
                        and so does what is added to others with a + b > 0, as a bias
    features are fixed  f_{t+1} = f_t − η Σ 𝒦_w over readouts with r = 0 and others with A + r = 1; f_0 = 0 for A > ½
    f does not move     f_t = f_0

Which updates count is read off the powers of n: those of one parameter, at the size they have beside all others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sympy

from tplimits.errors import NoLimitError
from tplimits.program.network.parameters import parameters
from tplimits.program.nodes.kinds import InitialScalar, InitialVector, Instruction
from tplimits.program.nodes.laws import Law
from tplimits.regimes.classification.derivation.sizes import NOTHING

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.classification.derivation.counting import Counting
    from tplimits.regimes.classification.derivation.verdict import StabilityVerdict


@dataclass(frozen=True)
class StablePoint:
    """Whether features move in the limit; the parameters at rest; those that start at 0; whether f does."""

    learns: bool
    frozen: tuple[str, ...]
    small: tuple[str, ...]
    at_zero: bool

    def started(self, network: Program) -> Program:
        """The network with what starts at 0 doing so."""
        changed = [_at_zero(s) if s.name in self.small else s for s in network]
        return network.replace(instructions=tuple(changed)) if self.small else network


def stable_point(verdict: StabilityVerdict) -> StablePoint:
    """What the limit of a parametrization is made of.

    Raises NoLimitError where it is not stable, or where no theorem gives its limit, and says which is missing.
    """
    counting = verdict.counting
    title = f"`{verdict.network.name}` in {verdict.parametrization!r}"
    if counting is None:
        raise NoLimitError(f"{title}: exponents with symbols have no one limit; give numbers: .substituted({{…}}).")
    if verdict.regime in ("unstable", "unfaithful"):
        theorem = (
            "Thm 2.8.12 describes stable parametrizations"
            if verdict.regime == "unstable"
            else "Thms 2.8.12 to 2.8.19 ask for gradients n^d g of order 1, at which the update function is not "
            "replaced by what it is near zero or far away"
        )
        raise NoLimitError(f"{title} is {verdict.regime}: {verdict.breaks[0]}; {theorem}.")
    learns = verdict.regime == "feature"
    least = min(A for _, A in verdict.table.scales)
    if learns and least < 1:
        start = "stays random" if least == sympy.S.Half else "tends to 0"
        raise NoLimitError(
            f"{title}: {_first_moving(counting)} moves by order 1 while gradients are those of A = {least} < 1 and f_0 "
            f"{start}. No theorem gives this limit: the μ-limit (Thm 2.9.25) has A ≥ 1, the operator limit "
            "(Thm 2.9.23) fixed features, given neither scalars nor logits that move (Sec. 2.9.5)."
        )
    frozen = tuple(name for name in counting.exponents if not counts(counting, name, learns))
    unread = tuple(p.name for p in verdict.table.readouts if learns and verdict.table.start_of(p) > 1)
    return StablePoint(learns, frozen, (*unread, *counting.small), not learns and _starts_at_zero(counting, title))


def refuse_other_powers(verdict: StabilityVerdict, there: StabilityVerdict) -> None:
    """NoLimitError where `there`, in μP or NTP, the same network moves otherwise: rates make up for what is small.

    v f(x)/√n with the readout of SP, or v·s with a scalar s that tends to 0, moves by order 1 at larger rates than
    theirs, and not at all at theirs.
    """
    if there.counting is None or there.regime == verdict.regime:
        return
    moves = there.counting.moves(len(there.counting.steps) - 1)["f"]
    moved = f"is {there.regime}" if moves >= 0 else f"moves f like n^({moves})" if moves > NOTHING else "moves no f"
    raise NoLimitError(
        f"`{verdict.network.name}` in {verdict.parametrization!r} moves by order 1 at rates that make up for what is "
        f"small in it, a power of n or a scalar that tends to 0: {there.parametrization!r} of the same network "
        f"{moved}, and no theorem gives another limit. A power of n in the program can stand in the "
        "parametrization, as a of what it multiplies."
    )


def counts(counting: Counting, name: str, learns: bool) -> bool:
    """Whether what a parameter's updates change is of order 1: f, or features where these move."""
    alone = counting.moved_by(name)
    return alone["f"] >= 0 or (learns and any(alone[k] >= scale for k, scale in counting.scales.items()))


def _first_moving(counting: Counting) -> str:
    last = counting.moves(len(counting.steps) - 1)
    return next((f"`{name}`" for name in counting.scales if last[name] >= 0), "a feature")


def _starts_at_zero(counting: Counting, title: str) -> bool:
    """Whether f_0 tends to 0, not to a Gaussian of variance ⟨x|x⟩."""
    network, first = counting.network, counting.steps[0]
    # the sum over neurons is of order 1: Gaussian in the limit
    if counting.readout_at_start >= 0:
        return False
    if len(network.returns) > 1 and first.output.start >= 0:
        drawn = [n for n in parameters(network) if _is_drawn(network, n)]
        if drawn:
            raise NoLimitError(
                f"{title}: f_0 is the bias {', '.join(drawn)} alone, since the readout starts smaller. Thm 2.9.19 has "
                "both; derive the limit of the network without the bias, or at a value of it."
            )
    return True


def _is_drawn(network: Program, name: str) -> bool:
    s = network[network.initial_names[name]]
    return isinstance(s, InitialScalar) and s.value is None


def _at_zero(s: Instruction) -> Instruction:
    if isinstance(s, InitialScalar):
        return replace(s, value=sympy.S.Zero)
    assert isinstance(s, InitialVector)  # no others start smaller in a stable point
    return replace(s, law=Law(sympy.S.Zero, sympy.S.Zero))
