"""Whether the first dimension of an example counts inputs: then a program sees one of them at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as trees

from tplimits.torch.exporting import module_of

#: how far the outputs of one input may be from those of the same input in a batch, relative to the largest
CLOSE = 1e-4


def first_output(result: Any) -> Any:
    """The first tensor of numbers that a module returns."""
    leaves, _ = trees.tree_flatten(result)
    return next((leaf for leaf in leaves if torch.is_tensor(leaf) and leaf.is_floating_point()), None)


def one_row(make: Callable[[int], Any], example: tuple[Any, ...], n: int) -> tuple[tuple[Any, ...], bool]:
    """The example with its first row alone, and True, where rows do not see each other; else as it is, and False.

    Rows are run one by one and together.  A batch of one is doubled for that.
    """
    tensors = [x for x in example if torch.is_tensor(x)]
    if not tensors or any(x.ndim == 0 for x in tensors) or len({len(x) for x in tensors}) != 1:
        return example, False
    count = len(tensors[0])
    many = example if count > 1 else tuple(torch.cat([x, x]) if torch.is_tensor(x) else x for x in example)
    module = module_of(make, n)
    try:
        with torch.no_grad():
            together = first_output(module(*many))
            alone = [first_output(module(*_row(many, i))) for i in range(min(2, len(_first(many))))]
    except Exception:  # a model that takes no other number of rows has no rows
        return example, False
    rows = len(_first(many))
    if (
        together is None
        or together.ndim == 0
        or len(together) != rows
        or any(a.ndim == 0 or len(a) != 1 for a in alone)
    ):
        return example, False
    scale = float(together.abs().max()) or 1.0
    apart = max(float((together[i] - a[0]).abs().max()) for i, a in enumerate(alone))
    return (_row(example, 0), True) if apart <= CLOSE * scale else (example, False)


def _row(example: tuple[Any, ...], i: int) -> tuple[Any, ...]:
    return tuple(x[i : i + 1] if torch.is_tensor(x) else x for x in example)


def _first(example: tuple[Any, ...]) -> Any:
    return next(x for x in example if torch.is_tensor(x))
