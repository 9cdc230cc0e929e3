"""Where formulas break: fillings of least cost against all of them, and what a break beside each kind of box costs."""

import itertools

import numpy as np
import pytest

from tplimits.report.latex_boxes import Box, boxes_of
from tplimits.report.latex_lines import INDENT, Piece, _break, _filled, _group, _in_kets, lines

#: a sum or comma, a relation, a product, a bracket more, and where no line ends
SUM, RELATION, PRODUCT, DEEPER, NEVER = 30.0, 250.0, 400.0, 150.0, 1e9


def least(pieces, room):
    """The lines of least cost among all: a line of several pieces fits, a line costs 1000, and 10⁴ a point beyond it.

    What follows the first piece of a formula on its line would fit a later line too.
    """
    costs = {}
    for inner in itertools.product((False, True), repeat=len(pieces) - 1):
        breaks = [0, *(k for k, cut in enumerate(inner, 1) if cut), len(pieces)]
        cost = 0.0
        for a, b in itertools.pairwise(breaks):
            over = max(0.0, sum(p.width for p in pieces[a:b]) - (room - INDENT if a else room))
            late = not a and b > 2 and sum(p.width for p in pieces[1:b]) > room - INDENT
            never = late or (over and b - a > 1)
            cost += 1000 + 1e4 * over + (pieces[a].cost if a else 0.0) + (NEVER**2 if never else 0.0)
        costs[cost] = breaks
    best = costs[min(costs)]
    return ["".join(p.text for p in pieces[a:b]) for a, b in itertools.pairwise(best)]


@pytest.mark.parametrize("room", [25.0, 45.0, 90.0])
def test_lines_are_those_of_least_cost(room):
    rng = np.random.default_rng(0)
    for _ in range(40):
        widths, costs = rng.uniform(2, 30, 7), rng.choice([10.0, SUM, RELATION, PRODUCT, 1500.0], 7)
        costs += rng.uniform(0, 1, 7)
        pieces = [
            Piece(c, w, cost, apart=False)
            for c, w, cost in zip("abcdefg", widths.tolist(), costs.tolist(), strict=True)
        ]
        assert _filled(pieces, room) == least(pieces, room)


def test_lines_begin_with_what_joins_them_and_end_without_space():
    pieces = [
        Piece("a", 25, joined="×"),
        Piece(r"\quad", 5, 9, apart=False),
        Piece("b", 5, 1, joined=r"\cdot "),
        Piece("c", 9, 2),
    ]
    assert _filled(pieces, 33) == ["a", r"\cdot b", "c"]
    assert _filled(pieces, 36) == ["a", r"\cdot b c"]
    assert _filled(pieces, 46) == [r"a\quad b c"]
    assert _filled(pieces[:2], 30) == ["a"]


A, B = Box("a", 5), Box("b", 5)


@pytest.mark.parametrize(
    ("before", "box", "cost", "joined"),
    [
        (None, A, NEVER, ""),
        (Box("+", 5, "binary"), A, NEVER, ""),
        (Box(r"\sum", 5, "operator"), A, NEVER, ""),
        (Box("=", 5, "relation"), A, NEVER, ""),
        (A, Box(r"\cdot", 5, "binary"), PRODUCT + 2 * DEEPER, ""),
        (A, Box(r"\times", 5, "binary"), PRODUCT + 2 * DEEPER, ""),
        (A, Box("=", 5, "relation"), RELATION + 2 * DEEPER, ""),
        (Box(r"\quad", 5, "space"), A, 2 * DEEPER, ""),
        (A, Box("-", 5, "binary"), SUM + 2 * DEEPER, ""),
        (Box(",", 5, "comma"), A, SUM + 2 * DEEPER, ""),
        (Box("and", 5, "text"), A, PRODUCT + 2 * DEEPER, ""),
        (A, Box("and", 5, "text"), PRODUCT + 2 * DEEPER, ""),
        (Box(r"\,", 5, "space"), A, PRODUCT + 2 * DEEPER, r"\cdot "),
        (Box(r"\,", 5, "space"), Box(r"\,", 5, "space"), NEVER, ""),
        (Box(r"\!", 5, "space", apart=False), Box("b", 5, apart=False), NEVER, ""),
        (A, Box("b", 5, apart=True), PRODUCT + 2 * DEEPER, r"\cdot "),
        (A, Box("b", 5, apart=False), NEVER, ""),
        (A, Box(",", 5, "comma", apart=True), NEVER, ""),
        (A, Box(r"\,", 5, "space", apart=True), NEVER, ""),
        (Box("|", 5), Box("b", 5, apart=True), NEVER, ""),
    ],
)
def test_what_a_break_costs_and_what_the_new_line_begins_with(before, box, cost, joined):
    assert _break(before, box, 2) == (cost, joined)


KETS = (
    r"|W^{\top}\,u\hat{\rangle}",
    r"|U\,\mathrm{relu}(h)\dot{\rangle}",
    r"\langle x|\mathrm{tanh}(x)\,y\rangle",
    r"\langle h\hat{|}\,y\,z\rangle",
)


@pytest.mark.parametrize("room", range(100, 300, 10))
def test_no_line_ends_inside_of_a_ket(room):
    """|W⊤u⟩ began on one line and ended on the next, after a dot."""
    for shown in (" ".join(KETS), r"\,".join(KETS), " + ".join(KETS), rf"\left({' '.join(KETS)}\right)"):
        broken = lines(shown, room)
        assert len(broken) > 1 or room > 150
        assert [sum(line.count(ket) for line in broken) for ket in KETS] == [1, 1, 1, 1]


def test_where_kets_begin_and_end():
    inside = _in_kets(boxes_of(r"|d| x \,|a\,b\rangle^{2} y"))
    assert inside == [False, False, False, False, False, False, True, True, True, True, False]


def test_brackets_around_nothing_hold_a_piece_without_width():
    opening, inside, closing = _group((), ("(", ")"), "^{2}", 90.0, 0, False)
    assert (opening.text, closing.text) == (r"\bigl(", r"\bigr)^{2}")
    assert inside == Piece("", 0)
    assert [p.text for p in _group((), (".", "."), "", 90.0, 0, True)] == ["", "", ""]
