"""The state of one tracing: values made so far, axes, widths, constants, names, and error places."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import linecache
import math
import numbers
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.errors import ProgramError
from tplimits.program.nodes.entries import Entry, N, axis_symbol, constant_symbol, size_symbol, width_symbol
from tplimits.program.nodes.normalise import normalise
from tplimits.program.nodes.scale import irrational_power
from tplimits.program.nodes.stated import IndexTable, Line

if TYPE_CHECKING:
    from tplimits.program.language.values import Value

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_ZOO = os.path.join(_PACKAGE, "zoo") + os.sep
_BETWEEN = (_PACKAGE, *(os.path.dirname(str(m.__file__)) + os.sep for m in (numpy, sympy)))
_ACTIVE: contextvars.ContextVar[Trace | None] = contextvars.ContextVar("trace in progress", default=None)


def active() -> Trace | None:
    """The tracing in progress, or None."""
    return _ACTIVE.get()


def user_frame() -> FrameType | None:
    """The innermost frame of the call stack outside this package, NumPy and SymPy.

    The zoo's programs count as outside.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _of_a_user(frame):
        frame = frame.f_back
    return frame


def _of_a_user(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not file.startswith(_BETWEEN) or file.startswith(_ZOO)


def user_compares() -> bool:
    """Whether the `==` that asks stands in a program being traced, not inside SymPy or this package."""
    return active() is not None and _of_a_user(sys._getframe(2))


def user_line() -> Line:
    """The line of `user_frame`."""
    frame = user_frame()
    if frame is None:
        return Line()
    file, number = frame.f_code.co_filename, frame.f_lineno
    return Line(os.path.basename(file), number, linecache.getline(file, number).strip())


def fail(found: str, repair: str) -> NoReturn:
    """Raise the ProgramError of the user's current line."""
    raise ProgramError(f"{user_line()}: {found}; {repair}.")


def plain(value: Any) -> Any:
    """The SymPy expression or the number that a value stands for (see `quantities`); any other value as it is."""
    return value._sympy_() if hasattr(type(value), "_sympy_") else alone(value)


def alone(value: Any) -> Any:
    """The number that an array without axes holds, as files of arrays give it; everything else as it is."""
    return value[()] if isinstance(value, numpy.ndarray) and not value.ndim else value


def exact(number: Any) -> Expr:
    """A Python or NumPy number as an exact SymPy number (a float is its binary rational)."""
    number = alone(number)
    # NumPy's numbers are no numbers.Rational, and float32 would be read by its decimal text
    if isinstance(number, numpy.generic):
        number = float(number) if isinstance(number, numpy.floating) else number.item()
    if isinstance(number, complex):
        fail(f"the complex number {number}", "programs are real: use its real and imaginary parts as two values")
    if isinstance(number, float) and not math.isfinite(number):
        fail(f"the constant {number}", "constants must be finite numbers")
    if isinstance(number, numbers.Rational):
        return sympy.Rational(int(number.numerator), int(number.denominator))
    if not isinstance(number, (float, sympy.Expr)):
        raise TypeError(f"{type(number).__name__} is not a number")
    return sympy.Rational(number)


@dataclass
class Trace:
    """What is known while a function is being traced; turned into a Program at the end."""

    name: str
    values: list[Value] = field(default_factory=list)
    widths: dict[str, None] = field(default_factory=lambda: {"n": None})
    axes: dict[str, None] = field(default_factory=dict)
    sizes: dict[str, Expr] = field(default_factory=dict)
    size_of: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Expr | None] = field(default_factory=dict)
    arrays: list[IndexTable] = field(default_factory=list)
    tables: list[IndexTable] = field(default_factory=list)
    bindings: list[tuple[str, int]] = field(default_factory=list)
    latest: dict[str, int] = field(default_factory=dict)
    forced: dict[int, str] = field(default_factory=dict)
    neuron_width: dict[Symbol, str] = field(default_factory=dict)
    neuron_name: dict[Symbol, str] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    inherited: dict[str, int] = field(default_factory=dict)
    inherited_aliases: dict[str, int] = field(default_factory=dict)
    functions: dict[str, tuple[Symbol, Expr]] = field(default_factory=dict)
    fresh: int = 0

    @contextlib.contextmanager
    def recording(self) -> Iterator[Trace]:
        """Make this the tracing in progress."""
        token = _ACTIVE.set(self)
        try:
            yield self
        finally:
            _ACTIVE.reset(token)

    def here(self) -> Trace:
        """This tracing, if it is the one in progress."""
        if self is not active():
            fail("a value from another trace", "use only the arguments of the function being traced")
        return self

    def counter(self) -> int:
        """A number not used before in this tracing."""
        self.fresh += 1
        return self.fresh

    def declare(self, axis: str) -> str:
        """Register a finite axis; its place in the order is that of its first declaration."""
        if not isinstance(axis, str) or not axis.isidentifier():
            fail(f"the axis name {axis!r}", 'an axis name is a Python identifier in quotes, such as "token"')
        if axis in self.widths:
            fail(
                f"`{axis}` used as a finite axis",
                f"`{axis}` is a width of this program (it stands in the first two places of a Matrix); "
                "choose another name for the axis",
            )
        if axis in self.constants:
            fail(f"`{axis}` used as a finite axis", f"`{axis}` is a constant of this program; rename one of them")
        self.axes.setdefault(axis)
        return axis

    def root(self, axis: str) -> str:
        """The axis whose size this axis shares."""
        while axis in self.size_of:
            axis = self.size_of[axis]
        return axis

    def size(self, axis: str) -> Expr | None:
        """The size of an axis if it is known, else None."""
        return self.sizes.get(self.root(axis))

    def set_size(self, axis: str, size: int) -> None:
        """Fix the size of an axis, or fail when it is already fixed to another."""
        if size <= 0:
            fail(f"the axis `{axis}` of size {size}", "an axis needs at least one entry")
        known = self.size(axis)
        if known is not None and known != size:
            fail(
                f"the axis `{axis}` with {size} entries, but it has {known} elsewhere",
                f"rename one of the two axes, or give both {known} entries",
            )
        self.sizes[self.root(axis)] = sympy.Integer(size)

    def link(self, new: str, old: str) -> None:
        """Make `new` an axis as long as `old`."""
        a, b = self.root(new), self.root(old)
        if a == b:
            return
        left, right = self.sizes.get(a), self.sizes.get(b)
        if left is not None and right is not None and left != right:
            fail(
                f"the axis `{old}` of size {right} renamed to `{new}`, which has size {left}",
                "rename to an axis of the same size or to a new name",
            )
        self.size_of[a] = b
        if left is not None:
            self.sizes.setdefault(b, self.sizes.pop(a))

    def ordered(self, axes: Iterable[str]) -> tuple[str, ...]:
        """Axes in order of first declaration."""
        wanted = set(axes)
        return tuple(a for a in self.axes if a in wanted)

    def indices(self, axes: Iterable[str]) -> tuple[Symbol, ...]:
        """The running indices of axes."""
        return tuple(axis_symbol(a) for a in axes)

    def constant(self, value: Any) -> Expr:
        """A number, or an expression in constants, widths and sizes, as an exact SymPy expression."""
        value = plain(value)
        if isinstance(value, (numbers.Real, numpy.number, numpy.bool_, complex)):
            return exact(value)
        if isinstance(value, sympy.Expr):
            self.refuse_strange_symbols(value)
            try:
                return self.with_rational_powers(normalise(value))
            except ValueError as error:
                fail(f"the constant {value} contains {error}", "use finite real numbers and the functions of tp")
        if isinstance(value, (numpy.ndarray, list, tuple)):
            fail("a bare array", 'name its axes: tp.constant(array, axes=("token",))')
        fail(f"a value of type {type(value).__name__}", "use numbers, tp.constant, or values of the program")

    def with_rational_powers(self, value: Expr) -> Expr:
        """The expression, or fail when a width of this program stands in or below an exponent that is no number."""
        power = irrational_power(value, map(width_symbol, self.widths))
        if power is not None:
            shown = "a value of the program" if power.exp.has(Entry) else f"`{power.exp}`"
            fail(f"{shown} as an exponent", "widths stand to rational powers: tp.n ** 2, 1 / tp.sqrt(tp.n)")
        return value

    def refuse_strange_symbols(self, value: Expr, allowed: Iterable[Symbol] = ()) -> None:
        """Fail unless an expression holds only constants, widths and sizes of this program."""
        known: set[Symbol] = {N, *allowed}
        known |= {constant_symbol(c) for c in self.constants}
        known |= {width_symbol(w) for w in self.widths}
        known |= {size_symbol(a) for a in self.axes}
        strange = sorted(value.free_symbols - known, key=str)
        if not strange:
            return
        name = strange[0].name
        if isinstance(strange[0], sympy.Dummy):
            fail(
                "a value of the program inside a function given to tp.elementwise or tp.expect",
                "pass it to tp.elementwise as an argument of its own",
            )
        if name in self.constants or name in self.widths:
            right = "the argument itself" if name in self.constants else f'tp.width("{name}")'
            fail(f"a symbol `{name}` made by hand", f"use {right}: a symbol with other assumptions is another symbol")
        fail(
            f"the symbol `{name}`, which is not a constant of this program",
            f"declare it keyword-only in the signature: `*, {name}`",
        )

    def add_array(self, table: IndexTable) -> int:
        """The number of a constant array; equal arrays are one."""
        return _number_of(table, self.arrays)

    def add_table(self, table: IndexTable) -> int:
        """The number of an integer look-up table; equal tables are one."""
        return _number_of(table, self.tables)

    def bind(self, name: str, uid: int) -> None:
        """Remember that the traced function calls a value by this name now."""
        if self.latest.get(name) != uid:
            self.latest[name] = uid
            self.bindings.append((name, uid))


def _number_of(table: IndexTable, tables: list[IndexTable]) -> int:
    if table not in tables:
        tables.append(table)
    return tables.index(table)


P = ParamSpec("P")
R = TypeVar("R")


def stated(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function whose calls with missing or unknown arguments are ProgramErrors; messages call it `name`.

    >>> stated("tp.clip")(lambda x, low, high: x)(1, low=2, high=3)
    1
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
        shown = signature.replace(
            parameters=[p for p in bare if p.name != "self"], return_annotation=inspect.Signature.empty
        )

        @functools.wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            wrong = None
            try:
                signature.bind(*args, **keywords)
            except TypeError as error:
                wrong = str(error)
            if wrong:
                fail(f"{name}: {wrong}", f"call it as {name}{shown}")
            return function(*args, **keywords)

        return call

    return decorate
