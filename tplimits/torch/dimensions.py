"""Dimensions of nodes under the names of their widths, and numbers and data that are powers of n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log
from typing import TYPE_CHECKING, Any

import numpy
import sympy
import torch

from tplimits.program.language.operations import width
from tplimits.torch.data import evaluated
from tplimits.torch.entries import number as exact
from tplimits.torch.graph import Node, refuse
from tplimits.torch.inputs import read
from tplimits.torch.sizes import Wide
from tplimits.torch.tensors import Dim

if TYPE_CHECKING:
    from tplimits.torch.analysis import Analysed

#: what the widths of a matrix carry behind their names
SIDES = (":rows", ":columns")


def bare(name: str | None) -> Any:
    """The name of a width without the side of a matrix."""
    return name and name.split(":")[0]


def sided(dims: Sequence[Dim], sides: Sequence[str]) -> tuple[Dim, ...]:
    """Dimensions of a matrix whose two widths are told apart."""
    left = list(sides)
    return tuple(d if d.width is None else replace(d, width=bare(d.width) + left.pop(0)) for d in dims)


def dims_of(found: Analysed, names: Mapping[Any, str], number: int, result: int = 0) -> tuple[Dim, ...]:
    """The dimensions of a result of a node, with the names of widths."""
    out = []
    for d, size in enumerate(found.axes.of(number, result)):
        if isinstance(size, Wide):
            kind = found.axes.at(number, d, result)
            out.append(Dim(kind.outer, names[found.axes.atom(number, d, result)], kind.inner))
        else:
            out.append(Dim(size))
    return tuple(out)


def units(found: Analysed, names: Mapping[Any, str]) -> dict[Any, tuple[Fraction, ...]]:
    """The widths that literals may be powers of, and their sizes in the models: n, then those of rounded sizes."""
    widths, axes = found.graph.widths, found.axes
    atoms = {name: axes.at(atom[0], atom[2], atom[1]) for atom, name in names.items()}
    chosen = {"n": atoms["n"], **{name: a for name, a in atoms.items() if a.growth}}
    return {width(name): tuple(a.entries(widths, i) for i in range(len(widths))) for name, a in chosen.items()}


def power(
    node: Node, name: str, found: tuple[Any, ...], known: Mapping[Any, tuple[Fraction, ...]], widths: tuple[int, ...]
) -> Any:
    """A number, or c·n^p where it differs between widths.

    known: symbols of sizes and what they are at each of the widths; the first one is n, others are rounded sizes.
    """
    first = found[0]
    if all(f == first for f in found):
        return first
    if any(not isinstance(f, (int, float)) for f in found):
        refuse(node, f"its argument {name} is {found} at several widths")
    fit = power_of(found, known)
    if fit is None:
        refuse(
            node,
            f"its argument {name} is {found} at several widths: no power of n",
            "write it as c·n**p with p a multiple of 1/4",
        )
    unit, p, c = fit
    # where n counts several of the model's n, c is a simple number times a power of how many
    ratios = {size / n for size, n in zip(known[unit], widths, strict=True)}
    ratio = ratios.pop() if len(ratios) == 1 else Fraction(1)
    return exact(c * float(ratio) ** float(p), 1e-9) * (unit / sympy.Rational(*ratio.as_integer_ratio())) ** p


def power_of(found: tuple[float, ...], known: Mapping[Any, tuple[Fraction, ...]]) -> tuple[Any, Fraction, float] | None:
    """unit, p and c of the numbers c·unit^p, p a multiple of ¼; None where they are no power of a size."""
    first = found[0]
    if any(f == 0 or (f > 0) != (first > 0) for f in found):
        return None
    for unit, sizes in known.items():
        p = log(found[1] / first) / log(sizes[1] / sizes[0])
        rounded = Fraction(round(4 * p), 4)
        c = first / float(sizes[0]) ** float(rounded)
        if all(abs(c * float(s) ** float(rounded) / f - 1) <= 1e-6 for f, s in zip(found, sizes, strict=True)):
            return unit, rounded, c
    return None


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
