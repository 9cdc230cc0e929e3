"""What widening does beside what `tp.classify` counts for the same exponents."""

from __future__ import annotations

import pytest

import tplimits as tp
from tplimits.regimes.classification.widening import Widening


@tp.network
def perceptron(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))


@tp.network
def residual(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    h = x + tp.tanh(W @ x)
    return v * (h + V @ tp.tanh(h))


TABLES = {
    "μP": tp.MUP,
    "NTP": tp.NTP,
    "SP": tp.SP,
    "UP(1/4)": tp.UP("1/4"),
    "slow": tp.ABCD({"input": (0, 0, 1, 1), "hidden": (0, "1/2", 2, 1), "output": (0, 1, 2, 0)}),
    "large start": tp.ABCD({"hidden": (0, "1/4", 1, 1)}, base=tp.MUP),
}


@pytest.mark.parametrize("optimizer", (tp.SGD(), tp.SignSGD()), ids=lambda o: o.name)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("net", (perceptron, residual), ids=lambda net: net.name)
def test_what_grows_and_what_is_learned_is_what_is_counted(net, table, optimizer):
    """Rates that grow with n are part of the table: what is stable there does not grow, and the other way round."""
    regime, found = tp.classify(net, TABLES[table], optimizer).regime, Widening(net, TABLES[table], optimizer)
    assert found.grows == (regime == "unstable")
    if regime == "feature":
        assert found.sentence == f"`{net.name}` can be widened as it is: nothing grows, and features are learned."
    elif regime != "unstable":
        assert found.sentence.endswith("can be widened as it is: nothing grows, and features stay as they start.")
    else:
        assert "cannot be widened as it is: " in found.sentence
    assert bool(found.growing_starts) == (table == "large start")


def test_biases_that_start_small_are_harmless():
    """Drawn like the weights beside them, and natural at order 1."""

    @tp.network
    def biased(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Vector, W: tp.Matrix, v: tp.Vector):
        return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")) + b)

    small = tp.ABCD({"b": (0, "1/2", 0, 1)}, base=tp.MUP)
    assert Widening(biased, small, tp.SGD()).vanishing_starts == {"b": -1 / 2}
    assert Widening(biased, tp.MUP, tp.SGD()).vanishing_starts == {}
