"""Means that do not separate: their cost is known before the work, and they are drawn with honest bars or refused."""

import numpy as np
import pytest
from scipy.stats import norm

import tplimits as tp
from tplimits.numbers.moments.function import TAKEN_APART, moment
from tplimits.regimes.kernels.numbers import inseparable


@pytest.fixture
def no_expansion(monkeypatch):
    """Products of functions of two variables of either input stand here for those of more, which no expansion has."""
    monkeypatch.delitem(TAKEN_APART, "sides")
    moment.cache_clear()
    yield
    moment.cache_clear()


@tp.network
def gate(ξ: tp.Input["d", "token"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    """The gate is a function of the variables it multiplies, and a function of the product is taken."""
    x = W @ tp.tanh(tp.sum(U * ξ, over="d"))
    return v * tp.mean(tp.relu(tp.sigmoid(tp.mean(x, over="token")) * x), over="token")


@tp.network
def ungated(ξ: tp.Input["d", "token"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = W @ tp.tanh(tp.sum(U * ξ, over="d"))
    return v * tp.mean(tp.relu(x) / 2, over="token")


@tp.network
def smooth(ξ: tp.Input["d", "token"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    """Quadrature of this gate takes a tenth of a second an entry: E over four variables, polynomial in none."""
    x = W @ tp.relu(tp.sum(U * ξ, over="d"))
    return v * tp.tanh(tp.sigmoid(x.sel(token=0)) + x.sel(token=1))


def lstm(steps):
    """c ← σ(f) c + σ(i) tanh(g), h = σ(o) tanh(c): tanh of a sum of functions."""

    @tp.network
    def net(ξ: tp.Input["d", "token"], U: tp.Vector["d", "gate"], W: tp.Matrix["n", "n", "gate"], v: tp.Vector):
        h = c = None
        for t in range(steps):
            z = tp.sum(U * ξ.sel(token=t), over="d")
            z = z if h is None else z + W @ h
            i, f, o, g = (z.sel(gate=k) for k in range(4))
            c = tp.sigmoid(i) * tp.tanh(g) + (0 if c is None else tp.sigmoid(f) * c)
            h = tp.sigmoid(o) * tp.tanh(c)
        return v * h

    return net.bind(gate=4, token=steps)


@pytest.mark.long
def test_four_tokens_and_two_inputs_are_drawn_and_symmetric(no_expansion):
    K, X = tp.derive(gate, tp.Kernels()), np.random.default_rng(0).standard_normal((2, 3, 4))
    pair = K.evaluate(X, draws=256)
    for value, error in ((pair.nngp, pair.nngp_error), (pair.ntk, pair.ntk_error)):
        assert (value == value.T).all() and value.shape == error.shape == (2, 2)
        assert (error > 0).all() and (error < 0.02 * value).all()
    again = K.evaluate(X, draws=256)
    assert (again.ntk == pair.ntk).all() and (K.evaluate(X, draws=256, seed=1).ntk != pair.ntk).any()


def test_functions_are_counted_until_quadrature_is_too_much(monkeypatch, no_expansion):
    """Counting takes seconds a function: the kernels of this gate need five, and one decides that they are drawn."""
    K, X, asked = tp.derive(gate, tp.Kernels()), np.random.default_rng(0).standard_normal((1, 3, 4)), []
    monkeypatch.setattr(inseparable, "operations_of_a_law", lambda *law: asked.append(law) or 4_000_000_000)
    assert np.ndim(K.evaluate(X, draws=16).nngp_error) and len(asked) == 1
    asked.clear()
    monkeypatch.setattr(inseparable, "operations_of_a_law", lambda *law: asked.append(law) or 100_000_000)
    assert np.ndim(K.evaluate(X, draws=16).nngp_error) and len(asked) > 1, "none of them decides alone"


def test_gates_of_two_variables_are_expanded():
    """Beside draws of the two Gaussian layers, with a bound of their error instead of a bar."""
    X, rng = np.random.default_rng(0).standard_normal((2, 3, 2)), np.random.default_rng(1)
    rows = X.transpose(0, 2, 1).reshape(4, 3)
    first = np.maximum(rng.multivariate_normal(np.zeros(4), rows @ rows.T, size=400_000), 0)
    second = rng.multivariate_normal(np.zeros(4), first.T @ first / len(first), size=400_000).reshape(-1, 2, 2)
    f = np.tanh(1 / (1 + np.exp(-second[:, :, 0])) + second[:, :, 1])
    pair = tp.derive(smooth, tp.Kernels()).evaluate(X)
    assert pair.nngp_error < 1e-8
    assert pair.nngp == pytest.approx(f.T @ f / len(f), abs=4e-3), "four standard errors of both means"


@pytest.mark.long
def test_bars_are_those_of_student_s_law(monkeypatch, no_expansion):
    """Beside quadrature, t of 8 replicates: 5 % beyond 2.36, and no bias; 4 numbers of one draw are not independent."""
    K, X = tp.derive(smooth, tp.Kernels()), np.random.default_rng(0).standard_normal((2, 3, 2))
    exact = K.evaluate(X)
    assert np.ndim(exact.nngp_error) == 0, "quadrature is quick here"
    monkeypatch.setattr(inseparable, "_PATIENCE", 0.0)
    t = []
    for seed in range(24):
        pair = K.evaluate(X, draws=32, seed=seed)
        t.append([((pair.nngp - exact.nngp) / pair.nngp_error)[0, 1], ((pair.ntk - exact.ntk) / pair.ntk_error)[0, 0]])
    assert "nngp_error" in repr(pair) and "error" not in repr(exact)
    beyond = (np.abs(t) > 2.36).sum(axis=0)
    assert (beyond <= 5).all(), "the chance of 6 or more of 24 is 1e-3"
    assert (np.abs(np.mean(t, axis=0)) < 0.96).all(), "four deviations of the mean of 24"
    assert (np.std(t, axis=0) > 0.75).all(), "bars are not too wide either: the deviation of t is 1.18"


@pytest.mark.long
@pytest.mark.sampling
def test_finite_networks_have_the_drawn_kernels_and_not_those_without_the_gate(no_expansion):
    X = np.random.default_rng(0).standard_normal((2, 3, 3))
    few = {"X1": X, "widths": (32, 64, 128), "draws": 400}
    limit = tp.derive(gate, tp.Kernels())
    assert tp.check(limit, **few).accepted
    other = tp.derive(ungated, tp.Kernels()).evaluate(X)
    assert not tp.check(limit, **few, claims={"Θ[0,0]": float(other.ntk[0, 0])}).accepted


@pytest.mark.long
@pytest.mark.sampling
def test_a_cell_of_an_lstm_is_drawn():
    X = np.random.default_rng(0).standard_normal((2, 3, 2))
    limit = tp.derive(lstm(2), tp.Kernels())
    few = {"X1": X, "widths": (32, 64, 128), "draws": 400}
    assert tp.check(limit, **few).accepted
    first = tp.derive(lstm(1), tp.Kernels()).evaluate(X[:, :, 1:])
    assert not tp.check(limit, **few, claims={"K[0,0]": float(first.nngp[0, 0])}).accepted, "without its memory"


@pytest.mark.long
def test_drawn_covariances_need_not_be_those_of_vectors():
    """Gates of both inputs are nearly equal here, and entries that are drawn apart give a negative eigenvalue."""
    X = np.random.default_rng(0).standard_normal(66)[54:].reshape(2, 3, 2)
    limit = tp.derive(lstm(2), tp.Kernels())
    pair, finer = limit.evaluate(X, draws=128), limit.evaluate(X, draws=128, seed=1)
    error = np.hypot(pair.nngp_error, finer.nngp_error)
    assert (np.abs(pair.nngp - finer.nngp) <= 5 * error).all(), "t of 8 replicates, 4 entries: chance 3e-3 at most"
    assert (error < 0.05 * np.max(pair.nngp)).all()


def test_what_an_exponential_is_taken_out_of_is_drawn_too():
    """∂φ/∂z of φ = | |s + g(z)| − |s − g(z)| | has g' with e^(−z²/2) as a factor: what is beside it has no formula."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], M: tp.Matrix, e: tp.Vector, v: tp.Vector, b: tp.Vector):
        x = tp.sum(U * ξ, over="d") + 0.5 * e
        g = tp.gelu(M @ x + 0.5 * b)
        return v * (tp.abs(0.5 * e + g) - tp.abs(0.5 * e - g))

    X = np.array([[0.7, 0.4], [0.4, -1.2]])
    found = tp.derive(net, tp.Kernels()).evaluate(X)
    e, *z = np.random.default_rng(0).standard_normal((3, 1_000_000))
    h = np.linalg.cholesky(X @ X.T + 0.25 + 0.25) @ np.stack(z)  # M x, and ½ b
    values = abs(0.5 * e + h * norm.cdf(h)) - abs(0.5 * e - h * norm.cdf(h))
    exact, bar = values @ values.T / e.size, 5 * np.max(found.nngp_error) + 0.005
    assert (abs(found.nngp - exact) < bar).all()
    assert (abs(found.nngp - 1.15 * exact) > bar).diagonal().all()


def test_what_is_too_much_for_draws_is_refused_before_the_work(no_expansion):
    K = tp.derive(gate, tp.Kernels())
    with pytest.raises(
        tp.EvaluationError,
        match=r"`gate` has a mean over 4 correlated variables that does not separate, in its output: E\[.*relu.*"
        r"quadrature more than .*fewer inputs at a time or a smaller draws=",
    ):
        K.evaluate(np.random.default_rng(0).standard_normal((64, 3, 64)))


def test_a_divisor_that_may_vanish_is_not_drawn(monkeypatch, no_expansion):
    @tp.network
    def net(ξ: tp.Input["d", "token"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = W @ tp.tanh(tp.sum(U * ξ, over="d"))
        m = tp.mean(x, over="token")
        return v * tp.mean(x / tp.sqrt(0.01 + m**2) * tp.relu(x + m), over="token")

    monkeypatch.setattr(inseparable, "_PATIENCE", 0.0)
    K = tp.derive(net, tp.Kernels())
    assert K.evaluate(np.random.default_rng(0).standard_normal((1, 3, 2)), draws=64).nngp.item() > 0, (
        "√(0.01 + m²) cannot vanish"
    )


def test_long_cells_are_refused_with_what_does_not_separate():
    with pytest.raises(
        tp.NoLimitError, match=r"28 correlated Gaussian variables is needed, those of z.*does not separ"
    ):
        tp.derive(_sum_of_many(), tp.Kernels())


def _sum_of_many():
    """tanh of 14 functions of correlated variables."""

    @tp.network
    def net(ξ: tp.Input["d", "token"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        z = W @ tp.tanh(tp.sum(U * ξ, over="d"))
        return v * tp.tanh(sum(tp.sigmoid(z.sel(token=t)) for t in range(14)))

    return net.bind(token=14)


@tp.network
def products(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return v * tp.exp(tp.abs(x * (W @ x)) / 3)


def test_draws_that_do_not_see_the_mean_are_no_number(monkeypatch):
    """E e^(2|xh|/3) = (1 + 2 asin(2c/3)/π)/√(1 − 4c²/9): 16.7 at c = 1.49, which draws do not see; at 0.11 they do."""
    monkeypatch.setattr(inseparable, "_PATIENCE", 0.0)
    K = tp.derive(products, tp.Kernels(train=("v",)))
    with pytest.raises(tp.EvaluationError, match="lies further out than draws look"):
        K.evaluate([[0.2, -0.8, 0.9]])
    few = K.evaluate([[0.1, 0.2, -0.25]])
    exact = (1 + 2 / np.pi * np.arcsin(0.075)) / (1 - 0.075**2) ** 0.5
    assert abs(few.nngp.item() - exact) < 4 * few.nngp_error.item() < 2e-3


@pytest.mark.long
def test_a_removable_pole_inside_a_kink_is_drawn():
    """relu(x + sin(h)/h): its slope holds cos(h)/h − sin(h)/h², whose poles cancel; over x its means are closed."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        h = W @ x
        return v * tp.relu(x + tp.sin(h) / h)

    found = tp.derive(net, tp.Kernels()).evaluate([[0.8, 0.6]], seed=0)
    # with c = sin(h)/h, x is left by E relu(x + c)² = (1 + c²) Φ(c) + c φ(c) and P(x + c > 0) = Φ(c)
    h = np.linspace(-9, 9, 4000)  # at even distance from 0
    density = norm.pdf(h) * (h[1] - h[0])
    c, slope = np.sin(h) / h, np.cos(h) / h - np.sin(h) / h**2
    on = norm.cdf(c)
    nngp = (((1 + c**2) * on + c * norm.pdf(c)) * density).sum()
    # v; U through x; and through h, W and U
    through = 2 * (slope**2 * on * density).sum()
    ntk = nngp + (on * density).sum() + through
    error = 4 * np.max(found.ntk_error) + 1e-5
    assert error < 0.05
    assert abs(found.nngp[0, 0] - nngp) < error and abs(found.ntk[0, 0] - ntk) < error
    assert through > 2 * error


def _of_pairs(f):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], V: tp.Vector["d"], v: tp.Vector):
        return v * f(tp.sum(U * ξ, over="d"), tp.sum(V * ξ, over="d"))

    return tp.derive(net, tp.Kernels())


@pytest.mark.parametrize(
    "f",
    [lambda a, b: tp.relu(a * b - 6), lambda a, b: tp.step(1e-6 - (a - 1) ** 2 - (b - 0.5) ** 2)],
)
def test_means_that_hardly_any_point_makes_are_refused(f):
    """K(ξ, ξ′) was 0 ± 0, for 1.7(2)e-4 of a b > 6 in 4e6 draws, and the disc's area squared times densities."""
    with pytest.raises(tp.EvaluationError, match="not 0: their spread says nothing of its error"):
        _of_pairs(f).evaluate([[1.0, 0.0], [0.8, 0.6]])


@pytest.mark.parametrize(
    "f", [lambda a, b: tp.relu(-((a - b) ** 2)), lambda a, b: tp.step(-1 - (a - b) ** 2) * tp.tanh(a * b)]
)
def test_means_that_are_zero_by_identity_stay_zero(f):
    assert not _of_pairs(f).evaluate([[1.0, 0.0], [0.8, 0.6]]).nngp.any()
