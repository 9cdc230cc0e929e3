"""Lines that repeat with growing numbers, as layers of a network do, written once.

What is rolled is proved: every line of a run is the pattern with its numbers a + b·ℓ at that ℓ, so that `unrolled`
gives back the lines that went in.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

#: a run spares at least so many lines
_SPARED = 4
#: a whole number; decimals are text
_NUMBER = re.compile(r"(?<!\d)(?<!\d\.)\d+(?!\d*\.\d)")
#: names of a program that are used again: x, x#2, x#3
_AGAIN = re.compile(r"([^\W\d][\w.]*)#\d")
#: where a name ends, or its time begins: x_t, x_{t+1}
_BEHIND = r"(?=_[ts0](?!\w)|_\{|[^\w.#]|$)"
_FIRST = re.compile(r"#1(?!\d)")
#: an index of nothing but a growing number
_ALONE = re.compile(r"\[\(([^()\[\]]*ℓ)\)\]")
#: lines of a screen, and signs of a line that holds several
SCREEN = 60
_WIDE = 200


@dataclass(frozen=True)
class Rolled:
    """Lines for ℓ = 0, …, times − 1: texts between numbers, and of each number the first one and its growth."""

    times: int
    pattern: tuple[tuple[tuple[str, ...], tuple[tuple[int, int], ...]], ...]

    def lines(self) -> Iterator[str]:
        """The pattern, numbers that grow as (a+bℓ)."""
        for texts, numbers in self.pattern:
            yield _ALONE.sub(r"[\1]", _joined(texts, [_growing(a, b) for a, b in numbers]))

    @property
    def opening(self) -> str:
        """What ℓ runs over; and what x#1 means, where it is needed."""
        ends = [min(a, a + b * (self.times - 1)) for _, numbers in self.pattern for a, b in numbers]
        names = [t for texts, numbers in self.pattern for t in texts[: len(numbers)]]
        first = [n for n, end in zip(names, ends, strict=True) if end == 1 and n.endswith("#")]
        means = f", {_name(first[0])}#1 is {_name(first[0])}" if first else ""
        return f"for ℓ = 0, …, {self.times - 1}{means}:"

    def unrolled(self) -> Iterator[str]:
        """Every line."""
        for i in range(self.times):
            for texts, numbers in self.pattern:
                yield _FIRST.sub("", _joined(texts, [str(a + b * i) for a, b in numbers]))


def rolled(lines: Sequence[str], fewest: int = 3) -> list[str | Rolled]:
    """The lines, runs of at least so many layers once."""
    counted = _counted(lines)
    shapes = [tuple(_NUMBER.split(line)) for line in counted]
    numbers = [tuple(map(int, _NUMBER.findall(line))) for line in counted]
    exact = [all(str(int(n)) == n for n in _NUMBER.findall(line)) for line in counted]
    found: list[str | Rolled] = []
    done = 0
    for start, period, length in sorted(segments(shapes, fewest)):
        first, times = _even(numbers, start, period, length)
        if (times - 1) * period < _SPARED or not all(exact[first : first + times * period]):
            continue
        layers = [numbers[first + j : first + j + period + 1 : period] for j in range(period)]
        grow = (tuple((a, b - a) for a, b in zip(*pair, strict=True)) for pair in layers)
        found += [*lines[done:first], Rolled(times, tuple(zip(shapes[first : first + period], grow, strict=True)))]
        done = first + times * period
    return [*found, *lines[done:]]


def table(rows: Sequence[tuple[str, str]], width: int, full: bool = False) -> Iterator[str]:
    """Rows of two columns, the first so wide; layers that repeat once unless `full`."""
    for line in rolled_lines(["  " + "\t".join(row) for row in rows], len(rows) + 1 if full else 3):
        left, tab, right = line.partition("\t")
        inside = len(line) - len(line.lstrip())
        yield f"{left:<{inside + width}} {right}".rstrip() if tab else line


def rolled_sum(terms: Sequence[str]) -> str:
    """A sum, a run of terms that is its whole written once.

    >>> rolled_sum([f"|d{3 * i}⟩⟨x{i}|" for i in range(6)]), rolled_sum(["a", "b"])
    ('Σ_{ℓ=0…5} |d(3ℓ)⟩⟨xℓ|', 'a + b')
    """
    found = rolled(terms)
    if len(found) == 1 and isinstance(found[0], Rolled) and len(found[0].pattern) == 1:
        return f"Σ_{{ℓ=0…{found[0].times - 1}}} {next(found[0].lines())}"
    return " + ".join(terms)


