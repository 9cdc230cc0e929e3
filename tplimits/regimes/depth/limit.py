"""The limit of depth proportional to width as a user sees it: a stochastic differential equation for the covariance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
from sympy import Expr, Symbol

from tplimits.errors import EvaluationError, NoLimitError, ProgramError, shown
from tplimits.program.nodes.given import named_once, names_of, true_or_false, whole_from
from tplimits.program.nodes.keywords import constants_apart
from tplimits.regimes import depth
from tplimits.regimes.depth import expanded, numbers, tangent
from tplimits.regimes.depth.algebra.writing import array_names, expression
from tplimits.regimes.depth.claims import OF_SIMULATE
from tplimits.regimes.depth.derivation.block import BlockLimit, derive_block, forms_of
from tplimits.regimes.depth.derivation.not_covered import NoFormulasError
from tplimits.regimes.depth.numbers.paths import Estimate, Paths
from tplimits.regimes.depth.of_block import OfBlock, refuse_unreal

if TYPE_CHECKING:
    from tplimits.law.kets import Step
    from tplimits.program.nodes.program import Program
    from tplimits.progress import Progress
    from tplimits.regimes.depth.algebra.forms import Form
    from tplimits.regimes.depth.derivation.roots import Root
    from tplimits.regimes.depth.derivation.verdict import DepthVerdict
    from tplimits.regimes.depth.expanded.limit import NumericSDE
    from tplimits.regimes.depth.tangent.limit import TangentSDE
    from tplimits.report.latex_formulas import Formula
    from tplimits.report.letters import Letters


@dataclass(frozen=True)
class Proportional:
    """The regime in which depth and width go to infinity together; widths in `fixed` stay as they are.

    With `tangent` the limit is that of the tokens and of a perturbation of them, which tells the law of gradients.
    """

    fixed: tuple[str, ...] = ()
    tangent: bool = False
    word: ClassVar[str] = "depth"
    formerly: ClassVar[str | None] = "proportional"
    takes: ClassVar[str] = "block"
    options: ClassVar[tuple[str, ...]] = ("fixed", "tangent")
    inputs: ClassVar[tuple[str, ...] | None] = None

    def derive(self, program: Program) -> CovarianceSDE | NumericSDE | TangentSDE:
        """The covariance SDE; ProgramError for `fixed` widths that the block does not have."""
        given = () if self.fixed is None else names_of("fixed", self.fixed, ProgramError)
        for width in given:
            if width not in program.other_widths:
                others = ", ".join(program.other_widths) or "none"
                raise ProgramError(
                    f"tp.Proportional(fixed=({shown(width)},)): the widths of `{program.name}` besides n: {others}."
                )
        of_tangents = true_or_false("tp.Proportional(): tangent", self.tangent, ProgramError)
        make = tangent.limit.derive_gradients if of_tangents else derive_covariance
        return make(program, tuple(given))


def derive_covariance(program: Program, fixed: tuple[str, ...] = ()) -> CovarianceSDE | NumericSDE:
    """The covariance SDE of a block or of a stack of blocks; in numbers where there are no formulas."""
    try:
        return CovarianceSDE(program, derive_block(program.released, fixed), fixed)
    except NoLimitError as refused:
        if not isinstance(refused, NoFormulasError) and (refused.verdict or not expanded.limit.normalises(program)):
            raise
        try:
            return expanded.limit.derive_numeric(program, fixed, refused)
        except NoLimitError as neither:
            try:  # by draws, which have a place on small branches alone
                return CovarianceSDE(program, derive_block(program.released, fixed, weighed=True), fixed)
            except NoLimitError:
                raise neither from None


@dataclass(frozen=True)
class CovarianceSDE(OfBlock):
    """dV = b(V) dt + Σ(V)^(1/2) dB for the covariance V = (1/n) X Xᵀ of the tokens, t = layer/n.

    `drift` and `diffusion` are SymPy expressions in V[α, β], with sums over tokens from 1 to m; `root` tells how to
    draw the noise of a step from one Cholesky factor of V (None where no such structure was found).
    """

    program: Program
    limit: BlockLimit = field(repr=False, compare=False)
    fixed: tuple[str, ...] = ()
    check_keywords: ClassVar[tuple[str, ...]] = ("V0", "layers", "weights", "method", *OF_SIMULATE)

    @cached_property
    def drift(self) -> Expr:
        """b^αβ."""
        return expression(self.limit.drift, self.array_names, self.tokens, self.limit.arrays)

    @cached_property
    def diffusion(self) -> Expr:
        """Σ^(αβ,δω)."""
        return expression(self.limit.diffusion, self.array_names, self.tokens, self.limit.arrays)

    @property
    def drift_form(self) -> Form:
        """b as canonical terms: two are equal exactly when they are for every number of tokens."""
        return self.limit.drift

    @property
    def diffusion_form(self) -> Form:
        """Σ as canonical terms."""
        return self.limit.diffusion

    @property
    def root(self) -> Root | None:
        """The structured square root of Σ."""
        return self.limit.root

    @property
    def verdict(self) -> DepthVerdict:
        """What kind of limit it is, with a sentence."""
        return self.limit.verdict

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the limit rests on, and remarks of the derivation."""
        return self.limit.assumptions

    @property
    def steps(self) -> tuple[Step, ...]:
        """The derivation, one step a rule."""
        return self.limit.steps

    @property
    def arrays(self) -> Mapping[str, numpy.ndarray]:
        """The constant arrays that stand in the terms, by label."""
        return self.limit.arrays

    @cached_property
    def array_names(self) -> Letters:
        """What the arrays are called in print: p, then p2, …; and the letters of formulas."""
        responses = () if self.limit.root is None else self.limit.root.responses
        beside = (*(r.form for r in responses), *forms_of(self.limit.laws))
        return array_names([self.limit.drift, self.limit.diffusion, *beside], self.program)

    def __repr__(self) -> str:
        return depth.report.text(self.program.name, self.limit, self.array_names)

    def _formulas(self) -> list[Formula]:
        return depth.report.formulas(self.limit, self.array_names)

    def _picture(self) -> str:
        return depth.picture.fields(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return derive_covariance, (self.program, self.fixed)  # the steps hold functions; they are made again

    def _given(self, V: Any, ratios: Any, constants: Any, named: Any, asked: str) -> tuple[Any, dict[Symbol, float]]:
        V = numbers.covariance.positive(V)
        values = self.values(V.shape[-1], named_once(constants, named, asked, EvaluationError), ratios)
        numbers.validity.insist_on_chance(self.limit, V, values, asked)
        return V, values

    def values(
        self, m: int, constants: Mapping[str, Any] | None = None, ratios: Mapping[str, float] | None = None
    ) -> dict[Symbol, float]:
        """Numbers for the symbols of the terms; EvaluationError also where they leave the domain of a function."""
        found = super().values(m, constants, ratios)
        refuse_unreal(self.program, self.limit.domains, found)
        return found

    @constants_apart
    def drift_at(self, V: Any, ratios: Any = None, constants: Any = None, **named: Any) -> numpy.ndarray:
        """b at covariance matrices of shape (…, m, m), in the same shape; constants by name.

        Raises EvaluationError for a V that is no covariance (symmetric, real, without negative eigenvalues), missing
        constants, and numbers too large for b to be one.
        """
        V, values = self._given(V, ratios, constants, named, "drift_at")
        if self.limit.weights:
            drift = numbers.weights.Drift(self.limit, values, V.shape[-1])
            return numpy.array([drift.finite_at(one).value for one in V.reshape(-1, *V.shape[-2:])]).reshape(V.shape)
        return numpy.asarray(numbers.covariance.at(self.limit.drift, V, values, self.limit.arrays, 2))

    @constants_apart
    def drift_estimate_at(self, V: Any, ratios: Any = None, constants: Any = None, **named: Any) -> Estimate:
        """b at one covariance matrix with its standard error: that of the means over random weights of order 1.

        Where the drift holds none, the error is zero.  Raises EvaluationError as `drift_at` does.
        """
        stage = numbers.covariance
        V, values = self._given(V, ratios, constants, named, "drift_estimate_at")
        if V.ndim != 2:
            raise EvaluationError(f"V has shape {V.shape}; an estimate with its error is for one covariance (m, m).")
        if not self.limit.weights:
            return Estimate(stage.at(self.limit.drift, V, values, self.limit.arrays, 2), numpy.zeros(V.shape))
        return numbers.weights.Drift(self.limit, values, V.shape[-1]).finite_at(V)

    @constants_apart
    def diffusion_at(self, V: Any, ratios: Any = None, constants: Any = None, **named: Any) -> numpy.ndarray:
        """Σ at covariance matrices of shape (…, m, m), as (…, P, P) over the pairs α ≤ β in row order.

        Raises EvaluationError as `drift_at` does.
        """
        V, values = self._given(V, ratios, constants, named, "diffusion_at")
        full = numbers.covariance.at(self.limit.diffusion, V, values, self.limit.arrays, 4)
        a, b = numpy.triu_indices(V.shape[-1])
        return numpy.asarray(full[..., a[:, None], b[:, None], a[None, :], b[None, :]])

    @constants_apart
    def layer_at(
        self, V: Any, ratios: Any = None, constants: Any = None, **named: Any
    ) -> tuple[numpy.ndarray, numpy.ndarray]:
        """n E[V′ − V] and n Cov(V′) of one layer in the limit: b and Σ."""
        given = named_once(constants, named, "layer_at", EvaluationError)
        return self.drift_at(V, ratios, given), self.diffusion_at(V, ratios, given)

    @cached_property
    def _simulators(self) -> dict[str, Any]:
        return {}

    @constants_apart
    def simulate(
        self,
        V0: Any,
        T: float = 1.0,
        dt: float = 0.01,
        paths: int = 4096,
        seed: int = 0,
        method: str = "psd",
        stop: float | tuple[float | None, float] | None = None,
        record: bool | int = False,
        halve: bool = False,
        threads: int | None = None,
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        progress: Progress = None,
        n: int | None = None,
        **named: Any,
    ) -> Paths:
        """Paths of dV = b(V) dt + Σ(V)^(1/2) dB from V0 to time T = depth/width, constants of the block by name.

        V0 has shape (m, m), or (paths, m, m) for a start of each path.  T is divided into equal steps of at most dt.
        method="psd" multiplies: V ← (1 + X) W S Sᵀ Wᵀ (1 + X)ᵀ, positive by construction; "euler" adds, and drops
        negative eigenvalues; both are of weak order 1.  "dense" is Euler with a root of Σ itself at every step, slow
        beyond a few tokens, and works where no structured root was found.  Steps of the other two read Gaussian means
        E f(u) h(u′) without closed form from tables over the variance c, to 1e-4 of E f² + c.  Where the drift holds
        means over weights of order 1, or at more than two tokens, and there is no noise, all paths of one V0 are one,
        in steps of Heun ("euler": of Euler).

        `halve=True` runs the same noise in steps half as long as well, for `paths.step_error`: `paths.halved` are the
        paths that steps of dt/2 have at this seed, and sums of two of their increments drive `paths`, which are
        therefore other ones than with halve=False.

        A path is stopped at the first step at which its largest eigenvalue exceeds `stop`, or an eigenvalue leaves
        `stop=(low, high)`; without it, at 10⁶ times the largest eigenvalue of V0, as an explosion.  `record=True` keeps
        every step, `record=k` every k-th.  A path's numbers depend on the seed alone, not on `threads` or on how many
        paths there are.

        The limit expands functions of scalars, such as the logits of attention, that are of size V/(τ0 √n): `n` is the
        width of the networks meant, and a UserWarning tells where these are not small at that width, at V0 or where the
        paths end.  `spread_at` gives the numbers.

        Raises EvaluationError for arguments out of range, a V0 that is no covariance, missing constants, a Σ that is
        not positive, and for a method that needs a structured root of Σ where none was found.

        >>> import numpy as np, tplimits as tp
        >>> @tp.block
        ... def linear(x: tp.State["token"], W: tp.Matrix):
        ...     return W @ x
        >>> sde = tp.derive(linear, tp.Proportional())
        >>> paths = sde.simulate(np.eye(2), T=0.5, dt=0.05, paths=100)
        >>> paths.V.shape, paths.correlation(0, 1).shape, int(paths.stopped.sum())
        ((100, 2, 2), (100,), 0)
        """
        stage = numbers.simulation
        V = stage.initial(V0)
        settings = stage.settings(T, dt, paths, seed, stop, record, halve, threads, V)
        values = self.values(V.shape[-1], named_once(constants, named, "simulate", EvaluationError), ratios)
        numbers.validity.insist_on_chance(self.limit, V, values, "simulate")
        numbers.covariance.insist_on_digits(self.limit.drift, V, values, self.limit.arrays)
        compiled = stage.engine(self.limit, method, values, V.shape[-1], self._simulators)
        found: Paths = stage.simulate(compiled, V, settings, progress)
        if n is not None:
            exploded = found.stopped & (stop is None)
            width = whole_from("n", n, 1, EvaluationError)
            numbers.validity.warn(self.limit, V, found.V, exploded, values, width)
        return found

    @constants_apart
    def spread_at(
        self, V: Any, n: int = 1, ratios: Any = None, constants: Any = None, **named: Any
    ) -> dict[str, numpy.ndarray]:
        """Standard deviations in networks of width n of what was expanded as small, the largest over the tokens.

        Where one is not well below 1, as V/(τ0 √n) of logits, the limit does not describe networks of this width.
        V has shape (…, m, m), each number the shape (…).  Raises EvaluationError as `drift_at` does.
        """
        V = numbers.covariance.positive(V)
        values = self.values(V.shape[-1], named_once(constants, named, "spread_at", EvaluationError), ratios)
        width = whole_from("n", n, 1, EvaluationError)
        return {k: s / numpy.sqrt(width) for k, s in numbers.validity.spreads(self.limit, V, values).items()}
