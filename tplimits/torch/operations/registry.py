"""How each operation is written, by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: of what is written so far (`Lowering`) and a node: one tensor, or a list where the operation has several results
Written = Callable[[Any, Any], Any]
OPERATIONS: dict[str, Written] = {}


def operation(*names: str) -> Callable[[Written], Written]:
    """Register how operations are written."""

    def registered(function: Written) -> Written:
        OPERATIONS.update(dict.fromkeys(names, function))
        return function

    return registered
