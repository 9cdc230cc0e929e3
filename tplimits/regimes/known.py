"""All regimes, in reading order: the one list that a new one is added to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tplimits.regimes.depth.expanded.limit import NumericSDE
from tplimits.regimes.depth.limit import CovarianceSDE, Proportional
from tplimits.regimes.depth.tangent.limit import TangentSDE
from tplimits.regimes.finite_width.limit import FiniteWidth, FiniteWidthLimit
from tplimits.regimes.kernels.limit import KernelLimit, Kernels
from tplimits.regimes.training.feature_learning import MaximalLimit, MaximalUpdate
from tplimits.regimes.training.operator import NeuralTangent, TangentLimit
from tplimits.regimes.width.limit import Width, WidthLimit

if TYPE_CHECKING:
    from tplimits.regimes.protocol import Limit, Regime

#: what derive() takes, and what it gives back for each
REGIMES: tuple[tuple[type[Regime], type[Limit]], ...] = (
    (Width, WidthLimit),
    (FiniteWidth, FiniteWidthLimit),
    (Proportional, CovarianceSDE),
    (Proportional, NumericSDE),
    (Proportional, TangentSDE),
    (Kernels, KernelLimit),
    (MaximalUpdate, MaximalLimit),
    (NeuralTangent, TangentLimit),
)
