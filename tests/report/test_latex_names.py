"""Names of a program in LaTeX: every printable name is legal math."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tplimits as tp
from tplimits.report.latex_names import apart, label, name


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("x", "x"),
        ("γ", r"\gamma"),
        ("gamma", r"\gamma"),
        ("h1", "h_{1}"),
        ("W_Q", "W_{Q}"),
        ("h#3", "h^{(3)}"),
        ("h^1", "h^{1}"),
        ("x1[token=0]", r"x_{1,\mathrm{token}=0}"),
        ("return[0][token=1]", r"\mathrm{return}_{0,\mathrm{token}=1}"),
        ("A[my_axis=2,key=0]", r"A_{\mathrm{my\_axis}=2,\mathrm{key}=0}"),
        ("_12[token=1]", r"x_{(12),\mathrm{token}=1}"),
        ("block.3.WQ", r"\mathrm{block.3.WQ}"),
        ("50%", r"\mathrm{50\%}"),
        ("a&b", r"\mathrm{a\&b}"),
        ("x\u0302", r"\hat{x}"),
        ("é", r"\acute{e}"),
        ("Α", "A"),
        ("日", r"\mathtt{U{+}65E5}"),
        ("(k/n)", r"\tfrac{k}{n}"),
    ],
)
def test_names(text, latex):
    assert name(text) == latex


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("(W x)^", r"\widehat{W\,x}"),
        ("(a + b)*c", r"(a+b)\,c"),
        ("√k W x1", r"\sqrt{k}\,W\,x_{1}"),
        ("Wᵀ h#2", r"W^{\top}\,h^{(2)}"),
        ("x**(1/2)", "x^{1/2}"),
        ("h#2**3", "{h^{(2)}}^{3}"),
        ("2.5*x - y", r"2.5\,x-y"),
        ("x₁₂", "x{}_{12}"),
        ("Σ_d(ξ)", r"\sum_{d}(\xi)"),
        ("⟨a·b⟩", r"\langle a\cdot b\rangle "),
        # a name keeps its superscript inside of an expression, and a function its underscore
        ("tanh(h^1)**2", r"\mathrm{tanh}(h^{1})^{2}"),
        ("W h^1 - y", r"W\,h^{1}-y"),
        ("h^1**2", "{h^{1}}^{2}"),
        ("leaky_relu(h_1, 0.2)", r"\mathrm{leaky\_relu}(h_{1},\,0.2)"),
    ],
)
def test_names_that_are_expressions(text, latex):
    assert label(text) == latex


def depth_of(text: str) -> int:
    """An upper bound of how deep groups are nested."""
    return text.count("{")


def legal(latex: str) -> bool:
    """Braces balance, and nothing has two subscripts or two superscripts."""
    depth = 0
    for mark in re.findall(r"\\[{}]|[{}]", latex):
        depth += {"{": 1, "}": -1}.get(mark, 0)
        if depth < 0:
            return False
    flat = re.sub(r"\\[A-Za-z]+ ?|\\.", "x", latex)
    for _ in range(depth_of(flat)):  # innermost groups first
        flat = re.sub(r"(?<![_^])\{[^{}]*\}", "x", flat)
        flat = re.sub(r"([_^])\{[^{}]*\}", r"\1y", flat)
    return depth == 0 and not re.search(r"_y(?:\^y)?_y|\^y(?:_y)?\^y|[$%&#~]", flat) and latex.isascii()


@given(st.text(st.characters(categories=("L", "M", "N", "P", "S", "Zs")), min_size=1, max_size=12))
def test_any_printable_name_is_legal(text):
    assert legal(name(text)), name(text)


@pytest.mark.parametrize("bad", ["x_{1}_{2}", "h^{1}^{2}", "{a", "50%", "é"])
def test_what_is_illegal_would_be_seen(bad):
    assert not legal(bad)


def test_two_names_are_not_one():
    with apart(["s1", "s_1", "γ", "gamma", "s_1[0]", "h#2", "h"]):
        assert [name(n) for n in ("s1", "s_1", "s_1[0]", "h#2")] == [
            "s_{1}", r"\mathrm{s\_1}", r"\mathrm{s\_1}_{0}", "h^{(2)}"]  # fmt: skip
        assert [name(n) for n in ("γ", "gamma")] == [r"\gamma", r"\mathrm{gamma}"]
        assert label("s_1 x") == r"\mathrm{s\_1}\,x"
    assert name("s_1") == "s_{1}"
    with apart(["pi"]):  # beside numbers with π
        assert name("pi") == r"\mathrm{pi}"


def test_constants_of_a_limit_are_told_apart():
    """E exp(s1 x)/s_1 is no function of one constant."""

    @tp.program
    def mean(x: tp.Vector, *, s1, s_1):
        return tp.avg(tp.exp(s1 * x)) / s_1

    @tp.program
    def alone(x: tp.Vector, *, s1):
        return tp.avg(tp.exp(s1 * x)) / s1

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, *, s1, s_1):
        return tp.sqrt(1 - s1**2) * x + s1 * (W @ x) + s_1 * (W @ x) / tp.n

    assert r"\frac{e^{\frac{s_{1}^{2}}{2}}}{\mathrm{s\_1}}" in tp.derive(mean).latex()
    assert r"\frac{e^{\frac{s_{1}^{2}}{2}}}{s_{1}}" in tp.derive(alone).latex()
    assert r"s_{1} \mathrm{s\_1} V" in tp.derive(block, tp.Proportional()).latex()
