"""Which entries of a parameter a use gives a gradient to: those that run with it, and those that it pins down.

A use at indices i(φ) of a parameter with axes a_1, a_2, … adds to the entry φ′ the sum of its gradients over all φ with
i(φ) = φ′.  An index that is an axis of the use runs along the axis of the parameter.  Any other, an axis of the output,
a number, an entry of a table, or an axis that runs already, holds its axis in one place: a Kronecker δ.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sympy import Expr, Symbol

from tplimits.program.nodes.entries import axis_symbol

if TYPE_CHECKING:
    from tplimits.program.network.backward import Use


@dataclass(frozen=True)
class Pinned:
    """`running` maps the indices of a use that run to axes of the parameter, `fixed` other axes to their indices.

    `summed` are the axes of the use that neither run nor belong to the output.
    """

    running: dict[Expr, str]
    fixed: tuple[tuple[str, Expr], ...]
    summed: tuple[str, ...]

    def shown(self, outputs: Mapping[str, str]) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, Expr], ...]]:
        """Axes fixed to an axis of the output, in the names of both, and all others with their indices."""
        to_output = {a: outputs[i.name] for a, i in self.fixed if isinstance(i, Symbol) and i.name in outputs}
        named = {i: axis_symbol(a) for i, a in self.running.items()}
        others = tuple((a, i.xreplace(named)) for a, i in self.fixed if a not in to_output)
        return tuple(to_output.items()), others


def pinned(use: Use, axes: tuple[str, ...], outputs: Container[str]) -> Pinned:
    """A use of a parameter with these axes, where the axes `outputs` of the use are those of the output.

    >>> from sympy import Integer
    >>> from tplimits.program.network.backward import Use
    >>> from tplimits.program.nodes.entries import Entry
    >>> i, o = axis_symbol("i"), axis_symbol("o")
    >>> found = pinned(Use(Entry(Integer(0), Integer(0)), ("o", "i"), (i, o, i, Integer(2))), ("a", "b", "c", "d"), "o")
    >>> {str(index): axis for index, axis in found.running.items()}, [(a, str(index)) for a, index in found.fixed]
    ({'i': 'a'}, [('b', 'o'), ('c', 'i'), ('d', '2')])
    """
    free = {axis_symbol(a) for a in use.axes if a not in outputs}
    running: dict[Expr, str] = {}
    fixed: list[tuple[str, Expr]] = []
    for axis, index in zip(axes, use.indices, strict=True):
        if isinstance(index, Symbol) and index in free and index not in running:
            running[index] = axis
        else:
            fixed.append((axis, index))
    summed = tuple(a for a in use.axes if a not in outputs and axis_symbol(a) not in running)
    return Pinned(running, tuple(fixed), summed)
