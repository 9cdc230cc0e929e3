"""How wide atoms are taken to be, in points: what they are made of, and what stands around it."""

import pytest

from tplimits.report.latex_boxes import boxes_of, width_of

#: a small letter, one that is capital, a digit, a plus with its space; scripts are three quarters of it
LETTER, CAPITAL, DIGIT, PLUS, SCRIPT = 5.4, 7.4 + 0.8, 5.2, 12.5, 0.75


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("a", LETTER),
        ("A", CAPITAL),
        ("m", 8.5),
        ("M", 8.5 + 0.8),
        ("i", 3.2),
        ("2", DIGIT),
        ("a + b", 2 * LETTER + PLUS),
        (r"a \cdot b", 2 * LETTER + 7.5),
        ("a = b", 2 * LETTER + 14),
        ("a, b", 2 * LETTER + 4.6),
        (r"\unheard", 6.6),
        ("a'", LETTER + 3),
        ("a''", LETTER + 6),
        ("a^{b}", LETTER * (1 + SCRIPT)),
        ("a_{bc}^{d}", LETTER * (1 + 2 * SCRIPT)),
        ("a_{b}'''", LETTER + 9),
        (r"\sum_{a}", 15 + LETTER * SCRIPT),
        (r"\prod_{abcdef}^{a}", 14 + 6 * LETTER * SCRIPT),
        (r"\int_{abcdef}", 12 + 6 * LETTER * SCRIPT),
        (r"\tanh", 22.5 + 1.7),
        (r"\mathrm{ab}", 2 * LETTER + 1.7),
        (r"\hat{a}", LETTER + 0.5),
        (r"\sqrt{a}", LETTER + 9),
        (r"\sqrt[3]{a}", LETTER + 9),
        (r"\frac{a}{bc}", 2 * LETTER + 3),
        (r"\frac{abc}{d}", 3 * LETTER + 3),
        (r"\tfrac{a}{bc}", SCRIPT * 2 * LETTER + 3),
        (r"\boxed{a}", LETTER + 7),
        ("(a)", LETTER + 8),
        ("(a", LETTER + 4),
        (r"\left(a\right)", LETTER + 12),
        (r"\left(\frac{a}{b}\right)", LETTER + 3 + 16),
        (r"\big/", 6),
        (r"\begin{pmatrix}a & b \\ cd & e\end{pmatrix}", (2 * LETTER + 10) + (LETTER + 10) + 8),
    ],
)
def test_widths(text, width):
    assert width_of(boxes_of(text)) == pytest.approx(width)


@pytest.mark.parametrize(
    ("text", "kinds", "tall"),
    [
        (r"a + \frac{b}{c}", ["plain", "binary", "fraction"], [False, False, True]),
        (r"\tfrac{b}{c}, \partial a", ["plain", "comma", "operator", "plain"], [False, False, False, False]),
        (r"\sum_{i} (a)", ["operator", "group"], [True, False]),
        (r"\left(\frac{a}{b}\right) = \sqrt{\frac{a}{b}}", ["group", "relation", "root"], [True, False, True]),
        (r"\text{and}\quad \operatorname{f}", ["text", "space", "operator"], [False, False, False]),
        (r"{\frac{a}{b}} \hat{\sum} |", ["plain", "plain", "plain"], [True, True, False]),
    ],
)
def test_kinds_and_heights(text, kinds, tall):
    found = boxes_of(text)
    assert [b.kind for b in found] == kinds and [b.tall for b in found] == tall


def test_scripts_and_white_space_are_kept():
    one, two, three = boxes_of(r"a _{b} ^{2} c\left[d\right]^{3}")
    assert (one.text, one.scripts, one.apart) == ("a _{b} ^{2}", "_{b} ^{2}", False)
    assert (two.text, two.apart) == ("c", True)
    assert (three.fences, three.scripts, three.apart) == (("[", "]"), "^{3}", False)
