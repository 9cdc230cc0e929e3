r"""How wide math is, from its LaTeX: boxes as TeX makes them, with the widths of Computer Modern at ten points.

Widths are a few per cent too large rather than too small: what is measured here decides where lines break.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

#: commands, environments, escaped characters, and single characters
_TOKENS = re.compile(r"\\[A-Za-z]+\*?|\\.|\s+|.", re.DOTALL)
_RELATIONS = {"=", "<", ">", r"\to", r"\sim", r"\in", r"\gets", r"\leftarrow", r"\le", r"\ge", r"\ne"}
_BINARY = {"+", "-", r"\cdot", r"\times", r"\pm", r"\wedge"}
_SPACES = {r"\,": 1.7, r"\:": 2.3, r"\;": 2.8, r"\ ": 3.4, r"\quad": 10, r"\qquad": 20, r"\!": -1.7}
_OPENING = {"(": ")", "[": "]", r"\{": r"\}", r"\lfloor": r"\rfloor", r"\lceil": r"\rceil"}
_SIZED = re.compile(r"\\[bB]igg?[lrm]?$")
#: commands of one argument that add nothing, and those whose argument is text
_ACCENTS = {r"\hat", r"\bar", r"\tilde", r"\dot", r"\ddot", r"\vec", r"\check", r"\grave", r"\overline"}
_ACCENTS |= {r"\widehat", r"\mathcal", r"\mathbb", r"\mathtt"}
_TEXTS = {r"\mathrm", r"\text", r"\operatorname", r"\textstyle"}
_WORDS = {f"\\{w}": len(w) * 5.2 for w in ("sin", "cos", "tan", "log", "exp", "max", "min", "arcsin", "arccos", "sinh")}
_WORDS |= {r"\cosh": 22.0, r"\tanh": 22.5, r"\arctan": 29.0}
_SIGNS = {r"\langle": 4, r"\rangle": 4, "|": 3, r"\vert": 3, r"\ldots": 13, r"\infty": 10, r"\partial": 6, r"\ell": 4.3}
_SIGNS |= {"(": 4, ")": 4, "[": 3, "]": 3, r"\{": 5, r"\}": 5, ",": 4.6, ".": 3, "'": 3, ";": 4.6, "/": 5, "!": 3}
_SIGNS |= {r"\sum": 15, r"\int": 12, r"\prod": 14, ":": 8.5, r"\prime": 3, "~": 3.4, r"\top": 8, r"\dots": 13}
_SCRIPT = 0.75


@dataclass(frozen=True)
class Box:
    """A piece of math that TeX sets as one atom.

    `kind` is "plain", "operator" (nothing may come between it and the next), "binary", "relation", "comma", "space",
    "group" (brackets around `inside`), "fraction", "root" or "matrix"; `parts` are the pieces of the last four.
    """

    text: str
    width: float
    kind: str = "plain"
    tall: bool = False
    parts: tuple[tuple[Box, ...], ...] = ()
    fences: tuple[str, str] = ("", "")
    scripts: str = ""
    #: white space stands before it in the source: printers write products so
    apart: bool = field(default=False, compare=False)


def width_of(boxes: tuple[Box, ...]) -> float:
    """The width of a row."""
    return sum(b.width for b in boxes)


def boxes_of(text: str) -> tuple[Box, ...]:
    r"""The atoms of a formula."""
    return _Reader(_TOKENS.findall(text)).row(())


class _Reader:
    """Reads tokens one after the other."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens, self._at = tokens, 0

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _since(self, start: int) -> str:
        shown = "".join(self._tokens[start : self._at]).lstrip()
        return shown if shown.endswith("\\ ") else shown.rstrip()

    def row(self, ends: tuple[str, ...]) -> tuple[Box, ...]:
        """Atoms up to one of the ends, which is left."""
        found: list[Box] = []
        while self._peek() and self._peek() not in ends:
            apart = False
            while self._peek().isspace():
                self._next()
                apart = True
            if self._peek() and self._peek() not in ends:
                found.append(self._scripted(apart))
        return tuple(found)

    def _scripted(self, apart: bool) -> Box:
        start = self._at
        box = self._atom()
        after = self._at
        widths = {"^": 0.0, "_": 0.0}
        while True:
            back = self._at
            while self._peek().isspace():
                self._next()
            if self._peek() not in ("^", "_", "'"):
                self._at = back
                break
            mark = self._next()
            widths["^" if mark == "'" else mark] += 3 if mark == "'" else _SCRIPT * width_of(self._argument())
        wide = box.width + max(widths.values())  # also of sums, whose limits stand beside them in text and fractions
        scripts = "".join(self._tokens[after : self._at]).strip()
        return Box(self._since(start), wide, box.kind, box.tall, box.parts, box.fences, scripts, apart)

    def _argument(self) -> tuple[Box, ...]:
        while self._peek().isspace():
            self._next()
        if self._peek() != "{":
            return (self._atom(),) if self._peek() else ()
        self._next()
        found = self.row(("}",))
        self._next()
        return found

    def _raw(self) -> str:
        start, depth = self._at, 0
        while self._peek():
            token = self._next()
            depth += (token == "{") - (token == "}")
            if depth == 0 and not token.isspace():
                break
        return self._since(start).removeprefix("{").removesuffix("}")

    def _atom(self) -> Box:
        start = self._at
        token = self._next()
        if token == "{":
            self._at = start
            inside = self._argument()
            return Box("", width_of(inside), tall=any(b.tall for b in inside))
        if token == r"\left" or _SIZED.match(token):
            return self._fenced(token)
        if token in _OPENING:
            return self._bracketed(token)
        if token in (r"\frac", r"\tfrac", r"\dfrac"):
            return self._fraction(token)
        if token == r"\sqrt":
            if self._peek() == "[":
                while self._next() != "]":
                    pass
            inside = self._argument()
            return Box("", width_of(inside) + 9, "root", any(b.tall for b in inside), (inside,))
        if token == r"\begin":
            return self._matrix()
        if token in _TEXTS:
            words = self._raw()
            kind = "operator" if token == r"\operatorname" else "text" if token == r"\text" else "plain"
            return Box("", _letters(words) + 1.7, kind)
        if token == r"\boxed":
            return Box("", width_of(self._argument()) + 7)
        if token in _ACCENTS:
            inside = self._argument()
            return Box("", width_of(inside) + 0.5, tall=any(b.tall for b in inside))
        return _sign(token)

    def _fenced(self, token: str) -> Box:
        """\\left( … \\right) or \\big( … \\big)."""
        opening = self._next()
        if token != r"\left" and (opening in ("/", "|") or opening not in _OPENING):
            return Box("", 6)
        closing = r"\right" if token == r"\left" else token.replace("l", "r") if token[-1] == "l" else token
        inside = self.row((closing,))
        self._next()
        end = self._next()
        wide = 16 if any(b.tall for b in inside) else 12
        return Box("", width_of(inside) + wide, "group", any(b.tall for b in inside), (inside,), (opening, end))

    def _bracketed(self, opening: str) -> Box:
        back = self._at
        inside = self.row((_OPENING[opening], "}", r"\right"))
        if self._peek() != _OPENING[opening]:  # an interval, or a bracket of prose
            self._at = back
            return _sign(opening)
        end = self._next()
        return Box("", width_of(inside) + 8, "group", any(b.tall for b in inside), (inside,), (opening, end))

    def _fraction(self, token: str) -> Box:
        above, below = self._argument(), self._argument()
        scale = 0.75 if token == r"\tfrac" else 1
        wide = scale * max(width_of(above), width_of(below)) + 3
        return Box("", wide, "plain" if token == r"\tfrac" else "fraction", token != r"\tfrac", (above, below))

    def _matrix(self) -> Box:
        self._raw()
        cells: list[tuple[tuple[Box, ...], ...]] = []
        row: list[tuple[Box, ...]] = []
        while self._peek():
            row.append(self.row(("&", r"\\", r"\end")))
            mark = self._next() if self._peek() else r"\end"
            if mark != "&":
                cells.append(tuple(row))
                row = []
            if mark == r"\end":
                self._raw()
                break
        columns = zip(*cells, strict=False)
        wide = sum(max(map(width_of, column)) + 10 for column in columns) + 8
        return Box("", wide, "matrix", True, tuple(cell for line in cells for cell in line))


