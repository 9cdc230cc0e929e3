"""From inequalities, and powers counted on a program, to a verdict: stable, faithful, nontrivial, and which limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr

from tplimits.errors import NoLimitError, ProgramError, shown
from tplimits.program.network.cancelling import refuse_output_that_cancels
from tplimits.program.network.parameters import at_rest
from tplimits.program.network.zeros import behind_jumps, total_of
from tplimits.program.optimizers.linear import Frozen
from tplimits.program.optimizers.recursion import Optimizer
from tplimits.program.parametrization.exponents import Exponents
from tplimits.program.parametrization.roles import Roles, is_centred, roles
from tplimits.program.room import with_room
from tplimits.regimes.classification.derivation.activations import Finding, findings
from tplimits.regimes.classification.derivation.at_start import AtStart, at_start
from tplimits.regimes.classification.derivation.counting import Counting
from tplimits.regimes.classification.derivation.inequalities import (
    Inequality,
    InequalityTable,
    Parameter,
    real_symbols,
    simplified,
)
from tplimits.regimes.classification.derivation.means import LARGEST, means_of
from tplimits.regimes.classification.derivation.near_limits import without_powers_in_jumps
from tplimits.regimes.classification.derivation.needed import needed, needed_at_any
from tplimits.regimes.classification.derivation.scaling import Scaling, scaling_of
from tplimits.regimes.classification.derivation.sizes import NOTHING, Power
from tplimits.regimes.classification.derivation.spelling import in_one_spelling, with_factors_before_averages
from tplimits.regimes.classification.derivation.stable_point import counts
from tplimits.regimes.classification.derivation.zeros_apart import with_zeros_apart

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.parametrization.table import Parametrization

#: the regimes, in the order in which they are decided
REGIMES = ("unstable", "unfaithful", "trivial", "feature", "operator")


@dataclass(frozen=True)
class StabilityVerdict:
    """The inequalities of a parametrization, and the powers counted on a program where exponents are numbers."""

    network: Program
    parametrization: Parametrization
    table: InequalityTable
    counting: Counting | None
    scaling: Scaling | None = None
    traced: Program | None = None  # with exponentials, roots and poles written out where they are read

    @cached_property
    def doubt(self) -> str:
        """Why the inequalities are left out: no parameter takes a power of n, or the powers that are counted decide."""
        if self.scaling is not None and not self.scaling.readable:
            return "powers of n are counted: the inequalities are for programs without powers of n"
        if self.counting is not None and self.faithful == sympy.true and self.written.regime != self.regime:
            return "powers of n are counted: the inequalities, which know less of the program, do not decide here"
        return ""

    @property
    def written(self) -> StabilityVerdict:
        """The verdict of the inequalities alone."""
        return StabilityVerdict(self.network, self.parametrization, self.table, None)

    @cached_property
    def groups(self) -> dict[str, tuple[Inequality, ...]]:
        """The inequalities by what they decide; none where they do not hold for the program."""
        if self.doubt:
            return {}
        t = self.table
        return {
            "start": tuple(t.initial()),
            "gradients": tuple(t.faithful()),
            "training": tuple(t.stability()),
            "output": tuple(t.movement()),
            "features": tuple(t.features()),
        }

    def _all(self, *groups: str) -> sympy.Basic:
        return sympy.And(*(i.condition for g in groups for i in self.groups[g]))

    @cached_property
    def stable(self) -> sympy.Basic:
        if self.counting is not None:
            return sympy.true if not any(True for _ in self._growing()) else sympy.false
        return simplified(self._all("start", "training"))

    @cached_property
    def faithful(self) -> sympy.Basic:
        if self.counting is not None:
            return sympy.true if not any(True for _ in self._unfaithful()) else sympy.false
        return simplified(self._all("gradients"))

    @cached_property
    def nontrivial(self) -> sympy.Basic:
        if self.counting is not None:
            return sympy.true if self.counting.steps[-1].output.move >= 0 else sympy.false
        return simplified(sympy.Or(*(i.condition for i in self.groups["output"])))

    @cached_property
    def learns(self) -> sympy.Basic:
        """Whether features move, given the rest."""
        if self.counting is not None:
            return sympy.true if self.counting.features_move >= 0 else sympy.false
        return simplified(sympy.Or(*(i.condition for i in self.groups["features"])))

    @cached_property
    def evolves(self) -> sympy.Basic:
        """Whether feature kernels evolve (Def. 2.8.18), given that nothing grows: where features move (Thm 2.8.19)."""
        return simplified(sympy.And(self.stable, self.faithful, self.learns))

    @cached_property
    def evolving(self) -> tuple[str, ...]:
        """The vectors whose kernel evolves, in the order of the network; none for symbols."""
        if self.counting is None or self.evolves != sympy.true:
            return ()
        scales, last = self.counting.scales, self.counting.moves(len(self.counting.steps) - 1)
        return tuple(name for name in self.counting.vectors if last[name] >= scales[name])

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Assumption 2.8.2 for the activations and the optimizers."""
        return findings(self.network.released, tuple(p.optimizer for p in self.table.moving))

    @property
    def behind_jumps(self) -> tuple[str, ...]:
        """Parameters that the output depends on through jumps alone: their gradients are 0 in all networks."""
        return behind_jumps(self.network)

    @property
    def at_start(self) -> AtStart:
        """What the hypotheses of limits say of the network before training."""
        return at_start(self.traced or self.network, tuple(p.name for p in self.table.moving))

    @cached_property
    def conditions(self) -> dict[str, sympy.Basic]:
        """For each regime the condition on the symbols: they exclude each other, and one of them holds."""
        stable, faithful, moves, learns = self.stable, self.faithful, self.nontrivial, self.learns
        good = sympy.And(stable, faithful)
        return {
            "unstable": simplified(sympy.Not(stable)),
            "unfaithful": simplified(sympy.And(stable, sympy.Not(faithful))),
            "trivial": simplified(sympy.And(good, sympy.Not(moves))),
            "feature": simplified(sympy.And(good, moves, learns)),
            "operator": simplified(sympy.And(good, moves, sympy.Not(learns))),
        }

    @cached_property
    def regime(self) -> str | None:
        """The regime, or None where symbols decide."""
        return next((name for name, condition in self.conditions.items() if condition == sympy.true), None)

    @cached_property
    def falling(self) -> tuple[tuple[str, Power], ...]:
        """The parameters whose n^d g falls late in training below what a bounded update compares it with, as ε."""
        late = self.counting.steps[-1].gradients if self.counting is not None else {}
        asked = (p.name for p in self.table.moving if p.faithful_needed and p.optimizer.is_bounded)
        return tuple((name, late[name]) for name in asked if NOTHING < late.get(name, NOTHING) < 0)

    @cached_property
    def above(self) -> StabilityVerdict:
        """The verdict where updates are of order 1 however small gradients are, as while n^d g is above ε."""
        assert self.counting is not None
        return replace(self, counting=replace(self.counting, above=True))

    @cached_property
    def breaks(self) -> tuple[str, ...]:
        """What breaks, and at which power of n; nothing for symbols."""
        if self.counting is not None:
            return (*self._growing(), *self._unfaithful())
        rows = (i for g in ("start", "gradients", "training") for i in self.groups.get(g, ()))
        return tuple(f"{i.about} {i.breaks}" for i in rows if i.holds is False)

    def _growing(self) -> Iterable[str]:
        """Values that are not of order 1 at the start, or grow in training."""
        counting = self.counting
        assert counting is not None
        for name, start, natural in counting.starts:
            if start != natural and name not in counting.small:
                yield f"{name} starts like n^({start}) instead of n^({natural})"
        for p, size in counting.start.arguments.items():
            # inside of a function that saturates, growth shows in no size
            if size.start > 0:
                yield f"what {counting.name(p)} is a function of starts like n^({size.start})"
        if counting.start.output.start > 0:
            summed = counting.network.returns[0]
            why = "" if summed in counting.means.centred else f": the mean of `{counting.name(summed)}` is not zero"
            yield f"f starts like n^({counting.start.output.start}){why}"
        # a value that grows does so in every later step: it is told once, where it begins
        seen = set()
        for t, step in enumerate(counting.steps):
            moving: list[tuple[str, Power, Power]] = [  # growth that a bounded function hides
                (f"what {counting.name(p)} is a function of", size.change, 0)
                for p, size in step.arguments.items()
                if step.sizes[p].change <= counting.scales.get(counting.name(p), 0)
            ]
            moving += [(name, power, counting.scales.get(name, 0)) for name, power in counting.moves(t).items()]
            for name, power, scale in moving:
                if power > scale and name not in seen:
                    seen.add(name)
                    yield f"{name} moves like n^({power}) in step {t}" + (f", next to n^({scale})" if scale else "")

    def _unfaithful(self) -> Iterable[str]:
        """Scaled gradients that are not of order 1, of optimizers that see this.

        Those that are small through an average whose mean vanishes, as in attention at the start, have the right d.
        """
        counting = self.counting
        assert counting is not None
        for p in self.table.parameters:
            unseen = counting.above and p.optimizer.is_bounded
            if unseen or not (p.moves and p.faithful_needed) or (p.kind == "scalar" and p.inner):
                continue
            powers = [step.gradients[p.name] for step in counting.steps]
            least = min(Fraction(0), *powers) if counting.gradients_aligned[p.name] >= 0 else Fraction(0)
            wrong = next(((t, power) for t, power in enumerate(powers) if not least <= power <= 0), None)
            if wrong and powers[0] != NOTHING:
                yield f"{p.name} has scaled gradients n^d g of size n^({wrong[1]}) in step {wrong[0]}"


