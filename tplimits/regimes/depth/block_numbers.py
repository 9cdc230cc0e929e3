"""Numbers for the constants, sizes and width ratios of a block, as its coefficients need them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Symbol

from tplimits.errors import EvaluationError
from tplimits.program.nodes.entries import Entry, constant_symbol, size_symbol, width_symbol
from tplimits.program.nodes.given import by_name, finite_number, width_ratios
from tplimits.program.nodes.kinds import OuterNonlin, ScalarNonlin
from tplimits.regimes.depth.algebra.coefficients import ratio_symbol
from tplimits.regimes.depth.algebra.writing import M

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def block_numbers(
    program: Program, fixed: tuple[str, ...], m: int, constants: Any = None, ratios: Any = None
) -> dict[Symbol, float]:
    """Numbers for the symbols of the coefficients at m tokens.

    Raises EvaluationError for a name the program does not have, for what is no number, for a size or ratio that is not
    positive, and for constants at which a root of the block is not real.
    """
    found: dict[Symbol, float] = {M: float(m)}
    given = {**{c: v for c, v in program.constants.items() if v is not None}}
    for name, value in {**given, **by_name(constants, "constants", EvaluationError)}.items():
        number = finite_number(name, value, EvaluationError)
        if name in program.constants:
            found[constant_symbol(name)] = number
        elif name in program.all_axes or name in fixed:
            if number < 1 or number != int(number):
                raise EvaluationError(f"{name}={value!r}: a size is a whole number from 1.")
            axis = name in program.all_axes
            tokens = program[program.state or 0].axes[0]
            if axis and program.root_axis(name) == program.root_axis(tokens) and number != m:
                raise EvaluationError(f"{name}={value!r}: V is for {m} tokens.")
            found[size_symbol(program.root_axis(name)) if axis else width_symbol(name)] = number
        else:
            known = ", ".join([*program.constants, *fixed]) or "none"
            raise EvaluationError(f"`{name}` is not a constant of `{program.name}`; it has {known}.")
    growing = [w for w in program.widths if w != "n" and w not in fixed]
    relative = width_ratios(program.name, growing, ratios, EvaluationError)
    found.update({ratio_symbol(w): float(ratio) for w, ratio in relative.items()})
    _refuse_imaginary_roots(program, found)
    return found


def _refuse_imaginary_roots(program: Program, found: Mapping[Symbol, float]) -> None:
    """√(1 − γ²) at γ = 1.5 is no coefficient of a real network, even where only its square enters the limit."""
    for power in _roots_of_constants(program):
        value = power.base.xreplace({s: sympy.Float(v, 17) for s, v in found.items()})
        if value.is_number and value.is_real and value < -1e-12:
            raise EvaluationError(f"`{power}` of `{program.name}` is not real: {power.base} = {float(value):.6g} < 0.")


def _roots_of_constants(program: Program) -> Iterator[sympy.Pow]:
    parts = program.parts or (program,)
    for part in parts:
        for instruction in part.instructions:
            if isinstance(instruction, (OuterNonlin, ScalarNonlin)):
                for power in instruction.body.atoms(sympy.Pow):
                    if power.exp.is_Rational and not power.exp.is_Integer and not power.base.has(Entry):
                        yield power
