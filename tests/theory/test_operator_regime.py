"""The operator regime beside networks trained at finite width with their true matrices, and twins that are wrong."""

import functools
import warnings

import numpy as np
import pytest
import sympy
from finite_training import Adam, Descent, Perceptron

import tplimits as tp

pytestmark = pytest.mark.sampling

X = np.array([[0.9, -0.4], [-0.2, 1.3], [1.1, 0.8], [-0.7, -0.6], [0.3, 0.5], [-1.4, 0.2]])
Y = np.array([1.0, -0.8, 0.5, 1.2, np.nan, np.nan])
SIGNAL = tp.squared_error(Y, train=[0, 1, 2, 3])
STEPS = 8
#: widths, and how many networks of each
NETWORKS = {128: 96, 512: 32}


@tp.network
def perceptron(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))
    return v * x


@tp.network
def tied(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))
    return v * tp.tanh(W @ x)


NETWORK = {1: perceptron, 2: tied}


def adam():
    return Adam(0.05)


@functools.cache
def trained(repeats, lr, optimizer, decay):
    """Means over networks of what training adds to f^dec, with errors; extrapolated to 1/n = 0 from two widths.

    The error signal sees f − f^dec, so that all networks have the same limit, whatever they start from.
    """
    found = []
    for n, count in NETWORKS.items():
        runs = []
        for k in range(count):
            network = Perceptron(n, 2, (n, k), repeats)
            f, without = network.train(X, lambda f, g: SIGNAL(f - g), lr, STEPS, optimizer, decay)
            runs.append(f - without)
        found.append((np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1) / np.sqrt(count)))
    (narrow, first), (wide, second) = found
    small, large = NETWORKS
    a, b = large / (large - small), small / (large - small)
    return a * wide - b * narrow, np.hypot(a * second, b * first)


def rms_z(limit, means, errors):
    z = (means - limit.f)[1:] / np.hypot(errors, limit.stderr)[1:]
    return float(np.sqrt((z**2).mean()))


def from_zero(limit, lr, **settings):
    """The limit from f^dec = 0."""
    decayed = limit.regime.weight_decay != 0
    f0 = np.zeros((STEPS + 1, len(X)) if decayed else len(X))
    return limit.evaluate(X, error=SIGNAL, lr=lr, steps=STEPS, f0=f0, replicates=6, seed=1, **settings)


CASES = {
    "adam": (1, tp.Adam(eps=0.05), adam, 0.05, 0.0),
    "adam, tied": (2, tp.Adam(eps=0.05), adam, 0.05, 0.0),
    "adam, decay": (1, tp.Adam(eps=0.05), adam, 0.05, 0.05),
    "adam, tied, decay": (2, tp.Adam(eps=0.05), adam, 0.05, 0.05),
    "descent": (1, tp.SGD(), Descent, 0.5, 0.0),
    "descent, tied, decay": (2, tp.SGD(), Descent, 0.5, 0.05),
}


@pytest.mark.long
@pytest.mark.parametrize("case", [pytest.param(c, marks=[pytest.mark.long] * c.startswith("adam")) for c in CASES])
def test_trained_networks_tend_to_the_limit(case):
    repeats, optimizer, same, lr, decay = CASES[case]
    limit = tp.derive(NETWORK[repeats], tp.NeuralTangent(optimizer, weight_decay=decay))
    run = from_zero(limit, lr)
    assert np.abs(run.f[-1]).max() > 0.1  # something was learned
    assert rms_z(run, *trained(repeats, lr, same, decay)) < 2


@pytest.mark.long
def test_adam_without_bias_correction_is_another_limit():
    states = {"m": lambda g, m: 0.9 * m + 0.1 * g, "v": lambda g, v: 0.999 * v + 0.001 * g**2}
    wrong = tp.Entrywise(lambda m, v: m / sympy.sqrt(v + sympy.Rational(1, 400)), states=states)
    limit = tp.derive(perceptron, tp.NeuralTangent(wrong))
    assert rms_z(from_zero(limit, 0.05), *trained(1, 0.05, adam, 0.0)) > 10
    same = trained(1, 0.05, lambda: Adam(0.05, corrected=False), 0.0)
    assert rms_z(from_zero(limit, 0.05), *same) < 2


