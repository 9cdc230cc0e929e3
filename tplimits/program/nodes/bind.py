"""Fixing what a program leaves open: sizes of finite axes and symbolic constants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.errors import EvaluationError, ProgramError, shown
from tplimits.program.language.tracing import exact, plain
from tplimits.program.nodes.entries import constant_symbol, size_symbol
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector, Instruction, Nonlin
from tplimits.program.nodes.normalise import normalise
from tplimits.program.nodes.spec import verify

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def constant_value(program: Program, value: Any, what: str) -> Expr:
    """A value for a constant of a program, exact; messages call it `what`.

    Raises ProgramError when it is not a finite real number or an expression in widths and other
    constants of the program.
    """
    value = plain(value)
    if isinstance(value, Expr):
        try:
            value = normalise(value)
        except ValueError as error:
            raise ProgramError(f"{what}: it contains {error}; give a finite real number.") from None
        strange = value.free_symbols - program.known.numbers
        if strange:
            raise ProgramError(
                f"{what}: `{min(strange, key=str)}` is not a width or constant of `{program.name}`; "
                "use tp.n, tp.width, or a number."
            )
        return value
    if isinstance(value, (complex, numpy.complexfloating)) or (isinstance(value, float) and not math.isfinite(value)):
        raise ProgramError(f"{what}: a constant is a finite real number.")
    try:
        return exact(value)
    except TypeError:
        raise ProgramError(f"{what}: a constant is a finite real number or an expression in tp.n.") from None


def given_constants(program: Program, given: dict[str, Any]) -> dict[str, Any]:
    """The constants of a program as given, taken out of `given`, or its own; EvaluationError where one has no value."""
    found = {name: given.pop(name, default) for name, default in program.constants.items()}
    for name, value in found.items():
        if value is None:
            raise EvaluationError(
                f"the constant `{name}` of `{program.name}` has no value: give {name}=…, or "
                f"constants={{'{name}': …}} where an argument is called so."
            )
    return found


def exact_constants(program: Program, given: dict[str, Any]) -> dict[Symbol, Expr]:
    """The same by symbol, in widths and sizes alone; ProgramError for what is no constant, too."""
    values = given_constants(program, given)
    return resolved({constant_symbol(k): constant_value(program, v, f"{k}={shown(v)}") for k, v in values.items()})


def resolved(values: Mapping[Symbol, Expr]) -> dict[Symbol, Expr]:
    """The same values with references to one another written out; ProgramError where they go in a circle."""
    found = dict(values)
    # each round writes out one link at least of every chain: what is left after so many is a circle
    for _ in range(len(found) + 1):
        if not any(v.free_symbols & found.keys() for v in found.values()):
            return found
        found = {s: v.xreplace(found) for s, v in found.items()}
    names = ", ".join(sorted(s.name for s in values))
    raise ProgramError(f"the constants {names} are given in terms of one another; give at least one a number.")


def _size(name: str, value: Any) -> Expr:
    try:
        size = exact(value)
    except (TypeError, ValueError):
        size = sympy.nan
    if isinstance(value, bool) or not size.is_Integer:
        raise ProgramError(f"bind({name}={shown(value)}): the size of an axis is a whole number.")
    if size <= 0:
        raise ProgramError(f"bind({name}={value}): an axis needs at least one entry.")
    return size


def bind(program: Program, values: Mapping[str, Any]) -> Program:
    """The program with sizes and constants fixed; see `Program.bind`."""
    sizes, constants = dict(program.sizes), dict(program.constants)
    fixed: dict[Symbol, Expr] = {}
    for name, value in values.items():
        if name in program.constants:
            fixed[constant_symbol(name)] = constant_value(program, value, f"bind({name}={value!r})")
            del constants[name]
        elif name in program.known.axes:
            root, size = program.root_axis(name), _size(name, value)
            if sizes.get(root, size) != size:
                raise ProgramError(
                    f"bind({name}={value}): the axis `{name}` already has size {sizes[root]}; leave it out, or trace "
                    "the program with another array."
                )
            sizes[root] = size
        else:
            known = ", ".join([*program.all_axes, *program.constants]) or "none at all"
            raise ProgramError(f"bind({name}=…): the axes and constants of `{program.name}` are {known}.")
    substitution = resolved(fixed)
    defaults = {c: None if v is None else v.xreplace(substitution) for c, v in constants.items()}
    bound = program.replace(sizes=sizes, constants=defaults)
    for axis in bound.all_axes:
        size = bound.size(axis)
        if size is not None:
            substitution[size_symbol(axis)] = size
    # constants may be stated in sizes of axes, which are known by now
    substitution = {s: v.xreplace(substitution) for s, v in substitution.items()}
    bound = bound.replace(
        instructions=tuple(_substituted(s, substitution) for s in bound.instructions),
        parts=tuple(bind(part, _known_to(part, values)) for part in program.parts),
    )
    try:
        # a number may break a rule that a symbol does not: a power of n that is no rational, a division by 0
        verify(bound)
    except ProgramError as error:
        given = ", ".join(f"{name}={value}" for name, value in values.items())
        raise ProgramError(f"bind({given}): {error}") from None
    return bound


def _known_to(part: Program, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values that a block of a stack has a place for."""
    return {k: v for k, v in values.items() if k in part.constants or k in part.all_axes}


def _substituted(instruction: Instruction, substitution: Mapping[Expr, Expr]) -> Instruction:
    if not substitution:
        return instruction
    if isinstance(instruction, Nonlin):
        return replace(instruction, body=instruction.body.xreplace(substitution))
    if isinstance(instruction, (InitialMatrix, InitialVector)):
        return replace(instruction, law=instruction.law.changed(lambda v: v.xreplace(substitution)))
    if isinstance(instruction, InitialScalar):
        value = None if instruction.value is None else instruction.value.xreplace(substitution)
        return replace(instruction, value=value, law=instruction.law.changed(lambda v: v.xreplace(substitution)))
    return instruction
