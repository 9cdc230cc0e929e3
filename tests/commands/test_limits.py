"""Sizes that a program leaves no choice of need no --size; numbers of some of what a program has."""

from __future__ import annotations

import tplimits as tp
from tplimits.cli import main
from tplimits.commands.limits import inferred

STACK = """
import tplimits as tp

@tp.program
def stack(x: tp.Vector, W: tp.Matrix["n", "n", "layer"]):
    for k in range(3):
        x = tp.tanh(W.sel(layer=k) @ x)
    return tp.avg(x * x)
"""


def test_layers_that_are_chosen_one_by_one_are_counted(tmp_path, capsys):
    (tmp_path / "s.py").write_text(STACK, encoding="utf-8")
    assert main(["derive", f"{tmp_path / 's.py'}:stack"]) == 0
    out = capsys.readouterr().out
    assert main(["derive", f"{tmp_path / 's.py'}:stack", "--size", "layer=3"]) == 0
    assert capsys.readouterr().out == out


def test_where_other_sizes_would_do_none_is_taken():
    @tp.program
    def some(x: tp.Vector, W: tp.Matrix["n", "n", "layer"]):
        return tp.avg((W.sel(layer=0) @ x) * (W.sel(layer=2) @ x))  # of four layers, or of five

    @tp.program
    def summed(x: tp.Vector["token"], W: tp.Matrix):
        return tp.avg(x.sel(token=0) * tp.sum(W @ x, over="token"))

    @tp.program
    def both(W: tp.Matrix["n", "n", "layer"], x: tp.Vector):
        y = W.sel(layer=0) @ x
        return tp.avg(y * tp.sum(W @ y, over="layer"))

    @tp.program
    def known(W: tp.Matrix["n", "n", "layer"], x: tp.Vector, b: tp.Vector["layer"]):
        return tp.avg((W.sel(layer=0) @ x + b.sel(layer=1)) * b.sel(layer=0))

    assert inferred(some) == inferred(summed) == inferred(both) == {}
    assert inferred(known) == {"layer": 2}
    assert inferred(known.bind(layer=4)) == {}


DOUBTFUL = """
import tplimits as tp

@tp.program
def zero(W: tp.Matrix, x: tp.Vector):
    h = W @ x
    s = tp.avg(h*tp.tanh(h)) - tp.avg(1 - tp.tanh(h)**2)*tp.avg(h*h)
    return tp.avg(tp.step(s)*h), tp.avg(h*h)
"""


def test_quantities_that_have_a_number_can_be_asked_for_alone(tmp_path, capsys):
    (tmp_path / "z.py").write_text(DOUBTFUL, encoding="utf-8")
    command = ["evaluate", f"{tmp_path / 'z.py'}:zero"]
    assert main(command) == 2
    assert "evaluate(only=('return[1]', 's',))" in capsys.readouterr().err.replace("\n", " ")
    assert main([*command, "--only", "return[1]", "--only", "s"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == ["quantity", "return[1]", "s"]
    assert main([*command, "--only", "z"]) == 2
    assert "the labels are return[0], return[1], s" in capsys.readouterr().err
    assert main([*command, "--particles", "0"]) == 2, "0 is a number that was given"
