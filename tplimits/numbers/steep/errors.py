"""Functions of scalars that are means over particles, where they vary within the errors of these means.

    tanh(10⁵ (r − q)) is 1 or −1 in every replicate, and 0 in the limit if r = q there

A scalar s is known as a mean over replicates, with the error of that mean.  What is smooth within it has the error that
replicates show.  A *steep* function of s varies by much within it, so that replicates show neither its value nor its
error: all of them may be 1 where the limit is 0, as tanh² beside the zero of its argument.

All means are moved together along straight *ways*, from their mean over replicates towards each replicate, so that
what cancels in every replicate cancels there, too.  On a way each function of scalars is looked at between the ends,
and where a part of it changes its sign.  What it does to a result is asked of the same particles with these means held.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.number import standard_error

if TYPE_CHECKING:
    from tplimits.numbers.steep.doubts import Doubt

#: a result is no number where it moves by more than this part of itself, and than its error
_MOVES = 0.05
#: relative rounding of results
_ROUNDING = 1e-12
#: replicates that tell how far a result is moved
_TOLD_BY = 2
#: results of some replicates, (replicates, results), with some means held at these numbers
Again = Callable[[Mapping[int, Array], Sequence[int]], Array]


class SteepError(EvaluationError):
    """A result rests on a steep function; `positions` are those of the means that it is steep in."""

    def __init__(self, told: str, positions: Collection[int] = ()) -> None:
        super().__init__(told)
        self.positions = frozenset(positions)


def errors(
    bent: Sequence[Doubt], results: Array, again: Again, rest: Callable[[int], Array], names: Callable[[int], str]
) -> Array:
    """What functions that are not straight add to the errors of the mean of results (replicates, results).

    `rest` tells which results rest on an instruction, `names` what they are called.  SteepError where a steep function
    moves one by more than is small beside it and its error.
    """
    if not bent:
        return numpy.zeros(results.shape[1])
    steep = changes(bent, results, again, rest, names)
    # the mean of a bent function is not the function of the mean
    middle = {p: x for one in bent for p, x in one.middle.items()}
    held = again(middle, range(len(results)))
    bias = numpy.where(_any(bent, rest), abs((held - results).mean(axis=0)), 0.0)
    # nor is a turn seen of which all replicates are on one side
    others = [one for one in bent if not one.is_steep]
    if not others:
        return numpy.hypot(steep, bias)
    few, between = range(min(_TOLD_BY, len(results))), {p: x for one in others for p, x in one.places[-1].items()}
    there = again({**middle, **between}, few)
    varies = numpy.where(_any(others, rest), abs(there - held[: len(few)]).mean(axis=0), 0.0)
    return numpy.hypot(numpy.hypot(steep, bias), varies)


def _any(bent: Sequence[Doubt], rest: Callable[[int], Array]) -> Array:
    """Which results rest on one of them."""
    return numpy.asarray(numpy.any([rest(one.position) for one in bent], axis=0))


def changes(
    bent: Sequence[Doubt], results: Array, again: Again, rest: Callable[[int], Array], names: Callable[[int], str]
) -> Array:
    """How far results may be moved by what is steep; SteepError where that is no number."""
    more, error = numpy.zeros(results.shape[1]), standard_error(results)
    few, asked = range(min(_TOLD_BY, len(results))), set[bytes]()
    for one, means in ((doubt, place) for doubt in bent if doubt.is_steep for place in doubt.places):
        key = b"".join(numpy.int64(p).tobytes() + x.tobytes() for p, x in sorted(means.items()))
        if key in asked:
            continue
        asked.add(key)
        halfway = {p: (x + one.middle[p]) / 2 for p, x in means.items()}
        here, half, there = (again(held, few) for held in (one.middle, halfway, means))
        # what moves in proportion has the error that replicates show
        change = numpy.where(rest(one.position), abs(there - 2 * half + here).mean(axis=0), 0.0)
        size = numpy.max([abs(there), abs(half), abs(here)], axis=(0, 1))
        rounding = _ROUNDING * max(float(size.max(initial=0.0)), float(abs(results).max(initial=0.0)))
        if (lost := change > numpy.maximum(_MOVES * size, error + rounding)).any():
            place = int(numpy.where(lost, change, 0.0).argmax())
            raise SteepError(
                f"no number: {one.told()}, as particles tell it, and moves {names(place)} by {change[place]:.2g} "
                "within that error: they do not tell what it is in the limit. Give more particles, or a smoother "
                "function.",
                means,
            )
        more = numpy.hypot(more, change)
    return more
