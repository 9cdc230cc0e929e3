"""Training at finite width against the same training written out in NumPy, and against finite differences."""

from itertools import permutations

import numpy as np
import pytest

import tplimits as tp
from tplimits.program.network.parameters import parameters
from tplimits.regimes.training.finite.networks import train

RNG = np.random.default_rng(5)
X = RNG.standard_normal((5, 3))
Y = RNG.standard_normal(5)
MASK = np.array([True, True, True, True, False])


@tp.network
def mlp(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))


@tp.network
def rich(
    ξ: tp.Input["d"],
    U: tp.Vector["d"],
    b: tp.Vector,
    W: tp.Matrix["n", "n", "l"],
    v: tp.Vector["out"],
    c: tp.Scalar,
    s: tp.Scalar = 1,
):
    x = tp.tanh(tp.sum(U * ξ, over="d") + b)
    for layer in range(2):
        x = x + s * (W.sel(l=layer).T @ tp.tanh(W.sel(l=layer) @ x))
    return tp.readout(v * tp.tanh(x) + 0.1 * b * x) + 0.3 * c


rich = rich.bind(l=2, out=2)


class Adam:
    """Adam with ε inside the root, by hand."""

    def __init__(self, eps, β1=0.9, β2=0.999):
        self.eps, self.β1, self.β2, self.m, self.v, self.t = eps, β1, β2, 0.0, 0.0, 0

    def __call__(self, g):
        self.t += 1
        self.m = self.β1 * self.m + (1 - self.β1) * g
        self.v = self.β2 * self.v + (1 - self.β2) * g**2
        return self.m / (1 - self.β1**self.t) / np.sqrt(self.v / (1 - self.β2**self.t) + self.eps**2)


def by_hand(abcd, rules, U, W, v, lr, steps, decay):
    """The perceptron `mlp` with w = n^a W for each layer: outputs over time; rules are update functions."""
    n = len(v)
    a, c, d = ({k: float(n) ** float(abcd[k][i]) for k in "UWv"} for i in (0, 2, 3))
    w = {"U": U * a["U"], "W": W * a["W"], "v": v * a["v"]}
    f = []
    for _ in range(steps + 1):
        x1 = np.tanh(w["U"] @ X.T / a["U"])
        x2 = np.tanh(w["W"] @ x1 / a["W"])
        f.append(w["v"] @ x2 / a["v"])
        χ = np.where(MASK, f[-1] - Y, 0.0) / MASK.sum()
        dh2 = (w["v"] / a["v"])[:, None] * (1 - x2**2)
        dh1 = (w["W"].T / a["W"]) @ dh2 * (1 - x1**2)
        g = {"U": (dh1 * χ) @ X / a["U"], "W": (dh2 * χ) @ x1.T / a["W"], "v": x2 @ χ / a["v"]}
        for k in w:
            w[k] = (1 - decay) * w[k] - lr / c[k] * rules[k](g[k] * d[k])
    return np.array(f)


def identity(g):
    return g


#: for μP the readout has a = 1 here and a_out = 0
MLP = {
    "SP": {"U": (0, 0, 0, 0), "W": (0, 0.5, 0, 0), "v": (0, 0.5, 0, 0)},
    "NTP": {"U": (0, 0, 0.5, 0.5), "W": (0.5, 0, 1, 1), "v": (0.5, 0, 0.5, 0.5)},
    "MUP": {"U": (0, 0, 0, 1), "W": (0, 0.5, 1, 1), "v": (1, 0, 0, 1)},
}


@pytest.mark.parametrize("name", MLP)
@pytest.mark.parametrize("decay", [0, 0.05])
@pytest.mark.parametrize("optimizer", [tp.SGD(), tp.Adam(eps=0.05)], ids=["SGD", "Adam"])
def test_training_is_that_of_matrices_written_out(name, decay, optimizer):
    n, rng = 12, np.random.default_rng(8)
    W, U = rng.standard_normal((n, n)) / np.sqrt(n), rng.standard_normal((3, n))
    v = rng.standard_normal(n) / n ** float(MLP[name]["v"][1])
    last = v / n ** float(MLP[name]["v"][0])  # the program's f = n^(−a_out) Σ v x
    rules = {k: identity if optimizer == tp.SGD() else Adam(0.05) for k in "UWv"}
    expected = by_hand(MLP[name], rules, U.T, W, last, 0.1, 4, decay)
    y = tp.squared_error(np.where(MASK, Y, np.nan), train=MASK)
    given = {"U": U, "W": W, "v": v}
    run = train(mlp, getattr(tp, name), optimizer, X, y, 0.1, 4, n, given=given, weight_decay=decay)
    np.testing.assert_allclose(run.f[0], expected, rtol=1e-10, atol=1e-12)


