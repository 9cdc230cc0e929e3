"""What a person reads."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy
import pytest

from tplimits.pages.report import with_error
from tplimits.sampling.claims import Claim
from tplimits.sampling.estimate import Fit, SampleMoments, Series
from tplimits.sampling.rows import Row
from tplimits.sampling.wording import sentence, table, weakness

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
    assert with_error(value, error) == text


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


def test_an_undecided_claim_is_no_rejected_one():
    undecided = row("a", z=-5.9, p=1e-9, accepted=None, lack=1e-19)
    found = sentence([undecided, row("b")], 0.01, WIDTHS)
    assert found.startswith("Undecided by") and "a = 0.6 is 5.9 standard errors from" in found
    assert "do not follow L + b/n for a (lack of fit, p = 1.0e-19): raise them." in found and "eject" not in found
    assert table([undecided], "p", WIDTHS, (10, 10)).endswith("undecided")
    assert sentence([undecided, row("b", accepted=False)], 0.01, WIDTHS).startswith("Rejected by")


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


def test_of_many_claims_the_worst_is_told_and_that_no_other_is_further_off():
    rows = [row("a", p=0.9), row("b", z=2.1, p=0.04), row("c", z=-2.3, p=0.04)]
    assert "the claim c = 0.6 is 2.3 standard errors from" in sentence(rows, 0.01, WIDTHS)
    assert sentence(rows, 0.01, WIDTHS).endswith("points, and no other is further off.")
    assert "Holm over 2 claims" in sentence(rows[:2], 0.01, WIDTHS)
    assert sentence(rows[:2], 0.01, WIDTHS).endswith("points, and no other is further off.")
    assert sentence([row(accepted=False)], 0.01, WIDTHS, ["As was said."]).startswith("Rejected by the intercept of")
    assert ": return = 0.6, but" in sentence([row(accepted=False)], 0.01, WIDTHS)
    assert sentence([row()], 0.01, WIDTHS, ["As was said."]).endswith("points. As was said.")


def test_three_claims_that_do_not_fit_are_named_and_of_more_the_first_three():
    odd = [row(name, lack=1e-9) for name in "abcd"]
    assert "for a, b, c (lack" in sentence(odd[:3], 0.01, WIDTHS)
    assert "for a, b, c, ... (lack" in sentence(odd, 0.01, WIDTHS)
    assert "lack of fit" not in sentence([row(lack=0.9e-3), row()], 0.01, WIDTHS)
    assert "lack of fit" in sentence([row(lack=0.9e-3)], 0.01, WIDTHS)


def test_the_weakest_claim_is_told_in_proportion_to_what_it_should_find():
    assert weakness([row(finds=1.14 * 0.012)], (10,)) == []
    (text,) = weakness([row("a", finds=0.03), row("b", finds=0.05), row("c", finds=0.04)], (100, 99, 9))
    assert "claim on b below 0.05" in text and text.endswith("draws=(100, 99, 9).")
    wider = replace(row("d", finds=0.09), tolerance=0.04)
    assert "claim on a below 0.03" in weakness([wider, row("a", finds=0.03)], None)[0]
    assert weakness([row(finds=0.05)], (101, 1000, 1001))[0].endswith("draws=(110, 1000, 1100).")


def test_a_line_of_the_table_word_by_word():
    _, names, line = table([row(claim=-0.6, z=-0.4)], "tied", WIDTHS, (20, 10)).splitlines()
    assert " ".join(names.split()) == "quantity claimed finite width z p b slope lack of fit"
    assert " ".join(line.split()) == "return -0.6 0.6050 ± 0.0020 −0.40 0.7 0.3 −0.50 (−1/2) 0.5 accepted"
    assert line.index("0.6050") == names.index("finite")
    of_covariance = replace(row(slope=0.01), claim=Claim("s", 1.0, statistic="covariance"))
    assert "+0.01 (0)" in table([of_covariance], "tied", WIDTHS, (20, 10))


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.0, 2e-11, "1 ± 2.0e-11"),
        (1000.0, 2e-9, "1000"),
        (1.0, 2e-8, "1.000000000 ± 0.000000020"),
        (5.0, 9.96, "5.0 ± 10.0"),
        (5.0, 10.0, "5 ± 10"),
        (5.0, 1.0, "5.0 ± 1.0"),
    ],
)
def test_digits_at_the_powers_of_ten(value, error, text):
    assert with_error(value, error) == text
