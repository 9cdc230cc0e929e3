"""Losses by name as statements: χ = ∂loss/∂f for a batch, from outputs, targets and weights.

Weights are those of the targets, 0 where they are not trained on; the first scalar of a step is one over their sum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy
from sympy import Expr, Symbol

from tplimits.program.loops.form import DATA, VALUE, Array, Loop, Loops, Read, Statement
from tplimits.program.loops.updating import SCALARS
from tplimits.program.network.losses import CrossEntropy, SquaredError
from tplimits.program.nodes.entries import Kron

#: the arrays of targets and weights
TARGETS, WEIGHTS = "targets", "weights"
_SHARE = Read(Symbol(SCALARS), sympy.Integer(0))


def kind_of(loss: Any) -> tuple[str, float] | None:
    """What statements see of a loss, its labels aside; None for a function of the user's, which is no statement."""
    if type(loss) is SquaredError:
        return "squared", 0.0
    return ("entropy", loss.smoothing) if type(loss) is CrossEntropy else None


def with_signal(loops: Loops, kind: tuple[str, float] | None) -> Loops | None:
    """Loops in which χ is computed, for what `kind_of` says; None where it is not.

    The order of the extents of `f` is that of the axes of the outputs, inputs last; classes are the axis before.
    """
    if kind is None:
        return None
    word, smoothing = kind
    if word == "squared":
        return _with(loops, *_squared(loops))
    return _with(loops, *_entropy(loops, smoothing)) if len(loops.by_name["f"].extents) > 1 else None


def _with(loops: Loops, arrays: list[Array], statements: list[Statement]) -> Loops:
    before = [s for s in loops.statements if not _after(loops, s)]
    after = [s for s in loops.statements if s not in before]
    known = tuple(replace(a, role=VALUE) if a.name == "chi" else a for a in loops.arrays)
    return replace(loops, arrays=(*known, *arrays), statements=(*before, *statements, *after))


def _after(loops: Loops, s: Statement) -> bool:
    return s in loops.split("chi")[1].statements


def _indices(extents: tuple[str, ...]) -> tuple[Loop, ...]:
    return tuple(Loop(Symbol(f"i{k}", integer=True), extent) for k, extent in enumerate(extents))


def _read(array: str, loops: tuple[Loop, ...]) -> Read:
    return Read(Symbol(array), *(loop.index for loop in loops))


def _squared(loops: Loops) -> tuple[list[Array], list[Statement]]:
    extents = loops.by_name["f"].extents
    over = _indices(extents)
    difference = _read("f", over) - _read(TARGETS, over)
    body = difference * _read(WEIGHTS, over[-1:]) * _SHARE
    arrays = [Array(TARGETS, extents, DATA), Array(WEIGHTS, extents[-1:], DATA)]
    return arrays, [Statement("chi", tuple(loop.index for loop in over), over, body)]


def _entropy(loops: Loops, smoothing: float) -> tuple[list[Array], list[Statement]]:
    extents = loops.by_name["f"].extents
    rest = (*extents[:-2], extents[-1])
    size = loops.extents[extents[-2]]
    over, without = _indices(extents), _indices(rest)
    label = (*over[:-2], over[-1])
    inner = Loop(Symbol(f"i{len(rest)}", integer=True), extents[-2])
    at = (*without[:-1], inner, without[-1])
    place, places = tuple(loop.index for loop in without), tuple(loop.index for loop in over)
    wanted: Expr = Kron(_read(TARGETS, label), over[-2].index)
    if smoothing:
        wanted = sympy.Float(1 - smoothing) * wanted + sympy.Float(smoothing) / sympy.Integer(size)
    weights = _read("weight", over)
    statements = [
        Statement("largest", place, without, _read("f", at), (inner,), largest=True),
        Statement("weight", places, over, sympy.exp(_read("f", over) - _read("largest", label))),
        Statement("total", place, without, _read("weight", at), (inner,)),
        Statement("chi", places, over, (weights / _read("total", label) - wanted) * _read(WEIGHTS, label) * _SHARE),
    ]
    arrays = [
        Array(TARGETS, rest, DATA, whole=True),
        Array(WEIGHTS, rest, DATA),
        Array("largest", rest, VALUE),
        Array("weight", extents, VALUE),
        Array("total", rest, VALUE),
    ]
    return arrays, statements


__all__ = ["TARGETS", "WEIGHTS", "kind_of", "with_signal"]
