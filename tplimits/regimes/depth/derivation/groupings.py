"""The ways to group functions of one matrix into joint cumulants, and indices that are the same within a group.

Pairings of what is linear, and partitions of what is not.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from math import comb, prod
from typing import TYPE_CHECKING, NamedTuple

from tplimits.law.closed_forms.isserlis import pairings
from tplimits.program.parts import remembered
from tplimits.regimes.depth.algebra.activations import LINEAR, Basis, partitions

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.products import Factor

Blocks = list[tuple[int, ...]]


class Kind(NamedTuple):
    """What of a function tells in which blocks it has a cumulant: `odd` is 2 where it is neither odd nor even."""

    odd: int
    linear: bool
    centred: bool


def kind(basis: Basis, centred: bool) -> Kind:
    """That of a basis function; one that is alone at its neuron and `centred` has no mean."""
    return Kind(2 if basis.odd is None else int(basis.odd), basis == LINEAR, centred)


def groupings(kinds: Sequence[Kind]) -> Iterator[Blocks]:
    """The partitions into blocks whose joint cumulants do not vanish by symmetry.

    >>> linear, square = kind(LINEAR, False), kind(Basis(2, False), True)
    >>> list(groupings([square, square, linear, linear]))
    [[(0, 1, 2, 3)], [(0, 1), (2, 3)]]
    >>> count((square, square, linear, linear))
    2
    """
    if not count(tuple(kinds)):  # an odd product: none of the dead ends is walked into
        return
    places = tuple(range(len(kinds)))
    # of a Gaussian alone only second cumulants are left
    if _are_linear(kinds):
        yield from pairings(places)
    else:
        yield from partitions(places, lambda block: _may_be_nonzero([kinds[i] for i in block]))


@remembered(1 << 12)
def count(kinds: tuple[Kind, ...]) -> int:
    """How many there are."""
    if not kinds:
        return 1
    left, found = Counter(kinds[1:]), 0
    for chosen in itertools.product(*(range(c + 1) for c in left.values())):
        block = [kinds[0], *itertools.chain(*([k] * c for k, c in zip(left, chosen, strict=True)))]
        if _may_be_nonzero(block):
            ways = prod(comb(c, taken) for c, taken in zip(left.values(), chosen, strict=True))
            rest = Counter(dict(zip(left, chosen, strict=True)))
            found += ways * count(tuple(sorted((left - rest).elements())))
    return found


def _are_linear(kinds: Sequence[Kind]) -> bool:
    return all(k.linear for k in kinds)


def _may_be_nonzero(block: Sequence[Kind]) -> bool:
    parities = [k.odd for k in block]
    if 2 not in parities and sum(parities) % 2:
        return False
    if len(block) == 1 and block[0].centred:
        return False
    return len(block) == 2 or not _are_linear(block)


def end(change: dict[int, int], index: int) -> int:
    """The index that a chain of changes ends at."""
    while index in change:
        index = change[index]
    return index


def identify(change: dict[int, int], a: int, b: int) -> list[Factor]:
    """Make two indices one; two free ones leave a factor I (1 where they are equal)."""
    a, b = end(change, a), end(change, b)
    if a == b:
        return []
    if b >= 0:
        change[b] = a
    elif a >= 0:
        change[a] = b
    else:
        return [("I", (a, b), 0)]
    return []
