"""Whether a function of scalars is steep: bent or sudden within the errors of the means that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.arrays import Array
from tplimits.numbers.number import standard_error
from tplimits.numbers.steep.looking import Looking, of_scalars
from tplimits.numbers.steep.readers import parts
from tplimits.numbers.steep.ways import ROUNDING, Ways
from tplimits.program.nodes.entries import with_names
from tplimits.program.nodes.kinds import OuterNonlin, ScalarNonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.kinds import Nonlin

#: places of a way in units of its end
_PLACES = numpy.linspace(-1.0, 1.0, 13)
#: ways that are gone, changes of sign on them that are looked for in one part, and steps towards each
_WAYS, _CHANGES, _STEPS = 12, 24, 40
#: parabolas that lead to a place where a part turns back
_PARABOLAS = 2
#: how near to one is enough, in ways, after a quarter of these steps
_NEAR = 1e-9
#: evaluations of one function that are made at most
_MOST = 4_000_000
#: a function is bent, or far, where it is off a straight line by more than this part of itself, and steep where as
#: much of what it varies by is within a sixth of a way
_BENT, _FAR, _STEEP = 0.02, 0.2, 0.6
#: how many times as much counts what it is beside its line through the two places next to one
_CUSP = 2.4
#: a function is noisy where it varies by more than this part of itself
_NOISY = 0.5
#: letters of a function that are shown
_SHOWN = 100
#: entries below this part of the largest do not count
_SMALL = 1e-6
#: replicates that ways lead towards, and how many errors far
_Places = tuple[NDArray[numpy.int64], Array]


@dataclass(frozen=True)
class Doubt:
    """A function that is bent within the errors of the means it reads, and these where it is looked at.

    That is where it is farthest from what it is in the middle, and where it is between what it is at the ends of a way,
    since what reads it may be even.

    `is_steep`: it varies by much within these errors, and so suddenly that replicates do not tell it.
    """

    position: int
    middle: Mapping[int, Array]
    places: tuple[Mapping[int, Array], ...]
    is_steep: bool
    told: Callable[[], str]


def doubts(looking: Looking, rows: Mapping[int, Array], noisy: bool = False) -> list[Doubt]:
    """The functions that are bent, given the means that they read in every replicate.

    `noisy`: and those that are no larger than what they vary by, of whose squares nothing is known but these errors.
    """
    if not rows:
        return []
    ways, bent = Ways(rows), []
    with numpy.errstate(all="ignore"):
        for position, means in looking.readers.means.items():
            if ways.is_open(means) and (one := _doubt(looking, ways, position, noisy)) is not None:
                bent.append(one)
    return bent


def _doubt(looking: Looking, ways: Ways, position: int, noisy: bool) -> Doubt | None:
    """Whether one function is bent, on as many ways as it is not too long for."""
    s, means = looking.program[position], looking.readers.means[position]
    assert isinstance(s, (ScalarNonlin, OuterNonlin))
    count = int(min(_WAYS, ways.replicates, max(2, _MOST // (len(_PLACES) * looking.cost(s)))))
    towards, z = numpy.repeat(numpy.arange(count), len(_PLACES)), numpy.tile(ways.end * _PLACES, count)
    looking.go(ways.at(towards, z))
    values = looking.of(s)
    on_grid = towards, z
    for part in parts(s.body, frozenset(looking.readers.scalars)):
        looking.go(ways.at(*on_grid))
        of_part = looking.part(s, part).reshape(count, len(_PLACES), -1)
        for turns in (_zeros, _extrema):
            more = turns(looking, ways, s, part, of_part)
            if more[0].size:
                looking.go(ways.at(*more))
                values = numpy.concatenate([values, looking.of(s)])
                towards, z = (numpy.concatenate(both) for both in zip((towards, z), more, strict=True))
    off, sharp, varies = _bends(values, towards, z / ways.end, count)
    entry = int((sharp if (sharp > _STEEP).any() else off).argmax())
    if off[entry] <= _BENT and not (noisy and (varies > _NOISY).any()):
        return None
    chosen = values[:, entry]
    from_middle, from_low, from_high = (
        _finite(abs(chosen - chosen[k]))
        for k in (len(_PLACES) // 2, towards * len(_PLACES), (towards + 1) * len(_PLACES) - 1)
    )
    far, between = int(from_middle.argmax()), int(numpy.minimum(from_low, from_high).argmax())
    middle, *places = (
        {p: x[0] for p, x in ways.at(towards[[k]], scale * z[[k]], means).items()}
        for k, scale in ((far, 0.0), (far, 1.0), (between, 1.0))
    )
    return Doubt(position, middle, tuple(places), bool(sharp[entry] > _STEEP), partial(_told, looking, ways, s))


def _finite(sizes: Array) -> Array:
    """Sizes at particles, the last axis, as their mean; what is no number does not count."""
    found: Array = numpy.nan_to_num(sizes, posinf=0.0).mean(axis=-1)
    return found


def _bends(values: Array, towards: NDArray[numpy.int64], z: Array, count: int) -> tuple[Array, Array, Array]:
    """How far entries of a function are off straight lines, how sharp their turns are, and how far they vary.

    All but the turns beside their size.

    Given are values (places, entries, particles): those at `_PLACES` of so many ways, then others between them.
    """
    size = _finite(abs(values)).max(axis=0)
    size = numpy.maximum(size, _SMALL * size.max(initial=0.0)) + 1e-300
    grid = values[: count * len(_PLACES)].reshape(count, len(_PLACES), *values.shape[1:])
    low, high, at = grid[:, 0][towards], grid[:, -1][towards], z.reshape(-1, 1, 1)
    off = _finite(abs(values - (low + high) / 2 - at * (high - low) / 2)).max(axis=0) / size
    # of all that a function varies by on ways, what it does within a sixth of one
    whole = _finite(grid.max(axis=1) - grid.min(axis=1)).max(axis=0)
    within = _finite(abs(grid[:, 2:] - grid[:, :-2])).max(axis=1)
    # beside its line through the two places next to it
    next_to = numpy.clip(numpy.searchsorted(_PLACES, z) - 1, 0, len(_PLACES) - 2)
    before, after = grid[towards, next_to], grid[towards, next_to + 1]
    share = ((z - _PLACES[next_to]) / (_PLACES[1] - _PLACES[0])).reshape(-1, 1, 1)
    beside = _finite(abs(values - before - share * (after - before)))
    # a cusp is half as high there as at its ends, and a parabola a thirtieth
    sudden = numpy.maximum(within.max(axis=0), _CUSP * beside.max(axis=0))
    sharp = numpy.where(off > _FAR, sudden / (numpy.maximum(whole, beside.max(axis=0)) + 1e-300), 0.0)
    return off, sharp, whole / size


def _zeros(looking: Looking, ways: Ways, s: Nonlin, part: Expr, values: Array) -> _Places:
    """Where a part changes its sign between places of ways, given its values (ways, places, values)."""
    changes = numpy.argwhere((values[:, 1:] > 0) != (values[:, :-1] > 0))[:_CHANGES]
    towards, place, column = changes.T
    if not len(changes):
        return towards, place.astype(float)
    low, high = ways.end * _PLACES[place], ways.end * _PLACES[place + 1]
    below, above = values[towards, place, column], values[towards, place + 1, column]
    each, z, side = numpy.arange(len(changes)), (low + high) / 2, numpy.zeros(len(changes), dtype=bool)
    # false position with halved ends (Illinois): as safe as halving, and as fast as a secant
    for step in range(_STEPS):
        before, z = z, low - below * (high - low) / (above - below)
        z = numpy.where((z > low) & (z < high), z, (low + high) / 2)
        looking.go(ways.at(towards, z))
        here = looking.part(s, part)
        here = here[each, column] if here.shape[1] > 1 else here[:, 0]
        same = (here > 0) == (above > 0)
        again = side == same if step else numpy.zeros_like(same)
        low, high, side = numpy.where(same, low, z), numpy.where(same, z, high), same
        below = numpy.where(same, numpy.where(again, below / 2, below), here)
        above = numpy.where(same, here, numpy.where(again, above / 2, above))
        # few more once it is near: rounding keeps the last digits moving
        if abs(z - before).max() <= (_NEAR if step > _STEPS // 4 else ROUNDING) * ways.end or not here.any():
            break
    return towards, z


def _extrema(looking: Looking, ways: Ways, s: Nonlin, part: Expr, values: Array) -> _Places:
    """Where a part turns back between places of ways, as a square does at its zero, by parabolas."""
    rises = numpy.diff(values, axis=1) > 0
    towards, place, column = numpy.argwhere(rises[:, 1:] != rises[:, :-1])[:_CHANGES].T
    each, near, z = numpy.arange(len(towards)), ways.end * (_PLACES[1] - _PLACES[0]), ways.end * _PLACES[place + 1]
    before, here, after = (values[towards, place + k, column] for k in range(3))
    for _ in range(_PARABOLAS if len(towards) else 0):
        z = z + numpy.clip(numpy.nan_to_num(near / 2 * (before - after) / (before - 2 * here + after)), -near, near)
        near /= 4
        looking.go(ways.at(numpy.tile(towards, 3), numpy.concatenate([z - near, z, z + near])))
        found = looking.part(s, part)
        columns = column if found.shape[1] > 1 else numpy.zeros_like(column)
        before, here, after = (found[k * len(z) + each, columns] for k in range(3))
    return towards, z


def _told(looking: Looking, ways: Ways, s: Nonlin) -> str:
    """A function, and what in it is nearest to 0 beside its error."""
    program = looking.program

    def shown(expr: Expr) -> str:
        text = with_names(expr, lambda entry: program[entry.source].name, indexed=False)
        return text if len(text) <= _SHOWN else text[:_SHOWN] + " …"

    nearest: tuple[float, str] = (numpy.inf, "")
    read = [part.primitive()[1] for part in parts(s.body, frozenset(looking.readers.scalars)) if of_scalars(part)]
    with numpy.errstate(all="ignore"):
        looking.go(ways.rows)
        for part in read:
            values = looking.part(s, part)
            mean, error = values.mean(axis=0), standard_error(values)
            beside = numpy.where(error > 0, abs(mean) / error, numpy.inf)
            place = int(beside.argmin())
            nearest = min(nearest, (float(beside[place]), f"`{shown(part)}` is {mean[place]:.2g} ± {error[place]:.1g}"))
    where = f" where {nearest[1]}" if nearest[1] else " within the errors of the means that it reads"
    return f"`{shown(s.body)}` is steep{where}"
