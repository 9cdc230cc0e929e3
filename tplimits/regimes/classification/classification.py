"""classify(): which limit a parametrization has, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sympy

from tplimits.errors import CheckError, NoLimitError
from tplimits.law.hypotheses.universality import refuse_unestablished
from tplimits.pages.report import Report, Reported, document
from tplimits.program.network.parameters import parameters
from tplimits.program.nodes.given import whole_from
from tplimits.program.optimizers.linear import Frozen
from tplimits.program.parametrization.script import Script, script
from tplimits.program.parametrization.table import MUP, NTP
from tplimits.regimes import training
from tplimits.regimes.classification import finite
from tplimits.regimes.classification.derivation.nearest import nearest_maximal_update
from tplimits.regimes.classification.derivation.perceptron import asked
from tplimits.regimes.classification.derivation.stable_point import refuse_other_powers, stable_point
from tplimits.regimes.classification.derivation.verdict import StabilityVerdict, optimizer_of, verdict_on
from tplimits.regimes.classification.report import latex, text
from tplimits.report.written import program_graph
from tplimits.sampling.sampling import Sampling

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.parametrization.table import Parametrization
    from tplimits.regimes.classification.derivation.activations import Finding
    from tplimits.regimes.classification.derivation.at_start import AtStart
    from tplimits.regimes.classification.derivation.inequalities import Inequality
    from tplimits.regimes.classification.finite.coordinates import CoordinateCheck
    from tplimits.regimes.training.feature_learning import MaximalLimit
    from tplimits.regimes.training.operator import TangentLimit


@dataclass(frozen=True)
class Classification(Reported):
    """Which limit the training of a network has in a parametrization.

    `stable`, `faithful` and `nontrivial` are True or False, or SymPy conditions where exponents have symbols.
    """

    program: Program
    parametrization: Parametrization
    optimizer: Any
    verdict: StabilityVerdict

    @property
    def stable(self) -> Any:
        """Whether nothing grows with n, at the start or in training."""
        return _plain(self.verdict.stable)

    @property
    def faithful(self) -> Any:
        """Whether what the optimizer sees, n^d g, stays of order 1; always for optimizers that do not see its size."""
        return _plain(self.verdict.faithful)

    @property
    def nontrivial(self) -> Any:
        """Whether outputs move at all as n → ∞."""
        return _plain(self.verdict.nontrivial)

    @property
    def regime(self) -> str | None:
        """ "feature", "operator", "trivial", "unfaithful" or "unstable"; None where symbols decide."""
        return self.verdict.regime

    @property
    def feature_kernels_evolve(self) -> Any:
        """Whether feature kernels xᵀx/n evolve in the limit (Def. 2.8.18); False where something grows."""
        return _plain(self.verdict.evolves)

    @property
    def evolving(self) -> tuple[str, ...]:
        """The features whose kernels evolve, by name; () for symbols."""
        return self.verdict.evolving

    @property
    def assumption(self) -> tuple[Finding, ...]:
        """Assumption 2.8.2, under which the theorems are proved, for every activation; optimizers that fail it, too."""
        return self.verdict.findings

    @property
    def at_start(self) -> AtStart:
        """The hypotheses on jumps, poles, roots, moments and fluctuations before training: what fails or is open."""
        return self.verdict.at_start

    def limit(self, optimizer: Any = None) -> MaximalLimit | TangentLimit:
        """The derived limit of training here, by this optimizer or by another one (Rem. 2.8.21).

        All stable limits are those of μP or NTP with some parameters at rest (`tp.Frozen`), vectors or outputs that
        start at 0.

        >>> import tplimits as tp
        >>> limit = classify(2, tp.UP("1/4"), tp.SGD()).limit()
        >>> type(limit).__name__, limit.starts_at_zero
        ('TangentLimit', True)

        Raises NoLimitError where the parametrization is not stable, where no theorem gives its limit (it is named), and
        where a hypothesis of the limit fails.
        """
        refuse_unestablished(self.program, (), False)
        found = self if optimizer is None else classify(self.program, self.parametrization, optimizer)
        point = stable_point(found.verdict)
        if found.at_start.failing:
            raise NoLimitError(found.at_start.failing)
        chosen: Any = found.optimizer
        if point.frozen:
            rest = {name: optimizer_of(chosen, name) for name in parameters(self.program)}
            chosen = {name: Frozen() if name in point.frozen else o for name, o in rest.items()}
        if found.regime in ("feature", "operator"):
            base = (MUP if point.learns else NTP).adjusted(self.program, chosen)
            refuse_other_powers(found.verdict, verdict_on(self.program, base, chosen))
        started = point.started(self.program)
        if point.learns:
            return training.feature_learning.MaximalUpdate(chosen).derive(started)
        return training.operator.NeuralTangent(chosen, f0=0 if point.at_zero else None).derive(started)

    @property
    def conditions(self) -> dict[str, sympy.Basic]:
        """For each regime the condition on the symbols."""
        return dict(self.verdict.conditions)

    @property
    def inequalities(self) -> tuple[Inequality, ...]:
        """All inequalities, with what each is about and whether it holds."""
        return tuple(i for group in self.verdict.groups.values() for i in group)

    @property
    def breaks(self) -> tuple[str, ...]:
        """What breaks, where, and at which power of n."""
        return self.verdict.breaks

    @cached_property
    def nearest(self) -> Parametrization:
        """The maximal update parametrization with the same a, and the same d where the optimizer allows it.

        It is classified before it is returned.  a_out is 1 where a term of the output has no readout, and all is as
        in μP where nothing else learns features.  Raises NoLimitError, with what breaks, where that does not either.
        """
        return nearest_maximal_update(self.program, self.parametrization, self.optimizer)

    @cached_property
    def multipliers(self) -> Script:
        """Initial standard deviations and factors on learning rates for a training script."""
        return script(self.program, self.parametrization, self.optimizer)

    def powers(self, t: int = 1) -> dict[str, Any]:
        """The power of n of the change since the start, after t steps, of each feature and of f.

        Raises CheckError where exponents have symbols, and where t is no number of steps.
        """
        t, counting = whole_from("t", t, 0, CheckError), self.verdict.counting
        if counting is None:
            raise CheckError(f"{self.parametrization!r} has symbols; powers of n need numbers: .substituted({{…}}).")
        return counting.moves(t)

    def check(
        self,
        widths: Sequence[int] = (64, 128, 256, 512),
        *,
        X: Any = None,
        error: Any = None,
        lr: Any = 0.5,
        steps: int = 2,
        draws: int = 8,
        seed: int = 0,
        level: float = 1e-2,
        ratios: Mapping[str, float] | None = None,
    ) -> CoordinateCheck:
        """Train finite networks and compare the measured powers of n with those that were counted.

        X: inputs, three random ones with four entries if left out.  error: ε(f); if left out, that of the
        logistic loss of random signs with a margin.  draws: networks of the largest width, more of narrower ones.
        level: how often another regime than the counted one is measured by chance.  Where powers disagree at changes
        that are not small, a smaller lr is taken, `.slowed` times the one given.
        """
        training = finite.coordinates.Training(X, error, lr, steps)
        sampling = Sampling(widths, draws, seed, level)
        found = finite.coordinates.coordinate_check(self.verdict.counting, training, sampling, ratios)
        verdict = self.verdict.above if found.above else self.verdict
        if verdict.regime != "unstable" or found.counted_regime == "unstable":
            return found
        # what grows inside of a function that saturates, or in later steps, is in no row
        return replace(found, counted_regime="unstable", unseen=verdict.breaks)

    def latex(self) -> str:
        """The inequalities as an align* environment."""
        return latex(self.verdict)

    def _repr_latex_(self) -> str:
        return self.latex()

    def report(self) -> Report:
        """Which limit, why, and what a training script sets."""
        shown, script = repr(self), repr(self.multipliers)
        return Report(
            title=f"Limit of {self.program.name} in training",
            answer=shown.splitlines()[0],
            text=f"{shown}\n\n{script}",
            graph=program_graph(self.program),
            program=str(self.program),
            latex=self.latex(),
            document=document(
                "tplimits classification",
                program=self.program.name,
                regime=self.regime,
                **{name: str(getattr(self, name)) for name in ("stable", "faithful", "nontrivial")},
                breaks=self.breaks,
                text=shown.splitlines(),
                multipliers=script.splitlines(),
            ),
        )

    def __repr__(self) -> str:
        return text(self.verdict, self.optimizer)


def classify(target: Any, parametrization: Parametrization, optimizer: Any) -> Classification:
    """Which limit a parametrization has: feature learning, an operator (kernel) limit, none, or a trivial one.

    target: a network, or the number of hidden layers of a perceptron, whose layers are "1", …, "L+1" in `tp.ABCD`.
    optimizer: one for all parameters, or by name.  Exponents may be SymPy symbols; then the answer is a condition.

    >>> import tplimits as tp
    >>> classify(2, tp.MUP, tp.Adam()).regime, classify(2, tp.NTP, tp.SGD()).regime
    ('feature', 'operator')
    >>> classify(2, tp.SP, tp.SignSGD()).breaks[0]
    'h2 moves like n^(1) in step 1'
    >>> c = sympy.Symbol("c")
    >>> rate = {"input": (0, 0, c, 0), "hidden": (0, "1/2", c, 0), "output": (0, "1/2", c, 0)}
    >>> classify(2, tp.ABCD(rate), tp.SignSGD()).stable
    3/2 <= c

    Powers of n in a program count as part of the a of the parameter whose image they multiply.  Where they multiply
    anything else, powers are counted alone, without inequalities.

    Raises ProgramError for what is no network, parametrization or optimizer, and for exponents with symbols where a
    program has powers of n that are not those of one parameter's image; NoLimitError where second moments of values or
    gradients are infinite or training loses them, and where something grows unless a mean vanishes, which is not known.
    """
    verdict = verdict_on(*asked(target, parametrization), optimizer)
    return Classification(verdict.network, verdict.parametrization, optimizer, verdict)


def _plain(condition: sympy.Basic) -> Any:
    return {sympy.true: True, sympy.false: False}.get(condition, condition)
