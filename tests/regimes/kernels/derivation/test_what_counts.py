"""Kernels: code that the output does not use is asked nothing, doubts can be taken on, sums of zeros are zero."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from scipy import integrate, stats

import tplimits as tp
from tplimits.program.parts import found
from tplimits.regimes.kernels.derivation.leaves import Moment

X = np.array([[0.6, 0.8], [1.0, -0.3]])
SHIFTED = tp.init(mean=0.5, std=1)


def test_code_that_the_output_does_not_use_is_asked_nothing():
    """log(−x²), 1/s with s → 0, a fluctuation that is not safe, and x^(−1) would each be refused."""

    def network(rest):
        @tp.network
        def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
            x = tp.sum(U * ξ, over="d")
            h = W @ tp.tanh(x)
            if rest:
                worse = x / (1 / x)
                s = tp.avg(x * h)
                worst = worse * tp.sign(s) + tp.exp(x * x) / s + 1 / x
                tp.avg(worst + tp.log(x) + tp.sqrt(tp.n) * tp.avg(h * h - tp.avg(h * h)))
            return v * tp.tanh(h)

        return tp.derive(net, tp.Kernels())

    plain, fuller = network(False).evaluate(X), network(True).evaluate(X)
    np.testing.assert_array_equal(fuller.nngp, plain.nngp)
    np.testing.assert_array_equal(fuller.ntk, plain.ntk)


@tp.network
def doubtful(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    """|sin|^(−1/5) is square integrable, which the analysis does not see."""
    z = tp.abs(tp.sin(tp.sum(U * ξ, over="d"))) ** (-1 / 5)
    return v * z


def test_a_doubt_can_be_taken_on_and_is_repeated():
    limit = tp.derive(doubtful, tp.Kernels(train=("v",)))
    with pytest.raises(tp.EvaluationError, match=r"moment not established: .*assume=\('moment of (z|return)',\)"):
        limit.evaluate(X)
    with pytest.raises(tp.ProgramError, match=r"no such doubt; its doubts are .*'moment of z'"):
        tp.derive(doubtful, tp.Kernels(), assume="moment of v")
    assumed = tp.derive(doubtful, tp.Kernels(train=("v",)), assume="moment of z")
    assert "assumed: moment of z" in repr(assumed)
    assert assumed.steps[-1].rule == "assumption"
    assert any("moment of z" in text for text in assumed.assumptions)
    assert pickle.loads(pickle.dumps(assumed)).assumed == ("moment of z",)
    value = assumed.evaluate(X[:1]).nngp.item()
    pieces = np.linspace(-3, 3, 7) * np.pi
    expected = sum(
        integrate.quad(lambda x: abs(np.sin(x)) ** -0.4 * stats.norm.pdf(x), a, b)[0]
        for a, b in itertools.pairwise(pieces)
    )
    assert value == pytest.approx(expected, rel=2e-3)
    assert value != pytest.approx(1.01 * expected, rel=2e-3)


@pytest.mark.parametrize("regime", [tp.MaximalUpdate(tp.SGD()), tp.NeuralTangent(tp.SGD())])
def test_training_has_no_doubts_to_take_on(regime):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.tanh(tp.sum(U * ξ, over="d"))

    with pytest.raises(tp.ProgramError, match="no such doubt; its doubts are none"):
        tp.derive(network, regime, assume=("moment of y",))


def test_infinite_heads_that_no_input_enters_inside_a_fluctuation():
    """E exp(−s²)² y² with s ~ N(0, E b²/4): heads are means of sigmoid(0) = ½ over a sum of white images."""

    @tp.network
    def network(
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        H: tp.Matrix["n", "n", "head"],
        J: tp.Matrix["n", "n", "head"],
        a: tp.Vector,
        v: tp.Vector,
        b: tp.Vector = SHIFTED,
    ):
        image = H @ b
        gate = tp.sigmoid(tp.avg(image * (J @ b)))
        heads = tp.sum(gate * image, over="head") / tp.sqrt(tp.size("head"))
        s = tp.sqrt(tp.n) * tp.avg(a * heads)
        return v * tp.sum(U * ξ, over="d") * tp.exp(-(s**2))

    limit = tp.derive(network, tp.Kernels(train=("J", "U", "a"), infinite=("head",)))
    found = limit.sample(X[:1], draws=20_000, seed=1)
    variance = 1.25 / 4
    mean = (1 + 4 * variance) ** -0.5  # E exp(−2 s²)
    assert found.nngp.mean() == pytest.approx(mean, abs=5 * found.nngp.std() / 20_000**0.5)
    assert found.nngp.mean() != pytest.approx((1 + 8 * variance) ** -0.5, abs=0.02)
    # of U: E exp(−2s²); of a: E 4 s² exp(−2s²)·Var s; J moves nothing
    slope = 4 * variance * variance * (1 + 4 * variance) ** -1.5
    assert found.ntk.mean() == pytest.approx(mean + slope, abs=5 * found.ntk.std() / 20_000**0.5)


def test_a_jump_of_a_random_scalar_has_no_tangent_kernel_but_an_nngp():
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], a: tp.Vector, v: tp.Vector):
        y = tp.sum(U * ξ, over="d")
        return v * y * tp.step(tp.sqrt(tp.n) * tp.avg(a * y))

    limit = tp.derive(network, tp.Kernels())
    assert "derivative of a jump of a scalar that stays random" in repr(limit)
    behind = tp.derive(network, tp.Kernels(train=("v",))).sample(X[:1], draws=4000, seed=2)
    assert behind.nngp.mean() == pytest.approx(0.5, abs=0.05)


def test_what_both_inputs_share_is_one_variable():
    """A bias and the uniform weights of two channels: three variables, not three of either input."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"].uniform(-1, 2), b: tp.Vector.truncated(1, 0.8), v: tp.Vector):
        z = tp.sum(U * ξ, over="d")
        return v * tp.relu(z + b) * tp.sigmoid(z)

    limit = tp.derive(net.bind(d=2), tp.Kernels(train=("v",)))
    exprs = [limit.derivation.nngp, *(table.definition for table in limit.tables)]
    assert {len(m.variables) for e in exprs for m in found(e, Moment)} == {3}
