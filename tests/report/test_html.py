"""The HTML page: whole, self-contained, and safe to show."""

from __future__ import annotations

import html.parser
import re
import xml.etree.ElementTree as ElementTree

import pytest

import tplimits as tp
from tplimits import zoo
from tplimits.report import html as page

#: elements without an end tag
VOID = {"meta", "br", "link", "img", "hr", "input"}


class Reader(html.parser.HTMLParser):
    """Reads a page strictly: end tags match, and nothing is loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.loads += [v for k, v in attributes if k in ("src", "href", "srcset", "data", "action") and v]
        if tag in ("link", "img", "iframe", "object"):
            self.loads.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def made(program) -> str:
    return tp.derive(program).page()


@pytest.mark.parametrize("name", ["tied_tanh", "two_widths", "max_of_three", "attention_logits"])
def test_a_page_is_well_formed_and_loads_nothing(name):
    text = made(zoo.get(name).program)
    reader = read(text)
    assert reader.loads == []
    assert not re.search(r"@import|url\(", text)
    assert set(re.findall(r"https?://[^\s\"<]+", text)) <= {
        "http://www.w3.org/1998/Math/MathML",
        "http://www.w3.org/2000/svg",
    }
    assert reader.seen.count("math") > 5


def test_formulas_are_legal_xml():
    text = made(zoo.get("layer_norm").program)
    found = re.findall(r"<math .*?</math>", text, re.DOTALL)
    assert found
    for formula in found:
        ElementTree.fromstring(formula)
        assert not re.search(r"\\[A-Za-z]", formula), "a LaTeX command was left over"


def test_a_page_holds_program_limits_brackets_steps_and_citation():
    text = made(zoo.get("tied_relu").program)
    for part in (
        tp.__version__,
        "program tied_relu(W, x)",
        "Gram table",
        "Eq. (2.19)",
        "@article{yang2023tensor",
        "align*",
    ):
        assert part in text


def test_names_are_escaped():
    @tp.program
    def odd(x: tp.Vector):
        y = (2 * x).named("<script>alert(1)</script>&")
        return tp.avg(y * x)

    text = made(odd)
    assert read(text).seen.count("script") == 1  # the page's own, which copies
    assert "&lt;script&gt;" in text


def test_widths_have_tables_of_their_own_and_large_ones_are_cut():
    @tp.program
    def many(W: tp.Matrix["k", "n"], x: tp.Vector["token"]):
        return tp.avg((W @ x) * (W @ x))

    text = made(many.bind(token=15))
    assert "3 more kets are left out" in text


def test_boxes_are_drawn_without_menclose():
    assert "menclose" not in page.mathml(r"x^{\boxed{1}}")
    assert 'class="box"' in page.mathml(r"x^{\boxed{1}}")
