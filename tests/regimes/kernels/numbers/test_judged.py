"""Hypotheses that data decides: refused at the inputs where they fail, numbers at all others."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import tplimits as tp


def limit(g, train=("v",)):
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, y: tp.Vector, v: tp.Vector):
        return v * g(tp.sum(U * ξ, over="d"), y, W)

    return tp.derive(tp.network(network), tp.Kernels(train=train))


def test_an_exponential_of_a_square_has_moments_for_small_inputs_alone():
    """E exp(x²/8)² = (1 − c/2)^(−1/2); its own second moment is finite for c < 2, c = |ξ|²."""
    found = limit(lambda x, y, W: tp.exp(x * x / 8))
    assert found.evaluate([[0.6, 0.8]]).nngp == pytest.approx(2**0.5, rel=1e-10)
    for inputs in ([[1.0, 1.0]], [[2.0, 0.0]], [[0.6, 0.8], [3.0, 0.0]]):
        with pytest.raises(tp.EvaluationError, match="no finite second moment: E exp"):
            found.evaluate(inputs)


def test_the_sign_of_a_norm_is_refused_where_it_is_zero():
    found = limit(lambda x, y, W: y * (2 + tp.sign(tp.avg(x * x) - 1)))
    values = found.evaluate([[0.6, 0.7], [0.6, 0.9], [0.6, 0.8 + 1e-6]]).nngp
    assert values.tolist() == [[1, 3, 3], [3, 9, 9], [3, 9, 9]]
    for inputs in ([[0.6, 0.8]], [[0.1, 0.2], [0.0, 1.0]]):
        with pytest.raises(tp.EvaluationError, match=r"lands on a jump of `sign`.*0 within its error"):
            found.evaluate(inputs)
    with pytest.raises(tp.EvaluationError, match="lands on a jump"):
        found.evaluate([[0.1, 0.2]], [[1.0, 0.0]])


def test_one_token_at_a_jump_is_enough():
    @tp.network
    def network(ξ: tp.Input["token", "d"], U: tp.Vector["d"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * tp.sum(x * tp.step(tp.avg(x * x) - 1), over="token")

    found = tp.derive(network, tp.Kernels(train=("v",)))
    assert found.evaluate([[[0.6, 0.9], [0.5, 0.0]]]).nngp == pytest.approx(0.36 + 0.81)
    with pytest.raises(tp.EvaluationError, match="lands on a jump of `step`"):
        found.evaluate([[[0.6, 0.9], [0.6, 0.8]]])


def test_heads_at_a_jump():
    """Members of a family are independent: the mean of q k over them is 0, over one of them its norm."""

    def network(square):
        @tp.network
        def net(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector["head"]):
            x = tp.sum(U * ξ, over="d")
            q = Q @ x
            s = tp.avg(q * (q if square else q.sel(head=0) * tp.avg(x)))
            return tp.sum(v * tp.relu(q) * tp.sign(s), over="head")

        return net.bind(head=2)

    value = tp.derive(network(True), tp.Kernels(train=("v",))).evaluate([[0.6, 0.8]]).nngp
    assert value == pytest.approx(2 * 0.5)
    with pytest.raises(tp.NoLimitError, match="lands on a jump"):
        tp.derive(network(False), tp.Kernels(train=("v",)))


def test_a_mask_keeps_what_it_hides_from_no_jump():
    """avg(x_a y) is 0 for every token: the jump is refused though the mask is 0 there."""

    @tp.network
    def network(ξ: tp.Input["token"], mask: tp.Input["token"], U: tp.Vector, y: tp.Vector, v: tp.Vector):
        x = U * ξ
        return v * tp.sum(mask * x * tp.sign(tp.avg(x * y)), over="token")

    with pytest.raises(tp.NoLimitError, match="lands on a jump"):
        tp.derive(network, tp.Kernels())


def test_a_tangent_without_a_second_moment_leaves_the_nngp():
    """E |h| = √(2/π), and E (1/(2√|h|))² is infinite."""
    pair = limit(lambda x, y, W: tp.sqrt(tp.abs(W @ x)), None).evaluate([[0.6, 0.8]])
    assert pair.nngp == pytest.approx((2 / np.pi) ** 0.5, rel=1e-5)
    with pytest.raises(tp.NoLimitError, match="pole where"):
        pair.ntk  # noqa: B018
    assert limit(lambda x, y, W: tp.sqrt(tp.abs(W @ x))).evaluate([[0.6, 0.8]]).ntk == pair.nngp


def test_poles_that_cancel_in_a_tangent():
    """∂ tanh(x)/x = sech²(x)/x − tanh(x)/x²; Θ = K + E (∂)² at |ξ| = 1."""

    def slope(u):
        return mpmath.sech(u) ** 2 / u - mpmath.tanh(u) / u**2 if abs(u) > 1e-4 else -2 * u / 3

    def mean(f):
        return mpmath.quad(lambda u: f(u) * mpmath.npdf(u), [-mpmath.inf, -1e-4, 1e-4, mpmath.inf])

    wanted = mean(lambda u: (mpmath.tanh(u) / u if u else 1) ** 2) + mean(lambda u: slope(u) ** 2)
    assert limit(lambda x, y, W: tp.tanh(x) / x, None).evaluate([[0.6, 0.8]]).ntk == pytest.approx(
        float(wanted), rel=1e-7
    )


def test_means_that_no_data_moves_have_numbers():
    value = limit(lambda x, y, W: tp.exp(y / 3)).evaluate([[0.6, 0.8], [1.0, 1.0]]).nngp
    assert value == pytest.approx(np.exp(2 / 9), rel=1e-12)


def test_what_leaves_the_range_of_doubles_is_refused():
    with pytest.raises(tp.EvaluationError, match="not a finite number"):
        limit(lambda x, y, W: tp.exp(40 * x)).evaluate([[0.6, 0.8]])
    # a constant of the recursion, whose square stands in it
    with pytest.raises(tp.EvaluationError, match="not a finite number"):
        limit(lambda x, y, W: x * tp.avg(tp.exp(40 * y))).evaluate([[0.6, 0.8]])
    number = limit(lambda x, y, W: x * tp.avg(tp.exp(4 * y))).evaluate([[0.6, 0.8]]).nngp
    assert number == pytest.approx(np.exp(16), rel=1e-12)


def test_members_of_an_infinite_family_that_no_data_moves_are_independent():
    """E sin z · E sin z′ of two heads is 0, and E sin² z = (1 − e⁻²)/2 of one."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], H: tp.Matrix["n", "n", "head"], v: tp.Vector, b: tp.Vector = 1):
        return v * tp.sum(tp.sin(H @ b), over="head") / tp.sqrt(tp.size("head"))

    limit = tp.derive(network, tp.Kernels(train=("v",), infinite=("head",)))
    assert limit.evaluate([[0.6, 0.8]]).nngp == pytest.approx((1 - np.exp(-2)) / 2, rel=1e-12)


