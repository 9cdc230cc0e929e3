"""Sums over infinitely many members, named before they are divided, in functions and beside what they are made of."""

import numpy as np
import pytest
import sympy

import tplimits as tp

X = np.array([[1.0, 0.3], [-0.5, 0.8]])
C = X @ X.T / 2  # of x = Σ U ξ/√d
HEADS = tp.Kernels(infinite=("head",))
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def inputs(U, ξ):
    return tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))


def root(axis="head"):
    return tp.sqrt(tp.size(axis))


def pair_mean(f, g, covariance=C):
    """E f(z₁) g(z₂), (z₁, z₂) ~ N(0, covariance), by a product rule of our own."""
    low = np.linalg.cholesky(covariance)
    z1 = low[0, 0] * NODES[:, None] + 0 * NODES
    z2 = low[1, 0] * NODES[:, None] + low[1, 1] * NODES
    return float(WEIGHTS @ (f(z1) * g(z2)) @ WEIGHTS)


@tp.network
def inline(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
    return v * tp.tanh(tp.sum(Q @ inputs(U, ξ), over="head") / root())


@tp.network
def named(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
    total = tp.sum(Q @ inputs(U, ξ), over="head")
    twice = 2 * total
    return v * tp.tanh(twice / (2 * root()))


def test_a_sum_named_before_it_is_divided_is_the_sum_that_is():
    one, other = (tp.derive(network, HEADS).evaluate(X) for network in (inline, named))
    np.testing.assert_allclose(one.nngp, other.nngp, rtol=1e-12)
    np.testing.assert_allclose(one.ntk, other.ntk, rtol=1e-12)
    assert other.nngp[0, 1] == pytest.approx(pair_mean(np.tanh, np.tanh), rel=1e-6)
    slopes = pair_mean(lambda z: 1 - np.tanh(z) ** 2, lambda z: 1 - np.tanh(z) ** 2)
    # of v, of the matrices, and of U through them
    assert other.ntk[0, 1] == pytest.approx(pair_mean(np.tanh, np.tanh) + 2 * slopes * C[0, 1], rel=1e-6)
    assert other.ntk[0, 1] != pytest.approx(pair_mean(np.tanh, np.tanh) + slopes * C[0, 1], rel=1e-2)


def test_an_image_of_a_sum_is_divided_behind_the_matrix():
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], W: tp.Matrix, v: tp.Vector):
        image = W @ tp.sum(Q @ inputs(U, ξ), over="head")
        return v * tp.tanh(image / root())

    found = tp.derive(network, HEADS).evaluate(X)
    slopes = pair_mean(lambda z: 1 - np.tanh(z) ** 2, lambda z: 1 - np.tanh(z) ** 2)
    assert found.ntk[0, 1] == pytest.approx(found.nngp[0, 1] + 3 * slopes * C[0, 1], rel=1e-6)

    @tp.network
    def back(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], W: tp.Matrix, v: tp.Vector):
        total = tp.sum(Q @ inputs(U, ξ), over="head")
        return v * (W.T @ (W @ total)) / root()

    # Wᵀ W s is s and an image: E (s + g)²
    assert tp.derive(back, HEADS).evaluate(X).nngp[0, 1] == pytest.approx(2 * C[0, 1])


@pytest.mark.parametrize("power", [0.5, 1])
def test_a_sum_that_grows_is_refused_in_the_words_of_the_program(power):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
        x = inputs(U, ξ)
        total = tp.sum(Q @ x if power == 0.5 else tp.relu(Q @ x) / root(), over="head")
        return v * tp.tanh(total)

    with pytest.raises(tp.NoLimitError, match=r"grows like|infinitely many members") as refused:
        tp.derive(network, HEADS)
    assert "TableEntry" not in str(refused.value) and "Moment" not in str(refused.value)


