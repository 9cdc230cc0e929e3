"""From recorded values to instructions: what becomes one, what is written out."""

import functools

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.program.nodes.entries import Entry
from tplimits.program.nodes.kinds import Avg, InitialScalar, MatMul, OuterNonlin, ScalarNonlin


def kinds(program):
    return [type(s).__name__ for s in program]


def test_maps_without_names_are_written_into_their_users():
    @tp.program
    def inlined(W: tp.Matrix, x: tp.Vector):
        return W @ tp.tanh(1 + tp.relu(2 * x))

    assert kinds(inlined) == ["InitialMatrix", "InitialVector", "OuterNonlin", "MatMul"]


def test_maps_with_names_are_instructions():
    @tp.program
    def named(x: tp.Vector):
        a = tp.relu(2 * x)
        b = tp.tanh(1 + a)
        return b

    assert kinds(named) == ["InitialVector", "OuterNonlin", "OuterNonlin"] and named[2].operands == (1,)


def test_selections_and_renamings_are_indices_of_operands():
    @tp.program
    def selected(W: tp.Matrix, x: tp.Vector["token"]):
        return W @ x.sel(token=1), tp.avg(x.rename(token="key"))

    assert kinds(selected) == ["InitialMatrix", "InitialVector", "MatMul", "Avg"]
    assert selected[2].operand.indices == (1,) and selected[3].operand.indices[0].name == "key"


def test_unused_named_values_are_kept_unused_anonymous_ones_dropped():
    @tp.program
    def unused(W: tp.Matrix, x: tp.Vector, s: tp.Scalar):
        z = W @ x
        tp.tanh(z)
        W.T @ z
        return tp.avg(x)

    assert kinds(unused) == ["InitialMatrix", "InitialVector", "InitialScalar", "MatMul", "Avg"]
    assert isinstance(unused[2], InitialScalar) and unused.position("z") == 3


def test_a_vector_of_equal_entries_can_be_multiplied_and_averaged():
    @tp.program
    def constant(W: tp.Matrix, x: tp.Vector, b: tp.Scalar):
        ones = 0 * x + 1
        return W @ (b * ones), tp.avg(b * ones), W @ (0 * x + 2)

    b, W = 3.0, np.arange(4.0).reshape(2, 2)
    ran = constant.run(n=2, W=W, b=b)
    np.testing.assert_allclose(ran["return[0]"], b * W.sum(axis=1))
    assert ran["return[1]"] == 3
    np.testing.assert_allclose(ran["return[2]"], 2 * W.sum(axis=1))


def test_y_equals_x_is_x():
    @tp.program
    def same(x: tp.Vector["a"]):
        y = 1 * x
        z = x.rename(a="b").rename(b="a")
        return tp.avg(y * z)

    assert same.position("y") == same.position("z") == 0


def test_a_constant_program():
    @tp.program
    def constant(x: tp.Vector):
        return x - x, tp.avg(x) * 0

    assert kinds(constant)[1:2] == ["OuterNonlin"] and constant[1].body == 0
    assert isinstance(constant[constant.returns[1]], ScalarNonlin)
    assert constant.run(n=2)["return[0]"].tolist() == [0, 0]


def test_shared_parts_of_different_results_are_computed_once():
    @tp.program
    def shared(W: tp.Matrix, x: tp.Vector):
        return tp.tanh(W @ x), tp.relu(W @ x), tp.avg(tp.tanh(W @ x))

    assert sum(isinstance(s, MatMul) for s in shared) == 1
    assert isinstance(shared[-1], Avg) and shared[-1].operand.source == shared.returns[0]


def test_the_same_slot_averaged_twice_in_one_sum_is_one_slot():
    @tp.program
    def linear(u: tp.Vector, v: tp.Vector):
        β, γ = tp.neuron("β"), tp.neuron("γ")
        inner = tp.avg(tp.tanh(u * v[β] * v[γ]), over=γ)
        return tp.avg(v[β] * inner + inner, over=β)

    (nonlin,) = [s for s in linear if isinstance(s, OuterNonlin)]
    assert len(nonlin.slots) == 2


def test_long_maps_are_split_where_they_are_still_short():
    def act(h, _):
        return tp.tanh(h) + tp.cos(h) * h / 2

    @tp.program
    def long(x: tp.Vector):
        return functools.reduce(act, range(30), x)

    assert max(s.body.count_ops() for s in long if isinstance(s, OuterNonlin)) < 10_000
    h = np.array([0.3, -0.4])
    for _ in range(30):
        h = np.tanh(h) + np.cos(h) * h / 2
    np.testing.assert_allclose(long.run(n=2, x=[0.3, -0.4])["return"], h, rtol=1e-9)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_bodies_read_earlier_instructions_only(count):
    @tp.program
    def chained(x: tp.Vector):
        for _ in range(count):
            x = tp.sin(x) + tp.avg(x)
        return x

    for position, s in enumerate(chained):
        if isinstance(s, OuterNonlin):
            assert all(e.source < position for e in s.body.atoms(Entry))
    assert isinstance(chained[-1].body, sympy.Expr)
