"""Optimizers that divide by a running mean square of the gradient.

ε stands inside the root, 1/√(v + ε²), as the limit theorems have it, or with `convention="torch"` beside it as in
PyTorch, 1/(√v + ε); both are functions of v after the correction of its bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import sympy
from sympy import Expr

from tplimits.errors import ProgramError, shown
from tplimits.program.nodes.functions import where
from tplimits.program.optimizers.recursion import (
    Optimizer,
    OptimizerState,
    exact_of,
    need_range,
    state_symbol,
    warn_of_lost,
)
from tplimits.program.optimizers.stepping import TIME, G

β1, β2, ε, ρ = sympy.symbols("β1 β2 ε ρ", real=True)
m, v, p = state_symbol("m"), state_symbol("v"), state_symbol("p")
#: PyTorch's schedule of β1 in NAdam nears its end like 0.96^(t/250), momentum_decay = 0.004
_FALLING, _SLOWLY = sympy.Rational(24, 25), 250
CONVENTIONS = INSIDE, TORCH = "inside", "torch"


@dataclass(frozen=True)
class _Adaptive(Optimizer):
    """What has an ε: a quotient that is 0 where nothing was ever seen, and a hypothesis that ε = 0 loses."""

    #: known without the formula, which derivations have no need of
    is_still = False

    @property
    def _eps(self) -> Any:
        return getattr(self, "eps")  # noqa: B009

    @property
    def _convention(self) -> Any:
        return getattr(self, "convention", INSIDE)

    @property
    def shown(self) -> dict[str, Any]:
        """A convention is printed where it is not the usual one."""
        return {name: value for name, value in super().shown.items() if (name, value) != ("convention", INSIDE)}

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.shown.items())})"

    def __post_init__(self) -> None:
        if not isinstance(self._convention, str) or self._convention not in CONVENTIONS:
            raise ProgramError(
                f"{self.name}(convention={shown(self._convention)}): it is {INSIDE!r}, ε inside the root, or "
                f"{TORCH!r}, ε beside it."
            )
        for field, symbol in self.symbols_of.items():
            need_range(self, field, below=None if symbol == "ε" else 1)
        warn_of_lost(self)

    @property
    def lost_hypothesis(self) -> str | None:
        if exact_of(self._eps) != 0:
            return None
        return (
            "without ε the update jumps where gradients vanish; the limit theorems ask for a pseudo-Lipschitz update "
            "function (ε > 0)."
        )

    def _quotient(self, numerator: Expr, square: Expr) -> Expr:
        # 0/0 where no gradient was ever seen: the update is 0 there, as with any ε > 0
        if exact_of(self._eps) == 0:
            return where(square, numerator / sympy.sqrt(square), 0)
        if self._convention == TORCH:
            return numerator / (sympy.sqrt(square) + ε)
        return numerator / sympy.sqrt(square + ε**2)


@dataclass(frozen=True, repr=False)
class Adam(_Adaptive):
    """Adam: Q_t = m̂/√(v̂ + ε²) with the bias-corrected means m̂, v̂ of g and g²; m̂/(√v̂ + ε) with convention="torch".

        m ← β1 m + (1 − β1) g,  v ← β2 v + (1 − β2) g²,  m̂ = m/(1 − β1^(t+1)),  v̂ = v/(1 − β2^(t+1))

    >>> g = sympy.Symbol("g0", real=True)
    >>> sympy.simplify(Adam(β1=0.5, β2=0.5, eps=1).update([g]))
    g0/sqrt(g0**2 + 1)
    >>> sympy.simplify(Adam(β1=0.5, β2=0.5, eps=1, convention="torch").update([g]))
    g0/(Abs(g0) + 1)

    Raises ProgramError unless 0 ≤ β1, β2 < 1 and ε ≥ 0; warns for ε = 0.
    """

    β1: Any = 0.9
    β2: Any = 0.999
    eps: Any = 1e-8
    convention: str = INSIDE
    symbols_of: ClassVar[dict[str, str]] = {"β1": "β1", "β2": "β2", "eps": "ε"}

    @property
    def formula(self) -> tuple[tuple[OptimizerState, ...], Expr]:
        return _means(), self._quotient(m / (1 - β1 ** (TIME + 1)), v / (1 - β2 ** (TIME + 1)))


@dataclass(frozen=True, repr=False)
class NAdam(Adam):
    """Adam with Nesterov's momentum: the mean of g looks one step ahead, with constant β1.

        m̂ = β1 m/(1 − β1^(t+2)) + (1 − β1) g/(1 − β1^(t+1)),  otherwise as Adam

    With convention="torch" β1 has the schedule of PyTorch's, μ_t = β1 (1 − ½ 0.96^((t+1)/250)) beside g:

        p ← μ_t p,  m̂ = μ_(t+1) m/(1 − μ_(t+1) p) + (1 − μ_t) g/(1 − p),  p = 1 at the start

    >>> NAdam(β1=0).update([G]) == Adam(β1=0).update([G])
    True

    Raises ProgramError unless 0 ≤ β1, β2 < 1 and ε ≥ 0; warns for ε = 0.
    """

    @property
    def formula(self) -> tuple[tuple[OptimizerState, ...], Expr]:
        square = v / (1 - β2 ** (TIME + 1))
        if self._convention != TORCH:
            ahead = β1 * m / (1 - β1 ** (TIME + 2)) + (1 - β1) * G / (1 - β1 ** (TIME + 1))
            return _means(), self._quotient(ahead, square)
        now, later = (β1 * (1 - _FALLING ** ((TIME + k) / _SLOWLY) / 2) for k in (1, 2))
        ahead = later * m / (1 - later * p) + (1 - now) * G / (1 - p)
        return (*_means(), OptimizerState("p", sympy.S.One, now * p)), self._quotient(ahead, square)


@dataclass(frozen=True, repr=False)
class RMSProp(_Adaptive):
    """RMSProp: v ← ρ v + (1 − ρ) g², Q_t = g_t/√(v + ε²); v starts at 0 and is not corrected.  ε as in `Adam`.

    >>> RMSProp(decay=0.75, eps=1).update([G])
    g/sqrt(g**2/4 + 1)

    Raises ProgramError unless 0 ≤ decay < 1 and ε ≥ 0; warns for ε = 0.
    """

    decay: Any = 0.99
    eps: Any = 1e-8
    convention: str = INSIDE
    symbols_of: ClassVar[dict[str, str]] = {"decay": "ρ", "eps": "ε"}

    @property
    def formula(self) -> tuple[tuple[OptimizerState, ...], Expr]:
        return (OptimizerState("v", sympy.S.Zero, ρ * v + (1 - ρ) * G**2),), self._quotient(G, v)


@dataclass(frozen=True, repr=False)
class Adagrad(_Adaptive):
    """Adagrad: Q_t = g_t/√(Σ_{s≤t} g_s² + ε²); ε as in `Adam`.

    >>> Adagrad(eps=1).update(sympy.symbols("g0:2", real=True))
    g1/sqrt(g0**2 + g1**2 + 1)

    Raises ProgramError for a negative ε; warns for ε = 0.
    """

    eps: Any = 1e-8
    convention: str = INSIDE
    symbols_of: ClassVar[dict[str, str]] = {"eps": "ε"}

    @property
    def formula(self) -> tuple[tuple[OptimizerState, ...], Expr]:
        return (OptimizerState("v", sympy.S.Zero, v + G**2),), self._quotient(G, v)


def _means() -> tuple[OptimizerState, OptimizerState]:
    """The running means of g and g²."""
    return (
        OptimizerState("m", sympy.S.Zero, β1 * m + (1 - β1) * G),
        OptimizerState("v", sympy.S.Zero, β2 * v + (1 - β2) * G**2),
    )
