"""Gradient descent, with or without momentum, its sign, and none at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import sympy
from sympy import Expr, Symbol

from tplimits.program.optimizers.recursion import Optimizer, OptimizerState, exact_of, need_range, state_symbol
from tplimits.program.optimizers.stepping import G


@dataclass(frozen=True)
class SGD(Optimizer):
    """Gradient descent: Q_t = Σ_s μ^(t−s) g_s with momentum μ, so Q_t = g_t by default.

    >>> SGD().output, SGD().is_linear, SGD(momentum=0.5).coefficients(1)
    (g, True, (1/2, 1))

    Raises ProgramError unless 0 ≤ momentum < 1.
    """

    momentum: Any = 0
    symbols_of: ClassVar[dict[str, str]] = {"momentum": "μ"}

    def __post_init__(self) -> None:
        need_range(self, "momentum", below=1)

    @property
    def formula(self) -> tuple[tuple[OptimizerState, ...], Expr]:
        if exact_of(self.momentum) == 0:
            return (), G
        m = state_symbol("m")
        return (OptimizerState("m", sympy.S.Zero, Symbol("μ", real=True) * m + G),), m


@dataclass(frozen=True)
class SignSGD(Optimizer):
    """The sign of the gradient, smoothed by ε: Q_t = g_t/√(g_t² + ε²); sign(g_t), with sign(0) = 0, for ε = 0.

    >>> SignSGD(eps=1).output
    g/sqrt(g**2 + 1)
    >>> SignSGD().output, SignSGD().degree
    (sign(g), 0)

    Raises ProgramError for a negative ε.
    """

    eps: Any = 0
    symbols_of: ClassVar[dict[str, str]] = {"eps": "ε"}

    def __post_init__(self) -> None:
        need_range(self, "eps")

    @property
    def formula(self) -> tuple[tuple[OptimizerState, ...], Expr]:
        if exact_of(self.eps) == 0:
            return (), sympy.sign(G)
        return (), G / sympy.sqrt(G**2 + Symbol("ε", real=True) ** 2)

    @property
    def lost_hypothesis(self) -> str | None:
        if exact_of(self.eps) != 0:
            return None
        return "the sign jumps at 0; the limit theorems ask for a pseudo-Lipschitz update function (ε > 0)."


@dataclass(frozen=True)
class Frozen(Optimizer):
    """No update: Q_t = 0, for parameters that stay where they start.

    >>> Frozen().output, Frozen().is_linear
    (0, True)
    """

    @property
    def formula(self) -> tuple[tuple[OptimizerState, ...], Expr]:
        return (), sympy.S.Zero
