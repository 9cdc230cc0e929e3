"""A plan: what a training script sets at each width, so that rates tuned at one width stay right at all."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from fractions import Fraction
from functools import cached_property
from os import PathLike
from typing import Any

from tplimits.errors import EvaluationError, ProgramError
from tplimits.pages import files
from tplimits.pages.report import Report, Reported
from tplimits.program.files.fields import Fields, parse, rational
from tplimits.program.nodes.given import whole_from
from tplimits.torch.scaling import applying, fitting
from tplimits.torch.scaling.naming import Names
from tplimits.torch.scaling.table import ROLES, Deep, Dimension, Row, Size, power, powers, shortened, table

FORMAT = "tplimits plan"


@dataclass(frozen=True)
class Plan(Reported):
    """Powers of n of everything that a script sets, relative to the width `base` where its numbers were found.

    rows: one for each parameter.  output: the power of a factor on the output that no parameter supplies, or 0.
    scores: factors on values inside of the model, by what they are made of.  left: what grows even so.  norm: the power
    of the norm of the whole gradient, which a threshold for clipping it has to follow.

    depth: the depth of the base, None where powers of the depth L were not asked for.  residual: the power of 1/L on
    every block; blocks: the powers of factors on blocks that no weight of theirs can take, by where these end.
    """

    model: str
    optimizer: str
    base: int
    rows: tuple[Row, ...]
    output: Fraction = Fraction(0)
    scores: Mapping[str, Fraction] = None  # type: ignore[assignment]
    left: Mapping[str, Fraction] = None  # type: ignore[assignment]
    norm: Fraction = Fraction(0)
    depth: int | None = None
    residual: Fraction = Fraction(0)
    blocks: Mapping[str, Fraction] = None  # type: ignore[assignment]
    norm_deep: Fraction = Fraction(0)
    names: Names = field(default_factory=Names)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", dict(self.scores or {}))
        object.__setattr__(self, "left", dict(self.left or {}))
        object.__setattr__(self, "blocks", dict(self.blocks or {}))

    @cached_property
    def by_name(self) -> dict[str, Row]:
        """The row of each parameter, under all names."""
        return {name: row for row in self.rows for name in row.names}

    @cached_property
    def by_template(self) -> dict[str, list[Row]]:
        """The rows of each parameter, under all names, with a star for the number of a block."""
        found: dict[str, list[Row]] = {}
        for name, row in self.by_name.items():
            found.setdefault(self.names.template(name), []).append(row)
        return found

    def row(self, name: str) -> Row:
        """The row of a parameter of a model of any depth."""
        return fitting.row_of(self, name)

    def width(self, model: Any) -> int:
        """n of a model.

        Raises EvaluationError where it is not what make(n) builds, and where it is narrower than the base.
        """
        shapes = applying.shapes_of(self, model)
        n, _ = fitting.size_of(self, shapes, self.depth if not self.names.containers else None)
        if n < self.base:
            raise fitting.narrower(self, n)
        return n

    def size(self, model: Any, depth: int | None = None) -> Size:
        """The width and the depth of a model in multiples of the base's.

        depth: what make(n, depth) was called with, where blocks share their weights, so that names do not tell it.

        Raises EvaluationError where it is not what make builds, and where it is smaller than the base.
        """
        return fitting.relative(self, applying.shapes_of(self, model), depth)

    def initialize_(self, model: Any, depth: int | None = None) -> Any:
        """Multiply the entries that make(n) drew by powers of n/base, in place; returns the model.

        At n = base they stay as they are.  A model is changed once, whatever often this is called.  With powers of the
        depth L, weights that close a block take its factor; depth: as in `size`.

        Raises EvaluationError for another model, and for entries that are not those of a new one.
        """
        return applying.initialize(self, model, depth)

    def param_groups(
        self,
        model: Any,
        lr: Any,
        weight_decay: float | None = None,
        eps: float | None = None,
        groups: Any = None,
        depth: int | None = None,
    ) -> Any:
        """Ordinary parameter groups for the optimizer, each with its rate, ε and decay at the model's width.

        lr, weight_decay, eps: those of the base; PyTorch's own where left out.  groups: groups of your own, whose
        rates and decays are those of the base; each is split by role.  depth: as in `size`.  Where the plan has several
        optimizers, the result is {optimizer: groups}, and lr may be {optimizer: rate}.

        Raises EvaluationError for another model, for groups that miss a parameter or hold it twice, and for parameters
        that are trained here and were not where the plan was derived.
        """
        base = {"lr": lr, "weight_decay": weight_decay, "eps": eps}
        return applying.param_groups(self, model, base, groups, depth)

    def attach(self, model: Any, at: str = "") -> Any:
        """Multiply what the model returns by the plan's factor, by a forward hook; returns the hook's handle.

        at: the module that makes the output, "head", where the model returns more than that, such as its loss.  A
        factor written into the model does the same, and is seen by compilers.

        Raises EvaluationError for a module that the model does not have, and where a factor is attached already.
        """
        return applying.attach(self, model, at)

    def multipliers(self, n: int, depth: int | None = None) -> dict[str, float]:
        """The factors at a width that no number of a parameter supplies: on the "output", on scores, and on blocks.

        They are relative to the base: what the model has at n = base is multiplied by them.

        Raises EvaluationError for a width or a depth that is none.
        """
        size = self._asked(n, depth)
        every = {"output": self.output} if self.output else {}
        found = {name: size.to(p, Fraction(0)) for name, p in {**every, **self.scores}.items()}
        return found | {name: size.to(Fraction(0), p) for name, p in self.blocks.items()}

    def clipping(self, n: int, threshold: float, depth: int | None = None) -> float:
        """The threshold for the norm of the whole gradient at a width, given that of the base."""
        return applying.positive("threshold", threshold) * self._asked(n, depth).to(self.norm, self.norm_deep)

    def _asked(self, n: Any, depth: Any) -> Size:
        for what, given in (("n", n), ("depth", 1 if depth is None else depth)):
            whole_from(what, given, 1, EvaluationError)
        return Size(n / self.base, (depth or self.depth or 1) / (self.depth or 1))

    def check(self, make: Any, data: Any, **settings: Any) -> Any:
        """Train models of several widths for a few steps and compare how everything moves with the plan.

        See `tplimits.torch.scaling.checking.check_plan` for the settings.
        """
        from tplimits.torch.scaling.checking import check_plan

        return check_plan(self, make, data, **settings)

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
        for p in sorted(set(self.scores.values())):
            called = [name.removeprefix("scores of ") for name, q in self.scores.items() if q == p]
            lines.append(
                f"scores of {shortened(called)} × {power(p)}: training aligns what they are products of. Write it into "
                "the model (1/d for 1/√d, d the size of a head), and derive the plan again"
            )
        for name, p in self.blocks.items():
            lines.append(
                f"the block that ends with {name} × {power(p, 'L')}: no weight of its own ends it. Write it in"
            )
        if self.depth is not None:
            lines.append(_LAZY if self.residual < 1 else _LEARNING)
        grown = [f"{name} ({power(p)})" for name, p in self.left.items() if p > 0]
        if grown:
            lines.append(f"grows even so: {shortened(grown)}")
        still = [name for name, p in self.left.items() if p < 0]
        if still:
            lines.append(f"does not move: {shortened(still)}")
        frozen = [row.name for row in self.rows if row.role == "frozen"]
        if frozen:
            lines.append(f"not trained: {shortened(frozen)}")
        if self.norm or self.norm_deep:
            lines.append(
                f"a threshold that clips the norm of the whole gradient × {powers((self.norm, self.norm_deep))}"
            )
        return lines

    def __str__(self) -> str:
        deep = "" if self.depth is None else f" and depth {self.depth} (L for L/{self.depth})"
        head = f"{self.model}, {self.optimizer}: factors beside width {self.base} (n stands for n/{self.base}){deep}"
        return "\n".join([head, *(f"  {line}" for line in table(self.rows)), *(f"  {x}" for x in self.conditions)])

    __repr__ = __str__

    def report(self) -> Report:
        """The plan as a table: factors of each parameter, and what is to be known beside it."""
        return Report(
            title=f"Plan of {self.model} under {self.optimizer}",
            answer=str(self).splitlines()[0] + ".",
            text=str(self),
            numbers=tuple(("beside the table", line) for line in self.conditions),
            document=self.to_json(),
        )

    def to_json(self) -> str:
        """The plan as JSON."""
        rows = [
            {
                "names": row.names, "role": row.role, "optimizer": row.optimizer, "shape": [str(d) for d in row.shape],
                "std": row.std, **{k: None if (v := getattr(row, k)) is None else str(v) for k in _POWERS},
                "deep": [str(getattr(row.deep, k)) for k in _DEEP],
            }
            for row in self.rows
        ]  # fmt: skip
        return json.dumps(
            {
                "format": FORMAT, "version": 1, "model": self.model, "optimizer": self.optimizer, "base": self.base,
                "output": str(self.output), "norm": str(self.norm),
                "scores": {k: str(v) for k, v in self.scores.items()},
                "left": {k: str(v) for k, v in self.left.items()}, "rows": rows,
                "depth": self.depth, "residual": str(self.residual), "norm_deep": str(self.norm_deep),
                "blocks": {k: str(v) for k, v in self.blocks.items()},
                "containers": {k: [str(x) for x in pair] for k, pair in self.names.containers.items()},
            },
            indent=1, ensure_ascii=False,
        )  # fmt: skip

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan to a file; `tp.load_plan` reads it, without PyTorch."""
        files.write(files.place_of("path", path), self.to_json() + "\n")


