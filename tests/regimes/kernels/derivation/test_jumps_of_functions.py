"""Tangent kernels through jumps at the zeros of nonlinear functions: the NNGP stands, the NTK is refused by name."""

import numpy as np
import pytest

import tplimits as tp

SHIFTED = tp.init(mean=-1, std=0.5)


@tp.network
def chosen(ξ: tp.Input["d"], U: tp.Vector["d"], R: tp.Matrix, v: tp.Vector):
    y = R @ tp.sum(U * ξ, over="d")
    bump = tp.elementwise(lambda u: u + u**3)(y)
    return v * tp.where(bump, y, 0.5)


def test_a_jump_at_the_zeros_of_a_nonlinear_function():
    found = tp.derive(chosen, tp.Kernels()).evaluate(X1=np.array([[1.0, 0.0]]))
    # E (z 1{z > 0} + ½ 1{z < 0})² = ½ + ⅛
    assert found.nngp[0, 0] == pytest.approx(0.625, rel=1e-6)
    with pytest.raises(tp.NoLimitError, match=r"derivative of a jump .* not linear in Gaussian vectors"):
        _ = found.ntk


# max(y, c), max(sin y, sin x) where y > x, a polynomial that begins at a zero of its own: none of them jumps
CROSSED = {
    "a constant": (
        lambda y, x: tp.where(y - 0.1, y, 0.1 + 0 * y),
        lambda y, x: (np.maximum(y, 0.1), 1.0 * (y > 0.1), 0 * y),
    ),
    "a function of two": (
        lambda y, x: tp.where(y - x, tp.sin(y), tp.sin(x)),
        lambda y, x: (np.where(y > x, np.sin(y), np.sin(x)), np.cos(y) * (y > x), np.cos(x) * (y <= x)),
    ),
    "a polynomial": (
        lambda y, x: (y**2 - 1) * tp.step(y - 1),
        lambda y, x: ((y**2 - 1) * (y > 1), 2 * y * (y > 1), 0 * y),
    ),
    "nonlinear": (
        lambda y, x: (y**2 - 1) * tp.step(y**2 - 1),
        lambda y, x: (np.maximum(y**2 - 1, 0), 2 * y * (abs(y) > 1), 0 * y),
    ),
}


@pytest.mark.parametrize("name", CROSSED)
def test_functions_that_are_written_with_a_jump_and_have_none(name):
    written, plain = CROSSED[name]

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * written(W @ x, x)

    pair = tp.derive(network, tp.Kernels()).evaluate(np.array([[0.6, 0.8]]))
    # trapezoidal sums over the plane, y and x independent N(0, 1): Θ_y = 2, Θ_x = 1
    grid = np.linspace(-9, 9, 3601)
    y, x = np.meshgrid(grid, grid[::4], indexing="ij")
    weight = np.exp(-(y**2 + x**2) / 2) / (2 * np.pi) * (grid[1] - grid[0]) ** 2 * 4
    value, by_y, by_x = plain(y, x)
    nngp = (weight * value**2).sum()
    assert pair.nngp[0, 0] == pytest.approx(nngp, abs=3e-3)
    assert pair.ntk[0, 0] == pytest.approx(nngp + (weight * (2 * by_y**2 + by_x**2)).sum(), abs=1e-2)


ARGUMENTS = {
    "s (2b − ½)": lambda h, y, b, s: s * (2 * b - 0.5),
    "s h − 2y + 0.3": lambda h, y, b, s: s * h - 2 * y + 0.3,
    "h y": lambda h, y, b, s: h * y,
    "h³ − h": lambda h, y, b, s: h**3 - h,
}


@pytest.mark.long
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_products_with_a_jump_that_have_none(argument):
    """u step(u) and u sign(u) are relu(u) and |u|: their tangents were refused as products of two deltas."""

    def written(function):
        @tp.network
        def net(ξ: tp.Input["d"], U: tp.Vector["d"], T: tp.Vector["d"], b: tp.Vector, v: tp.Vector):
            h, y = tp.sum(U * ξ, over="d"), tp.sum(T * ξ, over="d")
            return v * function(ARGUMENTS[argument](h, y, b, tp.avg(h * tp.relu(h + b))))

        return tp.derive(net, tp.Kernels(train=("U", "b", "v"))).evaluate([[1.0, 0.3]])

    for one, other in ((tp.relu, lambda u: u * tp.step(u)), (tp.abs, lambda u: u * tp.sign(u))):
        pairs = written(one), written(other)
        assert pairs[0].nngp == pytest.approx(pairs[1].nngp, rel=1e-6)
        assert pairs[0].ntk == pytest.approx(pairs[1].ntk, rel=1e-6)


