"""How entries that indices choose are written: known indices move entries, those of an input are sums with 0 and 1."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from tplimits.program.language import entrywise as heads
from tplimits.program.language.operations import constant
from tplimits.torch.graph import Node, refuse
from tplimits.torch.inputs import picks_of
from tplimits.torch.operations.contracting import letters
from tplimits.torch.operations.entrywise import plus
from tplimits.torch.operations.moving import known, move
from tplimits.torch.operations.registry import operation
from tplimits.torch.tensors import Tensor, spread

if TYPE_CHECKING:
    from tplimits.torch.lowering import Lowering


@operation("index", "index_select", "gather")
def chosen(low: Lowering, node: Node) -> Tensor:
    """Entries at places that data say."""
    picks = picks_of(low.found, node)
    if picks is None:
        refuse(node, "its indices are computed from weights", "indices are data")
    if not picks.sums and not (node.op == "gather" and low.found.axes.wide(node.needed("index"))):
        return move(low, node)
    x = low.operand(node, "self")
    own = letters(len(x.dims))
    taken = "".join(own[d] for d in picks.dims)
    one, at = _ones(low, node, picks, own, taken)
    rest = "".join(c for c in own if c not in taken)
    if node.op == "gather":
        return replace(low.contract([(one, at + taken), (x, own)], at), dims=low.dims(node.number))
    first = picks.dims[0] if list(picks.dims) == list(range(picks.dims[0], picks.dims[-1] + 1)) else 0
    found = low.contract([(one, at + taken), (x, own)], rest[:first] + at + rest[first:])
    return replace(found, dims=low.dims(node.number))


def _ones(low: Lowering, node: Node, picks: Any, own: str, taken: str) -> tuple[Tensor, str]:
    """The tensor that is 1 where an index points to an entry, and the letters of the indices."""
    one = low.picked[node.number] if node.number in low.picked else low.fixed(picks.ones(low.data))
    count = len(one.dims) - len(taken)
    if node.op in ("index", "index_select", "index_add"):
        return one, letters(count, "\x89")
    # an index for each entry: it shares the letters of all dimensions but the one that it counts
    return one, "".join("\x7f" if c == taken else c for c in own)


@operation("index_add", "scatter_add")
def added(low: Lowering, node: Node) -> Tensor:
    """self + Σ of what is sent to each position."""
    picks = picks_of(low.found, node)
    if picks is None:
        refuse(node, "its indices are computed from weights", "indices are data")
    whole, source = low.operand(node, "self"), low.operand(node, "source" if node.op == "index_add" else "src")
    dims = low.dims(node.number)
    own = letters(len(dims))
    taken = own[picks.dims[0]]
    one, at = _ones(low, node, picks, own, taken)
    sent = own.replace(taken, at if node.op == "index_add" else "\x7f")
    found = replace(low.contract([(one, at + taken), (source, sent)], own), dims=dims)
    return plus(low, [(1, whole), (low.literal(node, "alpha") if "alpha" in node.arguments[0] else 1, found)], dims)


@operation("select_scatter", "slice_scatter", "index_put")
def overwritten(low: Lowering, node: Node) -> Tensor:
    """A tensor with some positions taken by another: each is 0 where the other stands."""
    name = "values" if node.op == "index_put" else "src"
    dims = low.dims(node.number)
    if node.arguments[0].get("accumulate"):
        refuse(node, "it adds to what is there", "write it by index_add")
    whole, source = low.operand(node, "self"), low.operand(node, name)
    atoms = low.writer.atoms
    # the operation itself is run on the numbers of entries, once with those of each tensor and −1 for the other
    shapes = {"self": [d.size(atoms) for d in whole.dims], name: [d.size(atoms) for d in source.dims]}
    terms = []
    for key, tensor in (("self", whole), (name, source)):

        def on(code: Any, key: str = key) -> Any:
            parts = {k: torch.full(s, -1, dtype=torch.int64) for k, s in shapes.items()}
            others = {k: known(low, v) for k, v in node.arguments[0].items() if k not in shapes}
            return node.target(**{**parts, key: code}, **others)

        if not (isinstance(tensor.value, (int, float)) and tensor.value == 0):
            terms.append((1, low.move(node, tensor, dims, on)))
    return plus(low, terms, dims)


@operation("copy", "fill")
def copied(low: Lowering, node: Node) -> Tensor:
    """A tensor that is another one, or a number, everywhere."""
    return low.broadcast(low.operand(node, "src" if node.op == "copy" else "value"), low.dims(node.number))


@operation("embedding_bag", "_embedding_bag")
def bag(low: Lowering, node: Node) -> list[Tensor]:
    """Sums or means of the rows that each bag holds."""
    if node["mode"] not in (0, 1):
        refuse(node, "it takes the largest of rows", "use mode='mean' or 'sum'")
    if node.ref("per_sample_weights") is not None:
        refuse(node, "its rows have weights", "multiply the rows of an Embedding")
    weight, indices = low.operand(node, "weight"), low.index(node)
    starts = low.data.get(node.needed("offsets"))
    at = low.found.graph[node.needed("indices")]
    dims = (*low.dims(at.number), *weight.dims[1:])
    if starts is None:
        refuse(node, "its bags have lengths that inputs say", "give indices of two dimensions")
    seen = _seen(low, node, weight)
    if seen is not None:
        weight = low.entrywise(lambda w, m: w * m, [weight, spread(seen, weight.dims, [0])], weight.dims)
    rows = _rows(low, node, weight, indices, dims)
    count, bags = dims[0].outer, low.dims(node.number)[0].outer
    # offsets are where bags begin: an index belongs to the last that begins at or before it
    member = torch.searchsorted(starts[:bags].contiguous(), torch.arange(count), right=True) - 1
    share = torch.nn.functional.one_hot(member, bags).double()
    found = low.contract([(rows, "ab"), (low.fixed(share), "ac")], "cb")
    if node["mode"] == 1:
        # an empty bag is 0, as PyTorch has it, and not 0/0
        many = low.fixed(share.sum(0).clamp(min=1))
        if seen is not None:
            kept = low.contract([(_rows(low, node, seen, indices, dims[:1]), "a"), (low.fixed(share), "ac")], "c")
            many = low.entrywise(lambda m: heads.maximum(m, 1), [kept], kept.dims)
        found = low.entrywise(lambda x, m: x / m, [found, spread(many, found.dims, [0])], found.dims)
    return [found]


def _rows(low: Lowering, node: Node, table: Tensor, indices: Any, dims: Any) -> Tensor:
    """The rows of a table at indices."""
    if torch.is_tensor(indices):
        return low.move(node, table, dims, lambda code: code[indices])
    return low.looked_up(table, indices, dims)


def _seen(low: Lowering, node: Node, weight: Tensor) -> Tensor | None:
    """1 for each row of a table, and 0 for the one that bags leave out; None where there is none."""
    pad = node.arguments[0].get("padding_idx")
    if pad is None or pad < 0:
        return None
    axis = next(a for a, t in weight.tables.items() if t.shape[0] > 1)
    ones = [float(i != pad) for i in range(weight.dims[0].outer)]
    return low.writer.tensor(constant(ones, axes=(axis,)), weight.dims[:1], [axis])


@operation("cdist")
def distances(low: Lowering, node: Node) -> Tensor:
    """√Σ (x − y)² of each row of x and each row of y."""
    if node["p"] != 2.0:
        refuse(node, f"its distances are of order {node['p']}", "distances of order 2 are sums")
    x, y = low.operand(node, "x1"), low.operand(node, "x2")
    if node.ref("x1") == node.ref("x2"):
        refuse(node, "it takes distances of rows to themselves", "the root of 0 has no derivative: use squares")
    dims = low.dims(node.number)
    rank, wide = len(dims), (*dims, x.dims[-1])
    x = spread(x, wide, [*range(rank - len(x.dims), rank - 1), rank])
    y = spread(y, wide, [*range(rank - len(y.dims), rank - 2), rank - 1, rank])
    square = low.entrywise(lambda p, q: (p - q) ** 2, [x, y], wide)
    total = low.reduce(square, {rank}, False)
    return low.entrywise(heads.sqrt, [total], total.dims)
