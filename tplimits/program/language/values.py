"""What a traced function computes with: values that record operations instead of doing them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy
import sympy
from sympy import Expr, Integer, Symbol

from tplimits.program.language.axes import (
    IndexValue,
    axis_names,
    index_table,
    looked_up,
    need_axis,
    renamed_axes,
    selected,
)
from tplimits.program.language.names import is_notation
from tplimits.program.language.refusals import Refusals, replacement
from tplimits.program.language.tracing import Trace, fail, stated, user_line
from tplimits.program.nodes.entries import (
    NO_NEURON,
    OWN,
    AxisSum,
    Entry,
    Lookup,
    axis_symbol,
    bound_axis_symbol,
    neuron_symbol,
)
from tplimits.program.nodes.normalise import refuse_unreal
from tplimits.program.nodes.stated import IndexTable, Line


@dataclass(frozen=True)
class Neuron:
    """A named neuron index, made by `tp.neuron("β")`."""

    name: str

    @property
    def symbol(self) -> Symbol:
        """The index as it stands in expressions."""
        return neuron_symbol(self.name)


@dataclass(frozen=True)
class Origin:
    """How a value came about, for values that are instructions of their own.

    `kind` is one of "matrix", "vector", "scalar", "matmul", "outer", "avg", or "map" for a value
    that may be inlined into its users; `data` holds what the instruction needs.
    """

    kind: str
    data: tuple = ()


MAP = Origin("map")


class Value(Refusals):
    """A scalar or vector of a program under construction.

    `expr` gives it in index notation over other values; `width` is the width its own neuron index
    runs over (None: it has none), `neurons` the named neuron indices still free, `axes` its finite
    axes, `waiting` tells that it contains an average which still has a free neuron index, `role` that it is the
    "state" of a block or an "input" of a network, `made_of` of which values it was made, also of those that cancel.
    """

    __slots__ = ("axes", "expr", "line", "made_of", "neurons", "origin", "role", "trace", "uid", "waiting", "width")
    _op_priority = 1000.0  # SymPy hands mixed operations to us instead of converting us

    def __init__(
        self,
        trace: Trace,
        expr: Expr,
        width: str | None,
        axes: Iterable[str],
        neurons: frozenset[Symbol] = frozenset(),
        waiting: bool = False,
        origin: Origin = MAP,
        line: Line | None = None,
        role: str = "",
        made_of: tuple[int, ...] = (),
    ) -> None:
        trace.here()
        # initial data keeps the order of its annotation, in which arrays for it are given
        initial = origin.kind in ("matrix", "vector", "scalar")
        self.axes: tuple[str, ...] = tuple(axes) if initial else trace.ordered(axes)
        self.trace, self.expr, self.width = trace, expr, width
        self.neurons, self.waiting, self.origin = neurons, waiting, origin
        self.line = line if line is not None else user_line()
        self.role, self.made_of = role, made_of
        self.uid = len(trace.values)
        trace.values.append(self)

    def entry(self) -> Expr:
        """This value inside another one's expression.

        Values with named neurons are written out, so that averaging can bind the names.
        """
        if self.neurons:
            return self.expr
        own = OWN if self.width else NO_NEURON
        return Entry(Integer(self.uid), own, *self.trace.indices(self.axes))

    def describe(self) -> str:
        """What this value is, for messages."""
        kind = f"a vector over `{self.width}`" if self.width else "a scalar"
        if self.neurons:
            names = ", ".join(sorted(self.trace.neuron_name.get(s, s.name) for s in self.neurons))
            kind = f"a value with the free neuron index {names}"
        return kind + (f" with axes ({', '.join(self.axes)})" if self.axes else "")

    def derived(self, expr: Expr, **changes: Any) -> Value:
        """A new map value that differs from this one as told."""
        fields = {"width": self.width, "axes": self.axes, "neurons": self.neurons, "waiting": self.waiting}
        return Value(self.trace, expr, made_of=(self.uid,), **{**fields, **changes})

    def here(self) -> Value:
        """This value, if it belongs to the tracing in progress."""
        self.trace.here()
        return self

    def __getitem__(self, index: Any) -> Value:
        self.here()
        if not isinstance(index, Neuron):
            shown = "…" if isinstance(index, Value) else repr(index)
            fail(
                f"`[{shown}]` on {self.describe()}",
                'index neurons by β = tp.neuron("β") and finite axes by .sel(token=0)',
            )
        if self.width is None:
            fail(f"`[{index.name}]` on {self.describe()}", "only a vector has a neuron index")
        symbol, trace = index.symbol, self.trace
        if symbol in self.neurons:
            fail(f"`[{index.name}]` where {index.name} is already in use", "use a second tp.neuron")
        if trace.neuron_width.setdefault(symbol, self.width) != self.width:
            fail(
                f"{index.name} on a vector over `{self.width}`, but it runs over `{trace.neuron_width[symbol]}`",
                "use another tp.neuron for the other width",
            )
        trace.neuron_name[symbol] = index.name
        # by name from here on: the neuron is no longer that of whoever reads the value
        expr = self.entry().xreplace({OWN: symbol})
        return self.derived(expr, width=None, neurons=self.neurons | {symbol})

    @stated(".rename")
    def rename(self, /, **renaming: str) -> Value:
        """The same value with finite axes renamed: `.rename(token="key")`."""
        axes, swap = renamed_axes(self.here().trace, self.axes, renaming, self.describe())
        return self.derived(self.entry().xreplace(swap), axes=axes)

    @stated(".sel")
    def sel(self, /, **selection: int | IndexValue) -> Value:
        """One index of a finite axis, `.sel(token=0)`, or those that data give: `.sel(vocab=x)`."""
        data = {a: i for a, i in selection.items() if isinstance(i, IndexValue)}
        numbers = {a: i for a, i in selection.items() if a not in data}
        chosen = selected(self.here().trace, self.axes, numbers, self.describe())
        # an index that is read somewhere is neither running nor a number
        plain = isinstance(self.expr, Entry) and all(isinstance(i, (Symbol, Integer)) for i in self.expr.indices)
        if data and self.neurons and not plain:
            fail(f"sel() by data on {self.describe()}", "look up along the finite axis first, then index by the neuron")
        chosen |= looked_up(self.trace, self.axes, data, self.describe())
        left = (a for a in self.axes if a not in selection)
        axes = (*left, *(a for x in data.values() for a in x.axes))
        return self.derived(self.entry().xreplace(chosen), axes=axes)

    @stated(".take")
    def take(self, /, *, axes: str | tuple[str, ...], **choice: Any) -> Value:
        """Entries picked by an integer array along one axis; −1 gives 0.

        `.take(pos=array, axes=("tap", "pos"))` replaces the axis `pos` by the axes of the array.
        """
        axes = axis_names(axes, "take()")
        if len(choice) != 1:
            fail(f"take() along {len(choice)} axes", "take along one axis at a time: .take(pos=array, axes=…)")
        ((axis, indices),) = choice.items()
        need_axis(axis, self.here().axes, "take", self.describe())
        if self.neurons and not isinstance(self.expr, Entry):
            fail(f"take() on {self.describe()}", "take along the finite axis first, then index by the neuron")
        array = index_table(indices, axes)
        for name, size in zip(axes, array.shape, strict=True):
            if name in self.axes and name != axis:
                fail(f"take() onto the existing axis `{name}`", "choose a name the value does not have yet")
            self.trace.set_size(self.trace.declare(name), size)
        known = self.trace.size(axis)
        for index in (array.min(), array.max()):
            if index < -1 or (known is not None and index >= known):
                last = f"{known - 1}" if known is not None else "the last entry"
                fail(f"take() with the index {index} on `{axis}`", f"indices go from 0 to {last}, and -1 gives 0")
        table = Integer(self.trace.add_table(IndexTable(array.astype(numpy.int64), axes)))
        expr = self.entry().xreplace({axis_symbol(axis): Lookup(table, *self.trace.indices(axes))})
        return self.derived(expr, axes=(*(a for a in self.axes if a != axis), *axes))

    @stated(".named")
    def named(self, name: str) -> Value:
        """The same value under a name of your choice, used in every print-out."""
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            fail(f".named({name!r})", "give a non-empty string of printable characters")
        if re.fullmatch(r"return(\[\d+\])?", name) or is_notation(name):
            fail(
                f".named({name!r})",
                'choose a name without ⟨ | ⟩ and without blanks around it; "return" stands for what the program '
                'returns, "x[token=0]" for an entry of x',
            )
        for uid, used in self.trace.forced.items():
            if used == name and uid != self.uid:
                fail(f"two values named {name!r}", "names given by .named must differ")
        self.here().trace.forced[self.uid] = name
        return self

    def __add__(self, other: Any) -> Value:
        if isinstance(other, Refusals) and other.takes_scalars:
            return NotImplemented
        return apply(lambda a, b: a + b, (self, other), linear=True)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Value:
        return apply(lambda a, b: a - b, (self, other), linear=True)

    def __rsub__(self, other: Any) -> Value:
        return apply(lambda a, b: b - a, (self, other), linear=True)

    def __neg__(self) -> Value:
        return apply(lambda a: -a, (self,), linear=True)

    def __pos__(self) -> Value:
        return self

    def __mul__(self, other: Any) -> Value:
        # a product of two means that wait is a mean over two neurons each: no longer linear in either
        both = isinstance(other, Value) and self.waiting and other.waiting
        return apply(lambda a, b: a * b, (self, other), linear=not both)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Value:
        # y/y is 1 at once, and where y is 0 no number: as a product of two values its domain is looked for
        if isinstance(other, Value) and not (self.entry() / other.entry()).has(other.entry()):
            return self * (1 / other)
        return apply(lambda a, b: a / b, (self, other), linear=not (isinstance(other, Value) and other.waiting))

    def __rtruediv__(self, other: Any) -> Value:
        return apply(lambda a, b: b / a, (self, other))

    def __pow__(self, exponent: Any) -> Value:
        return apply(lambda a, b: a**b, (self, exponent))

    def __rpow__(self, base: Any) -> Value:
        return apply(lambda a, b: b**a, (self, base))

    def __abs__(self) -> Value:
        return apply(sympy.Abs, (self,))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Value:
        """Arithmetic with NumPy numbers on the left comes here; every other ufunc is refused."""
        operation = _ARITHMETIC.get(ufunc.__name__)
        if method == "__call__" and operation is not None and len(inputs) == 2 and not options:
            waits = all(isinstance(i, Value) and i.waiting for i in inputs)
            return apply(operation[0], inputs, linear=operation[1] and not waits)
        if ufunc.__name__ == "matmul":
            fail("`@` between an array and a value", "name the array's axes with tp.constant, then multiply and tp.sum")
        fail(f"np.{ufunc.__name__} on a traced value", replacement(ufunc.__name__))


#: arithmetic that NumPy numbers start: the operation, and whether it is linear in its second argument
_ARITHMETIC: dict[str, tuple[Callable[[Expr, Expr], Expr], bool]] = {
    "add": (lambda a, b: a + b, True),
    "subtract": (lambda a, b: a - b, True),
    "multiply": (lambda a, b: a * b, True),
    "divide": (lambda a, b: a / b, False),
    "power": (lambda a, b: a**b, False),
}


def apply(function: Callable[..., Expr], args: tuple[Any, ...], linear: bool = False) -> Value:
    """The value of an entrywise function of values and constants.

    `linear` tells that the function is linear in averages that wait for another neuron; any other
    function of such an average would need a matrix-valued intermediate, which the language lacks.
    """
    values = [a for a in args if isinstance(a, Value)]
    trace = values[0].trace
    for a in args:
        if isinstance(a, Value):
            a.here()
        elif isinstance(a, Refusals):
            a._no_arithmetic()
    waiting = any(v.waiting for v in values)
    if waiting and not linear:
        fail(
            "a nonlinear function of an average that still has a free neuron index (a matrix-valued intermediate)",
            "average the other neuron first, or keep the average linear",
        )
    widths = sorted({v.width for v in values if v.width})
    if len(widths) > 1:
        fail(
            f"entrywise arithmetic between vectors over `{widths[0]}` and `{widths[1]}`",
            "bring both to one width by a Matrix, or average one of them",
        )
    result = function(*(a.entry() if isinstance(a, Value) else trace.constant(a) for a in args))
    try:
        refuse_unreal(result)
    except ValueError as error:
        fail(f"a result that contains {error}", "check for a division by zero, or the root of a negative number")
    axes = tuple(a for v in values for a in v.axes)
    neurons = frozenset().union(*(v.neurons for v in values))
    result = trace.with_rational_powers(result)
    # tp.where of a number is one of its branches, and made of that alone
    made_of = tuple(v.uid for v in [v for v in values if v.entry() == result][:1] or values)
    return Value(trace, result, widths[0] if widths else None, axes, neurons, waiting, made_of=made_of)


def sum_over(value: Value, axis: str) -> Value:
    """The sum over one finite axis."""
    bound = bound_axis_symbol(axis, value.trace.counter())
    summand = value.entry().xreplace({axis_symbol(axis): bound})
    expr = AxisSum(summand, bound, Symbol(axis))
    return value.derived(expr, axes=tuple(a for a in value.axes if a != axis))