def test_messages_show_what_was_written():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], T: tp.Vector["d"], v: tp.Vector):
        x, y = tp.sum(U * ξ, over="d"), tp.sum(T * ξ, over="d")
        s = tp.avg(x * y)
        return v * tp.step(y * s)

    with pytest.raises(tp.NoLimitError, match=r"`s\*y` tends to 0, with either sign at finite width"):
        tp.derive(net, tp.Kernels())

    @tp.network
    def sharp(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.n * tp.sum(U * ξ, over="d") ** 2 / (1 + tp.n * tp.sum(U * ξ, over="d") ** 2)

    with pytest.raises(tp.NoLimitError, match=r"`\(Σ_d U\[d\]\*ξ\[d\]\)\*\*2\*n \+ 1` is kept off 0"):
        tp.derive(sharp, tp.Kernels())


def test_products_with_a_jump_under_a_mean_over_tokens():
    def written(function):
        @tp.network
        def net(ξ: tp.Input["d", "token"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector, w: tp.Vector):
            x = tp.sum(U * ξ, over="d")
            u = W @ x - b
            return tp.mean(v * function(u) + w * x, over="token")

        return tp.derive(net, tp.Kernels()).evaluate(np.random.default_rng(0).standard_normal((2, 2, 3)))

    one, other = written(tp.relu), written(lambda u: u * tp.step(u))
    assert one.ntk == pytest.approx(other.ntk, rel=1e-9)


def chosen_where(condition):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        h = tp.sum(U * ξ, over="d")
        return v * tp.where(condition(h), h, 0.5)

    return tp.derive(network, tp.Kernels()).evaluate(np.array([[0.6, 0.8], [1.0, -0.5]]))


def test_a_condition_that_holds_at_almost_every_neuron_has_no_delta():
    """√(1 − tanh² h) and |h| are positive but for no neuron: v h has the kernels K and 2 K."""
    X = np.array([[0.6, 0.8], [1.0, -0.5]])
    for condition in (lambda h: tp.sqrt(1 - tp.tanh(h) ** 2), lambda h: 2 * tp.abs(h)):
        found = chosen_where(condition)
        assert found.nngp == pytest.approx(X @ X.T, abs=1e-9)
        assert found.ntk == pytest.approx(2 * X @ X.T, abs=1e-9)
    # relu(h) is 0 at half of the neurons, and what is chosen jumps by a half at its end
    with pytest.raises(tp.NoLimitError, match="jump"):
        _ = chosen_where(tp.relu).ntk


def of_shifted(function):
    """Kernels of S f(c) with c of mean −1 and standard deviation ½."""

    @tp.network
    def net(S: tp.Matrix, ξ: tp.Input["d"], v: tp.Vector, c: tp.Vector = SHIFTED):
        return v * (S @ function(c))

    return tp.derive(net, tp.Kernels())


@pytest.mark.parametrize(
    ("sharp", "plain", "wrong"),
    [
        (lambda c: c * tp.step(c * tp.tanh(c)), lambda c: c, tp.relu),
        (lambda c: tp.step(c * tp.tanh(c)) * (c + c**2), lambda c: c + c**2, lambda c: tp.relu(c) + c**2),
        (lambda c: c * tp.step(tp.tanh(c)), tp.relu, lambda c: c),
        (lambda c: c * tp.step(c**2 * tp.tanh(c)), tp.relu, lambda c: c),
    ],
)
def test_jumps_of_functions_of_a_vector_with_a_mean(sharp, plain, wrong):
    """They are where those of the vector are: one that only touches zero is 1, and c step(tanh c) is relu(c)."""
    found, same, other = (of_shifted(f).evaluate(np.ones((1, 2))).ntk for f in (sharp, plain, wrong))
    assert np.abs(found - same).max() < 1e-12 < 1e-2 < np.abs(found - other).max()


@pytest.mark.parametrize("crossing", [lambda c: c * tp.step(c * tp.tanh(c - 1)), lambda c: (c - 1) * tp.step(c)])
def test_jumps_where_the_function_is_not_zero_have_no_tangent_kernel(crossing):
    with pytest.raises(tp.NoLimitError, match="derivatives of two jumps"):
        of_shifted(crossing).evaluate(np.ones((1, 2))).ntk  # noqa: B018


TILTED = tp.init(mean=0.3, std=1)


@pytest.mark.parametrize("named", [True, False])
def test_branches_that_meet_at_weights_with_a_mean(named):
    """The mean of Σ U ξ is one number wherever the sum stands: each copy had its own, and where() a delta at 0."""

    @tp.network
    def net(ξ: tp.Input["token", "d"], v: tp.Vector, U: tp.Vector["d"] = TILTED):
        def fresh():
            return tp.sum(U * ξ, over="d")

        y = fresh()
        x, z = (y, y) if named else (fresh(), fresh())
        return v * tp.mean(tp.where(y, x, tp.tanh(z)), over="token")

    ξ = np.array([[[0.6, 0.8], [1.0, -0.2]], [[0.5, -0.1], [0.3, 0.4]]])
    found = tp.derive(net.bind(token=2), tp.Kernels()).evaluate(ξ)
    weights = 0.3 + np.random.default_rng(0).standard_normal((2_000_000, 2))
    h = np.einsum("nd,itd->nit", weights, ξ)
    value = np.where(h > 0, h, np.tanh(h)).mean(axis=2)
    slope = np.where(h > 0, 1, 1 - np.tanh(h) ** 2)[..., None] * ξ / 2
    gradient = slope.sum(axis=2)
    nngp = value.T @ value / len(h)
    np.testing.assert_allclose(found.nngp, nngp, atol=5e-3)
    np.testing.assert_allclose(found.ntk, nngp + np.einsum("nid,njd->ij", gradient, gradient) / len(h), atol=8e-3)
    assert np.max(abs(found.ntk - nngp)) > 0.1
