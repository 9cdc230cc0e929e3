"""Deterministic numbers of a derivation with intervals, and values of its expressions at points of their variables.

What the hypotheses on jumps, poles and roots read: a mean without closed form is integrated, and an expression is
looked at with every number where it is and moved within its error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy
from sympy import Dummy, Expr, Float, S, Symbol

from tplimits.errors import EvaluationError
from tplimits.law.hypotheses.reader import Question, Unreadable, Value
from tplimits.law.means import BoxMean
from tplimits.law.moments import OpenMoment
from tplimits.numbers.budget import AUTO, Budget
from tplimits.numbers.closed_values import exact
from tplimits.numbers.passes import quadrature
from tplimits.numbers.plan import plan
from tplimits.numbers.roots import composed, spectrum
from tplimits.program.nodes.branches import SIDES
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.parts import found

if TYPE_CHECKING:
    from tplimits.law.expectation import Expectations
    from tplimits.numbers.frame import Array
    from tplimits.numbers.number import Number

#: points of the random variables, and how far everything is moved to see what depends on it
_POINTS, _MOVE = 16, 1e-6
#: points of fluctuations that means are taken at
_GIVEN = 4
#: an argument below this many times its spread is zero within its error
_SPREADS = 4.0
#: signs with which numbers are moved within their errors, by their place
_PATTERNS: tuple[Callable[[int], int], ...] = (lambda i: 0, lambda i: 1, lambda i: -1, lambda i: (-1) ** i)
#: functions with a kink or a jump whose sides are looked at
_MOST_SWITCHES = 4
#: relative rounding of a covariance that is a sum
_ROUNDING = 1e-14


def intervals(engine: Expectations, wanted: Sequence[Expr], constants: Mapping[Symbol, Expr]) -> list[Number]:
    """Deterministic expressions as numbers with errors.

    Raises Unreadable where a constant has no value, or an integral is too large.
    """
    missing = _constants(engine, wanted) - constants.keys()
    if missing:
        raise Unreadable(f"`{min(s.name for s in missing)}` has no value yet", later=True)
    planned = plan(engine, {str(i): e for i, e in enumerate(wanted)})
    try:
        if planned.closed:
            numbers = exact(planned, constants)
        else:
            numbers = quadrature(planned, {s: float(v) for s, v in constants.items()}, Budget(AUTO))
    except EvaluationError as error:
        raise Unreadable(str(error), later=False) from None
    return [numbers[str(i)] for i in range(len(wanted))]


def _constants(engine: Expectations, wanted: Iterable[Expr]) -> set[Symbol]:
    """The symbols that have to be given a value."""
    found: set[Symbol] = set()
    seen: set[Symbol] = set()
    stack = [(e, engine.gaussians) for e in wanted]
    while stack:
        expr, gaussians = stack.pop()
        for symbol in expr.atoms(Symbol) - seen:
            seen.add(symbol)
            if symbol in engine.moments:
                moment = engine.moments[symbol]
                inner = moment.gaussians if isinstance(moment, OpenMoment) else gaussians
                stack += [(part, inner) for part in engine.parts(moment)]
            elif symbol in gaussians.long:
                stack.append((gaussians.long[symbol].definition, gaussians))
            elif symbol not in gaussians:
                found.add(symbol)
    return found


def values(engine: Expectations, question: Question, constants: Mapping[Symbol, Expr]) -> list[Value]:
    """An expression at points of its random variables; one value where it has none."""
    expr = question.expr
    if expr.has(BoxMean) or any(_definition(engine, s).has(BoxMean) for s in _names(engine, expr)):
        whole = expr.xreplace(dict(question.held))
        # a box mean has no value at a point: that E f² = 0 tells whether f is 0 everywhere, on either side of a kink
        sides = [f for f in on_either_side(whole) if f == whole or f.has(BoxMean)]
        numbers = intervals(engine, [engine.inner(f, f) for f in sides], constants)
        return [Value(number.value, _SPREADS * number.error) for number in numbers]
    variables = question.variables
    pairs = {(a, b): question.covariance(a, b) for i, a in enumerate(variables) for b in variables[: i + 1]}
    # the image of x·S, S = √n·Avg, has a variance that is random itself: S² times that of x's
    given = {pair: e for pair, e in pairs.items() if not e.free_symbols.isdisjoint(variables)}
    names = {name for e in (expr, *given.values()) for name in _names(engine, e)}
    whole = (expr, *given.values(), *(_definition(engine, n) for n in names))
    read = sorted({s for e in whole for s in e.atoms(Symbol) if s in engine.moments}, key=lambda s: s.name)
    known_pairs = [S.Zero if pair in given else e for pair, e in pairs.items()]
    wanted = [*read, *question.held.values(), *known_pairs]
    # a mean that one S = √n·Avg stands in is another number at each value of it
    if not _constants(engine, wanted).isdisjoint(question.fluctuations - constants.keys()):
        return _given_fluctuations(engine, question, constants)
    numbers = intervals(engine, wanted, constants)
    leaves = [*read, *question.held]
    # the same points in each run: a refusal must not depend on a draw
    normals = numpy.random.default_rng(0).standard_normal((len(variables), _POINTS if variables else 1))
    fixed = {s: float(v) for s, v in constants.items()}

    def at(sign: Callable[[int], int], move: float = 0.0) -> Array:
        moved = [n.value + sign(i) * n.error for i, n in enumerate(numbers)]
        known = {
            **fixed,
            # different moves, lest a difference of two numbers stay where it is
            **{s: x + move * (1.3 + 0.1 * (i % 7)) for i, (s, x) in enumerate(zip(leaves, moved, strict=False))},
        }
        entries = numpy.repeat(numpy.array(moved[len(leaves) :])[:, None], normals.shape[1], axis=1)
        place = _placed(entries, normals)
        if given:
            drawn = known | dict(zip(variables, place, strict=True))
            for i, pair in enumerate(pairs):
                if pair in given:
                    entries[i] = _evaluated(engine, given[pair], dict(drawn), normals.shape[1])
            place = _placed(entries, normals)
        known |= {v: place[i] + move * (1.7 - 0.1 * (i % 5)) for i, v in enumerate(variables)}
        return _evaluated(engine, expr, known, normals.shape[1])

    with numpy.errstate(all="ignore"):
        here, *around = [at(pattern) for pattern in _PATTERNS]
        away = at(_PATTERNS[0], _MOVE)
        spread = numpy.max([abs(v - here) for v in around], axis=0)  # ∞ − ∞ where a pole is near: not finite below
    return [
        Value(float(x), _SPREADS * float(e), bool(y != x))
        for x, e, y in zip(here, spread, away, strict=True)
        if numpy.isfinite(x) and numpy.isfinite(e)
    ]


def _given_fluctuations(engine: Expectations, question: Question, constants: Mapping[Symbol, Expr]) -> list[Value]:
    """The values at some points of all fluctuations together."""
    scalars = sorted(question.fluctuations, key=lambda s: s.name)
    pairs = [question.covariance(a, b) for i, a in enumerate(scalars) for b in scalars[: i + 1]]
    entries = numpy.array([n.value for n in intervals(engine, pairs, constants)])
    normals = numpy.random.default_rng(1).standard_normal((len(scalars), _GIVEN))
    places = _placed(numpy.repeat(entries[:, None], _GIVEN, axis=1), normals)
    others = replace(question, variables=[v for v in question.variables if v not in question.fluctuations])
    points = (dict(zip(scalars, map(Float, place), strict=True)) for place in places.T)
    return [value for point in points for value in values(engine, others, {**constants, **point})]


def on_either_side(expr: Expr) -> list[Expr]:
    """An expression, and what it is where the arguments of its kinks and jumps are of one sign or the other.

    >>> from sympy import symbols
    >>> from tplimits.program.nodes.functions import relu
    >>> x, y = symbols("x y", real=True)
    >>> on_either_side(relu(x) + y)
    [y + relu(x), x + y, y]
    """
    # a mean has its kinks inside, both sides of them at once
    means = {mean: Dummy(real=True) for mean in expr.atoms(BoxMean)}
    expr = expr.xreplace(means)
    switches = sorted(found(expr, *SIDES), key=lambda node: (node.count_ops(), str(node)))[:_MOST_SWITCHES]
    sides = [expr] if switches else []
    for chosen in itertools.product(*(range(2) for _ in switches)):
        side = expr
        for node, k in zip(switches, chosen, strict=True):
            side = side.xreplace({node: SIDES[type(node)](*node.args)[k]})
        sides.append(side)
    back = {name: mean for mean, name in means.items()}
    return list(dict.fromkeys(side.xreplace(back) for side in sides))


def _names(engine: Expectations, expr: Expr) -> set[Symbol]:
    """The names of long factors in an expression, through their definitions."""
    found: set[Symbol] = set()
    stack = [expr]
    while stack:
        fresh = {s for s in stack.pop().atoms(Symbol) if s in engine.gaussians.long} - found
        found |= fresh
        stack += [_definition(engine, s) for s in fresh]
    return found


def _definition(engine: Expectations, name: Symbol) -> Expr:
    return engine.gaussians.long[name].definition


def _evaluated(engine: Expectations, expr: Expr, known: dict[Symbol, Any], count: int) -> Array:
    for name in expr.atoms(Symbol):
        if name in engine.gaussians.long and name not in known:
            known[name] = _evaluated(engine, _definition(engine, name), known, count)
    return numpy.broadcast_to(numpy.asarray(evaluate(expr, known), dtype=float), (count,))


def _placed(entries: Array, normals: Array) -> Array:
    """Points of Gaussian variables, one a column, whose covariance has this lower triangle there."""
    size = len(normals)
    covariances = numpy.zeros((normals.shape[1], size, size))
    rows, columns = numpy.tril_indices(size)
    covariances[:, rows, columns] = covariances[:, columns, rows] = entries.T
    eigenvalues, vectors = spectrum(covariances)
    # of an eigenvalue that is rounding the root would be 1e-8, no zero any more
    largest = abs(eigenvalues).max(axis=-1, initial=0.0, keepdims=True)
    eigenvalues = numpy.where(eigenvalues > _ROUNDING * numpy.maximum(1.0, largest), eigenvalues, 0.0)
    return numpy.einsum("pij,jp->ip", composed(numpy.sqrt(eigenvalues), vectors), normals)