def _sign(token: str) -> Box:
    if token in _RELATIONS:
        return Box("", 14, "relation")
    if token in _BINARY:
        return Box("", 7.5 if token == r"\cdot" else 12.5, "binary")
    if token in _SPACES:
        return Box("", _SPACES[token], "space")
    if token in _WORDS:
        return Box("", _WORDS[token] + 1.7, "operator")
    if token in (r"\sum", r"\prod", r"\int", r"\max", r"\min", r"\partial"):
        return Box("", _SIGNS[token], "operator", tall=token != r"\partial")
    if token in (",", ";"):
        return Box("", 4.6, "comma")
    if token in (r"\langle", "|"):
        return Box("", _SIGNS[token], "operator" if token == r"\langle" else "plain")
    if token.startswith("\\"):
        return Box("", _SIGNS.get(token, 6.6))
    return Box("", _SIGNS.get(token, 5.2 if token.isdigit() else _letters(token) + (token.isupper() and 0.8)))


def _letters(text: str) -> float:
    return sum(8.5 if c in "mwMW" else 7.4 if c.isupper() else 3.2 if c in "ijlI.,'!" else 5.4 for c in _shown(text))


def _shown(text: str) -> str:
    return re.sub(r"\\[A-Za-z]+ ?|\\(?=.)|[{}]", lambda m: "x" if len(m[0]) > 2 else "", text)
