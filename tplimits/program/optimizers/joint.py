"""Optimizers that look at all entries of a parameter at once, or of all parameters: normalised, clipped, factored.

With Q_t of an entrywise optimizer, ‖·‖ the root of the sum of squares over a parameter (each matrix of a family alone,
vectors with all their axes), and w what is trained, a step is (Yang & Littwin, Eq. 2.54)

    −η n^(−c) Q_t/ν,    ν = ‖Q_t‖ or ‖w‖ (normalised),    ν = max(θ, ‖Q_t‖) (clipped),    θ = θ_0 n^e,

with e = 1 for matrices, ½ for vectors and 0 for scalars, so that c counts as c + e, or c + e − b where ν = ‖w‖.

The whole gradient is clipped before any Q sees it: Q_t(G_0/ν_0, …, G_t/ν_t) with G_t = n^d g_t of a parameter and

    ν_t = max(θ_0, |G_t|),    |G_t|² = Σ_w ‖n^d g_t‖²/n^(2e)  over all parameters that are clipped alike.

In NTP, where d = e, this is the norm of the gradient with respect to all w; powers of n stay as they are.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.errors import ProgramError, shown
from tplimits.program.language.tracing import alone
from tplimits.program.nodes.given import positive_number, word_of
from tplimits.program.optimizers.adaptive import Adam, _Adaptive
from tplimits.program.optimizers.recursion import Optimizer, OptimizerState, exact_of
from tplimits.program.optimizers.stepping import NORM_POWER, FactoredStepper, NormStepper

if TYPE_CHECKING:
    from tplimits.program.parametrization.exponents import Exponents


class Joint(Optimizer):
    """What looks at all entries at once."""

    #: of what
    whole: ClassVar[str] = "parameter"
    is_entrywise = False
    is_linear = False

    @property
    def formula(self) -> tuple[tuple[OptimizerState, ...], Expr]:
        raise ProgramError(f"{self!r} looks at all entries of a {self.whole} at once; no update of one entry exists.")


@dataclass(frozen=True)
class _Around(Joint):
    """An optimizer around an entrywise one."""

    optimizer: Optimizer

    def _check_inner(self) -> None:
        if not isinstance(self.optimizer, Optimizer) or not self.optimizer.is_entrywise:
            raise ProgramError(f"{self.name}({shown(self.optimizer)}): give an entrywise optimizer, such as tp.Adam().")

    def entry_by_entry(self, kind: str) -> Optimizer | None:
        return self.optimizer

    @property
    def open_symbols(self) -> set[Symbol]:
        return self.optimizer.open_symbols

    def divisor(self, norm: Any, unit: float = 1.0) -> Any:
        return norm

    @property
    def is_memoryless(self) -> bool:
        return self.optimizer.is_memoryless

    @property
    def sign_preserving(self) -> bool:
        return self.optimizer.sign_preserving

    @property
    def lost_hypothesis(self) -> str | None:
        return self.optimizer.lost_hypothesis

    def stepper(self) -> Any:
        return NormStepper(self)


@dataclass(frozen=True)
class Normalized(_Around):
    """Updates divided by their own norm (by="update"), or by that of the current weights w (by="weight").

    >>> import tplimits as tp
    >>> Normalized(tp.SGD()).degree, Normalized(tp.SGD(), by="weight").degree
    (0, 1)

    Raises ProgramError for another `by`, or around an optimizer that is not entrywise.
    """

    by: str = "update"

    def __post_init__(self) -> None:
        self._check_inner()
        word_of("Normalized(): by", self.by, ("update", "weight"), ProgramError)

    @property
    def degree(self) -> int | None:
        inner = self.optimizer.degree
        return inner if inner is None or self.by == "weight" else 0

    @property
    def is_bounded(self) -> bool:
        return self.by == "update" or self.optimizer.is_bounded

    @property
    def divides_by(self) -> str | None:
        return self.by

    def extra_power(self, kind: str, exponents: Exponents) -> Expr:
        # weights are n^(−b) w: the norm is taken of w, which is what is trained
        return _norm_power(kind) - (exponents.b if self.by == "weight" else 0)


def _norm_power(kind: str) -> Expr:
    return NORM_POWER[word_of("kind", kind, tuple(NORM_POWER), ProgramError)]


@dataclass(frozen=True)
class Clipped(_Around):
    """Updates whose norm is clipped at θ = θ_0 n^e, θ_0 the `threshold`, or gradients clipped together before.

    reading="usual" divides by max(θ, ‖Q‖): the norm never exceeds 1, and small updates stay in proportion.
    reading="printed" divides by min(θ, ‖Q‖), as the paper has it: the norm is never below 1.
    of="update" clips the update Q of each parameter by its own norm; of="gradient" the gradient, before Q sees it, by
    the norm over all parameters whose optimizers clip gradients by the same threshold and reading.

    >>> import tplimits as tp
    >>> Clipped(tp.Adam(), 0.5).reading
    'usual'
    >>> Clipped(tp.SGD(), 0.5, of="gradient").clips_gradient
    ('max', 1/2)

    Raises ProgramError for a threshold that is not positive, another reading or `of`, or an optimizer that is not
    entrywise.
    """

    threshold: Any = 1
    reading: str = "usual"
    of: str = "update"

    def __post_init__(self) -> None:
        self._check_inner()
        object.__setattr__(self, "threshold", alone(self.threshold))
        positive_number("threshold", self.threshold, ProgramError)
        word_of("Clipped(): reading", self.reading, ("usual", "printed"), ProgramError)
        word_of("Clipped(): of", self.of, ("update", "gradient"), ProgramError)

    @property
    def degree(self) -> int | None:
        return 0 if self.optimizer.degree == 0 else None

    @property
    def is_bounded(self) -> bool:
        return self.reading == "usual" or self.optimizer.is_bounded

    @property
    def divides_by(self) -> str | None:
        return "update" if self.of == "update" else None

    @property
    def clips_at(self) -> tuple[str, Expr] | None:
        return "max" if self.reading == "usual" else "min", exact_of(self.threshold)

    @property
    def clips_gradient(self) -> tuple[str, Expr] | None:
        return self.clips_at if self.of == "gradient" else None

    def divisor(self, norm: Any, unit: float = 1.0) -> Any:
        return (numpy.maximum if self.reading == "usual" else numpy.minimum)(norm, float(self.threshold) * unit)

    def extra_power(self, kind: str, exponents: Exponents) -> Expr:
        return _norm_power(kind) if self.of == "update" else sympy.S.Zero

    def stepper(self) -> Any:
        return super().stepper() if self.of == "update" else self.optimizer.stepper()

    def __str__(self) -> str:
        return super().__str__().replace(", of=update)", ")")


@dataclass(frozen=True)
class Adafactor(Joint, _Adaptive):
    """g/√(v + ε²), where v of a matrix is made of bias-corrected running means of g² over rows and over columns.

        v_αβ = r_α c_β/⟨r⟩,  r_α ← ρ r_α + (1 − ρ) ⟨g_αβ²⟩_β,  c_β ← ρ c_β + (1 − ρ) ⟨g_αβ²⟩_α

    Vectors and scalars have a v of their own in every entry.

    >>> Adafactor(decay=0.9).is_entrywise
    False

    Raises ProgramError unless 0 ≤ decay < 1 and ε ≥ 0; warns for ε = 0.
    """

    decay: Any = 0.999
    eps: Any = 1e-8
    symbols_of: ClassVar[dict[str, str]] = {"decay": "ρ", "eps": "ε"}
    whole: ClassVar[str] = "matrix"
    is_memoryless = False
    sign_preserving = True
    is_bounded = True

    def entry_by_entry(self, kind: str) -> Optimizer | None:
        if kind == "matrix":
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of ε = 0 there was a warning when this was made
            return Adam(0, self.decay, self.eps)

    @property
    def open_symbols(self) -> set[Symbol]:
        return set().union(*(value.free_symbols for value in self.hyperparameters.values()))

    @property
    def degree(self) -> int | None:
        return 0 if self.lost_hypothesis else None

    def stepper(self) -> Any:
        return FactoredStepper(self)
