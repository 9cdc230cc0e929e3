"""The state of one tracing: places, numbers, axes."""

import os
import threading
from fractions import Fraction

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.language import tracing
from tplimits.program.language.tracing import Trace, active, exact, fail, user_line
from tplimits.program.nodes.stated import IndexTable


@pytest.fixture
def trace():
    with Trace("p").recording() as recording:
        yield recording


def test_exact_numbers():
    assert exact(0.1) == sympy.Rational(0.1) and exact(np.float32(0.5)) == sympy.Rational(1, 2)
    assert exact(np.int8(-3)) == -3 and exact(Fraction(2, 6)) == sympy.Rational(1, 3) and exact(True) == 1
    assert exact(np.longdouble(0.25)) == sympy.Rational(1, 4) and exact(10**30) == 10**30
    for odd in ("1", None, [1]):
        with pytest.raises(TypeError, match="is not a number"):
            exact(odd)
    for odd in (float("nan"), float("inf"), 1j, np.complex64(1)):
        with pytest.raises(ProgramError):
            exact(odd)


def test_places_are_lines_of_the_user():
    line = user_line()
    assert (line.file, line.text) == ("test_tracing.py", "line = user_line()")
    with pytest.raises(ProgramError, match=r'^test_tracing\.py, line \d+: `fail\("x", "y"\)`: x; y\.$'):
        fail("x", "y")


def test_lines_of_the_zoo_are_lines_of_a_user(monkeypatch):
    assert os.path.join("tplimits", "zoo") in tracing._ZOO
    source = "from tplimits.program.language.tracing import user_line\nplace = user_line()"
    for folder, file in ((tracing._ZOO, "example.py"), (tracing._PACKAGE, None)):
        space = {}
        exec(compile(source, folder + "example.py", "exec"), space)
        assert (space["place"].file == "example.py") == (file is not None)


def test_tracing_in_threads_does_not_mix():
    results = {}

    def work(number):
        @tp.program
        def own(x: tp.Vector):
            for _ in range(20):
                x = tp.tanh(number * x)
            return x

        results[number] = len(own)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(1, 5), 21) and active() is None


def test_sizes_follow_links(trace):
    for axis in "abcd":
        trace.declare(axis)
    trace.link("b", "a")
    trace.set_size("b", 3)
    trace.link("c", "b")
    trace.set_size("d", 3)
    trace.link("d", "c")
    trace.link("a", "d")
    assert {int(trace.size(axis)) for axis in "abcd"} == {3}
    with pytest.raises(ProgramError, match="the axis `a` with 4 entries, but it has 3 elsewhere"):
        trace.set_size("a", 4)
    assert set(trace.sizes) == {trace.root("a")}


def test_axes_are_ordered_by_declaration(trace):
    for axis in "zya":
        trace.declare(axis)
    assert trace.ordered(["a", "z"]) == ("z", "a")


def test_equal_tables_have_one_number(trace):
    numbers = [trace.add_table(IndexTable(np.array(v), ("a",))) for v in ([0, 1], [1, 0], [0, 1])]
    assert numbers == [0, 1, 0]


def test_constants_of_a_trace(trace):
    trace.constants["γ"] = None
    assert trace.constant(np.bool_(True)) == 1
    assert trace.constant(sympy.Float(0.5)) == sympy.Rational(1, 2)
    with pytest.raises(ProgramError, match="the symbol `δ`, which is not a constant of this program"):
        trace.constant(sympy.Symbol("δ", real=True))
    with pytest.raises(ProgramError, match="a bare array"):
        trace.constant([1])
    with pytest.raises(ProgramError, match="a value of type object"):
        trace.constant(object())


CALLS = {
    "sum": (lambda x: tp.sum(x), r"tp\.sum: missing a required argument: 'over'; call it as tp\.sum\(value, over\)"),
    "sum over 3": (
        lambda x: tp.sum(x, over=3),
        "tp.sum with 3 for the names of axes; axes have names in quotes",
    ),
    "sum over None": (lambda x: tp.mean(x, over=None), "tp.mean with None for the names of axes"),
    "softmax twice": (lambda x: tp.softmax(x, over=("t", "t")), "with the axes .*name each axis once"),
    "constant": (lambda x: tp.constant([1, 2], axes=3), "tp.constant with 3 for the names of axes"),
    "take": (lambda x: x.take(t=[0]), r"\.take: missing a required argument: 'axes'"),
    "take 3": (lambda x: x.take(t=[0, 1], axes=3), r"take\(\) with 3 for the names of axes"),
    "take ragged": (lambda x: x.take(t=[[0], [1, 2]], axes="s"), "indices that are no array .*rows of equal length"),
    "take twice": (lambda x: x.take(t=[[0, 1], [1, 0]], axes=("s", "s")), "name each axis once"),
    "sel": (lambda x: x.sel(0), r"\.sel: too many positional arguments; call it as \.sel\(\*\*selection\)"),
    "rename": (lambda x: x.rename("a"), r"\.rename: too many positional arguments"),
    "named": (lambda x: x.named(), r"\.named: missing a required argument: 'name'"),
    "clip": (
        lambda x: tp.clip(x),
        r"tp\.clip: missing a required argument: 'low'; call it as",
    ),
    "neuron": (lambda x: tp.neuron(), r"tp\.neuron: missing a required argument"),
    "avg": (lambda x: tp.avg(x, axis=0), r"tp\.avg: got an unexpected keyword argument 'axis'"),
    "tanh": (lambda x: tp.tanh(x=x), r"tp\.tanh: got an unexpected keyword argument"),
    "elementwise": (lambda x: tp.elementwise(lambda u: u)(x, v=2), r"tp\.elementwise\(…\): got an unexpected keyword"),
    "size": (lambda x: tp.size(), r"tp\.size: missing a required argument"),
}


@pytest.mark.parametrize("call", CALLS)
def test_wrong_arguments(call):
    function, words = CALLS[call]

    def traced(x: tp.Vector["t"]):
        return function(x)

    with pytest.raises(ProgramError, match=rf"test_tracing\.py, line \d+: .*{words}"):
        tp.program(traced)


def test_names_and_documents_stay():
    assert tp.sum.__name__ == "sum" and tp.relu.__doc__.startswith("x where x > 0")
