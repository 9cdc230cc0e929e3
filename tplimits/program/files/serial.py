"""Programs as JSON text, and back.

The text holds a flat list of instructions that refer to earlier ones by position; bodies are flat
postfix lists (`postfix`).  Integers are strings, floats hexadecimal strings, so that nothing is
rounded.  Source lines are not kept.  Reading never runs anything: size and depth are scanned before
the text is parsed, every field is checked, and the program has to satisfy `spec.verify`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy
import sympy

from tplimits.errors import ProgramError
from tplimits.program.files.fields import MAX_NAMES, MAX_STRINGS, Fields, few, hexadecimal, name, parse, refuse, whole
from tplimits.program.files.postfix import words
from tplimits.program.nodes.entries import slot_symbol
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
from tplimits.program.nodes.laws import NORMAL, SHAPES, Law
from tplimits.program.nodes.program import Program
from tplimits.program.nodes.spec import verify
from tplimits.program.nodes.stated import IndexTable
from tplimits.program.walk import Walker

FORMAT = "tplimits program"
VERSION = "1"

#: limits of a file
MAX_INSTRUCTIONS, MAX_TABLES = 20_000, 1_000


def to_json(program: Program) -> str:
    """The program as JSON text, one instruction a line; `from_json` gives back an equal program.

    Raises ProgramError for a program that could not be read back.

    >>> from tplimits.program.language.annotations import Matrix, Vector
    >>> from tplimits.program.language.trace import program
    >>> def once(W: Matrix, x: Vector):
    ...     return W @ x
    >>> from_json(to_json(program(once))) == program(once)
    True
    """
    if not isinstance(program, Program):
        raise ProgramError(f"to_json of a value of type {type(program).__name__}; it takes a program.")
    if program.parts:
        raise ProgramError(f"`{program.name}` is a stack of blocks; write each of them to a file of its own.")
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "name": program.name,
        "widths": list(program.widths),
        "constants": {c: None if v is None else words(v) for c, v in program.constants.items()},
        "sizes": {axis: str(size) for axis, size in program.sizes.items()},
        "size_of": dict(program.size_of),
        "arrays": [_table(t, float.hex) for t in program.arrays],
        "tables": [_table(t, str) for t in program.tables],
        "instructions": [_fields(program, p) for p in range(len(program))],
        "names": {label: str(position) for label, position in program.names.items()},
        "arguments": list(map(str, program.arguments)),
        "returns": list(map(str, program.returns)),
        "returns_tuple": program.returns_tuple,
    }
    if program.state is not None:
        document["state"] = str(program.state)
    if program.inputs:
        document["inputs"] = list(map(str, program.inputs))
    lines = []
    for key, value in document.items():
        text = json.dumps(value, ensure_ascii=False)
        if key == "instructions":
            text = "[\n" + ",\n".join("  " + json.dumps(s, ensure_ascii=False) for s in document[key]) + "\n ]"
        lines.append(f" {json.dumps(key)}: {text}")
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    if from_json(text) != program:
        raise ProgramError(f"`{program.name}` does not survive writing: it would be read back as another program.")
    return text


def _table(table: IndexTable, write: Callable[[Any], str]) -> dict[str, list[str]]:
    values = [write(v) for v in table.values.ravel().tolist()]
    return {"axes": list(table.axes), "shape": list(map(str, table.values.shape)), "values": values}


class _Written(Walker[dict[str, Any]]):
    """What the JSON object of an instruction holds beside its kind, name and axes."""

    def initial_matrix(self, s: InitialMatrix) -> dict[str, Any]:
        law = {} if s.law == NORMAL else _law_words(s.law)
        return {"rows": s.rows, "columns": s.columns, **law}

    def initial_vector(self, s: InitialVector) -> dict[str, Any]:
        return {"over": s.over, **_law_words(s.law)}

    def initial_scalar(self, s: InitialScalar) -> dict[str, Any]:
        of = {} if s.of is None else {"of": s.of}
        law = {} if s.law == NORMAL else _law_words(s.law)
        moves = {"scheduled": True} if s.scheduled else {}
        return {"value": None if s.value is None else words(s.value), **of, **law, **moves}

    def matmul(self, s: MatMul) -> dict[str, Any]:
        indices = [words(i) for i in s.matrix_indices]
        found = {"over": s.over, "matrix": str(s.matrix), "transposed": s.transposed, "indices": indices}
        return {**found, "operand": words(s.operand)}

    def average(self, s: Avg) -> dict[str, Any]:
        return {"over": s.over, "operand": words(s.operand)}

    def scalar(self, s: ScalarNonlin) -> dict[str, Any]:
        return {"body": words(s.body)}

    def outer(self, s: OuterNonlin) -> dict[str, Any]:
        slots = {"slot_names": list(s.slot_names), "slot_widths": list(s.slot_widths)}
        return {"over": s.over, **slots, "body": words(s.body, s.slots)}


def _law_words(law: Law) -> dict[str, Any]:
    shape = {} if law.shape == "normal" else {"shape": law.shape}
    cut = {} if law.cut is None else {"cut": words(law.cut)}
    return {"mean": words(law.mean), "std": words(law.std), **shape, **cut}


def _fields(program: Program, position: int) -> dict[str, Any]:
    """One instruction as a JSON object."""
    s = program[position]
    kind = next((word for word, cls in _KINDS.items() if type(s) is cls), None)
    try:
        return {"kind": kind, "name": s.name, "axes": list(s.axes), **_Written().read(s)}
    except ProgramError as error:
        raise ProgramError(f"{program.where(position)}: {error}") from None


def from_json(text: str) -> Program:
    """The program that a text written by `to_json` holds.

    Raises ProgramError, saying where, for anything else; nothing in the text is ever run.
    """
    if not isinstance(text, str):
        raise ProgramError(f"from_json of a value of type {type(text).__name__}; it takes text.")
    fields = parse(text)
    fields.one_of("format", (FORMAT,))
    fields.one_of("version", (VERSION,))
    program = Program(
        name=fields.text("name"),
        instructions=tuple(map(_instruction, fields.objects("instructions", "instruction", MAX_INSTRUCTIONS))),
        returns=fields.counts("returns"),
        names=fields.mapping("names", whole, most=MAX_STRINGS),
        widths=fields.texts("widths", most=MAX_NAMES),
        constants=fields.expressions("constants"),
        sizes=fields.mapping("sizes", lambda size, where: sympy.Integer(whole(size, where))),
        size_of=fields.mapping("size_of", name),
        arrays=tuple(_array(t, hexadecimal, numpy.float64) for t in fields.objects("arrays", "array", MAX_TABLES)),
        tables=tuple(_array(t, whole, numpy.int64) for t in fields.objects("tables", "table", MAX_TABLES)),
        arguments=fields.counts("arguments"),
        returns_tuple=fields.flag("returns_tuple"),
        state=fields.count("state") if fields.has("state") else None,
        inputs=fields.counts("inputs") if fields.has("inputs") else (),
    )
    fields.finish()
    few(program.all_axes, "the file, axes", MAX_NAMES)
    verify(program)
    return program


def _array(fields: Fields, read: Callable[[Any, str], Any], dtype: type) -> IndexTable:
    axes, shape, values = fields.texts("axes"), fields.counts("shape"), fields.each("values", read)
    if min(shape, default=1) < 1 or len(axes) != len(shape) or math.prod(shape) != len(values):
        refuse(fields.where, f"{len(values)} values for the shape {shape}", "give each axis a size, each entry a value")
    fields.finish()
    return IndexTable(numpy.array(values, dtype=dtype).reshape(shape), axes)


def _instruction(fields: Fields) -> Instruction:
    cls = _KINDS[fields.one_of("kind", tuple(_KINDS))]
    given: dict[str, Any] = {"name": fields.text("name"), "axes": fields.texts("axes")}
    if cls not in (InitialMatrix, InitialScalar, ScalarNonlin):
        given["over"] = fields.text("over")
    if cls is InitialMatrix:
        given |= {"rows": fields.text("rows"), "columns": fields.text("columns")}
        if fields.has("mean"):
            given["law"] = _law(fields)
    elif cls is InitialVector:
        given["law"] = _law(fields)
    elif cls is InitialScalar:
        given["value"] = None if fields.is_null("value") else fields.body("value")
        given["of"] = fields.text("of") if fields.has("of") else None
        if fields.has("mean"):
            given["law"] = _law(fields)
        if fields.has("scheduled"):
            given["scheduled"] = fields.flag("scheduled")
    elif cls is MatMul:
        given |= {"matrix": fields.count("matrix"), "transposed": fields.flag("transposed")}
        given["matrix_indices"] = fields.bodies("indices")
    elif cls is OuterNonlin:
        given |= {"slot_names": fields.texts("slot_names"), "slot_widths": fields.texts("slot_widths")}
        given["slots"] = tuple(slot_symbol(i + 1) for i in range(len(given["slot_widths"])))
    if cls in (MatMul, Avg):
        given["operand"] = fields.entry("operand")
    if cls in (OuterNonlin, ScalarNonlin):
        given["body"] = fields.body("body", len(given.get("slots", ())))
    fields.finish()
    return cls(**given)


def _law(fields: Fields) -> Law:
    shape = fields.one_of("shape", SHAPES) if fields.has("shape") else "normal"
    cut = fields.body("cut") if fields.has("cut") else None
    return Law(fields.body("mean"), fields.body("std"), shape, cut)


#: the kinds of instructions under their names in files
_KINDS: dict[str, type[Instruction]] = {
    "matrix": InitialMatrix,
    "vector": InitialVector,
    "scalar": InitialScalar,
    "matmul": MatMul,
    "outer": OuterNonlin,
    "avg": Avg,
    "nonlin": ScalarNonlin,
}
