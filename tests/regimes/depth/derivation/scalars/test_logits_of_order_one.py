"""Logits of order 1 on a branch of size 1/√n: dV = g² E[A V Aᵀ] dt, and what is refused with its reason."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import tplimits as tp
from tplimits.program.nodes.execution import Execution

V = np.array([[1.0, 0.3], [0.3, 1.5]])


def ordinary(function=None, bias=None, size=None):
    """x + size·Σ A(q·k/√k) v with A the softmax, or `function` over the number of keys."""

    @tp.block
    def attention(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, g):
        k, v = ((W @ x).rename(token="key") for W in (WK, WV))
        Y = tp.sqrt(tp.width("k")) * tp.avg((WQ @ x) * k)
        if bias is not None:
            Y = Y + tp.constant(bias, axes=("token", "key"))
        A = tp.softmax(Y, over="key") if function is None else function(Y) / tp.size("key")
        return x + g * (1 / tp.sqrt(tp.n) if size is None else size) * tp.sum(A * v, over="key")

    return attention


def rows(F, G):
    """F Gᵀ: kinks that stand beside other functions of the same logits."""
    return tp.sum(F * G.rename(token="other"), over="key").rename(other="key")


@tp.block
def heads(
    x: tp.State["token"],
    WQ: tp.Matrix["k", "n", "head"],
    WK: tp.Matrix["k", "n", "head"],
    WV: tp.Matrix["k", "n", "head"],
    WO: tp.Matrix["n", "k", "head"],
    *,
    g,
):
    k, v = ((W @ x).rename(token="key") for W in (WK, WV))
    A = tp.softmax(tp.sqrt(tp.width("k")) * tp.avg((WQ @ x) * k), over="key")
    o = WO @ tp.sum(A * v, over="key")
    return x + g / tp.sqrt(tp.n) * tp.sum(o, over="head") / tp.sqrt(tp.size("head"))


@tp.block
def perceptron(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, g):
    return x + g / tp.sqrt(tp.n) * (U @ tp.relu(W @ x))


def sampled(weights, V, draws=400_000):
    """E[A V Aᵀ] and its standard error, S = L G Lᵀ."""
    L = np.linalg.cholesky(V)
    A = weights(L @ np.random.default_rng(7).standard_normal((draws, *V.shape)) @ L.T)
    values = A @ V @ np.swapaxes(A, 1, 2)
    return values.mean(axis=0), values.std(axis=0) / np.sqrt(draws)


def softmax(S):
    A = np.exp(S - S.max(axis=-1, keepdims=True))
    return A / A.sum(axis=-1, keepdims=True)


BIAS = np.array([[0.0, -40.0], [0.5, 0.0]])
MASK = np.array([[0.0, -1e9], [0.0, 0.0]])
CASES = {
    "softmax": (ordinary(), softmax),
    "biased": (ordinary(bias=BIAS), lambda S: softmax(S + BIAS)),
    "masked": (ordinary(bias=MASK), lambda S: softmax(S + MASK)),
    "square": (ordinary(lambda Y: tp.relu(Y) ** 2), lambda S: np.maximum(S, 0) ** 2 / 2),
    "step": (ordinary(tp.step), lambda S: (S > 0) / 2),
    "two kinks": (
        ordinary(lambda Y: tp.relu(Y) + tp.relu(Y - 1)),
        lambda S: (np.maximum(S, 0) + np.maximum(S - 1, 0)) / 2,
    ),
    "jump and curve": (ordinary(lambda Y: tp.sign(Y) + tp.tanh(Y)), lambda S: (np.sign(S) + np.tanh(S)) / 2),
    "of a square": (ordinary(lambda Y: 1 / (1 + Y**2)), lambda S: 1 / (1 + S**2) / 2),
    "signs times logits": (ordinary(lambda Y: rows(tp.sign(Y), Y)), lambda S: np.sign(S) @ S.swapaxes(1, 2) / 2),
    "steps times squares": (
        ordinary(lambda Y: rows(tp.step(Y), tp.relu(Y) ** 2)),
        lambda S: (S > 0) @ (np.maximum(S, 0) ** 2).swapaxes(1, 2) / 2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_drift_is_the_mean_over_gaussian_logits(name):
    block, weights = CASES[name]
    sde = tp.derive(block, tp.Proportional())
    assert sde.verdict.kind == "ODE" and not sde.diffusion_form
    value, error = sde.drift_estimate_at(V, g=1.5)
    wanted, spread = sampled(weights, V)
    assert (np.abs(value - 2.25 * wanted) < 4.5 * np.hypot(error, 2.25 * spread) + 1e-12).all()
    assert (error < 2e-2 * np.abs(value).max()).all()
    average = weights(np.zeros((1, 2, 2)))[0]
    assert np.abs(value - 2.25 * average @ V @ average.T).max() > 10 * error.max()  # the logits' mean is no answer
    assert np.array_equal(sde.drift_at(V[None], g=1.5)[0], value)


def written_inside(weights, beside=lambda x, v: x):
    """x + Σ A v, the size of the branch inside of A = weights(q·k/√n)."""

    @tp.block
    def attention(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
        v = WV @ x
        A = weights(tp.sqrt(tp.n) * tp.avg((WQ @ x) * (WK @ x).rename(token="key")))
        return beside(x, v) + tp.sum(A * v.rename(token="key"), over="key")

    return attention.bind(token=2)


def test_the_size_of_the_branch_may_stand_inside_of_the_weights():
    def drift(*written):
        return tp.derive(written_inside(*written), tp.Proportional()).drift_at(V)

    def one():
        return tp.constant(np.eye(2), axes=("token", "key"))

    root = tp.sqrt(tp.n)
    outside = tp.derive(ordinary(lambda Y: 2 * tp.tanh(Y) + 2 * tp.step(Y)), tp.Proportional())
    expected = outside.drift_at(V, g=1, ratios={"k": 1.0})
    np.testing.assert_allclose(drift(lambda Y: (tp.tanh(Y) + tp.step(Y)) / root), expected, rtol=1e-3)
    np.testing.assert_allclose(drift(lambda Y: tp.tanh(Y) / root + tp.step(Y) / root), expected, rtol=1e-3)
    # the identity has a size of its own: E (1 + tanh)(1 + tanh)ᵀ on the diagonal, not E tanh tanh
    beside = tp.derive(ordinary(lambda Y: 2 * one() + 2 * tp.tanh(Y)).bind(token=2), tp.Proportional())
    np.testing.assert_allclose(
        drift(lambda Y: one() / root + tp.tanh(Y) / root), beside.drift_at(V, g=1, ratios={"k": 1.0}), rtol=1e-3
    )
    np.testing.assert_allclose(drift(lambda Y: one() / root + tp.tanh(Y) / tp.n), V, atol=1e-12)
    # weights of size 1/n are seen beside what is of order 1: 2 · 0.6 · E sigmoid · Σ_ν V_αν, made symmetric
    rotated = lambda x, v: 0.8 * x + 0.6 * v  # noqa: E731
    means = 0.6 * 0.5 * (V.sum(axis=1)[:, None] + V.sum(axis=1))
    np.testing.assert_allclose(drift(lambda Y: tp.sigmoid(Y) / tp.n, rotated), means, rtol=2e-3)
    with pytest.raises(tp.NoLimitError, match="adds up to a drift of order sqrt"):
        drift(lambda Y: tp.relu(Y) / root, rotated)
    with pytest.raises(tp.NoLimitError, match="all that is added to the state"):
        drift(lambda Y: tp.maximum(Y, 1) / root, rotated)  # of order n^(−1/2), its mean not seen to be none


def test_what_overflows_is_no_number():
    large = tp.derive(ordinary(lambda Y: tp.exp(Y) * tp.sin(tp.exp(Y))), tp.Proportional())
    assert np.isfinite(large.drift_at(V, g=1.0)).all()
    with pytest.raises(tp.EvaluationError, match="overflow at this V"):
        large.drift_at(1e6 * V, g=1.0)


def test_a_kink_alone_is_solved_without_draws():
    """relu of logits: a closed mean of two at four tokens, and no noise: Heun's steps."""
    sde = tp.derive(ordinary(tp.relu), tp.Proportional())
    assert not sde.limit.weights and not sde.drift_estimate_at(V, g=1.0).error.any()
    b = sde.drift_at(V, g=1.0)
    end = sde.simulate(V, T=0.1, dt=0.1, paths=2, g=1.0).V
    heun = V + 0.05 * (b + sde.drift_at(V + 0.1 * b, g=1.0))
    assert np.abs(end - heun).max() < 1e-12 and np.abs(V + 0.1 * b - heun).max() > 1e-4


