"""All regimes, in reading order: the one list that a new one is added to."""

from __future__ import annotations

from tplimits.results.kernels import KernelLimit, Kernels
from tplimits.results.proportional import CovarianceSDE, Proportional
from tplimits.results.protocol import Limit, Regime
from tplimits.results.training.maximal import MaximalLimit, MaximalUpdate
from tplimits.results.training.tangent import NeuralTangent, TangentLimit
from tplimits.results.width import Width, WidthLimit

#: what derive() takes, and what it gives back for each
REGIMES: tuple[tuple[type[Regime], type[Limit]], ...] = (
    (Width, WidthLimit),
    (Proportional, CovarianceSDE),
    (Kernels, KernelLimit),
    (MaximalUpdate, MaximalLimit),
    (NeuralTangent, TangentLimit),
)
