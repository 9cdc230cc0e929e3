"""What a coordinate check found, in words, as a picture and as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tplimits.pages.curves import sizes_drawn
from tplimits.pages.report import Report, Reported
from tplimits.pictures.coordinates import plot_coordinates
from tplimits.regimes.classification.finite.judging import AGREES, GROWS, OPEN, VANISHES
from tplimits.torch.scaling.table import power, shortened


@dataclass(frozen=True)
class Measured:
    """One size: its power of n at the start (step 0), or of its change since after a number of steps.

    kind: "entries", "norm" and "image" of a parameter, "value" and "kernel" of a module, "score", "f".  certain:
    whether the verdict would be the same without any error and with twice of it.
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
    #: what grows: the width n, or the depth L
    growing: str = "n"

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
        if self.kind == "kernel":
            called = f"the kernel of {called}"
        if self.kind == "norm":
            called = f"entries of {called}"
        if self.step == 0:
            return f"{called} at the start"
        return f"the change of {called} after {self.step} step" + ("s" if self.step > 1 else "")

    def __str__(self) -> str:
        if self.measured == -math.inf:
            return f"{self.about} is 0, counted {self.growing}^{self.counted}"
        if self.measured == math.inf:
            return f"{self.about} is not finite"
        measured = f"{self.growing}^{self.measured:.2f} ± {self.error:.2f}"
        return f"{self.about} goes like {measured}, counted {self.growing}^{self.counted}"


@dataclass(frozen=True)
class CoordinateReport(Reported):
    """Measured powers beside counted ones, and what follows.

    A check that is passed is necessary, not sufficient, for rates to stay right as the model is widened.
    """

    model: str
    optimizer: str
    widths: tuple[int, ...]
    rows: tuple[Measured, ...]
    growing: str = "n"
    #: scores that the plan asks to be divided, which this check did not see grow
    asked: tuple[str, ...] = ()

    @property
    def alarms(self) -> tuple[Measured, ...]:
        """What grows or vanishes beside the plan: causes first, which are parameters and scores."""
        order = {"entries": 0, "image": 1, "norm": 2, "score": 3, "value": 4, "kernel": 5, "f": 6}
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
        found = dict.fromkeys(row.name for row in self.alarms if row.kind in ("entries", "image", "norm", "score"))
        return tuple(found) or tuple(dict.fromkeys(row.name for row in self.alarms))[:1]

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        sizes = "depths" if self.growing == "L" else "widths"
        if self.accepted:
            said = f"`{self.model}` moves as counted at the {sizes} {', '.join(map(str, self.widths))}"
            more = f"; {len(self.undecided)} sizes would take more widths or seeds" if self.undecided else ""
            if self.asked:
                more += f"; the plan asks for a factor on {shortened(list(self.asked))}, which grow later without it"
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

    def report(self) -> Report:
        """What was found, the sizes that are farthest from what was counted against the width, and all powers."""
        finite = [r for r in self.rows if math.isfinite(r.measured) and all(s > 0 for s in r.sizes)]
        farthest = sorted(finite, key=lambda r: -abs(r.measured - float(r.counted)))[:8]
        sizes = [(f"{'Δ' if r.step else ''}{r.name}", r.sizes) for r in farthest]
        return Report(
            title=f"Coordinate check of {self.model}: {'as counted' if self.accepted else 'not as counted'}",
            answer=self.sentence,
            text=str(self),
            numbers=tuple(
                (r.about, f"{r.growing}^({r.measured:.2f} ± {r.error:.2f}), counted {r.growing}^{r.counted}")
                for r in farthest
            ),
            picture=sizes_drawn(sizes, self.widths, self.growing),
            document=self.to_json(),
        )

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
        return f"its standard deviation is to go like {power(row.counted, row.growing)}"
    apart = row.measured - float(row.counted)
    if row.kind in ("image", "norm"):
        return f"its rate is too {'large' if apart > 0 else 'small'} by about {row.growing}^{abs(apart):.1f}"
    return "the first module that is not as counted"
