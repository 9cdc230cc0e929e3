"""Room for the recursion of long chains: brackets of a deep program lean on each other, layer by layer."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tplimits.errors import TplimitsError

#: frames allowed while a derivation is made or read; the interpreter's own limit is 1000
_FRAMES = 12_000


@contextlib.contextmanager
def deep(name: str, error: type[TplimitsError]) -> Iterator[None]:
    """Raise the recursion limit for a while; what still does not fit becomes a clear error."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    except RecursionError:
        raise error(
            f"`{name}` is too deep: its brackets lean on each other through too many layers. Shorten the program, or "
            "evaluate it by particles."
        ) from None
    finally:
        sys.setrecursionlimit(before)
