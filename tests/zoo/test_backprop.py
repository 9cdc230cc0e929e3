"""A backward step: the power of a masked fresh vector, and no overlap with the input."""

import pytest

import tplimits as tp
from tplimits import zoo


def test_limit(agrees, mean):
    agrees("backprop", {"return[0]": mean(lambda g: 1 if g > 0 else 0), "return[1]": 0})


def test_the_dot_ket_is_there_and_vanishes():
    limit = tp.derive(zoo.get("backprop").program)
    assert limit.dot("g") == 0


@pytest.mark.long
@pytest.mark.sampling
def test_finite_width(judge):
    judge.accepts("backprop")
    judge.rejects("backprop", {"return[0]": 1.05 * 0.5})
