"""Numbers of an expansion in 1/n, with errors from two resolutions or from replicates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr

from tplimits.errors import EvaluationError, NoLimitError
from tplimits.law.hypotheses import universality
from tplimits.law.observables import Observable, keys, observables
from tplimits.law.unroll import indices
from tplimits.numbers.expansion.fields import TooLarge
from tplimits.numbers.expansion.programs import Numbers
from tplimits.numbers.expansion.resolutions import (
    Drawn,
    Expanded,
    Part,
    drawn,
    fitting,
    on_grid,
    on_points,
    on_wider_points,
)
from tplimits.numbers.expansion.widths import in_powers_of_widths
from tplimits.numbers.number import Number, standard_error
from tplimits.numbers.rare import refuse_rare, unseen
from tplimits.program.nodes.bind import given_constants
from tplimits.program.nodes.entries import size_symbol, width_symbol
from tplimits.program.nodes.evaluate import evaluate as on_arrays
from tplimits.program.nodes.given import by_name, real_array, width_ratios
from tplimits.program.nodes.kinds import InitialScalar, InitialVector, Instruction, OuterNonlin, ScalarNonlin
from tplimits.program.nodes.laws import GRID

if TYPE_CHECKING:
    from tplimits.law.kets import Key
    from tplimits.program.nodes.program import Program

#: points of neurons, and where functions of pairs are taken
_POINTS = 2048, 1024
METHODS = ("auto", "quadrature", "particles")
#: relative rounding of sums over nodes
_ROUNDING = 1e-13
#: two resolutions agree that differ by so much, of a number or at all; nodes are brought as near as this
_AGREED, _FINEST = 1e-3, 0.001
#: where vectors have so few entries more nodes cost nothing, and resolutions differ by less: two that agree so well
#: hardly do by chance, with the finer off by more
_FEW, _WELL = 3000, 1e-7
#: where the finest that there is room for do not agree, the limit of them may lie this many differences away
_UNSETTLED = 3.0


class NoRoom(EvaluationError):
    """A grid has no room for a function of the program."""


def no_room(program: Program) -> NoRoom:
    """Why there are no numbers from a grid."""
    return NoRoom(f"`{program.name}` has functions of more variables than a grid has room for.")


@dataclass(frozen=True)
class Asked:
    """How the numbers are taken."""

    method: str = "auto"
    particles: int = _POINTS[0]
    replicates: int = 4
    seed: int = 0


@dataclass(frozen=True)
class Table:
    """L, b, C and the coefficient of n^(−1/2) of all observables, their errors, and the averages behind them.

    `program` has its constants put in, `numbers` hold what else is given, `seen` what one drawn network showed.
    """

    program: Program
    numbers: Numbers
    seen: Drawn

    labels: tuple[str, ...]
    value: Expanded
    error: Expanded
    method: str
    degrees: int = 0

    def number(self, of: str, *place: int) -> Number:
        """An entry of `limit`, `bias`, `root` or `covariance`."""
        value, error = (float(getattr(t, of)[place]) for t in (self.value, self.error))
        return Number(value, error, self.method, degrees=self.degrees)

    @property
    def is_exact(self) -> bool:
        """Whether averages of the program at their limits are functions that drawn neurons can be put in."""
        return self.method == "quadrature" and not _has_pairs(self.program)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The averages."""
        return self.value.parts


def _has_pairs(program: Program) -> bool:
    """Whether there are functions of two neurons."""
    return any(isinstance(s, OuterNonlin) and s.slots for s in program)


def points(program: Program) -> int:
    """How many points are spread unless others are asked for: of pairs of them there are fewer."""
    return _POINTS[_has_pairs(program)]


def numbers_of(program: Program, constants: Mapping[str, Any], ratios: Mapping[str, float]) -> tuple[Program, Numbers]:
    """The program with its constants put in, and the numbers of its symbols; EvaluationError where one is missing."""
    given = by_name(constants, "constants", EvaluationError)
    own = given_constants(program, given)
    bound = program.bind(**own) if own else program
    widths = width_ratios(program, ratios, EvaluationError)
    relative = {"n": 1.0, **{w: float(ratio) for w, ratio in widths.items()}}
    leaves: dict[Expr, float] = {}
    for axis in bound.all_axes:
        size = bound.size(axis)
        if size is not None and size.is_Integer:
            leaves[size_symbol(axis)] = float(size)
    scalars: dict[Key, float] = {}
    for position, s in enumerate(bound.instructions):
        if isinstance(s, InitialScalar):
            scalars |= _scalar(bound, position, s, given, leaves)
    if given:
        raise EvaluationError(f"`{min(given)}` is not a constant or a given scalar of `{program.name}`.")
    return bound.released, Numbers(leaves, scalars, relative)


