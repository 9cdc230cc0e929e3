"""Kernels, and training, of functions whose parts have names: the same as in one line, or refused alike."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp

X = np.array([[-0.8, 0.2], [-0.5, -0.2]])
OFF = tp.init(mean=0.5, std=1)
TOKENS = np.array([[[-0.8, -0.4], [0.1, -0.5]], [[-0.1, -1.1], [-0.9, 0.2]]])


def over_gaussians(f, C, degree=400):
    """E f(z1, z2), (z1, z2) ~ N(0, C), by the trapezoidal rule."""
    g = np.linspace(-9, 9, degree)
    w = np.exp(-(g**2) / 2)
    u, v = np.meshgrid(g, g)
    weights = np.outer(w, w) / w.sum() ** 2
    L = np.linalg.cholesky(C)
    return float((weights * f(L[0, 0] * u, L[1, 0] * u + L[1, 1] * v)).sum())


@tp.network
def elu(v: tp.Vector, U: tp.Vector["d"], ξ: tp.Input["d"]):
    y = tp.sum(U * ξ, over="d")
    below = tp.exp(tp.minimum(y, 0))
    z = below - 1
    return v * tp.where(y, y, z)


def test_an_elu_has_no_delta_where_its_branches_meet():
    C = X @ X.T
    f, slope = (lambda y: np.where(y > 0, y, np.expm1(np.minimum(y, 0)))), (lambda y: np.exp(np.minimum(y, 0)))
    K = over_gaussians(lambda a, b: f(a) * f(b), C)
    moved = over_gaussians(lambda a, b: slope(a) * slope(b), C)
    pair = tp.derive(elu, tp.Kernels()).evaluate(X)
    assert pair.nngp[0, 1] == pytest.approx(K, rel=1e-6)
    assert pair.ntk[0, 1] == pytest.approx(K + C[0, 1] * moved, rel=1e-4)
    assert pair.ntk[0, 1] != pytest.approx(K + C[0, 1] * (moved + 1 / (2 * np.pi)), rel=1e-2)  # a delta is left


def test_a_random_logit_of_chosen_tokens():
    """√n ⟨a|y₁⟩ has the covariance of the second token, whatever else is there."""

    @tp.network
    def chosen(a: tp.Vector, v: tp.Vector, ξ: tp.Input["token", "d"], U: tp.Vector["d"]):
        y = tp.sum(U * ξ, over="d")
        return v * y.sel(token=0) * tp.tanh(tp.sqrt(tp.n) * tp.avg(a * y.sel(token=1)))

    found = tp.derive(chosen.bind(token=2), tp.Kernels(train=("v",))).sample(TOKENS, draws=20000, seed=0).nngp
    mean, error = found[:, 0, 1].mean(), found[:, 0, 1].std() / 20000**0.5
    first, second = (TOKENS[:, k] @ TOKENS[:, k].T for k in (0, 1))
    true, other = (first[0, 1] * over_gaussians(lambda s, r: np.tanh(s) * np.tanh(r), C) for C in (second, first))
    assert abs(mean - true) < 5 * error
    assert abs(mean - other) > 20 * error


def test_a_jump_of_what_stays_random_has_no_tangent_kernel_in_one_line_either():
    @tp.network
    def gated(a: tp.Vector, v: tp.Vector, U: tp.Vector["d"], ξ: tp.Input["d"]):
        y = tp.sum(U * ξ, over="d")
        return v * (y * tp.step(tp.sqrt(tp.n) * tp.avg(a * y) - 0.4))

    with pytest.raises(tp.NoLimitError, match="jump of a scalar that stays random"):
        _ = tp.derive(gated, tp.Kernels()).sample(X, draws=8, seed=0).ntk
    behind = tp.derive(gated, tp.Kernels(train=("v",))).sample(X, draws=8, seed=0)
    assert behind.ntk == pytest.approx(behind.nngp)


def test_a_sum_over_heads_times_a_zero_in_disguise_has_no_sign():
    """s = ⟨relu h⟩ − ⟨|h|⟩/2 has either sign in networks: K[0, 1] = 0 was printed where it is ±E."""

    @tp.network
    def signed(
        v: tp.Vector, W: tp.Matrix, c: tp.Vector, Q: tp.Matrix["n", "n", "head"], U: tp.Vector["d"], ξ: tp.Input["d"]
    ):
        h = W @ tp.sum(U * ξ, over="d")
        s = tp.avg(tp.relu(h)) - tp.avg(tp.abs(h)) / 2
        return v * tp.sign(W @ (s * tp.sum(1 / (2 + tp.cos(Q @ c)), over="head")))

    with pytest.raises((tp.NoLimitError, tp.EvaluationError), match="lands on a jump"):
        tp.derive(signed.bind(head=2), tp.Kernels(train=())).evaluate(X)


@tp.network
def bent(a: tp.Vector, v: tp.Vector, U: tp.Vector["d"], ξ: tp.Input["d"], c: tp.Vector = OFF):
    scaled = c * tp.avg(a**4)
    three = 3 * c
    z = scaled - three
    return v * (tp.relu(z) + c + tp.sum(U * ξ, over="d"))


@tp.network
def decaying(v: tp.Vector, U: tp.Vector["d"], ξ: tp.Input["d"]):
    size = tp.abs(tp.sum(U * ξ, over="d"))
    return v * tp.exp(-size)


@tp.network
def decaying_in_one_line(v: tp.Vector, U: tp.Vector["d"], ξ: tp.Input["d"]):
    return v * tp.exp(-tp.abs(tp.sum(U * ξ, over="d")))


def trained(network):
    limit = tp.derive(network, tp.MaximalUpdate(tp.SGD()))
    return limit.evaluate(X, error=tp.squared_error([1.0, -0.8]), lr=0.3, steps=2, particles=256, replicates=8).f


def test_training_at_the_kink_of_a_vector_that_cancels_by_its_names():
    """c ⟨a⁴⟩ − 3 c is 0 in the limit, and of either sign in networks."""
    with pytest.raises((tp.NoLimitError, tp.EvaluationError), match="lands on a jump"):
        trained(bent)


def test_training_of_an_exponential_that_a_name_keeps_bounded():
    assert trained(decaying) == pytest.approx(trained(decaying_in_one_line), rel=1e-12)


def covariances(f, C):
    def of(i, j):
        return over_gaussians(lambda a, b: f(a) * f(b), C[np.ix_([i, j], [i, j])] + 1e-9 * np.eye(2))

    return np.array([[of(i, j) for i in range(len(C))] for j in range(len(C))])


def read_by_name(h, c):
    part = 2 * h
    whole = part - tp.tanh(h)
    above = tp.step(whole - c)
    return whole * above


def chosen(h, c):
    either = tp.where(h, tp.tanh(h), h)
    sign = tp.sign(either - c)
    return tp.clip(either, -1, 1) * sign


def step_by_a_pole(h, c):
    one = tp.where(h - c, 1 / (h - c), 0)
    return h * tp.tanh(one * (h - c))


RELU = (lambda h: h * (h > 0), lambda h: 1.0 * (h > 0))
JUMPING = {
    "read_by_name": (
        read_by_name,
        lambda h: np.maximum(2 * h - np.tanh(h), 0),
        lambda h: (2 - np.cosh(h) ** -2) * (h > 0),
    ),
    "chosen": (
        chosen,
        lambda h: np.where(h > 0, np.tanh(h), np.minimum(-h, 1)),
        lambda h: np.where(h > 0, np.cosh(h) ** -2, -1.0 * (h > -1)),
    ),
    "step_by_a_pole": (step_by_a_pole, *(lambda h, f=f: np.tanh(1) * f(h) for f in RELU)),
}


@pytest.mark.parametrize("name", JUMPING)
@pytest.mark.parametrize("summed", [False, True])
def test_a_named_jump_has_no_height_where_what_it_multiplies_vanishes(name, summed):
    """h step(h) is relu(h), in two lines as in one, and in a mean over tokens."""
    written, f, slope = JUMPING[name]

    def network_at(c):
        @tp.network
        def network(ξ: tp.Input["token", "d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
            h = W @ tp.sum(U * ξ, over="d")
            return v * tp.mean(written(h, c), over="token") if summed else v * written(h.sel(token=0), c)

        return tp.derive(network.bind(token=2), tp.Kernels(train=("W",)))

    inputs = (TOKENS if summed else TOKENS[:, :1]).reshape(-1, 2)
    C = inputs @ inputs.T
    K, moved = (covariances(g, C) for g in (f, slope))
    at = 2 if summed else 1
    nngp, ntk = (A.reshape(2, at, 2, at).mean(axis=(1, 3)) for A in (K, C * moved))
    pair = network_at(0).evaluate(TOKENS)
    assert pair.nngp == pytest.approx(nngp, abs=2e-2)
    assert pair.ntk == pytest.approx(ntk, abs=2e-2)
    # where the jump is at ½ it has a height
    assert not any("no Θ" in said for said in network_at(0).assumptions)
    assert any("no Θ" in said for said in network_at(0.5).assumptions)
