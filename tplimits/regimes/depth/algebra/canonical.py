"""The canonical form of a product of tensors: two products are equal as graphs iff their forms are.

Summed indices are unlabelled vertices, free ones labelled; factors are edges.  Colours of vertices are refined by the
factors they stand in; what refinement leaves equal is told apart by trying each choice and keeping the least form, one
choice of those that a symmetry exchanges: of ten equal traces one, where all would be ten factorial.  As
polynomials in V, different graphs are linearly independent once there are as many tokens as indices, so that the
canonical form decides equality for a symbolic number of tokens.

>>> a = canonical((("V", (3, -1), 0), ("V", (7, 3), 0)))
>>> b = canonical((("V", (4, 9), 0), ("V", (-1, 4), 0)))
>>> a, a == b
((('V', (-1, 0), 0), ('V', (0, 1), 0)), True)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from tplimits.program.parts import remembered
from tplimits.regimes.depth.algebra.products import SPAN, Factor, Factors

#: factors that do not change when their two indices are exchanged, by the first letter of their label
SYMMETRIC = frozenset("VNISκDB")
#: labels of vertices that are told apart lie beyond those of free indices
_LABELS = 1 << 40


def _place(factor: Factor, number: Mapping[int, int]) -> Factor:
    label, at, copy = factor
    new = [number[i] if i >= 0 else i for i in at]
    if label[0] in SYMMETRIC:
        new.sort()
    return label, tuple(new), copy


@remembered(1 << 18)
def canonical(factors: Factors) -> Factors:
    """The canonical form of a product."""
    colour = {i: i // SPAN for _, at, _ in factors for i in at if i >= 0}
    return _least(factors, colour)


def _least(factors: Factors, colour: dict[int, int]) -> Factors:
    colour = _refined(factors, colour)
    shared = [c for c, count in Counter(colour.values()).items() if count > 1]
    if not shared:
        return _numbered(factors, colour)
    first = min(shared)
    twins = {i: c for i, c in colour.items() if c in shared}
    forms: dict[Factors, dict[int, int]] = {}
    for chosen in [i for i, c in colour.items() if c == first]:
        # one of the equal vertices gets a colour of its own, between the others
        split = {i: 2 * c + 1 for i, c in colour.items()}
        split[chosen] -= 1
        # of choices that a symmetry exchanges one is enough: their least forms are equal
        forms.setdefault(_piece(factors, split, chosen, twins), split)
    return min(_least(factors, split) for split in forms.values())


def _piece(factors: Factors, colour: Mapping[int, int], chosen: int, twins: Collection[int]) -> Factors:
    """The form of the connected piece around a vertex, its colours in it; vertices without twins stand as labels.

    Where it is the same for two vertices, a symmetry of the whole graph exchanges them.
    """
    around = _around(factors, chosen, twins)
    number = {i: i if i in around else -_LABELS - c for i, c in colour.items()}
    own = [(label, tuple(number.get(i, i) for i in at), copy) for label, at, copy in factors if around & {*at}]
    return _of_piece((*own, *(("colour", (i,), colour[i]) for i in sorted(around))))


@remembered(1 << 16)
def _of_piece(factors: Factors) -> Factors:
    return _least(factors, {i: i // SPAN for _, at, _ in factors for i in at if i >= 0})


def _around(factors: Factors, vertex: int, vertices: Collection[int]) -> set[int]:
    """What hangs together with a vertex by factors that hold several of some vertices."""
    found = {vertex}
    held = [{i for i in at if i in vertices} for _, at, _ in factors]
    while touching := [own for own in held if not own <= found and own & found]:
        found.update(*touching)
    return found


def _numbered(factors: Factors, colour: Mapping[int, int]) -> Factors:
    count: dict[int, int] = {}
    number: dict[int, int] = {}
    for i in sorted(colour, key=lambda i: (i // SPAN, colour[i])):
        dimension = i // SPAN
        number[i] = dimension * SPAN + count.get(dimension, 0)
        count[dimension] = count.get(dimension, 0) + 1
    return tuple(sorted(_place(f, number) for f in factors))


def _refined(factors: Factors, colour: dict[int, int]) -> dict[int, int]:
    classes = len(set(colour.values()))
    while classes < len(colour):
        seen: dict[int, list[tuple]] = {i: [] for i in colour}
        for factor in factors:
            signature = _place(factor, colour)
            symmetric = factor[0][0] in SYMMETRIC
            for slot, i in enumerate(factor[1]):
                if i >= 0:
                    seen[i].append((signature, 0 if symmetric else slot))
        keys = {i: (colour[i], sorted(seen[i])) for i in colour}
        ranks: dict[int, int] = {}
        rank = -1
        previous = None
        for i in sorted(keys, key=lambda i: keys[i]):
            if keys[i] != previous:
                rank, previous = rank + 1, keys[i]
            ranks[i] = rank
        # nothing was told apart in this round: further rounds would not either
        if rank + 1 == classes:
            return ranks
        colour, classes = ranks, rank + 1
    return {i: rank for rank, i in enumerate(sorted(colour, key=colour.__getitem__))}  # all of them are told apart