_POWERS = ("started", "initial", "rate", "eps", "decay", "early", "gradient")
_DEEP = tuple(f.name for f in fields_of(Deep))
_LEARNING = "blocks × L^(-1): every block learns, its own change is of order 1"
_LAZY = "blocks × L^(-1/2): the output learns; every single block changes by L^(-1/2)"


def from_json(text: str) -> Plan:
    """The plan that was written as JSON; EvaluationError for anything else."""
    try:
        fields = parse(text, numbers=True)
        fields.one_of("format", (FORMAT,))
        if fields.plain("version") != 1:
            raise ProgramError("a version that is not read.")
        rows = tuple(_row(row) for row in fields.objects("rows", "row", _MOST))
        powers: dict[str, Any] = {key: fields.mapping(key, rational, _MOST) for key in ("scores", "left", "blocks")}
        powers |= {key: rational(fields.text(key), key) for key in ("output", "norm", "residual", "norm_deep")}
        names = Names(fields.mapping("containers", _pair, _MOST))
        depth = None if fields.is_null("depth") else _whole(fields.plain("depth"), "depth")
        base = _whole(fields.plain("base"), "base")
        model, optimizer = fields.text("model"), fields.text("optimizer")
        return Plan(model, optimizer, base, rows, depth=depth, names=names, **powers)
    except ProgramError as problem:
        raise EvaluationError(f"this is no plan: give a file that plan.save(path) wrote ({problem})") from None