@pytest.mark.long
def test_one_network_follows_the_limit_from_its_own_start():
    network = Perceptron(2048, 2, 3)
    f, without = network.train(X, lambda f, _: SIGNAL(f), 0.5, STEPS, Descent, 0.1)
    limit = tp.derive(perceptron, tp.NeuralTangent(tp.SGD(), weight_decay=0.1))
    settings = {"error": SIGNAL, "lr": 0.5, "steps": STEPS}
    right = limit.evaluate(X, f0=without, **settings).f
    assert np.sqrt(((f - right) ** 2).mean()) < 0.03
    # Thm 2.10.3 as printed starts from f_0 at every step, and does not shrink the first and the last layer
    kept = limit.evaluate(X, f0=np.broadcast_to(f[0], f.shape), **settings).f
    assert np.sqrt(((f - kept) ** 2).mean()) > 0.15
    printed = as_printed(0.1, f[0], 0.5)
    assert np.sqrt(((f - printed) ** 2).mean()) > 0.1


@pytest.mark.long
@pytest.mark.parametrize(("optimizer", "own", "lr"), [(tp.SGD(), Descent, 0.5), (tp.Adam(eps=0.05), adam, 0.1)])
def test_one_network_follows_the_limit_with_a_decay_for_each_layer(optimizer, own, lr):
    """Weights 0.8^t U_0, W_0 and 0.7^t v_0 at step t; decays in another order are another training."""
    network = Perceptron(2048, 2, 3)
    f, without = network.train(X, lambda f, _: SIGNAL(f), lr, STEPS, own, {"U": 0.2, "w": 0.0, "v": 0.3})
    settings = {"error": SIGNAL, "lr": lr, "steps": STEPS, "f0": without, "particles": 1024, "replicates": 4}
    right, wrong = (
        tp.derive(perceptron, tp.NeuralTangent(optimizer, weight_decay=decays)).evaluate(X, **settings).f
        for decays in ({"U": 0.2, "W": 0, "v": 0.3}, {"U": 0.3, "W": 0, "v": 0.2})
    )
    assert np.sqrt(((f - right) ** 2).mean()) < 0.003
    assert np.sqrt(((f - wrong) ** 2).mean()) > 0.009


