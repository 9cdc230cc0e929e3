"""The case of a seed: its kind, and what runs it in a folder of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attack import files
from attack.arguments import arguments
from attack.lines import lines
from attack.names import names

Maker = Callable[[random.Random, Path], Callable[[], Any]]
#: kinds in turn: a hundred seeds hold all of them
KINDS: dict[str, tuple[Maker, int]] = {
    "program": (files.program, 16),
    "array": (files.array, 10),
    "checkpoint": (files.checkpoint, 8),
    "gram": (files.gram, 8),
    "recording": (files.recording, 8),
    "plan": (files.plan, 4),
    "names": (names, 8),
    "arguments": (arguments, 30),
    "lines": (lines, 8),
}
_TURN = [kind for kind, (_, many) in KINDS.items() for _ in range(many)]


def kind_of(seed: int) -> str:
    """Which kind a seed is."""
    return _TURN[seed * 37 % len(_TURN)]


def case(seed: int, place: Path) -> Callable[[], Any]:
    """What runs the case of a seed; `place` is an empty folder."""
    return KINDS[kind_of(seed)][0](random.Random(seed), place)
