"""Sums over finite axes in formulas: what a power or a sign belongs to is in brackets."""

from __future__ import annotations

import re

import latex2mathml.converter
import pytest
import sympy

import tplimits as tp
from tplimits import zoo
from tplimits.program.nodes.entries import AxisSum, axis_symbol
from tplimits.report.latex_formulas import FormulaPrinter

LIMITS = {
    "feature learning": tp.MaximalUpdate(tp.Adam()),
    "operator": tp.NeuralTangent(tp.SGD()),
    "kernels": tp.Kernels(),
}


@pytest.fixture(scope="module", params=LIMITS)
def limit(request):
    """Attention, whose gradient holds the square of a sum of exponentials."""
    return tp.derive(zoo.get("tied_attention").program, LIMITS[request.param])


def test_pages_have_all_formulas(limit):
    assert "<math" in limit.page()


def test_what_is_written_has_one_meaning(limit):
    written = limit.latex()
    for line in re.split(r"\\\\\n", re.search(r"align\*\}\n(.*)\n\\end", written, re.DOTALL)[1]):
        latex2mathml.converter.convert(line.replace("&", ""))  # refuses two exponents at one place
    assert not re.search(r"\\sum_\{[^}]*\} -", written)
    assert not re.search(r"\\sum_\{\\mathrm\{key\}'\} e\^\{[^ ]*\}\^\{2\}", written)


def test_the_square_is_that_of_the_sum():
    written = tp.derive(zoo.get("tied_attention").program, LIMITS["feature learning"]).latex()
    assert re.search(r"\\left\(\\sum_\{\\mathrm\{key\}'\} e\^\{.*?\}\\right\)\^\{2\}", written)


def test_a_sum_in_a_product_is_in_brackets_unless_it_ends_it():
    x, i = sympy.Symbol("x", commutative=False), axis_symbol("i")
    total = AxisSum(sympy.Symbol("y") * i, i, sympy.Symbol("head"))
    printer = FormulaPrinter()
    assert printer._needs_mul_brackets(total) and printer._needs_mul_brackets(total, first=True)
    assert not printer._needs_mul_brackets(total, last=True)
    assert not printer._needs_mul_brackets(x, first=True)
