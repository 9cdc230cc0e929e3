"""Kernels of over 400 networks against recursions written by hand, in 40 digits where that is possible.

The inputs of each case hold a pair that coincides, an opposite pair, a collinear pair and one that coincides to 1e-8.
"""

import kernel_case_attention
import kernel_case_layers
import kernel_cases
import pytest
import scipy.stats
from kernel_cases import Case, relative_error

import tplimits as tp

#: of the cases `make test` takes every third, so that each activation, depth and kind of layer is among them
THIRD = 3
CASES = [*kernel_cases.perceptrons(), *kernel_case_layers.layers(), *kernel_case_attention.attentions()]


def derived(case: Case):
    return tp.derive(case.network, tp.Kernels(train=case.train, infinite=case.infinite))


def test_there_are_many_and_no_two_have_one_name():
    assert len({c.name for c in CASES}) == len(CASES) >= 400


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, id=c.name, marks=[pytest.mark.long] * (i % THIRD > 0))
        for i, c in enumerate(c for c in CASES if not c.sampled)
    ],
)
def test_against_the_recursion_by_hand(case: Case):
    found, (nngp, ntk) = derived(case).evaluate(case.inputs), case.reference()
    assert relative_error(found.nngp, nngp) < case.tolerance
    if case.ntk:
        assert relative_error(found.ntk, ntk) < case.tolerance
    else:
        with pytest.raises(tp.NoLimitError):
            found.ntk  # noqa: B018


@pytest.mark.long
@pytest.mark.parametrize("case", [c for c in CASES if c.sampled], ids=lambda c: c.name)
def test_drawn_logits_against_the_integral(case: Case):
    """Every entry within its error bar at a family-wise level of 1e-4; an error of 5 % is seen."""
    found, wanted = derived(case).evaluate(case.inputs, draws=16384, replicates=64), case.reference()
    reach = scipy.stats.t.ppf(1 - 1e-4 / (4 * wanted[0].size), df=63)
    for value, error, exact in zip(found, (found.nngp_error, found.ntk_error), wanted, strict=True):
        assert (abs(value - exact) < reach * error + 1e-12).all()
        assert (abs(value - 1.05 * exact) > reach * error).any()


def test_an_error_in_the_tenth_digit_is_seen():
    case = next(c for c in CASES if c.name.startswith("mlp-relu-2"))
    nngp, _ = case.reference()
    assert relative_error(nngp * (1 + 1e-9), nngp) > case.tolerance
