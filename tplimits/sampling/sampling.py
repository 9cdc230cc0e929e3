"""What every check is asked for beside its claims: how networks are drawn, and the numbers that are given to them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tplimits.errors import CheckError, shown
from tplimits.program.nodes.given import by_name, seed_number, working_executor

if TYPE_CHECKING:
    from tplimits.progress import Progress


@dataclass(frozen=True)
class Sampling:
    """Networks of finite width as they are to be drawn and judged; None lets the check choose.

    `widths` are those sampled at, `draws` the number of networks at all or at each of them, `level` bounds the
    probability to reject any of the claims when all are true; batches of draws run on `executor`.

    Raises CheckError for a seed, a level or an executor that is none.
    """

    widths: Sequence[int] | None = None
    draws: int | Sequence[int] | None = None
    seed: int = 0
    level: float = 1e-2
    executor: Executor | None = None
    progress: Progress = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", seed_number(self.seed, CheckError))
        object.__setattr__(self, "level", _probability(self.level))
        working_executor(self.executor, CheckError)


@dataclass(frozen=True)
class Given:
    """Numbers for what a program leaves open: constants, scalars and sizes by name, and `ratios` of widths to n.

    Raises CheckError for what is no mapping from names.
    """

    constants: Mapping[str, Any] = field(default_factory=dict)
    ratios: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "constants", by_name(self.constants, "constants", CheckError))
        object.__setattr__(self, "ratios", by_name(self.ratios, "ratios", CheckError))


def _probability(level: Any) -> float:
    try:
        value = float(level)
    except Exception:  # the code of users
        value = math.nan
    if not 0 < value < 1:
        raise CheckError(f"level={shown(level)}: the level is a probability between 0 and 1, such as 0.01.")
    return value