def test_softmax_of_two_tokens_by_quadrature():
    """A_01 = 1/(1 + e^(S_00 − S_01)) needs one Gaussian only: Cov of S_α0 − S_α1 is V (V_00 − 2 V_01 + V_11)."""
    value, error = tp.derive(ordinary(), tp.Proportional()).drift_estimate_at(V, g=1.0)
    assert (np.abs(value - of_two_tokens(V)) < 5 * error).all() and error.max() < 1e-4


def rotated(angle):
    """Queries and keys in two halves, turned by an angle that grows with the place of the token."""

    @tp.block
    def block(x: tp.State["token"], Q: tp.Matrix, P: tp.Matrix, K: tp.Matrix, L: tp.Matrix, WV: tp.Matrix):
        c, s = (tp.constant(f(angle * np.arange(2)), axes=("token",)) for f in (np.cos, np.sin))
        q, p, k, l = Q @ x, P @ x, K @ x, L @ x  # noqa: E741
        first = tp.avg((c * q - s * p) * (c * k - s * l).rename(token="key"))
        second = tp.avg((s * q + c * p) * (s * k + c * l).rename(token="key"))
        A = tp.softmax(tp.sqrt(tp.n / 2) * (first + second), over="key")
        return x + tp.sum(A * (WV @ x).rename(token="key"), over="key") / tp.sqrt(tp.n)

    return block


