"""bind fixes sizes and constants, and refuses what does not fit."""

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.nodes.bind import resolved
from tplimits.program.nodes.entries import constant_symbol


@tp.program
def scaled(x: tp.Vector["token"], y: tp.Vector["key"], *, γ, τ0=2):
    return tp.mean(γ * x, over="token") + tp.mean(y, over="key") / (τ0 * tp.size("key"))


def test_sizes_and_numbers():
    bound = scaled.bind(token=3, γ=0.5, τ0=1)
    assert dict(bound.sizes) == {"token": 3} and dict(bound.constants) == {}
    assert scaled.constants.keys() == {"γ", "τ0"}, "the program itself does not change"
    x, y = np.ones((3, 1)), np.full((2, 1), 8.0)
    assert bound.bind(key=2).run(n=1, x=x, y=y)["return"] == [0.5 + 8 / 2]


def test_expressions_in_n():
    bound = scaled.bind(token=1, key=1, γ=1 / tp.sqrt(tp.n), τ0=1)
    assert bound.run(n=16, x=np.ones((1, 16)), y=np.zeros((1, 16)))["return"].tolist() == [0.25] * 16


def test_constants_in_terms_of_one_another():
    γ, τ0 = constant_symbol("γ"), constant_symbol("τ0")
    assert scaled.bind(γ=2 * τ0, τ0=3)[2].body == scaled.bind(γ=6, τ0=3)[2].body
    assert scaled.bind(τ0=γ).constants.keys() == {"γ"}
    with pytest.raises(ProgramError, match="γ, τ0 are given in terms of one another"):
        scaled.bind(γ=τ0, τ0=γ)
    assert resolved({γ: τ0 + 1, τ0: sympy.Integer(1)}) == {γ: 2, τ0: 1}


def test_a_renamed_axis_has_the_size_of_the_old_one():
    @tp.program
    def renamed(x: tp.Vector["token"]):
        return tp.avg(x * x.rename(token="key"))

    assert renamed.bind(key=3).size("token") == renamed.bind(token=3).size("key") == 3


@pytest.mark.parametrize("renaming", [{"a": "b", "b": "a"}, {"a": "b", "b": "c"}])
def test_axes_that_trade_names_have_one_size(renaming):
    @tp.program
    def swapped(x: tp.Vector["a", "b"]):
        return x.rename(**renaming)

    bound = swapped.bind(a=2)
    assert {int(bound.size(axis)) for axis in bound.all_axes} == {2}
    with pytest.raises(ProgramError, match=r"bind\(b=3\): the axis `b` already has size 2"):
        bound.bind(b=3)


def test_arrays_fix_sizes():
    @tp.program
    def weighted(x: tp.Vector["token"]):
        w = tp.constant([1, 2, 3], axes="token")
        return tp.mean(w * x, over="token") / tp.size("token")

    assert weighted.size("token") == 3
    assert not weighted[weighted.position("return")].body.has(tp.size("token"))
    with pytest.raises(ProgramError, match="the axis `token` already has size 3"):
        weighted.bind(token=4)


def test_the_size_of_an_axis_is_a_number_once_known():
    assert scaled.bind(key=4)[2].body.has(sympy.Rational(1, 16))


def test_laws_and_scalars_are_bound_too():
    @tp.program
    def inner(x: tp.Vector, s: tp.Scalar, *, γ):
        return γ * s * x

    @tp.program
    def outer(x: tp.Vector, *, γ):
        return inner(x, s=γ)

    assert outer.bind(γ=3)[1].body.has(sympy.Integer(9))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"tokn": 3}, r"bind\(tokn=…\): the axes and constants of `scaled` are token, key, γ, τ0"),
        ({"token": 0}, "an axis needs at least one entry"),
        ({"token": -2}, "an axis needs at least one entry"),
        ({"token": 2.5}, "the size of an axis is a whole number"),
        ({"token": True}, "the size of an axis is a whole number"),
        ({"token": "3"}, "the size of an axis is a whole number"),
        ({"γ": "3"}, "a constant is a finite real number or an expression in tp.n"),
        ({"γ": None}, "a constant is a finite real number"),
        ({"γ": [1, 2]}, "a constant is a finite real number"),
        ({"γ": float("nan")}, r"bind\(γ=nan\): a constant is a finite real number"),
        ({"γ": sympy.oo}, "not finite"),
        ({"γ": sympy.I}, "imaginary unit|complex number"),
        ({"γ": 1j}, r"bind\(γ=1j\): a constant is a finite real number"),
        ({"γ": np.float64("inf")}, "a constant is a finite real number"),
        ({"γ": sympy.Symbol("z")}, "`z` is not a width or constant of `scaled`; use tp.n"),
        ({"γ": sympy.gamma(tp.n)}, "it contains the function gamma"),
        ({"γ": tp.n ** sympy.sqrt(2)}, "widths stand to rational powers"),
        ({"τ0": 0}, r"bind\(τ0=0\): .* its constants are finite real numbers"),
    ],
)
def test_what_cannot_be_bound(values, words):
    with pytest.raises(ProgramError, match=words):
        scaled.bind(**values)


def test_a_size_that_an_index_exceeds_is_refused():
    @tp.program
    def picked(x: tp.Vector["token"]):
        return x.sel(token=5)

    with pytest.raises(
        ProgramError,
        match=r"bind\(token=3\): instruction 2 `return` .*index 5 of the axis `token`, which has 3 entries; make",
    ):
        picked.bind(token=3)

    @tp.program
    def looked_up(x: tp.Vector["token"]):
        return x.take(token=np.array([0, 4]), axes="p")

    assert looked_up.bind(token=5).size("p") == 2
    with pytest.raises(
        ProgramError, match=r"bind\(token=3\): .*index 4 of the axis `token`, which has 3 entries; make"
    ):
        looked_up.bind(token=3)
