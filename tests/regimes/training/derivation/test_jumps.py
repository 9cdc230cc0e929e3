"""Jumps in training: the derivative of a jump of a vector is refused, that of a scalar away from it is zero."""

import numpy as np
import pytest

import tplimits as tp

X = np.array([[1.0, 0.5], [-0.3, 0.8]])
ASKED = {"X": X, "error": tp.squared_error([1.0, -0.8]), "lr": 0.1, "steps": 1}

RESTING = {"U": tp.Frozen(), "W": tp.Frozen(), "v": tp.SGD()}


@tp.network
def behind_a_sign(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    h = W @ tp.tanh(tp.sum(U * ξ, over="d"))
    return v * tp.sign(h)


@tp.network
def across_a_sign(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    h = W @ tp.tanh(tp.sum(U * ξ, over="d"))
    return v * (h + tp.sign(h))


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


@pytest.mark.parametrize(("regime", "theorem"), [(tp.MaximalUpdate, "2.9.25"), (tp.NeuralTangent, "2.9.23")])
def test_a_jump_of_a_vector_is_named_on_its_line(regime, theorem):
    with pytest.raises(
        tp.NoLimitError, match=r"`return v \* \(h \+ tp.sign\(h\)\)`\) jumps where `h` crosses 0"
    ) as found:
        tp.derive(across_a_sign, regime(tp.SGD()))
    assert "tanh in place of sign" in str(found.value) and f"Thm {theorem}" in str(found.value)


def test_weights_that_decay_in_front_of_a_jump_are_no_weights_at_rest():
    with pytest.raises(tp.NoLimitError, match="crosses 0"):
        tp.derive(behind_a_sign, tp.NeuralTangent(RESTING, weight_decay={"U": 0, "W": 0.1, "v": 0}))


def test_what_stands_behind_a_jump_has_an_operator():
    """The network is linear in v, and f moves by η K χ with the kernel K of signs."""
    limit = tp.derive(behind_a_sign, tp.NeuralTangent(RESTING))
    start = np.array([0.2, -0.1])
    K = tp.derive(behind_a_sign, tp.Kernels()).evaluate(X).nngp
    assert limit.evaluate(**ASKED, f0=start).f[1] == pytest.approx(
        start - 0.1 * K @ (start - [1.0, -0.8]) / 2, rel=1e-9
    )
    # gradients in front of the jump are 0 in networks: these parameters are at rest, whoever is asked to move them
    told = tp.derive(behind_a_sign, tp.NeuralTangent(tp.SGD()))
    assert np.array_equal(told.evaluate(**ASKED, f0=start).f, limit.evaluate(**ASKED, f0=start).f)
    found = tp.classify(behind_a_sign, tp.NTP, tp.SGD()).limit()
    assert np.array_equal(found.evaluate(**ASKED, f0=start).f, limit.evaluate(**ASKED, f0=start).f)
    adam = tp.classify(behind_a_sign, tp.NTP, tp.Adam(eps=0.1)).limit()
    moved = adam.evaluate(**ASKED, f0=start, particles=256, replicates=2).f[1] - start
    assert np.array_equal(np.sign(moved), [1, -1])


def test_networks_move_nothing_that_stands_in_front_of_a_jump_alone():
    """Against networks in NumPy, which leave out what is 0 almost everywhere: f = Σ v (sign x + |y|)/√n, x at rest."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], V: tp.Vector["d"], v: tp.Vector):
        x, y = tp.sum(U * ξ, over="d"), tp.sum(V * ξ, over="d")
        return v * (tp.sign(x) + tp.abs(y))

    target, lr, steps, n, runs = np.array([1.0, -0.8]), 0.2, 3, 2000, 60
    scale, moved = n**0.5, n**-0.5
    rng, ends = np.random.default_rng(4), []
    for _ in range(runs):
        U, V, v = rng.standard_normal((n, 2)), rng.standard_normal((n, 2)), rng.standard_normal(n)
        start = v @ (np.sign(U @ X.T) + abs(V @ X.T)) / scale
        for t in range(steps + 1):
            y = V @ X.T
            k = np.sign(U @ X.T) + abs(y)
            f = v @ k / scale - start
            if t < steps:
                χ = lr * moved * (f - target) / 2
                V, v = V - (v[:, None] * np.sign(y) * χ) @ X, v - k @ χ
        ends.append(f)
    networks, spread = np.mean(ends, axis=0), np.std(ends, axis=0) / runs**0.5
    f0 = {"f0": np.zeros(2)}

    def apart(net):
        run = tp.derive(net, tp.NeuralTangent(tp.SGD())).evaluate(**ASKED | {"steps": steps, "lr": lr}, **f0)
        return (abs(run.f[-1] - networks) / (5 * spread + 0.005)).max()

    @tp.network
    def smooth(ξ: tp.Input["d"], U: tp.Vector["d"], V: tp.Vector["d"], v: tp.Vector):
        x, y = tp.sum(U * ξ, over="d"), tp.sum(V * ξ, over="d")
        return v * (tp.tanh(x) + tp.abs(y))

    assert apart(network) < 1 < apart(smooth)


@pytest.mark.parametrize("behind", [False, True])
def test_features_in_front_of_a_jump_stay_where_they_are(behind):
    """Beside networks in NumPy at the scale of features that move: v and, behind the sign, W are all that does."""

    def function(sign):
        @tp.network
        def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
            x = tp.sum(U * ξ, over="d")
            return v * (tp.tanh(W @ sign(x)) if behind else sign(W @ tp.tanh(x)))

        return network

    target, lr, n, runs = np.array([1.0, -0.8]), 0.5, 500, 60
    rng, ends = np.random.default_rng(5), []
    for _ in range(runs):
        U, v, W = rng.standard_normal((n, 2)), rng.standard_normal(n), rng.standard_normal((n, n)) / n**0.5
        x = U @ X.T
        for _step in range(2):
            z = np.sign(x) if behind else np.tanh(x)
            a = np.tanh(W @ z) if behind else np.sign(W @ z)
            χ = lr * (v @ a / n - target) / 2
            v, W = v - a @ χ, W - behind * ((1 - a * a) * v[:, None] * χ) @ z.T / n
        z = np.sign(x) if behind else np.tanh(x)
        ends.append(v @ (np.tanh(W @ z) if behind else np.sign(W @ z)) / n)
    networks, spread = np.mean(ends, axis=0), np.std(ends, axis=0) / runs**0.5

    def apart(net):
        run = tp.derive(net, tp.MaximalUpdate(tp.SGD())).evaluate(**ASKED | {"steps": 2, "lr": lr}, particles=1024)
        return (abs(run.f[-1] - networks) / (4 * spread + 0.006)).max()

    assert apart(function(tp.sign)) < 1 < apart(function(lambda x: tp.tanh(x / 2)))


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


UNREAD = {
    "growth": lambda x, h: x * tp.exp(tp.sqrt(tp.n) * tp.avg(x * h)),
    "a zero in disguise at a jump": lambda x, h: x * tp.step(tp.avg(tp.step(h)) - 0.5),
    "a zero in disguise at a pole": lambda x, h: x / (tp.avg(tp.relu(h)) - tp.avg(tp.abs(h)) / 2),
    "a logarithm of what is negative": lambda x, h: tp.log(h),
    "a jump": lambda x, h: tp.sign(h),
}


@pytest.mark.parametrize("unread", UNREAD)
def test_what_no_output_rests_on_refuses_nothing(unread):
    def made(more):
        @tp.network
        def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
            x = tp.sum(U * ξ, over="d")
            h = W @ x
            more(x, h)
            return v * h

        return network

    beside, plain = made(UNREAD[unread]), made(lambda x, h: h)
    task = {"error": tp.squared_error([1.0]), "lr": 0.5, "steps": 1}
    found, known = (tp.derive(one, tp.MaximalUpdate(tp.SGD())) for one in (beside, plain))
    assert (found.exact([[1.0, 0.0]], **task) == known.exact([[1.0, 0.0]], **task)).all()
    run = found.evaluate([[1.0, 0.0]], **task, particles=64, replicates=2)
    assert run.f == pytest.approx(known.evaluate([[1.0, 0.0]], **task, particles=64, replicates=2).f, abs=1e-12)
    assert tp.classify(beside, tp.NTP, tp.SGD()).regime == "operator"


TASK = np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([1.0, -1.0])
LR, STEPS, EPS = 0.1, 3, 0.1


def named(function):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * function(tp.sum(U * ξ, over="d"))

    return net


def exponential(x):
    return tp.exp(x).named("e")


#: functions with names in them, and what they and their slopes are
CONTINUOUS = {
    "step(e)": (lambda x: x * tp.step(exponential(x)), lambda x: x, np.ones_like),
    "step(1 + e)": (lambda x: x * tp.step(1 + exponential(x)), lambda x: x, np.ones_like),
    "where(e, x, 0)": (lambda x: tp.where(exponential(x), x, 0), lambda x: x, np.ones_like),
    "step(q + 1)": (lambda x: x * tp.step((x * x).named("q") + 1), lambda x: x, np.ones_like),
    "step(t − 2)": (lambda x: x + tp.step(tp.tanh(x).named("t") - 2), lambda x: x, np.ones_like),
    "(e − 1) step(x)": (
        lambda x: (exponential(x) - 1) * tp.step(x),
        lambda x: (np.exp(x) - 1) * (x > 0),
        lambda x: np.exp(x) * (x > 0),
    ),
    "sign(x) t": (
        lambda x: tp.sign(x) * tp.tanh(x).named("t"),
        lambda x: abs(np.tanh(x)),
        lambda x: np.sign(x) / np.cosh(x) ** 2,
    ),
    "x sign(t)": (lambda x: x * tp.sign(tp.tanh(x).named("t")), abs, np.sign),
    "x g, g = step(x)": (lambda x: x * tp.step(x).named("g"), lambda x: np.maximum(x, 0), lambda x: 1.0 * (x > 0)),
}


def trained(function, slope, n=200_000, seed=3):
    """Outputs of all steps of a network in μP under Adam, v with both signs."""
    X, Y = TASK
    rng = np.random.default_rng(seed)
    U, v = np.repeat(rng.standard_normal((2, n)), 2, axis=1), np.repeat(rng.standard_normal(n), 2)
    v[1::2] *= -1
    states, found = [np.zeros_like(U), np.zeros_like(U), np.zeros_like(v), np.zeros_like(v)], []
    for t in range(STEPS + 1):
        x = X @ U
        f = function(x) @ v / v.size
        found.append(f)
        χ = (f - Y) / len(Y)
        gradients = X.T @ (χ[:, None] * slope(x) * v), χ @ function(x)
        for k, (w, g) in enumerate(zip((U, v), gradients, strict=True)):
            m, s = states[2 * k : 2 * k + 2]
            m += 0.1 * (g - m)
            s += 0.001 * (g**2 - s)
            w -= LR * m / (1 - 0.9 ** (t + 1)) / np.sqrt(s / (1 - 0.999 ** (t + 1)) + EPS**2)
    return np.array(found)


def limit(function):
    X, Y = TASK
    asked = {"error": tp.squared_error(Y), "lr": LR, "steps": STEPS, "particles": 4096}
    return tp.derive(named(function), tp.MaximalUpdate(tp.Adam(eps=EPS))).evaluate(X, **asked)


@pytest.mark.parametrize("case", CONTINUOUS)
def test_what_is_continuous_by_its_names_is_trained(case):
    written, function, slope = CONTINUOUS[case]
    run, networks = limit(written), trained(function, slope)
    apart = abs(run.f - networks) / np.hypot(run.stderr, 0.004)
    assert apart.max() < 5
    # another function is told apart
    assert (abs(run.f - trained(np.tanh, lambda x: 1 - np.tanh(x) ** 2)) / np.hypot(run.stderr, 0.004)).max() > 5


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * tp.step(exponential(x) - 1.5),
        lambda x: tp.where(exponential(x) - 1, 1 + x, 0),
        lambda x: tp.step(x).named("g") + x,
        lambda x: (x + 1) * tp.step(x).named("g"),
        lambda x: tp.step(x).named("g") * tp.step(x + 1) + x,
        lambda x: x * tp.sign(tp.tanh(x - 1).named("t")),
    ],
)
def test_what_jumps_is_refused_by_its_names_too(function):
    with pytest.raises(tp.NoLimitError, match="jumps where"):
        tp.derive(named(function), tp.MaximalUpdate(tp.Adam(eps=EPS)))


def _readout_of(g):
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * g(x, y)

    rest = {"U": tp.Frozen(), "y": tp.Frozen(), "v": tp.SGD()}
    X = np.array([[0.6, 0.8], [1.0, 0.0]])
    common = {"error": tp.squared_error([1.0, 0.0]), "lr": 2.0, "steps": 1, "particles": 4096, "replicates": 2}
    return tp.derive(tp.network(network), tp.MaximalUpdate(rest)).evaluate(X, **common).f[1]


def test_a_scalar_beside_a_vector_in_a_jump_is_asked_for_its_sign():
    """f_1 of the second input is (1/n) Σ sign(s x) sign(s′ x′), whose sign is that of s s′ → 0: ±.41 in networks."""
    rng, found = np.random.default_rng(5), []
    for _ in range(20):
        U, y = rng.standard_normal((20_000, 2)), rng.standard_normal(20_000)
        x = U @ np.array([[0.6, 1.0], [0.8, 0.0]])
        found.append(np.prod(np.sign(x * (y @ x)), axis=1).mean())
    correlation = 2 / np.pi * np.arcsin(0.6)
    assert np.allclose(np.abs(found), correlation, atol=0.03) and min(found) < 0 < max(found)
    with pytest.raises(tp.EvaluationError, match=r"lands on a jump.*outputs depend on its sign"):
        _readout_of(lambda x, y: tp.sign(x * tp.avg(x * y)))
    for g in (lambda x, y: tp.sign(x * tp.avg(x * x)), lambda x, y: tp.sign(x)):
        assert _readout_of(g)[1] == pytest.approx(correlation, abs=0.03)