def test_rotated_logits_by_quadrature():
    """Cov(S_αν, S_βκ) = V_αβ V_νκ cos(θ(α − ν − β + κ)); of two keys A_α0 is a sigmoid of S_α0 − S_α1."""
    sde = tp.derive(rotated(0.7), tp.Proportional())
    places, sign = np.arange(2), np.array([1, -1])
    apart = np.subtract.outer(places, places)
    turned = np.cos(0.7 * np.subtract.outer(apart, apart.T))
    law = np.einsum("ab,vk,avkb,v,k->ab", V, V, turned, sign, sign)
    wanted = of_two_tokens(V, law)
    found, error = sde.drift_estimate_at(V)
    assert (np.abs(found - wanted) < 5 * error).all() and error.max() < 2e-3
    assert np.abs(tp.derive(rotated(0.0), tp.Proportional()).drift_at(V) - wanted).max() > 0.005
    names = [line.split()[0] for line in repr(sde).splitlines() if "the constant array" in line]
    assert len(names) == len(set(names)) > 0 and all(r"\mathtt{P|" not in sde.latex() for _ in names)


def test_logits_of_equal_tokens_are_equal():
    """F_αν = Σ_ω sgn(S_αν − S_ων) S_ων is 0 for equal tokens whatever rounding says."""

    def jumps(S):
        other = S.rename(token="other")
        return tp.sum(tp.sign(S - other) * other, over="other")

    sde = tp.derive(ordinary(jumps), tp.Proportional())
    assert not sde.drift_at(1.3 * np.ones((2, 2)), g=1.0).any()
    # F_10 = |S_00|, F_00 = F_01 = F_11 = 0
    value, error = sde.drift_estimate_at(np.diag([1.3, 0.0]), g=1.0)
    assert abs(value[1, 1] - 1.3**3 / 4) < 7 * error[1, 1] + 1e-9 and value[0, 0] == value[0, 1] == 0
    assert np.abs(sde.drift_at(V, g=1.0)).min() > 0.1


