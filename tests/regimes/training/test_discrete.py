"""Training limits of networks with discrete inputs and laws that are not normal."""

import numpy as np
import pytest

import tplimits as tp

RNG = np.random.default_rng(7)
TOKENS = RNG.integers(0, 3, (6, 4))
LABELS = RNG.integers(0, 3, 6)


@tp.network
def head(
    x: tp.Input["token"].of("vocab"),
    E: tp.Scalar["vocab", "d"].normal(),
    P: tp.Scalar["token", "d"].normal(),
    q: tp.Scalar["d"].uniform(-0.7, 0.7),
    w: tp.Vector["d"].uniform(-1, 1),
    b: tp.Vector.truncated(0.5, 1),
    u: tp.Vector["d"].uniform(-1, 1),
):
    """An attention head with one learned query, in front of a wide layer."""
    z = E + P
    Z = z / tp.sqrt(tp.sum(z**2, over="d"))
    a = tp.exp(tp.sum(q * Z, over="d")).sel(vocab=x)
    ξ = tp.sum(a * Z.sel(vocab=x), over="token") / tp.sum(a, over="token")
    ψ = u * tp.gelu(tp.sum(w * ξ, over="d") + b)
    out = E.rename(vocab="out")
    return tp.readout(tp.sum(ψ * out, over="d")) + tp.sum(ξ * out, over="d")


NET = head.bind(vocab=3, token=4, d=2)
START = {"E": RNG.standard_normal((3, 2)), "P": RNG.standard_normal((4, 2)), "q": np.array([0.3, -0.5])}


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize("optimizer", [tp.SGD(), tp.Adam(eps=0.05, convention="torch")])
def test_finite_networks_follow_the_limit_and_reject_a_wrong_rate(optimizer):
    limit = tp.derive(NET, tp.MaximalUpdate(optimizer))
    error, steps = tp.cross_entropy(LABELS[:3], smoothing=0.1), 2
    asked = {"X": TOKENS[:3], "error": error, "steps": steps, "constants": START}
    few = {"particles": 4096, "replicates": 4, "widths": (32, 64, 128), "draws": 48}
    lr = 0.3 if isinstance(optimizer, tp.SGD) else 0.03
    assert tp.check(limit, **asked, **few, lr=lr).accepted
    wrong = limit.evaluate(TOKENS[:3], error=error, lr=1.1 * lr, steps=steps, particles=4096, replicates=4, **START)
    claims = {f"f[{steps},0;{c}]": float(wrong.f[steps, 0, c]) for c in range(3)}
    assert not tp.check(limit, **asked, **few, lr=lr, claims=claims).accepted


def test_scalars_that_are_drawn_are_averaged_over():
    limit = tp.derive(NET, tp.MaximalUpdate(tp.SGD()))
    asked = {"error": tp.cross_entropy(LABELS), "lr": 0.1, "steps": 1}
    few = {"particles": 512, "replicates": 2, "E": START["E"], "P": START["P"]}
    run = limit.evaluate(TOKENS, **asked, **few, draws=3)
    assert run.drawn == ("q",) and len(run.replicates) == 3 and "3 draws of q" in repr(run)
    assert run.shown.texts == ("means over 3 draws of q, each with the limit that belongs to it",)
    assert np.ptp(run.replicates[:, 1], axis=0).max() > 0
    with pytest.raises(tp.EvaluationError, match=r"`q` \(drawn, uniform in \[-0\.7, 0\.7\]\) has no initial value"):
        tp.check(limit, X=TOKENS, **asked, E=START["E"], P=START["P"])  # of one start
    with pytest.raises(tp.EvaluationError, match="holds 3; it takes indices of `vocab`"):
        limit.evaluate(TOKENS + 1, **asked, **START)


def body(x, E, P, W, v):
    Z = tp.tanh(E + P)
    z = Z.sel(vocab=x) if not hasattr(x, "width") else tp.sum(Z * x, over="vocab")
    return v * tp.mean(tp.relu(W @ z), over="token")


