"""The models of a coordinate check, which differ in width or depth, what a plan says of them, and their optimizers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as trees

from tplimits.errors import CheckError
from tplimits.torch.exporting import module_of
from tplimits.torch.rows import first_output
from tplimits.torch.scaling.applying import named

if TYPE_CHECKING:
    from tplimits.torch.scaling.plan import Plan
    from tplimits.torch.scaling.table import Row

#: stands for the number of the last block
LAST = "last"


def _times(factor: float) -> Callable[..., Any]:
    """A hook that multiplies what a check looks at, the first tensor of numbers, beside which models return losses."""

    def times(_: Any, __: Any, result: Any) -> Any:
        leaves, spec = trees.tree_flatten(result)
        first = next((i for i, x in enumerate(leaves) if x is first_output(result)), None)
        return trees.tree_unflatten([factor * x if i == first else x for i, x in enumerate(leaves)], spec)

    return times


@dataclass(frozen=True)
class Family:
    """Models that grow: in width at the depth of the base, or in depth at its width."""

    plan: Plan
    make: Callable[..., Any]
    deep: bool

    def __post_init__(self) -> None:
        if self.deep and self.plan.depth is None:
            raise CheckError("depths=…: the plan has no powers of the depth: tp.scaling(make, …, depth=…).")

    @property
    def growing(self) -> str:
        """The letter of what grows."""
        return "L" if self.deep else "n"

    def model(self, size: int) -> Any:
        """A model of a size, as make builds it, in evaluation."""
        n = self.plan.base if self.deep else size
        depth = size if self.deep else self.plan.depth
        model = module_of(self.make if depth is None else lambda n: self.make(n, depth), n)
        found = self.plan.width(model)
        if found != n:
            raise CheckError(f"make({n}) builds a model of the width {found}: give the make(n) of the plan.")
        return model

    def prepared(self, model: Any, size: int, lr: Any) -> list[Any]:
        """The optimizers of a model trained as planned."""
        plan = self.plan
        depth = None if plan.names.containers else size if self.deep else plan.depth
        plan.initialize_(model, depth)
        if plan.output:
            model.register_forward_hook(_times(plan.multipliers(plan.width(model))["output"]))
        return optimizers_of(plan.optimizer, plan.param_groups(model, lr=lr, weight_decay=0.0, depth=depth))

    def wide(self, model: Any) -> dict[str, list[int]]:
        """The dimensions of each parameter that grow with n."""
        rows = {name: self.plan.row(name) for name in named(self.plan, model)}
        return {name: [d for d, size in enumerate(row.shape) if size.ratio] for name, row in rows.items()}

    def shown(self, every: Mapping[tuple[str, str, int], float], model: Any) -> dict[tuple[str, str, int], float]:
        """What is compared: all but tables, which return their own entries; over depth the output, values outside of
        blocks, and parameters of the first and the last block."""
        tables = {name for name, module in model.named_modules() if isinstance(module, torch.nn.Embedding)}
        found = {
            key: size for key, size in every.items()
            if key[0] not in ("value", "kernel") or key[1].partition(" (call")[0] not in tables
        }  # fmt: skip
        if not self.deep:
            return found
        names = self.plan.names
        last: dict[str, int] = {}
        for _, name, _ in found:
            prefix, number = names.place(name)
            last[prefix] = max(last.get(prefix, 0), number or 0)
        kept = {}
        for (kind, name, t), size in found.items():
            prefix, number = names.place(name)
            inside = number is not None or any(name == p.rstrip(".") for p in names.containers)
            if kind == "score" or (kind in ("value", "kernel") and (inside or not names.containers)):
                continue
            if number in (None, 0):
                kept[kind, name, t] = size
            elif number == last[prefix]:
                kept[kind, names.template(name).replace("*", LAST, 1), t] = size
        return kept

    def row(self, name: str) -> Row:
        """The row of a parameter that is shown."""
        return self.plan.row(name.replace(LAST, "0", 1) if self.deep else name)

    def is_told(self, key: tuple[str, str, int], by_size: Mapping[int, Sequence[float]]) -> bool:
        """Whether something is to be judged: zeros at the start are natural, what is frozen does not move."""
        kind, name, _ = key
        row = self.row(name) if kind in ("image", "norm", "entries") else None
        if row is not None and (row.role in ("frozen", "unused") or (kind == "entries" and row.started is None)):
            return False
        return kind in ("image", "norm") or all(min(many) > 0 for many in by_size.values())

    def counted(self, kind: str, name: str) -> Fraction:
        """The power that the plan gives."""
        if kind in ("value", "kernel"):
            return (2 if kind == "kernel" else 1) * self._returned(name)
        if kind not in ("image", "norm", "entries"):
            return Fraction(0)
        row = self.row(name)
        if self.deep:
            return row.deep.initial if kind == "entries" else row.deep.moved
        matrix = sum(1 for d in row.shape if d.ratio) == 2
        # updates of matrices have low rank: entries are n^(−½) smaller, what they do n^½ larger than of random ones
        return row.initial + (Fraction({"image": 1, "norm": -1}.get(kind, 0), 2) if matrix else 0)

    def _returned(self, name: str) -> Fraction:
        """The power of what a module returns: of order 1, unless it is made by readouts that no sum follows yet, as u
        is in u·v."""
        own = f"{name.partition(' (call')[0]}."
        rows = (
            [] if self.deep else [r for r in self.plan.rows if any(x.rpartition(".")[0] + "." == own for x in r.names)]
        )
        wide = [[d for d, size in enumerate(row.shape) if size.ratio] for row in rows]
        return max((r.initial for r, d in zip(rows, wide, strict=True) if d == [0]), default=Fraction(0))

    @property
    def begins_small(self) -> bool:
        """Whether the first steps of every trained parameter are smaller than late ones."""
        trained = [row for row in self.plan.rows if row.role not in ("frozen", "unused")]
        return not self.deep and all(row.early < 0 for row in trained)

    def early(self, name: str) -> Fraction:
        """How much smaller the first steps of a parameter are than late ones."""
        return Fraction(0) if self.deep else self.row(name).early


class Lion(torch.optim.Optimizer):
    """w ← (1 − ηλ) w − η sign(β1 m + (1 − β1) g), m ← β2 m + (1 − β2) g; the sign of g alone for β = 0."""

    def __init__(
        self, params: Any, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(torch.sign(first * mean + (1 - first) * p.grad), alpha=-group["lr"])
                mean.mul_(second).add_(p.grad, alpha=1 - second)


def _adafactor(groups: Any, **settings: Any) -> Any:
    return torch.optim.Adafactor([{k: v for k, v in g.items() if k != "eps"} for g in groups], **settings)


#: makers of optimizers by the names of rules
MAKERS: dict[str, Callable[..., Any]] = {
    "sgd": torch.optim.SGD,
    "momentum": lambda groups: torch.optim.SGD(groups, momentum=0.9),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "nadam": torch.optim.NAdam,
    "nadam decoupled": lambda groups: torch.optim.NAdam(groups, decoupled_weight_decay=True),
    "adamax": torch.optim.Adamax,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "adadelta": torch.optim.Adadelta,
    "lion": Lion,
    "sign": lambda groups: Lion(groups, betas=(0.0, 0.0)),
    "adafactor": _adafactor,
    "muon": torch.optim.Muon,
    "muon matching adamw": lambda groups: torch.optim.Muon(groups, adjust_lr_fn="match_rms_adamw"),
}


def optimizers_of(optimizer: str, groups: Any) -> list[Any]:
    """The optimizers of a plan's groups, a list or a dictionary by optimizer."""
    if isinstance(groups, dict):
        return [MAKERS[name](many) for name, many in groups.items() if many]
    return [MAKERS[optimizer](groups)]
