"""A program as the numbered list of its instructions, in the user's own names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from tplimits.program.entries import NO_NEURON, OWN, ArrayEntry, AxisSum, Entry, Lookup
from tplimits.program.nodes import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    Instruction,
    MatMul,
    OuterNonlin,
    ScalarNonlin,
)

if TYPE_CHECKING:
    from tplimits.program.program import Program

#: columns are aligned with cells up to this width; longer ones stick out
_WIDEST = 160
_SUPERSCRIPTS = str.maketrans("0123456789-/", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᐟ")


def superscript(number: object) -> str:
    """A number as Unicode superscripts.

    >>> superscript("-3/2")
    '⁻³ᐟ²'
    """
    return str(number).translate(_SUPERSCRIPTS)


def _was_float(number: sympy.Rational) -> bool:
    """Whether the denominator is a long power of two."""
    return bool(number.is_Rational and number.q > 64 and number.q & (number.q - 1) == 0)


def decimal(number: sympy.Rational) -> str:
    """A rational as people wrote it: a float prints as the float it was.

    >>> decimal(sympy.Rational(0.1)), decimal(sympy.Rational(3, 4))
    ('0.1', '3/4')
    """
    if number.q == 1:
        return str(number.p)
    if _was_float(number):
        return repr(float(number))
    return f"{number.p}/{number.q}"


class NumberPrinter(StrPrinter):
    """SymPy's printer with floats shown as they were written."""

    def _print_Rational(self, expr: sympy.Rational) -> str:
        return decimal(expr)

    def _print_Mul(self, expr: sympy.Mul) -> str:
        factor, rest = expr.as_coeff_Mul()
        if not _was_float(factor):
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

    def _print_AxisSum(self, expr: AxisSum) -> str:
        return f"Σ_{self._print(expr.bound)}({self._print(expr.summand)})"


def body_text(program: Program, body: Expr, neurons: dict[sympy.Symbol, str] | None = None) -> str:
    """A body in the user's names."""
    return BodyPrinter(program, neurons or {}).doprint(body)


def number_text(number: Expr) -> str:
    """A constant as people wrote it.

    >>> number_text(sympy.Rational(0.1) * sympy.Symbol("γ"))
    '0.1*γ'
    """
    return str(NumberPrinter().doprint(number))


def _law(vector: InitialVector) -> str:
    mean, std = vector.law.mean, vector.law.std
    if std == 0:
        return f"every entry {number_text(mean)}"
    return f"entries N({number_text(mean)}, {number_text(std**2)})"


def right_hand_side(program: Program, instruction: Instruction) -> tuple[str, str]:
    """(what it is, which kind it is) as printed in the list."""
    if isinstance(instruction, InitialMatrix):
        return f"{instruction.rows}×{instruction.columns}, entries N(0, 1/{instruction.columns})", "matrix"
    if isinstance(instruction, InitialVector):
        return f"over {instruction.over}, {_law(instruction)}", "vector"
    if isinstance(instruction, InitialScalar):
        return "given" if instruction.value is None else number_text(instruction.value), "scalar"
    if isinstance(instruction, MatMul):
        assert instruction.operand is not None
        matrix = program[instruction.matrix].name
        inside = ", ".join(map(str, instruction.matrix_indices))
        symbol = matrix + (f"[{inside}]" if inside else "") + ("ᵀ" if instruction.transposed else "")
        return f"{symbol} {body_text(program, instruction.operand)}", "MatMul"
    if isinstance(instruction, Avg):
        assert instruction.operand is not None
        return f"⟨{body_text(program, instruction.operand)}⟩", "Avg"
    if isinstance(instruction, ScalarNonlin):
        return body_text(program, instruction.body), "ScalarNonlin"
    assert isinstance(instruction, OuterNonlin)
    named = dict(zip(instruction.slots, instruction.slot_names or map(str, instruction.slots), strict=True))
    body = body_text(program, instruction.body, named)
    if instruction.slots:
        return f"⟨{body}⟩_{{{','.join(named.values())}}}", f"OuterNonlin, order {instruction.order}"
    return body, "OuterNonlin"


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
    return "\n".join(["; ".join(head), *lines, tail])
