"""Sums over finite axes in formulas: what a power or a sign belongs to is in brackets."""

from __future__ import annotations

import re

import latex2mathml.converter
import pytest

import tplimits as tp
from tplimits import zoo

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
