"""What kernels are written in: entries of kets, of tables and of data, for a pair of inputs.

Every quantity is written for an input 1; input 2 has its own running indices (a‴), so that a table K[a; b‴] reads
K(ξ, ξ′)[a, b].  A finite axis may have different lengths on the two sides.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr, Integer, Symbol

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import (
    AxisSum,
    IndexLeaf,
    Leaf,
    argument,
    arguments,
    axis_symbol,
    is_index,
    size_symbol,
    whole,
)
from tplimits.program.parts import found, rebuilt, remembered

#: marks the running indices, axes and sizes of input 2
SECOND = "‴"

#: the input of a quantity, and that of its other side
ONE_SIDE, OTHER_SIDE = Integer(1), Integer(2)


def listed(place: int) -> Any:
    """The entries of the tuple at a place."""
    return property(lambda leaf: tuple(leaf.args[place]))


class Of(Leaf):
    """The ket of node number `node` for input `side`, at the given indices: (node, side, *indices)."""

    node: int = whole(0)
    side: int = whole(1)
    indices: tuple[Expr, ...] = arguments(2)

    @property
    # node and side are labels, no variables
    def free_symbols(self) -> set[Symbol]:
        return set().union(*(i.free_symbols for i in self.indices)) if self.indices else set()


class Slot(Of):
    """The place of |y⟩ in a dot part while its coefficient E[∂|x⟩/∂ŷ] is taken."""


class Data(Leaf):
    """An entry of the data: (instruction, side, *indices)."""

    source: int = whole(0)
    side: int = whole(1)
    indices: tuple[Expr, ...] = arguments(2)


class Datum(IndexLeaf):
    """An index that is data of one of the inputs: (instruction, side, *indices)."""

    is_nonnegative = True
    source: int = whole(0)
    side: int = whole(1)
    indices: tuple[Expr, ...] = arguments(2)


class TableEntry(Leaf):
    """An entry of a table between inputs `left` and `right`: (table, left, right, *indices)."""

    table: int = whole(0)
    indices: tuple[Expr, ...] = arguments(3)

    @property
    def sides(self) -> tuple[int, int]:
        return int(self.args[1]), int(self.args[2])


class Moment(Leaf):
    """E F(z; p), z ~ N(0, C): (F, variables, upper triangle of C in row order, parameters, their values)."""

    integrand: Expr = argument(0)
    variables: tuple[Symbol, ...] = listed(1)
    covariances: tuple[Expr, ...] = listed(2)
    parameters: tuple[Symbol, ...] = listed(3)
    values: tuple[Expr, ...] = listed(4)

    def __new__(
        cls, integrand: Expr, variables: tuple, covariances: tuple, parameters: tuple = (), values: tuple = ()
    ) -> Expr:
        return super().__new__(cls, integrand, *(sympy.Tuple(*t) for t in (variables, covariances, parameters, values)))

    @property
    def free_symbols(self) -> set[Symbol]:
        return set().union(*(e.free_symbols for e in (*self.covariances, *self.values)))


class DrawMean(Leaf):
    """The mean of a product of functions of logits, which is taken over draws: (product,)."""

    product: Expr = argument(0)


class Unknown(Leaf):
    """The mean of a product of two nodes of which one is known by its mean alone: (node, node)."""


class Given(Data):
    """A logit that a kernel is conditional on: (fluctuation, side, *indices)."""


def second(symbol: Symbol) -> Symbol:
    """The running index of input 2 that goes with one of input 1."""
    return axis_symbol(symbol.name + SECOND)


def plain_axis(name: str) -> str:
    """The name of an axis without the marks of its side and of its copies.

    >>> plain_axis("token‴′2")
    'token'
    """
    return name.partition(SECOND)[0].partition("′")[0]


def side_of(name: str) -> int:
    """Which input an axis belongs to."""
    return 2 if SECOND in name else 1


@remembered(1 << 14)
def on_side(expr: Expr, side: int) -> Expr:
    """A quantity written for the other input, with `side` as the one that all of it belongs to."""
    if isinstance(expr, (Of, Data, Datum)):
        return type(expr)(expr.args[0], Integer(side), *(on_side(i, side) for i in expr.indices))
    if isinstance(expr, TableEntry):
        return TableEntry(expr.args[0], Integer(side), Integer(side), *(on_side(i, side) for i in expr.indices))
    if isinstance(expr, AxisSum):
        return AxisSum(on_side(expr.summand, side), on_side(expr.bound, side), Symbol(_on(expr.axis, side)))
    if isinstance(expr, Symbol):
        if expr.name.startswith("|") and expr.name.endswith("|"):
            return size_symbol(_on(expr.name[1:-1], side))
        return axis_symbol(_on(expr.name, side)) if is_index(expr) else expr
    return rebuilt(expr, [on_side(a, side) for a in expr.args]) if expr.args else expr


def _on(name: str, side: int) -> str:
    return name + SECOND if side == 2 else name.replace(SECOND, "")


def on_second(expr: Expr) -> Expr:
    """A quantity of input 1 written for input 2."""
    return on_side(expr, 2)


def on_first(expr: Expr) -> Expr:
    """A quantity of input 2 written for input 1."""
    return on_side(expr, 1)


def sided(expr: Expr, left: int, right: int) -> Expr:
    """A quantity of (ξ, ξ′) for the inputs (left, right) instead: sides of its leaves, axes of its sums."""
    if (left, right) == (1, 2):
        return expr
    to = {1: Integer(left), 2: Integer(right)}
    data = {d: Datum(d.args[0], to[d.side], *d.indices) for d in found(expr, Datum)}
    swap: dict[Expr, Expr] = dict(data)
    for leaf in found(expr, TableEntry, Data):
        sides = leaf.sides if isinstance(leaf, TableEntry) else (leaf.side,)
        swap[leaf] = type(leaf)(leaf.args[0], *(to[s] for s in sides), *(i.xreplace(data) for i in leaf.indices))
    return expr.xreplace(swap)


class NoTangentKernel(NoLimitError):
    """The NNGP exists and the tangent kernel does not."""
