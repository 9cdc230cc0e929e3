"""Outputs that are 0 at every width, centred or by the two sides of a matrix; no others are taken for them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.errors import NoLimitError
from tplimits.program.network import cancelling
from tplimits.program.network.cancelling import refuse_output_that_cancels, sums_to_zero
from tplimits.program.nodes import functions
from tplimits.program.nodes.evaluate import evaluate
from tplimits.zoo.networks.shared_weights import conv1d_pool


def network(head):
    """What is read out as a function of h = W relu(Uξ) and U."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix):
        return head(W @ tp.relu(tp.sum(U * ξ, over="d")), U.sel(d=0))

    return net


def centred(x):
    return x - tp.avg(x)


CANCEL = [
    lambda h, u: centred(h),
    lambda h, u: 2 * tp.avg(u * u) * centred(h) - tp.avg(centred(h)),
    lambda h, u: centred(h) / tp.sqrt(tp.avg(centred(h) ** 2) + 0.1),
    lambda h, u: centred(centred(h * u) + u),
    lambda h, u: u * tp.avg(h) - h * tp.avg(u),
    lambda h, u: (h - tp.avg(h)) * (1 + tp.exp(tp.avg(u))),
]
STAY = [
    lambda h, u: h,
    lambda h, u: h * centred(h),
    lambda h, u: tp.tanh(centred(h)),
    lambda h, u: u * centred(h),
    lambda h, u: h - tp.avg(u),
    lambda h, u: u * tp.avg(h) - h * tp.avg(u) + tp.avg(h) ** 2,
]


def largest_output(net):
    """The sum that is read out, in units of what is summed, over three draws."""
    rng = np.random.default_rng(3)
    found = []
    for _ in range(3):
        U, W = rng.normal(size=(2, 7)), rng.normal(size=(7, 7))
        x = net.run(n=7, ξ=rng.normal(size=2), U=U, W=W)["return"]
        found.append(abs(x.sum()) / abs(x).sum())
    return max(found)


