"""The names of a program as sets, made once: verifying a program asks for them at every instruction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sympy import Symbol

from tplimits.program.nodes.entries import N, constant_symbol, size_symbol, width_symbol

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


@dataclass(frozen=True)
class Known:
    """Widths and axes by name, widths as symbols, and `numbers`: all symbols that stand for numbers."""

    widths: frozenset[str]
    axes: frozenset[str]
    width_symbols: frozenset[Symbol]
    numbers: frozenset[Symbol]


def known_names(program: Program) -> Known:
    """The names of a program."""
    widths = frozenset(map(width_symbol, program.widths))
    sizes, constants = map(size_symbol, program.all_axes), map(constant_symbol, program.constants)
    return Known(
        frozenset(program.widths), frozenset(program.all_axes), widths, frozenset((N, *widths, *constants, *sizes))
    )


def root_axes(size_of: Mapping[str, str]) -> dict[str, str]:
    """For each axis that takes its size from another, the last in that chain (any of them in a circle).

    >>> root_axes({"a": "b", "b": "c"})
    {'a': 'c', 'b': 'c'}
    """
    found: dict[str, str] = {}
    for axis in size_of:
        chain: dict[str, None] = {}
        while axis in size_of and axis not in found and axis not in chain:
            chain[axis] = None
            axis = size_of[axis]
        found.update(dict.fromkeys(chain, found.get(axis, axis)))
    return found
