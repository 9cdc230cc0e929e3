"""The limit of depth proportional to width of blocks that have no formulas, in numbers: norms, tied weights, biases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
import sympy
from sympy import Expr

from tplimits.errors import EvaluationError, NoLimitError
from tplimits.numbers.expansion.covariances import fixed as fixed_at
from tplimits.program.nodes.entries import Entry, reads_vectors
from tplimits.program.nodes.given import named_once
from tplimits.program.nodes.keywords import constants_apart
from tplimits.program.nodes.kinds import Nonlin
from tplimits.regimes.depth import numbers
from tplimits.regimes.depth.claims import OF_SIMULATE
from tplimits.regimes.depth.derivation.assumptions import assumed
from tplimits.regimes.depth.derivation.scalars.expected import insist_on_means
from tplimits.regimes.depth.expanded import manifold, report
from tplimits.regimes.depth.expanded.frames import refuse_fixed
from tplimits.regimes.depth.expanded.layers import Layers
from tplimits.regimes.depth.expanded.paths import Curve
from tplimits.regimes.depth.numbers.paths import Estimate
from tplimits.regimes.depth.of_block import OfBlock, block_numbers

if TYPE_CHECKING:
    from tplimits.law.kets import Step
    from tplimits.program.nodes.program import Program
    from tplimits.progress import Progress
    from tplimits.regimes.depth.expanded.manifold import Coefficients
    from tplimits.regimes.depth.numbers.paths import Paths
    from tplimits.report.latex_formulas import Formula

#: the correlation of tokens at which a block is looked at, and numbers that constants without a value have there
_LOOK, _OPEN = 0.3, 0.9


def normalises(program: Program) -> bool:
    """Whether a block takes a root of averages, as norms do.

    >>> import tplimits as tp
    >>> @tp.block
    ... def normed(x: tp.State["token"], W: tp.Matrix):
    ...     return W @ tp.layers.rms_norm(x)
    >>> normalises(normed)
    True
    """
    powers = [power for body in _bodies(program) for power in body.atoms(sympy.Pow)]
    return any(
        p.exp.is_Rational and not p.exp.is_Integer and p.base.has(Entry) and not reads_vectors(p.base) for p in powers
    )


def _bodies(program: Program) -> list[Expr]:
    return [s.body for p in program.parts or (program,) for s in p if isinstance(s, Nonlin)]


def derive_numeric(program: Program, fixed: tuple[str, ...], refused: NoLimitError) -> NumericSDE:
    """The limit of a block for which the index algebra has no formulas, as `refused` says.

    Raises NoLimitError where the next covariance is no function of that of the state, where a width stays fixed, and
    where its leading map attracts to no manifold, at some numbers for what is open; `refused` itself where the
    expansion in 1/n has no numbers either.
    """
    parts = program.parts or (program,)
    if any(len(part[p].axes) != 1 for part in parts for p in (part.state or 0, part.returns[0])):
        raise refused
    insist_on_means(_bodies(program))
    found = NumericSDE(program)
    # two tokens are the fewest with a correlation
    m = found.tokens or 2
    V = numpy.full((m, m), _LOOK) + (1 - _LOOK) * numpy.eye(m)
    known = _numbers_of_open(program)
    try:
        layers = Layers.at(program, m, known, None)
        # tried before the map is judged: where there is no expansion, the refusal of the formulas says more
        layers.moved(fixed_at(V))
    except (NoLimitError, EvaluationError) as error:
        # that norms have no formulas is the reason of nothing: others of them have numbers
        raise NoLimitError(f"{refused} Nor are there numbers: {error}") if normalises(program) else refused from None
    try:
        for part in parts:
            refuse_fixed(part)
        if fixed:
            raise NoLimitError(
                f"the expansion in 1/n takes all widths in proportion, and {', '.join(fixed)} cannot stay fixed."
            )
        manifold.judge(layers, manifold.attracted(layers, V))
    except NoLimitError as error:
        at = ", ".join(f"{name} = {number:.3g}" for name, number in known.items())
        others = f" at {at} (others may be given by .bind)" if known else ""
        raise NoLimitError(f"{refused} Nor does the block have numbers{others}: {error}") from None
    except EvaluationError:
        raise refused from None
    return found


def _numbers_of_open(program: Program) -> dict[str, float]:
    """Numbers for constants without a value, and 2 for sizes beside the tokens, at which a block is looked at."""
    found: dict[str, float] = {}
    for part in program.parts or (program,):
        tokens = part.root_axis(part[part.state or 0].axes[0])
        for name, value in part.constants.items():
            if value is None and name not in found:
                found[name] = _OPEN / (2 + len(found))
        found |= {a: 2 for a in map(part.root_axis, part.all_axes) if a != tokens and part.size(a) is None}
    return found


@dataclass(frozen=True)
class NumericSDE(OfBlock):
    """dV = b(V) dt + Σ(V)^(1/2) dB on the fixed points of the leading map M of a block, in numbers.

    A layer is V′ = M(V) + b₁/n + fluctuations of covariance C₁/n, by the expansion of one layer in 1/n; layers take V
    to π(V) = lim Mᵏ(V) at once, and from there b = Dπ b₁ + ½ D²π : C₁, Σ = Dπ C₁ Dπᵀ.

    >>> import numpy as np, tplimits as tp
    >>> @tp.block
    ... def normed(x: tp.State["token"], W: tp.Matrix):
    ...     return tp.layers.rms_norm(x + W @ x)
    >>> sde = tp.derive(normed, tp.Proportional())
    >>> V = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> bool(np.allclose(sde.drift_at(V)[0, 1], -0.375 * 0.5 * (1 - 0.5**2)))
    True
    """

    program: Program
    check_keywords: ClassVar[tuple[str, ...]] = ("V0", "layers", "weights", *OF_SIMULATE)
    fixed: tuple[str, ...] = field(default=(), init=False)
    _known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def tokens(self) -> int | None:
        """The number of tokens the block was bound to; None where it is open."""
        size = self.program.size(self.program[self.program.state or 0].axes[0])
        return None if size is None or not size.is_Integer else int(size)

    def _layers(
        self, m: int, ratios: Mapping[str, float] | None = None, constants: Mapping[str, Any] | None = None
    ) -> Layers:
        """The block at given numbers for m tokens."""
        given = dict(constants or {})
        block_numbers(self.program, (), m, given, ratios)  # what it refuses is refused
        key = (m, tuple(sorted((ratios or {}).items())), tuple(sorted((k, float(v)) for k, v in given.items())))
        if key not in self._known:
            self._known[key] = Layers.at(self.program, m, given, ratios)
        return self._known[key]

    def _at(self, V: Any, ratios: Any, constants: Any) -> list[Coefficients]:
        V = numbers.covariance.positive(V)
        layers = self._layers(V.shape[-1], ratios, constants)
        found = []
        # coefficients of one V cost an expansion, and callers ask for drift and diffusion at the same V in turn
        for one in V.reshape(-1, *V.shape[-2:]):
            key = ("at", id(layers), one.tobytes())
            if key not in self._known:
                resolved, _ = layers.resolved(one)
                self._known[key] = manifold.coefficients(resolved, one)
            found.append(self._known[key])
        return found

    @constants_apart
    def drift_at(self, V: Any, ratios: Any = None, constants: Any = None, **named: Any) -> numpy.ndarray:
        """b at fixed points V of M, of shape (…, m, m), in the same shape; constants by name.

        Raises EvaluationError for a V that is no covariance, a singular one, or no fixed point (`attracted` gives the
        one it is taken to), and for missing constants; NoLimitError where M does not attract to a manifold.
        """
        given = named_once(constants, named, "drift_at", EvaluationError)
        found = [c.drift for c in self._at(V, ratios, given)]
        return numpy.reshape(found, numpy.shape(V))

    @constants_apart
    def drift_estimate_at(self, V: Any, ratios: Any = None, constants: Any = None, **named: Any) -> Estimate:
        """b as `drift_at` has it, with errors of zero: nothing is drawn."""
        return Estimate(found := self.drift_at(V, ratios, constants, **named), numpy.zeros_like(found))

    @constants_apart
    def diffusion_at(self, V: Any, ratios: Any = None, constants: Any = None, **named: Any) -> numpy.ndarray:
        """Σ at fixed points V of M, (…, P, P) over the pairs α ≤ β in row order; raises as `drift_at` does."""
        given = named_once(constants, named, "diffusion_at", EvaluationError)
        found = numpy.array([c.diffusion for c in self._at(V, ratios, given)])
        return found.reshape(*numpy.shape(V)[:-2], *found.shape[1:])

    @constants_apart
    def layer_at(
        self, V: Any, ratios: Any = None, constants: Any = None, **named: Any
    ) -> tuple[numpy.ndarray, numpy.ndarray]:
        """n E[V′ − V] and n Cov(V′) of one layer at a fixed point V: what b and Σ are projections of."""
        (found,) = self._at(V, ratios, named_once(constants, named, "layer_at", EvaluationError))
        return found.layer_drift, found.layer_diffusion

    @constants_apart
    def attracted(self, V: Any, ratios: Any = None, constants: Any = None, **named: Any) -> numpy.ndarray:
        """π(V), the fixed point of M that layers take V to before 1/n tells; raises as `drift_at` does."""
        given = named_once(constants, named, "attracted", EvaluationError)
        V = numbers.covariance.positive(V)
        return manifold.attracted(self._layers(V.shape[-1], ratios, given), V)

    @constants_apart
    def simulate(
        self,
        V0: Any,
        T: float = 1.0,
        dt: float = 0.01,
        paths: int = 4096,
        seed: int = 0,
        record: bool | int = False,
        halve: bool = False,
        stop: Any = None,
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        progress: Progress = None,
        **named: Any,
    ) -> Paths:
        """Paths from π(V0) to time T = depth/width, constants by name; as `tp.CovarianceSDE.simulate`.

        For two tokens whose variances layers hold, as norms do: steps are those of Euler for their correlation, with
        coefficients read from polynomials to 1e-4.

        Raises EvaluationError for other numbers of tokens, and for blocks that move variances.
        """
        stage = numbers.simulation
        V = stage.initial(V0)
        if V.shape != (2, 2) or stop is not None:
            raise EvaluationError(
                f"paths of `{self.program.name}`, whose coefficients are numbers, are drawn for two tokens, from one "
                "V0 of shape (2, 2) and without stop=: their variances stay. drift_at and diffusion_at take more."
            )
        settings = stage.settings(T, dt, paths, seed, None, record, halve, None, V)
        given = named_once(constants, named, "simulate", EvaluationError)
        layers = self._layers(2, ratios, given)
        start = manifold.attracted(layers, V)
        # a curve is over the correlation at fixed variances: other starts with these variances share it
        key = ("curve", id(layers), tuple(numpy.diag(start).round(9)))
        if key not in self._known:
            resolved, _ = layers.resolved(start)
            self._known[key] = Curve(resolved, start)
        return stage.simulate(self._known[key], start, settings, progress)

    def __repr__(self) -> str:
        return report.text(self)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The derivation, one step a rule."""
        return report.steps(self.program.name)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the limit rests on."""
        parts = [assumed(part, ()) for part in self.program.parts or (self.program,)]
        return tuple(dict.fromkeys((*(a for part in parts for a in part), *report.ASSUMED)))

    def _formulas(self) -> list[Formula]:
        return list(report.FORMULAS)

    def __reduce__(self) -> tuple[Any, ...]:
        return NumericSDE, (self.program,)
