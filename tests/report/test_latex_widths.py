"""Widths of formulas: what counts, and what does not."""

import pytest

from tplimits.report.latex_boxes import boxes_of, width_of


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
