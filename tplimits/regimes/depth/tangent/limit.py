"""The limit of tokens and their tangents as a user sees it: a joint covariance SDE, and gradients along depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from sympy import Expr

from tplimits.errors import EvaluationError, NoLimitError, shown
from tplimits.program.nodes.given import by_name, named_once, word_of
from tplimits.program.nodes.keywords import constants_apart
from tplimits.regimes.depth import tangent
from tplimits.regimes.depth.algebra.writing import array_names, expression
from tplimits.regimes.depth.of_block import OfBlock
from tplimits.regimes.depth.tangent import report as written

if TYPE_CHECKING:
    import numpy

    from tplimits.law.kets import Step
    from tplimits.program.nodes.program import Program
    from tplimits.progress import Progress
    from tplimits.regimes.depth.algebra.forms import Form
    from tplimits.regimes.depth.tangent.chain import Chain
    from tplimits.regimes.depth.tangent.derived import DerivedTangents
    from tplimits.regimes.depth.tangent.paths import TangentPaths
    from tplimits.regimes.depth.tangent.verdict import Gradients
    from tplimits.regimes.protocol import CheckAsked
    from tplimits.report.latex_formulas import Formula
    from tplimits.report.letters import Letters
    from tplimits.sampling.verdict import Verdict


class Joint(NamedTuple):
    """What belongs to V, to C and to D: arrays (…, m, m) or expressions."""

    V: Any
    C: Any
    D: Any


def derive_gradients(program: Program, fixed: tuple[str, ...] = ()) -> TangentSDE:
    """The joint SDE of the tokens of a block and of a perturbation of them."""
    return TangentSDE(program, tangent.derived.derive_tangent(program, fixed), fixed)


@dataclass(frozen=True)
class TangentSDE(OfBlock):
    """The SDE of V = X Xᵀ/n, C = X δXᵀ/n and D = δX δXᵀ/n, δX a perturbation that every layer maps on: t = layer/n.

    |∂L/∂θ|² of a Gaussian readout L has, at every width, the law of the response to a Gaussian perturbation of θ, so
    that D tells the law of gradient norms (`gradients`).  `drift` is Joint(b_V, b_C, b_D), expressions in V[α, β],
    C[α, β], D[α, β] with sums over tokens from 1 to m.
    """

    program: Program
    limit: DerivedTangents = field(repr=False, compare=False)
    fixed: tuple[str, ...] = ()
    check_keywords: ClassVar[tuple[str, ...]] = ("V0", "layers", "dt", "paths", "stop")
    _note: ClassVar[str] = "Depth and width to infinity together: tokens and a perturbation of them, t = layer/n."

    @cached_property
    def drift(self) -> Joint:
        """b of V, C and D."""
        return Joint(*(self._expression(self.limit.forms.drift[name]) for name in "VCD"))

    @cached_property
    def diffusion(self) -> Mapping[tuple[str, str], Expr]:
        """Cov of two of the blocks, the first at α, β, the second at δ, ω, by names: ("V", "D") …"""
        return {pair: self._expression(form) for pair, form in self.limit.forms.diffusion.items()}

    def start(self, parameter: str) -> Expr:
        """D after the layer of a parameter, in its mean: what its gradient norm is where the readout is that layer."""
        return self._expression(self._known(parameter).form)

    def is_derived(self, parameter: str) -> bool:
        """Whether the law of the gradient of a matrix is derived."""
        try:
            return not self._known(parameter).refusal
        except NoLimitError:
            return False

    def _known(self, parameter: str) -> Any:
        if not isinstance(parameter, str) or parameter not in self.limit.parameters:
            raise EvaluationError(
                f"`{self.program.name}` has no matrix {shown(parameter)}; it has {', '.join(self.limit.parameters)}."
            )
        return self.limit.start(parameter)

    def _expression(self, form: Form) -> Expr:
        return expression(form, self.array_names, self.tokens, self.limit.arrays)

    @cached_property
    def array_names(self) -> Letters:
        """What constant arrays and Gaussian means are called in print, and the letters of formulas."""
        return array_names(self.limit.forms.drift.values(), self.program)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the limit rests on."""
        return (*self.limit.sequences.assumptions, *written.ASSUMED)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The derivation, one step a rule."""
        return written.steps(self.program, self.limit)

    def __repr__(self) -> str:
        return written.text(self.program.name, self.limit, self.array_names, self.assumptions)

    def _formulas(self) -> list[Formula]:
        return written.formulas(self.limit, self.array_names)

    @property
    def _title(self) -> str:
        return f"Gradients of {self.program.name} as deep as wide"

    def _asked(self) -> Mapping[str, Any]:
        return {**super()._asked(), "tangent": True}

    def judged(self, asked: CheckAsked) -> Verdict:
        """Laws of log gradient norms, or the user's claims on them, against backpropagation in real networks."""
        return tangent.finite.judged.judged(self, asked)

    def __reduce__(self) -> tuple[Any, ...]:
        return derive_gradients, (self.program, self.fixed)  # the steps hold functions; they are made again

    @constants_apart
    def drift_at(self, V: Any, C: Any, D: Any, ratios: Any = None, constants: Any = None, **named: Any) -> Joint:
        """b of V, C and D at matrices of shape (…, m, m) whose joint matrix is a covariance; constants by name.

        Raises EvaluationError where (V, C; Cᵀ, D) is none, and for missing constants.
        """
        given = named_once(constants, named, "drift_at", EvaluationError)
        return Joint(*tangent.run.drift_at(self, (V, C, D), ratios, given))

    @constants_apart
    def diffusion_at(
        self, V: Any, C: Any, D: Any, ratios: Any = None, constants: Any = None, **named: Any
    ) -> numpy.ndarray:
        """Σ of the joint matrix of 2m vectors, x and then δx, as (…, P, P) over pairs of vectors α ≤ β in row order.

        Raises EvaluationError as `drift_at` does.
        """
        given = named_once(constants, named, "diffusion_at", EvaluationError)
        return tangent.run.diffusion_at(self, (V, C, D), ratios, given)

    @constants_apart
    def simulate(
        self,
        V0: Any,
        E: Any,
        T: float = 1.0,
        dt: float = 0.01,
        paths: int = 4096,
        seed: int = 0,
        stop: float | tuple[float | None, float] | None = None,
        record: bool | int = False,
        halve: bool = False,
        threads: int | None = None,
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        progress: Progress = None,
        fed: bool = False,
        **named: Any,
    ) -> TangentPaths:
        """Paths of (V, C, D) from V0, C = 0 and D = E to time T, constants of the block by name.

        E is a token, perturbed by a standard normal vector, or a Gram matrix (m, m), or (paths, m, m).  `fed` adds, in
        every layer, the response to fresh perturbations of all weights of that layer.  Steps, `stop` (of V alone),
        `record`, `halve`, `threads` and `seed` are those of `CovarianceSDE.simulate`; sizes of tangents are kept as
        logarithms, so that none is lost to rounding.

        Raises EvaluationError for arguments out of range, missing constants, and where Σ has no structured root.
        """
        asked = {"T": T, "dt": dt, "paths": paths, "seed": seed, "stop": stop, "record": record, "halve": halve}
        given = named_once(constants, named, "simulate", EvaluationError)
        return tangent.run.simulated(
            self, V0, tangent.run.per_path(E), {**asked, "threads": threads}, ratios, given, progress, fed
        )

    @constants_apart
    def gradients(
        self,
        V0: Any,
        T: float = 1.0,
        of: Sequence[str] | str | None = None,
        layers: Sequence[float] = (0.0, 0.5, 1.0),
        readout: Any = None,
        dt: float = 0.01,
        paths: int = 4096,
        seed: int = 0,
        stop: float | None = None,
        threads: int | None = None,
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> Gradients:
        """The laws of log gradient norms along depth: quantiles of log(|∂L/∂θ|²/n) for a standard normal readout L.

        `of` names matrices, "input", single tokens as "input[0]", and "total" (all weights of all layers, over n more);
        all that are derived if left out.  `layers` are places between 0, the first layer, and 1, the last.  `readout`
        is the token L reads, a Gram matrix of readouts, or None for independent ones at all tokens.  Matrices are taken
        as W = θ/√columns with θ of variance 1, as the block draws them; gradients smaller by a power of 1/n are
        multiplied by that power of n, and say so.

        Raises EvaluationError for arguments out of range, NoLimitError for a parameter whose law is not derived.
        """
        given = named_once(constants, named, "gradients", EvaluationError)
        asked = {"dt": dt, "paths": paths, "seed": seed, "stop": stop, "threads": threads}
        return tangent.run.gradients(self, V0, T, of, layers, readout, asked, ratios, given)

    @constants_apart
    def growth(
        self, constant: str, values: Sequence[float], V0: Any, T: float = 1.0, **asked: Any
    ) -> dict[float, tuple[float, ...]]:
        """5, 50 and 95 % of log |∂L/∂x|²/n beside its start at several values of a constant, such as a branch's γ.

        `asked` are arguments of `gradients`, other constants by name.  Raises EvaluationError as `gradients` does.
        """
        found = {}
        word_of("constant", constant, tuple(self.program.constants), EvaluationError)
        others = by_name(asked.pop("constants", None), "constants", EvaluationError)
        for value in tangent.run.listed("values", values, "values of the constant"):
            given = {**others, constant: value}
            laws = self.gradients(V0, T, of="input", layers=(0.0,), constants=given, **asked)
            found[float(value)] = laws.change
        return found

    @constants_apart
    def chain(
        self,
        T: float = 1.0,
        V0: float = 1.0,
        readout: str = "normal",
        dt: float = 0.01,
        paths: int = 4096,
        seed: int = 0,
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> Chain:
        """One token and its gradient together, V and G = |∂L/∂x|²/n at all layers: joint laws over layers.

        `readout` is "normal", standard normal given the network, or "features", L = |x_T|²/2: losses on the state
        itself, whose gradients remember the path.

        Raises NoLimitError for blocks with attention or that are not homogeneous, EvaluationError for arguments out of
        range.
        """
        given = named_once(constants, named, "chain", EvaluationError)
        return tangent.chain.chain(self, T, V0, readout, dt, paths, seed, ratios, given)