def test_heads_average_and_stacks_add():
    one, many = (tp.derive(b, tp.Proportional()) for b in (ordinary(), heads))
    (a, e), (b, f) = one.drift_estimate_at(V, g=1.0), many.drift_estimate_at(V, g=1.0, head=3)
    assert (np.abs(a - b) < 5 * np.hypot(e, f)).all()
    stack = tp.stack(ordinary().bind(g=1), perceptron.bind(g=1))
    other = tp.derive(perceptron, tp.Proportional()).drift_at(V, g=1.0)
    assert np.allclose(tp.derive(stack, tp.Proportional()).drift_at(V), a + other, rtol=1e-12)


def of_two_tokens(V, law=None):
    """E[A V Aᵀ] for A_α0 a sigmoid of S_α0 − S_α1, by quadrature; `law` is the covariance of these differences."""
    law = V * (V[0, 0] - 2 * V[0, 1] + V[1, 1]) if law is None else law
    x, w = np.polynomial.hermite_e.hermegauss(80)
    (first, second), L = np.meshgrid(x, x, indexing="ij"), np.linalg.cholesky(law)
    a = 1 / (1 + np.exp(-np.stack([L[0, 0] * first, L[1, 0] * first + L[1, 1] * second])))
    A = np.stack([a, 1 - a], axis=1)
    return np.einsum("avij,bkij,vk,i,j->ab", A, A, V, w, w, optimize=True) / w.sum() ** 2


@pytest.mark.long
def test_paths_solve_the_equation():
    sde = tp.derive(ordinary(), tp.Proportional())
    paths = sde.simulate(V, T=0.4, dt=0.1, paths=3, g=1.0, halve=True, record=True)
    assert paths.history.shape == (3, 5, 2, 2) and (paths.V[0] == paths.V).all()
    assert np.abs(paths.step_error().value).max() < 2e-3
    W = V
    for _ in range(4):  # Heun by hand
        b = of_two_tokens(W)
        W = W + 0.05 * (b + of_two_tokens(W + 0.1 * b))
    found, error = paths.mean()
    # the draws are all that is not exact: their error is told, though all paths are one
    assert (np.abs(found - W) < 5 * error).all() and (error > 0).all() and error.max() < 1e-3
    assert (np.abs(sde.simulate(V, T=0.4, dt=0.1, paths=1, g=1.0).quantile(0.5).error - error) < 1e-9).all()
    euler = sde.simulate(V, T=0.4, dt=0.1, paths=1, g=1.0, method="euler").V[0]
    assert 1e-3 < np.abs(euler - W).max() < 0.05
    stopped = sde.simulate(V, T=5, dt=0.1, paths=2, g=1.0, stop=2.0)
    assert stopped.stopped.all() and np.isfinite(stopped.stopping_time).all()
    other = sde.simulate(np.stack([V, 2 * V]), T=0.1, dt=0.1, paths=2, g=1.0).V
    assert np.abs(other[0] - other[1]).max() > 0.1


@pytest.mark.long
@pytest.mark.sampling
def test_networks_of_finite_width():
    """One layer by `check`, with a wrong twin; and the ends of whole networks."""
    sde = tp.derive(ordinary(), tp.Proportional())
    asked = {"V0": V, "widths": (32, 64, 128), "draws": 2000, "seed": 1, "g": 1.0}
    verdict = tp.check(sde, **asked)
    assert verdict.accepted and {row.claim.name for row in verdict.rows if row.claim.error} == {
        "b[0,0]",
        "b[0,1]",
        "b[1,1]",
    }
    mean_weights = np.full((2, 2), V.mean())
    assert not tp.check(sde, claims={"drift": mean_weights}, **asked).accepted
    end = sde.simulate(V, T=0.5, dt=0.05, paths=1, g=1.0).V[0]
    n, draws, rng = 64, 24, np.random.default_rng(3)
    x = np.sqrt(n) * np.linalg.cholesky(V) @ np.linalg.qr(rng.standard_normal((n, 2)))[0].T
    found = np.array([deep(x, n, rng) for _ in range(draws)])
    error = found.std(axis=0, ddof=1) / np.sqrt(draws)
    assert (np.abs(found.mean(axis=0) - end) < 4 * error + 3 / n).all()
    assert (error < 0.1).all()


