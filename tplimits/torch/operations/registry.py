"""How each operation is written, by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tplimits.torch.graph import Node
from tplimits.torch.lowering import Lowering

#: one tensor, or a list where the operation has several results
Written = Callable[[Lowering, Node], Any]
OPERATIONS: dict[str, Written] = {}


def operation(*names: str) -> Callable[[Written], Written]:
    """Register how operations are written."""

    def registered(function: Written) -> Written:
        OPERATIONS.update(dict.fromkeys(names, function))
        return function

    return registered