@with_room
def verdict_on(network: Program, parametrization: Parametrization, optimizer: Any) -> StabilityVerdict:
    """The verdict on a network."""
    traced = network.returned
    refuse_output_that_cancels(traced)
    network = with_factors_before_averages(traced)
    # zeros in disguise are told by numbers, which large programs take too long for
    if len(total_of(network).program) <= LARGEST:
        network = in_one_spelling(network)
        limits = means_of(network, ()).limits
        network = with_zeros_apart(without_powers_in_jumps(network), limits)
    exponents, found = parametrization.of(network), roles(network)
    scaling, symbolic = scaling_of(network, parametrization), bool(parametrization.symbols)
    if symbolic and not (scaling.readable and scaling.unique):
        raise ProgramError(
            f"classify({network.name}, {parametrization!r}): exponents with symbols are decided by inequalities, which "
            "do not hold for this program: it holds powers of n that are not those of one parameter's image. Give "
            "numbers, .substituted({…}), for which powers of n are counted, or write the program without powers of n."
        )
    moved = scaling.moved(exponents)
    table = _table(found, moved, parametrization, optimizer, network)
    counting = None if symbolic else Counting(network, parametrization, optimizer)
    if counting is None:
        # forward values at the start alone: neither the optimizer nor the power of the output is seen in them
        one = replace(parametrization, a_out=sympy.S.One)
        table = replace(table, needed=needed_at_any(Counting(network, one, Frozen()).at_natural_start))
    else:
        table = replace(table, needed=needed(counting))
    verdict = StabilityVerdict(network, parametrization, table, counting, scaling, traced)
    if (start := verdict.at_start).kets is not None and counting is not None and verdict.regime == "feature":
        start.refuse_exponentials({p.name: p.optimizer for p in table.moving if counts(counting, p.name, learns=True)})
    _refuse_unknown(verdict)
    return verdict