def _scalar(
    program: Program, position: int, s: InitialScalar, given: dict[str, Any], leaves: Mapping[Expr, float]
) -> dict[Key, float]:
    places = list(indices(program, s.axes))
    if s.name in given:
        shape = tuple(int(program.size(a) or 0) for a in s.axes)
        array = real_array(s.name, given.pop(s.name), shape=shape)
        return {(position, i): float(array[i]) for i in places}
    if s.value is None:
        raise EvaluationError(
            f"the scalar `{s.name}` has no value, and means over its law are not expanded: give {s.name}=…."
        )
    value = float(on_arrays(s.value, leaves))
    return {(position, i): value for i in places}


def table(program: Program, scalars: Sequence[Observable], numbers: Numbers, asked: Asked) -> Table | None:
    """All scalars to order 1/n: on a grid, None where it has no room for them, or on spread points.

    A refusal of a program with several returns names those that have an expansion alone.
    """
    program = in_powers_of_widths(program, numbers.ratios)
    try:
        return _found(program, scalars, numbers, asked)
    except NoLimitError as error:
        alone = [i for i in range(len(program.returns)) if _has_one(program, i, scalars, numbers, asked)]
        if len(program.returns) == 1 or not alone:
            raise
        raise NoLimitError(
            f"{error} Of its returns {', '.join(f'[{i}]' for i in alone)} would have an expansion without the others."
        ) from None


def _has_one(program: Program, i: int, scalars: Sequence[Observable], numbers: Numbers, asked: Asked) -> bool:
    """Whether one return has an expansion where all are refused together."""
    mine = [o for o in scalars if all(position == program.returns[i] for position, _ in keys(o))]
    try:
        return (
            bool(mine)
            and _found(program.replace(returns=program.returns[i : i + 1]).returned, mine, numbers, asked) is not None
        )
    except (NoLimitError, EvaluationError):
        return False


def _found(program: Program, scalars: Sequence[Observable], numbers: Numbers, asked: Asked) -> Table | None:
    with numpy.errstate(all="ignore"):  # what is not finite is told below
        seen = drawn(program, numbers)
        if asked.method == "particles":
            found: Table | None = _on_points(program, scalars, numbers, seen, asked)
        else:
            found = _on_grids(program, scalars, numbers, seen)
    for i, label in enumerate(found.labels if found else ()):
        assert found is not None
        if not all(
            numpy.isfinite(t).all() for t in (found.value.limit[i], found.value.bias[i], found.error.covariance[i])
        ):
            raise EvaluationError(f"moment not established: the expansion of `{label}` is not finite.")
    return found


def expanded(program: Program, constants: Mapping[str, Any], ratios: Mapping[str, float]) -> Table:
    """The expansion of all observables on a grid, whose averages are functions that drawn neurons can be put in.

    Raises NoLimitError or EvaluationError where there is none.
    """
    refuse_unlike_normal(program)
    bound, numbers = numbers_of(program, constants, ratios)
    found = table(bound, observables(program), numbers, Asked("quadrature"))
    if found is None:
        raise no_room(program)
    if not found.is_exact:
        raise EvaluationError("it has functions of two neurons, which are no functions of one neuron and of averages.")
    return found


def _on_grids(program: Program, observables: Sequence[Observable], numbers: Numbers, seen: Drawn) -> Table | None:
    made = partial(on_grid, program, numbers, observables, seen)
    found: list[Expanded] = []
    for step in fitting(program, numbers, seen):
        try:
            found.append(made(step))
        except TooLarge:
            continue
        if len(found) == 1:
            finest = step
        else:
            labels = tuple(o.label for o in observables)
            return Table(program, numbers, seen, labels, *_refined(found, made, finest), "quadrature")
    return None


