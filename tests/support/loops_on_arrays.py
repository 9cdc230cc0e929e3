"""Loops on NumPy arrays, statement by statement: what compiled code is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy
import sympy
from numpy.typing import NDArray
from sympy import Expr, Symbol

from tplimits.program.loops.form import CONSTANT, Loops, Read, Statement
from tplimits.program.nodes.entries import Kron
from tplimits.program.nodes.evaluate import evaluate

Array = NDArray[Any]


def run(loops: Loops, sizes: Mapping[str, int], given: Mapping[str, Any]) -> dict[str, Array]:
    """All arrays by name; `sizes` gives the extents that are open, `given` the arrays that are not computed."""
    full = {e: size if size is not None else sizes[e] for e, size in loops.extents.items()}
    arrays: dict[str, Array] = {}
    filled = {s.target for s in loops.statements}
    for a in loops.arrays:
        shape = tuple(full[e] for e in a.extents)
        if a.role == CONSTANT:
            assert a.values is not None
            arrays[a.name] = a.values.values
        elif a.name in given and a.name not in filled:
            arrays[a.name] = numpy.broadcast_to(given[a.name], shape)
        else:
            arrays[a.name] = numpy.zeros(shape)
    with numpy.errstate(all="ignore"):
        for s in loops.statements:
            _state(s, full, arrays)
    return arrays


def _state(s: Statement, sizes: Mapping[str, int], arrays: dict[str, Array]) -> None:
    order = (*s.loops, *s.summed)
    known: dict[Expr, Any] = {Symbol(e): float(size) for e, size in sizes.items()}
    known |= {sympy.Symbol(e, positive=True): float(size) for e, size in sizes.items()}
    places: dict[Expr, Any] = {}
    for k, loop in enumerate(order):
        places[loop.index] = numpy.arange(sizes[loop.extent]).reshape([-1 if j == k else 1 for j in range(len(order))])
    for read in sorted(s.reads, key=lambda r: len(r.atoms(Read))):
        known[read] = places[read] = _read(read, places, arrays)
    for kron in s.body.atoms(Kron):
        known[kron] = (_at(kron.args[0], places) == _at(kron.args[1], places)).astype(float)
    shape = tuple(sizes[loop.extent] for loop in order)
    summed = tuple(range(len(s.loops), len(order)))
    if s.product is not None:
        value = _product(s, known, len(order))
    else:
        value = numpy.broadcast_to(evaluate(s.body, known), shape)
        if s.summed:
            value = value.max(axis=summed) if s.largest else value.sum(axis=summed)
    scale = numpy.asarray(evaluate(s.scale, known))
    if scale.ndim:
        scale = scale.reshape(scale.shape[: len(s.loops)])
    value = numpy.broadcast_to(value * scale, shape[: len(s.loops)])
    target = arrays[s.target]
    own = {loop.index: places[loop.index].reshape(places[loop.index].shape[: len(s.loops)]) for loop in s.loops}
    for read in set().union(*(i.atoms(Read) for i in s.indices)):
        own[read] = places[read].reshape(places[read].shape[: len(s.loops)])
    at = tuple(numpy.broadcast_to(_at(i, own), value.shape) for i in s.indices)
    if not s.scatters:
        target[...] = target + value if s.add else value
        return
    present = numpy.ones(value.shape, dtype=bool)
    for place in at:
        present &= place >= 0
    found = tuple(place[present] for place in at)
    if s.add:
        numpy.add.at(target, found, value[present])
    else:
        target[found] = value[present]


def _at(index: Expr, places: Mapping[Expr, Any]) -> Any:
    return int(index) if index.is_Integer else places[index]


def _read(read: Read, places: Mapping[Expr, Any], arrays: Mapping[str, Array]) -> Any:
    array = arrays[read.array]
    if not read.indices:
        return array
    at = tuple(_at(i, places) for i in read.indices)
    value = array[at]
    if array.dtype.kind == "i":
        return value
    for place in at:
        if numpy.min(place) < 0:
            value = numpy.where(numpy.asarray(place) < 0, 0.0, value)
    return value


def _product(s: Statement, known: Mapping[Expr, Any], dimensions: int) -> Array:
    """A product of matrices, without all products of entries."""
    assert s.product is not None
    letters = "abcdefghijklmnop"[:dimensions]
    operands, terms = [], []
    for factor in s.product:
        array = numpy.asarray(known[factor])
        array = array.reshape((1,) * (dimensions - array.ndim) + array.shape)
        kept = [k for k in range(dimensions) if array.shape[k] != 1]
        operands.append(array.reshape([array.shape[k] for k in kept]))
        terms.append("".join(letters[k] for k in kept))
    out = letters[: len(s.loops)]
    held = [letter for letter in out if any(letter in term for term in terms)]
    if letters[-1] not in "".join(terms):  # an index of one value
        terms[0] += letters[-1]
        operands[0] = operands[0][..., None]
    found = numpy.einsum(f"{terms[0]},{terms[1]}->{''.join(held)}", *operands, optimize=True)
    return numpy.asarray(found.reshape([found.shape[held.index(k)] if k in held else 1 for k in out]))
