"""A plan: what a training script sets at each width, so that rates tuned at one width stay right at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from os import PathLike
from typing import Any

from tplimits.errors import EvaluationError
from tplimits.pages import files
from tplimits.torch.scaling import applying
from tplimits.torch.scaling.table import Dimension, Row, power, shortened, table, width_of

FORMAT = "tplimits plan"


@dataclass(frozen=True)
class Plan:
    """Powers of n of everything that a script sets, relative to the width `base` where its numbers were found.

    rows: one for each parameter.  output: the power of a factor on the output that no parameter supplies, or 0.
    scores: factors on values inside of the model, by what they are made of.  left: what grows even so.  norm: the power
    of the norm of the whole gradient, which a threshold for clipping it has to follow.
    """

    model: str
    optimizer: str
    base: int
    rows: tuple[Row, ...]
    output: Fraction = Fraction(0)
    scores: Mapping[str, Fraction] = None  # type: ignore[assignment]
    left: Mapping[str, Fraction] = None  # type: ignore[assignment]
    norm: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", dict(self.scores or {}))
        object.__setattr__(self, "left", dict(self.left or {}))

    @cached_property
    def by_name(self) -> dict[str, Row]:
        """The row of each parameter, under all names."""
        return {name: row for row in self.rows for name in row.names}

    # -- use ----------------------------------------------------------------------------------

    def width(self, model: Any) -> int:
        """n of a model.

        Raises EvaluationError where it is not what make(n) builds, and where it is narrower than the base.
        """
        n = width_of(self.rows, applying.shapes_of(model))
        if n < self.base:
            raise EvaluationError(
                f"the model has the width {n}, the base is {self.base}: what was tuned at a width is carried to wider "
                "models. Derive the plan with a smaller base."
            )
        return n

    def initialize_(self, model: Any) -> Any:
        """Multiply the entries that make(n) drew by powers of n/base, in place; returns the model.

        At n = base they stay as they are.  A model is changed once, whatever often this is called.

        Raises EvaluationError for another model, and for entries that are not those of a new one.
        """
        return applying.initialize(self, model)

    def param_groups(
        self,
        model: Any,
        lr: Any,
        weight_decay: float | None = None,
        eps: float | None = None,
        groups: Any = None,
    ) -> Any:
        """Ordinary parameter groups for the optimizer, each with its rate, ε and decay at the model's width.

        lr, weight_decay, eps: those of the base; PyTorch's own where left out.  groups: groups of your own, whose
        rates and decays are those of the base; each is split by role.  Where the plan has several optimizers, the
        result is {optimizer: groups}, and lr may be {optimizer: rate}.

        Raises EvaluationError for another model, and for groups that miss a parameter or hold it twice.
        """
        return applying.param_groups(self, model, lr, weight_decay, eps, groups)

    def attach(self, model: Any) -> Any:
        """Multiply what the model returns by the plan's factor, by a forward hook; returns the hook's handle.

        A factor written into the model does the same, and is seen by compilers.
        """
        return applying.attach(self, model)

    def multipliers(self, n: int) -> dict[str, float]:
        """The factors at a width that no number of a parameter supplies: on the "output", and on scores."""
        every = {"output": self.output} if self.output else {}
        return {name: (n / self.base) ** float(p) for name, p in {**every, **self.scores}.items()}

    def clipping(self, n: int, threshold: float) -> float:
        """The threshold for the norm of the whole gradient at a width, given that of the base."""
        return float(threshold * (n / self.base) ** float(self.norm))

    def check(self, make: Any, data: Any, **settings: Any) -> Any:
        """Train models of several widths for a few steps and compare how everything moves with the plan.

        See `tplimits.torch.scaling.checking.check_plan` for the settings.
        """
        from tplimits.torch.scaling.checking import check_plan

        return check_plan(self, make, data, **settings)

    # -- text ---------------------------------------------------------------------------------

    @property
    def table(self) -> str:
        """A line for each role."""
        return "\n".join(table(self.rows))

    @property
    def conditions(self) -> list[str]:
        """What has to be in the model besides, and what grows even so."""
        lines = []
        if self.output:
            lines.append(
                f"the output × {power(self.output)}: no readout of its own supplies it (a tied embedding, or none). "
                "Write it into the model, or plan.attach(model)"
            )
        for name, p in self.scores.items():
            lines.append(
                f"{name} × {power(p)}: training aligns what they are products of. Write it into the model (1/d for "
                "1/√d, d the size of a head), and derive the plan again"
            )
        grown = [f"{name} ({power(p)})" for name, p in self.left.items() if p > 0]
        if grown:
            lines.append(f"grows even so: {shortened(grown)}")
        still = [name for name, p in self.left.items() if p < 0]
        if still:
            lines.append(f"does not move: {shortened(still)}")
        frozen = [row.name for row in self.rows if row.role == "frozen"]
        if frozen:
            lines.append(f"not trained: {shortened(frozen)}")
        if self.norm:
            lines.append(f"a threshold that clips the norm of the whole gradient × {power(self.norm)}")
        return lines

    def __str__(self) -> str:
        head = (
            f"{self.model}, {self.optimizer}: factors at width n beside width {self.base} (n stands for n/{self.base})"
        )
        return "\n".join([head, *(f"  {line}" for line in table(self.rows)), *(f"  {x}" for x in self.conditions)])

    __repr__ = __str__

    # -- files --------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The plan as JSON."""
        rows = [
            {
                "names": row.names, "role": row.role, "optimizer": row.optimizer, "shape": [str(d) for d in row.shape],
                "std": row.std, **{k: _text(getattr(row, k)) for k in _POWERS},
            }
            for row in self.rows
        ]  # fmt: skip
        return json.dumps(
            {
                "format": FORMAT, "version": 1, "model": self.model, "optimizer": self.optimizer, "base": self.base,
                "output": str(self.output), "norm": str(self.norm),
                "scores": {k: str(v) for k, v in self.scores.items()},
                "left": {k: str(v) for k, v in self.left.items()}, "rows": rows,
            },
            indent=1, ensure_ascii=False,
        )  # fmt: skip

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan to a file; `tp.load_plan` reads it, without PyTorch."""
        files.write(files.place_of("path", path), self.to_json() + "\n")


_POWERS = ("started", "initial", "rate", "eps", "decay", "early")


def _text(value: Fraction | None) -> str | None:
    return None if value is None else str(value)


def from_json(text: str) -> Plan:
    """The plan that was written as JSON; EvaluationError for anything else."""
    try:
        found = json.loads(text)
        if found["format"] != FORMAT or found["version"] != 1:
            raise ValueError
        rows = tuple(
            Row(
                tuple(map(str, r["names"])), str(r["role"]), str(r["optimizer"]),
                tuple(map(Dimension.read, r["shape"])),
                None if r["std"] is None else float(r["std"]),
                *(None if r[k] is None else Fraction(r[k]) for k in _POWERS),  # type: ignore[arg-type]
            )
            for r in found["rows"]
        )  # fmt: skip
        powers = {k: {str(n): Fraction(p) for n, p in found[k].items()} for k in ("scores", "left")}
        return Plan(
            str(found["model"]), str(found["optimizer"]), int(found["base"]), rows, Fraction(found["output"]),
            norm=Fraction(found["norm"]), **powers,
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as problem:
        raise EvaluationError("this is no plan: give a file that plan.save(path) wrote.") from problem
