"""What the zoo knows of a program: itself, and its docstring taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: the parts of a docstring after its first line, each a paragraph that starts with its name and a colon
PARTS = ("Limit", "Symbols", "Reference")
#: a part that most do without: finite axes that go to infinity with the width
INFINITE = "Infinite"


@dataclass(frozen=True)
class ZooEntry:
    """A ready program with one line about it, the formula of its limit, the symbols in it, and a reference."""

    program: Program
    summary: str
    limit: str
    symbols: str
    reference: str
    #: finite axes that go to infinity with the width
    infinite: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name it is asked for by: that of its program."""
        return self.program.name

    @classmethod
    def described(cls, program: Program, text: str) -> ZooEntry:
        """The entry of a program with the docstring `text`.

        The first line is the summary; the limit, the symbols and the reference are paragraphs that begin
        with "Limit:", "Symbols:" and "Reference:", infinite axes one with "Infinite:".  ValueError names a part that
        is missing.
        """
        paragraphs = re.split(r"\n\s*\n", text.strip())
        found = {"Summary": _joined(paragraphs[0])}
        for paragraph in paragraphs[1:]:
            head, colon, rest = paragraph.partition(":")
            if colon and head.strip() in (*PARTS, INFINITE):
                found[head.strip()] = _joined(rest)
        missing = [part for part in PARTS if not found.get(part)]
        if missing or not found["Summary"]:
            raise ValueError(f"the docstring of `{program.name}` lacks {', '.join(missing) or 'its first line'}")
        infinite = tuple(found.get(INFINITE, "").replace(",", " ").split())
        limit, symbols, reference = (found[part] for part in PARTS)
        return cls(program, found["Summary"], limit, symbols, reference, infinite)


def _joined(paragraph: str) -> str:
    return " ".join(paragraph.split())
