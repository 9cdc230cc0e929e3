"""Models that are made for their small parameters alone: large tensors repeat one block of random numbers.

The entries of a bias of three numbers are known from many models, and nearly all of the time that making one takes is
spent on drawing the entries of its matrices.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

#: random entries that a tensor has of its own
BLOCK = 2**14


class repeated(TorchDispatchMode):
    """Random numbers of large tensors are those of their first entries again and again."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        drawn = torch.Tag.nondeterministic_seeded in func.tags and func.overloadpacket.__name__.endswith("_")
        tensor: Any = args[0] if drawn and args else None
        if not torch.is_tensor(tensor) or tensor.numel() <= BLOCK or not tensor.is_contiguous():
            return func(*args, **given)
        flat = tensor.view(-1)
        func(flat[:BLOCK], *args[1:], **given)
        whole = flat[: flat.numel() // BLOCK * BLOCK].view(-1, BLOCK)
        whole[1:] = whole[0]
        flat[whole.numel() :] = flat[: flat.numel() - whole.numel()]
        return tensor
