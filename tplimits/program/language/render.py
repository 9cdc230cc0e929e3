"""A program as the numbered list of its instructions, in the user's own names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import sympy
from sympy import Expr
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from tplimits.program.nodes.entries import NO_NEURON, OWN, ArrayEntry, AxisSum, DataIndex, Entry, Kron, Lookup
from tplimits.program.nodes.laws import NORMAL, of_columns
from tplimits.program.nodes.stated import contents
from tplimits.program.walk import Walker

if TYPE_CHECKING:
    from tplimits.program.nodes.kinds import (
        Avg,
        InitialMatrix,
        InitialScalar,
        InitialVector,
        Instruction,
        MatMul,
        OuterNonlin,
        ScalarNonlin,
    )
    from tplimits.program.nodes.program import Program

#: columns are aligned with cells up to this width; longer ones stick out
_WIDEST = 160
_SUPERSCRIPTS = str.maketrans("0123456789-/", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᐟ")


def superscript(number: object) -> str:
    """A number as Unicode superscripts."""
    return str(number).translate(_SUPERSCRIPTS)


#: denominators of quotients of floats are longer than those that people write
_LONG = 1 << 40


def was_float(number: sympy.Rational) -> bool:
    """Whether the denominator is a long power of two, as of floats, or long as those of their quotients.

    >>> [was_float(r) for r in (sympy.Rational(0.1), 1 / sympy.Rational(0.1), sympy.Rational(1, 3))]
    [True, True, False]
    """
    return bool(number.is_Rational and number.q > 64 and (number.q & (number.q - 1) == 0 or number.q > _LONG))


#: a float of more signs is no short one that was rounded
_SHORT = 13


def decimal(number: sympy.Rational) -> str:
    """A rational as people wrote it: a float prints as the float it was, or as the short one next to it."""
    if number.q == 1:
        return str(number.p)
    if was_float(number):
        value = float(number)
        near = f"{value:.15g}"  # products of floats are off in the last digit: 0.1² is 0.010000000000000002
        return near if len(near) <= _SHORT else repr(value)
    return f"{number.p}/{number.q}"


class NumberPrinter(StrPrinter):
    """SymPy's printer with floats shown as they were written."""

    def _print_Rational(self, expr: sympy.Rational) -> str:
        return decimal(expr)

    def _print_Mul(self, expr: sympy.Mul) -> str:
        factor, rest = expr.as_coeff_Mul()
        if not was_float(factor):
            return str(super()._print_Mul(expr))
        text = self.parenthesize(rest, PRECEDENCE["Mul"], strict=True)
        return decimal(factor) + (text[1:] if text.startswith("1/") else f"*{text}")


class BodyPrinter(NumberPrinter):
    """Entries shown under the names of their instructions."""

    def __init__(self, program: Program, neurons: dict[sympy.Symbol, str]) -> None:
        super().__init__({"order": "none"})
        self._program, self._neurons = program, neurons

    def _print_Entry(self, expr: Entry) -> str:
        name = self._program[expr.source].name
        neuron = "" if expr.neuron in (OWN, NO_NEURON) else self._neurons.get(expr.neuron, str(expr.neuron))
        inside = [*([neuron] if neuron else []), *(self._print(i) for i in expr.indices)]
        return f"{name}[{', '.join(inside)}]" if inside else name

    def _print_ArrayEntry(self, expr: ArrayEntry) -> str:
        return f"array{expr.array}[{', '.join(self._print(i) for i in expr.indices)}]"

    def _print_Lookup(self, expr: Lookup) -> str:
        return f"table{expr.table}[{', '.join(self._print(i) for i in expr.indices)}]"

    def _print_DataIndex(self, expr: DataIndex) -> str:
        name = self._program[expr.source].name
        return f"{name}[{', '.join(self._print(i) for i in expr.indices)}]" if expr.indices else name

    def _print_Kron(self, expr: Kron) -> str:
        return f"δ[{', '.join(self._print(i) for i in expr.indices)}]"

    def _print_AxisSum(self, expr: AxisSum) -> str:
        return f"Σ_{self._print(expr.bound)}({self._print(expr.summand)})"


def body_text(program: Program, body: Expr, neurons: dict[sympy.Symbol, str] | None = None) -> str:
    """A body in the user's names."""
    return BodyPrinter(program, neurons or {}).doprint(body)


#: what is read at −1
_OUTSIDE = "; what is read at −1 is 0"


