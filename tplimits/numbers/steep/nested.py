"""Functions of means that a steep function moves: exp(−(10⁴ (s − 1))²) where s is 0 beside a peak, and 1 on it.

Replicates that all pass by the peak agree on s, whose error they do not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import Array
from tplimits.numbers.steep.doubts import doubts
from tplimits.numbers.steep.errors import Again, SteepError, changes

if TYPE_CHECKING:
    from tplimits.numbers.steep.doubts import Doubt
    from tplimits.numbers.steep.looking import Looking

#: means that functions read, with some of them held at these numbers
Read = Callable[[Mapping[int, Array]], Mapping[int, Array]]


def nested_errors(
    looking: Looking,
    bent: Sequence[Doubt],
    results: Array,
    again: Again,
    read: Read,
    rest: Callable[[int], Array],
    names: Callable[[int], str],
) -> Array:
    """What functions add to errors of results that are steep between the means which other steep ones move.

    SteepError as in `errors`.
    """
    more = numpy.zeros(results.shape[1])
    for one in (doubt for doubt in bent if doubt.is_steep):
        moved = [p for p in looking.readers.sources if one.position in looking.program.behind([p])]
        here = read(one.middle) if moved else {}
        for place in one.places if moved else ():
            there = read(place)
            rows = {
                p: numpy.stack([x, there[p] if p in moved else x])
                for p, x in here.items()
                if p in looking.readers.sources
            }
            found = [doubt for doubt in doubts(looking, rows) if doubt.is_steep]
            try:
                more = numpy.hypot(more, changes(found, results, again, rest, names))
            except SteepError as error:  # who knows the means behind the first knows those that it moves
                raise SteepError(str(error), {*error.positions, *one.middle}) from None
    return more
