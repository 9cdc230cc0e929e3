"""Loops with fewer arrays: what nobody needs is left out, what one statement reads is written into it.

What is the same for all neurons is computed once, and a sum of it over neurons is so many times it: gradients of what
does not depend on neurons arrive as means of such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

import sympy
from sympy import Expr, Symbol

from tplimits.program.loops.form import CONSTANT, VALUE, Array, Loops, Read, Statement, is_costly
from tplimits.program.nodes.entries import width_symbol
from tplimits.program.parts import remembered


def merged(loops: Loops, wanted: Collection[str]) -> Loops:
    """The loops that fill the arrays `wanted`, with as few others as is cheap."""
    loops = _needed(loops, wanted)
    while (
        smaller := _counted(loops) or _narrowed(loops, wanted) or _inlined(loops, wanted) or _forwarded(loops, wanted)
    ) is not None:
        loops = smaller
    return _needed(loops, wanted)


def _counted(loops: Loops) -> Loops | None:
    """The loops with one sum over neurons less to go through for terms that are the same for all of them."""
    for number, s in enumerate(loops.statements):
        loop = next((one for one in s.summed if one.extent in loops.widths and not s.largest), None)
        if loop is None:
            continue
        same, rest = _apart(s.body, loop.index)
        if same == 0:
            continue
        summed = tuple(one for one in s.summed if one is not loop)
        # a sum of n equal terms is n times one
        once = replace(s, body=same, summed=summed, scale=s.scale * width_symbol(loop.extent))
        found = (once,) if rest == 0 else (replace(s, body=rest), replace(once, add=True))
        return replace(loops, statements=(*loops.statements[:number], *found, *loops.statements[number + 1 :]))
    return None


def _narrowed(loops: Loops, wanted: Collection[str]) -> Loops | None:
    """The loops with one array that is the same for all neurons of a width without the dimension of these."""
    writers: dict[str, list[Statement]] = {}
    for s in loops.statements:
        writers.setdefault(s.target, []).append(s)
    for array in loops.arrays:
        if array.role != VALUE or array.name in wanted or array.name not in writers:
            continue
        for k, extent in enumerate(array.extents):
            if extent in loops.widths and all(_is_same_along(s, k) for s in writers[array.name]):
                return _without(loops, array, k)
    return None


# statements are asked again after every step
@remembered(4096)
def _apart(body: Expr, index: Symbol) -> tuple[Expr, Expr]:
    """The terms of a body that are the same for all values of an index, and the others."""
    same, rest = body.as_independent(index, as_Add=True)
    return same, rest


@remembered(4096)
def _free(expr: Expr) -> frozenset[Symbol]:
    return frozenset(expr.free_symbols)


def _is_same_along(s: Statement, k: int) -> bool:
    """Whether a statement fills its target with the same along one dimension."""
    index, others = s.indices[k], (s.body, s.scale, *s.indices[:k], *s.indices[k + 1 :])
    running = any(loop.index == index for loop in s.loops)
    return running and not any(index in _free(e) for e in others) and all(r.array != s.target for r in s.reads)


def _without(loops: Loops, array: Array, k: int) -> Loops:
    """The loops with an array that lacks one dimension."""

    def thinner(expr: Expr) -> Expr:
        held = [r for r in expr.atoms(Read) if r.array == array.name]
        return expr.xreplace({r: Read(r.args[0], *r.indices[:k], *r.indices[k + 1 :]) for r in held})

    def written(s: Statement) -> Statement:
        if s.target != array.name:
            return replace(s, body=thinner(s.body), scale=thinner(s.scale))
        rest = tuple(loop for loop in s.loops if loop.index != s.indices[k])
        return replace(s, indices=s.indices[:k] + s.indices[k + 1 :], loops=rest)

    extents = array.extents[:k] + array.extents[k + 1 :]
    arrays = tuple(replace(a, extents=extents) if a is array else a for a in loops.arrays)
    return replace(loops, arrays=arrays, statements=tuple(map(written, loops.statements)))


def _forwarded(loops: Loops, wanted: Collection[str]) -> Loops | None:
    """The loops with one array less, whose only reader copies it, times a number; it is written there directly."""
    readers = Counter(name for s in loops.statements for name in {r.array for r in s.reads})
    for copy in loops.statements:
        plain = not (copy.summed or copy.add or copy.scatters) and isinstance(copy.body, Read)
        if not plain or copy.body.indices != copy.indices:
            continue
        source = loops.by_name[copy.body.array]
        if source.role != VALUE or source.name in wanted or readers[source.name] != 1:
            continue
        if sum(s.target == copy.target for s in loops.statements) == 1 and not copy.scale.has(Read):
            rest = [
                replace(s, target=copy.target, scale=s.scale * copy.scale) if s.target == source.name else s
                for s in loops.statements
                if s is not copy
            ]
            return replace(loops, statements=tuple(rest))
    return None


def _needed(loops: Loops, wanted: Collection[str]) -> Loops:
    needed, kept = set(wanted), []
    for s in reversed(loops.statements):
        if s.target in needed:
            kept.append(s)
            needed.update(r.array for r in s.reads)
    arrays = tuple(a for a in loops.arrays if a.role not in (VALUE, CONSTANT) or a.name in needed)
    return replace(loops, arrays=arrays, statements=tuple(reversed(kept)))


def _inlined(loops: Loops, wanted: Collection[str]) -> Loops | None:
    """The loops with one array less; None where every array is worth its place."""
    writers = Counter(s.target for s in loops.statements)
    readers: dict[str, list[int]] = {}
    for k, s in enumerate(loops.statements):
        for name in {r.array for r in s.reads}:
            readers.setdefault(name, []).append(k)
    for s in loops.statements:
        if s.target in wanted or writers[s.target] != 1 or loops.by_name[s.target].role != VALUE or not _is_cheap(s):
            continue
        using = [loops.statements[j] for j in readers.get(s.target, ())]
        trivial = isinstance(s.body, Read) and s.scale == 1
        # written into several readers it would be computed several times; a mere copy costs nothing
        if using and (len(using) == 1 or trivial) and all(_fits(s, other, trivial) for other in using):
            rest = [_with(other, s) if other in using else other for other in loops.statements if other is not s]
            return replace(loops, statements=tuple(rest))
    return None


def _is_cheap(s: Statement) -> bool:
    """Whether a statement is elementwise arithmetic."""
    if s.summed or s.add or s.scatters:
        return False
    return not any(
        is_costly(e) for e in sympy.preorder_traversal(s.body) if e.args and e.has(Read) and not isinstance(e, Read)
    )


def _fits(s: Statement, other: Statement, trivial: bool) -> bool:
    """Whether writing `s` into another statement neither repeats work nor reads at looked-up places."""
    # a maximum is compared once and summed by others: its body must be what these see
    if other.largest and not trivial:
        return False
    found = [r for r in other.reads if r.array == s.target]
    if any(r not in other.body.atoms(Read) and r not in other.scale.atoms(Read) for r in found):
        return False
    running = {loop.index for loop in (*other.loops, *other.summed)}
    if any(len({*r.indices} & running) != len(r.indices) for r in found):
        return False
    return trivial or (len(found) == 1 and len(running) == len(found[0].indices))


def _with(other: Statement, s: Statement) -> Statement:
    """A statement with the body of another in place of its array."""
    swap: dict[Expr, Expr] = {}
    own = [loop.index for loop in s.loops]
    # through fresh names: an index of the one may be called like another index of the other
    fresh = [Symbol(f"x{k}", integer=True) for k in range(len(own))]
    body = (s.scale * s.body).xreplace(dict(zip(own, fresh, strict=True)))
    for read in other.reads:
        if read.array == s.target:
            swap[read] = body.xreplace(dict(zip(fresh, read.indices, strict=True)))
    return replace(other, body=other.body.xreplace(swap), scale=other.scale.xreplace(swap))
