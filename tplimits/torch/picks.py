"""Indices that data give: which dimensions they choose from, and the 0 and 1 that say what is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from tplimits.torch.axes import dimension
from tplimits.torch.graph import Node, Ref

if TYPE_CHECKING:
    from tplimits.torch.analysis import Analysed

#: operations whose indices may be data of the inputs
PICKING = ("index", "index_select", "gather", "index_add", "scatter_add")
#: what repeats an index along more dimensions without changing it
_REPEATED = ("expand", "expand_as", "broadcast_to")


@dataclass(frozen=True)
class Picks:
    """Dimensions `dims` of the given sizes are chosen from by the data nodes `numbers`.

    shape: that of the indices.  sums: whether entries come by a sum with 0 and 1, as inputs choose them; indices that
    are known move entries.
    """

    numbers: tuple[int, ...]
    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    sums: bool

    def ones(self, known: Mapping[int, Any]) -> Any:
        """1 at (…, p, q, …) where the indices at … are p, q, …; shape: that of the indices, then the sizes."""
        chosen = torch.zeros((), dtype=torch.int64)
        every = 1
        for size in self.sizes:
            every *= size
        for number, size in zip(self.numbers, self.sizes, strict=True):
            chosen = chosen * size + known[number].long() % size
        chosen = chosen.expand(self.shape)
        return torch.nn.functional.one_hot(chosen, every).double().reshape(*chosen.shape, *self.sizes)


def picks_of(found: Analysed, node: Node) -> Picks | None:
    """What an operation chooses, or None where its indices are no data."""
    axes, given = found.axes, node.arguments[0]
    dims = axes.of(node.needed("self"))
    if node.op == "index":
        pairs = [(d, i.node) for d, i in enumerate(given["indices"]) if isinstance(i, Ref)]
    else:
        pairs = [(dimension(node["dim"], len(dims)), node.needed("index"))]
    numbers = []
    for _, number in pairs:
        while number not in found.data and found.graph[number].op in _REPEATED:
            number = found.graph[number].needed("self")
        if number not in found.data:
            return None
        numbers.append(number)
    shape = torch.broadcast_shapes(*(found.graph[number].shapes[0] for number in numbers))
    if node.op in ("gather", "scatter_add"):
        shape = (1,) * (len(dims) - len(shape)) + tuple(shape)
    chosen = tuple(d for d, _ in pairs)
    sums = any(number in found.varying for number in numbers) or node.op in ("index_add", "scatter_add")
    sizes = tuple(found.graph[node.needed("self")].shapes[0][d] for d in chosen)
    return Picks(tuple(numbers), chosen, sizes, tuple(shape), sums)
