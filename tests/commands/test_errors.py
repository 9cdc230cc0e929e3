"""What a message means, found by its words: read from the source, so that nothing can be out of date."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

import tplimits as tp
from tplimits.cli import main
from tplimits.commands.catalogue import KINDS, matching, refusals
from tplimits.errors import ELSEWHERE

PACKAGE = pathlib.Path(tp.__file__).parent


def test_every_kind_of_error_is_there_with_what_it_is_about():
    assert set(KINDS) == {"ProgramError", "NoLimitError", "EvaluationError", "CheckError"}
    assert {r.kind for r in refusals()} == set(KINDS)


def test_nearly_every_raise_has_its_message():
    raised = 0
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "raise " in text and any(f"{kind}(" in text for kind in KINDS):
            calls = (n.exc for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Raise))
            raised += sum(
                isinstance(c, ast.Call) and isinstance(c.func, ast.Name) and c.func.id in KINDS for c in calls
            )
    assert len(refusals()) > 0.85 * raised > 500


def provoked():
    @tp.program
    def tied(W: tp.Matrix, x: tp.Vector):
        return tp.avg(x * (W.T @ tp.tanh(W @ x)))

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.tanh(tp.sum(U * ξ, over="d"))

    yield lambda: tp.derive(net)
    yield lambda: tp.program(lambda x: tp.tanh(x))
    yield lambda: tp.derive(net, tp.Kernels()).evaluate([[float("nan")]])
    yield lambda: tp.check(tp.derive(tied), widths=(64,))
    yield lambda: tp.derive(tied).evaluate(method="guess")
    yield lambda: tp.derive(net, tp.NeuralTangent("adam"))
    yield lambda: tp.load_recording("pyproject.toml")


@pytest.mark.parametrize("provoke", list(provoked()))
def test_a_message_that_a_user_sees_is_found_whole(provoke):
    with pytest.raises(tp.TplimitsError) as caught:
        provoke()
    found = matching(str(caught.value))
    assert found and any(r.kind == type(caught.value).__name__ for r in found)


def test_names_that_people_look_for_are_answered_with_what_does_it():
    for name, does in ELSEWHERE.items():
        with pytest.raises(AttributeError, match="what does it: ") as caught:
            getattr(tp, name)
        assert does in str(caught.value) and not hasattr(tp, name)
        for named in re.findall(r"tp\.(\w+(?:\.\w+)?)", does):
            outer, _, inner = named.partition(".")
            assert hasattr(getattr(tp, outer), inner or "__doc__"), named
    assert not hasattr(tp, "nothing_like_it")


def test_data_behind_a_matrix_are_told_how_they_come_in():
    with pytest.raises(tp.ProgramError, match=r'U: tp\.Vector\["d"\] and write tp\.sum\(U \* x, over="d"\)'):

        @tp.network
        def net(x: tp.Input["d"], W: tp.Matrix, v: tp.Vector):
            return v * tp.tanh(W @ x)


def test_the_command_line_finds_words(capsys):
    assert main(["errors", "pole"]) == 0
    assert "NoLimitError: " in capsys.readouterr().out
    assert main(["errors", "no", "such", "wrds"]) == 2
    assert "no message has" in capsys.readouterr().err
