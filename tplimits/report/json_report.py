"""A limit, or its numbers, as JSON for other programs to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr

from tplimits.program.nodes.kinds import InitialScalar
from tplimits.report import latex
from tplimits.report.text import MOST_NODES, Writer
from tplimits.version import VERSION

if TYPE_CHECKING:
    from tplimits.law.kets import Ket, Step
    from tplimits.law.state import Derivation
    from tplimits.numbers.number import Number
    from tplimits.program.nodes.program import Program

#: what the files say they are
LIMIT, NUMBERS = "tplimits width limit", "tplimits numbers"


def width_limit(program: Program, state: Derivation) -> dict[str, Any]:
    """Kets, scalars and what stands in them; expressions as SymPy text and as LaTeX."""
    return {
        "scalars": [
            {"name": state.label(key), "limit": _expression(state, value)}
            for key, value in state.scalars.items()
            if not isinstance(program[key[0]], InitialScalar)
        ],
        "covariances": [
            {"left": str(a), "right": str(b), "value": _expression(state, value)}
            for (a, b), value in state.covariances.items()
        ],
        "kets": [_ket(state, ket) for ket in state.kets.values()],
        "constants": _constants(state),
    }


def numbers(values: Mapping[str, Number]) -> dict[str, Any]:
    """The numbers of a width limit with their errors."""
    return {
        label: {
            "value": number.value,
            "error": number.error,
            "method": number.method,
            "variance": number.variance,
            "variance_error": number.variance_error,
            "degrees_of_freedom": number.degrees,
        }
        for label, number in values.items()
    }


def numbers_document(program: Program, **parts: Any) -> str:
    """What `evaluate` gave, as JSON."""
    return written_document({"format": NUMBERS, "tplimits": VERSION, "program": program.name, **parts})


def written_document(document: Mapping[str, Any]) -> str:
    """The text of a file."""
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _expression(state: Derivation, expr: Expr) -> dict[str, str]:
    written = state.engine.written_out(expr, MOST_NODES)
    return {"sympy": sympy.sstr(written), "latex": latex.expression(state, written)}


def _constants(state: Derivation) -> list[dict[str, Any]]:
    """What stands in the formulas by its name."""
    writer = Writer(state)
    for expr in (*state.scalars.values(), *state.covariances.values(), *(k.expr for k in state.kets.values())):
        writer(expr)
    return [{"name": s.name, "value": _expression(state, value)} for s, value in writer.definitions()]


def _ket(state: Derivation, ket: Ket) -> dict[str, Any]:
    found: dict[str, Any] = {"name": ket.label, "width": ket.width, "ket": _expression(state, ket.expr)}
    if ket.hat is not None:
        found["hat"] = _expression(state, ket.hat)
        found["dot"] = [
            {"partner": t.partner, "operand": t.operand, "coefficient": _expression(state, t.coefficient)}
            for t in ket.dot
        ]
    return found


def step_document(step: Step) -> dict[str, Any]:
    """One step of a derivation: rule, premises, conclusion, reference."""
    return {
        "rule": step.rule,
        "premises": list(step.premises),
        "conclusion": step.conclusion,
        "reference": step.reference.text,
        "citation": step.reference.citation,
        "remarks": list(step.remarks),
    }