def constants_text(program: Program, shown: str) -> list[str]:
    """What the constant arrays and look-ups hold that stand in a text by number."""
    found = []
    for kind, known, what in (
        ("array", program.arrays, "the constant array"),
        ("table", program.tables, "the indices"),
    ):
        for number in sorted({int(k) for k in re.findall(rf"\b{kind}(\d+)\[", shown)}):
            table = known[number]
            axes = ", ".join(table.axes)
            outside = _OUTSIDE if kind == "table" and table.smallest < 0 else ""
            found.append(f"{kind}{number}[{axes}] = {what} {contents(table.values)}{outside}")
    return found


def number_text(number: Expr) -> str:
    """A constant as people wrote it.

    >>> number_text(sympy.Rational(0.1) * sympy.Symbol("γ"))
    '0.1*γ'
    """
    return str(NumberPrinter().doprint(number))


def _law(vector: InitialVector) -> str:
    start = "every entry" if vector.law.std == 0 else "entries"
    return f"{start} {vector.law.described(number_text)}"


class _RightHandSide(Walker[tuple[str, str]]):
    """(what an instruction is, which kind it is) as printed in the list."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def initial_matrix(self, s: InitialMatrix) -> tuple[str, str]:
        return f"{s.rows}×{s.columns}, entries {of_columns(s.law, s.columns, number_text)}", "matrix"

    def initial_vector(self, s: InitialVector) -> tuple[str, str]:
        return f"over {s.over}, {_law(s)}", "vector"

    def initial_scalar(self, s: InitialScalar) -> tuple[str, str]:
        if s.of is not None:
            return f"given, indices of {s.of}", "scalar"
        if s.law != NORMAL:
            return f"drawn, {s.law.described(number_text)}", "scalar"
        moves = ", moves with the step" if s.scheduled else ""
        return ("given" if s.value is None else number_text(s.value)) + moves, "scalar"

    def matmul(self, s: MatMul) -> tuple[str, str]:
        inside = ", ".join(map(str, s.matrix_indices))
        symbol = self.program[s.matrix].name + (f"[{inside}]" if inside else "") + ("ᵀ" if s.transposed else "")
        return f"{symbol} {body_text(self.program, s.operand)}", "MatMul"

    def average(self, s: Avg) -> tuple[str, str]:
        return f"⟨{body_text(self.program, s.operand)}⟩", "Avg"

    def scalar(self, s: ScalarNonlin) -> tuple[str, str]:
        return body_text(self.program, s.body), "ScalarNonlin"

    def outer(self, s: OuterNonlin) -> tuple[str, str]:
        named = dict(zip(s.slots, s.slot_names or map(str, s.slots), strict=True))
        body = body_text(self.program, s.body, named)
        if s.slots:
            return f"⟨{body}⟩_{{{','.join(named.values())}}}", f"OuterNonlin, order {s.order}"
        return body, "OuterNonlin"


def right_hand_side(program: Program, instruction: Instruction) -> tuple[str, str]:
    """(what it is, which kind it is) as printed in the list."""
    return _RightHandSide(program).read(instruction)


def text(program: Program) -> str:
    """The numbered list."""
    rows = []
    for number, instruction in enumerate(program.instructions, start=1):
        axes = f"[{', '.join(instruction.axes)}]" if instruction.axes else ""
        rhs, kind = right_hand_side(program, instruction)
        rows.append((str(number), instruction.name + axes, rhs, kind))
    widths = [max((len(r[i]) for r in rows if len(r[i]) <= _WIDEST), default=0) for i in range(3)]
    head = [f"program {program.name}({', '.join(program[p].name for p in program.arguments)})"]
    if program.constants:
        shown = [c if v is None else f"{c}={number_text(v)}" for c, v in program.constants.items()]
        head.append("constants " + ", ".join(shown))
    known = [f"{a}={program.size(a)}" for a in program.all_axes if program.size(a) is not None]
    if known:
        head.append("sizes " + ", ".join(known))
    lines = [
        f"{number:>{widths[0] + 2}}  {name:<{widths[1]}} = {rhs:<{widths[2]}}  {kind}".rstrip()
        for number, name, rhs, kind in rows
    ]
    tail = "returns " + ", ".join(program[r].name for r in program.returns)
    lines += [f"  {line}" for line in constants_text(program, "\n".join(lines))]
    return "\n".join(["; ".join(head), *lines, tail])