def _refined(found: list[Expanded], made: Callable[..., Expanded], step: float) -> tuple[Expanded, Expanded]:
    """The finest resolution, and what it is off: more are made until two agree, as where a function turns sharply."""
    fine, coarse = found
    while (fine.bends or coarse.bends or _differ(fine, coarse, well=True)) and step > _FINEST:
        try:
            fine, coarse, step = made(step / 2), fine, step / 2
        except TooLarge:
            break
        found.append(fine)
    if fine.misses:
        raise EvaluationError(
            f"{fine.misses} has a peak that is narrower than the distance of nodes: nothing is seen of it. Make it "
            "wider."
        )
    # two that agree tell what the finer is off; where none do, all that were made tell what any may be
    others = found if _differ(fine, coarse) else [coarse]
    if fine.bends:
        # two that miss what lies between their nodes agree, too
        others = [*others, made(step, True)]
    wider = _UNSETTLED if _differ(fine, coarse) else 1.0
    spread = _combined(
        lambda a, *others: (
            wider * numpy.max([numpy.abs(a - b) for b in others], axis=0) + _ROUNDING * (1 + numpy.abs(a))
        ),
        fine,
        *others,
    )
    return fine, spread


def _differ(a: Expanded, b: Expanded, well: bool = False) -> bool:
    """Whether some number of two resolutions is not known to three digits, or, where digits cost little, `well`."""
    pairs = ((a.limit, b.limit), (a.bias, b.bias), (a.covariance, b.covariance), (a.root, b.root))
    most = _WELL if well and a.entries < _FEW else _AGREED
    return any((abs(x - y) > most * (abs(x) + abs(y) + 1)).any() for x, y in pairs)


def _on_points(
    program: Program, observables: Sequence[Observable], numbers: Numbers, seen: Drawn, asked: Asked
) -> Table:
    count = int(asked.replicates)
    seeds = numpy.random.SeedSequence(asked.seed).generate_state(count)
    many, first = int(asked.particles), int(seeds[0])
    try:
        runs = [on_points(program, numbers, observables, seen, many, int(s)) for s in seeds]
    except (TooLarge, MemoryError):
        raise EvaluationError(
            f"particles={asked.particles}: functions of two neurons on so many points do not fit into memory; give "
            "fewer."
        ) from None
    seen_by = {name: numpy.sum([run.hits[name] for run in runs], axis=0) for name in runs[0].hits}
    wider = on_wider_points(program, numbers, runs[0], seen, many, first) if unseen(seen_by) else {}
    refuse_rare(seen_by, wider, many * count)
    mean = _combined(lambda *a: numpy.mean(a, axis=0), *runs)
    error = _combined(lambda *a: standard_error(numpy.array(a)), *runs)
    mean = replace(mean, hits=seen_by)
    return Table(program, numbers, seen, tuple(o.label for o in observables), mean, error, "particles", count - 1)


def _combined(function: Any, *runs: Expanded) -> Expanded:
    """Entry by entry; the averages of the first."""

    first, *_ = runs
    entries = {name: function(*(getattr(r, name) for r in runs)) for name in ("limit", "bias", "covariance", "root")}
    return replace(first, **entries)


def refuse_unlike_normal(program: Program) -> None:
    """NoLimitError where matrices are not normal, or vectors hold places of neurons, whose averages are still."""
    if names := universality.unlike_normal(program):
        raise NoLimitError(
            f"entries of {', '.join(f'`{name}`' for name in names)} are not normal: fourth moments of entries "
            "enter at order 1/n, where universality ends. Take normal entries, tp.Matrix."
        )
    universality.refuse_orthogonal(program, of_order_one_over_n=True)
    places = [s.name for s in program if isinstance(s, InitialVector) and s.law.shape == GRID]
    if places:
        raise NoLimitError(
            f"`{places[0]}` holds places of neurons: averages over them do not fluctuate as those of independent "
            "entries do, so that their expansion is another one. Leave it out."
        )


def without_roots(program: Program) -> Program:
    """The program with averages in the place of fluctuations √n·Avg that nothing reads: their limit is asked for."""
    read = {p for s in program for p in s.operands}
    widths = {width_symbol(w) for w in program.widths}

    def plain(position: int, s: Instruction) -> Instruction:
        if not isinstance(s, ScalarNonlin) or position in read:
            return s
        roots = [f for f in sympy.Mul.make_args(s.body) if f.is_Pow and f.base in widths and f.exp == sympy.S.Half]
        return replace(s, body=s.body / sympy.Mul(*roots)) if len(roots) == 1 else s

    return program.replace(instructions=tuple(plain(i, s) for i, s in enumerate(program.instructions)))
