"""Outputs that are sums of centred values are 0 at every width, and no others are taken for them."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.errors import NoLimitError
from tplimits.program.network.cancelling import refuse_output_that_cancels


def network(head):
    """What is read out as a function of h = W relu(Uξ) and U."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix):
        return head(W @ tp.relu(tp.sum(U * ξ, over="d")), U.sel(d=0))

    return net


def centred(x):
    return x - tp.avg(x)


CANCEL = [
    lambda h, u: centred(h),
    lambda h, u: 2 * tp.avg(u * u) * centred(h) - tp.avg(centred(h)),
    lambda h, u: centred(h) / tp.sqrt(tp.avg(centred(h) ** 2) + 0.1),
    lambda h, u: centred(centred(h * u) + u),
    lambda h, u: u * tp.avg(h) - h * tp.avg(u),
    lambda h, u: (h - tp.avg(h)) * (1 + tp.exp(tp.avg(u))),
]
STAY = [
    lambda h, u: h,
    lambda h, u: h * centred(h),
    lambda h, u: tp.tanh(centred(h)),
    lambda h, u: u * centred(h),
    lambda h, u: h - tp.avg(u),
    lambda h, u: u * tp.avg(h) - h * tp.avg(u) + tp.avg(h) ** 2,
]


def largest_output(net):
    """The sum that is read out, in units of what is summed, over three draws."""
    rng = np.random.default_rng(3)
    found = []
    for _ in range(3):
        U, W = rng.normal(size=(2, 7)), rng.normal(size=(7, 7))
        x = net.run(n=7, ξ=rng.normal(size=2), U=U, W=W)["return"]
        found.append(abs(x.sum()) / abs(x).sum())
    return max(found)


@pytest.mark.parametrize("head", CANCEL)
def test_outputs_that_cancel_are_refused_and_are_zero(head):
    net = network(head)
    assert largest_output(net) < 1e-13
    with pytest.raises(NoLimitError, match="the output is 0 whatever"):
        refuse_output_that_cancels(net)


@pytest.mark.parametrize("head", STAY)
def test_other_outputs_are_taken_and_are_not_zero(head):
    net = network(head)
    assert largest_output(net) > 1e-3
    refuse_output_that_cancels(net)


@pytest.mark.parametrize("parametrization", [tp.NTP, tp.MUP, tp.SP], ids=repr)
def test_no_regime_is_named_for_an_output_that_is_zero(parametrization):
    with pytest.raises(NoLimitError, match="Multiply what is read out by a vector"):
        tp.classify(network(CANCEL[0]), parametrization, tp.SGD())
