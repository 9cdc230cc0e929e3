"""Print-outs carry the traced function's own names."""

import ctypes
import sys

import pytest

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.language.names import LocalNames


def printed(program):
    return [s.name for s in program]


def test_local_names():
    @tp.program
    def tied(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        z = W.T @ tp.tanh(h)
        return tp.avg(x * z)

    assert printed(tied) == ["W", "x", "h", "_4", "z", "_6", "return"]
    assert tied.position("z") == 4


def test_rebinding_counts_and_the_plain_name_is_the_last():
    @tp.program
    def deep(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        h = W @ tp.tanh(h)
        h = W @ tp.tanh(h)
        return h

    assert [n for n in printed(deep) if n.startswith("h")] == ["h", "h#2", "h#3"]
    first, second, third = (deep.position(n) for n in ("h#1", "h#2", "h#3"))
    assert first < second < third
    assert deep.position("h") == third == deep.position("return")


def test_loops():
    @tp.program
    def deep(W: tp.Matrix, x: tp.Vector):
        for _ in range(3):
            x = tp.tanh(W @ x)
        return x

    assert printed(deep) == ["W", "x", "_3", "x#2", "_5", "x#3", "_7", "x#4"]
    assert deep.position("x") == 7


def test_a_name_bound_to_an_earlier_value_again_means_that_value():
    @tp.program
    def back(x: tp.Vector):
        a, b = tp.tanh(x), tp.exp(x)
        h = a
        h = b
        h = a
        return h

    assert back.position("h") == back.position("a")
    assert back.position("h#2") == back.position("b")


def test_two_names_for_one_value():
    @tp.program
    def alias(x: tp.Vector):
        y = tp.tanh(x)
        z = y
        return z

    assert printed(alias) == ["x", "y"]
    assert alias.position("z") == alias.position("y") == alias.position("return")


def test_members_of_lists_are_named_by_their_place():
    @tp.program
    def listed(W: tp.Matrix, x: tp.Vector):
        hs = [W @ x, W.T @ x]
        return hs[0] + hs[1]

    assert printed(listed)[2:4] == ["hs[0]", "hs[1]"]


def test_lists_that_grow_and_members_of_dicts_and_nested_lists():
    @tp.program
    def grown(W: tp.Matrix, x: tp.Vector):
        hs = [x]
        for _ in range(2):
            hs.append(W @ tp.tanh(hs[-1]))
        parts = {"left": tp.exp(x), 3: tp.sin(x), "a=b": tp.cos(x)}
        nested = [[tp.relu(x)], (tp.erf(x), 1)]
        hs[0] = tp.sqrt(x * x + 1)
        return hs[0] + hs[2] + parts["left"] + parts[3] + parts["a=b"] + nested[0][0] + nested[1][0]

    wanted = {"hs[1]", "hs[2]", "parts[left]", "parts[3]", "nested[0][0]", "nested[1][0]"}
    assert wanted <= set(printed(grown)) and grown.position("x") == 1


def test_a_list_that_holds_itself():
    @tp.program
    def circular(x: tp.Vector):
        held = [tp.tanh(x)]
        held.append(held)
        return held[1][1][0]

    assert printed(circular) == ["x", "held[0]"]


def test_code_without_source():
    space = {"tp": tp}
    exec("def f(W: tp.Matrix, x: tp.Vector):\n    h = W @ x\n    h = tp.relu(h)\n    return tp.avg(h)", space)
    traced = tp.program(space["f"])
    assert printed(traced) == ["W", "x", "h", "h#2", "return"]
    assert "<string>, line 2" in traced.where(2)


def test_names_inside_helper_functions_do_not_count():
    def helper(W, x):
        inner = W @ x
        return tp.tanh(inner)

    @tp.program
    def outer(W: tp.Matrix, x: tp.Vector):
        h = helper(W, x)
        return W @ h

    assert printed(outer) == ["W", "x", "_3", "h", "return"]


def test_a_comprehension():
    @tp.program
    def listed(W: tp.Matrix, x: tp.Vector):
        return sum([W @ (c * x) for c in (1, 2)])

    assert len(listed) == 6


def test_named_overrides():
    @tp.program
    def mlp(W: tp.Matrix, x: tp.Vector):
        for i in range(1, 3):
            h = (W @ x).named(f"h^{i}")
            x = tp.tanh(h)
        return x

    assert printed(mlp) == ["W", "x", "h^1", "x#2", "h^2", "x#3"]
    assert mlp.position("h") == mlp.position("h^2")


def test_named_argument_can_be_given_under_both_names():
    @tp.program
    def named(x: tp.Vector):
        x.named("ξ")
        return 2 * x

    assert printed(named)[0] == "ξ"
    assert named.run(n=1, x=[3.0])["return"] == named.run(n=1, ξ=[3.0])["return"] == 6

    @tp.program
    def rebound(x: tp.Vector):
        x.named("ξ")
        x = 2 * x
        return x

    @tp.program
    def outer(y: tp.Vector):
        return rebound(x=y) + rebound(ξ=y)

    assert rebound.run(n=1, x=[3.0])["return"] == 6 and outer.run(n=1, y=[3.0])["return"] == 12


def test_named_wins_over_a_local_of_that_name():
    @tp.program
    def clash(x: tp.Vector):
        h = tp.tanh(x)
        z = tp.exp(x).named("h")
        return tp.avg(h * z)

    assert clash.position("h") == clash.position("z")
    assert printed(clash) == ["x", "_2", "h", "_4", "return"]


def test_named_twice_is_refused():
    with pytest.raises(ProgramError, match=r"two values named 'h'; names given by \.named must differ"):

        @tp.program
        def twice(x: tp.Vector):
            return tp.tanh(x).named("h") + tp.exp(x).named("h")


def test_named_like_an_argument_is_refused():
    with pytest.raises(ProgramError, match=r"takes the name of an argument; choose another name"):

        @tp.program
        def stolen(W: tp.Matrix, x: tp.Vector):
            return (W @ x).named("x")


@pytest.mark.parametrize("name", ["return", "return[0]", "⟨x|x⟩", "a|b", "x[token=0]", "A[token=0,key=1]", " h", "h "])
def test_named_refuses_what_reads_as_something_else(name):
    with pytest.raises(ProgramError, match=r"\.named\(.*; choose a name without ⟨ \| ⟩ and without blanks around it"):

        @tp.program
        def reserved(x: tp.Vector):
            return tp.tanh(x).named(name)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x1b[2J", 3])
def test_named_needs_a_printable_string(name):
    with pytest.raises(ProgramError, match="give a non-empty string of printable characters"):

        @tp.program
        def unprintable(x: tp.Vector):
            return tp.tanh(x).named(name)


def test_an_anonymous_name_gives_way_to_a_local_of_that_name():
    @tp.program
    def underscores(W: tp.Matrix, x: tp.Vector):
        _5 = W @ x
        return tp.avg(x * (W @ tp.tanh(_5)))

    assert printed(underscores) == ["W", "x", "_5", "_4", "__5", "_6", "return"]


def test_returned_values():
    @tp.program
    def pair(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        return h, tp.avg(x)

    assert pair.position("return[0]") == pair.position("h")
    assert printed(pair)[-1] == "return[1]"
    assert pair.returns_tuple

    @tp.program
    def single(x: tp.Vector):
        return tp.avg(x)

    assert single.position("return") == single.returns[0]


@pytest.mark.parametrize("installs_itself", [False, True])
def test_a_debugger_or_coverage_tool_keeps_watching(installs_itself):
    events = []
    in_c = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, ctypes.c_int, ctypes.c_void_p)(lambda *_: 0)

    def watch(frame, event, arg):
        events.append((frame.f_code.co_name, event))
        if installs_itself and event == "call":
            ctypes.pythonapi.PyEval_SetTrace(in_c, ctypes.py_object(watch))  # as coverage does, for speed
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:

        @tp.program
        def watched(x: tp.Vector):
            h = tp.tanh(x)
            z = tp.relu(h)
            return z

        assert sys.gettrace() is watch
    finally:
        sys.settrace(before)
    assert [event for name, event in events if name == "watched"] == ["call", *["line"] * 3, "return"]
    assert {"h", "z"} <= set(watched.names)


def test_unknown_names_list_near_ones():
    @tp.program
    def mlp(W: tp.Matrix, x: tp.Vector):
        hidden = W @ x
        return tp.avg(hidden)

    with pytest.raises(ProgramError, match="`mlp` has nothing named `hiden`; its names include hidden"):
        mlp.position("hiden")


def test_names_are_those_of_the_first_call_of_a_function_that_calls_itself():
    def descends(k):
        doubled = 2 * k
        return descends(k - 1) if k else doubled

    bound = []
    with LocalNames(descends.__code__, lambda name, value: bound.append((name, value))):
        assert descends(3) == 0
        descends(5)
    assert bound == [("doubled", 6)]
