"""b and C of kernels against networks of finite width: what is derived accepted, mistakes rejected."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.kernels.first_order import recursion

THRICE = tp.init(mean=0, std=3)
ONE = [[1.0]]
PAIR = np.array([[1.0, 0.0], [0.6, 0.8]])
SMALL = {"widths": (8, 16, 32), "progress": False}


@tp.network
def two(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * (W @ tp.sum(U * ξ, over="d") ** 2) ** 2


@tp.network
def critical(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, c: tp.Scalar, v: tp.Vector = THRICE):
    x = tp.relu(tp.sqrt(2) * tp.sum(U * ξ, over="d"))
    return tp.readout(v * tp.relu(tp.sqrt(2) * (W @ x)) / 3) + 2 * c


def independent(*args):
    """Gradient independence: without the term of Wᵀ after W."""
    found = recursion_downwards(*args)
    return recursion._Backward(found.limit, found.own, found.mean, found.slope, 0 * found.back)


recursion_downwards = recursion._downwards


@pytest.mark.long
@pytest.mark.sampling
def test_a_kernel_of_first_order_is_accepted_and_its_entries_named(seed):
    limit = tp.derive(critical, tp.Kernels(order=1))
    verdict = tp.check(limit, X1=PAIR, draws=500, seed=seed, **SMALL)
    assert verdict.accepted, verdict
    names = [row.claim.name for row in verdict.rows]
    assert len(names) == 18 and {"K[0,1]", "Θ[1,1]", "b(K[0,1])", "b(Θ[0,0])"} < set(names)
    assert {"Var(√n·K[0,0])", "Var(√n·Θ[0,1])"} < set(names)
    rows = {row.claim.name: row for row in verdict.rows}
    assert rows["Var(√n·K[0,0])"].claim.value == pytest.approx(10)  # 5 L/n of relu


@pytest.mark.long
@pytest.mark.sampling
def test_wrong_coefficients_are_rejected(seed):
    limit = tp.derive(critical, tp.Kernels(order=1))
    K = limit.evaluate(PAIR)
    twins = (
        {"nngp_variance": K.nngp_variance / 2},  # V of the layer below left out
        {"C(Θ[0,1])": K.ntk_variance[0, 1] / 2},
        {"nngp_bias": K.nngp_bias + 4},
        {"C(K[0,0], Θ[0,0])": 0.0},
    )
    for twin in twins:
        assert not tp.check(limit, X1=PAIR, claims=twin, draws=4000, seed=seed, **SMALL).accepted, twin
    right = {"nngp_variance": K.nngp_variance, "ntk_bias": K.ntk_bias, "nngp_bias": K.nngp_bias}
    assert tp.check(limit, X1=PAIR, claims=right, draws=4000, seed=seed, **SMALL).accepted


@pytest.mark.sampling
def test_gradients_as_if_they_were_independent_are_rejected(seed, monkeypatch):
    limit = tp.derive(two, tp.Kernels(train=("U",), order=1))
    K = limit.evaluate(ONE)
    monkeypatch.setattr(recursion, "_downwards", independent)
    wrong = limit.evaluate(ONE)
    for stated, accepted in ((K.ntk_bias, True), (wrong.ntk_bias, False)):
        verdict = tp.check(limit, X1=ONE, claims={"ntk_bias": stated}, draws=4000, seed=seed, **SMALL)
        assert verdict.accepted == accepted, verdict