def deep(x, n, rng):
    block = ordinary().bind(token=2)
    for _ in range(n // 2):
        result = Execution(block, n, 1, rng, {}, {"x": x, "g": 1.0}).run().arrays
        x = result[block.returns[0]][0]
    return x @ x.T / n


def test_what_is_refused():
    with pytest.raises(tp.NoLimitError, match="not perturbative: the argument of exp has fluctuations of order 1"):
        tp.derive(ordinary(size=1), tp.Proportional())
    with pytest.raises(tp.NoLimitError, match=r"second moment"):
        tp.derive(ordinary(lambda Y: tp.exp(Y**2)), tp.Proportional())
    with pytest.raises(tp.NoLimitError, match="Gaussian where the width that is averaged over grows"):
        tp.derive(ordinary(), tp.Proportional(fixed=("k",)))


def test_what_is_printed():
    sde = tp.derive(ordinary(), tp.Proportional())
    assert "b[αβ]     = g**2·Σ_νκ E[φ[αν] φ[βκ]] V[νκ]" in repr(sde)
    assert "φ[token, key] = exp(Y[token, key]*sqrt((k/n)))/Σ_key′(exp(Y[token, key′]*sqrt((k/n))))" in repr(sde)
    assert "Cov(Y[αβ], Y[δω]) = 1/(k/n)·V[αδ] V[βω]" in repr(sde) and "Y|" not in repr(sde)
    law = r"\operatorname{Cov}\left(Y^{\alpha\,\beta}, Y^{\delta\,\omega}\right) &= \frac{1}{\tfrac{k}{n}} V"
    assert law in sde.latex() and r"\sum_{\mathrm{key" in sde.latex()
    more = repr(tp.derive(ordinary(bias=BIAS), tp.Proportional()))
    assert "array0[token, key]" in more and "array0    = the constant array [[0.0, -40.0], [0.5, 0.0]]" in more
    assert r"\operatorname{E}\left[\varphi^{\,\alpha \nu} \varphi^{\,\beta \kappa}\right] V^{\nu \kappa}" in sde.latex()
    assert str(sde.drift) == "g**2*Sum(E(φ[α, ν]*φ[β, κ])*V[ν, κ], (ν, 1, m), (κ, 1, m))"


@pytest.mark.parametrize("written", ["in front", "inside"])
def test_a_quotient_with_a_kink_in_which_the_width_is_as_large_as_the_logits(written):
    """b_αβ = ½ Σ_ν E φ_αν V_νβ + (α ↔ β), φ = |S|/(|S| + 1), S of variance V_αα V_νν."""

    @tp.block
    def attention(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
        v = WV @ x
        y = tp.avg((WQ @ x) * (WK @ x).rename(token="key"))
        size, one = (abs(y), 1 / tp.sqrt(tp.n)) if written == "in front" else (abs(tp.sqrt(tp.n) * y), 1)
        F = size / (size + one) / tp.n
        return tp.sqrt(0.5) * x + tp.sqrt(0.5) * (v + tp.sum(F * v.rename(token="key"), over="key"))

    def mean(variance):
        σ = np.sqrt(variance)
        return quad(lambda z: 2 * np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * σ * z / (1 + σ * z), 0, 12)[0]

    φ = np.vectorize(mean)(np.outer(np.diag(V), np.diag(V)))
    found, error = tp.derive(attention, tp.Proportional()).drift_estimate_at(V)
    assert (abs(found - (φ @ V + V @ φ.T) / 2) < 5 * error + 1e-9).all() and error.max() < 1e-2


def test_a_weight_of_a_sum_of_tokens_has_a_name_without_indices():
    """b = E tanh²(S) V with S = √n Σ_α p_α q_α·k_α/n of variance Σ p_α p_β V_αβ²."""

    @tp.block
    def gate(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, U: tp.Matrix):
        logit = tp.sum(tp.constant([0.6, 0.8], "token") * tp.avg((WQ @ x) * (WK @ x)), over="token")
        return x + tp.tanh(tp.sqrt(tp.n) * logit) * (U @ x) / tp.sqrt(tp.n)

    sde = tp.derive(gate, tp.Proportional())
    assert "b[αβ]     = E[φ φ] V[αβ]" in str(sde) and str(sde.drift) == "E(φ**2)*V[α, β]"
    σ = np.sqrt(0.36 * V[0, 0] ** 2 + 0.64 * V[1, 1] ** 2 + 0.96 * V[0, 1] ** 2)
    mean = quad(lambda z: np.tanh(σ * z) ** 2 * np.exp(-z * z / 2) / np.sqrt(2 * np.pi), -12, 12)[0]
    found, error = sde.drift_estimate_at(V)
    assert (abs(found - mean * V) < 5 * error + 1e-9).all() and error.max() < 1e-2


@pytest.mark.parametrize(
    ("f", "value"),
    [
        (tp.relu, lambda v: v),
        (lambda s: tp.leaky_relu(-s, 0.5), lambda v: -v / 2),
        (lambda s: tp.maximum(s, -s) - tp.relu(-s), lambda v: v),
        (lambda s: tp.where(s, 2, 1), lambda v: 2.0),
    ],
)
def test_a_scalar_with_a_mean_is_no_small_one_beside_its_kink(f, value):
    """relu(avg(h·h)) is of order 1, not n^(−1/2): the branch has the variance V_αβ f(V_αα) f(V_ββ)."""

    @tp.block
    def gated(s: tp.State["token"], H: tp.Matrix, Y: tp.Matrix, M: tp.Matrix):
        h = H @ s
        return s + M @ ((Y @ s) * f(tp.avg(h * h))) / tp.sqrt(tp.n)

    gates = np.array([value(v) * np.ones(()) for v in np.diag(V)])
    found = tp.derive(gated, tp.Proportional()).drift_at(V)
    np.testing.assert_allclose(found, V * np.outer(gates, gates), rtol=1e-7)


def test_scores_of_the_state_itself_have_a_mean():
    @tp.block
    def scored(s: tp.State["token"], Y: tp.Matrix):
        scores = tp.relu(tp.avg(s * s.rename(token="key")))
        return s + tp.sum(scores * (Y @ s).rename(token="key"), over="key") / tp.sqrt(tp.n)

    A = np.maximum(V, 0)
    np.testing.assert_allclose(tp.derive(scored, tp.Proportional()).drift_at(V), A @ V @ A.T, rtol=1e-7)


def softmax(S):
    weights = np.exp(S - S.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    "function, of_weights",
    [
        (lambda a: 1 / (1.5 - a), lambda a: 1 / (1.5 - a)),
        (lambda a: tp.log(2 - a), lambda a: np.log(2 - a)),
        (lambda a: tp.sqrt(1.1 - a), lambda a: np.sqrt(1.1 - a)),
    ],
    ids=["pole", "logarithm", "root"],
)
def test_a_softmax_reaches_no_pole_beyond_one(function, of_weights):
    @tp.block
    def block(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix):
        k, v = ((W @ x).rename(token="key") for W in (WK, WV))
        A = function(tp.softmax(tp.sqrt(tp.width("k")) * tp.avg((WQ @ x) * k), over="key"))
        return x + tp.sum(A * v, over="key") / tp.sqrt(tp.n)

    b, error = tp.derive(block, tp.Proportional()).drift_estimate_at(V)
    mean, spread = sampled(lambda S: of_weights(softmax(S)), V, 100_000)
    assert (np.abs(b - mean) <= 4 * (error + spread)).all()
    wrong, _ = sampled(lambda S: of_weights(softmax(1.3 * S)), V, 100_000)
    assert (np.abs(b - wrong) > 4 * (error + spread)).any()
