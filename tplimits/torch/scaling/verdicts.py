"""What a coordinate check found, in words, as a picture and as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tplimits.pictures.coordinates import plot_coordinates
from tplimits.regimes.classification.finite.judging import AGREES, GROWS, OPEN, VANISHES
from tplimits.torch.scaling.table import power


@dataclass(frozen=True)
class Measured:
    """One size: its power of n at the start (step 0), or of its change since after a number of steps.

    kind: "entries" and "image" of a parameter, "value" of a module, "score", "f".  certain: whether the verdict would
    be the same with twice the error.
    """

    kind: str
    name: str
    step: int
    counted: Fraction
    measured: float
    error: float
    sizes: tuple[float, ...]
    verdict: str
    certain: bool = True

    @property
    def is_alarm(self) -> bool:
        """Whether it grows or vanishes beside what was counted."""
        return self.verdict in (GROWS, VANISHES)

    @property
    def about(self) -> str:
        """What is measured."""
        called = f"`{self.name}`" if self.name != "f" else "f"
        if self.kind == "entries":
            return f"the initial entries of {called}"
        if self.step == 0:
            return f"{called} at the start"
        return f"the change of {called} after {self.step} step" + ("s" if self.step > 1 else "")

    def __str__(self) -> str:
        if self.measured == -math.inf:
            return f"{self.about} is 0, counted n^{self.counted}"
        if self.measured == math.inf:
            return f"{self.about} is not finite"
        return f"{self.about} goes like n^{self.measured:.2f} ± {self.error:.2f}, counted n^{self.counted}"


@dataclass(frozen=True)
class CoordinateReport:
    """Measured powers beside counted ones, and what follows.

    A check that is passed is necessary, not sufficient, for rates to stay right as the model is widened.
    """

    model: str
    optimizer: str
    widths: tuple[int, ...]
    rows: tuple[Measured, ...]
    planned: bool = True

    @property
    def alarms(self) -> tuple[Measured, ...]:
        """What grows or vanishes beside the plan: causes first, which are parameters and scores."""
        order = {"entries": 0, "image": 1, "score": 2, "value": 3, "f": 4}
        found = [row for row in self.rows if row.is_alarm]
        return tuple(sorted(found, key=lambda row: order[row.kind]))

    @property
    def undecided(self) -> tuple[Measured, ...]:
        """What would take more widths or seeds."""
        return tuple(row for row in self.rows if row.verdict == OPEN)

    @property
    def accepted(self) -> bool:
        """Whether nothing grows or vanishes that should not."""
        return not self.alarms

    @property
    def blamed(self) -> tuple[str, ...]:
        """The parameters and scores that are not as they should be; where there are none, the first module."""
        found = dict.fromkeys(row.name for row in self.alarms if row.kind in ("entries", "image", "score"))
        return tuple(found) or tuple(dict.fromkeys(row.name for row in self.alarms))[:1]

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.accepted:
            said = f"`{self.model}` moves as counted at the widths {', '.join(map(str, self.widths))}"
            more = f"; {len(self.undecided)} sizes would take more widths or seeds" if self.undecided else ""
            return f"{said}{more}. This is necessary for rates to carry over, not sufficient."
        return f"`{self.model}` does not move as counted: {'; '.join(self._causes())}."

    def _causes(self) -> list[str]:
        causes = []
        for name in self.blamed:
            rows = [row for row in self.alarms if row.name == name]
            first = rows[0]
            causes.append(f"{first}: {_repair(first)}")
        return causes

    def plot(self, path: str | Path | None = None) -> Any:
        """A picture: a panel for each value, sizes against n, the counted power as a line; needs Matplotlib."""
        return plot_coordinates(self.widths, self.rows, path)

    def to_json(self) -> str:
        """The check as JSON."""
        rows = [
            {k: str(v) if isinstance(v, Fraction) or (isinstance(v, float) and math.isinf(v)) else v
             for k, v in asdict(row).items()}
            for row in self.rows
        ]  # fmt: skip
        return json.dumps(
            {"format": "tplimits coordinate check", "model": self.model, "optimizer": self.optimizer,
             "widths": self.widths, "accepted": self.accepted, "sentence": self.sentence, "rows": rows},
            indent=1, ensure_ascii=False,
        )  # fmt: skip

    def __str__(self) -> str:
        lines = [self.sentence]
        lines += [f"  {row}" for row in self.alarms[:12]]
        if len(self.alarms) > 12:
            lines.append(f"  … ({len(self.alarms)} in all)")
        agreeing = sum(row.verdict == AGREES for row in self.rows)
        return "\n".join([*lines, f"  {agreeing} of {len(self.rows)} sizes go as counted"])

    __repr__ = __str__


def _repair(row: Measured) -> str:
    """What a script would change."""
    if row.kind == "score":
        return "divide by the size of a head, not by its root, where heads grow with n"
    if row.measured == -math.inf:
        return "no optimizer moves it"
    if row.kind == "entries":
        return f"its standard deviation is to go like {power(row.counted)}"
    apart = row.measured - float(row.counted)
    if row.kind == "image":
        return f"its rate is too {'large' if apart > 0 else 'small'} by about n^{abs(apart):.1f}"
    return "the first module that is not as counted"
