"""Powers of n are counted where second moments are finite: of values, of gradients, and of what exponentials become."""

import numpy as np
import pytest

import tplimits as tp


def network_of(g):
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, y: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * g(x, W @ x, y, W)

    return tp.network(network)


#: with the mean square of what has no second moment: of values, or of gradients
INFINITE = {
    "1/x": lambda x, h, y, W: 1 / x,
    "1/y": lambda x, h, y, W: x / y,
    "exp(y²)": lambda x, h, y, W: x * tp.exp(y * y),
    "exp|x|³": lambda x, h, y, W: tp.exp(tp.abs(x) ** 3),
    "tan": lambda x, h, y, W: tp.sin(h) / tp.cos(h),
    # sinh(x)/(1 + sinh(x)): exponentials fade, and not where 1 + sinh(x) vanishes
    "sinh": lambda x, h, y, W: (tp.exp(x) - tp.exp(-x)) / (2 + tp.exp(x) - tp.exp(-x)),
    "gelu": lambda x, h, y, W: tp.tanh(W @ (tp.gelu(x) / (tp.gelu(x) - 1))),
    "beside an independent factor": lambda x, h, y, W: tp.exp(x**4) * tp.relu(y),
    "root": lambda x, h, y, W: tp.sqrt(h),
    "inside an image": lambda x, h, y, W: tp.tanh(W @ (1 / x)),
    "inside an average": lambda x, h, y, W: y * tp.tanh(tp.avg(tp.exp(x**4))),
    "tp.expect": lambda x, h, y, W: y * tp.expect(lambda g: tp.exp(g * g)),
    "gradient of a root": lambda x, h, y, W: tp.sqrt(tp.abs(h)),
    "gradient of a power": lambda x, h, y, W: tp.abs(h) ** 0.4,
    "gradient of a logarithm": lambda x, h, y, W: tp.log(tp.abs(h)),
}


@pytest.mark.parametrize("table", [tp.MUP, tp.NTP], ids=lambda p: p.name)
@pytest.mark.parametrize("case", INFINITE)
def test_what_has_no_second_moment_is_refused_by_the_words_of_all_engines(case, table):
    network = network_of(INFINITE[case])
    with pytest.raises(tp.NoLimitError, match=r"no finite (second moment|mean)") as refused:
        tp.classify(network, table, tp.SGD())
    with pytest.raises(tp.NoLimitError) as elsewhere:
        tp.derive(network, tp.MaximalUpdate(tp.SGD()))
    assert str(elsewhere.value) == str(refused.value)


@pytest.mark.parametrize("table", [tp.MUP, tp.NTP], ids=lambda p: p.name)
def test_moments_are_asked_of_the_program_as_it_was_traced(table):
    """tanh(t)/t is written out where it is read, so that no gradient of the name tanh(t) has a pole at t = 0."""

    def named(x, h, y, W):
        t = tp.gelu(x) - 1
        a = tp.tanh(t)
        return a / t * tp.tanh(W @ a)

    network = network_of(named)
    assert tp.classify(network, table, tp.SGD()).regime == {"NTP": "operator", "MUP": "feature"}[table.name]
    # a/t² has a pole in any words
    infinite = network_of(lambda x, h, y, W: named(x, h, y, W) / (tp.gelu(x) - 1))
    assert tp.classify(infinite, table, tp.SGD()).at_start.doubts == ("moment of return",)


@pytest.mark.parametrize("named", [True, False], ids=["named", "written"])
def test_jumps_are_asked_of_no_name(named):
    """z = sign(s³) with s → 0 has no limit, and (z y)² = y² has one: derive() says so in both words."""

    def squared(x, h, y, W):
        s = tp.avg(x * y)
        z = tp.sign(s**3)
        return h * (z * y) ** 2 if named else h * (tp.sign(s**3) * y) ** 2

    network = network_of(squared)
    assert tp.derive(network, tp.MaximalUpdate(tp.SGD()))
    found = tp.classify(network, tp.MUP, tp.SGD())
    assert (found.regime, found.at_start.failing) == ("feature", "")
    # the sign itself is told to have none, in any words
    alone = network_of(lambda x, h, y, W: squared(x, h, y, W) + x * tp.sign(tp.avg(x * y) ** 3))
    assert "lands on a jump of `sign`" in tp.classify(alone, tp.MUP, tp.SGD()).at_start.failing


