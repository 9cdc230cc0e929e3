"""What kernels are written in: entries of kets, of tables and of data, for a pair of inputs.

Every quantity is written for an input 1; input 2 has its own running indices (a‴), so that a table K[a; b‴] reads
K(ξ, ξ′)[a, b].  A finite axis may have different lengths on the two sides.
"""

from __future__ import annotations

import functools

import sympy
from sympy import Expr, Integer, Symbol

from tplimits.program.nodes.entries import ArrayEntry, AxisSum, Kron, Lookup, axis_symbol, size_symbol

#: marks the running indices, axes and sizes of input 2
SECOND = "‴"


class _Leaf(Expr):
    is_commutative = True
    is_real = True
    is_number = False


class Of(_Leaf):
    """The ket of node number `node` for input `side`, at the given indices: (node, side, *indices)."""

    @property
    def node(self) -> int:
        return int(self.args[0])

    @property
    def side(self) -> int:
        return int(self.args[1])

    @property
    def indices(self) -> tuple[Expr, ...]:
        return self.args[2:]

    @property
    def free_symbols(self) -> set[Symbol]:
        return set().union(*(i.free_symbols for i in self.indices)) if self.indices else set()


class Slot(Of):
    """The place of |y⟩ in a dot part while its coefficient E[∂|x⟩/∂ŷ] is taken."""


class Data(_Leaf):
    """An entry of the data: (instruction, side, *indices)."""

    @property
    def source(self) -> int:
        return int(self.args[0])

    @property
    def side(self) -> int:
        return int(self.args[1])

    @property
    def indices(self) -> tuple[Expr, ...]:
        return self.args[2:]


class Datum(Expr):
    """An index that is data of one of the inputs: (instruction, side, *indices)."""

    is_commutative = True
    is_integer = True
    is_nonnegative = True
    is_number = False

    @property
    def source(self) -> int:
        return int(self.args[0])

    @property
    def side(self) -> int:
        return int(self.args[1])

    @property
    def indices(self) -> tuple[Expr, ...]:
        return self.args[2:]


class TableEntry(_Leaf):
    """An entry of a table between inputs `left` and `right`: (table, left, right, *indices)."""

    @property
    def table(self) -> int:
        return int(self.args[0])

    @property
    def sides(self) -> tuple[int, int]:
        return int(self.args[1]), int(self.args[2])

    @property
    def indices(self) -> tuple[Expr, ...]:
        return self.args[3:]


class Moment(_Leaf):
    """E F(z; p), z ~ N(0, C): (F, variables, upper triangle of C in row order, parameters, their values)."""

    def __new__(
        cls, integrand: Expr, variables: tuple, covariances: tuple, parameters: tuple = (), values: tuple = ()
    ) -> Expr:
        return super().__new__(cls, integrand, *(sympy.Tuple(*t) for t in (variables, covariances, parameters, values)))

    @property
    def integrand(self) -> Expr:
        return self.args[0]

    @property
    def variables(self) -> tuple[Symbol, ...]:
        return tuple(self.args[1])

    @property
    def covariances(self) -> tuple[Expr, ...]:
        return tuple(self.args[2])

    @property
    def parameters(self) -> tuple[Symbol, ...]:
        return tuple(self.args[3])

    @property
    def values(self) -> tuple[Expr, ...]:
        return tuple(self.args[4])

    @property
    def free_symbols(self) -> set[Symbol]:
        return set().union(*(e.free_symbols for e in (*self.covariances, *self.values)))


class DrawMean(_Leaf):
    """The mean of a product of functions of logits, which is taken over draws: (product,)."""

    @property
    def product(self) -> Expr:
        return self.args[0]


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


@functools.lru_cache(maxsize=1 << 14)
def on_second(expr: Expr) -> Expr:
    """A quantity of input 1 written for input 2."""
    if isinstance(expr, Of):
        return type(expr)(expr.args[0], Integer(2), *map(on_second, expr.indices))
    if isinstance(expr, (Data, Datum)):
        return type(expr)(expr.args[0], Integer(2), *map(on_second, expr.indices))
    if isinstance(expr, TableEntry):
        return TableEntry(expr.args[0], Integer(2), Integer(2), *map(on_second, expr.indices))
    if isinstance(expr, AxisSum):
        return AxisSum(on_second(expr.summand), second(expr.bound), Symbol(expr.axis + SECOND))
    if isinstance(expr, Symbol):
        if expr.name.startswith("|") and expr.name.endswith("|"):
            return size_symbol(expr.name[1:-1] + SECOND)
        return second(expr) if is_index(expr) else expr
    if isinstance(expr, Moment):
        return Moment(
            expr.integrand,
            expr.variables,
            tuple(map(on_second, expr.covariances)),
            expr.parameters,
            tuple(map(on_second, expr.values)),
        )
    if not expr.args:
        return expr
    return expr.func(*map(on_second, expr.args))


@functools.lru_cache(maxsize=1 << 14)
def on_first(expr: Expr) -> Expr:
    """A quantity of input 2 written for input 1."""
    if isinstance(expr, (Of, Data, Datum)):
        return type(expr)(expr.args[0], Integer(1), *map(on_first, expr.indices))
    if isinstance(expr, TableEntry):
        return TableEntry(expr.args[0], Integer(1), Integer(1), *map(on_first, expr.indices))
    if isinstance(expr, Symbol):
        name = expr.name.replace(SECOND, "")
        if expr.name.startswith("|") and expr.name.endswith("|"):
            return size_symbol(name[1:-1])
        return axis_symbol(name) if is_index(expr) else Symbol(name) if SECOND in expr.name else expr
    if not expr.args:
        return expr
    return expr.func(*map(on_first, expr.args))


def is_index(symbol: Expr) -> bool:
    """Whether a symbol is a running index of a finite axis."""
    return bool(isinstance(symbol, Symbol) and symbol.is_integer and symbol.is_nonnegative and not symbol.is_positive)


def free_indices(expr: Expr) -> set[Symbol]:
    """The running indices that no sum of the expression binds."""
    if isinstance(expr, AxisSum):
        return free_indices(expr.summand) - {expr.bound}
    if is_index(expr):
        return {expr}
    if isinstance(expr, Moment):
        return set().union(*map(free_indices, (*expr.covariances, *expr.values)), set())
    if isinstance(expr, (Of, Data, Datum, TableEntry, Kron, ArrayEntry, Lookup)):
        return set().union(*map(free_indices, expr.indices), set())
    return set().union(*map(free_indices, expr.args), set()) if expr.args else set()
