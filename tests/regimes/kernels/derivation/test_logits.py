"""Means of neurons given logits that stay random, and what they move by when parameters do."""

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.regimes.kernels.derivation.forms import scales_outside

X = np.array([[0.6, 0.5]])
C = float((X**2).sum())


@tp.network
def centred(P: tp.Matrix, ξ: tp.Input["d"], v: tp.Vector, U: tp.Vector["d"], Q: tp.Matrix):
    x = tp.sum(U * ξ, over="d")
    s = tp.sqrt(tp.n) * tp.avg((Q @ x) * (P @ x))
    y = tp.abs(x) * tp.sin(s)
    return v * (y - tp.avg(y))


@tp.network
def centred_by_a_box(P: tp.Matrix, ξ: tp.Input["d"], v: tp.Vector, U: tp.Vector["d"], Q: tp.Matrix):
    β = tp.neuron("β")
    x = tp.sum(U * ξ, over="d")
    s = tp.sqrt(tp.n) * tp.avg((Q @ x) * (P @ x))
    y = tp.abs(x) * tp.sin(s)
    z = tp.avg(y - y[β], over=β)
    return v * z


def tangent_kernel(moved: bool) -> float:
    """E Θ of `centred`: s ~ N(0, C²), |x| has the variance C (1 − 2/π), and Θ_s = 4 C² moves y by |x| cos s.

    What is centred moves by |x| − E|x|; without the tangent of the mean it would move by |x|.
    """
    sine = (1 - np.exp(-2 * C**2)) / 2
    variance = C * (1 - 2 / np.pi)
    return sine * variance + (1 - sine) * 4 * C**2 * (variance if moved else C) + sine * C


@pytest.mark.parametrize("network", [centred, centred_by_a_box])
def test_a_mean_moves_with_the_logits_it_depends_on(network):
    draws = tp.derive(network, tp.Kernels()).sample(X, draws=40_000, seed=1).ntk[:, 0, 0]
    error = draws.std() / np.sqrt(draws.size)
    assert abs(draws.mean() - tangent_kernel(moved=True)) < 4 * error
    assert abs(draws.mean() - tangent_kernel(moved=False)) > 40 * error


def test_logits_of_two_widths_that_read_one_vector_are_independent():
    """Given x, s ~ N(0, C) over k neurons and w ~ N(0, C) over n: E (s + w)² = 2C; were they one number it would be 4C.

    Of networks of that many heads as well: with ratio k/n = ½ both have the same law.
    """

    @tp.network
    def network(
        Q: tp.Matrix["k", "n", "head"],
        c: tp.Vector["k", "head"],
        a: tp.Vector["head"],
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        v: tp.Vector,
    ):
        x = tp.sum(U * ξ, over="d")
        s = tp.sqrt(tp.width("k")) * tp.avg((Q @ x) * c)
        w = tp.sqrt(tp.n) * tp.avg(x * a)
        return v * tp.mean((s + w) ** 2, over="head")

    found = tp.derive(network, tp.Kernels(train=("v",), infinite=("head",))).evaluate(X)
    assert found.nngp[0, 0] == pytest.approx((2 * C) ** 2, rel=1e-12)
    rng = np.random.default_rng(0)
    n, k, heads = 64, 32, 4000
    means = []
    for _ in range(40):
        x = rng.standard_normal((n, 2)) @ X[0]
        image = rng.standard_normal((heads, k)) * np.linalg.norm(x) / np.sqrt(n)  # Q x, a fresh Q for every head
        s = (image * rng.standard_normal((heads, k))).sum(1) / np.sqrt(k)
        w = rng.standard_normal((heads, n)) @ x / np.sqrt(n)
        means.append(np.mean((s + w) ** 2))
    error = np.std(means) / np.sqrt(len(means))
    assert abs(np.mean(means) - 2 * C) < 4 * error < C / 2


