"""Initial entries that depend on one another: copies, symmetric and orthogonal matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from unittest.mock import patch

import torch

from tplimits.torch.exporting import quietly

#: relative rounding of entries in single precision
ROUNDING = 1e-4
#: fewer entries than this may agree by chance, as signs do
FEW = 8


def dependent(make: Callable[[int], Any], names: Iterable[str], n: int) -> dict[str, str]:
    """What of the start is not independent, by parameter, in words; seen in two models of one width."""
    many = []
    with torch.random.fork_rng(devices=()):
        for seed in range(2):
            torch.manual_seed(seed)
            with patch.object(torch, "manual_seed"):
                module = quietly(make, n)
            tensors = dict(module.named_parameters(remove_duplicate=False))
            many.append({k: tensors[k].detach().double() for k in names if k in tensors})
    first, second = many
    drawn = [k for k, v in first.items() if v.numel() >= FEW and v.std() > 0 and not torch.equal(v, second[k])]
    found: dict[str, str] = {}
    seen: dict[tuple[float, ...], str] = {}
    for name in drawn:
        key = tuple(float(x) for x in torch.sort(first[name].abs().ravel())[0][:FEW])
        other = seen.setdefault(key, name)
        if other != name and first[other].numel() == first[name].numel():
            found[name] = f"starts with the numbers of `{other}`"
        elif _is_orthogonal(first[name]):
            found[name] = "starts orthogonal"
        elif _is_symmetric(first[name]):
            found[name] = "starts symmetric"
    return found


def _is_symmetric(w: Any) -> bool:
    if w.ndim != 2 or w.shape[0] != w.shape[1]:
        return False
    return bool(min(float((w - w.T).abs().max()), float((w + w.T).abs().max())) <= ROUNDING * float(w.abs().max()))


def _is_orthogonal(w: Any) -> bool:
    if w.ndim < 2 or w.shape[0] < 2:
        return False
    w = w.reshape(w.shape[0], -1)
    w = w if w.shape[0] <= w.shape[1] else w.T
    if w.shape[0] < 2:
        return False
    gram = w @ w.T
    size = float(gram.diagonal().mean())
    return bool((gram - size * torch.eye(len(gram), dtype=gram.dtype)).abs().max() <= ROUNDING * size)
