"""Wrong arguments of tp functions and methods are told as errors of the program."""

import pytest

import tplimits as tp
from tplimits.errors import ProgramError

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

    with pytest.raises(ProgramError, match=rf"test_signatures\.py, line \d+: .*{words}"):
        tp.program(traced)


def test_names_and_documents_stay():
    assert tp.sum.__name__ == "sum" and tp.relu.__doc__.startswith("x where x > 0")
