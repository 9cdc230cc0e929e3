"""LaTeX of limits: brackets in the paper's notation, lines that fit, environments that close."""

from __future__ import annotations

import re

import pytest

import tplimits as tp
from tplimits import zoo
from tplimits.report.latex import Formula, expression, formulas


def rows(program):
    """Left-hand side to right-hand side of every line."""
    limit = tp.derive(program)
    return {row.left: " ".join(row.right) for row in formulas(program, limit.state)}


def test_hat_dot_and_both_forms_of_the_coefficient():
    found = rows(zoo.get("tied_tanh").program)
    assert found[r"|z\rangle"] == r"|z\hat{\rangle} + |z\dot{\rangle}"
    assert (
        found[r"|z\dot{\rangle}"] == r"|x\rangle\,\operatorname{E}\frac{\partial |y\rangle}{\partial |h\hat{\rangle}}"
    )
    coefficient = found[r"\operatorname{E}\frac{\partial |y\rangle}{\partial |h\hat{\rangle}}"]
    stein, value = coefficient.split(" = ")
    assert stein == r"\langle x|x\rangle^{+}\,\langle h\hat{|}\,y\rangle"
    assert value == r"\operatorname{E}\left[\operatorname{sech}^{2}\left(|h\hat{\rangle}\right)\right]"


def test_covariance_rows_are_lower_triangular():
    found = rows(zoo.get("gram_power_2").program)
    pairs = [re.findall(r"\|(.+?)\\hat", left) for left in found if left.startswith(r"\mathrm{Cov}")]
    assert pairs and all(len(p) == 2 for p in pairs)
    assert len({tuple(sorted(p)) for p in pairs}) == len(pairs)


@tp.program
def drawn_by_laws(
    x: tp.Vector.uniform(-1, 3),
    y: tp.Vector.truncated(2, 1),
    s: tp.Vector.signs(3),
    c: tp.Vector.normal(1, 3),
    d: tp.Vector.constant(2),
    g: tp.Vector,
):
    return tp.avg((tp.sin(x + y) + tp.cos(s) * c**2) / d + g)


def test_formulas_of_kets_with_other_laws_are_those_of_the_variables_printed():
    """3|c⟩ + 1 was printed beside |c⟩ ~ N(1, 9), whose standard normal variable was meant."""
    found = rows(drawn_by_laws)
    for label, law in (
        ("x", r"\mathcal{U}\left[-1, 3\right]"),
        ("y", r"\mathcal{N}\left(0, 4\right)\text{ within }\pm 1"),
        ("s", r"\pm 3\text{ with probability }\tfrac{1}{2}\text{ each}"),
        ("c", r"\mathcal{N}\left(1, 9\right)"),
    ):
        assert found[rf"|\overline{{{label}}}\rangle"] == r"\mathcal{N}\left(0, 1\right)"
        assert found[rf"|{label}\rangle"].endswith(rf"\sim {law}")
        for left, right in found.items():  # the ket itself stands in no formula
            assert rf"|{label}\rangle" not in right or left == rf"|{label}\rangle"
    assert found[r"|c\rangle"] == r"3 |\overline{c}\rangle + 1 \sim \mathcal{N}\left(1, 9\right)"
    assert (found[r"|d\rangle"], found[r"|g\rangle"]) == ("2", r"\mathcal{N}\left(0, 1\right)")
    assert any(r"3 |\overline{c}\rangle + 1" in right for left, right in found.items() if left != r"|c\rangle")
    assert r"\operatorname{truncated}(x, c) &=" in tp.derive(drawn_by_laws).latex()


def test_ratios_of_widths_stand_before_brackets():
    found = rows(zoo.get("two_widths").program)
    assert found[r"|z\dot{\rangle}"].startswith(r"\tfrac{k}{n}\,|x\rangle")


def test_box_means_number_their_boxes_and_copies_of_copies_get_their_own():
    limit = tp.derive(zoo.get("max_of_three").program)
    found = {row.left: str(row) for row in formulas(limit.program, limit.state)}
    assert found[r"|y\rangle"].startswith(r"|y\rangle = \operatorname{E}_{\boxed{1},\boxed{2}}\left[")
    square = limit.braket("y", "y")
    assert set(re.findall(r"\\boxed\{(\d)\}", expression(limit.state, square))) <= set("1234")


def test_powers_of_names_with_superscripts_are_bracketed():
    @tp.program
    def powers(x: tp.Vector, *, c):
        m = tp.avg(x**2 * c).named("m^1")
        s = tp.sqrt(tp.n) * tp.avg(x)
        return m**2, tp.avg(x**2) * s**2

    found = rows(powers)
    assert r"\left(\sqrt{n}\,x_" in found[r"\mathrm{return}_{1}"]
    assert r"\left(" in found[r"\mathrm{return}_{1}"]
    assert any(left.startswith(r"\mathrm{Var}\left(\sqrt{n}\,") for left in found)


def test_floats_are_printed_as_they_were_written():
    @tp.program
    def decimals(W: tp.Matrix, x: tp.Vector):
        return tp.avg(tp.leaky_relu(W @ x, 0.01)) * 0.1 - 0.3

    assert re.fullmatch(r"\\frac\{0\.0495 \\sqrt\{2\}\}\{\\sqrt\{\\pi\}\} - 0\.3", rows(decimals)[r"\mathrm{return}"])


def test_long_lines_break_between_addends():
    row = Formula("x", "=", tuple(f"+ {'a' * 30}" for _ in range(7)))
    lines = row.aligned().split("\\\\\n")
    assert [line.count("a" * 30) for line in lines] == [1] * 7
    assert row.aligned().count("&") == 7


def balanced(text: str) -> bool:
    """Braces, \\left and \\right, \\begin and \\end all close."""
    opened: list[str] = []
    for mark in re.findall(r"\\(?:left|right)\b|(?<!\\)[{}]", text):
        if mark in ("{", r"\left"):
            opened.append(mark)
        elif not opened or opened.pop() != {"}": "{", r"\right": r"\left"}[mark]:
            return False
    return not opened and re.findall(r"\\begin\{(.*?)\}", text) == re.findall(r"\\end\{(.*?)\}", text)


@pytest.mark.parametrize("name", list(zoo.PROGRAMS))
def test_every_limit_of_the_zoo_closes_what_it_opens(name):
    limit = tp.derive(zoo.get(name).program)
    text = limit.latex()
    shown = text.removeprefix("{\\allowdisplaybreaks\n").removesuffix("\n}")
    assert shown.startswith("\\begin{align*}\n") and shown.endswith("\n\\end{align*}")
    assert balanced(text)
    assert text.isascii(), "pdflatex knows ASCII without further packages"
    assert "\\mathbb" not in text, "it needs a package besides amsmath"


def test_notebooks_get_dollars_around_an_aligned_environment():
    limit = tp.derive(zoo.get("tied_relu").program)
    shown = limit._repr_latex_()
    assert shown.startswith("$$\n\\begin{aligned}") and shown.endswith("\\end{aligned}\n$$")
    assert balanced(shown)
