"""Networks: what they hold, what runs, and what is none."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.program.network.parameters import parameters
from tplimits.program.nodes.spec import verify


@tp.network
def shifted(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, b: tp.Scalar, a: tp.Scalar = 2):
    return tp.readout(v * tp.relu(W @ tp.sum(U * ξ, over="d"))) + 0.1 * b + a


@tp.network
def plain(ξ: tp.Input["d"], U: tp.Vector["d"]):
    return tp.sum(U * ξ, over="d")


def test_a_network_knows_its_data_its_parameters_and_its_output():
    assert shifted.is_network and [shifted[p].name for p in shifted.inputs] == ["ξ"]
    assert parameters(shifted) == ("U", "W", "v", "b", "a")
    assert [shifted[p].name for p in shifted.returns] == ["return", "shift"]
    assert [plain[p].name for p in plain.returns] == ["return"]
    verify(shifted)


def test_a_readout_is_the_vector_itself_and_adds_scalars_in_any_order():
    @tp.network
    def reversed_sum(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Scalar, c: tp.Scalar):
        return b + (tp.readout(tp.sum(U * ξ, over="d")) + c)

    @tp.network
    def readout(ξ: tp.Input["d"], U: tp.Vector["d"]):
        return tp.readout(tp.sum(U * ξ, over="d"))

    given = {"ξ": [1.0, 2.0], "U": [[1.0], [10.0]]}
    found = reversed_sum.run(n=1, b=3, c=4, **given)
    assert found["return"].tolist() == [21.0] and found["shift"] == 7.0
    assert readout.instructions == plain.instructions


def test_data_is_given_and_parameters_are_drawn():
    data = [1.0, 2.0, 3.0]
    first, again, other = (shifted.run(n=8, seed=s, ξ=data) for s in (0, 0, 1))
    assert (first["return"] == again["return"]).all() and first["b"] == again["b"] != other["b"]
    assert first["a"] == 2 and first["shift"] == pytest.approx(0.1 * first["b"] + 2)
    assert first["U"].shape == (3, 8)
    draws = [shifted.run(n=1, seed=s, ξ=data)["b"] for s in range(400)]
    assert abs(np.mean(draws)) < 4 / 20 and abs(np.var(draws) - 1) < 4 * np.sqrt(2 / 400)
    with pytest.raises(tp.EvaluationError, match="the input `ξ` has no value: give ξ="):
        shifted.run(n=8, d=3)


def test_files():
    text = tp.to_json(shifted)
    assert tp.from_json(text) == shifted and tp.from_json(text).inputs == shifted.inputs
    assert "ξ" in repr(shifted) and shifted.bind(d=3).is_network


def test_what_is_no_network():
    def readout_of_a_scalar(ξ: tp.Input["d"], U: tp.Vector["d"]):
        return tp.readout(tp.avg(tp.sum(U * ξ, over="d")))

    def readout_of_a_number(ξ: tp.Input["d"], U: tp.Vector["d"]):
        return tp.readout(3)

    def readout_of_a_matrix(ξ: tp.Input["d"], W: tp.Matrix):
        return tp.readout(W)

    def scalar(ξ: tp.Input["d"], U: tp.Vector["d"]):
        return tp.avg(tp.sum(U * ξ, over="d"))

    def pair(ξ: tp.Input["d"], U: tp.Vector["d"]):
        return U, U

    def no_data(U: tp.Vector["d"]):
        return U

    def with_default(U: tp.Vector["d"], ξ: tp.Input["d"] = 1):
        return U * ξ

    def calls_a_network(ξ: tp.Input["d"], U: tp.Vector["d"]):
        return plain(ξ, U)

    def plus_a_vector(ξ: tp.Input["d"], U: tp.Vector["d"]):
        return tp.readout(tp.sum(U * ξ, over="d")) + U

    def plus_a_number(ξ: tp.Input["d"], U: tp.Vector["d"]):
        return tp.readout(tp.sum(U * ξ, over="d")) + 1

    def plus_a_readout(ξ: tp.Input["d"], U: tp.Vector["d"]):
        return tp.readout(U * ξ) + tp.readout(U)

    def times(ξ: tp.Input["d"], U: tp.Vector["d"]):
        return 2 * tp.readout(U * ξ)

    def function_of(ξ: tp.Input["d"], U: tp.Vector["d"]):
        return tp.maximum(U * ξ, tp.readout(U * ξ))

    def minus(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Scalar):
        return b - tp.readout(U * ξ)

    def wide_data(ξ: tp.Input["n"], U: tp.Vector, W: tp.Matrix):
        return U * ξ

    def with_a_state(ξ: tp.Input["d"], x: tp.State):
        return x

    for function, message in (
        (readout_of_a_scalar, r"tp\.readout of a scalar; a network reads out a vector: tp\.readout\(v \* x\)"),
        (readout_of_a_number, r"tp\.readout of a value of type int; a network reads out a vector"),
        (readout_of_a_matrix, r"tp\.readout of a value of type MatrixValue; a network reads out a vector"),
        (scalar, "returns a scalar; a network returns the vector whose entries are summed, without tp.avg"),
        (pair, "returns 2 values; a network returns one vector"),
        (no_data, r"takes no data; annotate an argument tp\.Input"),
        (with_default, "a default for the input `ξ`; data is given to .run and .evaluate"),
        (calls_a_network, "the network `plain` called inside a program; call its layers"),
        (plus_a_vector, "a readout plus a vector over `n` .*; add a scalar parameter"),
        (plus_a_number, "a readout plus a value of type int; add a scalar parameter"),
        (plus_a_readout, r"the sum of two readouts; add the vectors: tp\.readout\(x \+ y\)"),
        (times, r"arithmetic with a readout; only scalars are added to it; multiply the vector"),
        (function_of, r"tp\.maximum of a readout; read out the result: tp\.readout"),
        (minus, r"arithmetic with a readout; only scalars are added to it"),
        (wide_data, "the data `ξ` over the width `n`; data has finite axes only"),
        (with_a_state, r"takes a tp\.State; decorate it by @tp\.block"),
    ):
        with pytest.raises(tp.ProgramError, match=message):
            tp.network(function)


def test_data_is_for_networks():
    def takes_data(ξ: tp.Input["d"], U: tp.Vector["d"]):
        return tp.sum(U * ξ, over="d")

    def takes_both(x: tp.State["d"], ξ: tp.Input["d"]):
        return x * ξ

    with pytest.raises(tp.ProgramError, match=r"takes a tp\.Input; decorate it by @tp\.network"):
        tp.program(takes_data)
    with pytest.raises(tp.ProgramError, match=r"takes a tp\.Input; that is for @tp\.network"):
        tp.block(takes_both)
    with pytest.raises(tp.ProgramError, match="called outside a program"):
        plain([1.0])
