"""Networks and inputs whose kernels to order 1/n are not derived: refused with the reason."""

import pytest

import tplimits as tp
from tplimits.errors import EvaluationError, NoLimitError, ProgramError


@tp.network
def skip(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    return v * (x + tp.tanh(W @ x))


@tp.network
def tied(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d"))))


@tp.network
def shared_bias(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d") + b) + b)


@tp.network
def bias_of_the_first_layer(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")) + U.sel(d=0))


@tp.network
def bias_outside(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector):
    return v * (b + tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d"))) * b)


@tp.network
def normed(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    return v * (x - tp.avg(x))


@tp.network
def convolved(ξ: tp.Input["d", "at"], U: tp.Vector["d"], v: tp.Vector["at"]):
    return tp.sum(v * tp.tanh(tp.sum(U * ξ, over="d")), over="at")


@tp.network
def kink_elsewhere(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.relu(tp.sum(U * ξ, over="d") - 1)


@tp.network
def uneven(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector.uniform(-1, 1)):
    return v * tp.tanh(tp.sum(U * ξ, over="d"))


@tp.network
def relu_net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.relu(W @ tp.relu(tp.sum(U * ξ, over="d")))


@tp.network
def width_in_it(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.tanh(tp.sum(U * ξ, over="d")) * (1 + 1 / tp.n)


@tp.network
def width_before_it(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh((1 - 1 / tp.n) * (W @ tp.tanh(tp.sum(U * ξ, over="d"))))


@tp.network
def bent_data(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.tanh(tp.sum(U * tp.tanh(ξ), over="d"))


@tp.network
def two_data(ξ: tp.Input["d"], ζ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.tanh(tp.sum(U * ξ * ζ, over="d"))


REFUSED = {
    "a function of data": (bent_data, "is no sum of weights times data"),
    "products of data": (two_data, "is no sum of weights times data"),
    "skip": (skip, "`return`.* is no function of one image W x"),
    "tied": (tied, "uses `W` a second time"),
    "bias twice": (shared_bias, "uses `b` a second time"),
    "weights as a bias": (bias_of_the_first_layer.bind(d=2), "uses `U` a second time"),
    "bias outside": (bias_outside, "holds its image W x and its biases in more than one sum"),
    "norm": (normed, "one image W x"),
    "convolution": (convolved, "is not one vector of weights times a function"),
    "n": (width_in_it, "holds n"),
    "n in an argument": (width_before_it, "holds n"),
    "law": (uneven, "not normal of mean 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_reason(name):
    network, words = REFUSED[name]
    with pytest.raises(NoLimitError, match=words) as refusal:
        tp.derive(network, tp.Kernels(order=1))
    assert "order=1" in str(refusal.value)


def test_a_kink_away_from_zero_has_no_closed_form():
    with pytest.raises(NoLimitError, match="has a kink, and the mean of φ φ′ no closed form"):
        tp.derive(kink_elsewhere, tp.Kernels(order=1)).evaluate([[1.0]])


def test_inputs_at_which_kernels_have_no_derivatives():
    limit = tp.derive(relu_net, tp.Kernels(order=1))
    with pytest.raises(EvaluationError, match="the same up to a factor"):
        limit.evaluate([[1.0, 0.0], [2.0, 0.0]])
    with pytest.raises(EvaluationError, match="an input is 0"):
        limit.evaluate([[0.0, 0.0]])
    with pytest.raises(EvaluationError, match="are for kernels of order 0"):
        limit.evaluate([[1.0, 0.0]], out="somewhere")


def test_other_orders():
    with pytest.raises(ProgramError, match="order=2"):
        tp.derive(relu_net, tp.Kernels(order=2))
