"""A function of one scalar around the value where it settles, as powers |y|^p sgn(y)^q of what fluctuates.

Powers that are no polynomials become factors "G|…" of a scalar R of size 1, y = n^(−a/2) R, which has to be Gaussian in
the limit, with a mean that is smaller than its fluctuations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import Expr, Rational, S

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import N, width_symbol
from tplimits.program.nodes.functions import elementary, kinks
from tplimits.program.nodes.scale import at_infinity, led
from tplimits.regimes.depth.algebra.expansions import ARGUMENT, AtPole, Expansion, at_point, is_smooth, told
from tplimits.regimes.depth.algebra.means import U
from tplimits.regimes.depth.algebra.model import kink_label
from tplimits.regimes.depth.algebra.products import (
    Poly,
    ProductTerm,
    lowest,
    multiplied,
    times,
    total,
)
from tplimits.regimes.depth.algebra.tables import exactly
from tplimits.regimes.depth.derivation.laws import Laws
from tplimits.regimes.depth.derivation.scalars.gaussian import merged_terms, scalar_of
from tplimits.regimes.depth.derivation.scalars.limits import NotSmall
from tplimits.regimes.depth.derivation.scalars.scalars import (
    SYMBOLIC,
    array_at,
    fixed_number,
    fixed_table,
    insist_on_small,
    parts,
    size,
)
from tplimits.regimes.depth.derivation.scalars.sides import at_kink

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.lowering import Lowering

#: what y is over its size
_NEARBY = sympy.Dummy("y", real=True)
#: powers beyond those kept up to which coefficients that grow with them are looked for
_FURTHER = 4


@dataclass(frozen=True)
class Around:
    """A function of one scalar around the value where it settles; `constants` are what dummies in it stand for."""

    lowering: Lowering
    function: Expr
    argument: Expr
    env: Mapping[Expr, int]
    constants: Mapping[Expr, Expr]

    @property
    def shown(self) -> Expr:
        """The function as messages write it."""
        return told(self.function.xreplace(dict(self.constants)))

    def parts(self) -> tuple[Poly, Poly]:
        """What is fixed of the scalar, and the rest."""
        return parts(self.lowering, self.lowering.lower(self.argument, self.env))

    @property
    def mixes_sizes(self) -> bool:
        """Whether a width stands inside of the function, not in front of it."""
        return bool(self.function.as_independent(ARGUMENT, as_Add=False)[1].free_symbols & self._widths)

    @property
    def _widths(self) -> set[sympy.Symbol]:
        return {N, *(width_symbol(w) for w in self.lowering.program.widths)}

    def settles_at_kink(self) -> bool:
        """Whether a kink or jump is where the scalar settles; elsewhere there is a Taylor series."""
        fixed, _ = self.parts()
        number = fixed_number(self.lowering, fixed)
        places = kinks(elementary(self.function))
        if number is not None:
            return any(sympy.simplify(p.xreplace({ARGUMENT: number})) == 0 for p in places)
        table = fixed_table(self.lowering, fixed, self.env)[1]
        if any(p.free_symbols - {ARGUMENT} for p in places):
            self.lowering.fail(SYMBOLIC)
        return any(bool(at_kink(p, ARGUMENT, table).any()) for p in places)

    def lowered(self) -> Poly:
        """The function as a sum of terms."""
        lowering = self.lowering
        fixed, small = self.parts()
        # nothing fluctuates: the function of a constant is a constant, kink or not
        if small.cut is None and not merged_terms(small, tuple(self.env.values())):
            return self._piece(fixed, lambda s: elementary(self.function).xreplace({ARGUMENT: s}))
        self._insist_on_distance(fixed, small)
        pieces, series = self._pieces(fixed, lowering.limit)
        off = [e.off for e in series if e.off != 0]
        # the powers that are left out begin one beyond the limit, less what their coefficients grow by
        known = lowering.limit if small.cut is None else min(lowering.limit, small.cut)
        rest = Poly((), known + min(0, self._growth(fixed, pieces.values())))
        # powers of y are products of its own terms; only what has a kink needs the law of y
        if not off and all(is_smooth(*key) for key in pieces):
            if small.terms and lowest(small) <= 0:
                insist_on_small(lowering, self.shown, small, self.env)
            found = [multiplied(c, self._power(int(p)), lowering.limit) for (p, _), c in pieces.items()]
            return lowering.arranged(total([*found, rest]))
        scalar, at, order = scalar_of(lowering, small, self.env, self.shown)
        if order <= 0 and not all(e.exact for e in series):
            refused = NotSmall if order == 0 else NoLimitError  # what is random may be so on a small branch
            raise refused(
                f"{lowering.where}: not perturbative: the argument y of `{self.shown}` fluctuates by order "
                f"{size(order)}, so that the function is random of order 1 in every layer; divide its argument, an "
                "average of keys times queries, by τ0·sqrt(n/k)."
            )
        if any(e.bends for e in series):
            variance = Laws(lowering.model, lowering.arrays).variance(scalar, len(at))
            size_ = min((lowest(lowering.number(o.xreplace(self.constants))) for o in off), default=None)
            lowering.model.note(f"`{self.shown}` in {lowering.where}", variance, size_)
        found = []
        for (power, sign), coefficient in pieces.items():
            if power * order <= lowering.limit:
                # a scalar of order 1 is Gaussian as a whole alone: its own terms are no small quantities
                smooth = is_smooth(power, sign) and order > 0
                term = self._power(int(power)) if smooth else self._kink(scalar, at, order, (power, sign))
                found.append(multiplied(coefficient, term, lowering.limit))
        return lowering.arranged(total([*found, rest]))

    def whole(self) -> Poly | None:
        """The function of a scalar of size 1, Gaussian in the limit, as one factor; None for other scalars."""
        fixed, small = self.parts()
        try:
            scalar, at, order = scalar_of(self.lowering, small, self.env, self.shown)
        except NoLimitError:
            return None
        label = kink_label(scalar, S.Zero, False, 0, self.function.xreplace({ARGUMENT: U}))
        return None if fixed.terms or order else self.lowering.one((label, at, 0))

    def high_power(self, power: int) -> Poly | None:
        """y^power as that of one scalar, not as (power − 1)!! pairings; None where y is not Gaussian around 0."""
        fixed, small = self.parts()
        if fixed.terms or not small.terms or lowest(small) <= 0:
            return None
        try:
            scalar, at, order = scalar_of(self.lowering, small, self.env, self.shown)
        except NoLimitError:
            return None
        found = self._kink(scalar, at, order, (Rational(power), power % 2 == 1))
        return multiplied(found, self._power(0), self.lowering.limit)

    def _growth(self, fixed: Poly, known: Iterable[Poly]) -> int:
        """The least order of a coefficient, also of powers that are left out: √n |y|³ is seen though |y|³ is not."""
        lowering, widths = self.lowering, self._widths
        found = [lowest(c) for c in known]
        for term in sympy.Add.make_args(sympy.expand(elementary(self.function))):
            front, inner = term.as_independent(ARGUMENT, as_Add=False)
            found.append(lowest(lowering.number(front.xreplace(self.constants))))
            if inner.free_symbols & widths:  # coefficients may grow with the power
                # a width inside of the function comes out with its powers: √n tanh(y√n) has n^(k/2) before y^k
                further, _ = self._pieces(fixed, lowering.limit + _FURTHER)
                found += [lowest(c) for c in further.values()]
                self._insist_on_decrease(further)
                break
        return min(found)

    def _insist_on_decrease(self, pieces: Mapping[tuple[Rational, bool], Poly]) -> None:
        """Refuse a series all of whose powers are of one size: |y|/(|y| + n^(−1/2)) is random as a whole."""
        small = self.parts()[1]
        sizes = [(p, lowest(c) + p * lowest(small)) for (p, _), c in pieces.items() if p > 0 and c.terms]
        # one power alone tells no size of the others
        if not small.terms or len({p for p, _ in sizes}) < 2:
            return
        if max(sizes)[0] > self.lowering.limit and max(sizes)[1] <= min(sizes)[1]:
            raise NotSmall(
                f"{self.lowering.where}: not perturbative: the width stands inside of `{self.shown}` beside its "
                "argument y, which is as large, so that all powers of y are of one size and the function is random as "
                "a whole. Such functions have a place on a branch of size n^(-1/2), or of size 1/n."
            )

    def _insist_on_distance(self, fixed: Poly, small: Poly) -> None:
        """Refuse kinks as near as y is by chance, as those of max(√n y, 1): no series at 0 sees them."""
        places = [p for p in kinks(elementary(self.function)) if p.free_symbols & self._widths]
        scale = dict.fromkeys(self._widths, N)
        for place, point in itertools.product(places, self._points(fixed)):
            at = place.xreplace({ARGUMENT: point + N ** Rational(-lowest(small), 2) * _NEARBY}).xreplace(scale)
            # of what leads, what does not read y is far away, and y alone is 0 at 0
            found = led(at)
            leads = at_infinity(found[1]) if found else at
            if found is None or (leads.has(_NEARBY) and len(sympy.Add.make_args(sympy.expand(leads))) > 1):
                raise NotSmall(
                    f"{self.lowering.where}: not perturbative: `{self.shown}` has a kink or jump as far from where its "
                    "argument y settles as y is by chance, so that the function is random as a whole. Such functions "
                    "have a place on a branch of size n^(-1/2), or of size 1/n."
                )

    def _points(self, fixed: Poly) -> list[Expr]:
        """Where the scalar settles."""
        number = fixed_number(self.lowering, fixed)
        if number is not None:
            return [number]
        return [*map(_simple, fixed_table(self.lowering, fixed, self.env)[1].flat)]

    def _power(self, power: int) -> Poly:
        """y^power."""
        found = Poly((ProductTerm(S.One, self.lowering.model.zero_powers, 0, ()),))
        for _ in range(power):
            # lowered anew: the summed indices of each factor have to be its own
            again = self.parts()[1]
            if again.terms and lowest(again) <= 0:  # small in their sum alone: all of them are kept, or none
                again = Poly(tuple(t._replace(pert=max(1, t.pert)) for t in again.terms), again.cut)
            found = multiplied(found, again, self.lowering.limit)
        return found

    def _kink(self, scalar: int, at: tuple[int, ...], order: int, key: tuple[Rational, bool]) -> Poly:
        """|y|^p sgn(y)^q."""
        steps = order * key[0]
        powers = times(self.lowering.model.zero_powers, 0, -steps)
        return Poly((ProductTerm(S.One, powers, steps, ((kink_label(scalar, *key), at, 0),)),))

    def _pieces(self, fixed: Poly, most: int) -> tuple[dict[tuple[Rational, bool], Poly], list[Expansion]]:
        """Coefficients of |y|^p sgn(y)^q, p ≤ most, numbers or arrays; the expansions around all points."""
        known: dict[Expr, Expansion] = {}

        def expansion(point: Expr) -> Expansion:
            if point not in known:
                try:
                    known[point] = at_point(self.function, point, most, self.shown)
                except AtPole as error:  # what is random may have a mean
                    raise NotSmall(f"{self.lowering.where}: {error}") from None
                except NoLimitError as error:
                    self.lowering.fail(str(error))
            return known[point]

        def coefficient(key: tuple[Rational, bool]) -> Callable[[Expr], Expr]:
            return lambda point: expansion(point).terms.get(key, S.Zero)

        keys = sorted({key for point in self._points(fixed) for key in expansion(point).terms})
        found = {key: self._piece(fixed, coefficient(key)) for key in keys}
        return found, list(known.values())

    def _piece(self, fixed: Poly, value: Callable[[Expr], Expr]) -> Poly:
        """A function of the fixed part of a scalar, a number or a constant array."""
        lowering = self.lowering
        number = fixed_number(lowering, fixed)
        if number is not None:
            return lowering.number(value(number).xreplace(self.constants))
        at, table = fixed_table(lowering, fixed, self.env)
        # powers of widths and constants stand in front of arrays of numbers
        parted: dict[Expr, numpy.ndarray] = {}
        for place, entry in numpy.ndenumerate(table):
            found = sympy.expand(value(_simple(entry)).xreplace(self.constants))
            for term in sympy.Add.make_args(found) if found != 0 else ():
                front, one = term.as_independent(*term.free_symbols, as_Add=False)[::-1]
                if not all(f.as_base_exp()[0].is_Symbol for f in sympy.Mul.make_args(front) if f != 1):
                    lowering.fail(SYMBOLIC)
                parted.setdefault(front, numpy.zeros(table.shape))[place] += float(one)
        return total(
            multiplied(lowering.number(front), array_at(lowering, values, at), lowering.limit)
            for front, values in parted.items()
        )


def _simple(entry: float) -> Rational:
    """A number of an array as the simple fraction it stands for."""
    found = exactly(float(entry))
    return Rational(found.numerator, found.denominator)
