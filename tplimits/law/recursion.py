"""Room for long derivations: brackets of a deep program lean on each other, layer by layer, and nearly all stays."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

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
    finally:
        sys.setrecursionlimit(frames)
        gc.set_threshold(objects, *generations)
