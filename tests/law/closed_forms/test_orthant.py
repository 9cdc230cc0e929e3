"""Steps of forms against the region where all are positive."""

from __future__ import annotations

import itertools

import pytest
import scipy.stats
from sympy import Integer, Rational, Symbol

from tplimits.law.closed_forms.integrand import Affine, Law, NotClosed
from tplimits.law.closed_forms.orthant import merged, orthant_probability

#: two variables of covariance 1/2, and a third of variance zero
LAW = Law(((Integer(1), Rational(1, 2), Integer(0)), (Rational(1, 2), Integer(2), Integer(0)), (Integer(0),) * 3))
POINTS = [(x, y, 0) for x in (-3.1, -1.3, -0.4, 0.1, 0.7, 2.2) for y in (-2.9, -0.6, 0.2, 1.1, 3.3)]


def form(a, b, c, other=0):
    return Affine((Rational(a), Rational(b), Integer(other)), Rational(c))


def positive(forms, point):
    return all(float(f.constant) + sum(float(s) * v for s, v in zip(f.slope, point, strict=True)) > 0 for f in forms)


ALONG = [
    *(form(1, -1, 0), form(1, -1, 1), form(2, -2, 1), form(3, -3, -4), form(1, -1, "-1/2")),
    *(form(0, 1, 0), form(0, 2, 3), form(0, "1/2", 1), form(0, "1/2", -1)),
]


@pytest.mark.parametrize("forms", list(itertools.permutations(ALONG, 2)))
def test_merged_steps_are_positive_together_with_all(forms):
    kept = merged(LAW, forms)
    lines = {0 if f.slope[0] else 1 for f in forms}
    assert len(kept) == len(lines)
    assert [positive(kept, p) for p in POINTS] == [positive(forms, p) for p in POINTS]


@pytest.mark.parametrize(
    ("against", "null"),
    [
        *(((-1, 1, -1), True), ((-2, 2, -3), True), ((-2, 2, "-3/2"), False), ((-2, 2, 3), False)),
        *(((-3, 3, "-1/5"), False), (("-1/2", "1/2", "-3/4"), True), (("-1/2", "1/2", "-1/4"), False)),
    ],
)
def test_steps_against_each_other_are_null_or_an_interval(against, null):
    """z + 1 > 0 beside c − r z > 0: for c > −r an interval is left, whose probability is no table's."""
    forms = (form(1, -1, 1), form(*against))
    if null:
        assert merged(LAW, forms) is None and orthant_probability(LAW, forms) == 0
    else:
        with pytest.raises(NotClosed):
            merged(LAW, forms)


def test_constants_are_positive_or_not():
    assert merged(LAW, (form(0, 0, 1, 2), form(1, 0, 0))) == (form(1, 0, 0),)
    assert merged(LAW, (form(0, 0, 0, 2), form(1, 0, 0))) is None
    assert merged(LAW, (form(0, 0, -1), form(1, 0, 0))) is None


@pytest.mark.parametrize(
    "forms",
    [
        (form(1, 0, "1/3"),),
        (form(3, -1, 2),),
        (form(1, 0, 0), form(0, 1, 0)),
        (form(1, 0, 0), form(1, -3, 0)),
        (form(1, 1, 0), form(2, -1, 0), form(2, 2, 0)),
        (form(1, 0, 0), form(1, 1, 0), form(-1, 3, 0)),
        (form(2, 0, 0), form(1, 2, 0), form(3, -1, 0)),
        (form(4, -1, "-1/2"), form(0, 1, "3/4")),  # independent: 4·½ − 2 = 0
    ],
)
def test_probabilities_against_the_normal_law(forms):
    covariance = [[float(LAW.inner(f.slope, g.slope)) for g in forms] for f in forms]
    normal = scipy.stats.multivariate_normal(cov=covariance, allow_singular=True, seed=0)
    expected = normal.cdf([float(f.constant) for f in forms])
    assert float(orthant_probability(LAW, forms)) == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize(
    "forms",
    [
        (form(1, 0, 1), form(0, 1, 0)),
        (form(1, 0, 0), form(0, 1, -1)),
        (form(1, 0, 0), form(1, 1, 0), form(1, -3, 0), form(2, 1, 0)),
        (Affine((Integer(1), Integer(0), Integer(0)), Symbol("c", real=True)), form(2, 0, 1)),
    ],
)
def test_what_no_table_has_is_said_to_be_open(forms):
    with pytest.raises(NotClosed):
        orthant_probability(LAW, forms)
