"""What unnamed values are called: by what they are, W x or tanh(h), where that is short."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tplimits.program.language.render import BodyPrinter
from tplimits.program.nodes.kinds import Avg, MatMul, OuterNonlin
from tplimits.report.latex_names import label

if TYPE_CHECKING:
    from tplimits.program.nodes.entries import AxisSum, Entry
    from tplimits.program.nodes.program import Program
    from tplimits.report.latex_formulas import Formula

#: anonymous vectors are named by what they are up to this length
_SHORT = 20
#: and written out inside others up to this one: what a deep network adds up doubles with every layer
_INLINE = 200
#: an unnamed value in LaTeX, or its gradient, with the indices at it
_UNNAMED = re.compile(r"(?<![A-Za-z\\])(?:x_\{\((\d+)\)|(d)_\{(\d+))((?:,(?:[^{}]|\{[^{}]*\})*)?)\}")


def width(text: str) -> int:
    """How long a text is, numbers of names as one sign: layer 10 is written as layer 9 is.

    >>> width("relu(x#9)"), width("relu(x#10)"), width("_7 + _144")
    (9, 9, 7)
    """
    return len(re.sub(r"(?<=[#_])\d+", "1", text))


class _Short(BodyPrinter):
    """Bodies without indices, anonymous vectors written out where asked."""

    def __init__(self, program: Program, labels: Roles, inline: bool) -> None:
        super().__init__(program, {})
        self._labels, self._inline = labels, inline

    def _print_Entry(self, expr: Entry) -> str:
        instruction = self._program[expr.source]
        if not self._inline or not instruction.name.startswith("_"):
            return self._labels.of_position(expr.source)
        text = self._labels.inlined(expr.source)
        if width(text) > _INLINE:
            return self._labels.of_position(expr.source)
        return text if re.fullmatch(r"[\w.#]+|⟨.*⟩|\w+\([^()]*\)", text) else f"({text})"

    def _print_AxisSum(self, expr: AxisSum) -> str:
        return f"Σ_{expr.axis}({self._print(expr.summand)})"


class Roles:
    """Names of the instructions of a program, of anonymous ones what they are."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._labels: dict[int, str] = {}
        self._inlined: dict[int, str] = {}

    def inlined(self, position: int) -> str:
        """The right-hand side of an instruction with anonymous vectors written out."""
        if position not in self._inlined:
            self._inlined[position] = self.written(position, inline=True)
        return self._inlined[position]

    def written(self, position: int, inline: bool) -> str:
        """The right-hand side of an instruction, without indices."""
        printer = _Short(self.program, self, inline)
        instruction = self.program[position]
        if isinstance(instruction, MatMul):
            matrix = self.program[instruction.matrix].name.rpartition(".")[2] + ("ᵀ" if instruction.transposed else "")
            return f"{matrix} {printer.doprint(instruction.operand)}"
        if isinstance(instruction, Avg):
            operand = instruction.operand
            inner = inline and self.program[operand.source].name.startswith("_")
            return f"⟨{self.written(operand.source, inline) if inner else printer.doprint(operand)}⟩"
        body = getattr(instruction, "body", None)
        slotted = isinstance(instruction, OuterNonlin) and instruction.slots
        return instruction.name if body is None or slotted else printer.doprint(body)

    def of_position(self, position: int) -> str:
        """The name of an instruction; of an anonymous one what it is, if that is short."""
        if position not in self._labels:
            name = self.program[position].name
            self._labels[position] = name
            if name.startswith("_"):
                text = self.written(position, inline=False)
                short = width(text) <= _SHORT and text not in self._labels.values()
                self._labels[position] = text if short else name
        return self._labels[position]


def by_role(rows: Sequence[Formula], program: Program) -> list[Formula]:
    r"""Lines of LaTeX with unnamed values, and gradients at them, called by what they are, where that is short."""
    roles = Roles(program)
    known = {s.name: label(roles.of_position(p)) for p, s in enumerate(program) if re.fullmatch(r"_\d+", s.name)}
    users = {s.name for s in program}

    def called(match: re.Match[str]) -> str:
        number, gradient, of, at = match.groups()
        role = known.get(f"_{number or of}")
        if role is None or (gradient and f"d_{of}" not in users):
            return match[0]
        if role == label(f"_{number or of}") and not gradient:
            return match[0]
        shown = rf"\mathrm{{d}}({role})" if gradient else role
        return rf"{{{shown}}}_{{{at[1:]}}}" if at else shown

    found = (
        replace(row, left=_UNNAMED.sub(called, row.left), right=tuple(_UNNAMED.sub(called, r) for r in row.right))
        for row in rows
    )
    return [row for row in found if row.right != (row.left,)]  # |W x⟩ = |W x⟩ says nothing
