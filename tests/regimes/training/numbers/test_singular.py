"""Updates that keep their size where gradients vanish in the limit alone: networks follow random signs."""

import warnings

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.training.finite.networks import train

X, Y = [[0.9, -0.4], [-0.2, 1.3]], [1.0, -0.5]
TASK = {"error": tp.squared_error(Y), "lr": 0.2, "steps": 1, "particles": 256, "replicates": 2, "block": 64}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of ε = 0
    ADAM = tp.Adam(eps=0)


@tp.network
def gated(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, g: tp.Vector, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    h = W @ tp.tanh(x)
    return v * x + v * tp.tanh(h) * tp.avg(g * h)


@tp.network
def attention(ξ: tp.Input["token", "d"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    q, k, w = Q @ x, (K @ x).rename(token="key"), (V @ x).rename(token="key")
    return v * tp.mean(x + tp.sum(tp.softmax(tp.avg(q * k), over="key") * w, over="key"), over="token")


@tp.network
def silent(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, g: tp.Vector, v: tp.Vector = 0):
    x = tp.sum(U * ξ, over="d")
    h = W @ tp.tanh(x)
    return v * (x + tp.tanh(h) * (1 + tp.avg(h * h) * tp.avg(g * g)))


def gate_after_a_step(n, seed):
    """⟨g h⟩ of a network of `gated` after a step of sign descent in μP, on the first input."""
    rng, ξ = np.random.default_rng(seed), np.array(X[0])
    U, W, g, v = (
        rng.standard_normal((n, 2)),
        rng.standard_normal((n, n)) / np.sqrt(n),
        rng.standard_normal(n),
        rng.standard_normal(n),
    )
    t = np.tanh(U @ ξ)
    h = W @ t
    s, χ = g @ h / n, -1.0
    dgate = χ * v @ np.tanh(h) / n
    dh = χ * v * (1 - np.tanh(h) ** 2) * s + g * dgate
    dx = χ * v + (1 - t**2) * (W.T @ dh)
    U, W, g = U - np.sign(np.outer(dx, ξ)), W - np.sign(np.outer(dh, t)) / n, g - np.sign(h * dgate)
    return g @ (W @ np.tanh(U @ ξ)) / n


def test_networks_follow_signs_that_the_limit_does_not_have():
    found = np.array([[gate_after_a_step(n, seed) for seed in range(12)] for n in (300, 1200)])
    assert (abs(found) > 0.1).mean() > 0.9 and (found > 0).any(axis=1).all() and (found < 0).any(axis=1).all()


@pytest.mark.parametrize("optimizer", [tp.SignSGD(), ADAM, tp.Normalized(tp.SGD())])
@pytest.mark.parametrize(("network", "name"), [(gated, "W"), (attention, "Q")])
def test_gradients_that_vanish_with_the_width_have_no_sign(network, name, optimizer):
    data = X if network is gated else np.random.default_rng(0).standard_normal((2, 3, 2))
    limit = tp.derive(network, tp.MaximalUpdate(optimizer))
    with pytest.raises(tp.EvaluationError, match=f"the gradient of `{name}` at the start is 0 in the limit and not in"):
        limit.evaluate(data, **TASK)
    # rates that are 0 when others begin to move let it rest
    rest = {"Q", "K", "W", "g"}
    rates = {name: 0.0 if name in rest else 0.2 for name in limit.recursion.optimizers}
    assert abs(limit.evaluate(data, **{**TASK, "lr": rates}).f[1]).min() > 0.01


def test_an_epsilon_below_all_gradients_is_warned_of():
    with pytest.warns(UserWarning, match="the gradient of `W` .* above its ε"):
        tp.derive(gated, tp.MaximalUpdate(tp.Adam())).evaluate(X, **TASK)
    tp.derive(gated, tp.MaximalUpdate(tp.Adam(eps=0.1))).evaluate(X, **TASK)


def test_gradients_that_are_0_in_networks_too_move_nothing():
    found = tp.derive(silent, tp.MaximalUpdate(tp.SignSGD())).evaluate(X, **TASK)
    assert found.f[0] == pytest.approx([0, 0], abs=0) and abs(found.f[1]).min() > 0.05


def test_in_the_operator_regime_what_they_move_vanishes_with_them():
    """Networks of width 2400: .3522(11), −.4109(11)."""
    limit = tp.derive(gated, tp.NeuralTangent(tp.SignSGD(), f0=0))
    found = limit.evaluate(X, **{**TASK, "particles": 4096, "replicates": 8}).f[1]
    assert found == pytest.approx([0.3522, -0.4109], abs=0.006)


@tp.network
def biased(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, b: tp.Scalar = 0):
    return tp.readout(v * tp.tanh(tp.sum(U * ξ, over="d"))) + b


@pytest.mark.parametrize("regime", [tp.MaximalUpdate, tp.NeuralTangent])
@pytest.mark.parametrize(
    "optimizer",
    [
        tp.Normalized(tp.SGD()),
        tp.Normalized(tp.SGD(momentum=0.5)),
        tp.Clipped(tp.SGD(), 0.2, reading="printed"),
        tp.Clipped(tp.SGD(), 0.2, reading="printed", of="gradient"),
    ],
)
def test_a_norm_of_targets_that_contradict_each_other_is_not_divided_by(regime, optimizer):
    start = {"f0": [0.0, 0.0]} if regime is tp.NeuralTangent else {}
    limit, X = tp.derive(biased, regime({"U": optimizer, "v": optimizer, "b": tp.SGD()})), [[0.9, -0.4]] * 2
    with pytest.raises(tp.EvaluationError, match="in step 0 the parts of a gradient that come from different inputs"):
        limit.evaluate(X, **{**TASK, "error": tp.squared_error([1.0, -1.0])}, **start)
    assert abs(limit.evaluate(X, **TASK, **start).f[1]).min() > 0.01
    # what does not move divides by nothing; the bias sees the sum of the targets
    still = {**TASK, "error": tp.squared_error([1.0, -1.0]), "lr": {"U": 0.0, "v": 0.0, "b": 0.3}}
    assert limit.evaluate(X, **still, **start).f == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("regime", [tp.MaximalUpdate, tp.NeuralTangent])
def test_a_norm_of_all_gradients_does_not_vanish_with_some_of_them(regime):
    """Opposite inputs with equal targets: U and v have no gradient, the bias has one of Σ χ = −1, divided by θ."""
    start = {"f0": [0.0, 0.0]} if regime is tp.NeuralTangent else {}
    limit = tp.derive(biased, regime(tp.Clipped(tp.SGD(), 0.2, reading="printed", of="gradient")))
    task = {**TASK, "error": tp.squared_error([1.0, 1.0]), "lr": 0.1}
    found = limit.evaluate([[0.9, -0.4], [-0.9, 0.4]], **task, **start).f[1]
    assert found == pytest.approx([0.1 / 0.2] * 2)


#: at twice an input the products of keys and queries are four times as large, and their exponentials of all sizes
TOKENS = np.random.default_rng(3).standard_normal((2, 3, 2))
FAR = np.concatenate([TOKENS, 2 * TOKENS[:1]])
RUN = {
    "error": tp.squared_error([1.0, -0.8, np.nan], train=[0, 1]),
    "lr": 0.15,
    "steps": 3,
    "replicates": 8,
    "block": 64,
}


def written_out(quotient):
    @tp.network
    def net(ξ: tp.Input["token", "d"], E: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, V: tp.Matrix, v: tp.Vector):
        x = tp.sum(E * ξ, over="d")
        e = tp.exp(tp.avg((Q @ x) * (K @ x).rename(token="key")))
        return v * tp.tanh(tp.mean(quotient(e, (V @ x).rename(token="key")), over="token"))

    return net


SPELLINGS = {
    "weights": lambda e, w: tp.sum(e / tp.sum(e, over="key") * w, over="key"),
    "quotient": lambda e, w: tp.sum(e * w, over="key") / tp.sum(e, over="key"),
    "softmax": lambda e, w: tp.sum(tp.softmax(tp.log(e), over="key") * w, over="key"),
}


@pytest.mark.parametrize("spelling", [pytest.param("weights", marks=pytest.mark.long), "quotient", "softmax"])
def test_sums_of_exponentials_keep_off_zero_however_far_replicates_are_apart(spelling):
    limit = tp.derive(written_out(SPELLINGS[spelling]), tp.MaximalUpdate(tp.Adam(eps=0.05)))
    run = limit.evaluate(FAR, particles=256, **RUN)
    task = (tp.MUP, tp.Adam(eps=0.05), FAR, RUN["error"])
    networks = train(limit.program, *task, lr=RUN["lr"], steps=RUN["steps"], n=256, seed=0, draws=8)
    moved = networks.f - networks.f[:, :1]
    assert abs(moved.mean(axis=0) - run.f).max() < 0.05 and abs(run.f[-1]).min() > 0.6
    assert abs(0.9 * run.f[-1] - run.f[-1]).min() > 0.05  # one that is a tenth smaller would be seen
