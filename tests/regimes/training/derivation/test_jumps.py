"""Jumps in training: the derivative of a jump of a vector is refused, that of a scalar away from it is zero."""

import numpy as np
import pytest

import tplimits as tp

X = np.array([[1.0, 0.5], [-0.3, 0.8]])
ASKED = {"X": X, "error": tp.squared_error([1.0, -0.8]), "lr": 0.1, "steps": 1}


@tp.network
def behind_a_sign(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    h = W @ tp.tanh(tp.sum(U * ξ, over="d"))
    return v * tp.sign(h)


@tp.network
def switched(ξ: tp.Input["d"], U: tp.Vector["d"], a: tp.Vector, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    s = tp.avg(a * tp.tanh(x))
    return v * x * tp.sign(s - 1)


@tp.network
def continuous(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    unused = tp.step(x)
    return v * (tp.where(x, x, 0.1 * x) + x * tp.step(x)) + 0 * unused


def test_a_jump_of_a_vector_is_named_on_its_line():
    with pytest.raises(tp.NoLimitError, match=r"`return v \* tp.sign\(h\)`\) jumps where `h` crosses 0") as found:
        tp.derive(behind_a_sign, tp.MaximalUpdate(tp.SGD()))
    assert "tanh in place of sign" in str(found.value)
    with pytest.raises(tp.NoLimitError, match="derivatives of two jumps"):
        tp.derive(behind_a_sign, tp.NeuralTangent(tp.SGD()))


def test_continuous_functions_written_with_jumps_train():
    run = tp.derive(continuous, tp.MaximalUpdate(tp.SGD())).evaluate(**ASKED, particles=256, replicates=2)
    assert np.isfinite(run.f).all() and abs(run.f[1]).max() > 0.01


# s → 0 is far from the jump at 1, where the network is −v x: both layers move f by η ξ·ξ′ times half the error
@pytest.mark.sampling
@pytest.mark.parametrize(
    ("regime", "f0"), [(tp.MaximalUpdate(tp.SGD()), None), (tp.NeuralTangent(tp.SGD()), np.array([0.2, -0.1]))]
)
def test_a_scalar_away_from_its_jump_trains_like_the_network_without_it(regime, f0):
    limit = tp.derive(switched, regime)
    asked = ASKED | ({} if f0 is None else {"f0": f0})
    start = np.zeros(2) if f0 is None else f0
    expected = start - 0.1 * X @ X.T @ (start - [1.0, -0.8])
    assert limit.evaluate(**asked).f[1] == pytest.approx(expected, rel=1e-9)
    few = {"widths": (64, 128, 256), "draws": (400, 200, 100), "progress": False}
    assert tp.check(limit, **asked, **few).accepted
    assert not tp.check(limit, **asked, **few, claims={"f[1,0]": 1.3 * expected[0]}).accepted
