"""Modules and their graphs in double precision: casts to single precision are left out on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def doubled(value: Any) -> Any:
    """Numbers in double precision; anything else as it is."""
    return value.double() if torch.is_tensor(value) and value.is_floating_point() else value


class _WithoutCasts(TorchDispatchMode):
    """Every operation that is asked for single precision gives double precision."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {k: torch.float64 if v is torch.float32 else v for k, v in (kwargs or {}).items()}
        args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        return func(*args, **kwargs)


@contextmanager
def without_casts() -> Iterator[None]:
    """What is computed inside is computed in double precision, also where a model asks for less."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _WithoutCasts():
            yield
    finally:
        torch.set_default_dtype(before)
