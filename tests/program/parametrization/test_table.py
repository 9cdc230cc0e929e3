"""Tables adjusted to optimizers."""

from __future__ import annotations

import pytest
from sympy import S, Symbol

import tplimits as tp
from tplimits.program.parametrization.script import Multiplier, Script


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


def test_numbers_for_a_script_are_powers_of_widths():
    """Deviations by the width itself, factors on rates and on ε relative to the width where these were tuned."""
    rows = [Multiplier("U", "vector", S.Zero, S.One, None), Multiplier("W", "matrix", -S.Half, -S.One, S(-3) / 2)]
    found = Script(tuple(rows)).at(512, base=32)
    assert found["U"] == {"std": 1.0, "lr": 16.0}
    assert found["W"] == pytest.approx({"std": 512**-0.5, "lr": 1 / 16, "eps": 16**-1.5})
    assert Script(tuple(rows)).at(9)["W"]["lr"] == pytest.approx(1 / 9)
    for row in (
        Multiplier("a", "vector", Symbol("a"), S.Zero, None),
        Multiplier("a", "vector", S.Zero, Symbol("a"), None),
        Multiplier("a", "vector", S.Zero, S.Zero, Symbol("a")),
    ):
        with pytest.raises(tp.ProgramError, match="the exponents have symbols"):
            Script((*rows, row)).at(64)
    for wrong in ({"n": 0}, {"n": 64, "base": -1}, {"n": "wide"}):
        with pytest.raises(tp.ProgramError):
            Script(tuple(rows)).at(**wrong)


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda: tp.MUP.of(3), "`3` is no network"),
        (lambda: tp.MUP.adjusted("net", tp.SGD()), "is no network"),
        (lambda: tp.MUP.kind("hidden"), "give one of the words 'matrix', 'vector', 'scalar', 'readout'"),
        (lambda: tp.MUP.with_names([1]), "give exponents by name"),
        (lambda: tp.MUP.with_names({"W": (1, 2)}), "give the four exponents"),
        (lambda: tp.MUP.substituted(1), "give numbers for symbols"),
        (lambda: tp.Normalized(tp.SGD()).extra_power("layer", tp.MUP.matrix), "give one of the words"),
        (lambda: tp.SGD().coefficients(-1), "t=-1: give a whole number, at least 0"),
    ],
)
def test_what_is_no_table_is_refused(ask, what):
    with pytest.raises(tp.ProgramError, match=what):
        ask()
