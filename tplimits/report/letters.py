r"""Letters that formulas use of themselves, told apart from the names that a user chose.

A constant named m would stand in (1/m) Σ_ν V[αν] beside the number of tokens, one named η beside the learning rate: a
letter that a name is written like gets a tilde, in text and in LaTeX alike.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tplimits.program.nodes.kinds import InitialMatrix
from tplimits.report.latex_names import GREEK, name

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

_TILDE = "\u0303"
#: where characters begin that stand in no text
_PRIVATE = 0xE000
#: signs and words, which are no letters
_SIGNS = r"Σ(?=_)|δ(?=\[)|E(?=[\[□ ])|N(?=\(0)|a(?= )|x(?=\u0304)"
#: and Greek letters, and Latin ones that stand alone
_IN_TEXT = re.compile(rf"{_SIGNS}|(?P<letter>(?:[Α-Ωα-ωϑ]|(?<![A-Za-z])[A-Za-z](?![A-Za-z]))\d*)")
_IN_LATEX = re.compile(r"\\(?:operatorname|mathrm|text|mathcal|bar)(?:\{+[^{}]*\}+| \w)|\\delta_|\\[A-Za-z]+|[A-Za-z]")
_BY_COMMAND = {rf"\{command}": letter for letter, command in GREEK.items()} | {r"\epsilon": "ε"}


class Letters(dict[str, str]):
    r"""How letters are written beside some names, and what else is `known` to be called.

    >>> own = Letters(["m", "alpha"])
    >>> own["m"], own["β"], own.latex(r"\frac{1}{m} V^{\alpha\beta}")
    ('m̃', 'β', '\\frac{1}{\\tilde{m}} V^{\\tilde{\\alpha}\\beta}')
    >>> own.text("b[αβ] of m tokens, a mean over α")
    'b[α̃β] of m̃ tokens, a mean over α̃'
    """

    def __init__(self, names: Iterable[str] = (), known: Mapping[str, str] | None = None) -> None:
        super().__init__(known or {})
        self._taken = frozenset(map(name, names))
        self._chosen: dict[str, str] = {}  # apart from what is known, which callers list

    def __missing__(self, letter: str) -> str:
        if letter not in self._chosen:
            marked = (letter[0] + _TILDE * k + letter[1:] for k in itertools.count())
            self._chosen[letter] = next(self.unused(marked))
        return self._chosen[letter]

    def unused(self, candidates: Iterable[str]) -> Iterator[str]:
        """Those of some letters that no name is written like."""
        return (c for c in candidates if name(c) not in self._taken)

    def numbered(self, letter: str) -> Iterator[str]:
        """The letter, then with numbers from 2, but for what a name is written like."""
        return self.unused(itertools.chain([letter], (f"{letter}{i}" for i in itertools.count(2))))

    def text(self, own: str) -> str:
        """A piece of text that no name of the user stands in."""
        return _IN_TEXT.sub(lambda found: self[found[0]] if found["letter"] else found[0], own)

    def latex(self, own: str) -> str:
        """The same of LaTeX."""
        return _IN_LATEX.sub(self._in_latex, own)

    def _in_latex(self, found: re.Match[str]) -> str:
        letter = _BY_COMMAND.get(found[0], found[0])
        if len(letter) > 1 or self[letter] == letter:
            return found[0]
        alone = found.string[found.start() - 1 : found.start()] in ("_", "^")  # where TeX takes one token
        return f"{{{name(self[letter])}}}" if alone else name(self[letter])


def filled(own: Callable[[str], str], template: str, parts: Sequence[object]) -> str:
    """A template with letters of its own, by `text` or `latex` of some letters, and parts that stay as they are."""
    marks = [chr(_PRIVATE + i) for i in range(len(parts))]
    return own(template.format(*marks)).translate({ord(c): str(part) for c, part in zip(marks, parts, strict=True)})


def bare_names(program: Program) -> set[str]:
    """What stands in formulas of a program by its name alone: constants, widths but for n, axes."""
    parts = (program, *program.parts)
    return {n for p in parts for n in (*p.constants, *p.widths, *p.all_axes)} - {"n"}


def with_scalars(program: Program) -> set[str]:
    """The same, and scalars, which no bars stand around."""
    return bare_names(program) | {s.name for s in program if s.width is None and not isinstance(s, InitialMatrix)}
