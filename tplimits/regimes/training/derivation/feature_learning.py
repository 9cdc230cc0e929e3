"""The feature-learning limit of a network in training (Yang & Littwin, Thms 2.5.2, 2.7.1, 2.9.25).

In the maximal update parametrization every vector of every step has a ket and every matrix is an operator:

    f_t = ⟨1|x_t⟩ + shift_t,   χ_t = ε_t(f_t),   forward and backward as in the network with |W_t|,
    |v_{t+1}⟩ = (1 − λ)|v_t⟩ − η Q_t(Σ χ_s |dv_s⟩, s ≤ t)
    |W_{t+1}| = (1 − λ)|W_t| − η Q_t(Σ_{h=Wx} |dh_s⟩_{χ_s}⟨x_s| + Σ_{h=Wᵀz} |z_s⟩_{χ_s}⟨dh_s|, s ≤ t)
     c_{t+1}  = (1 − λ) c_t − η Q_t(Σ χ_s dc_s, s ≤ t)

with sums over inputs, outputs and uses inside Q.  Normalised and clipped updates are Q_t/ν_t (Sec. 2.10.2), ν_t a norm
of Q_t or of the weights (`tplimits.regimes.training.derivation.norms`); Adafactor's Q_t has kets of its own, the
means of squared gradients over rows and over columns (Sec. 2.10.3).  Hypotheses: the network has a limit at order 1,
without √n anywhere; functions are square integrable, before a step and after it
(`tplimits.regimes.training.derivation.square_integrable`); Q is pseudo-Lipschitz (what an optimizer loses of this is
remarked).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sympy import Expr, Symbol

from tplimits.law.hypotheses.fluctuation import growing
from tplimits.law.hypotheses.sharp import refuse_sharp
from tplimits.law.hypotheses.universality import refuse_orthogonal
from tplimits.law.rules.powers import scaled_out
from tplimits.law.state import in_widths_of_n
from tplimits.program.network.parameters import parameters
from tplimits.program.network.total import TotalProgram
from tplimits.program.nodes.entries import N, with_names
from tplimits.program.nodes.frozen import FrozenDict
from tplimits.program.nodes.kinds import Nonlin
from tplimits.program.nodes.scale import at_infinity, outgrown
from tplimits.program.parts import found
from tplimits.regimes.training.derivation import by_parameter
from tplimits.regimes.training.derivation.jumps import held_behind, refuse_jumps
from tplimits.regimes.training.derivation.square_integrable import after_a_step, asked_of_widths, judged

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Doubt
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer


@dataclass(frozen=True)
class MaximalRecursion:
    """A network with its gradients, and for every parameter an update function and a decay."""

    network: Program
    optimizers: Mapping[str, Optimizer] = field(hash=False)
    weight_decay: Mapping[str, Expr] = field(hash=False)
    #: second moments that are not established, and those among them that the user takes on himself
    doubts: tuple[Doubt, ...] = ()
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("optimizers", "weight_decay"):
            object.__setattr__(self, name, FrozenDict(getattr(self, name)))

    @cached_property
    def total(self) -> TotalProgram:
        """Forward and backward."""
        return TotalProgram(self.network)

    @property
    def moving(self) -> tuple[str, ...]:
        """The parameters that an optimizer moves."""
        return tuple(name for name, optimizer in self.optimizers.items() if not optimizer.is_still)

    @property
    def open(self) -> tuple[Doubt, ...]:
        """The doubts that nobody took on."""
        return tuple(doubt for doubt in self.doubts if doubt.name not in self.assumed)

    @cached_property
    def lost(self) -> tuple[str, ...]:
        """Hypotheses that the optimizers lose."""
        found = {f"{o}: {o.lost_hypothesis}" for o in self.optimizers.values() if o.lost_hypothesis}
        return tuple(sorted(found))


def derive_maximal(
    network: Program, optimizer: Any, weight_decay: Any, assumed: Sequence[str] = ()
) -> MaximalRecursion:
    """The recursion of a network, its hypotheses checked.

    Raises ProgramError for arguments that are no optimizers or decays; NoLimitError where √n stands in the network,
    where gradients cross a jump of a vector that moves, and where a vector or its gradient has no second moment.
    """
    names = parameters(network)
    optimizers = by_parameter.optimizers(network, names, optimizer, "tp.MaximalUpdate")
    exact = by_parameter.decays(network, optimizers, weight_decay, "tp.MaximalUpdate")
    refuse_orthogonal(network, trained=True)
    network = _scaled_out(network)
    # what no output rests on refuses nothing: no gradient passes it
    for position in sorted(network.read):
        if isinstance(s := network[position], Nonlin):
            _refuse_growth(network, position, s.body)
    recursion = MaximalRecursion(network, held_behind(network, optimizers, exact), exact, assumed=tuple(assumed))
    kets = judged(network, recursion.moving, assumed)
    refuse_jumps(network, recursion.moving, "2.9.25")
    if kets is None:
        return recursion
    doubts = (*kets.recursion.judged.open(), *after_a_step(kets, recursion.optimizers), *asked_of_widths(kets).values())
    return replace(recursion, doubts=doubts)


def _scaled_out(network: Program) -> Program:
    """The network with sign(s) for sign(√n s), and √n relu(s) for relu(√n s): the same at every width."""

    def out(body: Expr) -> Expr:
        return scaled_out(body) if N in found(body, Symbol) else body

    return network.changed(out)


def _refuse_growth(network: Program, position: int, body: Expr) -> None:
    """NoLimitError where a power of a width stays that grows."""
    written = in_widths_of_n(body, network)
    refuse_sharp(network, position, written, trained=True)
    try:
        # powers that vanish are zero in the limit; what grows has none, nor has what a quotient hides, n s²/(1 + n s²)
        at_infinity(written)
        hidden = [N * left for left in outgrown(written)]
    except ValueError as error:
        hidden = [error.args[0]]
    for term in hidden:
        told = with_names(term, lambda entry: network[entry.source].name, indexed=False)
        raise growing(network.where(position), told, trained=True)
