"""What widening does beside what `tp.classify` counts for the same exponents."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import tplimits as tp
from tplimits.regimes.classification.report import _nearest
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


def test_the_nearest_table_is_told_by_what_changes():
    """Starts and rates are multiplied by powers of n, and so is the output; what stays is as it is."""
    found = Widening(perceptron, tp.NTP, tp.SGD())
    wanted = tp.ABCD({"W": ("1/2", "1/4", 1, 1), "v": (0, 0, "1/4", "1/2"), "out": "3/4"}, base=tp.NTP)
    told = _nearest(SimpleNamespace(parametrization=tp.NTP, program=found.program, nearest=wanted))
    assert told[1:] == [
        "  U: as it is",
        "  W: initial entries times n^(-1/4)",
        "  v: rate times n^(1/4)",
        "  the output times n^(-1/4)",
    ]
    same = _nearest(SimpleNamespace(parametrization=tp.NTP, program=found.program, nearest=tp.NTP))
    assert len(same) == 4 and all(line.endswith("as it is") for line in same[1:])
    none = _nearest(SimpleNamespace(parametrization=tp.NTP, program=found.program, nearest=None))
    assert none == ["no table of rates and initial entries that learns features was found"]
