"""Sizes that grow with the width: a dimension is a number, a rational multiple of n, or one rounded to whole blocks."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from tplimits.torch.graph import Graph, Node, refuse


class Wide(NamedTuple):
    """A dimension of factor · n entries.

    growth: the sizes at all widths in multiples of the first one where sizes are rounded, such as 8n/3 to a multiple of
    64; factor is then that of the first width.  Rounded sizes are a width of their own.
    """

    factor: Fraction
    growth: tuple[Fraction, ...] = ()


#: a dimension at all widths: a number of entries, or Wide
Size = int | Wide


#: how far ratios of rounded sizes to n may be apart
ROUNDED = Fraction(3, 2)


def gcd(*many: Fraction) -> Fraction:
    """The largest number of which all are whole multiples.

    >>> gcd(Fraction(3), Fraction(1, 2))
    Fraction(1, 2)
    """
    found = many[0]
    for other in many[1:]:
        found = Fraction(
            math.gcd(found.numerator * other.denominator, other.numerator * found.denominator),
            found.denominator * other.denominator,
        )
    return found


def size(node: Node, widths: tuple[int, ...], found: tuple[int, ...]) -> Size:
    """What a dimension is, from its size at each width."""
    if len(set(found)) == 1:
        return found[0]
    factor = Fraction(found[0], widths[0])
    if all(Fraction(f, n) == factor for f, n in zip(found, widths, strict=True)):
        return Wide(factor)
    if found[0] * widths[1] ** 2 == found[1] * widths[0] ** 2:
        refuse(
            node, f"a dimension of {found} entries grows like n²", "the entries of a matrix are no vector of a program"
        )
    refuse_mixed(node, widths, found)
    ratios = [Fraction(f, n) for f, n in zip(found, widths, strict=True)]
    if max(ratios) <= ROUNDED * min(ratios):
        return Wide(factor, tuple(Fraction(f, found[0]) for f in found))
    refuse(
        node,
        f"a dimension has {found} entries at the widths {widths}: neither a number nor a multiple of n",
        "choose widths= at which no size is rounded, or make the size k·n",
    )


def refuse_mixed(node: Node, widths: tuple[int, ...], found: tuple[int, ...]) -> None:
    """ProgramError for k·n + c entries: a width and a few numbers in one dimension."""
    slope = Fraction(found[1] - found[0], widths[1] - widths[0])
    rest = found[0] - slope * widths[0]
    if rest.denominator == 1 and all(f == slope * n + rest for f, n in zip(found, widths, strict=True)):
        many = "n" if slope == 1 else f"{slope}·n"
        if node.op in ("constant_pad_nd", "pad"):
            refuse(node, f"it pads a width with {rest} entries, for windows along it", "neurons have no order")
        refuse(
            node,
            f"a dimension has {many} {'+' if rest > 0 else '-'} {abs(rest)} entries, neurons and a fixed number of "
            "others side by side",
            "give each part a layer of its own: the layer of a join is the sum of the layers of its parts",
        )


def sizes(graph: Graph) -> dict[int, tuple[Size, ...] | tuple[tuple[Size, ...], ...]]:
    """The dimensions of every node; a tuple for each result where there are several."""
    found: dict[int, tuple[Size, ...] | tuple[tuple[Size, ...], ...]] = {}
    for node in graph:
        if node.many:
            parts = zip(*node.shapes, strict=True)
            found[node.number] = tuple(_dims(node, graph.widths, part) for part in parts)
        else:
            found[node.number] = _dims(node, graph.widths, node.shapes)
    return found


def _dims(node: Node, widths: tuple[int, ...], shapes: tuple[tuple[int, ...], ...]) -> tuple[Size, ...]:
    if len({len(s) for s in shapes}) != 1:
        refuse(node, f"it has {shapes} at the widths {widths}: the number of dimensions depends on n")
    return tuple(size(node, widths, many) for many in zip(*shapes, strict=True))
