"""Symbolic constants, widths and sizes are no conditions and no numbers while a program is traced."""

import copy
import math
import pickle

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.language.quantities import Quantity
from tplimits.program.nodes.entries import N, constant_symbol

CONDITION, EQUAL, NUMBER = "used as a condition", "`==` or `!=`", "used as a number"

USES = {
    "if": (lambda c: 1 if c else 2, CONDITION),
    "not": (lambda c: not c, CONDITION),
    "and": (lambda c: c and 2, CONDITION),
    "or": (lambda c: c or 2, CONDITION),
    "any": (lambda c: any([c]), CONDITION),
    "an expression": (lambda c: 1 if 2 * c - 1 else 2, CONDITION),
    "a function": (lambda c: 1 if tp.tanh(c) else 2, CONDITION),
    "a mean": (lambda c: 1 if tp.expect(lambda g: g * g * c) else 2, CONDITION),
    "equal": (lambda c: 1 if c == 0 else 2, EQUAL),
    "different": (lambda c: 1 if c != 0 else 2, EQUAL),
    "equal on the right": (lambda c: 1 if 0 == c else 2, EQUAL),  # noqa: SIM300
    "member": (lambda c: 1 if c in (1, 2) else 2, EQUAL),
    "equal to a NumPy number": (lambda c: 1 if np.float64(0) == c else 2, "np.equal of `.*tp.where"),
    "range": (lambda c: range(c), NUMBER),
    "int": (lambda c: int(c), NUMBER),
    "float": (lambda c: float(c), NUMBER),
    "complex": (lambda c: complex(c), NUMBER),
    "round": (lambda c: round(c), NUMBER),
    "index": (lambda c: [1, 2][c], NUMBER),
    "math.sqrt": (lambda c: math.sqrt(c), "math.sqrt of `.*use tp.sqrt"),
    "np.tanh": (lambda c: np.tanh(c), "np.tanh of `.*use tp.tanh"),
    "np.concatenate": (lambda c: np.mean(c), r"use tp\.avg\(x\)|plain Python number"),
    "an array": (lambda c: np.array([1.0, 2.0]) * c, "a bare array; name its axes"),
    "format": (lambda c: f"{c:.2f}", "formatted as a number"),
    "len": (lambda c: len(c), r"has no len\(\).*plain Python number"),
    "subscript": (lambda c: c[0], "not subscriptable.*plain Python number"),
    "loop": (lambda c: list(c), "not iterable.*plain Python number"),
    "floor division": (lambda c: c // 2, "unsupported operand.*plain Python number"),
    "call": (lambda c: c(1), "not callable.*plain Python number"),
    "attribute": (lambda c: c.named("c"), "no attribute 'named'.*plain Python number"),
    "text": (lambda c: c * [1], "a bare array|unsupported operand|can't multiply"),
}


@pytest.mark.parametrize("what", ["constant", "n", "width", "size"])
@pytest.mark.parametrize("use", USES)
def test_no_branch_is_taken_in_silence(use, what):
    function, words = USES[use]

    def traced(U: tp.Matrix["k", "n"], x: tp.Vector["token"], *, γ):
        c = {"constant": lambda: γ, "n": lambda: tp.n, "width": lambda: tp.width("k"), "size": lambda: tp.size("token")}
        function(c[what]())
        return x

    with pytest.raises(ProgramError, match=rf"test_quantities\.py, line \d+: .*(?:{words})"):
        tp.program(traced)


def test_while():
    with pytest.raises(ProgramError, match=rf"`while γ:`: `γ` {CONDITION}.*tp\.where"):

        @tp.program
        def loop(x: tp.Vector, *, γ):
            while γ:
                pass
            return x


def test_inequalities_are_refused_as_conditions_but_may_stand_in_a_piecewise():
    for use in (lambda c: 1 if c > 1 else 2, lambda c: max(c, 1), lambda c: 1 if np.float64(1) < c else 2):

        def compared(x: tp.Vector, *, γ):
            return use(γ) * x  # noqa: B023

        with pytest.raises(ProgramError, match="a comparison with a symbolic constant"):
            tp.program(compared)

    @tp.program
    def pieces(x: tp.Vector, *, γ):
        return tp.elementwise(lambda u: sympy.Piecewise((u * γ, u > γ), (0, γ > 1), (1, True)))(x)

    assert pieces.run(n=3, x=[3, 2, 1], γ=2)["return"].tolist() == [6, 0, 0]
    assert pieces.run(n=1, x=[0], γ=0.5)["return"].tolist() == [1]


def test_arithmetic_is_that_of_the_symbols():
    @tp.program
    def sums(x: tp.Vector["token"], *, γ, δ=2):
        left = γ + 1 + (1 + γ) - (γ - 2) + (3 - γ) + 2 * γ * 0.5 + 1 / γ + γ / 2 + γ**2 + 2**γ - (-γ) + abs(+γ)
        numpy = np.float64(2) * γ + np.int64(1) - np.float32(0.5) / γ
        exact = sympy.pi * γ - γ * sympy.pi + sympy.Rational(1, 2) * γ + sympy.sqrt(γ) + tp.sqrt(γ)
        return (left + numpy + exact + sum([γ, δ])) * tp.avg(x.sel(token=0) ** 2) * tp.size("token") / tp.n

    γ, δ = 4.0, 2.0
    left = γ + 1 + (1 + γ) - (γ - 2) + (3 - γ) + γ + 1 / γ + γ / 2 + γ**2 + 2**γ + γ + γ
    expected = left + 2 * γ + 1 - 0.5 / γ + γ / 2 + 4 + γ + δ
    assert sums.run(n=2, x=[[1, 1], [5, 5]], γ=γ)["return"] == pytest.approx(expected)
    assert sums.position("return") and set(sums.constants) == {"γ", "δ"}


def test_expressions_in_constants_go_into_other_programs():
    @tp.program
    def inner(x: tp.Vector, *, γ):
        return γ * x

    @tp.program
    def outer(x: tp.Vector, *, δ):
        return inner(x, γ=2 * δ) + inner.bind(γ=1 / tp.n)(x) + inner.bind(γ=tp.n)(x)

    assert outer.run(n=2, x=[1, 1], δ=3)["return"].tolist() == [8.5, 8.5]


def test_sympy_functions_may_be_called_again_and_again():
    for _ in range(2):  # SymPy remembers arguments, and compares them with the next ones

        @tp.program
        def functions(x: tp.Vector, *, γ):
            return sympy.tanh(γ) * x + sympy.Max(γ, 1) + tp.tanh(γ) + sympy.tanh(constant_symbol("γ"))

        assert functions.run(n=1, x=[1], γ=0.0)["return"] == [1]


def test_outside_a_trace_it_is_its_symbol():
    n = tp.n
    assert isinstance(n, Quantity) and n == N and n == N and hash(n) == hash(N) and bool(n) and n in {N}
    assert 1 / n == 1 / N and 2 * n**0.5 == 2 * N**0.5 and np.float64(2) * n == 2.0 * N and -n == -N
    assert (n > 0) == sympy.true and n.is_positive and f"{n}" == repr(n) == "n" and abs(n) == N
    assert (
        (N**2).subs(n, 3) == 9 and (N**2).has(n) and sympy.diff(N**2, n) == 2 * N and (N + 1).xreplace({n: N}) == N + 1
    )
    assert copy.deepcopy(n) == n and pickle.loads(pickle.dumps(n)) == n
    assert tp.width("k") + 1 == sympy.Symbol("k", positive=True) + 1
    with pytest.raises(TypeError, match="n is a symbol, not a number"):
        float(n)
    for call, found in ((lambda: np.sqrt(n), "np.sqrt"), (lambda: math.sqrt(n), "math.sqrt")):
        with pytest.raises(tp.ProgramError, match=rf"{found} of `n`; use tp.sqrt"):
            call()
    assert np.sum([n, n]) == 2 * N and (np.array([1.0, 2.0]) * n)[1] == 2.0 * N
    with pytest.raises(AttributeError, match="no attribute 'token'"):
        n.token  # noqa: B018
