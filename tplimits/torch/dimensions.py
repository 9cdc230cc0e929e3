"""Dimensions of nodes under the names of their widths, and numbers that are powers of n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import log
from typing import TYPE_CHECKING, Any

from tplimits.program.language.operations import width
from tplimits.torch.entries import number as exact
from tplimits.torch.graph import Node, refuse
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


def power(node: Node, name: str, found: tuple[Any, ...], known: Mapping[Any, tuple[Fraction, ...]]) -> Any:
    """A number, or c·n^p where it differs between widths.

    known: symbols of sizes and what they are at each width; the first one is n, others are rounded sizes.
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
    return exact(c, 1e-9) * unit**p


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
