"""E F(g1, …, gk) for g ~ N(0, C) as a function of C, on arrays.

`moment` chooses the route once for each F:

    closed       F is a sum of products f(g1) h(g2) of atoms (`atoms`): a formula, to rounding
    expansion    F is a sum of products: Mehler's expansion, nested integrals where it has not settled
    panels       one variable, no formula: Gauss–Legendre panels
    forms        a sum of such products of two linear forms of several variables (`linear`)
    tilted       exponentials of quadratic forms of several variables, times functions that have a mean (`tilted`)
    sides        a sum of products of functions of two variables each (`sides`)
    quadrature   anything else: tensor quadrature, one covariance after the other
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy
import sympy
from numpy.typing import NDArray
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.moments import closed
from tplimits.numbers.moments.atoms import Atom, Gate, Power, Wave, atoms
from tplimits.numbers.moments.collinear import nested
from tplimits.numbers.moments.defined import insist_on_a_mean
from tplimits.numbers.moments.determinants import gram_determinant
from tplimits.numbers.moments.growing import Law, on_wider_laws
from tplimits.numbers.moments.hermite import ORDERS, FarOutError, HermiteRows, hermite_rows, remembered_rows
from tplimits.numbers.moments.linear import mean_of_parts, parts, products
from tplimits.numbers.moments.mehler import mehler
from tplimits.numbers.moments.sides import mean_of_sides, sides
from tplimits.numbers.moments.steady import steady
from tplimits.numbers.moments.tensor import drawn, tensor
from tplimits.numbers.moments.tilted import mean_of_tilts, tilts
from tplimits.numbers.moments.writing import Code, Writer, function, product, total

#: errors of the expansion above this share of the value are replaced by nested integrals
_SETTLED = 1e-10
#: beside √(E f² E h²) no error at all: where a mean changes its sign, rounding of the covariances moves it as much
_ROUNDED = 1e-14
#: orders of expansions, each worth while for more than so many pairs that a lower one has not settled
_LONGER = {1024: 2, 4096: 8}
#: rounding of closed forms, relative to the sum of the absolute values of their terms
_ROUNDING = 4e-15
#: what a factor is a function of when its rows are remembered: both sides often have the same
_ONE = sympy.Symbol("x", real=True)
_ARGUMENTS = ("c11", "c12", "c22", "det")

#: functions that do not separate, by route: how they are taken apart, and the mean of the parts; in this order
TAKEN_APART: dict[str, tuple[Callable[..., tuple[Any, ...]], Callable[..., tuple[Array, Array]]]] = {
    "forms": (parts, mean_of_parts),
    "tilted": (tilts, mean_of_tilts),
    "sides": (sides, partial(mean_of_sides, few=tensor, many=drawn)),
}

#: different variances of one side, and which of them each pair has
Sided = tuple[Array, NDArray[numpy.intp]]
AtomPairs = tuple[tuple[tuple[Atom, ...], tuple[Atom, ...]], ...]


@dataclass(frozen=True)
class MomentFunction:
    """E F as a function of covariances; made by `moment`.

    `factors` are the (f, h) of F = Σ f(g1) h(g2), `pairs` their atoms where the route is "closed"; `parts` of others.
    Without `nested`, expansions are left as they are: where they have not settled, their error says so.
    """

    integrand: Expr
    variables: tuple[Symbol, ...]
    route: str
    factors: tuple[tuple[Expr, Expr], ...] = ()
    pairs: AtomPairs = ()
    parts: tuple[Any, ...] = ()
    nested: bool = True

    def __call__(self, *covariances: Any, det: Any = None) -> tuple[Array, Array]:
        """(value, error bound) at arrays of covariances, the upper triangle row by row; everything broadcasts.

        `det` is c11 c22 − c12² where the caller knows it better than the entries tell.  At variance zero the mean
        is that of F at g = 0, with step(0) = 0.  float32 in, float32 out.  Raises EvaluationError for numbers that are
        not finite, negative variances, and laws that are not positive semidefinite.  longdouble in, longdouble out, for
        closed forms to its rounding.
        """
        given = [numpy.asarray(c) for c in covariances] + ([] if det is None else [numpy.asarray(det)])
        wide: Any = numpy.longdouble if any(a.dtype == numpy.longdouble for a in given) else numpy.float64
        kind: Any = numpy.float32 if all(a.dtype == numpy.float32 for a in given) else wide
        inner: Any = numpy.longdouble if kind == numpy.longdouble and self.route == "closed" else numpy.float64
        shape = numpy.broadcast_shapes(*(a.shape for a in given))
        flat = [numpy.broadcast_to(a, shape).astype(inner).reshape(-1) for a in given]
        entries, known = flat[: len(covariances)], (flat[-1] if det is not None else None)
        insist_on_a_mean(self.integrand, self.variables, entries, known)
        sides = [_distinct(a, shape) for a in (given[0], given[2])] if self.route == "expansion" else []
        with numpy.errstate(all="ignore"):
            value, error = self._evaluated(entries, known, sides) if flat[0].size else (flat[0].copy(), flat[0].copy())
        if not (numpy.isfinite(value).all() and numpy.isfinite(error).all()):
            raise EvaluationError(f"E[{self.integrand}] is not a finite number at some of the covariances.")
        if kind == numpy.float32:
            error = error + abs(value) * float(numpy.finfo(numpy.float32).eps)
        return value.astype(kind).reshape(shape), error.astype(kind).reshape(shape)

    def rows(self, side: int, variances: Array, term: int = 0, orders: tuple[int, ...] = ORDERS) -> HermiteRows:
        """Hermite coefficients of f (`side` 0) or h (`side` 1) of one term at variances (N,)."""
        factor = self.factors[term][side]
        single = factor.xreplace({self.variables[min(side, len(self.variables) - 1)]: _ONE})
        return remembered_rows(steady(single, _ONE, variances), variances, orders)

    def _evaluated(self, entries: Sequence[Array], det: Array | None, sides: Sequence[Sided]) -> tuple[Array, Array]:
        if self.route == "quadrature":
            return tensor(self.integrand, self.variables, numpy.stack(entries, axis=1))
        if self.parts:
            return TAKEN_APART[self.route][1](self.parts, entries, len(self.variables))
        one = len(self.variables) == 1
        c11, c12, c22 = (entries[0], *[numpy.zeros_like(entries[0])] * 2) if one else entries
        det = gram_determinant(c11, c12, c22) if det is None else det
        if self.route == "closed":
            value, size = _closed_arrays(self)(c11, c12, c22, det)
            value, size = (numpy.broadcast_to(a, c11.shape).astype(c11.dtype) for a in (value, size))
            return value, _ROUNDING * size * (self._nearness(c11, c12, c22) + self._exponent(c11, c22))
        if one:
            return self._one(c11)
        try:
            parts = [self._expanded(term, c11, c12, c22, det, sides) for term in range(len(self.factors))]
        except FarOutError:
            x, y = self.variables
            found = on_wider_laws(self.factors, (x, y), (c11, c12, c22, det), self._another)
            if found is None:
                raise
            return found
        values, errors = zip(*parts, strict=True)
        return parts[0] if len(parts) == 1 else (numpy.sum(values, axis=0), numpy.sum(errors, axis=0))

    def _exponent(self, c11: Array, c22: Array) -> Array | float:
        """How large the exponents of a formula are, whose rounding the value multiplies."""
        waves = [a for pair in self.pairs for side in pair for a in side if isinstance(a, Wave)]
        rate, offset = (max(v, default=0.0) for v in ((a.rate**2 for a in waves), (abs(a.offset) for a in waves)))
        return rate * (c11 + c22) + 2 * offset

    def _nearness(self, c11: Array, c12: Array, c22: Array) -> Array | float:
        """1, and more where growing exponentials come near infinite means: det(I + C diag(p, q)) is rounded by then."""
        tilts = {tuple(_tilt(atom) for atom in both) for f, h in self.pairs for both in itertools.product(f, h)}
        growing = [(p, q) for p, q in tilts if min(p, q) < 0]
        return 1.0 + sum(4 / abs((1 + p * c11) * (1 + q * c22) - p * q * c12 * c12) for p, q in growing)

    def _one(self, variances: Array) -> tuple[Array, Array]:
        try:
            return _mean_of_one(self.integrand, self.variables[0], variances)
        except FarOutError:
            zero, both = numpy.zeros_like(variances), (self.variables[0], _ONE)
            law = (variances, zero, zero, zero)
            found = on_wider_laws(((self.integrand, sympy.S.One),), both, law, self._another)
            if found is None:
                raise
            return found

    def _another(self, f: Expr, h: Expr, law: Law) -> tuple[Array, Array]:
        """The mean of a product under another law."""
        if len(self.variables) == 1:
            return moment(f * h, self.variables)(law[0])
        c11, c12, c22, det = law
        return moment(f * h, self.variables)(c11, c12, c22, det=det)

    def _expanded(
        self, term: int, c11: Array, c12: Array, c22: Array, det: Array, sides: Sequence[Sided]
    ) -> tuple[Array, Array]:
        a, b = (self.rows(side, distinct, term) for side, (distinct, _) in enumerate(sides))
        deviations = numpy.sqrt(c11) * numpy.sqrt(c22)
        rho = numpy.clip(c12 / numpy.where(deviations > 0, deviations, 1.0), -1.0, 1.0)
        value, error = mehler(a, b, sides[0][1], sides[1][1], rho)
        rounding = _ROUNDED * a.norm[sides[0][1]] * b.norm[sides[1][1]]
        unsettled = _unsettled(value, error, rounding) if self.nested else numpy.arange(0)
        for order, few in _LONGER.items():
            if len(unsettled) > few:
                power = order - min(a.order, b.order)
                most = error[unsettled] * abs(rho[unsettled]) ** power  # nothing to gain where this is too much
                longer = unsettled[most <= _SETTLED * abs(value[unsettled])]
                if len(longer) > few:
                    value[longer], error[longer] = self._longer(term, sides, longer, rho[longer], order)
                    unsettled = _unsettled(value, error, rounding)
        if len(unsettled):
            unsettled = self._settled_alike(term, (c11, c22, det, rho), (value, error), unsettled)
        for n in unsettled:
            f, h = (steady(e, v, c[n]) for e, v, c in zip(self.factors[term], self.variables, (c11, c22), strict=True))
            better = nested(f, h, float(c11[n]), float(c12[n]), float(c22[n]), float(det[n]))
            if better[1] < error[n]:
                value[n], error[n] = better
        return value, error

    def _settled_alike(
        self, term: int, law: Sequence[Array], found: tuple[Array, Array], pairs: NDArray[numpy.intp]
    ) -> NDArray[numpy.intp]:
        """E f(g) h(±g) of inputs with themselves, at all places of images together; the pairs that are left."""
        (c11, c22, det, rho), (value, error) = law, found
        for sign in (1, -1):
            one = pairs[(det[pairs] == 0) & (c11[pairs] == c22[pairs]) & (rho[pairs] * sign > 0)]
            at = zip(self.factors[term], self.variables, (_ONE, sign * _ONE), strict=True)
            f, h = (steady(function.xreplace({variable: place}), _ONE, c11[one]) for function, variable, place in at)
            if len(one) and not (f.undefined or h.undefined):  # E f² may be infinite, where E |f| is not
                value[one], error[one] = _mean_of_one(f.function * h.function, _ONE, c11[one])
                pairs = numpy.setdiff1d(pairs, one[error[one] <= _SETTLED * abs(value[one])])
        return pairs

    def _longer(
        self, term: int, sides: Sequence[Sided], pairs: NDArray[numpy.intp], rho: Array, order: int
    ) -> tuple[Array, Array]:
        """The expansion of some pairs to a higher order: nested integrals take a hundred times as long."""
        used = [numpy.unique(place[pairs], return_inverse=True) for _, place in sides]
        a, b = (self.rows(k, sides[k][0][kept], term, (order,)) for k, (kept, _) in enumerate(used))
        return mehler(a, b, used[0][1], used[1][1], rho)


def _mean_of_one(function: Expr, variable: Symbol, variances: Array) -> tuple[Array, Array]:
    distinct, place = numpy.unique(variances, return_inverse=True)
    rows = hermite_rows(steady(function, variable, distinct), distinct, orders=(1,))
    return rows.coefficients[place, 0], 4 * rows.error[place]


def _unsettled(value: Array, error: Array, rounding: Array) -> NDArray[numpy.intp]:
    return numpy.flatnonzero((error > _SETTLED * abs(value)) & (error > rounding))


@lru_cache(maxsize=512)
def moment(
    integrand: Expr, variables: tuple[Symbol, ...], constants: tuple[tuple[Symbol, float], ...] = ()
) -> MomentFunction:
    """E F(g1, …, gk) as a function of covariances, F an expression in `variables` and constants with values.

    Raises EvaluationError for other symbols and for Dirac deltas.
    """
    written = integrand.xreplace({s: sympy.sympify(v) for s, v in constants})
    unknown = sorted(s.name for s in written.free_symbols - set(variables))
    if unknown:
        raise EvaluationError(f"no value for {', '.join(unknown)} in the moment of {integrand}.")
    if written.has(sympy.DiracDelta):
        raise EvaluationError(f"the moment of {integrand} holds a Dirac delta: it is no mean of a function.")
    factors = products(written, variables) if len(variables) <= 2 else None
    if factors is None:
        for route, (split, _) in TAKEN_APART.items():
            if known := split(written, variables, moment):
                return MomentFunction(written, variables, route, parts=known)
        return MomentFunction(written, variables, "quadrature")
    pairs = _atom_pairs(factors, variables)
    if pairs is not None:
        return MomentFunction(written, variables, "closed", factors, pairs)
    return MomentFunction(written, variables, "expansion" if len(variables) == 2 else "panels", factors)


def _atom_pairs(factors: tuple[tuple[Expr, Expr], ...], variables: tuple[Symbol, ...]) -> AtomPairs | None:
    found = []
    for f, h in factors:
        left = atoms(f, variables[0])
        right = atoms(h, variables[1]) if len(variables) == 2 else (Power(1.0, 0),)
        if left is None or right is None or not closed.can_close(left, right):
            return None
        found.append((left, right))
    return tuple(found)


def closed_code(
    moments: Sequence[MomentFunction], arguments: Sequence[str] = _ARGUMENTS, prefix: str = "m", scalar: bool = True
) -> Code:
    """Closed moments of one pair as assignments: shared roots and angles once, one result for each moment.

    `arguments` are names (c11, c12, c22, det) that the text reads; names of assignments begin with `prefix`.  Scalar
    text uses `math` alone; compile it with error_model="numpy" and without fast-math (angles rely on the sign of
    zero).  For a moment of one variable c11 alone is read.
    """
    writer = Writer(scalar, prefix)
    return writer.code(*(writer.let(total(_terms(writer, m, arguments))) for m in moments))


def closed_text(writer: Writer, moment: MomentFunction, arguments: Sequence[str]) -> str:
    """The name of one closed moment of a pair, its formula added to what a writer has."""
    return writer.let(total(_terms(writer, moment, arguments)))


def _terms(writer: Writer, moment: MomentFunction, arguments: Sequence[str]) -> list[str]:
    if moment.route != "closed":
        raise EvaluationError(f"E[{moment.integrand}] has no closed form to be written as code.")
    law = closed.Pair(*arguments) if len(moment.variables) == 2 else closed.Pair(arguments[0], "0.0", "0.0", "0.0")
    return [text for f, h in moment.pairs for text in closed.terms(writer, f, h, law)]


def _tilt(atom: Atom) -> float:
    return atom.tilt if isinstance(atom, (Power, Gate)) else 0.0


@lru_cache(maxsize=512)
def _closed_arrays(moment: MomentFunction) -> Callable[..., tuple[Array, Array]]:
    """(value, sum of absolute values of the terms) on arrays."""
    writer = Writer(scalar=False)
    terms = [writer.let(product(1.0, text)) for text in _terms(writer, moment, _ARGUMENTS)]
    code = writer.code(total(terms), total([f"numpy.abs({t})" for t in terms]))
    return function(code, "closed_moment", _ARGUMENTS, scalar=False)


def _distinct(variances: Array, shape: tuple[int, ...]) -> Sided:
    """Found before anything is broadcast: a row of variances belongs to a whole matrix of pairs."""
    distinct, place = numpy.unique(variances.astype(numpy.float64), return_inverse=True)
    return distinct, numpy.broadcast_to(place.reshape(variances.shape), shape).reshape(-1)


def with_constants(constants: Mapping[Symbol, float]) -> tuple[tuple[Symbol, float], ...]:
    """Constants in the order in which `moment` remembers them."""
    return tuple(sorted(constants.items(), key=lambda item: item[0].name))
