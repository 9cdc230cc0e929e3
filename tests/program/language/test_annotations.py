"""What an argument can be."""

import pytest
import sympy

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.language.annotations import Kind, as_kind
from tplimits.program.nodes.laws import ORTHOGONAL, PLACES, Law


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


#: √(1 − 2c φ(c)/(2Φ(c) − 1)) of a standard normal variable within ±2
_SPREAD = 0.8796256610342398


@pytest.mark.parametrize(
    ("make", "law"),
    [
        (lambda: tp.Vector["d"].normal(2, 3), Law(sympy.S(2), sympy.S(3))),
        (lambda: tp.Scalar.normal(std=0), Law(sympy.S(0), sympy.S(0))),
        (lambda: tp.Scalar["d"].uniform(-1, 5), Law(sympy.S(2), sympy.sqrt(3), "uniform")),
        (lambda: tp.Vector.signs(3), Law(sympy.S(0), sympy.S(3), "signs")),
        (lambda: tp.Vector.signs(), Law(sympy.S(0), sympy.S(1), "signs")),
        (lambda: tp.Vector.constant(-4), Law(sympy.S(-4), sympy.S(0))),
        (lambda: tp.Vector.grid(), PLACES),
        (lambda: tp.Matrix["n", "k"].normal(), Law()),
        (lambda: tp.Matrix.normal(0, 1), Law()),
        (lambda: tp.Matrix["n", "k"].uniform(), Law(shape="uniform")),
        (lambda: tp.Matrix.truncated(at=2), Law(shape="truncated", cut=sympy.S(2))),
        (lambda: tp.Matrix.signs(), Law(shape="signs")),
        (lambda: tp.Matrix["k", "k", "head"].orthogonal(), Law(shape=ORTHOGONAL)),
        (lambda: tp.Matrix.orthogonal(), Law(shape=ORTHOGONAL)),
    ],
)
def test_laws_of_entries(make, law):
    assert make().law == law


def test_a_truncated_law_has_the_spread_of_what_lies_within():
    law = tp.Vector["d"].truncated(3, 6).law
    assert (law.mean, law.shape, law.cut) == (0, "truncated", 2)
    assert float(law.std) == pytest.approx(3 * _SPREAD, rel=1e-12)


def test_annotations_print_what_was_written():
    assert repr(tp.Input["token"].of("vocab")) == "tp.Input['token'].of('vocab')"
    assert repr(tp.Vector["d"].uniform(-1, 2)) == "tp.Vector['d'] with entries uniform in [-1, 2]"
    assert repr(tp.Matrix.uniform()) == "tp.Matrix with entries uniform, of variance 1/columns"
    assert tp.Input.of("vocab") == Kind("Input", index_of="vocab")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: tp.Matrix["n", "k"].orthogonal(), "it is not square"),
        (lambda: tp.Matrix["n", "n", "head"].uniform().orthogonal(), "of one law"),
        (lambda: tp.Vector["d"].orthogonal(), "vectors with iid entries are orthogonal in the limit"),
        (lambda: tp.Matrix.orthogonal(1), "of one law"),
        (lambda: tp.Matrix.uniform(-1, 1), "entries of matrices are iid"),
        (lambda: tp.Matrix.uniform(low=-1), "entries of matrices are iid"),
        (lambda: tp.Matrix.uniform(high=1), "entries of matrices are iid"),
        (lambda: tp.Matrix.normal(1), "entries of matrices are iid"),
        (lambda: tp.Matrix.normal(std=2), "entries of matrices are iid"),
        (lambda: tp.Matrix.signs(2), "entries of matrices are iid"),
        (lambda: tp.Matrix.truncated(1, 2), r"of one law: write W: tp\.Matrix\.truncated\(at=2\)"),
        (lambda: tp.Matrix.truncated(at=0), r"truncated\(at=0\); give a positive end"),
        (lambda: tp.Vector.truncated(0, 1), "give a positive standard deviation, and a positive end"),
        (lambda: tp.Vector.truncated(1, 0), "give a positive standard deviation, and a positive end"),
        (lambda: tp.Vector.truncated(-1, 1), "give a positive standard deviation, and a positive end"),
        (lambda: tp.Vector.uniform(1, 1), "give the lower end first"),
        (lambda: tp.Vector.uniform(2, 1), "give the lower end first"),
        (lambda: tp.Vector.signs(0), "give a positive size"),
        (lambda: tp.Vector.normal(std=-1), "a standard deviation is not negative"),
        (lambda: tp.Scalar.grid(), "places of neurons are a vector"),
        (lambda: tp.Vector.normal().uniform(0, 1), "entries have one law"),
        (lambda: tp.Input.normal(), "data are given"),
        (lambda: tp.State.normal(), "laws are those of tp.Vector and tp.Scalar; other arguments are given"),
        (lambda: Kind("Vector").of("vocab"), "only data are indices"),
        (lambda: tp.Input.of("a b"), "an axis is a name in quotes"),
        (lambda: tp.Input.of(3), "an axis is a name in quotes"),
    ],
)
def test_laws_that_entries_cannot_have_are_refused(make, said):
    with pytest.raises(tp.ProgramError, match=said):
        make()
