"""Which widths are sampled."""

from __future__ import annotations

import pytest
from checks import run_check

from tplimits.errors import CheckError
from tplimits.sampling.estimate import Series
from tplimits.sampling.verdict import Claim
from tplimits.sampling.widths import _nearest, sampled_widths, whole_ratios


def test_widths_are_those_asked_for(programs):
    assert sampled_widths(programs.tied, (64, 128), Series(), None) == ((64, 128), ())
    assert sampled_widths(programs.two_widths, (64, 128), Series(), {"k": 2}) == ((64, 128), ())


def test_tuples_of_neurons_scale_them_down(programs):
    widths, remarks = sampled_widths(programs.triples, (64, 128, 256, 512), Series(), None)
    assert widths == (16, 32, 64, 128)
    assert remarks == ("Widths were kept to n ≤ 128: `triples` averages over tuples of neurons.",)


def test_ratios_move_them_to_where_other_widths_are_whole(programs):
    widths, remarks = sampled_widths(programs.two_widths, (64, 128, 256), Series(), {"k": 1 / 3})
    assert widths == (63, 129, 255)
    assert remarks == ("Widths were moved to (63, 129, 255), where the other widths are close to whole numbers.",)
    (n,) = whole_ratios(programs.two_widths, (64,), {"k": 2**0.5})
    assert 58 <= n <= 70 and abs(n * 2**0.5 - round(n * 2**0.5)) < 0.1
    assert whole_ratios(programs.two_widths, (7, 8), {"k": 1 / 3}) == (7, 8), "widths stay apart"


def test_limits_at_broken_ratios_are_accepted(programs, seed):
    """⟨z|z⟩ of z = Wᵀrelu(Wx) at k/n = ρ is ρ²/4 + ρ/2: 7/36 at ρ = 1/3, not the 3/4 of ρ = 1."""
    options = {"ratios": {"k": 1 / 3}, "widths": (16, 32, 64), "draws": 2000, "seed": seed, "progress": False}
    assert run_check(programs.two_widths, [Claim("return", 7 / 36)], **options).accepted
    assert not run_check(programs.two_widths, [Claim("return", 0.75)], **options).accepted


@pytest.mark.sampling
def test_covariances_start_from_smaller_widths(programs, seed):
    claims = [Claim("return[0]", 0.0, 0.0, "covariance", "return[1]")]
    assert run_check(programs.fluctuation, claims, draws=200, seed=seed, progress=False).widths[0] == 16
    assert run_check(programs.pairs, [Claim("return", 1.0)], draws=8, seed=seed, progress=False).widths[0] == 64


@pytest.mark.parametrize("n", [90, 110])
def test_widths_are_moved_by_a_tenth_and_no_further(n):
    assert _nearest(100, [1 / n]) == n
    assert _nearest(100, [1 / 89]) == 90 and _nearest(100, [1 / 111]) == 110


def test_the_largest_width_has_to_fit_and_is_named(programs):
    with pytest.raises(CheckError, match=r"one draw at width 1000000 does not fit into 1 GB; give widths up to \d+,"):
        sampled_widths(programs.tied, (64, 128, 10**6), Series(), None)
    with pytest.raises(CheckError, match="increase, each larger than the one before"):
        sampled_widths(programs.tied, (64, 64), Series(), None)
    with pytest.raises(CheckError, match="needs at least 2 widths, better 4"):
        sampled_widths(programs.tied, (64,), Series(), None)
    for bad in ((64, 0), (64, -1), (64, 2.5), "ab", 7, (64, True)):
        with pytest.raises(CheckError, match=r"positive whole numbers|give a sequence"):
            sampled_widths(programs.tied, bad, Series(), None)


def test_depths_in_proportion_to_the_width_are_whole_too(programs):
    """With 20 layers at width 400, one in 20 neurons: the others are moved to multiples of 20."""
    widths, remarks = sampled_widths(programs.tied, (105, 218, 400), Series(), None, layers=20)
    assert widths == (100, 220, 400)
    assert remarks == ("Widths were moved to (100, 220, 400), where numbers of layers are close to whole numbers.",)
