r"""Where long formulas break: between addends, between factors, inside of brackets, in that order of liking.

A bracket that a line ends in cannot be \left…\right, which TeX closes in the line where they were opened: it gets a
size of its own.  Fractions, roots and powers of e wider than a line are written as quotients, powers and exp, large
matrices by names for their entries.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tplimits.report.latex_boxes import Box, boxes_of, width_of

#: the width of text in an article at ten points, less a little
LINE = 338.0
#: lines after the first are indented so
INDENT = 20.0
#: brackets wider than this part of a line may be broken
_ATOMIC = 0.45
#: what a break costs at a sum or a comma, a relation, a product; more in brackets
_AT_SUM, _AT_RELATION, _AT_PRODUCT, _DEEPER = 30.0, 250.0, 400.0, 150.0
_NEVER = 1e9
#: what a line too many costs
_A_LINE = 1000.0
#: what a break inside of a ket costs: several lines
_IN_A_NAME = 5000.0
#: where a ket ends
_ENDS = (r"\rangle", r"\hat{\rangle}", r"\dot{\rangle}")


@dataclass(frozen=True)
class Piece:
    """Something that stays on one line; `cost` is that of a break before it, `joined` what such a line begins with."""

    text: str
    width: float
    cost: float = _NEVER
    joined: str = ""
    apart: bool = True


def lines(text: str, room: float) -> list[str]:
    r"""A formula line by line; `room` is what the first line has, the others have that less an indentation."""
    boxes = boxes_of(text)
    if width_of(boxes) <= room:
        return [text]
    return _filled(list(_pieces(boxes, room - INDENT, 0)), room)


def _filled(pieces: Sequence[Piece], room: float) -> list[str]:
    """Lines of least cost: few of them, broken where that is liked."""
    count = len(pieces)
    best: list[tuple[float, int]] = [(0.0, 0)]
    for end in range(1, count + 1):
        found = (float("inf"), end - 1)
        wide = 0.0
        for start in range(end - 1, -1, -1):
            wide += pieces[start].width
            available = room if start == 0 else room - INDENT
            over = max(0.0, wide - available)
            if over and start < end - 1:  # one piece may be too wide
                break
            cost = 0.0 if start == 0 else pieces[start].cost
            total = best[start][0] + cost + _A_LINE + 1e4 * over
            if total < found[0]:
                found = (total, start)
        best.append(found)
    breaks = [count]
    while breaks[-1]:
        breaks.append(best[breaks[-1]][1])
    breaks.reverse()
    made = []
    for start, end in itertools.pairwise(breaks):
        lead = pieces[start].joined if start else ""
        shown = "".join(f" {p.text}" if p.apart else p.text for p in pieces[start:end])
        made.append(re.sub(r"(?:\s*\\q?quad)+$", "", f"{lead}{shown.strip()}"))
    return made


def _pieces(boxes: Sequence[Box], room: float, depth: int) -> Iterator[Piece]:
    """The boxes of a row, wide ones opened up."""
    before: Box | None = None
    for box, named in zip(boxes, _in_kets(boxes), strict=True):
        cost, joined = _break(before, box, depth)
        if named:  # what it is called is no product
            cost, joined = cost + _IN_A_NAME, ""
        opened = _opened(box, room, depth)
        first = next(opened)
        yield replace(first, cost=cost, joined=joined, apart=box.apart)
        yield from opened
        before = box


def _in_kets(boxes: Sequence[Box]) -> list[bool]:
    """Whether each box stands after the beginning of a ket or of ⟨a|b⟩ that ends with it or later."""
    inside, found = False, []
    for i, box in enumerate(boxes):
        found.append(inside)
        if box.text.startswith(_ENDS):
            inside = False
        elif box.text in ("|", r"\langle") and not inside:
            # |d| is a size, and a bra before an index, ⟨b|ᵃ, has no end of this kind
            others = ("|", r"\langle") if box.text == "|" else ("|^", r"\langle")
            ahead = (b.text for b in boxes[i + 1 :] if b.text.startswith((*others, *_ENDS)))
            inside = next(ahead, "").startswith(_ENDS)
    return found


def _break(before: Box | None, box: Box, depth: int) -> tuple[float, str]:
    """What a break between two boxes costs, and what the new line begins with."""
    more = _DEEPER * depth
    if before is None or before.kind in ("operator", "binary", "relation"):
        return _NEVER, ""
    if box.kind == "binary" and box.text in (r"\cdot", r"\times"):
        return _AT_PRODUCT + more, ""
    if box.kind == "relation":
        return _AT_RELATION + more, ""
    if before.kind == "space" and before.text in (r"\quad", r"\qquad", r"\ "):
        return more, ""
    if box.kind == "binary" or before.kind == "comma":
        return _AT_SUM + more, ""
    if "text" in (before.kind, box.kind):
        return _AT_PRODUCT + more, ""
    if before.kind == "space" and before.text == r"\," and box.kind != "space":
        return _AT_PRODUCT + more, r"\cdot "
    if box.apart and box.kind not in ("space", "comma") and re.search(r"[})\]\w]$", before.text):
        return _AT_PRODUCT + more, r"\cdot " if before.kind != "space" else ""
    return _NEVER, ""


def _opened(box: Box, room: float, depth: int) -> Iterator[Piece]:
    """A box whole, or in pieces if it is too wide."""
    if box.kind == "group" and box.width > _ATOMIC * room:
        yield from _group(box.parts[0], box.fences, box.scripts, room, depth, box.tall)
    elif box.kind == "fraction" and box.width > room:
        above, below = box.parts
        yield from _quotient(above, below, room, depth)
    elif box.kind == "root" and box.width > room:
        power = rf"^{{1/2}}{box.scripts}" if not box.scripts.startswith("^") else rf"^{{\frac{{1}}{{2}}}}{box.scripts}"
        yield from _group(box.parts[0], ("(", ")"), power, room, depth, box.tall)
    elif box.text.startswith("e^{") and box.text.endswith("}") and box.width > room:
        yield Piece(r"\exp", width_of(boxes_of(r"\exp")))
        yield from _group(boxes_of(box.scripts[2:-1]), ("(", ")"), "", room, depth, box.tall)
    elif box.kind == "text" and box.width > room:
        yield from _words(box)
    else:
        yield Piece(box.text, box.width)


def _group(
    inside: Sequence[Box], fences: tuple[str, str], scripts: str, room: float, depth: int, tall: bool
) -> Iterator[Piece]:
    """Brackets of one size, with pieces between them."""
    size = r"\bigg" if tall else r"\big"
    opening, closing = fences
    pieces = list(_pieces(inside, room, depth + 1)) or [Piece("", 0)]
    end = (rf"{size}r{closing}" if closing != "." else "") + scripts
    yield Piece(rf"{size}l{opening}" if opening != "." else "", 7)
    yield from pieces
    yield Piece(end, 2 + width_of(boxes_of(f"x{scripts}")))


def _quotient(above: tuple[Box, ...], below: tuple[Box, ...], room: float, depth: int) -> Iterator[Piece]:
    """A fraction as a quotient."""
    tall = [any(b.tall for b in side) for side in (above, below)]
    yield from _side(above, room, depth, tall[0])
    yield Piece(r"\Big/", 8, _AT_PRODUCT + _DEEPER * depth)
    yield from _side(below, room, depth, tall[1])


def _side(side: tuple[Box, ...], room: float, depth: int, tall: bool) -> Iterator[Piece]:
    if len(side) == 1 and side[0].kind != "fraction":
        yield from _opened(side[0], room, depth)
    else:
        yield from _group(side, ("(", ")"), "", room, depth, tall)


def _words(box: Box) -> Iterator[Piece]:
    """Prose between its words."""
    inside = box.text.removeprefix(r"\text{").removesuffix("}")
    words = inside.split(" ")
    for i, word in enumerate(words):
        shown = rf"\text{{{word}{' ' if i < len(words) - 1 else ''}}}"
        yield Piece(shown, width_of(boxes_of(shown)) + 3, _AT_SUM)
