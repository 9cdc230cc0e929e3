"""Means over boxes as compiled loops: y_α = mean over β1..βr of ψ(x_α; x_β1; …; x_βr).

The body of an outer nonlinearity is printed as a scalar Python function and compiled by Numba, which
is kept in a cache folder, so that a body is compiled once on a machine.  Its numbers are arguments:
bodies that differ in them alone share one function, and a process that sees many of them does not
grow, since Numba never frees what it has compiled.  The same source run by the interpreter is the
twin that tests compare with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy
import sympy
from numpy.typing import NDArray
from sympy import Expr, Symbol
from sympy.printing.pycode import PythonCodePrinter

from tplimits.arrays import Array
from tplimits.numbers.generated import functions

#: whole numbers up to here belong to a body: factors, degrees, and what compilers can do something with
_PLAIN = 16


class _ScalarPrinter(PythonCodePrinter):
    """Entrywise heads as scalar Python that Numba compiles; `numbers` are written as n0, n1, …"""

    def __init__(self) -> None:
        super().__init__({"fully_qualified_modules": True})
        self.numbers: dict[float, str] = {}

    def _call(self, name: str, expr: Expr) -> str:
        return f"{name}({', '.join(self._print(a) for a in expr.args)})"

    def _print_step(self, expr: Expr) -> str:
        return f"(1.0 if {self._print(expr.args[0])} > 0.0 else 0.0)"

    def _print_relu(self, expr: Expr) -> str:
        return f"max({self._print(expr.args[0])}, 0.0)"

    def _print_leaky_relu(self, expr: Expr) -> str:
        x, slope = (self._print(a) for a in expr.args)
        return f"(({x}) if ({x}) > 0.0 else ({slope})*({x}))"

    def _print_maximum(self, expr: Expr) -> str:
        return self._call("max", expr)

    def _print_minimum(self, expr: Expr) -> str:
        return self._call("min", expr)

    def _print_where(self, expr: Expr) -> str:
        c, x, y = (self._print(a) for a in expr.args)
        return f"(({x}) if ({c}) > 0.0 else ({y}))"

    def _print_sign(self, expr: Expr) -> str:
        x = self._print(expr.args[0])
        return f"(1.0 if ({x}) > 0.0 else (-1.0 if ({x}) < 0.0 else 0.0))"

    def _print_sigmoid(self, expr: Expr) -> str:
        # bounded for every x: exp(−x) of the plain form overflows, which the interpreter raises an error for
        return f"(0.5 + 0.5*math.tanh(0.5*({self._print(expr.args[0])})))"

    def _print_softplus(self, expr: Expr) -> str:
        x = self._print(expr.args[0])
        return f"(max({x}, 0.0) + math.log1p(math.exp(-abs({x}))))"

    def _print_sech(self, expr: Expr) -> str:
        return f"(1.0/math.cosh({self._print(expr.args[0])}))"

    def _print_gelu(self, expr: Expr) -> str:
        x = self._print(expr.args[0])
        return f"(({x})*0.5*math.erfc(-({x})*0.7071067811865476))"

    def _print_Rational(self, expr: sympy.Rational) -> str:
        # numbers as arguments: a new value of a constant needs no new compilation
        return self.numbers.setdefault(float(expr), f"n{len(self.numbers)}")

    _print_Float = _print_Rational

    def _print_Integer(self, expr: sympy.Integer) -> str:
        return repr(float(expr)) if abs(expr) <= _PLAIN else self._print_Rational(expr)


_MODULE = '''"""Generated: the mean of one body over its averaged neurons."""
import math

from tplimits.numbers.jit import njit


def body({arguments}):
{lines}


body = njit(error_model="numpy")(body)


@njit(nogil=True, error_model="numpy")
def mean_over_slots({rows}constants, offsets, skip_self, start, out):
    for i in range(out.shape[0]):
        a = start + i
        total = 0.0
        count = 0
        for k in range(offsets.shape[0]):
            if skip_self and offsets[k, 0] == 0:
                continue
{indices}
            total += body({call})
            count += 1
        out[i] = total / count
'''


def source(
    body: Expr, own: Sequence[Symbol], slots: Sequence[Sequence[Symbol]], constants: Sequence[Symbol]
) -> tuple[str, tuple[float, ...]]:
    """The module of one body, a scalar function and the loop over particles and offsets; numbers behind `constants`."""
    printer = _ScalarPrinter()
    shared, (final,) = sympy.cse([body], symbols=(Symbol(f"t{i}") for i in range(10_000)))
    lines = [f"    {s} = {printer.doprint(e)}" for s, e in shared] + [f"    return {printer.doprint(final)}"]
    vectors = [*own, *(s for group in slots for s in group)]
    call = [f"{s.name}[a]" for s in own] + [f"{s.name}[b{j}]" for j, group in enumerate(slots) for s in group]
    call += [f"constants[{i}]" for i in range(len(constants) + len(printer.numbers))]
    indices = [
        f"            b{j} = (a + offsets[k, {j}]) % {group[0].name}.shape[0]" for j, group in enumerate(slots) if group
    ]
    text = _MODULE.format(
        arguments=", ".join((*(s.name for s in (*vectors, *constants)), *printer.numbers.values())),
        lines="\n".join(lines),
        rows="".join(f"{s.name}, " for s in vectors),
        indices="\n".join(indices),
        call=", ".join(call),
    )
    return text, tuple(printer.numbers)


def slot_offsets(size: int, slots: int, most: int, rng: numpy.random.Generator) -> NDArray[numpy.int64]:
    """Which neurons are averaged, as offsets from α: all of them for one slot, a random sample beyond.

    The mean over a sample of K offset tuples is unbiased; no tuple repeats an index of its own row.
    """
    if slots == 1 and size <= most:
        return numpy.arange(size, dtype=numpy.int64)[:, None]
    # offset 0 would be the neuron itself
    first = rng.permutation(size - 1)[: min(most, size - 1)] + 1
    columns = [first]
    for _ in range(slots - 1):
        columns.append(rng.permutation(size - 1)[: len(first)] + 1)
    offsets = numpy.stack(columns, axis=1).astype(numpy.int64)
    distinct = numpy.array([len(set(row)) == slots for row in offsets.tolist()])
    return offsets[distinct]


def mean_over_slots(
    body: Expr,
    own: Mapping[Symbol, Array],
    slots: Sequence[Mapping[Symbol, Array]],
    constants: Mapping[Symbol, float],
    offsets: NDArray[numpy.int64],
    skip_self: bool,
    size: int,
    interpreted: bool = False,
) -> Array:
    """y_α for α = 0 … size − 1; `interpreted` runs the same source without the compiler."""
    names = [list(own), [list(s) for s in slots], list(constants)]
    text, written = source(body, names[0], names[1], names[2])
    compiled = functions(text, "outer")["mean_over_slots"]
    arrays = [*own.values(), *(a for s in slots for a in s.values())]
    rows = [numpy.ascontiguousarray(a, dtype=numpy.float64) for a in arrays]
    numbers = numpy.array([*constants.values(), *written], dtype=numpy.float64)
    function = compiled.py_func if interpreted else compiled
    out = numpy.empty(size)
    middle = size // 2 if size * len(offsets) > 1_000_000 else size  # both cores, each its own half

    def half(start: int, stop: int) -> None:
        function(*rows, numbers, offsets, skip_self, start, out[start:stop])

    if middle == size:
        half(0, size)
    else:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(half, (0, middle), (middle, size)))
    return out
