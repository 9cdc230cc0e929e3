"""A limit as text."""

from __future__ import annotations

import sympy

import tplimits as tp
from tplimits import zoo
from tplimits.report.latex_formulas import Formula
from tplimits.report.roles import by_role
from tplimits.report.text import formula, positive_first, shortest, shown

x = sympy.Symbol("x", positive=True)


def test_a_limit_lists_kets_then_what_stays_random():
    lines = repr(tp.derive(zoo.get("tied_relu").program)).splitlines()
    assert lines[0] == "width limit of tied_relu"
    assert "  |z⟩  = z\u0302 + (1/2)·|x⟩" in lines


def test_variances_are_listed_and_fluctuations_bracketed_in_powers():
    @tp.program
    def random(x: tp.Vector, v: tp.Vector):
        s = tp.sqrt(tp.n) * tp.avg(x * v)
        return s**2

    text = repr(tp.derive(random))
    assert "(√n·" in text
    assert "Var √n·" in text and "→ 1" in text


def test_long_families_are_shortened():
    @tp.program
    def wide(x: tp.Vector["token"]):
        return tp.avg(x * x)

    text = repr(tp.derive(wide.bind(token=20)))
    assert "… 14 more entries of x" in text


def test_floats_print_as_written():
    assert formula(sympy.Rational(0.1) * x - sympy.Rational(0.3)) == "0.1*x - 0.3"
    assert formula(sympy.Rational(3, 4) * x) == "3*x/4"


def test_written_numbers_stand_first_in_products():
    assert formula(sympy.Symbol("(k/n)") * sympy.Rational(0.505)) == "0.505*(k/n)"


def test_sums_start_with_what_is_not_negative():
    assert formula(3 * sympy.pi - 2) == "3*pi - 2"
    assert positive_first([-x, -sympy.S.One]) == [-x, -1]


def test_the_shortest_of_equal_forms():
    assert shortest(x * (x + 1) - x**2) == x
    assert str(shown(sympy.Rational(0.1) * x)) == "0.1*x"


def test_very_long_expressions_are_cut():
    long = sympy.Add(*(sympy.Symbol(f"a{i}") ** i for i in range(2, 60)))
    assert "operations)" in formula(long)


def test_means_over_boxes():
    @tp.program
    def pairs(x: tp.Vector):
        β = tp.neuron("β")
        return tp.avg(tp.tanh(x - x[β] ** 3), over=β)

    assert "E□[tanh(" in repr(tp.derive(pairs))


def test_powers_of_names_that_have_an_exponent_stand_in_brackets():
    @tp.program
    def again(W: tp.Matrix, V: tp.Matrix, x: tp.Vector):
        x = W @ x
        x = V @ tp.tanh(x)
        return tp.avg(tp.sin(x) * x**2 + 1), tp.avg(x**3 * tp.tanh(x))

    text = tp.derive(again).latex()
    assert r"\left(|x^{(3)}\hat{\rangle}\right)^{2} \sin" in text and r"\hat{\rangle}\right)^{3} \tanh" in text

    @tp.program
    def plain(x: tp.Vector):
        return tp.avg(tp.sin(x) * x**2)

    assert r"= |x\rangle^{2} \sin" in tp.derive(plain).latex()


def test_unnamed_values_that_no_program_has_stay_as_they_are():
    @tp.program
    def unnamed(W: tp.Matrix, x: tp.Vector):
        return tp.avg(x * tp.tanh(W @ tp.relu(x)))

    rows = [Formula(r"x_{(99)}", "=", (r"x_{(3)} + d_{(98)} + d_{2,1} + d_{x}",)), Formula("x", "=", ("x",))]
    (found,) = by_role(rows, unnamed)
    assert (found.left, found.right) == (r"x_{(99)}", (r"\mathrm{relu}(x) + d_{(98)} + d_{2,1} + d_{x}",))


def test_texts_are_cut_where_they_are_longer_than_they_may_be():
    fits, longer = (sympy.Symbol("a" * n) for n in (160, 161))
    assert formula(fits) == "a" * 160
    assert formula(longer) == f"{'a' * 80} … (0 operations)"


def test_integrals_of_bells_are_not_rearranged_and_others_are():
    """SymPy turns 1 − erf into erfc and joins exponentials, which is no shorter to read."""
    y = sympy.Symbol("y")
    assert shortest(sympy.cos(y) ** 2 + sympy.sin(y) ** 2) == 1
    kept = sympy.cos(y) ** 2 + sympy.sin(y) ** 2 + sympy.erf(y)
    assert shortest(kept) == kept
