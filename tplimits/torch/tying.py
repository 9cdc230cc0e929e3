"""One tensor under several names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tplimits.errors import ProgramError


def aliases_of(module: Any, tensors: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """All names of each parameter and buffer: tied ones are one object, whatever a signature says.

    ProgramError for different parameters in one memory: each of them has a gradient, and both are changed by either.
    """
    named = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers())}
    groups: dict[int, list[str]] = {}
    memory: dict[int, str] = {}
    for name in tensors:
        tensor = named.get(name, tensors[name])
        groups.setdefault(id(tensor), []).append(name)
        if getattr(tensor, "requires_grad", False) and tensor.numel():
            first = memory.setdefault(tensor.untyped_storage().data_ptr(), name)
            if id(named.get(first, tensors[first])) != id(tensor):
                raise ProgramError(
                    f"the parameters `{first}` and `{name}` are two tensors in one memory: PyTorch trains each of "
                    "them, and a step of one changes the other; use one parameter, transposed or reshaped in forward."
                )
    return {name: tuple(group) for group in groups.values() for name in group}