def sides(head, columns="n", rows="n"):
    """What is read out as a function of x = Σ Uξ on `columns`, y = relu(Σ Vξ) on `rows`, and W between them."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector[columns, "d"], V: tp.Vector[rows, "d"], W: tp.Matrix[rows, columns]):
        return head(tp.sum(U * ξ, over="d"), tp.relu(tp.sum(V * ξ, over="d")), W)

    return net


SIDES_CANCEL = [
    lambda x, y, W: (W.T @ tp.tanh(W @ x)) * x - (W @ x) * tp.tanh(W @ x),
    lambda x, y, W: 3 * x * (W.T @ (2 * y - x)) - (W @ (6 * x)) * y + 3 * x * (W @ x),
    lambda x, y, W: (W.T @ (y * tp.avg(x * x))) * x - y * (W @ x) * tp.avg(x * x),
    lambda x, y, W: y * (W @ (x + tp.tanh(y)) - W @ x - W @ tp.tanh(y)),
    lambda x, y, W: tp.avg(y * (W.T @ x)) * tp.exp(x) - tp.avg(x * (W @ y)) * tp.exp(x),
    lambda x, y, W: (W.T @ (W @ x)) * x - (W @ x) ** 2,
    # two images in one product, chains of them, and what functions of entries cancel
    lambda x, y, W: (W.T @ (y * (W @ y))) * x - (W.T @ (y * (W @ x))) * y,
    lambda x, y, W: (W.T @ (W.T @ y)) * x - y * (W @ (W @ x)),
    lambda x, y, W: (W.T @ (W @ y)) * x - y * (W.T @ (W @ x)),
    lambda x, y, W: y * (tp.sin(W @ x) ** 2 + tp.cos(W @ x) ** 2 - 1),
    lambda x, y, W: y * (tp.relu(W @ x) - tp.relu(-(W @ x)) - W @ x),
    lambda x, y, W: y * (tp.sigmoid(W @ x) - tp.tanh(W @ x / 2) / 2 - 0.5),
    lambda x, y, W: y * (tp.relu(W @ (2 * x)) - 2 * tp.relu(W @ x)),
    lambda x, y, W: x * (tp.exp(tp.avg((W.T @ y) * x)) - tp.exp(tp.avg(y * (W @ x)))),
]
SIDES_STAY = [
    lambda x, y, W: (W.T @ tp.tanh(W @ x)) * x - (W @ x) * tp.sin(W @ x),
    lambda x, y, W: (W.T @ y) * x - y * (W.T @ x),
    lambda x, y, W: (W.T @ y) * x + y * (W @ x),
    lambda x, y, W: tp.tanh(W.T @ y) * x - tp.tanh(y * (W @ x)),
    lambda x, y, W: (W @ (W @ x)) * x - (W @ x) ** 2,
    lambda x, y, W: (W.T @ (W.T @ y)) * x - y * (W.T @ (W @ x)),
    lambda x, y, W: y * (tp.relu(W @ x) - tp.relu(-(W @ x)) - tp.abs(W @ x)),
    lambda x, y, W: y * (tp.relu(W @ (2 * x + y)) - 2 * tp.relu(W @ x)),
]
#: what is zero, or small next to everything on the way, at all parameters of order 1
SMALL = [
    lambda x, y, W: tp.relu(W @ x - 50),
    lambda x, y, W: y * tp.exp(-200 - x**2),
    lambda x, y, W: y * tp.exp(-20 * (1 + x**2) * (40 + y)),
    lambda x, y, W: 1e-20 * y * (W @ x),
]


def largest_of_sides(net, n=7, k=None):
    rng = np.random.default_rng(5)
    k = k or n
    U, V, W = rng.normal(size=(2, k)), rng.normal(size=(2, n)), rng.normal(size=(n, k))
    given = {"n": n} | ({"ratios": {"k": k / n}} if k != n else {})
    x = net.run(**given, ξ=rng.normal(size=2), U=U, V=V, W=W)["return"]
    return abs(x.sum()) / (1 + abs(x).sum())


@pytest.mark.parametrize("head", SIDES_CANCEL)
def test_two_sides_of_one_matrix_cancel(head):
    net = sides(head)
    assert largest_of_sides(net) < 1e-12
    with pytest.raises(NoLimitError, match="the output is 0 whatever"):
        tp.classify(net, tp.NTP, tp.SGD())


@pytest.mark.parametrize("head", SIDES_STAY)
def test_other_sums_of_two_sides_stay(head):
    net = sides(head)
    assert largest_of_sides(net) > 1e-3
    refuse_output_that_cancels(net)


@pytest.mark.parametrize("head", SMALL)
def test_what_is_small_is_not_zero(head):
    net = sides(head)
    assert largest_of_sides(net) < 1e-12
    refuse_output_that_cancels(net)


@pytest.mark.parametrize("head", cancelling._POSITIVE[2:], ids=lambda head: head.__name__)
def test_functions_of_what_is_positive_are_positive(head):
    rng = np.random.default_rng(11)
    known = {x: rng.uniform(0.1, 30, 50) for x in sympy.symbols("x y")}
    arguments = [*known, *known][: 2 if issubclass(head, functions._Extreme) else 1]
    slope = [sympy.Rational(1, 10)] if head is functions.leaky_relu else []
    assert (evaluate(head(*arguments, *slope), known) > 0).all()


@pytest.mark.parametrize(
    ("head", "runs"),
    [
        (lambda x, y, W: y * tp.erf(W @ x) * (1 + tp.avg(x) ** 2) / tp.sqrt(0.1 + tp.avg(y * (W @ x))), False),
        (lambda x, y, W: y * tp.erf(W @ (2 - x)), True),
        (lambda x, y, W: y * tp.cos(W @ x), True),
        (lambda x, y, W: x * tp.avg(y - tp.erf(y)), True),
        (lambda x, y, W: W @ x, False),
    ],
)
def test_where_nothing_subtracts_nothing_is_run(head, runs, monkeypatch):
    ran = []
    monkeypatch.setattr(cancelling, "_is_rounding", lambda program: bool(ran.append(program)))
    refuse_output_that_cancels(sides(head))
    assert bool(ran) == runs


def test_an_index_that_has_no_entry_is_zero():
    conv = conv1d_pool
    outside = conv.replace(tables=tuple(replace(t, values=np.full_like(t.values, -1)) for t in conv.tables))
    assert [sums_to_zero(net, net.returns[0]) for net in (conv, outside)] == [False, True]


def test_parameters_that_start_at_zero_are_not_zero():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector = 0, c: tp.Scalar = 0):
        return c * v * tp.sum(U * ξ, over="d")

    refuse_output_that_cancels(net)


def tokens(head):
    """What is read out as a function of x = tanh(Σ Uξ) with a token axis, and of W."""

    @tp.network
    def net(ξ: tp.Input["t", "d"], U: tp.Vector["d"], W: tp.Matrix):
        return head(tp.tanh(tp.sum(U * ξ, over="d")), W)

    return net


def others(x):
    return tp.sum(x.rename(t="s"), over="s")


@pytest.mark.parametrize(
    ("head", "cancels"),
    [
        (lambda x, W: tp.mean(centred(x), over="t"), True),
        (lambda x, W: tp.sum(centred(x * others(x)), over="t"), True),
        (lambda x, W: tp.sum(x * (W.T @ (W @ others(x))) - (W @ x) * (W @ others(x)), over="t"), True),
        (lambda x, W: tp.sum(x * x - tp.avg(x * others(x)), over="t"), False),
        (lambda x, W: tp.sum(x * tp.avg(x) - tp.avg(others(x) * x), over="t"), False),
        (lambda x, W: tp.sum(x * tp.avg(others(x)) - tp.avg(x) * others(x), over="t"), True),
    ],
)
def test_sums_over_tokens(head, cancels):
    net = tokens(head)
    rng = np.random.default_rng(7)
    x = net.run(n=7, ξ=rng.normal(size=(3, 2)), U=rng.normal(size=(2, 7)), W=rng.normal(size=(7, 7)))["return"]
    if cancels:
        assert abs(x.sum()) < 1e-12
        with pytest.raises(NoLimitError, match="the output is 0 whatever"):
            refuse_output_that_cancels(net)
    else:
        assert abs(x.sum()) > 1e-3
        refuse_output_that_cancels(net)


@pytest.mark.parametrize(("weight", "cancels"), [(tp.width("k") / tp.n, True), (1, False)], ids=["k/n", "1"])
def test_sums_over_two_widths_cancel_with_their_ratio(weight, cancels):
    def head(x, y, W):
        return y * (W @ x - weight * tp.avg((W.T @ y) * x) / tp.avg(y * y) * y)

    net = sides(head, columns="k")
    assert (largest_of_sides(net, 9, 6) < 1e-12) == cancels
    if cancels:
        with pytest.raises(NoLimitError, match="the output is 0 whatever"):
            refuse_output_that_cancels(net)
    else:
        refuse_output_that_cancels(net)


@pytest.mark.parametrize("head", CANCEL)
def test_outputs_that_cancel_are_refused_and_are_zero(head):
    net = network(head)
    assert largest_output(net) < 1e-13
    with pytest.raises(NoLimitError, match="the output is 0 whatever"):
        refuse_output_that_cancels(net)


@pytest.mark.parametrize("head", STAY)
def test_other_outputs_are_taken_and_are_not_zero(head):
    net = network(head)
    assert largest_output(net) > 1e-3
    refuse_output_that_cancels(net)


@pytest.mark.parametrize("parametrization", [tp.NTP, tp.MUP, tp.SP], ids=repr)
def test_no_regime_is_named_for_an_output_that_is_zero(parametrization):
    with pytest.raises(NoLimitError, match="Multiply what is read out by a vector"):
        tp.classify(network(CANCEL[0]), parametrization, tp.SGD())


def test_a_random_sign_is_no_zero_whatever_the_order_of_arguments():
    """step of a centred scalar is 0 in half of the networks, in all of a few by chance."""
    arguments = ('ξ: tp.Input["d"]', 'U: tp.Vector["d"]', "a: tp.Vector", "b: tp.Vector", "v: tp.Vector")
    for order in itertools.permutations(arguments):
        source = f"""
@tp.network
def network({", ".join(order)}):
    return v * tp.sum(U * ξ, over="d") * tp.step(-tp.avg(a * b))
"""
        found = {"tp": tp}
        exec(source, found)
        refuse_output_that_cancels(found["network"])
