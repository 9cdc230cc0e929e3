"""What a person reads."""

from __future__ import annotations

import math

import numpy
import pytest

from tplimits.sampling.claims import Claim
from tplimits.sampling.estimate import Fit, SampleMoments, Series
from tplimits.sampling.rows import Row
from tplimits.sampling.wording import number, sentence, table, weakness

WIDTHS = (64, 512)


def row(name="return", claim=0.6, z=0.4, p=0.7, accepted=True, lack=0.5, finds=0.01, slope=-0.5):
    found = Fit(0.605, 0.002, 100.0, (0.3,), 1.0, 2, lack)
    moments = SampleMoments(WIDTHS, (10, 10), numpy.ones(2), numpy.ones(2), 1.0)
    return Row(Claim(name, claim), Series(), moments, found, z, p, p, slope, finds, 0.012, accepted)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.605713, 0.00213, "0.6057 ± 0.0021"),
        (14.0, 0.058, "14.000 ± 0.058"),
        (123456.0, 2000.0, "123456 ± 2000"),
        (2 / 3, 0.0, "0.6666666667"),
        (1.0, 1e-16, "1"),
        (12.5, 1e-9, "12.5 ± 1.0e-09"),
        (1.0, math.nan, "1"),
    ],
)
def test_numbers_have_the_digits_of_their_errors(value, error, text):
    assert number(value, error) == text


def test_an_accepted_claim():
    assert sentence([row()], 0.01, WIDTHS) == (
        "Accepted by the intercept of L + b/n over widths 64 to 512, at level 0.01: the claim return = 0.6 is 0.4 "
        "standard errors from 0.6050 ± 0.0020, where finite width points."
    )


def test_a_rejected_claim_says_where_finite_width_points():
    rows = [row("a", p=0.5), row("b", claim=0.7, z=-47.5, p=1e-9, accepted=False)]
    assert sentence(rows, 0.01, WIDTHS) == (
        "Rejected by the intercept of L + b/n over widths 64 to 512, at level 0.01 (family-wise, Holm over 2 claims): "
        "1 of 2 claims, the worst b = 0.7, but finite width points at 0.6050 ± 0.0020, 47.5 standard errors away."
    )


def test_lack_of_fit_is_told():
    assert "The widths do not follow L + b/n for return (lack of fit, p = 1.0e-09): raise them." in sentence(
        [row(lack=1e-9)], 0.01, WIDTHS
    )


def test_weakness_is_told_with_the_draws_that_would_do():
    assert weakness([row()], (100, 100)) == []
    (text,) = weakness([row(finds=0.05)], (12345, 678))
    assert text == (
        "Too few draws: an error of the claim on return below 0.05 may pass, where 0.012 should be found with "
        "probability 95 %; use draws=(13000, 680)."
    )
    assert weakness([row(finds=0.05)], None)[0].endswith("the claim's own error is what limits it.")
    assert weakness([row(finds=0.05)], (10**12, 1))[0].endswith(
        "no draws at these widths would do, add widths or raise them."
    )


def test_the_table_has_a_line_for_each_claim():
    lines = table([row("a"), row("b", accepted=False, slope=math.nan)], "tied", WIDTHS, (20, 10)).splitlines()
    assert lines[0] == "program tied; draws at width 64: 20, 512: 10"
    assert "p (Holm)" in lines[1] and lines[2].startswith("a ") and lines[2].endswith("accepted")
    assert "−0.50 (−1/2)" in lines[2] and " – " in lines[3] and lines[3].endswith("REJECTED")


def test_one_lack_of_fit_among_many_is_chance():
    """Bonferroni: a hundred fits of which each is judged at 1/100 of the level."""
    alone, crowd = sentence([row(lack=1e-5)], 0.01, WIDTHS), sentence([row(lack=1e-5)] + [row()] * 99, 0.01, WIDTHS)
    assert "lack of fit" in alone and "lack of fit" not in crowd


def test_the_adjusted_level_is_told_where_claims_are_several():
    one, two = (table([row()] * many, "f", WIDTHS, (10, 10)).splitlines() for many in (1, 2))
    assert "Holm" not in one[1] and "p (Holm)" in two[1]
    assert len(one) == 3 and len(two) == 4