@pytest.mark.long
@pytest.mark.sampling
def test_networks_have_means_that_move():
    limit = tp.derive(centred, tp.Kernels())
    given = {"X1": X, "widths": (32, 64, 128), "draws": (2000, 1200, 600), "progress": False}
    right, wrong = ({"ntk": np.array([[tangent_kernel(moved)]])} for moved in (True, False))
    assert tp.check(limit, claims=right, **given).accepted
    assert not tp.check(limit, claims=wrong, **given).accepted


@tp.network
def gated(a: tp.Vector, v: tp.Vector, ξ: tp.Input["d"], U: tp.Vector["d"]):
    x = tp.sum(U * ξ, over="d")
    s = tp.sqrt(tp.n) * tp.avg(a * x)
    return v * tp.relu(x * s)


def test_random_scales_stand_in_front_of_homogeneous_functions():
    """K = C s²/2 for s ~ N(0, C); Θ adds as much for x, and E[x² step(x s)] · 2C = C² for s."""
    limit = tp.derive(gated, tp.Kernels())
    assert not any(m.values for t in limit.derivation.tables for m in t.definition.atoms() if hasattr(m, "values"))
    sample = limit.sample(X, draws=40_000, seed=2)
    for found, expected in ((sample.nngp, C**2 / 2), (sample.ntk, 2 * C**2)):
        assert abs(found.mean() - expected) < 4 * found.std() / np.sqrt(found.size)


@pytest.mark.parametrize("p", [-1.5, 0.7])
def test_homogeneous_functions_are_what_they_were(p):
    scale, z = sympy.symbols("p z", real=True)
    for f in (tp.relu, tp.step, tp.abs, tp.sign):
        written = f(scale * z)
        for at in (-0.4, 1.1):
            assert scales_outside(written, [scale]).subs({scale: p, z: at}) == written.subs({scale: p, z: at})