#: the most parameters of a plan
_MOST = 1_000_000


def _whole(value: Any, what: str) -> int:
    if type(value) is not int or value < 1:
        raise ProgramError(f"the {what} {value!r:.40}.")
    return value


def _pair(value: Any, where: str) -> tuple[Fraction, Fraction]:
    if not isinstance(value, list) or len(value) != 2:
        raise ProgramError(f"{where}: {value!r:.40} is no pair of fractions.")
    slope, offset = (rational(x, where) for x in value)
    if not slope > 0:
        raise ProgramError(f"{where}: {slope} blocks for each of the depth.")
    return slope, offset


def _row(fields: Fields) -> Row:
    std = fields.plain("std")
    if std is not None and (type(std) not in (int, float) or std < 0):
        raise ProgramError(f"{fields.where}: the standard deviation {std!r:.40}.")
    powers = [None if fields.is_null(k) else rational(fields.text(k), f"{fields.where}, {k}") for k in _POWERS]
    deep = fields.each("deep", rational)
    if len(deep) != len(_DEEP):
        raise ProgramError(f"{fields.where}: {len(deep)} powers of the depth, not {len(_DEEP)}.")
    row = Row(
        fields.texts("names", _MOST), fields.one_of("role", ROLES), fields.text("optimizer"),
        fields.each("shape", _dimension), None if std is None else float(std),
        deep=Deep(*deep), **dict(zip(_POWERS, powers, strict=True)),  # type: ignore[arg-type]
    )  # fmt: skip
    fields.finish()
    return row


def _dimension(value: Any, where: str) -> Dimension:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{1,12}|[0-9]{0,9}n(/[1-9][0-9]{0,8})?", value):
        raise ProgramError(f"{where}: the dimension {value!r:.40}.")
    return Dimension.read(value)
