"""The rules of all operations, and the words they are written in."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tplimits.torch.axes import Axes
from tplimits.torch.graph import Node, refuse
from tplimits.torch.sizes import Wide

#: an operation speaks to the axes of its node; what it leaves unsaid are dimensions of their own
Rule = Callable[[Axes, Node], None]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register what operations say of axes."""

    def registered(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return registered


def kept(axes: Axes, node: Node, operand: int, gone: set[int]) -> None:
    """The dimensions of an operand but some are those of the result, in order."""
    left = [d for d in range(len(axes.of(operand))) if d not in gone]
    for out, d in enumerate(left):
        axes.same(node, (node.number, 0, out), (operand, 0, d))


def matched(axes: Axes, node: Node, operand: int, but: set[int]) -> None:
    """The dimensions of an operand but some are those of the result at the same places."""
    for d in range(len(axes.of(operand))):
        if d not in but:
            axes.same(node, (node.number, 0, d), (operand, 0, d))


def part(axes: Axes, node: Node, whole: Any, part: Any, starts: list[int], sizes: list[int]) -> None:
    """A part of a width between two multiples of n."""
    size = axes.of(whole[0], whole[1])[whole[2]]
    n = axes.graph.widths
    unit = [n[0] * g for g in size.growth] if size.growth else n
    ends = [s + z for s, z in zip(starts, sizes, strict=True)]
    borders = []
    for many in (starts, ends):
        factor = Fraction(many[0]) / unit[0]
        if any(Fraction(m) / w != factor for m, w in zip(many, unit, strict=True)):
            refuse(
                node,
                f"it takes the neurons {starts[0]} to {ends[0]} of a width, not a fraction of it",
                "neurons have no order",
            )
        borders.append(factor)
    axes.part(whole, part, borders)


def refuse_wide(axes: Axes, node: Node, operand: int, dim: int, found: str) -> None:
    """ProgramError where a dimension is a width."""
    if isinstance(axes.of(operand)[dim], Wide):
        n = axes.graph[operand].shapes[0][dim]
        refuse(
            node, f"{found}, along a width of {n} entries", "neurons have no order, and no limit when taken by index"
        )
