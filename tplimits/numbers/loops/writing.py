"""Numba source of loops over arrays.

Arrays lie in memory in the order of their extents, so that the last one runs fastest: neurons, or inputs where there
are none.  A statement is one nest of loops with that extent innermost; sums over finite axes of a few indices are
written out, products of matrices are left to BLAS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product as pairs
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.numbers.generated import functions
from tplimits.numbers.scalar_printer import ScalarPrinter
from tplimits.program.loops.form import CONSTANT, GRADIENT, OUTPUT, VALUE, Loop, Loops, Read, Statement

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: finite sums of at most so many terms are written out
_WRITTEN_OUT = 8

_HEADING = '''"""Generated: a program as loops over arrays."""
import math

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
'''


class Printer(ScalarPrinter):
    """Bodies of statements as Python."""

    def __init__(self, loops: Loops) -> None:
        super().__init__()
        self.loops = loops

    def _print_Read(self, expr: Read) -> str:
        place = ", ".join(self._print(i) for i in expr.indices)
        text = f"{expr.array}[{place or 0}]"
        gaps = [i for i in expr.indices if isinstance(i, Read) and self.loops.by_name[i.array].gaps]
        for index in gaps:
            text = f"({text} if {self._print(index)} >= 0 else 0.0)"
        return text

    def _print_Kron(self, expr: Expr) -> str:
        i, j = map(self._print, expr.args)
        return f"(1.0 if {i} == {j} else 0.0)"

    def _print_Symbol(self, expr: Symbol) -> str:
        return str(expr.name)

    def _print_Integer(self, expr: sympy.Integer) -> str:
        return str(int(expr))

    def _print_Pow(self, expr: Expr, rational: bool = False) -> str:
        base = f"({self._print(expr.base)})"
        if expr.exp == -1:
            return f"(1.0/{base})"
        if expr.exp == sympy.S.Half:
            return f"math.sqrt({base})"
        if expr.exp == -sympy.S.Half:
            return f"(1.0/math.sqrt({base}))"
        if expr.exp.is_Integer and 2 <= expr.exp <= 4:
            return f"({'*'.join([base] * int(expr.exp))})"
        return f"{base}**({self._print(expr.exp)})"


def size_text(loops: Loops, extent: str) -> str:
    """An extent in the source: a number, or a variable."""
    size = loops.extents[extent]
    return f"size_{extent}" if size is None else str(size)


def source(loops: Loops) -> str:
    """The module of loops: `run(sizes…, arrays…)`."""
    printer = Printer(loops)
    lines = []
    for statement in loops.statements:
        lines += _nest(loops, statement, printer)
    names = [size_text(loops, e) for e, size in loops.extents.items() if size is None]
    arguments = ", ".join([*names, *(a.name for a in loops.arrays)])
    body = "\n".join(f"    {line}" for line in lines or ["pass"])
    return f"{_HEADING}def run({arguments}):\n{body}\n"


def _nest(loops: Loops, s: Statement, printer: Printer) -> list[str]:
    """One statement as nested loops."""
    place = f"{s.target}[{', '.join(map(printer.doprint, s.indices)) or 0}]"
    body, summed = _written_out(loops, s)
    scale = "" if s.scale == 1 else f"({_text(printer, s.scale)})*"
    long = [loop for loop in summed if loops.extents[loop.extent] is None]
    if not summed:
        return _loops(loops, s.loops, [f"{place} {'+=' if s.add else '='} {scale}({_text(printer, body)})"])
    in_register = any(loop.extent in loops.widths for loop in long) or not (
        s.loops and loops.extents[s.loops[-1].extent] is None
    )
    if s.largest or in_register:
        summed = sorted(summed, key=lambda loop: loop.extent in loops.widths)
        start, more = (
            ("-np.inf", f"total = max(total, {_text(printer, body)})")
            if s.largest
            else (
                "0.0",
                f"total += {_text(printer, body)}",
            )
        )
        inner = _loops(loops, summed, [more])
        return _loops(loops, s.loops, [f"total = {start}", *inner, f"{place} {'+=' if s.add else '='} {scale}total"])
    clear = [] if s.add else _loops(loops, s.loops, [f"{place} = 0.0"])
    order = (*s.loops[:-1], *summed, s.loops[-1])
    return clear + _loops(loops, order, [f"{place} += {scale}({_text(printer, body)})"])


def _written_out(loops: Loops, s: Statement) -> tuple[Expr, list[Loop]]:
    """The body with short sums written out, and the loops that stay."""
    body, stay = s.body, []
    for loop in s.summed:
        size = loops.extents[loop.extent]
        if size is not None and size <= _WRITTEN_OUT and not s.largest:
            body = sympy.Add(*(body.xreplace({loop.index: sympy.Integer(k)}) for k in range(size)), evaluate=False)
        else:
            stay.append(loop)
    return body, stay


def _loops(loops: Loops, order: tuple[Loop, ...] | list[Loop], inner: list[str]) -> list[str]:
    lines, indent = [], ""
    for loop in order:
        lines.append(f"{indent}for {loop.index} in range({size_text(loops, loop.extent)}):")
        indent += "    "
    return [*lines, *(f"{indent}{line}" for line in inner)]


def _text(printer: Printer, expr: Expr) -> str:
    """An expression as text, extents as floating point numbers."""
    sizes = {
        symbol: Symbol(size_text(printer.loops, symbol.name))
        for symbol in expr.free_symbols
        if printer.loops.extents.get(symbol.name, 0) is None
    }
    return str(printer.doprint(expr.xreplace(sizes)))


@dataclass(frozen=True)
class Code:
    """Compiled loops."""

    loops: Loops

    @property
    def text(self) -> str:
        """The source."""
        return source(self.loops)

    def run(self, sizes: Mapping[str, int], given: Mapping[str, Any]) -> dict[str, NDArray[numpy.float64]]:
        """All arrays, by name; `sizes` gives the extents that are open, `given` the arrays that are not computed."""
        arrays: dict[str, Any] = {}
        for a in self.loops.arrays:
            shape = tuple(self.loops.extents[e] or sizes[e] for e in a.extents) or (1,)
            if a.role in (VALUE, OUTPUT, GRADIENT):
                arrays[a.name] = numpy.empty(shape)
            elif a.role == CONSTANT:
                assert a.values is not None
                arrays[a.name] = numpy.array(a.values.values)
            else:
                kind = numpy.int64 if a.whole else numpy.float64
                arrays[a.name] = numpy.ascontiguousarray(numpy.broadcast_to(given[a.name], shape), dtype=kind)
        run = functions(self.text, "loops")["run"]
        run(*(sizes[e] for e, size in self.loops.extents.items() if size is None), *arrays.values())
        return arrays


__all__ = ["Code", "Printer", "math", "pairs", "source"]