def as_printed(λ, f0, lr):
    """Thm 2.10.3 as printed, for gradient descent: |h^1⟩ and |dx^L⟩ do not shrink, f_0 stays."""

    @tp.network
    def shrinking(ξ: tp.Input["d"], s: tp.Input, U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * tp.tanh(s * (W @ tp.tanh(tp.sum(U * ξ, over="d"))))

    many = len(X)
    scales = np.repeat((1 - λ) ** np.arange(STEPS + 1), many)
    data = {"ξ": np.concatenate([X] * (STEPS + 1)), "s": scales}
    both = np.multiply.outer(scales, scales)
    kernel = tp.derive(shrinking, tp.Kernels(train=("U", "v"))).evaluate(data).ntk
    kernel = kernel + tp.derive(shrinking, tp.Kernels(train=("W",))).evaluate(data).ntk / both
    kernel = kernel.reshape(STEPS + 1, many, STEPS + 1, many)
    f, signals = [f0], []
    for t in range(STEPS):
        signals.append(SIGNAL(f[-1]))
        moved = sum((1 - λ) ** (t - s) * kernel[t + 1, :, s] @ χ for s, χ in enumerate(signals))
        f.append(f0 - lr * moved)
    return np.array(f)


def kets_of_tied(n, seed):
    """dh and x of both uses of W in a network of width n, (inputs, n) each; and those of U and v."""
    network = Perceptron(n, 2, seed, repeats=2)
    _, (x0, x1, x2) = network.forward(X)
    W, v = network.θ["w"] / n**0.5, network.θ["v"]
    dh2 = v * (1 - x2**2)
    dh1 = (dh2 @ W) * (1 - x1**2)
    du = (dh1 @ W) * (1 - x0**2)
    return [(dh2, x1), (dh1, x0)], du, x2


def one_step(n, seed, χ, ε, inside):
    """𝒦 at all inputs from the vectors of one network; `inside`: the uses are summed inside Q."""

    def q(g):
        return g / np.sqrt(g**2 + ε**2)

    uses, du, x2 = kets_of_tied(n, seed)
    gradients = [(χ * dh.T) @ x for dh, x in uses]
    total = q(sum(gradients)) if inside else sum(q(g) for g in gradients)
    found = sum(np.einsum("an,an->a", dh @ total, x) for dh, x in uses) / n**2
    found = found + x2 @ q(χ @ x2) / n
    for i in range(X.shape[1]):
        found = found + (du * X[:, [i]]) @ q(χ @ (du * X[:, [i]])) / n
    return found


@pytest.mark.long
def test_uses_of_a_tied_matrix_are_summed_inside_the_update():
    limit = tp.derive(tied, tp.NeuralTangent(tp.SignSGD(eps=0.1)))
    run = limit.evaluate(X, error=SIGNAL, lr=1.0, steps=1, f0=np.zeros(len(X)), particles=8192, seed=2)
    χ = SIGNAL(np.zeros(len(X)))
    right = np.array([one_step(1024, k, χ, 0.1, inside=True) for k in range(12)])
    wrong = np.array([one_step(1024, k, χ, 0.1, inside=False) for k in range(12)])
    for found, accepted in ((right, True), (wrong, False)):
        error = np.hypot(found.std(axis=0, ddof=1) / np.sqrt(len(found)), run.stderr[1])
        z = (found.mean(axis=0) + run.f[1]) / error
        assert (np.sqrt((z**2).mean()) < 2) == accepted


def test_weight_decay_of_one_homogeneous_networks_is_a_power():
    @tp.network
    def relu(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * tp.relu(W @ tp.relu(tp.sum(U * ξ, over="d")))

    limit = tp.derive(relu, tp.NeuralTangent(tp.SGD(), weight_decay=0.2))
    run = limit.evaluate(X, error=lambda f: 0 * f, lr=1.0, steps=4, seed=5)
    powers = 0.8 ** (3 * np.arange(5))
    assert run.f == pytest.approx(powers[:, None] * run.f[0], abs=1e-6)
    run = limit.evaluate(X, error=lambda f: 0 * f, lr=1.0, steps=4, f0=np.arange(6.0), seed=5)
    assert run.f == pytest.approx(powers[:, None] * np.arange(6.0), abs=1e-6)


def test_sign_descent_without_eps_says_what_is_lost():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        limit = tp.derive(perceptron, tp.NeuralTangent(tp.SignSGD()))
    assert any("pseudo-Lipschitz" in line and "jumps" in line for line in limit.assumptions)


class Signs:
    """Q_t = sign(g_t)."""

    def update(self, g):
        return np.sign(g)


def test_sign_descent_on_one_input_acts_by_its_kernel_and_not_by_the_transposed_one():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = tp.derive(perceptron, tp.NeuralTangent(tp.SignSGD())).sign_kernel(X)
    trained_on, lr = 1, 0.05
    found = []
    for n, count in NETWORKS.items():
        runs = []
        for k in range(count):
            f, _ = Perceptron(n, 2, (n, k)).train(X, lambda f, _: np.eye(6)[trained_on], lr, 1, Signs)
            runs.append((f[0] - f[1]) / lr)
        found.append((np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1) / np.sqrt(count)))
    (narrow, first), (wide, second) = found
    means, errors = (4 * wide - narrow) / 3, np.hypot(4 * second, first) / 3
    assert np.sqrt((((means - kernel[trained_on]) / errors) ** 2).mean()) < 2
    assert np.sqrt((((means - kernel[:, trained_on]) / errors) ** 2).mean()) > 5