@pytest.mark.parametrize(
    "factor",
    [
        lambda H: 1 / tp.sqrt(H) + 2 / H,
        lambda H: tp.sqrt(H + 1) / H,
        lambda H: tp.sqrt(H) / (H + tp.sqrt(H)),
    ],
)
def test_what_multiplies_a_sum_counts_by_its_leading_power(factor):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
        return v * factor(tp.size("head")) * tp.sum(tp.sign(Q @ inputs(U, ξ)), over="head")

    found = tp.derive(network, tp.Kernels(train=("v",), infinite=("head",))).evaluate(X)
    arcsine = 2 / np.pi * np.arcsin(C / np.sqrt(np.outer(np.diag(C), np.diag(C))))
    np.testing.assert_allclose(found.nngp, arcsine, rtol=1e-12)
    # of a number of heads: H c(H)² arcsine, which comes nearer
    distances = [abs(float(H * factor(sympy.Integer(H)) ** 2) - 1) for H in (10**4, 10**6, 10**8)]
    assert distances[2] < distances[1] / 5 < distances[0] / 25


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (lambda total, H: tp.tanh(total), "which grows with their number"),
        (lambda total, H: tp.tanh(total / H), "vanishes like a power of their number"),
        (lambda total, H: tp.tanh((1 / tp.sqrt(H) + 2 / H) * total), "vanishes like a power of their number"),
        (lambda total, H: tp.sin(H) * total, "is not clear"),
    ],
)
def test_functions_of_sums_that_are_not_of_order_one_are_refused_for_what_they_do(read, why):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
        return v * read(tp.sum(tp.sign(Q @ inputs(U, ξ)), over="head"), tp.size("head"))

    with pytest.raises(tp.NoLimitError, match=why):
        tp.derive(network, HEADS)


