"""Depthwise convolutions: a vector of weights for each tap, in every regime."""

import numpy as np
import pytest

import tplimits as tp

X = np.random.default_rng(0).standard_normal((2, 2, 4))
SMALL = {"widths": (64, 128, 256), "draws": (100, 80, 60)}


def network(shift):
    @tp.network
    def depthwise(ξ: tp.Input["d", "at"], U: tp.Vector["d"], w: tp.Vector["tap"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        y = tp.layers.conv1d(x, w, over={"at": 4}, taps={"tap": 3}, padding="CIRCULAR")
        return v * tp.mean(tp.relu(W @ y + shift), over="at")

    return depthwise.bind(d=2)


NET = network(0)


def test_it_multiplies_neuron_by_neuron():
    found = NET.run(n=5, seed=1, ξ=X[0])
    x = np.einsum("dn,da->an", found["U"], X[0])
    y = sum(found["w"][τ] * np.roll(x, 1 - τ, axis=0) for τ in range(3))
    assert np.allclose(found["y"], y)


def kernels():
    """K and Θ: taps see the same places of both inputs, and weights are drawn for each neuron and tap."""
    x = np.einsum("ida,jdb->iajb", X, X)
    y = sum(np.roll(x, (1 - τ, 1 - τ), axis=(1, 3)) for τ in range(3))
    size = np.sqrt(np.einsum("iaia->ia", y))
    cos = np.clip(y / size[:, :, None, None] / size, -1, 1)
    angle = np.arccos(cos)
    relu = size[:, :, None, None] * size * (np.sin(angle) + (np.pi - angle) * cos) / (2 * np.pi)
    step = (np.pi - angle) / (2 * np.pi)
    return relu.mean(axis=(1, 3)), (relu + step * (y + 2 * y)).mean(axis=(1, 3))


def test_kernels_by_hand():
    """Θ of y is that of w, of U behind it, and of the matrix above: each is y."""
    found = tp.derive(NET, tp.Kernels()).evaluate(X)
    nngp, ntk = kernels()
    assert np.allclose(found.nngp, nngp, rtol=1e-9) and np.allclose(found.ntk, ntk, rtol=1e-9)


@pytest.mark.sampling
def test_networks_agree_and_twins_do_not():
    limit = tp.derive(NET, tp.Kernels())
    options = {"X1": X, "widths": (16, 32, 64), "draws": (600, 400, 300)}
    assert tp.check(limit, **options).accepted
    twin = tp.derive(network(0.5), tp.Kernels()).evaluate(X)
    assert not tp.check(limit, claims={"nngp": twin.nngp}, **options).accepted


@pytest.mark.sampling
@pytest.mark.parametrize("regime", [tp.MaximalUpdate, tp.NeuralTangent])
def test_training_limits(regime):
    limit = tp.derive(NET, regime(tp.SGD()))
    assert tp.check(limit, X=X, error=tp.squared_error([1.0, -1.0]), lr=0.1, steps=1, **SMALL).accepted


def test_another_width_is_named():
    def wrong(V: tp.Matrix["k", "n"], x: tp.Vector["n", "at"], w: tp.Vector["k", "tap"]):
        return V @ tp.layers.conv1d(x, w, over={"at": 4}, taps={"tap": 3})

    with pytest.raises(tp.ProgramError, match=r"or a vector for each tap \(depthwise\)"):
        tp.program(wrong)
