"""What an argument can be."""

import pytest
import sympy

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.language.annotations import Kind, as_kind
from tplimits.program.nodes.laws import Law


def test_plain_and_indexed_annotations():
    assert as_kind(tp.Vector) == Kind("Vector") and as_kind(tp.Vector["token"]) == Kind("Vector", ("token",))
    assert as_kind(tp.Matrix["k", "k", "head"]) == Kind("Matrix", ("k", "k", "head"))
    assert as_kind(tp.Scalar["d", "e"]).names == ("d", "e")
    assert as_kind(int) is None and as_kind("Vector") is None
    assert repr(tp.Matrix["k", "n"]) == "tp.Matrix['k', 'n']" and repr(as_kind(tp.Scalar)) == "tp.Scalar"


def test_laws():
    assert tp.init().law == Law(0, 1)
    assert tp.init(mean=0.5, std=tp.sqrt(2)).law == Law(sympy.Rational(1, 2), sympy.sqrt(2))
    assert tp.init(std=1 / tp.sqrt(tp.n)).law.std == 1 / sympy.sqrt(tp.n)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tp.Vector[3], r"tp\.Vector\[3\]; axes and widths are names in quotes"),
        (lambda: tp.Vector["a b"], "axes and widths are names in quotes"),
        (lambda: tp.Vector["a", "a"], r"tp\.Vector\[a, a\]; a finite axis stands only once"),
        (lambda: tp.Matrix["k", "n", "a", "a"], "a finite axis stands only once"),
        (lambda: tp.Matrix["k", "n", "k"], "a finite axis stands only once"),
        (lambda: tp.Vector("token"), r'tp\.Vector\(…\); tp\.Vector annotates an argument: `x: tp\.Vector\["token"\]`'),
        (lambda: tp.init(std=-1), r"tp\.init\(std=-1\); a standard deviation is not negative"),
        (lambda: tp.init(std="1"), r"tp\.init\(std='1'\): str is not a number; give a finite real number"),
        (lambda: tp.init(mean=float("nan")), "the constant nan"),
        (lambda: tp.init(mean=sympy.I), r"tp\.init\(mean=I\): the complex number I"),
        (lambda: tp.init(mean=None), r"tp\.init\(mean=None\): NoneType is not a number"),
        (lambda: tp.init(mean=[1, 2]), "list is not a number"),
    ],
)
def test_ill_formed_annotations(make, words):
    with pytest.raises(ProgramError, match=r"test_annotations\.py, line \d+: .*" + words):
        make()


def test_a_law_with_a_foreign_symbol_is_refused_where_it_is_used():
    law = tp.init(std=sympy.Symbol("s", positive=True))
    with pytest.raises(ProgramError, match="the symbol `s`, which is not a constant of this program"):

        @tp.program
        def foreign(x: tp.Vector = law):
            return x


@pytest.mark.parametrize("default", ["1", [1, 2], sympy.oo, float("inf"), 1j])
def test_defaults_are_finite_real_numbers(default):
    with pytest.raises(ProgramError):

        @tp.program
        def vector(x: tp.Vector = default):
            return x

    with pytest.raises(ProgramError):

        @tp.program
        def scalar(x: tp.Vector, s: tp.Scalar = default):
            return s * x

    with pytest.raises(ProgramError):

        @tp.program
        def constant(x: tp.Vector, *, γ=default):
            return γ * x


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: tp.Matrix["n", "k"].orthogonal(), "it is not square"),
        (lambda: tp.Matrix["n", "n", "head"].uniform().orthogonal(), "of one law"),
        (lambda: tp.Vector["d"].orthogonal(), "vectors with iid entries are orthogonal in the limit"),
        (lambda: tp.Matrix.uniform(-1, 1), "entries of matrices are iid"),
        (lambda: tp.Input.normal(), "data are given"),
    ],
)
def test_laws_that_entries_cannot_have_are_refused(make, said):
    with pytest.raises(tp.ProgramError, match=said):
        make()
