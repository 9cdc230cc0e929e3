"""Moments of functions that are no sum of products: cut tensor quadrature, one covariance after the other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy
import sympy
from sympy import Expr, Symbol

from tplimits.arrays import Array, distinct_rows
from tplimits.errors import EvaluationError
from tplimits.law.gaussians import independent
from tplimits.law.hypotheses.bounds import bounds, may_vanish_below
from tplimits.law.hypotheses.moments import tail
from tplimits.law.hypotheses.read_where import may_lie_far_out
from tplimits.numbers.budget import QUADRATURE, Budget, HiddenIsland, TooManyNodes, operations
from tplimits.numbers.forms import Integrand, lower
from tplimits.numbers.moments.determinants import full, refuse_indefinite
from tplimits.numbers.near_zero import beside_poles
from tplimits.numbers.number import standard_error
from tplimits.numbers.quadrature import Quadrature
from tplimits.numbers.rare import FEW, hits
from tplimits.numbers.roots import root
from tplimits.numbers.sobol import normal_points
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.running_errors import mean_of_errors
from tplimits.program.parts import remembered

#: resolutions compared with each other, pair by pair, until two agree
_LEVELS = (0, 1, 2)
_AGREED = 1e-10
#: an error above this share of E|f| asks for coordinates that are refined one by one, to the other share: what is
#: known of an error by two resolutions alone is right where it is small
_DOUBTFUL, _WANTED = 1e-5, 1e-6
#: operations that refining may take, a few seconds
_REFINING = 600_000_000
#: above this one the mean is drawn as well: where no cut follows a kink, two resolutions agree by chance
_ROUGH, _POINTS, _REPLICATES = 1e-4, 1 << 14, 16
#: points of a replicate where laws are many, and of one replicate of all of them
_LEAST_POINTS, _ALL_POINTS = 1 << 10, 1 << 26
#: standard errors of draws that are told as the error
_TOLD = 4.0
#: an error above this share of E|f| is no number
_UNSETTLED = 3e-2
_ROUNDING = 1e-14
#: operations that a law costs besides its integrals: cuts, coordinates
PER_LAW = 200_000


def lowered(function: Expr, variables: Sequence[Symbol]) -> Integrand:
    """The function as an integrand of the quadrature of a derivation."""
    return lower(function, variables, independent(variables))


def tensor(function: Expr, variables: Sequence[Symbol], covariances: Array) -> tuple[Array, Array]:
    """(value, error) for every row of covariances, upper triangles (N, k(k + 1)/2); laws that are alike once.

    The error is the difference of two resolutions and what adaptive cells left.  Raises EvaluationError for a law that
    is not positive semidefinite, and where the integral does not settle.
    """
    function = beside_poles(function, variables)
    integrand = lowered(function, variables)
    laws = _in_one_order(integrand, variables, covariances)
    distinct, place = distinct_rows(laws)
    found = numpy.array([_one(function, integrand, variables, row) for row in distinct]).reshape(-1, 2)
    chosen = found[place]
    return chosen[:, 0], chosen[:, 1]


def _in_one_order(integrand: Integrand, variables: Sequence[Symbol], covariances: Array) -> Array:
    """The laws with factors of one power in one order: E x y f(z) is the same of (x, y) and of (y, x).

    A thousand laws of eight variables, six of which are factors, are a hundred.
    """
    read = {variable for _, form in integrand.forms for variable, _ in form.slope}
    inside = [i for i, v in enumerate(variables) if v in read]
    grams = full(list(covariances.T), len(variables))
    order = numpy.tile(numpy.arange(len(variables)), (len(grams), 1))
    for power in {p for _, p in integrand.polynomial}:
        alike = [i for i, v in enumerate(variables) if v not in read and (v, power) in integrand.polynomial]
        among = numpy.sort(grams[:, alike][:, :, alike], axis=2)
        keys = numpy.concatenate([grams[:, alike, alike, None], grams[:, alike][:, :, inside], among], axis=2)
        order[:, alike] = numpy.array(alike, dtype=int)[numpy.lexsort(numpy.moveaxis(keys, 2, 0), axis=-1)]
    ordered = numpy.take_along_axis(numpy.take_along_axis(grams, order[:, :, None], 1), order[:, None, :], 2)
    return ordered[:, *numpy.triu_indices(len(variables))]


def drawn(function: Expr, variables: Sequence[Symbol], covariances: Array) -> tuple[Array, Array]:
    """The same at points that are spread evenly, fewer where laws are many, with four standard errors."""
    distinct, place = distinct_rows(covariances)
    points = min(_POINTS, max(_LEAST_POINTS, 1 << (_ALL_POINTS // len(distinct)).bit_length()))
    found = numpy.array(
        [_drawn(function, variables, full(list(row[:, None]), len(variables))[0], None, points) for row in distinct]
    )
    return found[place, 0], found[place, 1]


def hides_island(function: Expr, variables: Sequence[Symbol], variances: Array) -> bool:
    """Whether a kink surrounds what no node sees, at these variances and correlations 0.3."""
    gram = numpy.sqrt(numpy.outer(variances, variances)) * (0.3 + 0.7 * numpy.eye(len(variables)))
    law = {(a, b): float(gram[i, j]) for i, a in enumerate(variables) for j, b in enumerate(variables)}
    try:
        _quadrature(law, 0, None).cut(lowered(beside_poles(function, variables), variables))
    except HiddenIsland:
        return True
    return False


@remembered(256)
def operations_of_a_law(function: Expr, variables: tuple[Symbol, ...]) -> int:
    """What quadrature of one law costs, counted at variances 1 and correlations 0.3."""
    row = numpy.array([1.0 if a is b else 0.3 for a, b in itertools.combinations_with_replacement(variables, 2)])
    budgets: list[Budget] = []
    function = beside_poles(function, variables)
    try:
        _one(function, lowered(function, variables), variables, row, budgets)
    except EvaluationError:
        return QUADRATURE
    return PER_LAW + sum(b.spent for b in budgets)


def may_be_infinite(function: Expr) -> bool:
    """Whether the function is without a bound and something in it has a pole: kinks alone cost accuracy only."""
    if all(bound.is_finite for bound in bounds(function)) or not may_vanish_below(function):
        return False
    joined = sympy.Mul(*map(sympy.together, sympy.Mul.make_args(function)))
    growth = tail(joined, independent(sorted(function.free_symbols, key=str)))
    return not (growth.established and growth.power is sympy.oo)  # a numerator may take a pole away


def _one(
    function: Expr, integrand: Integrand, variables: Sequence[Symbol], row: Array, budgets: list[Budget] | None = None
) -> tuple[float, float]:
    """(value, error) of one law; what was spent is left in `budgets`."""
    gram = full(list(row[:, None]), len(variables))[0]
    law = {(a, b): float(gram[i, j]) for i, a in enumerate(variables) for j, b in enumerate(variables)}
    refuse_indefinite(gram[None])
    # no variance at all: a formula's value at 0, which quadrature over nothing would not ask
    if not gram.any():
        return float(evaluate(function, dict.fromkeys(variables, 0.0))), 0.0
    before: float | None = None
    try:
        for level in _LEVELS:
            integral = _quadrature(law, level, budgets).mean(integrand)
            # a first resolution alone knows nothing of its error
            error = integral.error + (abs(integral.value - before) if before is not None else abs(integral.value))
            if before is not None and error <= _AGREED * abs(integral.value):
                break
            before = integral.value
        # beside a pole no rule gains digits
        rough = error > _DOUBTFUL * integral.size and not may_vanish_below(function)
        if rough and budgets is not None:  # to count what refining takes would take as long
            budgets.append(Budget(QUADRATURE))
            budgets[-1].spend(1, _REFINING)
            return integral.value, error
        if rough:
            integral = _quadrature(law, 0, budgets, _REFINING).refined(integrand, _WANTED)
            error = integral.error
    except TooManyNodes:
        raise EvaluationError(
            f"E[{function}] is a mean over {len(variables)} correlated variables with kinks, beyond the reach of "
            "quadrature. Apply functions to one image W x each, and put a matrix between two of them."
        ) from None
    if rough and error > _ROUGH * integral.size and not may_lie_far_out(function):
        drawn = _drawn(function, variables, gram, budgets)
        if drawn[1] < error:
            return drawn
    # of E|f|, not of the mean, which may vanish
    unsettled = error > _UNSETTLED * integral.size
    if unsettled and error > _rounding(function, variables, gram, integral.size):
        infinite = may_be_infinite(function)
        raise EvaluationError(
            f"moment not established: E[{sympy.sstr(function):.200}] does not settle as the quadrature is refined "
            f"({integral.value:.4g} ± {error:.1g}){', and may be infinite' if infinite else ''}. "
            f"{'Keep the function away from its pole' if infinite else 'Make the inputs smaller'}, or put a matrix "
            "between two functions."
        )
    return integral.value, error + _ROUNDING * abs(integral.value)


def _rounding(function: Expr, variables: Sequence[Symbol], gram: Array, size: float) -> float:
    """What rounding makes of the function at some points: of steps that exclude each other nothing else is left."""
    points = numpy.random.default_rng(0).standard_normal((_LEAST_POINTS, len(variables))) @ root(gram).T
    weights = numpy.full(_LEAST_POINTS, 1 / _LEAST_POINTS)
    return mean_of_errors(function, dict(zip(variables, points.T, strict=True)), weights, size, evaluate)


def _drawn(
    function: Expr, variables: Sequence[Symbol], gram: Array, budgets: list[Budget] | None, points: int = _POINTS
) -> tuple[float, float]:
    """The mean over points that are spread evenly, and four standard errors of it."""
    along = root(gram)
    budget = Budget(QUADRATURE)
    budget.spend(_REPLICATES * points, operations(function))
    if budgets is not None:
        budgets.append(budget)
    found, seen = [], 0
    for replicate in range(_REPLICATES):
        z = _points(len(variables), replicate, points) @ along.T
        values = numpy.broadcast_to(evaluate(function, dict(zip(variables, z.T, strict=True))), points)
        found.append(float(values.mean()))
        seen += int(hits(values))
    # the spread of what hardly any point sees is no error
    error = _TOLD * float(standard_error(numpy.array(found))) if seen >= FEW else math.inf
    return float(numpy.mean(found)), error


@lru_cache(maxsize=2 * _REPLICATES)
def _points(dimension: int, replicate: int, points: int) -> Array:
    # the first coordinates of a sequence are the most even, and the longest axes of a law its last
    return normal_points(dimension, points, (dimension, replicate))[:, ::-1]


def _quadrature(
    law: Mapping[tuple[Symbol, Symbol], float], level: int, budgets: list[Budget] | None, most: int = QUADRATURE
) -> Quadrature:
    """One resolution; what it spends is left in `budgets`."""
    budget = Budget(most)
    if budgets is not None:
        budgets.append(budget)
    return Quadrature(law, {}, level, budget)
