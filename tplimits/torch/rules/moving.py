"""Axes of operations that only move entries: reshapes, transposes, parts, joins."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tplimits.torch.axes import Axes, dimension, places
from tplimits.torch.graph import Node, Ref, refuse
from tplimits.torch.rules.registry import kept, matched, part, refuse_wide, rule
from tplimits.torch.sizes import Wide


@rule("view", "reshape", "_unsafe_view", "flatten", "unflatten", "view_as", "reshape_as", "squeeze", "unsqueeze")
def view(axes: Axes, node: Node) -> None:
    """Groups of dimensions hold the same entries in the same order."""
    axes.view(node, node.needed("self"))


@rule("permute", "transpose", "t", "movedim", "moveaxis", "swapaxes", "swapdims", "numpy_T", "mT", "adjoint")
def permute(axes: Axes, node: Node) -> None:
    """Dimensions change places."""
    operand = node.needed("self")
    for out, dim in enumerate(order(node, len(axes.of(operand)))):
        axes.same(node, (node.number, 0, out), (operand, 0, dim))


def order(node: Node, rank: int) -> list[int]:
    """The dimension of the operand that each dimension of a permuted result is."""
    dims = list(range(rank))
    if node.op == "permute":
        return [dimension(d, rank) for d in node["dims"]]
    if node.op in ("t", "numpy_T"):
        return dims[::-1]
    if node.op in ("movedim", "moveaxis"):
        source, to = ([v] if isinstance(v, int) else list(v) for v in (node["source"], node["destination"]))
        rest = [d for d in dims if d not in {dimension(s, rank) for s in source}]
        # in the order of their new places: each insertion then meets the dimensions before it
        placed = sorted(zip((dimension(t, rank) for t in to), (dimension(s, rank) for s in source), strict=True))
        for at, d in placed:
            rest.insert(at, d)
        return rest
    names = {"mT": (-2, -1), "adjoint": (-2, -1)}
    given = names.get(node.op) or tuple(
        v for v in (node.arguments[0].get(k) for k in ("dim0", "dim1", "axis0", "axis1")) if v is not None
    )
    a, b = (dimension(d, rank) for d in given)
    dims[a], dims[b] = dims[b], dims[a]
    return dims


@rule("select")
def select(axes: Axes, node: Node) -> None:
    """One entry of a finite dimension."""
    operand = node.needed("self")
    dim = dimension(node["dim"], len(axes.of(operand)))
    refuse_wide(axes, node, operand, dim, "it takes one neuron")
    kept(axes, node, operand, {dim})


@rule("slice", "narrow")
def slice_(axes: Axes, node: Node) -> None:
    """A part of a finite dimension, or of a width between two multiples of n."""
    operand = node.needed("self")
    dims = axes.of(operand)
    dim = dimension(node["dim"] or 0, len(dims))
    matched(axes, node, operand, {dim})
    if not isinstance(dims[dim], Wide):
        return
    if node.op == "slice" and (step := node["step"]) != 1:
        whole = [range(shape[dim])[s:e:step] for shape, s, e in zip(
            axes.graph[operand].shapes, node.get("start"), node.get("end"), strict=True)]  # fmt: skip
        if any(shape[dim] % step or len(r) * step != shape[dim] for r, shape in zip(
            whole, axes.graph[operand].shapes, strict=True)):  # fmt: skip
            refuse(node, f"it takes one neuron of {step}, from a part of a width", "take them from all of it")
        # every step-th neuron of all: the entries between them stay together as inner ones
        axes.product((node.number, 0, dim), step, (operand, 0, dim), 1)
        return
    starts = [s or 0 for s in node.get("start")]
    sizes = [shape[dim] for shape in node.shapes]
    # counted from the end; which multiple of n that is depends on the whole
    starts = [s + axes.graph[operand].shapes[i][dim] if s < 0 else s for i, s in enumerate(starts)]
    part(axes, node, (operand, 0, dim), (node.number, 0, dim), starts, sizes)


@rule("split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk", "tensor_split", "unbind")
def split(axes: Axes, node: Node) -> None:
    """Parts of a dimension one after another; those of a width are multiples of n."""
    operand = node.needed("self")
    dims = axes.of(operand)
    dim = dimension(node["dim"] or 0, len(dims))
    gone = node.op == "unbind"
    if gone:
        refuse_wide(axes, node, operand, dim, "it takes neurons one by one")
    starts = [0] * len(axes.graph.widths)
    for result in range(len(axes.dims[node.number])):
        others = [d for d in range(len(dims)) if d != dim]
        for out, d in enumerate(others if gone else range(len(dims))):
            if d != dim:
                axes.same(node, (node.number, result, out), (operand, 0, d))
        sizes = [0 if gone else shapes[result][dim] for shapes in node.shapes]
        if isinstance(dims[dim], Wide):
            part(axes, node, (operand, 0, dim), (node.number, result, dim), starts, sizes)
        starts = [s + z for s, z in zip(starts, sizes, strict=True)]


@rule("glu")
def gated(axes: Axes, node: Node) -> None:
    """The first half of a dimension times a function of the second one."""
    operand = node.needed("self")
    dims = axes.of(operand)
    dim = dimension(node["dim"], len(dims))
    matched(axes, node, operand, {dim})
    if isinstance(size := dims[dim], Wide):
        axes.part((operand, 0, dim), (node.number, 0, dim), [size.factor / 2])


@rule("getitem")
def item(axes: Axes, node: Node) -> None:
    """One of several results."""
    source, result = node.arguments[0]["0"].node, node.arguments[0]["1"]
    if axes.graph[source].many:
        for dim in range(len(axes.of(node.number))):
            axes.same(node, (node.number, 0, dim), (source, result, dim))


@rule("cat", "concat", "concatenate", "hstack", "vstack")
def cat(axes: Axes, node: Node) -> None:
    """Parts side by side; widths are joined with widths."""
    # a tensor of shape (0,) joins anything, as caches that are empty at first
    many = [r for r in places(node.arguments[0]["tensors"]) if axes.of(r) != (0,)]
    dims = axes.of(node.number)
    dim = dimension(node.arguments[0].get("dim") or 0, len(dims))
    dim = {"hstack": min(1, len(dims) - 1), "vstack": 0}.get(node.op, dim)
    starts = [0] * len(axes.graph.widths)
    for r in many:
        matched(axes, node, r, {dim})
        sizes = [shape[dim] for shape in axes.graph[r].shapes]
        if isinstance(dims[dim], Wide):
            if not isinstance(axes.of(r)[dim], Wide):
                refuse(node, f"it joins {sizes[0]} entries to a width", "widths are joined with widths")
            part(axes, node, (node.number, 0, dim), (r, 0, dim), starts, sizes)
        starts = [s + z for s, z in zip(starts, sizes, strict=True)]


@rule("stack")
def stack(axes: Axes, node: Node) -> None:
    """Tensors along a new dimension."""
    new = dimension(node["dim"] or 0, len(axes.of(node.number)))
    for r in places(node.arguments[0]["tensors"]):
        for d in range(len(axes.of(r))):
            axes.same(node, (node.number, 0, d + (d >= new)), (r, 0, d))


@rule("repeat", "tile")
def repeat(axes: Axes, node: Node) -> None:
    """Copies one after another: pieces of a width, and entries that stay together where n copies are made of them."""
    operand = node.needed("self")
    dims, out = axes.of(operand), axes.of(node.number)
    ahead = len(out) - len(dims)
    for d, size in enumerate(dims):
        copies = (node.number, 0, d + ahead)
        if out[d + ahead] == size:
            axes.same(node, copies, (operand, 0, d))
        elif isinstance(size, Wide):
            grown = [shape[d + ahead] for shape in node.shapes]
            sizes = [shape[d] for shape in axes.graph[operand].shapes]
            for k in range(grown[0] // sizes[0]):
                part(axes, node, copies, (operand, 0, d), [k * s for s in sizes], sizes)
        elif isinstance(out[d + ahead], Wide):
            axes.together(copies, size)


@rule("repeat_interleave")
def repeat_interleave(axes: Axes, node: Node) -> None:
    """Copies of each entry beside it: along a width, entries that stay together."""
    operand = node.needed("self")
    dims = axes.of(operand)
    times = node.arguments[0].get("repeats")
    if not isinstance(times, int) or node["dim"] is None:
        refuse(node, "it repeats entries by a tensor", "give one whole number, and dim=")
    dim = dimension(node["dim"], len(dims))
    matched(axes, node, operand, {dim})
    if isinstance(dims[dim], Wide):
        axes.product((operand, 0, dim), times, (node.number, 0, dim), 1)


@rule("im2col")
def patches(axes: Axes, node: Node) -> None:
    """The entries of each window behind their channel."""
    operand = node.needed("self")
    axes.same(node, (node.number, 0, 0), (operand, 0, 0))
    if isinstance(axes.of(operand)[1], Wide):
        axes.product((operand, 0, 1), prod(node["kernel_size"]), (node.number, 0, 1), 1)


@rule("col2im")
def folded(axes: Axes, node: Node) -> None:
    """Windows, the entries of which stand behind their channel, as an image."""
    operand = node.needed("self")
    channel = len(axes.of(operand)) - 2
    matched(axes, node, operand, {channel, channel + 1})
    if isinstance(axes.of(operand)[channel], Wide):
        axes.product((operand, 0, channel), 1, (node.number, 0, channel), prod(node["kernel_size"]))


@rule("flip", "roll", "index_select", "gather", "index", "unfold", "constant_pad_nd", "pad", "tril", "triu", "cumsum",
      "diagonal", "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d",
      "cumprod", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle")  # fmt: skip
def finite_only(axes: Axes, node: Node) -> None:
    """Operations along finite dimensions: widths stay as they are, and where they are."""
    operand = node.needed("self")
    if node.op in ("pixel_shuffle", "pixel_unshuffle", "channel_shuffle"):
        return _shuffled(axes, node, operand)
    dims = axes.of(operand)
    touched = _touched(node, dims)
    wide = [d for d, s in enumerate(dims) if isinstance(s, Wide)]
    if node.op in ("constant_pad_nd", "pad") and node.arguments[0].get("mode") in (None, "constant"):
        for d in [d for d in wide if d in touched]:  # zeros of other neurons beside: those are a multiple of n
            before = [p[2 * (len(dims) - 1 - d)] for p in node.get("pad")]
            sizes = [shape[d] for shape in axes.graph[operand].shapes]
            part(axes, node, (node.number, 0, d), (operand, 0, d), before, sizes)
            touched.discard(d)
            wide.remove(d)
    for d in wide:
        if d in touched:
            refuse(
                node, f"it works along a width of {axes.graph[operand].shapes[0][d]} neurons", "neurons have no order"
            )
    if node.op == "index":
        ahead = _indexed(axes, node, dims)
        for d in wide:
            axes.same(node, (node.number, 0, ahead(d)), (operand, 0, d))
        return None
    for d in wide:
        to = d if node.op != "diagonal" else d - sum(t < d for t in touched)
        axes.same(node, (node.number, 0, to), (operand, 0, d))
    return None


def _touched(node: Node, dims: tuple[Any, ...]) -> set[int]:
    rank = len(dims)
    if node.op in ("constant_pad_nd", "pad"):
        padded = node.get("pad")
        return {rank - 1 - i for i in range(len(padded[0]) // 2) if any(p[2 * i] or p[2 * i + 1] for p in padded)}
    if node.op.startswith(("reflection", "replication")):
        return {rank - 1 - i for i in range(len(node["padding"]) // 2)}
    if node.op in ("tril", "triu"):
        return {rank - 2, rank - 1}
    if node.op == "diagonal":
        return {dimension(node["dim1"], rank), dimension(node["dim2"], rank)}
    if node.op == "index":
        return {d for d, i in enumerate(node.arguments[0]["indices"]) if isinstance(i, Ref)}
    named = next((node.arguments[0].get(k) for k in ("dim", "dims", "dimension") if k in node.arguments[0]), None)
    if named is None:
        refuse(node, "it works along all dimensions", "give dim=")
    return {dimension(d, rank) for d in ([named] if isinstance(named, int) else named)}


def _indexed(axes: Axes, node: Node, dims: tuple[Any, ...]) -> Callable[[int], int]:
    """Where the dimensions that an index leaves alone are in the result."""
    indices = node.arguments[0]["indices"]
    used = [d for d, i in enumerate(indices) if isinstance(i, Ref)]
    rank = max(len(axes.of(indices[d].node)) for d in used)
    together = used == list(range(used[0], used[-1] + 1))
    # as NumPy: indices that stand apart send their dimensions to the front
    start = used[0] if together else 0
    left = [d for d in range(len(dims)) if d not in used]

    def to(d: int) -> int:
        at = left.index(d)
        return at if at < start else at + rank

    return to


def _shuffled(axes: Axes, node: Node, operand: int) -> None:
    """Channels (c, r, r) that become positions, positions that become channels, or groups of channels interleaved."""
    rank = len(axes.of(operand))
    if node.op == "channel_shuffle":  # (groups, c) becomes (c, groups)
        matched(axes, node, operand, {1})
        if isinstance(axes.of(operand)[1], Wide):
            axes.grid((operand, 0, 1), node["groups"])
            axes.product((operand, 0, 1), node["groups"], (node.number, 0, 1), 1)
        return
    factor = node["upscale_factor" if node.op == "pixel_shuffle" else "downscale_factor"] ** 2
    ends = (1, factor) if node.op == "pixel_shuffle" else (factor, 1)
    if isinstance(axes.of(operand)[rank - 3], Wide):
        axes.product((operand, 0, rank - 3), ends[0], (node.number, 0, rank - 3), ends[1])
    matched(axes, node, operand, {rank - 3, rank - 2, rank - 1})
