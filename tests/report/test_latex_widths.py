"""Widths of formulas: what counts, and what does not."""

import re

import pytest
from sympy import Abs, S, symbols

import tplimits as tp
from tplimits.program.nodes.laws import Law, truncated_normal
from tplimits.report.latex import Printer, _law
from tplimits.report.latex_boxes import boxes_of, width_of
from tplimits.report.latex_formulas import FormulaPrinter
from tplimits.report.latex_lines import INDENT, lines


@tp.program
def _square(x: tp.Vector):
    return tp.avg(x**2)


def wide(text):
    return width_of(boxes_of(text))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (r"\sqrt[3]{a + b + c}", r"\sqrt{a + b + c}"),  # the index stands over the sign
        (r"x\sqrt[12]{abc}y", r"x\sqrt{abc}y"),
        ("{abc}", "abc"),
    ],
)
def test_what_stands_around_a_formula_adds_nothing(text, same):
    assert wide(text) == wide(same)


def test_roots_are_wider_than_what_they_hold():
    assert wide(r"\sqrt[3]{abc}") > wide("abc") > wide("ab")


def test_a_line_that_fits_is_one_line_and_others_leave_room_for_an_indentation():
    text = " + ".join(rf"x_{{{i}}}" for i in range(10, 40))
    found = lines(text, 200)
    assert wide(found[0]) <= 200 and all(wide(line) <= 200 - INDENT for line in found[1:])
    assert wide(found[0]) > 200 - INDENT - wide("+ x_{10}")  # the first has all the room
    assert "".join(found).replace(" ", "") == text.replace(" ", "")


def test_bars_hold_no_braces_and_exponents_open():
    a, b = symbols("a b", real=True)
    assert FormulaPrinter().doprint(2 * Abs(a - b)) == r"2 \left|a - b\right|"
    found = lines("e^{" + " + ".join(["x_{1}"] * 30) + "}", 200)
    assert len(found) > 1 and found[0].startswith(r"\exp \bigl(") and found[-1].endswith(r"\bigr)")


def test_products_are_broken_with_a_sign():
    (first, *others) = lines(r"\,".join(rf"A_{{{i}{i}{i}}}" for i in range(9)), 120)
    assert others and all(line.startswith(r"\cdot ") for line in others) and not first.startswith(r"\cdot")


@pytest.mark.parametrize("law", [truncated_normal(S(2), S(4)), Law(S(1), S(3)), Law(S(0), S(3), "signs")])
def test_laws_have_the_numbers_of_their_words(law):
    numbers = re.findall(r"\d+", law.described())
    assert re.findall(r"\d+", _law(Printer(tp.derive(_square).state), law).replace(r"\tfrac{1}{2}", "")) == numbers
