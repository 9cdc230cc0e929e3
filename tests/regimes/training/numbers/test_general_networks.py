"""Feature-learning limits of networks that are no multilayer perceptrons, beside networks of width 1024."""

import dataclasses
import functools

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.training.finite.networks import train

pytestmark = pytest.mark.sampling

WIDTH, NETWORKS, STEPS = 1024, 12, 2


@tp.network
def residual(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector, c: tp.Scalar = 0.3):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    normed = x / tp.sqrt(1 + tp.avg(x * x))
    return tp.readout(v * (x + W.T @ tp.tanh(W @ normed + b))) + c * c


@tp.network
def attention(
    ξ: tp.Input["token", "d"],
    E: tp.Vector["d"],
    WQ: tp.Matrix,
    WK: tp.Matrix,
    WV: tp.Matrix,
    v: tp.Vector["out"],
):
    x = tp.sum(E * ξ, over="d")
    q, k, u = WQ @ x, (WK @ x).rename(token="key"), (WV @ x).rename(token="key")
    z = tp.sum(tp.softmax(tp.avg(q * k), over="key") * u, over="key")
    return v * tp.tanh(tp.mean(z, over="token"))


@tp.network
def two_widths(ξ: tp.Input["d"], U: tp.Vector["d"], A: tp.Matrix["k", "n"], B: tp.Matrix["n", "k"], v: tp.Vector):
    return v * tp.tanh(B @ tp.tanh(A @ tp.sum(U * ξ, over="d")))


@tp.network
def family(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "layer"], v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    for layer in range(2):
        x = tp.tanh(W.sel(layer=layer) @ x)
    return v * x


_RNG = np.random.default_rng(11)
X, TOKENS = _RNG.standard_normal((3, 2)), _RNG.standard_normal((3, 2, 2))
Y, TWO_OUTPUTS = _RNG.standard_normal(3), _RNG.standard_normal((3, 2))
ADAM = tp.Adam(eps=0.05)
CASES = {
    "residual, Adam": (residual, ADAM, X, Y, 0.05, {}),
    "residual, SGD": (residual, tp.SGD(), X, Y, 0.8, {}),
    "attention, Adam": (attention.bind(out=2), ADAM, TOKENS, TWO_OUTPUTS, 0.05, {}),
    "two widths, Adam": (two_widths, ADAM, X, Y, 0.05, {"k": 0.5}),
    "two widths, momentum": (two_widths, tp.SGD(momentum=0.5), X, Y, 0.3, {"k": 2}),
    "family, Adam": (family.bind(layer=2), ADAM, X, Y, 0.05, {}),
}


def limit_of(case):
    network, optimizer, *_ = CASES[case]
    return tp.derive(network, tp.MaximalUpdate(optimizer))


def run_of(case, limit):
    _, _, data, targets, lr, ratios = CASES[case]
    error = tp.squared_error(targets)
    return limit.evaluate(data, error=error, lr=lr, steps=STEPS, particles=2048, replicates=8, ratios=ratios)


@functools.cache
def trained(case):
    """Mean and standard error of f_1 − f_0, …: f_0 has mean 0 (of the readout) at any width, and most of the noise."""
    network, optimizer, data, targets, lr, ratios = CASES[case]
    error = tp.squared_error(targets)
    f = train(network, tp.MUP, optimizer, data, error, lr, STEPS, WIDTH, seed=3, draws=NETWORKS, ratios=ratios).f
    moved = f[:, 1:] - f[:, :1]
    return moved.mean(axis=0), moved.std(axis=0, ddof=1) / np.sqrt(NETWORKS)


def rms_z(case, run):
    mean, error = trained(case)
    z = (mean - (run.f[1:] - run.f[0])) / np.hypot(error, run.stderr[1:])
    return float(np.sqrt((z**2).mean()))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_networks_of_any_form_agree_within_their_standard_errors(case):
    run = run_of(case, limit_of(case))
    assert rms_z(case, run) <= 1.5
    assert np.abs(run.f[-1] - run.f[0]).max() > 5 * trained(case)[1].max()


@pytest.mark.long
@pytest.mark.parametrize("left_out", [True, False])
def test_updates_need_the_transposed_uses_and_the_others(left_out):
    """A sum over the uses h = W x alone, without h = Wᵀ z, is rejected; so is the other half."""
    case = "residual, SGD"
    limit = limit_of(case)
    total = limit.recursion.total
    uses = {
        name: tuple(use for use in found if use.operand is None or use.transposed != left_out)
        for name, found in total.backward.gradients.items()
    }
    total.__dict__["backward"] = dataclasses.replace(total.backward, gradients=uses)
    assert rms_z(case, run_of(case, limit)) > 3