def test_one_small_step_of_descent_follows_finite_differences_in_every_parameter():
    """With all exponents that matter at 0, f(w − η g) for a rich network: scalars, transposes, two outputs, a shift."""
    n, lr, rng = 7, 1e-3, np.random.default_rng(2)
    arrays = {"U": rng.standard_normal((3, n)), "b": rng.standard_normal(n), "W": rng.standard_normal((2, n, n)) / n}
    arrays |= {"v": rng.standard_normal((2, n)), "c": 0.4, "s": 0.7}
    plain = tp.ABCD(dict.fromkeys(parameters(rich), (0, 0, 0, 0)) | {"out": "1/2"})
    weights = rng.standard_normal((2, 2))

    def loss(given):
        start = train(rich, plain, tp.SGD(), X[:2], lambda f: f, 0, 0, n, given=given)
        return float((start.f[0, 0] * weights).sum())

    for name in parameters(rich):
        moved = train(
            rich, plain, tp.SGD(), X[:2], lambda f: weights, lr, 1, n, given=arrays, only=[name], keep=[name]
        ).kept[name][0]
        np.testing.assert_allclose(moved[0], arrays[name], rtol=1e-12)
        g = (moved[0] - moved[1]) / lr
        direction = rng.standard_normal(g.shape)
        h = 1e-5
        ends = [loss(arrays | {name: np.asarray(arrays[name]) + e * h * direction}) for e in (1, -1)]
        assert float((g * direction).sum()) == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6), name


@tp.network
def product(ξ: tp.Input["d"], v: tp.Vector, W: tp.Matrix, U: tp.Vector["d"]):
    """Gradients of W and U have parameters as factors, in their raw form."""
    return v * (W @ tp.sum(U * ξ, over="d"))


@tp.network
def squares(ξ: tp.Input["d"], c: tp.Scalar, W: tp.Matrix, U: tp.Vector["d"], v: tp.Vector):
    return v * (W.T @ (W @ (c * tp.sum(U * ξ, over="d")))) + c * v


@pytest.mark.parametrize("net", [product, mlp, squares], ids=lambda net: net.name)
@pytest.mark.parametrize(
    "optimizer",
    [tp.SGD(), tp.SGD(momentum=0.5), tp.Adam(eps=0.05), tp.Normalized(tp.SGD(), by="weight"), tp.Adafactor(eps=0.05)],
    ids=lambda optimizer: optimizer.name,
)
def test_all_parameters_move_by_the_gradients_of_the_same_weights(net, optimizer):
    """Whatever the order in which they move, which is that of the arguments."""
    error, start = tp.squared_error(Y), {"given": {"c": 0.5}} if net is squares else {}
    orders = list(permutations(parameters(net)))[:6]
    runs = [
        train(net, tp.MUP, optimizer, X, error, 0.1, 3, 9, seed=4, weight_decay=0.1, only=order, draws=2, **start).f
        for order in orders
    ]
    assert abs(runs[0][:, 3] - runs[0][:, 0]).max() > 1e-2
    for order, run in zip(orders, runs, strict=True):
        np.testing.assert_allclose(run, runs[0], rtol=1e-9, atol=1e-12, err_msg=str(order))


def test_one_step_of_a_product_is_that_written_out():
    """f_1 of (v, W, U) after one step of descent, f = v·WUξ with gradients v ⊗ Uξ, Wᵀv ξ, WUξ."""
    n, rng = 6, np.random.default_rng(3)
    v, W, U = rng.standard_normal(n), rng.standard_normal((n, n)), rng.standard_normal((3, n))
    plain = tp.ABCD(dict.fromkeys("vWU", (0, 0, 0, 0)) | {"out": 0})
    x, h = U.T @ X[0], W @ (U.T @ X[0])
    χ, η = v @ h - Y[0], 1e-3
    moved = (v - η * χ * h) @ (W - η * χ * np.outer(v, x)) @ (U - η * χ * np.outer(X[0], W.T @ v)).T @ X[0]
    run = train(product, plain, tp.SGD(), X[:1], tp.squared_error(Y[:1]), η, 1, n, given={"v": v, "W": W, "U": U})
    assert run.f[0, :, 0].tolist() == pytest.approx([v @ h, moved], rel=1e-12)


