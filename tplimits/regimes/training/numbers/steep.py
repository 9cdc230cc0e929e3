"""Steep functions of scalars in training: `tplimits.numbers.steep`, asked at some times of a run.

What is steep because a scalar vanishes by an identity is so at the start; of later times 1, 2, 4, … are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import Array
from tplimits.numbers.number import standard_error
from tplimits.numbers.steep.doubts import Doubt, doubts
from tplimits.numbers.steep.errors import errors
from tplimits.numbers.steep.looking import few_seen
from tplimits.numbers.steep.readers import Readers, readers_of
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.kinds import InitialScalar
from tplimits.program.parts import holds

if TYPE_CHECKING:
    from sympy import Expr

    from tplimits.numbers.steep.looking import Looking
    from tplimits.program.network.total import TotalProgram
    from tplimits.program.nodes.execution import Execution
    from tplimits.program.nodes.program import Program

#: numbers of one instruction that are kept at one time
_MOST = 20_000
#: outputs are noisy where their error is more than this part of them
_NOISY = 0.05
#: what functions are looked at with at a time, given few particles of the vectors that they read
LookingAt = Callable[[int, Readers, Mapping[int, Array]], "Looking"]
#: scalars that are held at some times, by position
Held = Mapping[int, Mapping[int, Array]]


def readers(total: TotalProgram, program: Program) -> Readers:
    """The functions that outputs and gradients rest on; scalar parameters move as means do."""
    back = total.backward
    ends = {e.source for uses in back.gradients.values() for use in uses for e in (use.gradient, use.operand) if e}
    ends.update(total.network.returns)
    places = (program.initial_names[name] for name in total.trained)
    moving = frozenset(p for p in places if isinstance(program[p], InitialScalar))
    every = readers_of(program, frozenset(map(int, ends)), moving)
    # jumps have a hypothesis of their own: `gates`
    smooth = (p for p in every.means if not any(holds(part, *JUMPS) for part in _bodies(program, every, p)))
    return every.only(tuple(smooth))


def _bodies(program: Program, every: Readers, position: int) -> list[Expr]:
    """A function, and those of scalars behind it."""
    scalars, _ = every.behind[position]
    return [expr for p in (position, *scalars) for expr in program[p].expressions]


def seen(found: Readers, run: Execution, t: int) -> dict[str, Array]:
    """What they read at a time, as far as it has run, by position and time; long families are left out."""
    if t & (t - 1):
        return {}
    return {_name(p, t): x for p, x in few_seen(found, run).items() if x.size <= _MOST}


def _name(position: int, t: int) -> str:
    return f"scalar {position} at {t}"


def more_errors(
    found: Readers,
    looking_at: LookingAt,
    runs: Sequence[Mapping[str, Array]],
    results: Array,
    again: Callable[[Held, Sequence[int]], Array],
) -> Array:
    """What steep functions add to the errors of the mean of outputs (replicates, times, …) over the first axis.

    `runs` hold what was seen, `looking_at` makes what functions are looked at with at a time, `again` the outputs of
    some replicates with scalars held.
    """
    flat, noisy = results.reshape(len(results), -1), _is_noisy(results)
    asked, size = found if noisy else found.curved, 1 + max(found.sources, default=0)
    times = range(results.shape[1] if asked.means else 0)
    bent = _over_times({t: _doubts(asked, looking_at, runs, t, noisy) for t in times}, size)

    def held(means: Mapping[int, Array], which: Sequence[int]) -> Array:
        at: dict[int, dict[int, Array]] = {}
        for number, x in means.items():
            at.setdefault(number // size, {})[number % size] = x
        return again(at, which).reshape(len(which), -1)

    more = errors(bent, flat, held, partial(_all, flat.shape[1]), partial(_step, results.shape[1:]))
    return more.reshape(results.shape[1:])


def _over_times(at: Mapping[int, Sequence[Doubt]], size: int) -> list[Doubt]:
    """One doubt for each function, in the means of all times: those of a time are numbered after `size` of each before.

    What vanishes at all times is moved at all of them: a step by a gradient that no output sees later does nothing.
    """
    found: dict[int, list[tuple[int, Doubt]]] = {}
    for t, doubts_then in at.items():
        for one in doubts_then:
            found.setdefault(one.position, []).append((t, one))
    joint = []
    for all_times in found.values():
        middle, *places = (
            {t * size + p: x for (t, _), means in zip(all_times, held, strict=True) for p, x in means.items()}
            for held in zip(*((one.middle, *one.places) for _, one in all_times), strict=True)
        )
        _, first = max(all_times, key=lambda item: (item[1].is_steep, -item[0]))
        joint.append(replace(first, middle=middle, places=tuple(places)))
    return joint


def _is_noisy(results: Array) -> bool:
    """Whether outputs at some time are no clear of the error that they have."""
    error, mean = (abs(x).reshape(len(x), -1).max(axis=1) for x in (standard_error(results), results.mean(axis=0)))
    return bool((error > _NOISY * mean)[1:].any())


def _all(count: int, position: int) -> Array:
    """All outputs at all times rest on an instruction."""
    return numpy.ones(count)


def _step(shape: tuple[int, ...], place: int) -> str:
    """What an output is called at its time."""
    return f"f at step {numpy.unravel_index(place, shape)[0]}"


def _doubts(
    found: Readers,
    looking_at: LookingAt,
    runs: Sequence[Mapping[str, Array]],
    t: int,
    noisy: bool,
) -> list[Doubt]:
    """The functions that are bent at a time, of those all that is read by which was seen there."""
    rows = {p: [run[_name(p, t)] for run in runs if _name(p, t) in run] for p in (*found.sources, *found.vectors)}
    kept = {p for p, values in rows.items() if len(values) == len(runs)}
    asked = found.among(kept)
    if not asked.means:
        return []
    looking = looking_at(t, asked, {p: rows[p][0][0] for p in asked.vectors})
    return doubts(looking, {p: numpy.array([x[0] for x in rows[p]]) for p in asked.sources}, noisy)
