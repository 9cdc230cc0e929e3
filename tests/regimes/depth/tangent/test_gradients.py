"""Gradients along depth: paths against backpropagation in real networks, duality, and the law of one token."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import shaped
from scipy import stats

import tplimits as tp
from tplimits.regimes.depth.finite.request import start
from tplimits.regimes.depth.tangent.finite.backpropagation import Network
from tplimits.regimes.depth.tangent.finite.responses import responses
from tplimits.regimes.depth.tangent.paths import alignment

V0 = np.array([[1.0, 0.2], [0.2, 1.0]])
SLOPES = {"c_plus": 0.0, "c_minus": -1.0}
LEVELS = np.array([0.05, 0.5, 0.95])


@functools.cache
def resnet():
    return tp.derive(shaped.relu_resnet, tp.Proportional(tangent=True))


@functools.cache
def perceptron():
    return tp.derive(shaped.relu_mlp, tp.Proportional(tangent=True))


@functools.cache
def attention():
    return tp.derive(shaped.shaped_attention, tp.Proportional(tangent=True))


def backpropagated(block, V, n, layers, draws, at=(0,), readout=0, seed=1, **given):
    """log(|∂L/∂θ|²/n) by name and layer; of "input" a column a token."""
    block = block.bind(token=len(V)).released
    rng = np.random.default_rng([seed, 99])
    x, _ = start(V, block).states(draws, n, rng)
    network = Network(block, layers, readout, None, given)
    weights = lambda layer: np.random.default_rng([seed, layer])  # noqa: E731
    with np.errstate(divide="ignore"):
        return {k: np.log(v / n) for k, v in network.squared_norms(x, weights, rng, at).items()}


def agree(networks, paths, level):
    """Quantiles of two samples, two-sided at a level by the binomial law of how many lie below."""
    for q in LEVELS:
        at = np.quantile(paths, q)
        below, many = int((networks < at).sum()), len(networks)
        error = np.sqrt(q * (1 - q) * (1 / many + 1 / len(paths)))
        if abs(below / many - q) > stats.norm.isf(level / 2) * error + 1 / many:
            return False
    return True


@pytest.mark.long
@pytest.mark.parametrize("c", [(0.0, -1.0), (0.7, 0.2)])
@pytest.mark.parametrize("name", ["residual", "perceptron"])
def test_one_token_of_shaped_relu_is_normal_at_every_layer(name, c):
    """N(−sT, 2sT), s = 2γ² or 1, whatever the slopes; weights the same at every layer."""
    T, γ, paths = 0.8, 0.5, 4096
    sde, given = (resnet(), {"γ": γ}) if name == "residual" else (perceptron(), {})
    s, matrix = (2 * γ**2, "W1") if name == "residual" else (1.0, "W")
    asked = {"c_plus": c[0], "c_minus": c[1], "paths": paths, "dt": 0.02, **given}
    found = sde.gradients([[1.0]], T=T, of=["input", matrix], **asked)
    assert sde.chain(T=T, **asked).s == pytest.approx(s)
    for row in found.rows:
        left = (1 - row.layer) * T if row.of == "input" else T
        if left:
            logs = row.logs - (np.log(γ**2) if row.of == "W1" else 0)
            # steps of 0.02 add to the mean and the variance less than a standard error
            assert abs(logs.mean() + s * left) < 4 * np.sqrt(2 * s * left / paths) + 0.02
            assert abs(logs.var() / (2 * s * left) - 1) < 4 * np.sqrt(2 / paths) + 0.04
    assert "typical gradients" in found.verdict and matrix in found.table


@pytest.mark.long
@pytest.mark.sampling
def test_backpropagation_through_relu_networks():
    """Full depth, n = 48, T = ½: quantiles of the gradients of input and weights in two layers."""
    constants = {"γ": 0.5, **SLOPES}
    networks = backpropagated(shaped.relu_resnet, V0, 48, 24, 250, at=(0, 12), **constants)
    laws = resnet().gradients(V0, T=0.5, layers=(0.0, 0.5), readout=0, paths=2048, dt=0.02, **constants)
    level = 1e-2 / 18
    for name in ("W1", "W2"):
        assert agree(networks[name, 0], laws.of(name, 0.0).logs, level)
        assert agree(networks[name, 12], laws.of(name, 0.5).logs, level)
    assert agree(networks["input", 0][:, 0], laws.of("input", 0.0).logs, level)


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize(
    ("m", "γ", "T", "n"),
    [(2, 0.5**0.5, 0.5, 48), (3, 0.5, 0.4, 48)],
)
def test_backpropagation_through_attention(m, γ, T, n):
    """Quantiles of the gradients of WV, WQ, WK and of single tokens; tokens in the wrong order are rejected."""
    V, constants = 0.8 * np.eye(m) + 0.2, {"γ": γ, "τ0": 1.0}
    networks = backpropagated(shaped.shaped_attention, V, n, round(T * n), 250, **constants)
    names = ["WV", "WQ", "WK", "input[0]", "input[1]"]
    laws = attention().gradients(
        V, T=T, of=names, layers=(0.0,), readout=0, stop=100.0, paths=2048, dt=0.02, **constants
    )
    level = 1e-2 / 30
    for name in ("WV", "WQ", "WK"):
        order = laws.of(name).order
        assert agree(networks[name, 0] + order * np.log(n), laws.of(name).logs, level), name
    assert agree(networks["input", 0][:, 0], laws.of("input[0]").logs, level)
    assert agree(networks["input", 0][:, 1], laws.of("input[1]").logs, level)
    assert not agree(networks["input", 0][:, 0], laws.of("input[1]").logs, level)


@pytest.mark.sampling
def test_duality_holds_at_any_width():
    """Kolmogorov and Smirnov between responses and backpropagation, at n = 16."""
    n, layers, draws, constants = 16, 8, 500, {"γ": 0.7, "τ0": 0.8}
    block = shaped.shaped_attention.bind(token=2).released
    back = backpropagated(block, V0, n, layers, draws, **constants)
    rng = np.random.default_rng(3)
    for name in ("WQ", "WV"):
        x, _ = start(V0, block).states(draws, n, rng)
        _, δx = responses(block, x, name, layers, rng, None, constants)
        found = np.log((δx[:, 0] ** 2).mean(axis=-1))
        assert stats.ks_2samp(found, back[name, 0]).pvalue > 1e-2 / 4
    x, _ = start(V0, block).states(draws, n, rng)
    moved = np.zeros_like(x)
    moved[:, 1] = rng.standard_normal((draws, n))
    _, found = responses(block, x, moved, layers, rng, None, constants)
    assert stats.ks_2samp(np.log((found[:, 0] ** 2).mean(-1)), back["input", 0][:, 1]).pvalue > 1e-2 / 4
    # the pairing turned round: the response of token 1 to what is read at token 0
    assert stats.ks_2samp(np.log((found[:, 1] ** 2).mean(-1)), back["input", 0][:, 1]).pvalue < 1e-6


@pytest.mark.long
@pytest.mark.sampling
def test_check_accepts_the_law_and_rejects_twins():
    asked = {"V0": V0, "layers": 6, "widths": (8, 16, 24), "draws": 150, "γ": 0.7, "τ0": 1.0, "paths": 1024}
    assert tp.check(attention(), **asked, progress=False).accepted
    laws = attention().gradients(
        V0, T=0.25, paths=1024, of=["input[0]", "input[1]"], layers=(0.0,), readout=0, γ=0.7, τ0=1.0
    )
    # the tokens that are perturbed and read exchanged
    turned = {"50% input[1]@0": laws.of("input[0]").quantiles[1], "50% input[0]@0": laws.of("input[1]").quantiles[1]}
    assert not tp.check(attention(), **asked, claims=turned, progress=False).accepted
    with pytest.raises(tp.CheckError, match="give layers="):
        tp.check(attention(), V0=V0, γ=0.7, τ0=1.0)
    with pytest.raises(tp.CheckError, match="there is no `50% WX@0`"):
        tp.check(attention(), **asked, claims={"50% WX@0": 0.0})


@tp.block
def linear(x: tp.State["token"], W: tp.Matrix):
    return W @ x


@pytest.mark.long
@pytest.mark.sampling
def test_check_rejects_gradients_that_are_independent_of_the_way_there():
    """Layers that are not correlated, and a response that never meets the state (C kept at 0).

    The correlations are .35 and .25, known to .07 from 1600 networks a width: rejected with probability .8 or more.
    The alignments are .5, known to .05: rejected with certainty.
    """
    sde = tp.derive(linear, tp.Proportional(tangent=True))
    asked = {"V0": [[1.0]], "layers": 20, "widths": (10, 15, 20), "paths": 1024, "dt": 0.05, "progress": False}
    verdict = tp.check(sde, **asked, draws=400)
    assert verdict.accepted and "correlation W@0 W@0.5" in repr(verdict)
    twins = dict.fromkeys(("correlation W@0 W@1", "correlation end input@0", "alignment input@0", "alignment W@0"), 0.0)
    rows = tp.check(sde, **asked, draws=1600, claims=twins).rows
    assert {row.claim.label for row in rows if not row.accepted} == twins.keys()


def test_first_and_last_layer_are_correlated():
    """.182 and .552 at sT = ½, .289 and .592 at .98, where independence of gradients says 0 and ½."""
    for γ, T, first, middle in ((0.5, 1.0, 0.182, 0.552), (0.7, 1.0, 0.289, 0.592)):
        chain = resnet().chain(T=T, paths=40000, γ=γ, **SLOPES)
        assert chain.s == pytest.approx(2 * γ**2)
        assert abs(chain.correlation(0.0, 1.0) - first) < 0.02
        assert abs(chain.correlation(0.0, 0.5) - middle) < 0.02


@pytest.mark.long
def test_readouts_that_are_the_features():
    """E Γ = (e^(2sT) − e^(−sT))/3, and E[V_T G_0] = (e^(2sT) + 2 e^(−sT))/3."""
    sT = 0.5
    aligned = resnet().chain(T=1.0, readout="features", paths=60000, γ=0.5, **SLOPES).G[:, 0]
    assert abs(aligned.mean() - (np.exp(2 * sT) - np.exp(-sT)) / 3) < 4 * aligned.std() / np.sqrt(len(aligned))
    chain = resnet().chain(T=1.0, paths=60000, γ=0.5, **SLOPES)
    product = chain.V[:, -1] * chain.G[:, 0]
    assert abs(product.mean() - (np.exp(2 * sT) + 2 * np.exp(-sT)) / 3) < 4 * product.std() / np.sqrt(len(product))


@tp.block
def bent_far_out(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
    h = W @ x
    return h + U @ (2 + tp.tanh(h - 30) - tp.tanh(h + 30)) / tp.sqrt(tp.n)


def test_homogeneity_is_told_by_how_a_block_is_written():
    """Near 1 the block is W x to all digits; at V = 900 its drift is E(2 + tanh(h − 30) − tanh(h + 30))²."""
    sde = tp.derive(bent_far_out, tp.Proportional(tangent=True))
    u = np.linspace(-12, 12, 4001)
    h, density = 30 * u, stats.norm.pdf(u) * (u[1] - u[0])
    drift = sde.drift_at([[900.0]], [[0.0]], [[1.0]]).V[0, 0]
    assert drift == pytest.approx(density @ (2 + np.tanh(h - 30) - np.tanh(h + 30)) ** 2, rel=1e-6)
    with pytest.raises(tp.NoLimitError, match="one token and homogeneous"):
        sde.chain(T=0.5, paths=8)


def test_what_is_not_known_is_refused():
    with pytest.raises(tp.NoLimitError, match="one token and homogeneous"):
        attention().chain(T=0.5, γ=0.5, τ0=1.0)
    with pytest.raises(tp.EvaluationError, match="it has WQ, WK, WV"):
        attention().gradients(V0, T=0.5, of="WX", γ=0.5, τ0=1.0)
    with pytest.raises(tp.EvaluationError, match="places along depth"):
        resnet().gradients(V0, T=0.5, layers=(2.0,), γ=0.5, **SLOPES)
    with pytest.raises(tp.EvaluationError, match="the tokens are 0 to 1"):
        resnet().gradients(V0, T=0.5, readout=2, γ=0.5, **SLOPES)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"of": []}, "at least one"),
        ({"of": 3}, "called by a name"),
        ({"of": "input[5]"}, "the tokens are 0 to 1"),
        ({"layers": ()}, "at least one"),
        ({"layers": ("a",)}, "places along depth"),
        ({"readout": "x"}, "an array of numbers"),
        ({"readout": np.full((2, 2), np.nan)}, "NaN"),
    ],
)
def test_arguments_of_gradients_are_checked(asked, found):
    with pytest.raises(tp.EvaluationError, match=found):
        attention().gradients(V0, T=0.2, paths=8, γ=0.5, τ0=1.0, **asked)


@pytest.mark.parametrize(
    ("E", "found"),
    [("a", "array of numbers"), (1j * np.eye(2), "complex"), (-np.eye(2), "positive"), (np.ones((3, 2, 2)), "shape")],
)
def test_perturbations_are_checked(E, found):
    with pytest.raises(tp.EvaluationError, match=found):
        attention().simulate(V0, E, T=0.2, paths=8, γ=0.5, τ0=1.0)
    paths = np.broadcast_to(np.diag([1.0, -1.0]), (8, 2, 2))
    with pytest.raises(tp.EvaluationError, match="negative variance"):
        attention().simulate(V0, paths, T=0.2, paths=8, γ=0.5, τ0=1.0)


def test_a_verdict_is_on_the_input():
    """A matrix has no gradient that its own starts from: what is told of it is a size, not that it vanishes."""
    asked = {"layers": (0.0,), "paths": 128, "γ": 0.5, "τ0": 1.0}
    assert "the median of |∂L/∂WQ|²/n · n^1 is" in attention().gradients(V0, T=0.2, of="WQ", **asked).verdict
    other = attention().gradients(V0, T=0.2, of="input[1]", readout=0, **asked).verdict
    assert "times its start" not in other and "vanish" not in other
    own = attention().gradients(V0, T=0.2, of="input[1]", readout=[[0, 0], [0, 4]], **asked)
    assert "keep their size" in own.verdict and abs(own.change[1]) < 0.5
    exploded = attention().gradients(V0, T=3.0, of="WQ", stop=50.0, layers=(0.5,), paths=64, γ=0.9, τ0=0.4)
    assert exploded.rows[0].stopped.any() and "exploded" in exploded.verdict


def test_gradients_that_vanish_are_said_to():
    """One token, or tokens that are equal, have nothing to attend to: |∂L/∂W_Q|² is 0, not what rounding leaves."""
    for V in (np.eye(1), np.ones((2, 2)), np.array([[2.0, -2.0, 2.0], [-2.0, 2.0, -2.0], [2.0, -2.0, 2.0]])):
        asked = {"paths": 64, "dt": 0.02, "γ": 0.5, "τ0": 1.0}
        laws = attention().gradients(V, T=0.2, **asked)
        equal = V[0, -1] == V.max() and V.min() > 0
        assert all(row.zero == (equal and row.of in ("WQ", "WK")) for row in laws.rows)
        assert ("0: the readout does not depend on it" in laws.table) == equal and "nan" not in repr(laws)
        one = attention().gradients(V, T=0.2, of=["input[0]"], layers=(0.0,), readout=len(V) - 1, **asked)
        assert one.rows[0].zero == (equal and len(V) > 1)  # equal tokens do not see each other
        assert "nan" not in laws.report().html().split("<style")[0] + laws.report().text


@tp.block
def smooth_branch(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix, *, γ):
    return x + γ * (U @ tp.tanh(W @ x)) / tp.sqrt(tp.n)


@pytest.mark.long
def test_a_smooth_branch_has_paths():
    """Second derivatives of tanh are tabulated up to some variance; without noise, D is that of its drift."""
    sde = tp.derive(smooth_branch, tp.Proportional(tangent=True))
    V, C, D = V0, np.zeros((2, 2)), np.eye(2)
    for _ in range(2):
        b = sde.drift_at(V, C, D, γ=1.2)
        V, C, D = V + 0.05 * b.V, C + 0.05 * b.C, D + 0.05 * b.D
    paths = sde.simulate(V0, np.eye(2), T=0.1, dt=0.05, paths=4, γ=1.2)
    np.testing.assert_allclose(paths.D, np.broadcast_to(D, (4, 2, 2)), rtol=1e-6)


def test_the_report_has_a_picture_and_its_seed():
    found = resnet().gradients(V0, T=0.3, paths=256, seed=4, γ=0.5, **SLOPES)
    report = found.report()
    assert "<svg" in report.picture and report.seed == 4 and '"tplimits gradients"' in report.document
    assert "respond to W1 at the first layer with correlation" in repr(found)


def test_typical_gradients_shrink_with_the_branch():
    found = resnet().growth("γ", (0.2, 0.6), [[1.0]], T=1.0, **SLOPES)
    for γ, (low, middle, high) in found.items():
        s = 2 * γ**2
        spread = 1.645 * np.sqrt(2 * s)
        np.testing.assert_allclose([low, middle, high], [-s - spread, -s, -s + spread], atol=0.15)


def test_what_exploded_has_an_alignment():
    """C²/(V D) by roots: of a path that exploded V D has no number, and no warning is raised for it."""
    V, C, D = (np.full((1, 1, 1), size) for size in (4e200, 3e200, 9e200))
    np.testing.assert_allclose(alignment(V, C, D), 0.25)
