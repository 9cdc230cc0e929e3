"""PyTorch's optimizer of a plan's rule, and those that PyTorch does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


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
