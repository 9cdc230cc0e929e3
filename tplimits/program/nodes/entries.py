"""Index notation inside SymPy: the leaves and binders an instruction's body is made of.

A body is an ordinary SymPy expression whose leaves are entries of earlier instructions.  `h_α[token]`
is `Entry(3, α, token)`: instruction 3, at the instruction's own neuron, at the free index `token`.
Renaming or selecting along a finite axis is therefore nothing but substitution of an index.

>>> h = Entry(sympy.Integer(3), OWN, axis_symbol("token"))
>>> h.source, h.neuron, h.indices
(3, α, (token,))
>>> sum_over = AxisSum(h, axis_symbol("token"), sympy.Symbol("token"))
>>> free_axes(sum_over)
()
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import sympy
from sympy import Expr, Symbol

from tplimits.program.parts import found, put_in, remembered

#: the neuron index of the instruction itself, and the mark of "no neuron index" on a scalar
OWN = Symbol("α", integer=True)
NO_NEURON = Symbol("·", integer=True)
#: the width n, as a symbol (`tp.n`)
N = Symbol("n", positive=True)

#: what follows the name of an axis in that of an index of a sum over it
BOUND = "′"
_AXIS = {"integer": True, "nonnegative": True}


@remembered(1 << 14)
def axis_symbol(name: str) -> Symbol:
    """The running index of a finite axis."""
    return Symbol(name, **_AXIS)


def bound_axis_symbol(axis: str, number: int) -> Symbol:
    """The running index of a sum over a finite axis; no axis of a program can have this name."""
    return axis_symbol(f"{axis}{BOUND}{number}")


def with_axes_named(text: str) -> str:
    """A text that shows entries, the indices of sums in it by the axes they run over.

    >>> with_axes_named("h[pos′1441534293, token] has a pole")
    'h[pos, token] has a pole'
    """
    return re.sub(rf"{BOUND}\d+", "", text)


def with_names(expr: Expr, name: Callable[[Entry], str], indexed: bool = True) -> str:
    """An expression as text, with a name for each instruction that it reads, at its indices; sums as Σ_axis.

    >>> i = bound_axis_symbol("pos", 1)
    >>> with_names(sympy.sqrt(AxisSum(Entry(sympy.Integer(3), NO_NEURON, i), i, Symbol("pos"))), lambda entry: "s")
    'sqrt(Σ_pos s[pos])'
    """

    def read(part: Expr) -> Expr:
        if isinstance(part, Entry):
            indices = ", ".join(map(str, part.indices))
            return Symbol(f"{name(part)}[{indices}]" if indices and indexed else name(part), real=True)
        if isinstance(part, AxisSum):
            inner = sympy.sstr(read(part.summand))
            return Symbol(f"Σ_{part.axis} {f'({inner})' if part.summand.is_Add else inner}", real=True)
        if isinstance(part, sympy.Pow) and isinstance(part.base, AxisSum) and part.exp.is_Integer:
            return Symbol(f"({read(part.base)})", real=True) ** part.exp
        if isinstance(part, Leaf) or not part.args or not part.has(Entry, AxisSum):
            return part
        return part.func(*map(read, part.args))

    return with_axes_named(sympy.sstr(read(expr)))


def neuron_symbol(name: str) -> Symbol:
    """A named neuron index."""
    return Symbol(f"neuron {name}", integer=True)


def slot_symbol(position: int) -> Symbol:
    """The canonical name of the averaged neuron index number `position` (1, 2, ...) of a body."""
    return Symbol(f"β{position}", integer=True)


def normal_symbol(depth: int) -> Symbol:
    """The variable of a GaussMean that holds `depth` − 1 nested ones; no constant can have this name."""
    return Symbol(f"g′{depth}", real=True)


def width_symbol(name: str) -> Symbol:
    """A width as a symbol; widths are positive."""
    return N if name == "n" else Symbol(name, positive=True)


class _Variable(Symbol):
    """A symbol that is equal to none of a program: a constant called u is not the u that a mean is over."""

    __slots__ = ()


# printed, and sorted among others, as symbols are
_Variable.__name__ = "Symbol"


def variable(name: str) -> Symbol:
    """A real variable of a derivation, of this name in print."""
    return _Variable(name, real=True)


def constant_symbol(name: str) -> Symbol:
    """A symbolic constant of a program."""
    return Symbol(name, real=True)


def size_symbol(axis: str) -> Symbol:
    """The size of a finite axis, before it is known."""
    return Symbol(f"|{axis}|", integer=True, positive=True)


def whole(place: int) -> Any:
    """The argument at a place as a number: which instruction, array, table or input a leaf reads.

    Leaves are SymPy expressions with all they hold in `args`, so that substitution reaches it; these name the places.
    """
    return property(lambda leaf: int(leaf.args[place]))


def argument(place: int) -> Any:
    """The argument at a place."""
    return property(lambda leaf: leaf.args[place])


def arguments(start: int) -> Any:
    """The arguments from a place on."""
    return property(lambda leaf: leaf.args[start:])


class Leaf(Expr):
    """A number that an expression is made of, read at some indices."""

    is_commutative = True
    is_real = True
    is_number = False  # SymPy takes what has only numbers inside, like entry 0 of array 1, for a number


class IndexLeaf(Expr):
    """An index that is read at other indices."""

    is_commutative = True
    is_integer = True
    is_number = False


class Entry(Leaf):
    """One entry of an earlier instruction: (source, neuron, *indices)."""

    source: int = whole(0)
    neuron: Symbol = argument(1)
    indices: tuple[Expr, ...] = arguments(2)


class ArrayEntry(Leaf):
    """One entry of a constant array: (array number, *indices)."""

    array: int = whole(0)
    indices: tuple[Expr, ...] = arguments(1)


class Lookup(IndexLeaf):
    """An index read from an integer table: (table number, *indices); −1 stands for "no entry"."""

    table: int = whole(0)
    indices: tuple[Expr, ...] = arguments(1)


class DataIndex(IndexLeaf):
    """An index that is data, one entry of a discrete input: (instruction of the input, *indices)."""

    is_nonnegative = True
    source: int = whole(0)
    indices: tuple[Expr, ...] = arguments(1)


class Kron(Leaf):
    """1 where two indices agree, 0 elsewhere, and where an index read from a table says that there is no entry."""

    indices: tuple[Expr, ...] = arguments(0)

    def __new__(cls, i: Expr, j: Expr) -> Expr:
        if i == j and not i.has(Lookup):
            return sympy.S.One
        # different numbers, for equal ones ended above
        if i.is_Integer and j.is_Integer:
            return sympy.S.Zero
        # symmetric: one order of its arguments, so that equal δ are equal expressions
        if i.is_Integer or (not j.is_Integer and sympy.default_sort_key(i) > sympy.default_sort_key(j)):
            i, j = j, i
        return super().__new__(cls, i, j)


class AxisSum(Leaf):
    """A sum over a finite axis: (summand, bound index, axis name as a Symbol); a sum of zeros is 0, whatever its size.

    >>> AxisSum(sympy.S.Zero, axis_symbol("i"), Symbol("head"))
    0
    """

    summand: Expr = argument(0)
    bound: Symbol = argument(1)

    def __new__(cls, summand: Expr, bound: Symbol, axis: Symbol) -> Expr:
        return sympy.S.Zero if summand == 0 else super().__new__(cls, summand, bound, axis)

    @property
    def axis(self) -> str:
        return self.args[2].name

    @property
    def free_symbols(self) -> set[Symbol]:
        return self.summand.free_symbols - {self.bound}

    def _eval_derivative(self, symbol: Symbol) -> Expr:
        return AxisSum(self.summand.diff(symbol), self.bound, self.args[2])


class NeuronMean(Leaf):
    """A mean over a named neuron that waits for the other named neurons to be averaged."""


class GaussMean(Leaf):
    """The mean over a standard normal: (integrand, bound variable)."""

    @property
    def free_symbols(self) -> set[Symbol]:
        return self.args[0].free_symbols - {self.args[1]}

    def _eval_derivative(self, symbol: Symbol) -> Expr:
        return GaussMean(self.args[0].diff(symbol), self.args[1])

    def _sympystr(self, printer: Any) -> str:
        return f"E_{self.args[1]}[{printer._print(self.args[0])}]"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        variable = Symbol(self.args[1].name.replace("′1", "").replace("′", "_"), real=True)
        integrand = printer._print(self.args[0].xreplace({self.args[1]: variable}))
        shown = rf"\operatorname{{E}}_{{{variable}}}\left[{integrand}\right]"
        return shown if exp is None else rf"{shown}^{{{exp}}}"


@remembered(1 << 12)
def entries(expr: Expr) -> tuple[Entry, ...]:
    """The entries an expression reads, in a reproducible order; the rule of one body asks several times."""
    every = found(expr, Entry)
    return tuple(sorted(every, key=_place) if len(every) > 1 else every)


@remembered(1 << 14)
def _place(entry: Entry) -> tuple[Any, ...]:
    """What `sympy.default_sort_key` orders entries by, read off directly where all indices are numbers."""
    if all(i.is_Integer for i in entry.indices):
        return len(entry.args), int(entry.source), str(entry.neuron), (), *map(int, entry.indices)
    return len(entry.args), int(entry.source), str(entry.neuron), (sympy.default_sort_key(entry),)


def reads_vectors(expr: Expr) -> bool:
    """Whether some entry that an expression reads is one of a vector."""
    return any(e.neuron != NO_NEURON for e in entries(expr))


def divides_by_vectors(factor: Expr) -> bool:
    """Whether a power is one of a vector that may be zero, with no second moment; |h|^(−1/4) has one."""
    strong = factor.is_Pow and factor.exp.is_number and factor.exp <= -0.5
    return bool(strong and reads_vectors(factor.base) and not factor.base.is_positive)


def sources(expr: Expr) -> set[int]:
    """The instructions that an expression reads: values, and data as indices."""
    return {leaf.source for leaf in found(expr, Entry, DataIndex)}


def relocated(expr: Expr, place: Callable[[int], int]) -> Expr:
    """The expression with the instructions that it reads at other positions.

    >>> x = DataIndex(sympy.Integer(0), axis_symbol("token"))
    >>> relocated(2 * Entry(sympy.Integer(1), OWN, x), lambda position: position + 3)
    2*Entry(4, α, DataIndex(3, token))
    """
    data = {d: DataIndex(sympy.Integer(place(d.source)), *d.indices) for d in found(expr, DataIndex)}
    swap: dict[Expr, Expr] = {
        e: Entry(sympy.Integer(place(e.source)), e.neuron, *(i.xreplace(data) for i in e.indices))
        for e in entries(expr)
    }
    return put_in(expr, {**data, **swap}, {})


def is_index(symbol: Expr) -> bool:
    """Whether a symbol is a running index of a finite axis; sizes are positive, neurons have no sign."""
    return bool(isinstance(symbol, Symbol) and symbol.is_integer and symbol.is_nonnegative and not symbol.is_positive)


@remembered(1 << 14)
def free_indices(expr: Expr) -> frozenset[Symbol]:
    """The running indices that no AxisSum of the expression binds."""
    if isinstance(expr, AxisSum):
        return free_indices(expr.summand) - {expr.bound}
    if is_index(expr):
        return frozenset((expr,))
    # what stands as an index is one, whatever it is assumed to be: compiled loops have running indices of their own
    own = frozenset(i for i in getattr(expr, "indices", ()) if isinstance(i, Symbol))
    return own.union(*(free_indices(a) for a in expr.args if a.args or isinstance(a, Symbol)))


def free_axes(expr: Expr) -> tuple[Symbol, ...]:
    """The same, sorted by name."""
    return tuple(sorted(free_indices(expr), key=lambda s: s.name))
