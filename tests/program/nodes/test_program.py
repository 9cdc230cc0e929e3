"""The program object: positions, sizes, the graph."""

import dataclasses
import pickle

import numpy as np
import pytest

import tplimits as tp
from tplimits.errors import ProgramError


@tp.program
def attention(W: tp.Matrix, x: tp.Vector["token"], *, τ=2):
    q, k = W @ x, (W @ x).rename(token="key")
    A = tp.softmax(tp.avg(q * k) / τ, over="key")
    return tp.sum(A * k, over="key")


def test_it_is_a_frozen_sequence_of_instructions():
    assert len(attention) == len(list(attention)) == len(attention.instructions)
    assert attention[0].name == "W" and [attention[p].name for p in attention.arguments] == ["W", "x"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        attention.name = "other"
    assert attention.replace(name="other").name == "other" != attention.name


def test_operands_come_before_their_users():
    for position, instruction in enumerate(attention):
        assert all(operand < position for operand in instruction.operands)
        assert tuple(attention.graph.predecessors(position)) == instruction.operands


def test_axes_and_sizes():
    assert attention.all_axes == ("token", "key")
    assert attention.root_axis("key") == "token" and attention.size("key") is None
    assert attention.bind(key=3).size("token") == 3


def test_where_points_at_the_line():
    place = attention.where(attention.position("A"))
    assert place.startswith("instruction 7 `A` (test_program.py, line ")
    assert 'A = tp.softmax(tp.avg(q * k) / τ, over="key")' in place


def test_equal_programs_are_equal_and_survive_pickling():
    again = pickle.loads(pickle.dumps(attention))
    assert again == attention and hash(again) == hash(attention) and repr(again) == repr(attention)
    assert attention.bind(token=2) != attention
    np.testing.assert_array_equal(
        again.bind(token=2).run(n=3, seed=4)["return"], attention.bind(token=2).run(n=3, seed=4)["return"]
    )


def test_tracing_twice_gives_equal_programs():
    def source(W: tp.Matrix, x: tp.Vector["token"]):
        return tp.sum(tp.softmax(tp.avg(x * (W @ x)), over="token") * tp.tanh(W @ x), over="token")

    one, two = tp.program(source), tp.program(source)
    assert one == two and hash(one) == hash(two)


def test_messages_list_names():
    with pytest.raises(ProgramError, match="`attention` has nothing named `zzz`; its names include"):
        attention.position("zzz")
