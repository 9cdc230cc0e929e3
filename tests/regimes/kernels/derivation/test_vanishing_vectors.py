"""Functions of vectors that vanish with the width are constants."""

import math

import numpy as np
import pytest

import tplimits as tp


@tp.network
def vanishing(ξ: tp.Input["d"], U: tp.Vector["d"], V: tp.Matrix, W: tp.Matrix, v: tp.Vector):
    """x times an average that tends to 0."""
    x = tp.sum(U * ξ, over="d")
    return v * tp.softplus(W @ (x * tp.avg(x * (V @ x))))


def test_a_function_of_a_vector_that_vanishes_is_its_value_at_zero():
    found = tp.derive(vanishing, tp.Kernels(train=("v",))).evaluate([[1.0, 2.0], [0.0, 1.0]])
    assert np.asarray(found.nngp) == pytest.approx(math.log(2) ** 2)


@pytest.mark.parametrize(
    "nothing",
    [lambda x: tp.relu(x) - tp.relu(-x) - x, lambda x: tp.abs(x) - tp.relu(x) - tp.relu(-x)],
    ids=["relu(x) − relu(−x) − x", "|x| − relu(x) − relu(−x)"],
)
def test_the_sign_of_an_image_of_what_is_zero_by_halves(nothing):
    """Networks have 0 there without rounding, and the sign of 0 is 0: on widths and on kernels E (a + 0)² = 1."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, a: tp.Vector):
        return tp.avg((a + tp.sign(W @ nothing(x))) ** 2)

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, a: tp.Vector, v: tp.Vector):
        return v * (a + tp.sign(W @ nothing(tp.sum(U * ξ, over="d"))))

    assert program.run(n=64, seed=0)["return"] == pytest.approx(np.mean(program.run(n=64, seed=0)["a"] ** 2))
    assert tp.derive(program).evaluate()["return"].value == 1
    assert tp.derive(network, tp.Kernels(train=("v",))).evaluate([[0.6, 0.8]]).nngp == pytest.approx(1)


def test_the_sign_of_an_image_of_rounding_is_refused():
    """max(x, a) + min(x, a) − x − a is rounded: networks have ±1e-16, and E sign² = 1 where it is no zero."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, a: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * tp.sign(W @ (tp.maximum(x, a) + tp.minimum(x, a) - x - a))

    with pytest.raises(tp.EvaluationError, match="lands on a jump of `sign`"):
        tp.derive(network, tp.Kernels(train=("v",))).evaluate([[0.6, 0.8]])


def test_signs_of_one_logit_with_and_without_the_root_of_n():
    """sign(√n s)·sign(s) is 1 in every network: x·(1 + 1) has the kernel 4 whatever the logit is."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, z: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        s = tp.avg(z * (W @ x))
        return v * x * (1 + tp.sign(tp.sqrt(tp.n) * s) * tp.sign(s))

    X = np.array([[0.6, 0.8]])
    run = network.run(n=64, seed=1, ξ=X[0])
    assert run["return"] == pytest.approx(2 * run["v"] * run["x"])
    found = tp.derive(network, tp.Kernels(train=("v",))).sample(X, draws=64, seed=0)
    assert np.asarray(found.nngp) == pytest.approx(4)


@pytest.mark.sampling
def test_networks_of_finite_width_tend_to_it():
    """E f² at width 256 is log² 2 = 0.480 to 0.02; with a vector of order 1, of variance ½, it would be 0.7."""
    runs = [vanishing.run(n=256, seed=seed, ξ=[0.5, 0.5])["return"] for seed in range(60)]
    assert np.mean([np.mean(x**2) for x in runs]) == pytest.approx(math.log(2) ** 2, abs=0.02)
