"""Tables adjusted to optimizers."""

from __future__ import annotations

import pytest

import tplimits as tp


@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.relu(W @ tp.sum(U * ξ, over="d"))


@pytest.mark.parametrize("wrong", ["adam", {"W": 0.1}, [tp.Adam()]])
def test_what_is_no_optimizer_is_refused(wrong):
    with pytest.raises(tp.EvaluationError, match=r"give an optimizer such as tp\.Adam"):
        tp.MUP.adjusted(net, wrong)


def test_parameters_without_an_optimizer_keep_their_exponents():
    found = tp.MUP.adjusted(net, {"W": tp.Normalized(tp.SGD())})
    alone, all_ = tp.MUP.of(net), tp.MUP.adjusted(net, tp.Normalized(tp.SGD())).of(net)
    assert {name: e == alone[name] for name, e in found.of(net).items()} == {
        "U": True,
        "W": all_["W"] == alone["W"],
        "v": True,
    }
    assert found.of(net)["W"] == all_["W"] and all_["U"] != alone["U"]
    assert all((e.a, e.b, e.d) == (alone[k].a, alone[k].b, alone[k].d) for k, e in all_.items())
