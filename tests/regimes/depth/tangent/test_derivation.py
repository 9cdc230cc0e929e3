"""The joint drift and noise of tokens and tangents, by two routes, by hand, and in one layer of real networks."""

from __future__ import annotations

import functools

import hand_gradients as hand
import numpy as np
import pytest
import shaped
from scipy import stats

import tplimits as tp
from tplimits.regimes.depth.tangent.finite.responses import responses

NUMBERS = {"γ": 0.6, "τ0": 1.3}
SLOPES = {"c_plus": 0.2, "c_minus": -1.0}


def mask(m, kind):
    if kind == "full":
        return np.ones((m, m))
    return np.tril(np.ones((m, m))) if kind == "causal" else np.random.default_rng(m).uniform(0.1, 1, (m, m))


@tp.block
def gelu_residual(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
    return x + U @ tp.gelu(W @ x) / tp.sqrt(tp.n)


def stacked(M):
    return tp.stack(shaped.masked_attention(M), shaped.relu_resnet)


BLOCKS = {
    "attention": (shaped.shaped_attention, NUMBERS),
    "resnet": (shaped.relu_resnet, {"γ": 0.6, **SLOPES}),
    "mlp": (shaped.relu_mlp, SLOPES),
    "transformer": (tp.stack(shaped.shaped_attention, shaped.relu_resnet), {**NUMBERS, **SLOPES}),
    "causal": (stacked(mask(2, "causal")), {**NUMBERS, **SLOPES}),
    "gelu": (gelu_residual, {}),
}


@functools.cache
def derived(name):
    return tp.derive(BLOCKS[name][0], tp.Proportional(tangent=True))


@functools.cache
def masked(m, kind):
    return tp.derive(shaped.masked_attention(mask(m, kind)), tp.Proportional(tangent=True))


@functools.cache
def forward(name):
    return tp.derive(BLOCKS[name][0], tp.Proportional())


def joint(m, seed=0):
    g = np.random.default_rng(seed).standard_normal((2 * m, 2 * m + 1))
    W = g @ g.T / (2 * m)
    return W, (W[:m, :m], W[:m, m:], W[m:, m:])


def moved(W, s, t):
    m = len(W) // 2
    L = np.block([[np.eye(m), s * np.eye(m)], [np.eye(m), t * np.eye(m)]])
    return L @ W @ L.T


def slope_at_zero(radius, points):
    """Places around 0, itself in the middle, and weights of the derivative there of the polynomial through them."""
    angle = np.pi * (np.arange(points) + 0.5) / points
    at, middle = radius * np.cos(angle), points // 2
    at[middle] = 1.0
    weights = -((-1.0) ** (np.arange(points) - middle)) * np.sin(angle) / at
    at[middle] = weights[middle] = 0.0
    return at, weights


@pytest.mark.long
@pytest.mark.parametrize("kind", ["full", "causal", "random"])
@pytest.mark.parametrize("m", [2, 3, 4])
def test_two_sequences_side_by_side_move_as_the_joint_drift_says(m, kind):
    """Attention and relu under a mask that lets two copies attend each to itself.

    With slopes that are equal the drift is a polynomial of degree 5 at most in each move.  With others it is analytic
    but where a token meets its own copy, and there it is that of attention (`test_relu_by_hand`).
    """
    W = joint(m)[0] + np.eye(2 * m)  # tokens far from parallel
    state = W[:m, :m], W[:m, m:], W[m:, m:]
    M = mask(m, kind)
    single = tp.derive(stacked(M), tp.Proportional(tangent=True))
    both = tp.derive(stacked(np.kron(np.eye(2), M)), tp.Proportional())
    attention = None
    for slopes, radius, points in (({"c_plus": 0.0, "c_minus": 0.0}, 1.5, 7), (SLOPES, 0.2, 19)):
        at, weights = slope_at_zero(radius, points)
        states = np.array([[moved(W, s, t) for t in at] for s in at])
        b = both.drift_at(states, **NUMBERS, **slopes)[..., :m, m:]
        C, D = np.einsum("t,tab->ab", weights, b[points // 2]), np.einsum("s,t,stab->ab", weights, weights, b)
        found = single.drift_at(*state, **NUMBERS, **slopes)
        if attention:  # |s − t|³ of a token and its copy spoils the polynomial, not the limit
            C, D = (np.where(np.eye(m) > 0, alone, value) for alone, value in zip(attention, (C, D), strict=True))
        attention = found.C, found.D
        size = max(np.abs(found.C).max(), np.abs(found.D).max())
        assert max(np.abs(found.C - C).max(), np.abs(found.D - D).max()) < 1e-12 * size
        kept = single.drift_at(state[0], 0 * state[1], state[2], **NUMBERS, **slopes)  # a wrong twin
        assert np.abs(kept.C - C).max() > 1e-3 * size


@pytest.mark.parametrize("m", [2, 3, 4])
def test_attention_by_hand(m):
    """F and q of the drift of full attention, differentiated by hand."""
    W, (V, C, D) = joint(m)
    P, γ, τ0 = np.eye(m) - 1 / m, *NUMBERS.values()
    dot = lambda a, b: (a * b).sum()  # noqa: E731
    bar = lambda a: P @ a @ P  # noqa: E731
    q0, q1 = dot(bar(V), V), 2 * dot(bar(V), C)
    q2 = 2 * dot(bar(V), D) + 2 * dot(bar(C).T, C)
    own, other = np.diag(bar(V)) - np.diag(bar(V)).mean(), np.diag(bar(C)) - np.diag(bar(C)).mean()
    F = np.outer(np.diag(V), own) / (2 * m)
    δF = (np.outer(np.diag(C), own) + np.outer(np.diag(V), other)) / m
    rows = np.block([[F, np.zeros((m, m))], [δF, F]])
    across = C * q0 + V * q1
    added = np.block([[V * q0, across], [across.T, D * q0 + (C + C.T) * q1 + V * q2]]) / m**2
    expected = γ**2 / τ0**2 * (added + rows @ W + W @ rows.T)
    found = derived("attention").drift_at(V, C, D, **NUMBERS)
    for name, part in zip("VCD", (expected[:m, :m], expected[:m, m:], expected[m:, m:]), strict=True):
        np.testing.assert_allclose(getattr(found, name), part, atol=1e-13)


@pytest.mark.parametrize("m", [2, 3, 4])
def test_relu_by_hand(m):
    """√Δ − V arccos ρ, differentiated by hand along one token and along both; nothing where both tokens are one."""
    V, C, D = joint(m)[1]
    κ = (SLOPES["c_plus"] - SLOPES["c_minus"]) ** 2 / (2 * np.pi)
    own, back, mine = np.diag(V), C.T, np.diag(C)[:, None]
    scale = np.sqrt(np.outer(own, own))
    ρ = np.where(np.eye(m) > 0, 0.5, V / scale)  # the diagonal is taken out below
    Δ = scale**2 * (1 - ρ**2)
    slope = back / scale - ρ * mine / own[:, None]
    other = (mine / own[:, None]).T
    turned = (mine * own - V * back) / np.sqrt(Δ)
    expected = {
        "V": np.sqrt(Δ) - V * np.arccos(ρ),
        "C": np.sqrt(Δ) * other - np.arccos(ρ) * C,
        "D": -np.arccos(ρ) * D + slope * C / np.sqrt(1 - ρ**2) + turned * other,
    }
    for name, factor in (("mlp", 1.0), ("resnet", 0.6**2)):
        found = derived(name).drift_at(V, C, D, **BLOCKS[name][1])
        for letter, value in expected.items():
            value = factor * κ * np.where(np.eye(m) > 0, 0.0, value)
            np.testing.assert_allclose(getattr(found, letter), value, atol=1e-12)


def test_blocks_of_a_stack_add():
    """Blocks that keep V move V, C and D one after the other, by 1/n each: their drifts and their noise add."""
    state = joint(3)[1]
    resnet = {"γ": 0.6, **SLOPES}
    for what in ("drift_at", "diffusion_at"):
        whole = getattr(derived("transformer"), what)(*state, **BLOCKS["transformer"][1])
        parts = [getattr(derived(k), what)(*state, **c) for k, c in (("attention", NUMBERS), ("resnet", resnet))]
        np.testing.assert_allclose(np.array(whole), np.array(parts[0]) + np.array(parts[1]), atol=1e-12)


@pytest.mark.parametrize("name", ["resnet", "mlp", "gelu", "transformer"])
def test_differences_of_the_forward_drift(name):
    """Where no token attends to another, 2m tokens are two sequences; elsewhere b_V is the forward drift."""
    m, constants = 3, BLOCKS[name][1]
    W, state = joint(m)
    found = derived(name).drift_at(*state, **constants)
    np.testing.assert_allclose(found.V, forward(name).drift_at(state[0], **constants), atol=1e-12)
    if name == "transformer":
        return
    h = 1e-3
    b = lambda s, t: forward(name).drift_at(moved(W, s, t), **constants)[:m, m:]  # noqa: E731
    C = (b(0, h) - b(0, -h)) / (2 * h)
    D = (b(h, h) - b(h, -h) - b(-h, h) + b(-h, -h)) / (4 * h * h)
    smooth = name == "gelu"  # |s − t|³ of parallel tokens spoils differences of h, not the limit
    apart = np.ones((m, m), bool) if smooth else ~np.eye(m, dtype=bool)
    np.testing.assert_allclose(found.C[apart], C[apart], atol=1e-5)
    np.testing.assert_allclose(found.D[apart], D[apart], atol=1e-5)
    assert smooth or np.abs(np.diag(found.D)).max() == 0


@pytest.mark.parametrize("name", ["attention", "resnet"])
def test_noise_is_that_of_two_sequences(name):
    """Σ of the joint state from its root: what the isotropic part and the responses make, at 2m vectors."""
    m, constants = 2, BLOCKS[name][1]
    W, state = joint(m)
    found = derived(name).diffusion_at(*state, **constants)
    eigenvalues = np.linalg.eigvalsh(found)
    assert found.shape == (10, 10) and eigenvalues[0] > -1e-12 * eigenvalues[-1]
    pairs = [(i, j) for i in range(2 * m) for j in range(i, 2 * m)]
    own = [k for k, (i, j) in enumerate(pairs) if j < m]
    np.testing.assert_allclose(found[np.ix_(own, own)], forward(name).diffusion_at(state[0], **constants), atol=1e-12)
    if name == "resnet":  # all of it is isotropic: Σ_lin at 2m vectors
        s = 2 * constants["γ"] ** 2
        full = [[s * (W[a, c] * W[b, d] + W[a, d] * W[b, c]) for c, d in pairs] for a, b in pairs]
        np.testing.assert_allclose(found, full, atol=1e-12)


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize("kind", ["full", "causal", "random"])
@pytest.mark.parametrize("m", [2, 3])
def test_one_layer_of_attention_by_hand(m, kind):
    """n·E[Δ(V, C, D)] at a family-wise level of 1e-2; C kept at 0 is rejected."""
    M = mask(m, kind)
    sde = masked(m, kind)
    W, (V, C, D) = joint(m)
    found = hand.attention_moves(W, 300, 3000, *NUMBERS.values(), M, np.random.default_rng(m))
    mean, error = found.mean(axis=0), found.std(axis=0) / len(found) ** 0.5
    level = stats.norm.isf(0.5e-2 / 93)  # entries of V, C and D in these six cases, two-sided
    seen = error > 1e-9  # a token that sees itself alone stays as it is
    assert (np.abs(mean - np.array(sde.drift_at(V, C, D, **NUMBERS)))[seen] < level * error[seen]).all()
    alone = np.array(sde.drift_at(V, 0 * C, D, **NUMBERS))
    assert (np.abs(mean - alone)[seen] > 2 * level * error[seen]).any()


@pytest.mark.sampling
@pytest.mark.parametrize("name", ["attention", "resnet", "mlp", "transformer", "causal"])
def test_one_layer_of_networks(name):
    """n·E[Δ(V, C, D)] of real layers with their tangents, at a family-wise level of 1e-2."""
    m, n, draws = 2, 64, 12000
    block, constants = BLOCKS[name]
    along = np.block([[np.eye(m), np.zeros((m, m))], [np.eye(m), 0.5 * np.eye(m)]])  # tangents partly along the state
    W = along @ (3 * joint(m, seed=1)[0]) @ along.T
    V, C, D = W[:m, :m], W[:m, m:], W[m:, m:]
    claimed = derived(name).drift_at(V, C, D, **constants)
    rng = np.random.default_rng(2)
    sums, squares, count = np.zeros((3, m, m)), np.zeros((3, m, m)), 0
    root = np.linalg.cholesky(W)
    parts = block.bind(token=m).parts or (block.bind(token=m),)
    for _ in range(draws // 2000):
        g = rng.standard_normal((2000, 2 * m, n))
        both = root @ np.linalg.solve(np.linalg.cholesky(g @ g.transpose(0, 2, 1) / n), g)
        x, δx = both[:, :m], both[:, m:]
        for part in parts:
            given = {c: v for c, v in constants.items() if c in part.constants}
            (_, x), (_, δx) = (r for r in responses(part.released, x, δx, 1, rng, None, given, record=True))
        after = [x @ x.transpose(0, 2, 1), x @ δx.transpose(0, 2, 1), δx @ δx.transpose(0, 2, 1)]
        for k, (now, before) in enumerate(zip(after, (V, C, D), strict=True)):
            change = n * (now / n - before)
            sums[k] += change.sum(axis=0)
            squares[k] += (change**2).sum(axis=0)
        count += 2000
    mean = sums / count
    error = np.sqrt((squares / count - mean**2) / count)
    level = stats.norm.isf(0.5e-2 / 50)  # entries of V, C and D of five blocks, two-sided
    assert np.abs((mean - np.array(claimed)) / error).max() < level


@pytest.mark.long
def test_more_tokens_make_no_more_terms():
    """The derivation is symbolic in m: bound to a number of tokens it has the same terms, for whatever number."""
    few, many = (
        tp.derive(shaped.shaped_attention.bind(token=m), tp.Proportional(tangent=True)).limit.forms for m in (3, 90)
    )
    assert all(few.drift[k].terms.keys() == many.drift[k].terms.keys() for k in "VCD")
    assert len(derived("attention").limit.forms.drift["D"].terms) == len(many.drift["D"].terms)


def test_latex_and_print_out():
    sde = derived("resnet")
    assert "b_C[αβ]" in repr(sde) and "starts from D = (γ**2·V[αβ])" in repr(sde)
    assert r"\mathrm{d}D^{\alpha\beta}" in sde.latex() and sde.latex().isascii()
    assert str(sde.diffusion["C", "D"]) == "2*γ**2*C[α, δ]*D[β, ω] + 2*γ**2*C[α, ω]*D[β, δ]"
    assert [s.rule for s in sde.steps][-1] == "duality"


@pytest.mark.parametrize(
    ("name", "parameter", "expected"),
    [("resnet", "W1", "γ**2*V[α, β]"), ("resnet", "W2", "γ**2*V[α, β]"), ("mlp", "W", "V[α, β]")],
)
def test_where_parameters_start(name, parameter, expected):
    assert str(derived(name).start(parameter)) == expected


@tp.block
def jump(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
    return x + U @ tp.sign(tp.tanh(W @ x)) / tp.sqrt(tp.n)


@tp.block
def bent(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
    return x + U @ tp.relu(tp.tanh(W @ x)) / tp.sqrt(tp.n)


@tp.block
def vanilla(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
    logits = tp.avg((WQ @ x) * (WK @ x).rename(token="key")) * tp.sqrt(tp.n)
    attended = tp.sum(tp.softmax(logits, over="key") * (WV @ x).rename(token="key"), over="key")
    return (x + attended) / tp.sqrt(2)


@tp.block
def order_one(x: tp.State["token"], WQ: tp.Matrix, WK: tp.Matrix, WV: tp.Matrix):
    logits = tp.avg((WQ @ x) * (WK @ x).rename(token="key")) * tp.sqrt(tp.n)
    attended = tp.sum(tp.softmax(logits, over="key") * (WV @ x).rename(token="key"), over="key")
    return x + attended / tp.sqrt(tp.n)


@tp.block
def own_matrices(x: tp.State["token"], W: tp.Matrix["n", "n", "token"]):
    return W @ x


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (bent, "kink or jump"),
        (jump, "kink or jump"),
        (own_matrices, "differ between tokens"),
        (vanilla, "order 1"),
        (order_one, "the mean of a product of their derivatives"),
    ],
)
def test_refusals_say_why(block, reason):
    with pytest.raises(tp.NoLimitError, match=reason):
        tp.derive(block, tp.Proportional(tangent=True))