def rolled_lines(lines: Sequence[str], fewest: int = 3) -> Iterator[str]:
    """Lines two spaces in, so many layers that repeat once under a line that says so."""
    for item in rolled(lines, fewest):
        if isinstance(item, Rolled):
            yield f"  {item.opening}"
            yield from (f"  {line}" for line in item.lines())
        else:
            yield item


def screen(head: Sequence[str], rows: Sequence[str], full: bool = False) -> list[str]:
    """A text of a screen's length where it can be: repeated layers of its rows once, then short rows together.

    >>> lines = [f"  |{c}⟩ = {'sin cos tan'.split()[ord(c) % 3]}" for c in "abcadbeacfbdacgabhcdaeb" * 2 + "cab" * 6]
    >>> len(screen(["title"], lines)), len(screen(["title"], lines, full=True))
    (51, 65)
    """
    if full or len(head) + len(rows) <= SCREEN:
        return [*head, *rows]
    shown = list(rolled_lines(rows))
    return [*head, *(shown if len(head) + len(shown) <= SCREEN else together(shown))]


def together(lines: Sequence[str]) -> list[str]:
    """Lines of one depth beside each other, as far as they fit."""
    found: list[str] = []
    for line in lines:
        before = found[-1] if found else ":"
        alike = _depth(line) == _depth(before) and not any(x.endswith(":") for x in (line, before))
        if alike and len(before) + len(line) <= _WIDE:
            found[-1] += f";   {line.lstrip()}"
        else:
            found.append(line)
    return found


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _counted(lines: Sequence[str]) -> list[str]:
    """With x as x#1 where there is an x#2 or another, so that a first layer reads as the others do."""
    names = {name for line in lines for name in _AGAIN.findall(line)}
    if not names or any(_FIRST.search(line) for line in lines):
        return list(lines)
    bare = re.compile(rf"(?<![\w.#])({'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))}){_BEHIND}")
    return [bare.sub(r"\1#1", line) for line in lines]


def _name(text: str) -> str:
    """The name at the end of a text, which ends in #."""
    return re.findall(r"[\w.]+", text[:-1])[-1]


def _even(numbers: Sequence[tuple[int, ...]], start: int, period: int, length: int) -> tuple[int, int]:
    """Where the longest run of a stretch starts whose numbers grow evenly, and how many layers it has."""
    last = start + length - period
    steps = [tuple(b - a for a, b in zip(numbers[i], numbers[i + period], strict=True)) for i in range(start, last)]
    best, begun = (start, 1), 0
    for i in range(len(steps)):
        if i - begun >= period and steps[i] != steps[i - period]:
            begun = i - period + 1
        times = (i + 1 - begun) // period + 1
        if times > best[1]:
            best = (start + begun, times)
    return best


def _joined(texts: Sequence[str], numbers: Sequence[str]) -> str:
    return "".join(part for pair in zip(texts, [*numbers, ""], strict=True) for part in pair)


def _growing(first: int, step: int) -> str:
    if step == 0:
        return str(first)
    size = "" if abs(step) == 1 else str(abs(step))
    if first == 0 and step > 0:
        return f"{size}ℓ" if not size else f"({size}ℓ)"
    return f"({first}{'+' if step > 0 else '−'}{size}ℓ)"


def segments(shapes: Sequence[Hashable], fewest: int) -> list[tuple[int, int, int]]:
    """Disjoint stretches (start, period, length) in which shapes repeat so often at least, the longest first taken."""
    numbers: dict[Hashable, int] = {}
    ids = [numbers.setdefault(s, len(numbers)) for s in shapes]
    found = []
    for period in range(1, len(ids) // fewest + 1):
        start = 0
        for i in range(len(ids) - period + 1):
            if i + period < len(ids) and ids[i] == ids[i + period]:
                continue
            length = i - start + period
            if length >= fewest * period:
                found.append((start, period, length))
            start = i + 1
    taken: list[tuple[int, int, int]] = []
    for start, period, length in sorted(found, key=lambda s: (-(s[2] // s[1] - 1) * s[1], s[1])):
        if all(start + length <= a or a + n <= start for a, _, n in taken):
            taken.append((start, period, length))
    return taken