@pytest.mark.parametrize("place", ["pole", "step", "root"])
def test_a_mean_over_other_neurons_is_a_number_with_an_error(place):
    """0 by Stein's identity times a function of x: the vector is zero, although no scalar stands in it."""
    at_zero = {"pole": lambda x, p: tp.tanh(x / p), "step": lambda x, p: tp.step(p) * x, "root": lambda x, p: p**0.5}

    @tp.network
    def network(ξ: tp.Input["d"], g: tp.Vector, U: tp.Vector["d"], v: tp.Vector):
        x, β = tp.sum(U * ξ, over="d"), tp.neuron("β")
        p = tp.avg((g[β] * tp.tanh(g[β]) - (1 - tp.tanh(g[β]) ** 2)) * tp.exp(-x * x), over=β)
        return v * at_zero[place](x, p)

    with pytest.raises(tp.EvaluationError, match="0 within its error"):
        tp.derive(network, tp.Kernels(train=("v",))).evaluate([[0.9, -0.4], [-0.2, 1.3]])


LEFT = "what rounding leaves of a sum that cancels"


@pytest.mark.parametrize(("f", "told"), [(tp.tanh, LEFT), (tp.abs, LEFT), (tp.sign, "of sign is 0 within its error")])
def test_a_difference_of_equal_vectors_that_is_rounding_alone_is_named(f, told):
    """W(a + b) − W a − W b is 0, and its variance a sum of four numbers that cancel, here to −6.5e-19."""

    def difference(x, y, W):
        return f(W @ (x + tp.relu(x)) - W @ x - W @ tp.relu(x)) + x

    with pytest.raises(tp.EvaluationError, match=told):
        limit(difference).evaluate([[0.93, 0.31], [-0.7, 0.2]])
