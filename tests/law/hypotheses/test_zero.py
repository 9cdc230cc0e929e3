"""What an argument tends to: never zero, zero, or not known, by what a reader sees of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import sympy
from sympy import Float, Rational, Symbol, oo

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.reader import Unreadable, Value
from tplimits.law.hypotheses.zero import Kind, Place, kept_from_zero, zero

x, y = (Symbol(name, real=True) for name in "xy")


@dataclass
class Seen:
    """A reader that says what it is told."""

    limits: object = x
    rounded: float = 0.0
    low: object = -oo
    high: object = oo
    found: object = ()
    is_settled: bool = False
    still: tuple = field(default=())

    def tolerance(self, _):
        return self.rounded

    def bounds(self, _):
        return sympy.S(self.low), sympy.S(self.high)

    def limit(self, _):
        return self.limits

    def settled(self, _):
        return self.is_settled

    def values(self, _):
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def moves(self, expr):
        return expr not in self.still

    def shown(self, expr):
        return f"‹{expr}›"


@pytest.mark.parametrize(
    ("reader", "kind"),
    [
        (Seen(low=Rational(1, 9)), Kind.NEVER),
        (Seen(high=-1), Kind.NEVER),
        (Seen(low=0, found=(Value(0.0, 0.0),)), Kind.ZERO),
        (Seen(low=Rational(1, 9), found=(Value(0.0, 0.0),)), Kind.NEVER),
        (Seen(high=Rational(-1, 9), found=(Value(0.0, 0.0),)), Kind.NEVER),
        (Seen(low=-1, high=Rational(1, 2), found=(Value(0.0, 0.0),)), Kind.ZERO),
        (Seen(limits=sympy.Integer(1), found=(Value(0.0, 0.0),)), Kind.NEVER),
        (Seen(limits=sympy.Integer(0)), Kind.ZERO),
        (Seen(limits=x * (y + 1) - x * y - x), Kind.ZERO),  # multiplied out
        (Seen(limits=Rational(1, 10**9)), Kind.NEVER),
        (Seen(limits=sympy.sqrt(2) ** 2 - 2 + 0 * x), Kind.ZERO),
        (Seen(limits=sympy.sqrt(3) * sympy.sqrt(2) - sympy.sqrt(6) * (1 + sympy.exp(-50))), Kind.NEVER),
        (Seen(limits=sympy.log(2) + sympy.log(3) - sympy.log(6)), Kind.ZERO),  # no digit is left
        (Seen(limits=2 * sympy.asin(Rational(1, 3)) - sympy.asin(4 * sympy.sqrt(2) / 9)), Kind.ZERO),
        (Seen(limits=sympy.tanh(x) - 2 / (1 + sympy.exp(-2 * x)) + 1), Kind.ZERO),  # an identity
        (Seen(limits=sympy.sin(2 * x) - 2 * sympy.sin(x) * sympy.cos(y), is_settled=True), Kind.NEVER),
        (Seen(limits=Float("1e-13"), rounded=1e-12), Kind.ZERO),
        (Seen(limits=Float("1e-13"), rounded=1e-14), Kind.NEVER),
        (Seen(limits=1e-13 * x - 2e-14 * y, rounded=1e-12, is_settled=True), Kind.ZERO),  # rounding of data
        (Seen(limits=1e-13 * x - 2e-3 * y, rounded=1e-12, is_settled=True), Kind.NEVER),
        (Seen(limits=1e-13 * x, is_settled=True), Kind.NEVER),
        (Seen(found=()), Kind.NEVER),
        (Seen(found=(Value(0.3, 0.1), Value(1e-9, 1e-8))), Kind.ZERO),
        (Seen(found=(Value(0.3, 0.1), Value(1e-7, 1e-8))), Kind.NEVER),
        (Seen(found=(Value(1e-13, 1e-15),), rounded=1e-12), Kind.ZERO),
        (Seen(found=(Value(1e-35, 1e-46),)), Kind.NEVER),  # small, and told from 0
        (Seen(found=(Value(1e-35, 1e-34),)), Kind.ZERO),
        (Seen(limits=sympy.exp(-80)), Kind.NEVER),
        (Seen(found=Unreadable("it is long", False)), Kind.OPEN),
    ],
)
def test_kinds(reader, kind):
    assert zero(reader, x).kind is kind


class Parts(Seen):
    """A reader of bodies in x = 1 and y = 2 that are known to the accuracy of doubles."""

    def limit(self, expr):
        return expr.xreplace({x: sympy.Integer(1), y: sympy.Integer(2)})

    def moves(self, expr):
        return expr.has(x, y)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (Rational(1, 10**31) * x, Kind.NEVER),  # a product is as far from 0 as its factors
        (Rational(1, 10**31) * x - Rational(1, 10**31) * y, Kind.NEVER),
        (x - y / 2 + Rational(1, 10**13), Kind.ZERO),  # beside terms of order 1
        (Rational(1, 10**31) * (x - y / 2 + Rational(1, 10**13)), Kind.ZERO),
        (10**6 * x - 5 * 10**5 * y + Rational(1, 10**8), Kind.ZERO),
        (10**6 * x - 5 * 10**5 * y + Rational(1, 10**3), Kind.NEVER),
    ],
)
def test_rounding_is_judged_beside_the_terms_that_cancel(body, kind):
    assert zero(Parts(rounded=1e-12), body).kind is kind
    exact = zero(Parts(), body).kind
    assert exact is Kind.NEVER


def test_what_was_seen_is_told():
    disguised = zero(Seen(found=(Value(0.5, 0.1), Value(1e-9, 1e-8))), x)
    assert str(disguised) == "0 within its error: 1e-09 ± 1e-08"
    assert str(zero(Seen(limits=Float("2e-13"), rounded=1e-12), x)) == "0 within its error: 2e-13 ± 1e-12"
    assert str(zero(Seen(limits=sympy.Integer(0)), x)) == "0"
    later = zero(Seen(found=Unreadable("it is long", True)), x)
    assert (later.reason, later.later) == ("it is long", True)


def test_exponentials_and_their_sums_are_positive_whatever_they_read():
    nothing = Seen(limits=sympy.Integer(0))
    for expr in (sympy.exp(x), sympy.exp(x) + 2 * sympy.exp(-y), 3 + sympy.exp(x), sympy.exp(x) * (1 + sympy.exp(y))):
        assert zero(nothing, expr).kind is Kind.NEVER
    for expr in (sympy.exp(x) - 1, sympy.exp(x) + y, -sympy.exp(x), sympy.exp(x) - sympy.exp(y), x + 1):
        assert zero(nothing, expr).kind is Kind.ZERO


def test_places_are_refused_doubted_or_left():
    def place(what=""):
        return Place(x + y, x, lambda seen: f"it tends to {seen}", what)

    assert kept_from_zero(Seen(found=()), "pole", [place()], "line 3") == []
    assert kept_from_zero(Seen(limits=sympy.Integer(0), still=(x,)), "pole", [place()], "line 3") == []
    with pytest.raises(NoLimitError, match=r"^line 3: it tends to 0$"):
        kept_from_zero(Seen(limits=sympy.Integer(0)), "pole", [place()], "line 3")
    (doubt,) = kept_from_zero(Seen(found=Unreadable("it is long", True)), "pole", [place("the sum ")], "line 3")
    assert (doubt.hypothesis, doubt.where, doubt.later) == ("pole", "line 3", True)
    assert "whether the sum `‹x›` tends to 0 is not decided: it is long" in str(doubt)
