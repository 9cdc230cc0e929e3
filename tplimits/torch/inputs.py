"""What a program takes from the inputs of its model: numbers, indices of tables, and choices of positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from tplimits.program.language.annotations import Kind
from tplimits.torch.axes import dimension
from tplimits.torch.graph import Node, Ref, refuse
from tplimits.torch.sizes import Wide
from tplimits.torch.tensors import Dim

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


#: operations that look up rows of a table
TABLES = ("embedding", "embedding_bag", "_embedding_bag")


@dataclass(frozen=True, eq=False)
class Inputs:
    """The arguments that data give.

    numbers, lookups: {argument: data node}, read as numbers or as the rows of a table.  chosen: {argument: what indices
    choose}, a tensor of zeros and ones.  indices: {(node of the indices, node of the table): argument}.  picked:
    {operation: argument}.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    lookups: dict[str, int] = field(default_factory=dict)
    chosen: dict[str, Picks] = field(default_factory=dict)
    indices: dict[tuple[int, int], str] = field(default_factory=dict)
    picked: dict[int, str] = field(default_factory=dict)

    @property
    def nodes(self) -> dict[str, int]:
        """The data node of each argument that is one."""
        return {**self.lookups, **self.numbers}


def read(found: Analysed) -> set[int]:
    """The nodes that the program itself reads: what data make of data is evaluated before."""
    nodes = (node for node in found.graph if node.number in found.graph.needed - found.data)
    return {r for node in nodes for r in node.refs} | set(found.graph.outputs)


def inputs_of(found: Analysed, kinds: dict[str, Kind]) -> Inputs:
    """What a program takes from inputs; the kinds of its arguments are put beside those of the weights."""
    graph, varying = found.graph, found.varying
    given = Inputs()
    for node in graph:
        if node.number in found.data or node.number not in graph.needed:
            continue
        if node.op in TABLES and node.ref("indices") in varying:
            at, table = node.needed("indices"), node.needed("weight")
            key = _put(kinds, graph[at].name, data_kind(found, at, index_of=_rows(found, table)))
            given.lookups[key], given.indices[at, table] = at, key
        elif node.op in PICKING and (picks := picks_of(found, node)) and set(picks.numbers) & varying:
            sizes = [s for s in (*picks.shape, *picks.sizes) if s > 1]
            key = _put(kinds, f"{graph[picks.numbers[-1]].name}_chosen", Kind("Input", axis_names(sizes)))
            given.chosen[key], given.picked[node.number] = picks, key
    for number in sorted(read(found) & varying):
        readers = (r for r in graph.readers.get(number, ()) if r not in found.data)
        if any(_as_number(found, reader, number) for reader in readers):
            key = _put(kinds, graph[number].name, data_kind(found, number))
            given.numbers[key] = number
    return given


def _as_number(found: Analysed, reader: int, number: int) -> bool:
    """Whether a node reads another one as numbers, not as indices."""
    node = found.graph[reader]
    if node.op in TABLES:
        return node.ref("indices") != number and node.ref("offsets") != number
    if node.op in PICKING:
        return number in (node.ref("self"), node.ref("source"), node.ref("src"))
    readers = found.graph.readers.get(reader, ())
    if node.op.startswith(("expand", "broadcast_to")) and readers:  # an index along dimensions that it does not know
        return any(_as_number(found, r, reader) for r in readers)
    return True


def _put(kinds: dict[str, Kind], name: str, kind: Kind) -> str:
    """The argument of a kind, under a name that no other kind has."""
    while name in kinds and kinds[name] != kind:
        name += "_"
    kinds[name] = kind
    return name


def _rows(found: Analysed, table: int) -> str:
    size = found.axes.of(table)[0]
    if size == 1:
        refuse(found.graph[table], "it is a table with one row", "use the row itself")
    return f"row{size}"


def data_kind(found: Analysed, number: int, index_of: str | None = None) -> Kind:
    """The kind of an argument that is a data node."""
    dims = tuple(Dim(s) for s in found.axes.of(number) if not isinstance(s, Wide))
    return Kind("Input", axes_of(found, number, dims), index_of)


def axes_of(found: Analysed, number: int, dims: tuple[Dim, ...]) -> tuple[str, ...]:
    """The finite axes of a node; the first one of a table is that of its rows."""
    graph = found.graph
    table = any(graph[r].op in TABLES and graph[r].ref("weight") == number for r in graph.readers.get(number, ()))
    return axis_names([s for d in dims for s in d.finite if s > 1], table)


def axis_names(sizes: list[int], table: bool = False) -> tuple[str, ...]:
    """Names of axes by their sizes."""
    taken: Counter[int] = Counter()
    axes = []
    for i, s in enumerate(sizes):
        if table and i == 0:
            axes.append(f"row{s}")
            continue
        taken[s] += 1
        axes.append(f"d{s}" if taken[s] == 1 else f"d{s}_{taken[s]}")
    return tuple(axes)


def set_sizes(trace: Any, value: Any, sizes: list[int]) -> None:
    """Tell a trace the sizes of an argument's axes."""
    for axis, size in zip(value.axes, sizes, strict=True):
        trace.set_size(axis, size)
    index_of = getattr(value, "of", None)
    if index_of is not None:
        trace.declare(index_of)


def tensors_of(given: Inputs, arguments: Mapping[str, Any], writer: Any) -> dict[int, Any]:
    """The zeros and ones of each operation that chooses, as tensors."""
    found = {}
    for number, key in given.picked.items():
        picks, value = given.chosen[key], arguments[key]
        dims = [Dim(s) for s in (*picks.shape, *picks.sizes)]
        left = list(value.axes)
        found[number] = writer.tensor(value, dims, [left.pop(0) if d.outer > 1 else None for d in dims])
    return found
