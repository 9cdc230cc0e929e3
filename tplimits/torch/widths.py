"""Data that know the width: numbers without a width axis that differ between models of several widths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy
import torch

from tplimits.torch.data import evaluated
from tplimits.torch.dimensions import power_of
from tplimits.torch.graph import Node, refuse
from tplimits.torch.inputs import read

if TYPE_CHECKING:
    from tplimits.torch.analysis import Analysed

#: relative rounding of numbers in single precision
SINGLE = 1e-6


@dataclass(frozen=True)
class Scaled:
    """What a program holds of data that know the width: c·unit^power, `unit` a symbol of a size.

    first: the size at the first width.
    """

    unit: Any
    power: Fraction
    first: float

    @property
    def at_first(self) -> float:
        """unit^power at the first width."""
        return float(self.first ** float(self.power))


def scaled_data(
    found: Analysed, example: tuple[Any, ...], units: Mapping[Any, tuple[Fraction, ...]]
) -> dict[int, Scaled]:
    """The data that a program reads and that differ between widths, as powers of n; ProgramError for other ones."""
    many = [evaluated(found, example, at) for at in range(len(found.graph.widths))]
    every: dict[int, Scaled] = {}
    for number in sorted(read(found) & found.data & many[0].keys()):
        values = [numpy.asarray(torch.as_tensor(known[number]).detach().double()) for known in many]
        if any(not numpy.allclose(v, values[0], rtol=SINGLE, atol=0, equal_nan=True) for v in values[1:]):
            every[number] = _scaled(found.graph[number], values, units)
    return every


def _scaled(node: Node, values: list[Any], units: Mapping[Any, tuple[Fraction, ...]]) -> Scaled:
    found = scale_of(values, units)
    if found is not None:
        return found
    shown = tuple(float(v.reshape(-1)[0]) for v in values)
    refuse(
        node,
        f"its numbers depend on the width ({shown[0]:.4g}, {shown[1]:.4g}, {shown[2]:.4g}) in a way that is no power "
        "of n",
        "write them as c·n**p with p a multiple of 1/4, or make them the same at all widths",
    )


def scale_of(values: list[Any], units: Mapping[Any, tuple[Fraction, ...]]) -> Scaled | None:
    """The power of n that an array is multiplied by from width to width; None where it is none."""
    shown = [numpy.where(numpy.isfinite(v), v, 0.0) for v in values]  # masks hold −∞, at all widths alike
    if any((numpy.isfinite(v) != numpy.isfinite(values[0])).any() for v in values[1:]):
        return None
    at = int(numpy.argmax(abs(shown[0])))
    fit = power_of(tuple(float(v.reshape(-1)[at]) for v in shown), units)
    if fit is None:
        return None
    unit, p, _ = fit
    sizes = units[unit]
    scale = float(abs(shown[0]).max()) / float(sizes[0]) ** float(p)
    unscaled = [v / float(s) ** float(p) for v, s in zip(shown, sizes, strict=True)]
    same = all(numpy.allclose(v, unscaled[0], rtol=SINGLE, atol=SINGLE * scale) for v in unscaled[1:])
    return Scaled(unit, p, float(sizes[0])) if same else None
