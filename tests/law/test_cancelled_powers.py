"""Quotients of fluctuations written inline, where SymPy cancels √n, beside the same by name and beside networks."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp
from tplimits.program.nodes.kinds import ScalarNonlin

avg = tp.avg
INPUT = np.array([[0.6, 0.8]])

OF_TWO = {
    "|s|/s": (lambda s, t: tp.abs(s()) / s(), lambda s, t: np.sign(s)),
    "s/|s|": (lambda s, t: s() / tp.abs(s()), lambda s, t: np.sign(s)),
    "tanh(s/t)": (lambda s, t: tp.tanh(s() / t()), lambda s, t: np.tanh(s / t)),
    "s/(|s| + |t|)": (lambda s, t: s() / (tp.abs(s()) + tp.abs(t())), lambda s, t: s / (abs(s) + abs(t))),
    "relu(s)/(s - 2t)": (
        lambda s, t: tp.tanh(tp.relu(s()) / (s() - 2 * t())),
        lambda s, t: np.tanh(np.maximum(s, 0) / (s - 2 * t)),
    ),
}


def twice(s, name):
    """A scalar as it is written each time, or by a name."""
    if name:
        named = s().named(name)
        return lambda: named
    return s


@pytest.mark.parametrize("name", [False, True])
@pytest.mark.parametrize("case", OF_TWO)
def test_means_and_variances(case, name):
    """The limit is F(S, T) with standard normal S, T: the inline ones had been refused."""
    function, same = OF_TWO[case]

    def subject(x: tp.Vector, y: tp.Vector):
        s = twice(lambda: tp.sqrt(tp.n) * avg(x), "s" * name)
        t = twice(lambda: tp.sqrt(tp.n) * avg(y), "t" * name)
        return (1 + function(s, t)) ** 2

    found = tp.derive(tp.program(subject)).evaluate()["return"]
    x, y = np.random.default_rng(3).normal(size=(2, 20_000, 64)).mean(-1) * 8  # networks of 64 neurons
    values = (1 + same(x, y)) ** 2
    error = values.std() / np.sqrt(len(values))
    assert abs(values.mean() - found.value) < 5 * error
    assert abs(values.var() - found.variance) < 0.1 * found.variance
    assert abs(values.mean() - found.value - 0.15) > 5 * error  # a wrong twin


@pytest.mark.parametrize("name", [False, True])
def test_means_over_two_widths(name):
    """tanh(1 + S/T) of one over n and one over k, k/n = 3; the inline one had been refused."""

    def subject(y: tp.Vector["k"], R: tp.Matrix["k", "n"], x: tp.Vector, m: tp.Vector):
        s = twice(lambda: tp.sqrt(tp.n) * avg(m + x / 2), "s" * name)
        t = twice(lambda: tp.sqrt(tp.width("k")) * avg(y), "t" * name)
        return tp.tanh(1 + tp.tanh(s() / t()))

    found = tp.derive(tp.program(subject)).evaluate(ratios={"k": 3})["return"]
    S, T = np.random.default_rng(5).normal(size=(2, 400_000)) * np.array([[np.sqrt(1.25)], [1.0]])
    values = np.tanh(1 + np.tanh(S / T))
    error = values.std() / np.sqrt(len(values))
    assert abs(values.mean() - found.value) < 5 * error
    assert abs(np.tanh(1 + np.tanh(S / T / 3**0.5)).mean() - found.value) > 5 * error  # a wrong twin: √n for √k


@pytest.mark.parametrize("train", [("v",), None])
@pytest.mark.parametrize("case", OF_TWO)
def test_kernels_are_those_by_name(case, train):
    function, _ = OF_TWO[case]

    def sampled(name):
        @tp.network
        def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, M: tp.Matrix, v: tp.Vector):
            h = tp.tanh(tp.sum(U * ξ, over="d"))
            # named first: draws are in the order of averages
            a, b = avg((W @ h) * (M @ h)).named("a"), avg((W @ (h * h - 1)) * (M @ h**3)).named("b")
            s, t = twice(lambda: tp.sqrt(tp.n) * a, "s" * name), twice(lambda: tp.sqrt(tp.n) * b, "t" * name)
            return v * h * (2 + function(s, t))

        sample = tp.derive(network, tp.Kernels(train=train)).sample(INPUT, draws=20)
        return np.concatenate([sample.nngp.ravel(), sample.ntk.ravel()])

    try:
        by_name = sampled(True)
    except tp.TplimitsError as error:
        with pytest.raises(type(error)):
            sampled(False)
        return
    assert np.ptp(by_name) > 0.1
    assert sampled(False) == pytest.approx(by_name, rel=1e-6)


@pytest.mark.parametrize("function", [lambda a, b: a / b**2, lambda a, b: tp.exp(a) / b, lambda a, b: 1 / (a + b)])
def test_what_grows_stays_a_pole(function):
    def subject(x: tp.Vector, y: tp.Vector):
        return tp.tanh(function(avg(x), avg(y)))

    with pytest.raises(tp.NoLimitError, match="is not finite at the limit of its arguments"):
        tp.derive(tp.program(subject))


def test_powers_that_cancel_below_no_pole_name_nothing():
    """1/(1 + eˢ) is finite at s = 0: the scalar with its power of k is written into what reads it, as it was."""

    @tp.program
    def harmless(a: tp.Vector, b: tp.Vector, P: tp.Matrix["k", "n"], Q: tp.Matrix["k", "n"]):
        def s():
            return tp.sqrt(tp.width("k")) * avg((P @ a) * (Q @ a))

        return avg(a * b / (1 + tp.exp(s() / tp.sqrt(tp.n))))

    @tp.program
    def singular(a: tp.Vector, b: tp.Vector, P: tp.Matrix["k", "n"], Q: tp.Matrix["k", "n"]):
        def s():
            return tp.sqrt(tp.width("k")) * avg((P @ a) * (Q @ a))

        return avg(a * b * tp.abs(s()) / s())

    scaled = [
        [s for s in program if isinstance(s, ScalarNonlin) and s.body.free_symbols] for program in (harmless, singular)
    ]
    assert not scaled[0] and scaled[1]
