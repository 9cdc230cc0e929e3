"""Axes of products: matrices, sums over letters, convolutions, attention."""

from __future__ import annotations

from typing import Any

from tplimits.torch.axes import Axes, places
from tplimits.torch.graph import Node, refuse
from tplimits.torch.rules.registry import matched, rule
from tplimits.torch.sizes import Wide


@rule("linear")
def linear(axes: Axes, node: Node) -> None:
    """The last dimension is contracted with the columns of the weight."""
    x, weight, bias = node.needed("input"), node.needed("weight"), node.ref("bias")
    last = len(axes.of(node.number)) - 1
    matched(axes, node, x, {last})
    rank = len(axes.of(weight))
    axes.same(node, (x, 0, len(axes.of(x)) - 1), (weight, 0, rank - 1))
    if rank == 2:
        axes.same(node, (node.number, 0, last), (weight, 0, 0))
    if bias is not None:
        axes.broadcast(node, bias)


#: what the two factors of a product are called
FACTORS = {
    "matmul": ("self", "other"), "mm": ("self", "mat2"), "bmm": ("self", "mat2"), "mv": ("self", "vec"),
    "dot": ("self", "tensor"), "addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"), "addmv": ("mat", "vec"),
}  # fmt: skip


@rule("matmul", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv")
def matmul(axes: Axes, node: Node) -> None:
    """Inner dimensions are one axis; those before the last two are matched from the right."""
    a, b = (node.needed(k) for k in FACTORS[node.op])
    left, right, out = axes.of(a), axes.of(b), axes.of(node.number)
    axes.same(node, (a, 0, len(left) - 1), (b, 0, max(len(right) - 2, 0)))
    if len(left) > 1:
        axes.same(node, (node.number, 0, len(out) - 1 - (len(right) > 1)), (a, 0, len(left) - 2))
    if len(right) > 1:
        axes.same(node, (node.number, 0, len(out) - 1), (b, 0, len(right) - 1))
    ends = (len(left) > 1) + (len(right) > 1)
    for r, dims in ((a, left), (b, right)):
        for back in range(3, len(dims) + 1):
            at = len(out) - ends - (back - 2)
            if dims[-back] != 1 or out[at] == 1:
                axes.same(node, (node.number, 0, at), (r, 0, len(dims) - back))
    if node.op.startswith(("addm", "badd")):
        axes.broadcast(node, node.needed("self"))


@rule("einsum")
def einsum(axes: Axes, node: Node) -> None:
    """Dimensions of one letter are one axis."""
    letters, out = einsum_letters(axes, node)
    where: dict[str, tuple[int, int, int]] = {}
    for r, mine in (*letters, (node.number, out)):
        for d, letter in enumerate(mine):
            if letter in where:
                axes.same(node, where[letter], (r, 0, d))
            else:
                where[letter] = (r, 0, d)


def einsum_letters(axes: Axes, node: Node) -> tuple[list[tuple[int, str]], str]:
    """The letters of each operand and of the result; those of an ellipsis are capitals from the right."""
    equation = node["equation"].replace(" ", "")
    operands = places(node.arguments[0]["tensors"])
    left, arrow, right = equation.partition("->")
    found = []
    for r, mine in zip(operands, left.split(","), strict=True):
        extra = len(axes.of(r)) - len(mine.replace("...", ""))
        found.append((r, mine.replace("...", "".join(chr(65 + i) for i in range(extra))[::-1])))
    every = "".join(m for _, m in found)
    dots = "".join(sorted({c for c in every if c.isupper() and "..." in left}, reverse=True))
    if not arrow:
        right = dots + "".join(sorted(c for c in set(every) - set(dots) if every.count(c) == 1))
    return found, right.replace("...", dots)


@rule("bilinear")
def bilinear(axes: Axes, node: Node) -> None:
    """The last dimensions of both inputs are contracted with the weight; its first one is the result's."""
    out, weight = len(axes.of(node.number)) - 1, node.needed("weight")
    for side, name in ((1, "input1"), (2, "input2")):
        x = node.needed(name)
        axes.same(node, (x, 0, out), (weight, 0, side))
        matched(axes, node, x, {out})
    axes.same(node, (node.number, 0, out), (weight, 0, 0))
    if (bias := node.ref("bias")) is not None:
        axes.broadcast(node, bias)


@rule("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def convolution(axes: Axes, node: Node) -> None:
    """Channels are contracted with the kernel; positions are finite."""
    x, weight, bias = node.needed("input"), node.needed("weight"), node.ref("bias")
    turned = "transpose" in node.op or bool(node.arguments[0].get("transposed"))
    dims, kernel = axes.of(x), axes.of(weight)
    channel = 1 if len(dims) == len(kernel) else 0
    for d in range(channel):
        axes.same(node, (node.number, 0, d), (x, 0, d))
    for d in range(channel + 1, len(dims)):
        if isinstance(dims[d], Wide) and is_of_channels(axes, node):  # the same matrix at every neuron
            axes.same(node, (node.number, 0, d), (x, 0, d))
        elif isinstance(dims[d], Wide):
            refuse(node, "it convolves along a width", "neurons have no order")
    groups = node.get("groups")
    into, outof = ((weight, 0, 0), (weight, 0, 1)) if turned else ((weight, 0, 1), (weight, 0, 0))
    if set(groups) == {1}:
        axes.same(node, (x, 0, channel), into)
        axes.same(node, (node.number, 0, channel), outof)
    else:
        _grouped(axes, node, (x, channel), (into, outof), turned)
    if bias is not None:
        axes.same(node, (node.number, 0, channel), (bias, 0, 0))


def is_of_channels(axes: Axes, node: Node) -> bool:
    """Whether a convolution reads one position for each: a matrix of channels."""
    alone = {"stride": 1, "padding": 0}
    ones = all(set(v if isinstance(v, list) else [v]) == {k} for name, k in alone.items() for v in node.get(name))
    kernel = axes.of(node.needed("weight"))[2:]
    return ones and set(kernel) == {1} and set(node.get("groups")) == {1} and "transpose" not in node.op


def _grouped(axes: Axes, node: Node, read: tuple[int, int], weight: tuple[Any, Any], turned: bool) -> None:
    """Groups in a fixed number cut widths into pieces; groups in growing number leave a finite number in each."""
    x, channel = read
    into, outof = weight
    groups = node.get("groups")
    source, target = (x, 0, channel), (node.number, 0, channel)
    if turned:
        refuse(node, "it is a transposed convolution with groups", "write it by torch.repeat_interleave and conv")
    wide = [isinstance(axes.of(p[0])[p[2]], Wide) for p in (source, target)]
    if len(set(groups)) == 1:
        for p, is_wide in ((source, wide[0]), (target, wide[1]), (outof, wide[1])):
            if is_wide:
                axes.grid(p, groups[0])
        axes.same(node, target, outof)
        if wide[0]:
            axes.part(source, into, [axes.at(*_of(source)).factor / groups[0]])
        return
    each = axes.graph[x].shapes[0][channel] // groups[0]
    many = node.shapes[0][channel] // groups[0]
    axes.same(node, target, outof)
    axes.together(source, each)
    axes.together(target, many)
    axes.product(source, many, target, each)


def _of(place: tuple[int, int, int]) -> tuple[int, int, int]:
    return place[0], place[2], place[1]


@rule("scaled_dot_product_attention")
def attention(axes: Axes, node: Node) -> None:
    """Queries and keys share the dimension that is contracted, keys and values the positions."""
    if node.arguments[0].get("dropout_p"):
        refuse(node, "it drops weights whatever the mode is", "give it dropout_p where self.training alone")
    q, k, v = (node.needed(name) for name in ("query", "key", "value"))
    out = axes.of(node.number)
    axes.same(node, (q, 0, len(axes.of(q)) - 1), (k, 0, len(axes.of(k)) - 1))
    axes.same(node, (node.number, 0, len(out) - 1), (v, 0, len(axes.of(v)) - 1))
    axes.same(node, (node.number, 0, len(out) - 2), (q, 0, len(axes.of(q)) - 2))
    axes.same(node, (k, 0, len(axes.of(k)) - 2), (v, 0, len(axes.of(v)) - 2))
    shared = node.arguments[0].get("enable_gqa")
    for r in (q, k, v):
        for back in range(3, len(axes.of(r)) + 1):
            dims = axes.of(r)
            head = (r, 0, len(dims) - back)
            if shared and back == 3 and r != q and isinstance(dims[-3], Wide):
                factor = axes.at(node.number, len(out) - 3).factor / axes.at(r, len(dims) - 3).factor
                axes.product(head, int(factor), (node.number, 0, len(out) - 3), 1)
            elif dims[-back] == out[-back]:
                axes.same(node, (node.number, 0, len(out) - back), head)
    mask = node.ref("attn_mask")
    if mask is not None and axes.wide(mask):
        refuse(node, "its mask has a width", "a mask is data")