def test_parameters_at_rest_have_no_gradients_that_moments_are_asked_of():
    rest = dict.fromkeys(("U", "W", "y"), tp.Frozen()) | {"v": tp.SGD()}
    network = network_of(INFINITE["gradient of a power"])
    assert tp.classify(network, tp.NTP, rest).regime == "operator"
    # ∫ |h|^(2p − 2) dh is finite for p > ½
    assert tp.classify(network_of(lambda x, h, y, W: tp.abs(h) ** 0.6), tp.NTP, tp.SGD()).regime == "operator"


def test_exponentials_that_move_by_gradients_lose_their_moments():
    """f = Σ v exp(u) with u, v in μP: a step of gradient descent grows with the width, one of its sign does not."""
    network = network_of(lambda x, h, y, W: tp.exp(x))
    with pytest.raises(tp.NoLimitError, match=r"features move.*an exponential of an exponential has no mean"):
        tp.classify(network, tp.MUP, tp.SGD())
    assert tp.classify(network, tp.MUP, tp.SignSGD()).regime == "feature"
    assert tp.classify(network, tp.NTP, tp.SGD()).regime == "operator"
    assert tp.classify(network, tp.MUP, {n: tp.Frozen() for n in "UWy"} | {"v": tp.SGD()}).regime == "operator"
    rng = np.random.default_rng(11)
    u, v = rng.standard_normal((2, 200, 4096))

    def change(n, update):
        """The root mean square of exp(u) after a step, over that before."""
        # n times the gradient v exp(u)/n of μP
        x, g = u[:, :n], v[:, :n] * np.exp(u[:, :n])
        before, after = (np.mean(np.exp(2 * np.minimum(z, 300))) for z in (x, x + 0.1 * update(g)))
        return np.sqrt(after / before)

    by_gradient, by_sign = ([change(n, q) for n in (64, 4096)] for q in (lambda g: g, np.sign))
    assert by_gradient[1] > 1e3 * by_gradient[0] and max(by_sign) < np.exp(0.1)


@pytest.mark.long
def test_a_logarithm_is_small_where_its_argument_is_near_one():
    """log(1 + s²) of a scalar that is 0 but for fluctuations is of order 1/n: f, a sum with √n of it, does not move."""

    @tp.network
    def disguised(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
        y = V.T @ tp.sum(U * ξ, over="d")
        h = W @ y
        s = tp.avg(y * (W.T @ tp.tanh(h))) - tp.avg(1 - tp.tanh(h) ** 2) * tp.avg(y**2)
        return v * h * tp.log(1 + s**2)

    for network, regime in ((disguised, "trivial"), (network_of(lambda x, h, y, W: tp.log(1 + h**2)), "operator")):
        assert tp.classify(network, tp.NTP, tp.SGD()).regime == regime
    found = tp.classify(disguised, tp.NTP, tp.SGD()).check((32, 64, 128, 256), seed=1)
    start = next(row for row in found.rows if row.t == 0 and row.name == "f")
    assert start.counted == -1 and abs(start.measured + 1) < 2 * start.error < 1


def deep(layers, φ):
    """A perceptron of many layers, whose matrices are members of one family."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "layer"], v: tp.Vector):
        h = φ(tp.sum(U * ξ, over="d"))
        for layer in range(layers):
            h = φ(W.sel(layer=layer) @ h)
        return v * h

    return net.bind(layer=layers)


@pytest.mark.parametrize("layers", [2, 14])
def test_moments_of_gradients_are_asked_for_at_any_depth(layers):
    """E |x|^(−1) of the slope of √|x| is infinite; exponentials are moved by themselves; a logarithm is not."""
    with pytest.raises(tp.NoLimitError, match="no finite second moment"):
        tp.classify(deep(layers, lambda x: tp.sqrt(tp.abs(x))), tp.NTP, tp.SGD())
    with pytest.raises(tp.NoLimitError, match="features move"):
        tp.classify(deep(layers, lambda x: tp.exp(x / 4)), tp.MUP, tp.SGD())
    assert tp.classify(deep(layers, lambda x: tp.log(0.1 + x * x)), tp.NTP, tp.SGD()).regime == "operator"
