"""Optimizers whose steps have a size that the shape or the size of a parameter sets; their powers of n are counted.

    Muon       ΔW = −η n^(−c) s U V^T, with G = U S V^T the (averaged) gradient of a matrix
    Adafactor of PyTorch     ΔW = −η n^(−c) max(ε₂, rms(w)) Q

The gradient of finitely many inputs has finite rank, so that U V^T has entries of size 1/n: it takes its right singular
vectors to the left ones, n^0 to n^0.  Neither is an update of one entry, and no limit of training is derived for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import sympy
from sympy import Expr

from tplimits.program.optimizers.joint import Joint

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.program.parametrization.exponents import Exponents


@dataclass(frozen=True)
class Muon(Joint):
    """Orthogonalised updates of matrices, times √n where they `match` the root mean square of Adam's.

    >>> Muon().degree, Muon().extra_power("matrix", None), Muon(match=True).extra_power("matrix", None)
    (0, 1, 1/2)
    """

    match: bool = False
    whole: ClassVar[str] = "matrix"
    degree = 0
    is_bounded = True

    def extra_power(self, kind: str, exponents: Exponents) -> Expr:
        if kind != "matrix":
            return sympy.S.Zero
        return sympy.S.Half if self.match else sympy.S.One


@dataclass(frozen=True)
class RateByWeight(Joint):
    """Steps of an optimizer times the root mean square of the weights, as `torch.optim.Adafactor` takes them.

    started: False for weights that start at 0, whose steps are the smallest there are, ε₂.

    >>> from tplimits.program.parametrization.exponents import Exponents
    >>> from tplimits.program.optimizers.linear import SignSGD
    >>> RateByWeight(SignSGD()).extra_power("matrix", Exponents.of((0, "1/2", 0, 0)))
    1/2
    """

    optimizer: Optimizer
    started: bool = True

    @property
    def degree(self) -> int | None:
        return self.optimizer.degree

    @property
    def is_bounded(self) -> bool:
        return self.optimizer.is_bounded

    def extra_power(self, kind: str, exponents: Exponents) -> Expr:
        return exponents.b if self.started else sympy.S.Zero
