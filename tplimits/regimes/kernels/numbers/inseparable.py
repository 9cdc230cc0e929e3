"""Means that do not separate into means of two variables: what they cost, and their means over draws.

A gate that shares its variables with what it multiplies, or the cell of an LSTM, needs E F(z) over four and more
correlated Gaussian variables at every entry of a table, and quadrature is run for one entry after the other.  What that
will take is counted before any of it is done; where it is too much, F is averaged over draws of z, with replicates for
standard errors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.arrays import Array, distinct_rows
from tplimits.errors import EvaluationError
from tplimits.law.gaussians import independent
from tplimits.law.hypotheses.read_where import may_lie_far_out
from tplimits.numbers.budget import operations
from tplimits.numbers.moments.tensor import PER_LAW, hides_island, may_be_infinite, operations_of_a_law
from tplimits.numbers.near_zero import continued
from tplimits.numbers.rare import WIDER, hits, refuse_rare
from tplimits.numbers.roots import along, spectrum
from tplimits.numbers.sobol import normal_points
from tplimits.program.nodes.entries import free_indices
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.parts import found
from tplimits.regimes.kernels.derivation.leaves import SECOND, Moment, plain_axis
from tplimits.regimes.kernels.numbers.inputs import Inputs, keyed
from tplimits.regimes.kernels.numbers.tables.frames import sides_of
from tplimits.regimes.kernels.numbers.tables.moment import function_of

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables

#: operations of quadrature in a second; seconds of quadrature up to which it is done, and of draws up to which they are
_OPERATIONS, _PATIENCE, _MOST = 1e8, 30.0, 600.0
#: points of a mean for each draw that is asked for
POINTS = 16
#: seconds of an operation on one point
_SECONDS = 2e-9
#: points of one replicate that make a mean, at least: ten of all together
_EACH = 2
#: numbers of the largest array of one block of points
_BLOCK = 1 << 20
#: shares of a trace below which an eigenvalue is rounding
_ROUNDING = 1e-9
#: how much wider points are that look at E F² further out, and how many times more of it they may find there
_WIDER, _UNSEEN = 1.5, 3.0


@dataclass(frozen=True)
class Inseparable:
    """A mean without a formula and without an expansion, and the table that needs it (names of its vectors)."""

    moment: Moment
    table: str


@dataclass(frozen=True)
class Cost:
    """Entries at which inseparable means are needed, and the seconds of quadrature of all, or of too many of them."""

    entries: tuple[tuple[Inseparable, int], ...]
    seconds: float

    @property
    def is_too_much(self) -> bool:
        """Whether quadrature is not begun."""
        return self.seconds > _PATIENCE


def inseparable(derivation: KernelTables, constants: Mapping[Expr, float]) -> list[Inseparable]:
    """The means of a recursion that only quadrature or draws give."""
    known: dict[Any, list[Inseparable]] = derivation.remembered["inseparable"]
    key = keyed(constants)
    if key not in known:
        known[key] = _searched(derivation, constants)
    return known[key]


def _searched(derivation: KernelTables, constants: Mapping[Expr, float]) -> list[Inseparable]:
    demand, known = derivation.demand, {}
    functions: dict[Any, bool] = {}
    exprs = [(t.name, demand.definitions[t.number]) for t in derivation.needed]
    for name, expr in [*exprs, ("", demand.nngp), ("", demand.ntk)]:
        mine = []
        for moment in found(expr, Moment):
            function = moment.args[0], moment.args[1], moment.args[3]
            if function not in functions:  # layers share it, whatever their covariances
                functions[function] = is_inseparable(moment, constants)
            if functions[function] and moment not in known:
                mine.append(moment)
        known.update({m: Inseparable(m, name) for m in sorted(mine, key=sympy.default_sort_key)})
    return list(known.values())


def is_inseparable(moment: Moment, constants: Mapping[Expr, float]) -> bool:
    """Whether a mean has neither a formula nor an expansion."""
    return _route(moment, constants) == "quadrature"


def _route(moment: Moment, constants: Mapping[Expr, float]) -> str:
    if len(moment.variables) < 2:
        return ""
    function = function_of(moment, constants, (1.0,) * len(moment.parameters))
    # what an exponential is taken out of may be left without a formula
    rests = [tilt.rest.route for tilt in function.parts] if function.route == "tilted" else []
    return "quadrature" if "quadrature" in rests else function.route


def cost(derivation: KernelTables, one: Inputs, other: Inputs, constants: Mapping[Expr, float]) -> Cost:
    """What quadrature of all inseparable means takes, before any of it is done."""
    found, total = [], 0.0
    for each in inseparable(derivation, constants):
        many = math.prod(_size(i.name, one, other) for i in free_indices(each.moment))
        sides = sides_of(each.moment)
        # means of one input are needed once an input, not once a pair
        many *= one.many * other.many if len(sides) == 2 else max(one.many, other.many)
        found.append((each, many))
        total += many * PER_LAW
    # where there are few laws each may take long; counting takes seconds a function, and what is too much is drawn
    for each, many in sorted(found, key=lambda entry: -entry[1]):
        if total <= _PATIENCE * _OPERATIONS:
            total += many * operations_of_a_law(_function(each.moment, constants), each.moment.variables)
    return Cost(tuple(found), total / _OPERATIONS)


def _size(name: str, one: Inputs, other: Inputs) -> int:
    return (other if SECOND in name else one).sizes[plain_axis(name)]


def _function(moment: Moment, constants: Mapping[Expr, float]) -> Expr:
    values = dict.fromkeys(moment.parameters, sympy.S.One)
    return moment.integrand.xreplace({**values, **{s: sympy.Float(v) for s, v in constants.items()}})


def refuse_long_draws(found: Cost, draws: int, name: str, constants: Mapping[Expr, float]) -> None:
    """EvaluationError where even draws of the means take too long, or do not give them."""
    total = 0.0
    for each, many in found.entries:
        function, size = _function(each.moment, constants), len(each.moment.variables)
        # an infinite mean shows no sign in draws: each replicate is finite
        if may_be_infinite(function):
            raise EvaluationError(
                f"{_told(each, name)} needs quadrature of more than {_time(found.seconds)}, and cannot be drawn "
                "instead: it divides by what may vanish, and draws need not settle. Keep the divisor away from 0."
            )
        total += many * draws * POINTS * (operations(function) + 2 * size * size) * _SECONDS
    if total > _MOST:
        each, many = max(found.entries, key=lambda e: e[1])
        raise EvaluationError(
            f"{_told(each, name)} is needed at {many:,} entries: {draws} draws take about {_time(total)}, quadrature "
            f"more than {_time(found.seconds)}; evaluate() takes on {_time(_MOST)}. Give fewer inputs at "
            "a time or a smaller draws=…, or make it separate: a gate through a matrix of its own times its vector, "
            "and no function of the product before the next matrix."
        )


def _told(each: Inseparable, name: str) -> str:
    names = [n for n in each.table.split("|") if n]
    where = "its output" if not names or "return" in names else f"the kernel of {' and '.join(dict.fromkeys(names))}"
    return (
        f"`{name}` has a mean over {len(each.moment.variables)} correlated variables that does not separate, in "
        f"{where}: E[{sympy.sstr(each.moment.integrand):.160}]. It"
    )


def _time(seconds: float) -> str:
    """A time as one says it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"