def behind_an_image(norm):
    """A norm of W (s x) moves with the logit s, though W s x is Gaussian given it."""

    @tp.network
    def network(W: tp.Matrix, ξ: tp.Input["d"], v: tp.Vector, U: tp.Vector["d"], a: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        y = W @ (x * (tp.sqrt(tp.n) * tp.avg(a * x)))
        return v * y / tp.sqrt(norm(y) + 0.2)

    return network


def tangent_behind_an_image(moved: bool) -> float:
    """s = √C z: v, W and x add E[C² z²/(C² z² + 0.2)] each, s moves y by its factor: 0.04/(C² z² + 0.2)³ or without."""
    z, weights = np.polynomial.hermite_e.hermegauss(180)
    weights, size = weights / weights.sum(), C**2 * z**2 + 0.2
    factor = 0.04 / size**3 if moved else 1 / size
    return float(weights @ (3 * C**2 * z**2 / size + 2 * C**2 * factor))


NORMS = {
    "square": lambda y: tp.avg(y * y),
    "centred": lambda y: tp.avg((y - tp.avg(y)) ** 2),
    "absolute": lambda y: tp.avg(tp.abs(y)) ** 2 * np.pi / 2,
}


@pytest.mark.parametrize("norm", NORMS)
def test_a_norm_of_an_image_moves_with_the_logits_behind_it(norm):
    draws = tp.derive(behind_an_image(NORMS[norm]), tp.Kernels()).sample(X, draws=20_000, seed=1).ntk[:, 0, 0]
    error = draws.std() / np.sqrt(draws.size)
    assert abs(draws.mean() - tangent_behind_an_image(moved=True)) < 4 * error
    assert abs(draws.mean() - tangent_behind_an_image(moved=False)) > 20 * error


@pytest.mark.sampling
def test_networks_have_norms_that_move_behind_images():
    limit = tp.derive(behind_an_image(NORMS["square"]), tp.Kernels())
    given = {"X1": X, "widths": (32, 64, 128), "draws": (2000, 1200, 600), "progress": False}
    right, wrong = ({"ntk": np.array([[tangent_behind_an_image(moved)]])} for moved in (True, False))
    assert tp.check(limit, claims=right, **given).accepted
    assert not tp.check(limit, claims=wrong, **given).accepted


HEADS = tp.Kernels(infinite=("head",))


def of_means(read):
    """v Σ_h read(m_h, s_h, x, Q_h x, H, P_h) with m_h = avg cos(s_h x), which is exp(−s²C/2) for s ~ N(0, C²)."""

    @tp.network
    def network(
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        Q: tp.Matrix["n", "n", "head"],
        P: tp.Matrix["n", "n", "head"],
        v: tp.Vector,
    ):
        x = tp.sum(U * ξ, over="d")
        s = tp.sqrt(tp.n) * tp.avg((Q @ x) * (P @ x))
        m = tp.avg(tp.cos(s * x))
        return v * tp.sum(read(m, s, x, Q @ x, tp.size("head"), P), over="head")

    return network


def over_a_box(s, x):
    β = tp.neuron("β")
    y = tp.cos(s * x)
    m = tp.avg(x * y[β] + y[β], over=β)
    return m


def test_means_that_logits_stand_inside_of_enter_sums_over_heads_linearly():
    """E m = (1 + C³)^(−1/2), of other heads in all pairs that count; U moves x alone."""
    found = tp.derive(of_means(lambda m, s, x, h, H, P: (2 * m - 1) * x / H), HEADS).evaluate(X)
    kernel = C * (2 / np.sqrt(1 + C**3) - 1) ** 2
    assert found.nngp[0, 0] == pytest.approx(kernel, rel=1e-9)
    assert found.ntk[0, 0] == pytest.approx(2 * kernel, rel=1e-9)
    boxed = tp.derive(of_means(lambda m, s, x, h, H, P: over_a_box(s, x) / H), HEADS).evaluate(X)
    assert boxed.nngp[0, 0] == pytest.approx((C + 1) / (1 + C**3), rel=1e-9)


@pytest.mark.parametrize(
    "read",
    [
        lambda m, s, x, h, H, P: m * m * x / H,
        lambda m, s, x, h, H, P: tp.sin(m) * x / H,
        lambda m, s, x, h, H, P: m * tp.cos(s) * x / H,
        lambda m, s, x, h, H, P: m * h / tp.sqrt(H),
        lambda m, s, x, h, H, P: over_a_box(s, x) ** 2 / H,
    ],
    ids=["its square", "a function", "beside its logit", "its second moment", "of a box"],
)
def test_of_other_functions_of_such_means_nothing_is_told(read):
    """E m² = (1 + 2C³)^(−1/2) is not (E m)², which stood for it; Θ lost what U moves."""
    with pytest.raises(tp.NoLimitError, match=r"` is a mean over neurons .* of which the mean alone is derived"):
        tp.derive(of_means(read), HEADS)


def test_functions_of_images_that_are_gaussian_given_logits_alone_are_refused():
    """tanh(P tanh(s x)), s a logit."""
    read = lambda m, s, x, h, H, P: tp.tanh(P @ tp.tanh(s * x)) / H  # noqa: E731
    with pytest.raises(tp.NoLimitError, match="Gaussian only given random logits"):
        tp.derive(of_means(read), HEADS)


@pytest.mark.parametrize("axes", [(), ("head",)])
def test_that_no_head_averages_over_random_scalars_is_told(axes):
    """tanh(W (x tanh 1/S)): Θ is random with S, and only matrices that have an axis could average over its members."""

    @tp.network
    def net(ξ: tp.Input["d"], a: tp.Vector, U: tp.Vector["d"], W: tp.Matrix["n", "n", *axes], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        y = tp.tanh(W @ (x * tp.tanh(1 / (tp.sqrt(tp.n) * tp.avg(a * x)))))
        return v * (tp.sum(y, over="head") if axes else y)

    with pytest.raises(tp.NoLimitError, match="Gaussian only given random logits") as raised:
        tp.derive(net, tp.Kernels())
    assert ('infinite=("head",)' in str(raised.value)) == bool(axes)
    assert ("the kernel is random" in str(raised.value)) != bool(axes)
