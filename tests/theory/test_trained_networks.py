"""Both training limits beside perceptrons of widths 128, 512 and 2048 that are trained with their true matrices.

What training adds to f^dec, the outputs at (1 − λ)^t times the initial weights, is compared: in the operator regime it
has the limit that starts from 0, in the feature-learning limit f^dec vanishes.  The oracle is plain NumPy.
"""

import functools

import numpy as np
import pytest
import trained_networks as finite

import tplimits as tp

pytestmark = pytest.mark.sampling

STEPS, BATCH = 3, 4
#: networks of each width
NETWORKS = ((128, 96), (512, 24), (2048, 6))
_DATA = np.random.default_rng(5)
X, Y = _DATA.standard_normal((6, 4)), _DATA.standard_normal(6)
ERROR = tp.squared_error(Y, train=range(BATCH))
OPTIMIZERS = {
    "Adam": (tp.Adam(eps=0.05), finite.Adam(0.05), 0.05, 0.0),
    "SGD": (tp.SGD(), finite.SGD(), 0.5, 0.0),
    "AdamW": (tp.Adam(eps=0.05), finite.Adam(0.05), 0.05, 0.1),
}
#: s of the oracle
REGIMES = {"operator": 0.5, "feature": 0.0}


@tp.network
def two(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))


@tp.network
def three(ξ: tp.Input["d"], U: tp.Vector["d"], A: tp.Matrix, B: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(B @ tp.tanh(A @ tp.tanh(tp.sum(U * ξ, over="d"))))


LAYERS = {2: two, 3: three}


def limit(regime, layers, optimizer, lr, decay, steps=STEPS):
    """The limit of f − f^dec."""
    asked = {"error": ERROR, "lr": lr, "steps": steps, "particles": 4096, "replicates": 8}
    if regime == "feature":
        return tp.derive(LAYERS[layers], tp.MaximalUpdate(optimizer, weight_decay=decay)).evaluate(X, **asked)
    start = np.zeros((steps + 1, len(X)) if decay else len(X))
    return tp.derive(LAYERS[layers], tp.NeuralTangent(optimizer, weight_decay=decay)).evaluate(X, f0=start, **asked)


@functools.cache
def networks(layers, steps=STEPS, counts=NETWORKS, names=tuple(OPTIMIZERS)):
    """f − f^dec of networks by regime and optimizer and by width, (networks, steps + 1, inputs).

    All start from the same weights: random numbers of large matrices take longer than training them.
    """
    found = {(regime, name): {} for regime in REGIMES for name in names}
    for n, count in counts:
        rows = {case: [] for case in found}
        for k in range(count):
            weights = finite.drawn(n, X.shape[1], layers, np.random.default_rng([8, n, k]))
            for regime, name in found:
                _, optimizer, lr, decay = OPTIMIZERS[name]
                more = {"decay": decay, "batch": BATCH, "s": REGIMES[regime]}
                rows[regime, name].append(finite.train_apart(weights, X, Y, optimizer, lr, steps, **more))
        for case in found:
            found[case][n] = np.array(rows[case])
    return found


def rms_z(mean, error, run):
    """Root mean square over inputs and times of differences in standard errors; at the start both sides are 0."""
    z = (mean - run.f)[1:] / np.hypot(error, run.stderr)[1:]
    return float(np.sqrt((z**2).mean()))


def mean_and_intercept(runs):
    """Means of the widest networks, and L of L + b/n by least squares over the widths; each with its error."""
    means, errors = (np.stack(a) for a in zip(*map(finite.mean_and_error, runs.values()), strict=True))
    design = np.stack([np.ones(len(runs)), 1 / np.array(list(runs))], axis=1)
    L, of_L = np.zeros(means.shape[1:]), np.ones(means.shape[1:])
    for index in np.argwhere(errors[-1] > 0):
        at = (slice(None), *index)
        weights = 1 / errors[at] ** 2
        covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
        L[tuple(index)] = (covariance @ design.T @ (weights * means[at]))[0]
        of_L[tuple(index)] = covariance[0, 0] ** 0.5
    return (means[-1], errors[-1]), (L, of_L)


@pytest.mark.long
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("regime", REGIMES)
def test_the_mean_at_width_2048_and_the_intercept_are_the_limit(regime, layers, name):
    own, _, lr, decay = OPTIMIZERS[name]
    run = limit(regime, layers, own, lr, decay)
    assert np.abs(run.f[-1]).max() > 0.05  # something was learned
    at_2048, intercept = mean_and_intercept(networks(layers)[regime, name])
    assert rms_z(*at_2048, run) <= 1.5
    assert rms_z(*intercept, run) <= 1.5


@pytest.mark.long
@pytest.mark.parametrize("regime", REGIMES)
def test_wrong_twins_are_rejected_by_the_same_comparison(regime):
    """Adam without bias correction, no decay where there is one, and the limit of the other regime."""
    states = {"m": lambda g, m: 0.9 * m + 0.1 * g, "v": lambda g, v: 0.999 * v + 0.001 * g**2}
    uncorrected = tp.Entrywise(lambda m, v: m / tp.sqrt(v + 0.05**2), states=states)
    other = "feature" if regime == "operator" else "operator"
    adam = OPTIMIZERS["Adam"][0]
    wrong = [
        ("Adam", limit(regime, 2, uncorrected, 0.05, 0.0)),
        ("AdamW", limit(regime, 2, adam, 0.05, 0.0)),
        ("SGD", limit(other, 2, tp.SGD(), 0.5, 0.0)),
    ]
    for name, run in wrong:
        for mean, error in mean_and_intercept(networks(2)[regime, name]):
            assert rms_z(mean, error, run) > 3, name


@pytest.mark.long
@pytest.mark.parametrize("regime", REGIMES)
def test_one_network_is_off_the_limit_by_the_root_of_its_width(regime):
    """Slope −½ ± 0.1 of the root mean square deviation over ten steps; its own error is about 0.04."""
    own, _, lr, decay = OPTIMIZERS["Adam"]
    run = limit(regime, 2, own, lr, decay, steps=10)
    runs = networks(2, steps=10, counts=((64, 192), (256, 64), (1024, 20)), names=("Adam",))[regime, "Adam"]
    off = [np.sqrt(((f - run.f) ** 2).mean()) for f in runs.values()]
    slope = np.polyfit(np.log(list(runs)), np.log(off), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.1)
