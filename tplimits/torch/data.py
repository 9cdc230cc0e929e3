"""What a graph computes from data alone, evaluated by PyTorch itself: masks, positions, tokens, patches of images.

All of it is in double precision: casts to single precision are left out, in graphs and in modules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tplimits.torch.graph import FILLED, Node, Ref, refuse

if TYPE_CHECKING:
    from tplimits.torch.analysis import Analysed


def doubled(value: Any) -> Any:
    """Numbers in double precision; anything else as it is."""
    return value.double() if torch.is_tensor(value) and value.is_floating_point() else value


class _WithoutCasts(TorchDispatchMode):
    """Every operation that is asked for single precision gives double precision."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {k: torch.float64 if v is torch.float32 else v for k, v in (kwargs or {}).items()}
        args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        return func(*args, **kwargs)


#: what makes tensors of numbers in the text of a model
_WRITTEN = (torch.tensor, torch.as_tensor, torch.Tensor.new_tensor)


class _AsWritten(TorchFunctionMode):
    """Numbers in the text of a model have the digits that they have in its graph, those of single precision."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        written = func in _WRITTEN and not (kwargs or {}).get("dtype") and isinstance(args[-1], (float, list, tuple))
        if not written or made.dtype is not torch.float64:
            return made
        return torch.from_numpy(made.numpy().astype(numpy.float32).astype(numpy.float64))  # `float` is a cast left out


@contextmanager
def without_casts() -> Iterator[None]:
    """What is computed inside is computed in double precision, also where a model asks for less."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _WithoutCasts(), _AsWritten():
            yield
    finally:
        torch.set_default_dtype(before)


def evaluated(found: Analysed, example: tuple[Any, ...], at: int = 0) -> dict[int, Any]:
    """The value of every data node on an example, at one width, in double precision."""
    graph, inputs = found.graph, iter(example)
    known: dict[int, Any] = {}
    for node in graph:
        if node.kind == "input":
            given = doubled(next(inputs))
            if node.number in found.data:
                known[node.number] = given
        elif node.number in found.data and node.kind in ("buffer", "constant"):
            known[node.number] = doubled(graph.tensors[at][node.tensor])
        elif node.number in found.data and not node.op.startswith("_assert"):
            known[node.number] = _result(node, known, at)
    return known


def _result(node: Node, known: Mapping[int, Any], at: int) -> Any:
    if node.op in FILLED:
        value = 0.0 if "zeros" in node.op or "empty" in node.op else node.arguments[at].get("fill_value", 1.0)
        kind = torch.float64 if node.dtype.is_floating_point else node.dtype
        return torch.full(node.shapes[at], value, dtype=kind)
    arguments = _read(node.arguments[at], known)
    if node.op == "getitem":
        return arguments["0"][arguments["1"]]
    try:
        with torch.no_grad(), without_casts():
            return node.target(**arguments)
    except Exception as error:  # what PyTorch says of its own operation
        refuse(node, f"its value on data cannot be computed: {error}")


def _read(value: Any, known: Mapping[int, Any]) -> Any:
    if isinstance(value, Ref):
        return known[value.node]
    if isinstance(value, Mapping):
        return {k: _read(v, known) for k, v in value.items()}
    if isinstance(value, list):
        return [_read(v, known) for v in value]
    return value