def test_the_symmetry_of_the_exponents_changes_nothing():
    """(a + θ, b − θ, c − θ, d + θ) (Eq. 2.5), one θ for each parameter; (a + θ, b − θ, c, d) is another training."""
    error = tp.squared_error(Y[:4])
    shifts = {"U": "1/4", "W": "-1/3", "v": 1}
    moved = {k: tp.NTP.of(mlp)[k].shifted(θ) for k, θ in shifts.items()}
    runs = [
        train(mlp, p, tp.Adam(eps=0.05), X[:4], error, 0.1, 3, 9, seed=4).f
        for p in (tp.NTP, tp.ABCD({**moved}, base=tp.NTP), tp.ABCD({"matrix": (0, "1/2", 1, 1)}, base=tp.NTP))
    ]
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-9)
    assert abs(runs[2][0, 1] - runs[0][0, 1]).max() > 1e-3


def test_initial_sizes_are_those_of_the_exponents():
    run = train(mlp, tp.SP, tp.SGD(), X, lambda f: f, 0, 0, 300, keep=("U", "W", "v"))
    sizes = {k: float(run.kept[k].std()) * 300 ** (0 if k == "U" else 0.5) for k in run.kept}
    assert sizes == pytest.approx({"U": 1, "W": 1, "v": 1}, rel=0.15)


def test_draws_are_independent_and_seeds_reproduce():
    error = tp.squared_error(Y)
    together = train(mlp, tp.MUP, tp.SGD(), X, error, 0.1, 2, 16, seed=1, draws=3)
    again = train(mlp, tp.MUP, tp.SGD(), X, error, 0.1, 2, 16, seed=1, draws=3)
    assert together.f.shape == (3, 3, 5)
    assert np.array_equal(together.f, again.f)
    assert not np.allclose(together.f[0], together.f[1])
    assert together.steps == 2


def test_outputs_from_which_the_first_is_subtracted_start_at_zero_and_the_error_sees_that():
    seen = []

    def error(f, t):
        seen.append((t, f.copy()))
        return f - 1

    run = train(mlp, tp.NTP, tp.SGD(), X, error, lambda t: 0.1 * (t == 0), 2, 8, start=0)
    assert (run.f[:, 0] == 0).all()
    assert (run.f[:, 1] == run.f[:, 2]).all()  # the rate of the second step is 0
    assert [t for t, _ in seen] == [0, 1]
    assert np.array_equal(seen[1][1], run.f[0, 1])


def test_rates_and_optimizers_by_parameter():
    rates = {"U": 0.0, "W": 0.1, "v": 0.0}
    rules = {"U": tp.SGD(), "W": tp.SignSGD(), "v": tp.SGD()}
    run = train(mlp, tp.MUP, rules, X, tp.squared_error(Y), rates, 1, 8, keep=("U", "W", "v"))
    moved = {k: run.kept[k][0, 1] - run.kept[k][0, 0] for k in "UWv"}
    assert not moved["U"].any()
    assert not moved["v"].any()
    np.testing.assert_allclose(abs(moved["W"]), 0.1 / 8)  # n^(−c)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"lr": -1}, "0 or more"),
        ({"lr": float("nan")}, "finite number"),
        ({"lr": {"U": 1}}, "no rate for `W`"),
        ({"optimizer": {"U": tp.SGD()}}, "for `W`"),
        ({"optimizer": "adam"}, "tp.Adam"),
        ({"steps": -1}, "at least 0"),
        ({"n": 0}, "at least 1"),
        ({"weight_decay": 1}, "below 1"),
        ({"only": ["w"]}, "no parameter"),
        ({"error": 3}, "give a function"),
        ({"error": lambda f: f[:2]}, "shape"),
        ({"error": lambda f: f * float("nan")}, "NaN"),
        ({"parametrization": tp.UP(__import__("sympy").Symbol("s"))}, "has symbols"),
        ({"lr": 1e300, "error": lambda f: 1e10 + 0 * f}, "overflow at step [1-3]; give a smaller lr"),
    ],
)
def test_what_cannot_be_trained_is_refused(change, message):
    asked = {"parametrization": tp.SP, "optimizer": tp.SGD(), "X": X, "error": tp.squared_error(Y), "lr": 0.1}
    asked |= {"steps": 3, "n": 6} | change
    with pytest.raises(tp.EvaluationError, match=message):
        train(mlp, **asked)
