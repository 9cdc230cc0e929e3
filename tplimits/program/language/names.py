"""The traced function's own names for its values, read while it runs.

The interpreter reports every step of the traced frame; a local variable that now holds something
else has just been bound.  This works for loops, rebinding and code without source (exec).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Container, Iterator
from types import CodeType, FrameType
from typing import Any


def is_notation(name: str) -> bool:
    """Whether a name would read as something else: a bracket ⟨x|y⟩, an entry x[token=0], or nothing at all.

    >>> is_notation("⟨x|x⟩"), is_notation("x[token=0]"), is_notation("h[1]")
    (True, True, False)
    """
    return bool(re.search(r"[⟨|⟩]|\[[^\]]*=[^\]]*\]$", name)) or name != name.strip()


def free_name(name: str, taken: Container[str], mark: str = "′") -> str:
    """A name that is not taken, like the one wanted.

    >>> free_name("h", {"h", "h′"})
    'h′′'
    """
    while name in taken:
        name += mark
    return name


_UNBOUND = (object(), None)
#: how far into lists of lists names are given
_DEEPEST = 3


def members(value: Any, depth: int = _DEEPEST) -> Iterator[tuple[str, Any]]:
    """What lists, tuples and dicts hold, with their places as they stand in a name.

    >>> list(members([1, {"a": 2}]))
    [('[0]', 1), ('[1][a]', 2)]
    """
    if isinstance(value, dict):
        places = [
            (k, v) for k, v in dict.items(value) if isinstance(k, int) or (isinstance(k, str) and k.isidentifier())
        ]
    else:
        places = list(enumerate(value)) if isinstance(value, (list, tuple)) else []
    for place, member in places:
        if not isinstance(member, (list, tuple, dict)):
            yield f"[{place}]", member
        elif depth > 1:
            yield from ((f"[{place}]{rest}", inner) for rest, inner in members(member, depth - 1))


class LocalNames:
    """While active, calls `on_bind(name, value)` for every binding of a local of the first frame of `code`."""

    def __init__(self, code: CodeType, on_bind: Callable[[str, Any], None]) -> None:
        self._code, self._on_bind = code, on_bind
        self._frame: FrameType | None = None
        self._known: dict[str, tuple[Any, int | None]] = {}  # lists grow while they stay the same object
        self._outer: Any = None  # a debugger or coverage tool that was watching before keeps watching
        self._outer_step: Any = None

    def __enter__(self) -> LocalNames:
        self._outer = sys.gettrace()
        sys.settrace(self._on_call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._outer)
        self._frame, self._outer_step, self._known = None, None, {}

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is self._code and self._frame is None:
            self._frame = frame
            frame.f_trace_opcodes = True
            self._known = {name: (value, None) for name, value in frame.f_locals.items()}
            self._outer_step = self._watched(frame, event, arg)
            return self._on_step
        return self._watched(frame, event, arg)

    def _watched(self, frame: FrameType, event: str, arg: Any) -> Any:
        """What the outer tracer answers to a call; that of coverage puts itself in our place whenever it is called."""
        if self._outer is None:
            return None
        step = self._outer(frame, event, arg)
        sys.settrace(self._on_call)
        return step

    def _on_step(self, frame: FrameType, event: str, arg: Any) -> Any:
        for name, value in frame.f_locals.items():
            length = len(value) if type(value) in (list, dict) else None
            known, before = self._known.get(name, _UNBOUND)
            if known is not value or (length is not None and (length != before or event == "return")):
                self._known[name] = value, length
                self._on_bind(name, value)
        if self._outer_step is not None and event != "opcode":
            self._outer_step = self._outer_step(frame, event, arg)
        return self._on_step
