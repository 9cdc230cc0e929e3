"""What is proposed as nearest learns features, whatever the network and what is given, or is refused."""

import random
from fractions import Fraction

import pytest
import sympy

import tplimits as tp


@tp.network
def tied(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix):
    return U.sel(d=0) * tp.relu(W @ tp.relu(tp.sum(U * ξ, over="d")))


@tp.network
def skipped(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    h = tp.relu(tp.sum(U * ξ, over="d"))
    return v * h + U.sel(d=0) * tp.tanh(W @ h)


@tp.network
def squares(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix):
    return (W @ tp.sum(U * ξ, over="d")) ** 2 - 1


@tp.network
def biased(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, s: tp.Scalar, v: tp.Vector, c: tp.Scalar):
    h = tp.relu(tp.sum(U * ξ, over="d"))
    return tp.readout(v * (h + s * tp.tanh(W @ h + b))) + c


@tp.network
def rooted(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.relu((W @ tp.relu(tp.sum(U * ξ, over="d"))) * tp.sqrt(tp.n))


@tp.network
def root_attention(ξ: tp.Input["d", "token"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    A = tp.softmax(tp.sqrt(tp.n) * tp.avg((Q @ x) * (K @ x).rename(token="key")), over="key")
    return tp.mean(v * tp.sum(A * x.rename(token="key"), over="key"), over="token")


NETWORKS = (tied, skipped, squares, biased, rooted)
OPTIMIZERS = (
    tp.SGD(),
    tp.SignSGD(),
    tp.Adam(),
    tp.SGD(momentum=0.5),
    tp.Normalized(tp.SGD()),
    tp.Normalized(tp.SGD(), by="weight"),
)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_what_is_proposed_learns_features(network, optimizer):
    rng = random.Random(41)
    given = [tp.SP, tp.NTP, tp.MUP, tp.UP("1/4")]
    for _ in range(3):
        table = {k: tuple(Fraction(rng.randint(-4, 4), 4) for _ in range(4)) for k in ("matrix", "vector", "scalar")}
        table["readout"] = tuple(Fraction(rng.randint(-4, 4), 4) for _ in range(4))
        given.append(tp.ABCD(table | {"out": Fraction(rng.randint(-4, 4), 4)}))
    for parametrization in given:
        near = tp.classify(network, parametrization, optimizer).nearest
        assert tp.classify(network, near, optimizer).regime == "feature", (parametrization, near)
        old, new = parametrization.of(network), near.of(network)
        if network in (biased, rooted):  # a readout in every term
            assert near.a_out == parametrization.a_out
            assert all(old[k].a == new[k].a for k in old)
            assert optimizer.degree is None or all(old[k].d == new[k].d for k in old)


@pytest.mark.parametrize("given", [tp.SP, tp.NTP, tp.UP("1/4")], ids=str)
def test_without_a_readout_a_out_is_that_of_maximal_updates(given):
    found = tp.classify(tied, given, tp.SGD()).nearest
    assert found.a_out == 1
    assert all(found.of(tied)[k].a == e.a for k, e in given.of(tied).items())


@pytest.mark.sampling
@pytest.mark.parametrize("optimizer", OPTIMIZERS[:2], ids=str)
def test_finite_networks_learn_features_in_what_is_proposed(optimizer):
    near = tp.classify(tied, tp.SP, optimizer).nearest
    check = tp.classify(tied, near, optimizer).check(seed=2308, lr=0.1)
    assert check.counted_regime == check.measured_regime == "feature", check


def test_symbols_are_kept_or_replaced():
    near = tp.classify(2, tp.UP(sympy.Symbol("s")), tp.SGD())
    assert tp.classify(near.program, near.nearest, tp.SGD()).regime == "feature"


def test_no_proposal_where_maximal_updates_break():
    attention = root_attention.bind(token=3)
    found = tp.classify(attention, tp.NTP, tp.SignSGD())
    with pytest.raises(tp.NoLimitError, match=r"μP itself is unstable \(what A is a function of moves like n\^\(1/2\)"):
        _ = found.nearest