@dataclass(frozen=True)
class MeanPoints:
    """Points of one replicate: spread evenly, each with its opposite, so that odd parts cancel.

    With `turned`, by another rotation for each law: what points are off by would else be common to all draws of random
    logits, and their spread no error of the mean.
    """

    many: int
    seed: tuple[int, ...]
    turned: bool = False

    def draws(self, moment: Moment, constants: Mapping[Expr, float]) -> bool:
        """Whether a mean is drawn: one that has an expansion for each law too, since laws of replicates differ."""
        return _route(moment, constants) in ("quadrature", "sides")

    def mean(
        self, moment: Moment, constants: Mapping[Expr, float], covariances: Sequence[Array], values: Sequence[Array]
    ) -> Array:
        """E F at arrays of covariances and of parameters; equal laws once."""
        arrays = numpy.broadcast_arrays(*covariances, *values)
        table = numpy.stack([numpy.ravel(a).astype(numpy.float64) for a in arrays], axis=1)
        if not numpy.isfinite(table).all():
            raise EvaluationError(f"a covariance in E[{moment.integrand}] is not a finite number.")
        # the same law at many entries, as on the diagonal or of shared taps
        distinct, place = distinct_rows(table)
        size, points = len(moment.variables), _points(self.many, self.seed, len(moment.variables))
        step = max(1, _BLOCK // (self.many * size))
        rng = numpy.random.default_rng((*self.seed, size))
        parts = [
            self._block(moment, constants, distinct[k : k + step], points, rng) for k in range(0, len(distinct), step)
        ]
        return numpy.concatenate(parts)[place].reshape(arrays[0].shape)

    def _block(
        self,
        moment: Moment,
        constants: Mapping[Expr, float],
        rows: Array,
        points: Array,
        rng: numpy.random.Generator,
    ) -> Array:
        size = len(moment.variables)
        grams = numpy.empty((len(rows), size, size))
        pairs = list(itertools.combinations_with_replacement(range(size), 2))
        for k, (i, j) in enumerate(pairs):
            grams[:, i, j] = grams[:, j, i] = rows[:, k]
        lengths, vectors = spectrum(grams)
        trace = numpy.einsum("kii->k", grams)
        # entries that are means of a layer below were drawn too, at points of their own: off by about 1/points
        if (lengths[:, 0] < -max(_ROUNDING, 1 / self.many) * numpy.maximum(trace, 0.0)).any():
            raise EvaluationError(f"a covariance in E[{moment.integrand}] is not positive semidefinite.")
        written = continued(moment.integrand, independent(moment.variables))
        roots = along(grams, lengths, vectors)
        if self.turned:
            roots = roots @ numpy.linalg.qr(rng.standard_normal(roots.shape))[0]
        parameters = {p: rows[:, len(pairs) + i, None] for i, p in enumerate(moment.parameters)}

        def at(u: Array) -> Array:
            z = u[:, ::-1] @ roots.transpose(0, 2, 1)  # the first coordinates are the most even: longest axes
            known: dict[Expr, Any] = {**constants, **{v: z[:, :, i] for i, v in enumerate(moment.variables)}}
            with numpy.errstate(all="ignore"):
                return numpy.broadcast_to(evaluate(written, {**known, **parameters}), z.shape[:2])

        found = at(points)
        function = moment.integrand.xreplace({s: sympy.Float(v) for s, v in constants.items()})
        _refuse_rare(function, moment.variables, found, grams, lambda: at(WIDER * points))
        if may_lie_far_out(moment.integrand):
            _refuse_unseen(moment.integrand, found, at(_WIDER * points), points)
        return numpy.asarray(found.mean(axis=1))


def _refuse_rare(
    function: Expr, variables: Sequence[Symbol], found: Array, grams: Array, wider: Callable[[], Array]
) -> None:
    """EvaluationError where hardly any point makes a mean; none may where none does elsewhere."""
    counts = hits(found)
    if not (counts < _EACH).any():
        return
    nothing = numpy.flatnonzero(counts == 0)
    beyond = hits(wider()) if len(nothing) else counts
    if len(nothing) and function.free_symbols <= set(variables):
        beyond[nothing] += int(hides_island(function, variables, grams[nothing[0]].diagonal()))
    name = sympy.sstr(function)[:200]
    refuse_rare({name: counts}, {name: beyond}, found.shape[1], _EACH)


def _refuse_unseen(function: Expr, found: Array, wider: Array, points: Array) -> None:
    """EvaluationError where wider points find more of E F²: the spread of draws says nothing of an error then."""
    size = points.shape[1]
    weights = _WIDER**size * numpy.exp(-(_WIDER**2 - 1) / 2 * (points**2).sum(axis=1))
    with numpy.errstate(all="ignore"):
        unseen = ~((wider**2 @ weights) <= _UNSEEN * (found**2).sum(axis=1))  # also where either is infinite
    if unseen.any():
        raise EvaluationError(
            f"moment not established: the mean of {sympy.sstr(function):.200} lies further out than draws look, so "
            "that their spread is no error. Narrow the argument of the exponential, or give it a form whose mean is "
            "closed."
        )


@lru_cache(maxsize=8)
def _points(many: int, seed: tuple[int, ...], dimension: int) -> Array:
    points = normal_points(dimension, -(-many // 2), (*seed, dimension))
    return numpy.concatenate([points, -points])