def test_functions_of_sums_of_functions():
    """Σ tanh(Q x)/√|head| is Gaussian with the bracket of tanh; Σ relu(Q x)/|head| is its mean."""

    @tp.network
    def root_of_many(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
        total = tp.sum(tp.tanh(Q @ inputs(U, ξ)), over="head")
        return v * tp.sin(total / root())

    @tp.network
    def mean_of_many(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
        return v * tp.sin(tp.mean(tp.relu(Q @ inputs(U, ξ)), over="head"))

    brackets = np.array(
        [[pair_mean(np.tanh, np.tanh, C[np.ix_([i, j], [i, j])] + 1e-13 * np.eye(2)) for j in (0, 1)] for i in (0, 1)]
    )
    assert tp.derive(root_of_many, HEADS).evaluate(X).nngp[0, 1] == pytest.approx(
        pair_mean(np.sin, np.sin, brackets), rel=1e-5
    )
    means = np.sin(np.sqrt(np.diag(C) / (2 * np.pi)))
    found = tp.derive(mean_of_many, HEADS).evaluate(X)
    np.testing.assert_allclose(found.nngp, np.outer(means, means), rtol=1e-9)
    np.testing.assert_allclose(found.ntk, found.nngp, rtol=1e-9)  # one of infinitely many matrices moves no mean


def test_members_that_share_a_vector_are_no_gaussian_sum():
    """Σ x² Q x/√|head| is x² g: with relu, E x² x′² times the bracket of relu g, not that of a Gaussian (.0483)."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
        x = inputs(U, ξ)
        member = x**2 * (Q @ x)
        return v * tp.relu(tp.sum(member, over="head") / root())

    @tp.network
    def beside(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
        x = inputs(U, ξ)
        member = x**2 * (Q @ x)
        return v * (tp.sum(member, over="head") / root()) * tp.relu(x)

    correlation = C[0, 1] / np.sqrt(C[0, 0] * C[1, 1])
    angle = np.arccos(correlation)
    relus = np.sqrt(C[0, 0] * C[1, 1]) * (np.sin(angle) + (np.pi - angle) * correlation) / (2 * np.pi)
    found = tp.derive(network, HEADS).evaluate(X).nngp
    assert found[0, 1] == pytest.approx((C[0, 0] * C[1, 1] + 2 * C[0, 1] ** 2) * relus, rel=1e-6)
    # E x⁶/2 of the norm of relu(x) x²
    assert tp.derive(beside, HEADS).evaluate(X).nngp[0, 0] == pytest.approx(C[0, 0] * 15 * C[0, 0] ** 3 / 2, rel=1e-6)


def test_functions_of_sums_of_members_that_share_an_image_of_the_input():
    """tanh of Σ x tanh(Q x)/√|head|, which is x t: it had been refused, as if it grew with the number of members."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
        x = inputs(U, ξ)
        return v * tp.tanh(tp.sum(x * tp.tanh(Q @ x), over="head") / root())

    found = np.diag(tp.derive(network, HEADS).evaluate(X).nngp)
    for c, value in zip(np.diag(C), found, strict=True):
        variance = c * (WEIGHTS @ np.tanh(np.sqrt(c) * NODES) ** 2)
        products = np.sqrt(variance) * NODES[:, None] * NODES
        assert value == pytest.approx(WEIGHTS @ np.tanh(products) ** 2 @ WEIGHTS, rel=1e-6)
        # that of a Gaussian sum
        assert value != pytest.approx(WEIGHTS @ np.tanh(np.sqrt(variance) * NODES) ** 2, rel=0.05)


def test_members_beside_functions_of_their_sum():
    """E tanh(g)² t², g and t the Gaussian sums of Q x and of tanh(Q x): they are correlated."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
        images = Q @ inputs(U, ξ)
        g, t = (tp.sum(f, over="head") / root() for f in (images, tp.tanh(images)))
        return v * tp.tanh(g) * t

    found = tp.derive(network, HEADS).evaluate(X).nngp
    # given that (g, t) is Gaussian, of a law told by means of z, z tanh z and tanh² z at N(0, C)
    sides = []
    for i in (0, 1):
        z = np.sqrt(C[i, i]) * NODES
        sides.append([WEIGHTS @ (z * np.tanh(z)), WEIGHTS @ np.tanh(z) ** 2])
    low = np.linalg.cholesky(np.array([[C[0, 0], sides[0][0]], [sides[0][0], sides[0][1]]]))
    g = low[0, 0] * NODES[:, None] + 0 * NODES
    t = low[1, 0] * NODES[:, None] + low[1, 1] * NODES
    expected = float(WEIGHTS @ (np.tanh(g) ** 2 * t**2) @ WEIGHTS)
    assert found[0, 0] == pytest.approx(expected, rel=1e-6)
    apart = float(WEIGHTS @ np.tanh(np.sqrt(C[0, 0]) * NODES) ** 2) * sides[0][1]
    assert found[0, 0] != pytest.approx(apart, rel=0.1)


def test_scalars_of_members_are_their_mean():
    """|head| stood in the numbers, and a table asked for its places."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
        x = inputs(U, ξ)
        images = Q @ x
        return v * x * tp.sqrt(tp.mean(tp.avg(images * images), over="head"))

    expected = C * np.sqrt(np.outer(np.diag(C), np.diag(C)))
    np.testing.assert_allclose(tp.derive(network, HEADS).evaluate(X).nngp, expected, rtol=1e-9)


def test_lower_orders_in_the_number_of_members_are_refused():
    """√|head| ⟨R Σ Q x/√|head| | R Σ relu(Q x)/|head|⟩ is E z relu z: it had been 0, what the bracket tends to."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], R: tp.Matrix, v: tp.Vector):
        x = inputs(U, ξ)
        images = Q @ x
        g, m = R @ (tp.sum(images, over="head") / root()), R @ tp.mean(tp.relu(images), over="head")
        return v * x * (root() * tp.avg(g * m))

    with pytest.raises(tp.NoLimitError, match=r"lower orders in 1/\|head\| are not derived"):
        tp.derive(network, HEADS)

    @tp.network
    def vectors(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
        mean = tp.mean(Q @ inputs(U, ξ), over="head")
        return v * tp.tanh(root() * mean)

    np.testing.assert_allclose(
        tp.derive(vectors, HEADS).evaluate(X).nngp, tp.derive(inline, HEADS).evaluate(X).nngp, rtol=1e-12
    )


def test_sums_of_random_scalars_stay_random():
    @tp.network
    def network(
        ξ: tp.Input["d"],
        U: tp.Vector["d"],
        Q: tp.Matrix["n", "n", "head"],
        P: tp.Matrix["n", "n", "head"],
        v: tp.Vector,
    ):
        x = inputs(U, ξ)
        logits = tp.sqrt(tp.n) * tp.avg((Q @ x) * (P @ x))
        return v * x * tp.tanh(tp.sum(logits, over="head") / root())

    with pytest.raises(tp.NoLimitError, match="whose sum stays random"):
        tp.derive(network, HEADS)


def networks_of_many(draws, width, heads, seed):
    """K and Θ of v·log(1 + s²/|head|), s = Σ Q x, at finite width: gradients by hand."""
    rng = np.random.default_rng(seed)
    K, Θ = np.zeros((draws, 2, 2)), np.zeros((draws, 2, 2))
    for draw in range(draws):
        U, v = rng.standard_normal((width, 2)), rng.standard_normal(width)
        Q = rng.standard_normal((heads, width, width)) / np.sqrt(width)
        x = U @ X.T / np.sqrt(2)
        mean = Q.sum(0) / np.sqrt(heads)
        s = mean @ x
        y, slope = np.log1p(s**2), 2 * s / (1 + s**2)
        back = v[:, None] * slope
        K[draw] = y.T @ y / width
        # of each of the matrices, heads times 1/heads, of U, and of v
        inner = mean.T @ back
        Θ[draw] = K[draw] + (back.T @ back / width) * (x.T @ x / width) + (inner.T @ inner / width) * C
    return K, Θ


def test_a_function_of_a_sum_by_its_name_at_finite_width():
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
        total = tp.sum(Q @ inputs(U, ξ), over="head")
        return v * tp.log(1 + total**2 / tp.size("head"))

    found = tp.derive(network, HEADS).evaluate(X)
    K, Θ = networks_of_many(draws=40, width=400, heads=4, seed=0)
    for limit, drawn in ((found.nngp, K), (found.ntk, Θ)):
        error = drawn.std(0) / np.sqrt(len(drawn))
        assert np.all(np.abs(drawn.mean(0) - limit) < 4.5 * error + 3e-3)
        assert np.any(np.abs(drawn.mean(0) - 1.15 * limit) > 4.5 * error + 3e-3)


def test_a_sum_of_functions_beside_each_of_its_members():
    """Σ_h h_h/√H · Σ_g tanh(h_g)/√H is a product of Gaussians, E A A′ B B′ by Isserlis; E h tanh h′ = C E sech²."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head"], v: tp.Vector):
        h = Q @ inputs(U, ξ)
        total = tp.sum(tp.tanh(h), over="head") / root()
        return v * tp.sum(h * total, over="head") / root()

    nngp = tp.derive(network, HEADS).evaluate(X).nngp[0, 1]
    squares = pair_mean(np.tanh, np.tanh)
    slope = [float(WEIGHTS @ (1 - np.tanh(np.sqrt(c) * NODES) ** 2)) for c in np.diag(C)]
    own, across = C[0, 0] * slope[0] * C[1, 1] * slope[1], C[0, 1] ** 2 * slope[0] * slope[1]
    assert nngp == pytest.approx(C[0, 1] * squares + own + across, rel=1e-6)
    assert nngp != pytest.approx(C[0, 1] * squares, rel=1e-1)


def test_two_infinite_axes_in_one_product_are_refused():
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix["n", "n", "head", "expert"], v: tp.Vector):
        inner = tp.sum(tp.tanh(Q @ inputs(U, ξ)), over="head") / root()
        return v * tp.sum(inner, over="expert") / root("expert")

    with pytest.raises(tp.NoLimitError, match="sums over two different infinite axes"):
        tp.derive(network, tp.Kernels(infinite=("head", "expert")))
