"""The traced function's own names for its values, read while it runs.

The interpreter reports every step of the traced frame; a local variable that now holds something
else has just been bound.  This works for loops, rebinding and code without source (exec).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any


class LocalNames:
    """While active, calls `on_bind(name, value)` for every binding of a local of the first frame of `code`.

    >>> def f():
    ...     a = 1
    ...     a = 2
    >>> with LocalNames(f.__code__, print):
    ...     f()
    a 1
    a 2
    """

    def __init__(self, code: CodeType, on_bind: Callable[[str, Any], None]) -> None:
        self._code, self._on_bind = code, on_bind
        self._frame: FrameType | None = None
        self._known: dict[str, Any] = {}
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
            self._known = dict(frame.f_locals)
            self._outer_step = self._outer(frame, event, arg) if self._outer is not None else None
            return self._on_step
        return self._outer(frame, event, arg) if self._outer is not None else None

    def _on_step(self, frame: FrameType, event: str, arg: Any) -> Any:
        for name, value in frame.f_locals.items():
            if name not in self._known or self._known[name] is not value:
                self._known[name] = value
                self._on_bind(name, value)
        if self._outer_step is not None and event != "opcode":
            self._outer_step = self._outer_step(frame, event, arg)
        return self._on_step