@tp.network
def by_data(x: tp.Input["token"].of("vocab"), E: tp.Vector["vocab"], P: tp.Vector["token"], W: tp.Matrix, v: tp.Vector):
    return body(x, E, P, W, v)


@tp.network
def one_hot(x: tp.Input["token", "vocab"], E: tp.Vector["vocab"], P: tp.Vector["token"], W: tp.Matrix, v: tp.Vector):
    return body(x, E, P, W, v)


@pytest.mark.long
def test_pairs_of_neurons_read_what_data_look_up():
    """Averages over a second neuron are taken entry by entry of the axes, where data have to be known as well."""

    def mixed(x, E, P, v):
        Z, β = tp.tanh(E + P), tp.neuron("β")
        z = Z.sel(vocab=x) if not hasattr(x, "width") else tp.sum(Z * x, over="vocab")
        return v * tp.mean(tp.avg(tp.tanh(z * z[β]) * z[β], over=β), over="token")

    @tp.network
    def one(x: tp.Input["token"].of("vocab"), E: tp.Vector["vocab"], P: tp.Vector["token"], v: tp.Vector):
        return mixed(x, E, P, v)

    @tp.network
    def other(x: tp.Input["token", "vocab"], E: tp.Vector["vocab"], P: tp.Vector["token"], v: tp.Vector):
        return mixed(x, E, P, v)

    asked = {"error": tp.squared_error(np.ones(3)), "lr": 0.5, "steps": 2, "particles": 64, "replicates": 2}
    f = [
        tp.derive(net.bind(vocab=3, token=4), tp.MaximalUpdate(tp.SGD())).evaluate(X, **asked).f
        for net, X in ((one, TOKENS[:3]), (other, np.eye(3)[TOKENS[:3]]), (one, TOKENS[3:]))
    ]
    assert np.allclose(f[0], f[1], rtol=1e-9, atol=1e-12) and not np.allclose(f[0][-1], f[2][-1], rtol=1e-3)


@pytest.mark.parametrize("regime", [tp.MaximalUpdate, tp.NeuralTangent])
@pytest.mark.parametrize("optimizer", [tp.SGD(), tp.Adam(eps=0.1)])
def test_training_is_that_of_one_hot_vectors(regime, optimizer):
    y = np.linspace(-1, 1, len(TOKENS))
    asked = {"error": tp.squared_error(y), "lr": 0.2, "steps": 2, "particles": 256, "replicates": 2}
    f = [
        tp.derive(net.bind(vocab=3, token=4), regime(optimizer)).evaluate(X, **asked).f
        for net, X in ((by_data, TOKENS), (one_hot, np.eye(3)[TOKENS]), (by_data, TOKENS[::-1]))
    ]
    assert np.allclose(f[0], f[1], rtol=1e-9, atol=1e-12)
    assert not np.allclose(f[0][-1], f[2][-1], rtol=1e-3)


def test_exact_training_is_that_of_one_hot_vectors():
    def linear(x, E, W, v):
        z = E.sel(vocab=x) if not hasattr(x, "width") else tp.sum(E * x, over="vocab")
        return v * (W @ tp.sum(z, over="token"))

    @tp.network
    def one(x: tp.Input["token"].of("vocab"), E: tp.Vector["vocab"], W: tp.Matrix, v: tp.Vector):
        return linear(x, E, W, v)

    @tp.network
    def other(x: tp.Input["token", "vocab"], E: tp.Vector["vocab"], W: tp.Matrix, v: tp.Vector):
        return linear(x, E, W, v)

    X, asked = np.array([[2, 1], [0, 0]]), {"error": tp.squared_error([1.0, -1.0]), "lr": 0.5, "steps": 2}
    found, known = (
        tp.derive(net.bind(vocab=3, token=2), tp.MaximalUpdate(tp.SGD())).exact(data, **asked).tolist()
        for net, data in ((one, X), (other, np.eye(3)[X]))
    )
    assert found == known and found[2] != found[1]
