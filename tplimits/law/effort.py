"""How much a derivation may take: room for deep ones, and what was read, counted and not timed."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sympy import Expr

if TYPE_CHECKING:
    from tplimits.errors import TplimitsError

#: frames allowed while a derivation is made or read; the interpreter's own limit is 1000
_FRAMES = 12_000
#: objects made before unreachable cycles are looked for: expressions are kept, and going through all of them again
#: and again takes a fifth of a derivation
_OBJECTS = 100_000


@contextlib.contextmanager
def deep(name: str, error: type[TplimitsError]) -> Iterator[None]:
    """Raise the recursion limit for a while; what still does not fit becomes a clear error."""
    frames, (objects, *generations) = sys.getrecursionlimit(), gc.get_threshold()
    sys.setrecursionlimit(max(frames, _FRAMES))
    if objects:  # 0: the user has switched the collector off
        gc.set_threshold(max(objects, _OBJECTS), *generations)
    try:
        yield
    except RecursionError:
        raise error(
            f"`{name}` is too deep: its brackets lean on each other through too many layers. Shorten the program, or "
            "evaluate it by particles."
        ) from None
    except OverflowError as problem:
        raise error(
            f"`{name}` holds numbers that are too large to compute with ({problem}): bring its constants nearer to 1."
        ) from None
    finally:
        sys.setrecursionlimit(frames)
        gc.set_threshold(objects, *generations)


#: a fraction with a denominator of so many bits counts as one node more
_BITS = 1024


class TooMuch(Exception):
    """A derivation has read more than it was given."""


@dataclass
class Effort:
    """Nodes of expressions that were read so far, and the most that may be; None: any number."""

    most: int | None = None
    spent: int = 0

    def read(self, expr: Expr) -> None:
        """Count an expression, written out; TooMuch as soon as it is too much."""
        if self.most is None:
            return
        stack = [expr]
        while stack:
            node = stack.pop()
            self.spent += 1
            if node.is_Rational:  # long fractions: their common divisors take time like the square of their length
                self.spent += (node.q.bit_length() // _BITS) ** 2
            if self.spent > self.most:
                raise TooMuch
            stack.extend(node.args)
