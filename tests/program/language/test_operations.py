"""Finite axes, constants and widths as functions of `tp`."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.language import operations
from tplimits.program.nodes.kinds import OuterNonlin, ScalarNonlin


def test_sum_mean_softmax_over_one_axis_or_several():
    @tp.program
    def reductions(s: tp.Scalar["a", "b", "c"]):
        return (
            tp.sum(s, over="b"),
            tp.mean(s, over=("c", "a")),
            tp.softmax(s, over="a"),
            tp.softmax(s, over=("a", "b")),
            tp.sum(tp.sum(s, over="a"), over="b"),
        )

    s = np.random.default_rng(0).normal(size=(2, 3, 4))
    ran = reductions.run(n=1, s=s)
    e = np.exp(s)
    expected = [s.sum(1), s.mean((0, 2)), e / e.sum(0), e / e.sum((0, 1)), s.sum((0, 1))]
    for i, value in enumerate(expected):
        np.testing.assert_allclose(ran[f"return[{i}]"], value, atol=1e-14)


def test_constants_of_any_numeric_type_and_dimension():
    @tp.program
    def constants(x: tp.Vector):
        a = tp.constant(np.array([[True, False], [False, True]]), axes=("i", "j"))
        b = tp.constant(range(2), axes="i")
        c = tp.constant(np.float32(0.5))
        return tp.sum(a * b, over="i") * c * x, tp.constant(np.arange(4, dtype=np.int8).reshape(2, 2), axes=("j", "i"))

    ran = constants.run(n=1, x=[4.0])
    np.testing.assert_allclose(ran["return[0]"], [[0], [2]])
    np.testing.assert_allclose(ran["return[1]"], np.arange(4).reshape(2, 2).T, err_msg="axes in order of declaration")


def test_equal_constant_arrays_are_one():
    @tp.program
    def same(x: tp.Vector["a"]):
        return x * tp.constant([1, 2], axes="a") + tp.constant(np.array([1.0, 2.0]), axes="a")

    assert len(same.arrays) == 1


def test_a_constant_array_does_not_follow_its_source():
    data = np.array([1.0, 2.0])

    @tp.program
    def held(x: tp.Vector):
        return x * tp.constant(data, axes="a")

    data[0] = 100
    assert held.run(n=1, x=[1.0])["return"].ravel().tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        held.arrays[0].values[0] = 5


def test_entries_of_constant_arrays_are_no_numbers_to_sympy():
    @tp.program
    def entries(x: tp.Vector):
        c = tp.constant([2.0, -3.0], axes="a")
        return (
            tp.relu(c.sel(a=0) * c.sel(a=1))
            + tp.maximum(c.sel(a=0), c.sel(a=1))
            + abs(c.sel(a=1)) ** c.sel(a=0)
            + 0 * x
        )

    assert entries.run(n=1)["return"] == [2 + 9]


def test_sizes_and_widths_as_symbols():
    @tp.program
    def scaled(x: tp.Vector["token"], y: tp.Vector["k"], U: tp.Matrix["k", "n"]):
        return tp.size("token") * tp.avg(x) + tp.avg(y) / tp.width("k") + tp.sqrt(tp.n)

    ran = scaled.run(n=4, ratios={"k": 2}, x=np.ones((3, 4)), y=np.full(8, 16))
    np.testing.assert_allclose(ran["return"], 3 + 2 + 2)


def test_a_shaped_activation_and_a_fluctuation():
    @tp.program
    def shaped(q: tp.Vector, k: tp.Vector, *, c):
        return tp.avg(q * k) * tp.sqrt(tp.n), (1 + c / tp.sqrt(tp.n)) * tp.relu(q)

    assert [type(shaped[p]) for p in shaped.returns] == [ScalarNonlin, OuterNonlin]
    ran = shaped.run(n=4, q=[1, -1, 2, 0], k=[1, 1, 1, 1], c=3)
    assert ran["return[0]"] == 1 and ran["return[1]"].tolist() == [2.5, 0, 5, 0]


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda x: tp.constant([1, np.nan], axes="a"), "NaN or infinite entries; constants must be finite numbers"),
        (lambda x: tp.constant([1, np.inf], axes="a"), "NaN or infinite entries"),
        (lambda x: tp.constant([1j, 1], axes="a"), "tp.constant of a complex array; programs are real"),
        (lambda x: tp.constant(["a", "b"], axes="a"), "tp.constant of an array of <U1; give an array of numbers"),
        (lambda x: tp.constant([x, x], axes="a"), "a traced value used as a"),
        (lambda x: tp.constant([[1], [1, 2]], axes="a"), "tp.constant of something that is no array"),
        (lambda x: tp.constant(None), "tp.constant of an array of object"),
        (
            lambda x: tp.constant([[1, 2]], axes="a"),
            r"an array with 2 dimensions and axes \('a',\); give one name for each",
        ),
        (lambda x: tp.constant([[1, 2]], axes=("a", "a")), "all different"),
        (lambda x: tp.constant([1, 2]), r"an array with 1 dimensions and axes \(\)"),
        (
            lambda x: tp.constant(np.zeros((2, 0)), axes=("a", "b")),
            "the axis `b` of size 0; an axis needs at least one",
        ),
        (lambda x: tp.constant([1, 2], axes="n"), "`n` used as a finite axis; `n` is a width"),
        (lambda x: tp.constant([1, 2], axes="2a"), "the axis name '2a'; an axis name is a Python identifier"),
        (lambda x: x * tp.size("key"), r"tp\.size\('key'\); the finite axes so far are \(token\)"),
        (lambda x: x * tp.width("k"), r"tp\.width\('k'\); the widths of this program are \(n\)"),
        (lambda x: tp.softmax(3, over="token"), "tp.softmax of a value of type int; it takes a value of the program"),
    ],
)
def test_what_cannot_be_made(use, words):
    with pytest.raises(ProgramError, match=words):

        @tp.program
        def ill(x: tp.Vector["token"]):
            return use(x)


def test_constants_outside_a_program():
    with pytest.raises(ProgramError, match="outside a program; use it inside a function decorated with"):
        tp.constant([1, 2], axes="a")


def test_everything_public_is_a_function_of_tp_with_a_sentence():
    for name in operations.__all__:
        assert getattr(tp, name) is getattr(operations, name)
        if name != "n":
            assert getattr(operations, name).__doc__.strip()
