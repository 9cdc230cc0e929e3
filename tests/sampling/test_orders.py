"""Claims on what averages are off their limits, by name and as numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy
import pytest

import tplimits as tp
from tplimits.sampling.estimate import SampleMoments, Series, fit
from tplimits.sampling.orders import bias_claim, covariance_claim, parsed, radius

LABELS = ("K", "K[0,1]", "a, b", "C(K)")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("b(K)", ("b", (0,))),
        ("C(K)", ("C", (0,))),
        ("C(K[0,1], K)", ("C", (1, 0))),
        ("b(a, b)", ("b", (2,))),
        ("C(a, b)", ("C", (2,))),
        ("C(a, b, K)", ("C", (2, 0))),
        ("C(K, a, b)", ("C", (0, 2))),
        ("C(a, b, a, b)", ("C", (2, 2))),
        ("b(K, K)", None),  # a mean is of one
        ("C(K, L)", None),
        ("b(L)", None),
        ("K", None),
        ("c(K)", None),
        ("b(K) ", None),
        (3, None),
    ],
)
def test_names_say_what_is_claimed_of_which(name, found):
    assert parsed(name, LABELS) == found


def test_sizes_are_five_times_the_coefficient_and_its_noise():
    claim = bias_claim("K", -0.5, 0.01, 0.25, 7)
    assert (claim.label, claim.value, claim.error, claim.statistic, claim.degrees) == ("b(K)", -0.5, 0.01, "mean", 7)
    assert claim.size == 5.0 * (0.5 + 0.5)
    assert bias_claim("K", 0.0, 0.0, 0.0).size is None and bias_claim("K", 0.0, 0.0, 0.0).degrees == math.inf
    pair = covariance_claim(("√n·K", "√n·L"), 0.3, 0.02, 2.0, 5)
    assert (pair.label, pair.value, pair.error, pair.statistic, pair.degrees) == ("√n·K", 0.3, 0.02, "covariance", 5)
    assert pair.size == 10.0 and pair.other == "√n·L"
    alone = covariance_claim(("√n·K",), 0.3, 0.0, 0.0)
    assert alone.other is None and alone.size is None


def test_a_check_tells_from_which_errors_on_wrong_claims_are_found():
    """A b that is a fifth off passes 100 networks, and the sentence says from where on it would not."""

    @tp.program
    def norm(W: tp.Matrix, x: tp.Vector):
        return tp.avg(tp.tanh(W @ x) ** 2)

    found = tp.derive(norm, tp.FiniteWidth())
    verdict = tp.check(found, claims={"b(return)": 0.8 * found.bias("return").value}, draws=100, progress=False)
    assert verdict.accepted and f"errors from b(return) {verdict.worst.finds:.2g} on" in verdict.sentence
    far = found.bias("return").value + 2 * verdict.worst.finds
    assert tp.check(found, claims={"b(return)": far}, draws=100, progress=False).accepted is False


def test_terms_that_fall_slowly_are_seen_and_allowed_for():
    """2/(1 + 17/n) falls like 2 (−17/n)^k: b + c/n finds 1.8 with an error of 0.01, and it is 2."""
    widths = (16, 32, 64, 128)
    means = 2 / (1 + 17 / numpy.array(widths))
    moments = SampleMoments(widths, (10**5,) * 4, means, numpy.ones(4), 2.0)
    assert 8 < radius(moments) < 34
    short, longer = Series(), replace(Series(), radius=radius(moments), further=2)
    assert abs(fit(moments, short).two_sided(2.0, 0.0)[0]) > 5
    assert abs(fit(moments, longer).two_sided(2.0, 0.0)[0]) < 2
    assert abs(fit(moments, longer).two_sided(3.0, 0.0)[0]) > 4
    assert radius(replace(moments, draws=(9,) * 4)) == 0.0, "what a mean moves is noise"


@pytest.mark.long
def test_right_coefficients_of_what_fluctuates_strongly_are_accepted_and_wrong_ones_are_not():
    """θ = exp(−avg x⁴/2) with avg x⁴ = 3 on average and a variance of 96/n: b = 12 e^(−3/2), C = 24 e^(−3)."""

    @tp.program
    def steep(x: tp.Vector):
        return tp.exp(-tp.avg(x**4) / 2)

    found, b, C = tp.derive(steep, tp.FiniteWidth()), 12 * math.exp(-1.5), 24 * math.exp(-3)

    def accepted(seed, b, C):
        return tp.check(found, claims={"b(return)": b, "C(return)": C}, seed=seed, progress=False).accepted

    assert all(accepted(seed, b, C) for seed in range(3))
    off = 0.1 * (b + math.sqrt(C))
    assert [accepted(3, b + off, C), accepted(4, b - off, C), accepted(5, b, 1.2 * C)] == [False] * 3