def _refuse_unknown(verdict: StabilityVerdict) -> None:
    """NoLimitError where something grows and a mean is not known, which is then taken not to vanish."""
    unknown = verdict.counting.means.unknown if verdict.counting is not None else {}
    end = verdict.network.returns[0]
    if (
        unknown
        and verdict.regime == "unstable"
        and not (list(unknown) == [end] and "f starts" not in verdict.breaks[0])
    ):
        raise NoLimitError(
            f"classify({verdict.network.name}, {verdict.parametrization!r}): whether a mean vanishes is not known, and "
            f"with it whether {verdict.breaks[0].partition(':')[0]}. {next(iter(unknown.values()))}"
        )


def _table(
    found: Roles, exponents: Mapping[str, Exponents], parametrization: Parametrization, optimizer: Any, network: Program
) -> InequalityTable:
    # SymPy decides no inequality between symbols that may be complex
    real = real_symbols(exponents, parametrization.a_out)
    backward, rest = total_of(network), at_rest(network)
    rows = []
    for name, e in exponents.items():
        kind = found.kinds[name]
        inner = kind != "scalar" or not _only_shifts(network, name)
        own = Exponents(*(x.xreplace(real) for x in e))
        chosen = optimizer_of(optimizer, name)
        # not behind a stopped gradient, and no place
        reached = name not in rest and (backward.gradients[name] or backward.shift_gradients[name])
        rows.append(Parameter(name, kind, own, chosen if reached else Frozen(), inner))
    readout_start, other_start = _least_scales(network, found)
    return InequalityTable(tuple(rows), parametrization.a_out.xreplace(real), readout_start, other_start)


def _least_scales(network: Program, found: Roles) -> tuple[Expr, Expr | None]:
    """The least A at the start of terms with a readout and of others, None where there are none.

    A sum over neurons is of order √n where the mean is zero, as it is for readouts that are drawn around zero, and n.
    """
    sum_starts = sympy.S.Half if network.returns[0] in means_of(network, ()).centred else sympy.S.One
    readouts = found.named("readout")
    drawn = all(is_centred(network, network.initial_names[r]) for r in readouts)
    others = None if readouts and found.read_out_everywhere else sum_starts
    return sympy.S.Half if drawn else sum_starts, others


def optimizer_of(optimizer: Any, name: str) -> Optimizer:
    """The optimizer of one parameter: the one for all, or that of its name."""
    found = optimizer.get(name) if isinstance(optimizer, Mapping) else optimizer
    if not isinstance(found, Optimizer):
        raise ProgramError(
            f"optimizer={shown(found)} for `{name}`: give an optimizer such as tp.Adam(), or one by parameter."
        )
    return found


def _only_shifts(network: Program, name: str) -> bool:
    """Whether a scalar parameter is only added to the output."""
    position = network.initial_names[name]
    users = {p for p, s in enumerate(network) if position in s.operands}
    return len(network.returns) > 1 and users <= {network.returns[1]}
