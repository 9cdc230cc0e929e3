"""How convolutions, pools and changes of resolution are written in the language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product as every
from typing import TYPE_CHECKING, Any

import numpy
import torch

from tplimits.program.language import entrywise as heads
from tplimits.torch.dimensions import bare
from tplimits.torch.graph import Node, refuse
from tplimits.torch.operations.contracting import letters, with_bias
from tplimits.torch.operations.registry import operation
from tplimits.torch.rules.contracting import is_of_channels
from tplimits.torch.tensors import ONE, Dim, Tensor, spread

if TYPE_CHECKING:
    from tplimits.torch.lowering import Lowering


def several(value: Any, rank: int) -> list[int]:
    """One number for each direction."""
    many = list(value) if isinstance(value, (list, tuple)) else [value]
    return [int(v) for v in (many * rank if len(many) == 1 else many)]


def windowed(
    low: Lowering,
    node: Node,
    x: Tensor,
    how: tuple[list[int], list[int], list[int], list[int]],
    after: list[int] | None = None,
) -> Tensor:
    """x of shape (…, *positions) as (…, *taps, *windows): what each tap of each window reads, 0 outside."""
    kernel, stride, padding, dilation = how
    rank = len(kernel)
    ends = after or [0] * rank

    lead = len(x.dims) - rank
    sizes = [d.outer for d in x.dims[lead:]]
    counts = [
        (s + 2 * p + e - (k - 1) * d - 1) // t + 1
        for s, p, e, k, d, t in zip(sizes, padding, ends, kernel, dilation, stride, strict=True)
    ]
    dims = (*x.dims[:lead], *(Dim(c) for c in counts), *(Dim(k) for k in kernel))

    def cut(code: Any) -> Any:
        pads = [p for i in reversed(range(rank)) for p in (padding[i], padding[i] + ends[i])]
        # padding writes 0, which has to read −1: no entry
        code = torch.nn.functional.pad(code + 1, pads) - 1
        for i in range(rank):
            span = (kernel[i] - 1) * dilation[i] + 1
            code = code.unfold(lead + i, span, stride[i])[..., :: dilation[i]]
        return code.contiguous()

    return low.move(node, x, dims, cut)


def _directions(node: Node) -> int:
    """How many dimensions an operation moves along."""
    return 1 if "1d" in node.op else 3 if "3d" in node.op else 2


@operation("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def convolution(low: Lowering, node: Node) -> Tensor:
    """Σ over channels and taps of what each window reads, times the kernel."""
    x, weight = low.operand(node, "input"), low.operand(node, "weight")
    rank = len(weight.dims) - 2
    if is_of_channels(low.found.axes, node) and any(d.width is not None for d in x.dims[-rank:]):
        at = letters(rank, "p")
        lead = "n" if len(x.dims) == rank + 2 else ""
        product = low.contract([(x, lead + "c" + at), (weight, "oc" + letters(rank, "t"))], lead + "o" + at)
        return with_bias(low, node, product, len(lead))
    bare = len(x.dims) == rank + 1
    # without a batch: one of one entry in front, as all that follows counts from there
    if bare:
        x = replace(x, dims=(ONE, *x.dims), tables={a: t[None] for a, t in x.tables.items()})
    turned = "transpose" in node.op or bool(node.arguments[0].get("transposed"))
    stride, dilation = (several(node[k], rank) for k in ("stride", "dilation"))
    kernel = [d.outer for d in weight.dims[2:]]
    padding, after = _padding(node, rank, kernel, dilation)
    if turned:
        x, weight = _spaced(low, node, x, weight, stride, rank)
        extra = several(node["output_padding"], rank)
        # the windows of the adjoint map: where an entry of x reaches is where a window reads it
        padding, after = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)], extra
        stride = [1] * rank
        if min(padding) < 0:
            refuse(node, "its padding is larger than its kernel")
    cut = windowed(low, node, x, (kernel, stride, padding, dilation), after)
    at, taps = letters(rank, "p"), letters(rank, "t")
    found = _channels(low, node, cut, weight, at, taps)
    if bare:
        found = replace(found, dims=found.dims[1:], tables={a: t[0] for a, t in found.tables.items()})
    return with_bias(low, node, found, len(low.dims(node.number)) - rank - 1)


def _padding(node: Node, rank: int, kernel: list[int], dilation: list[int]) -> tuple[list[int], list[int]]:
    given = node["padding"]
    if given == "valid":
        return [0] * rank, [0] * rank
    if given == "same":
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return [t // 2 for t in total], [t % 2 for t in total]
    return several(given, rank), [0] * rank


def _channels(low: Lowering, node: Node, cut: Tensor, weight: Tensor, at: str, taps: str) -> Tensor:
    """The sum over channels and taps, group by group."""
    groups = node.get("groups")
    read = "n" + "c" + at + taps
    if set(groups) == {1}:
        return low.contract([(cut, read), (weight, "oc" + taps)], "no" + at)
    atoms, channels, out = low.writer.atoms, cut.dims[1], weight.dims[0]
    if len(set(groups)) == 1:
        g = groups[0]
        parts = (Dim(g), replace(channels, outer=channels.outer // g))
        own = (Dim(g), replace(out, outer=out.outer // g))
    else:  # each group has a few channels of a width: groups are the width itself
        # at the first width, as `groups` there; the number is the same at all
        each = channels.inner * channels.outer * atoms[str(channels.width)] // groups[0]
        many = out.inner * out.outer * atoms[str(out.width)] // groups[0]
        parts = (replace(channels, inner=channels.inner // each), Dim(each))
        own = (replace(out, inner=out.inner // many), Dim(many))
    dims = (cut.dims[0], *parts, *cut.dims[2:])
    cut = low.reshaped(node, cut, dims)
    kernel = (*own, *weight.dims[1:])
    weight = low.reshaped(node, weight, kernel)
    found = low.contract([(cut, "ngc" + at + taps), (weight, "goc" + taps)], "ngo" + at)
    dims = (cut.dims[0], replace(out, width=bare(out.width)), *found.dims[3:])
    return low.reshaped(node, found, dims)


def _spaced(
    low: Lowering, node: Node, x: Tensor, weight: Tensor, stride: list[int], rank: int
) -> tuple[Tensor, Tensor]:
    """A transposed convolution as an ordinary one: zeros between positions, the kernel turned round."""
    if set(node.get("groups")) != {1}:
        refuse(node, "it is a transposed convolution with groups")
    lead = len(x.dims) - rank
    sizes = [(d.outer - 1) * s + 1 for d, s in zip(x.dims[lead:], stride, strict=True)]
    dims = (*x.dims[:lead], *(Dim(s) for s in sizes))

    def apart(code: Any) -> Any:
        wide = torch.full((*code.shape[:lead], *sizes), -1, dtype=torch.int64)
        wide[(slice(None),) * lead + tuple(slice(None, None, s) for s in stride)] = code
        return wide

    x = low.move(node, x, dims, apart)
    turned = (weight.dims[1], weight.dims[0], *weight.dims[2:])
    flip = list(range(2, 2 + rank))
    matrix = len(weight.widths) == 2
    if matrix:  # the letters say which side is contracted: rows and columns stay where they are
        weight = low.move(node, weight, weight.dims, lambda code: code.flip(flip))
        return x, spread(weight, turned, [1, 0, *flip])
    return x, low.move(node, weight, turned, lambda code: code.transpose(0, 1).flip(flip).contiguous())


@operation("col2im")
def folded(low: Lowering, node: Node) -> Tensor:
    """The sum at each position of what all windows have there, in the order of `im2col`."""
    x, dims = low.operand(node, "self"), low.dims(node.number)
    sizes, kernel = list(node["output_size"]), list(node["kernel_size"])
    count, lead = int(numpy.prod(sizes)), len(dims) - 2
    arguments = {k: node[k] for k in ("kernel_size", "dilation", "padding", "stride")}
    basis = torch.eye(count, dtype=torch.float64).reshape(count, 1, *sizes)
    windows = torch.nn.functional.unfold(basis, *arguments.values())  # (positions, taps, windows)
    parted = (*dims[:lead], Dim(int(numpy.prod(kernel))), x.dims[-1])
    cut = low.reshaped(node, x, parted)
    before = letters(lead)
    found = low.contract([(cut, before + "KL"), (low.fixed(windows), "PKL")], before + "P")
    return low.reshaped(node, found, dims)


@operation(
    *("avg_pool1d", "avg_pool2d", "avg_pool3d"),
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d"),
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d"),
)
def resampled(low: Lowering, node: Node) -> Tensor:
    """A linear map of positions, read off what it does to each of them."""
    name = "self" if "self" in node.arguments[0] else "input"
    x = low.operand(node, name)
    dims = low.dims(node.number)
    rank = _directions(node)
    sizes = [d.outer for d in x.dims[-rank:]]
    count = int(numpy.prod(sizes))
    # linear in positions: what it does to each unit image is its matrix
    basis = torch.eye(count, dtype=torch.float64).reshape(1, count, *sizes)
    arguments = {k: (basis if k == name else v) for k, v in node.arguments[0].items()}
    result = node.target(**arguments)[0]
    if "nearest" in node.op:
        # nearest: one entry each, which is moved and not multiplied by a matrix of ones and zeros
        source = (result * torch.arange(count).reshape(-1, *(1,) * rank)).sum(0).long()
        return low.move(node, x, dims, lambda code: code.flatten(-rank)[..., source])
    weights = low.fixed(result.reshape(*sizes, *result.shape[1:]))
    lead = letters(len(x.dims) - rank)
    into, out = letters(rank, "p"), letters(rank, "s")
    found = low.contract([(x, lead + into), (weights, into + out)], lead + out)
    return replace(found, dims=dims)


@operation(
    "max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "max_pool2d_with_indices"
)
def max_pool(low: Lowering, node: Node) -> Any:
    """The largest entry of each window."""
    x = low.operand(node, "self")
    rank = _directions(node)
    dims = low.dims(node.number)
    sizes = [d.outer for d in x.dims[-rank:]]
    if "adaptive" in node.op:
        goal = several(node["output_size"], rank)
        if any(s % g for s, g in zip(sizes, goal, strict=True)):
            refuse(node, f"its windows over {sizes} positions differ in size")
        kernel = stride = [s // g for s, g in zip(sizes, goal, strict=True)]
        padding, dilation = [0] * rank, [1] * rank
    else:
        kernel = several(node["kernel_size"], rank)
        stride = several(node["stride"] or kernel, rank)
        padding, dilation = (several(node[k], rank) for k in ("padding", "dilation"))
    if node.arguments[0].get("ceil_mode"):
        refuse(node, "it rounds the number of windows up", "use ceil_mode=False")
    lead = len(x.dims) - rank
    counts = [d.outer for d in dims[lead:]]
    found: Tensor | None = None
    # one maximum after the other over taps: all windows at once
    for tap in every(*(range(k) for k in kernel)):
        entry = low.move(node, x, dims, _tap(tap, lead, sizes, counts, (stride, padding, dilation)))
        found = entry if found is None else low.entrywise(heads.maximum, [found, entry], dims)
    return [found] if node.many else found


def _tap(tap: Any, lead: int, sizes: list[int], counts: list[int], how: Any) -> Callable[[Any], Any]:
    """What one tap reads in each window; outside the image it reads the nearest entry that the window has."""
    stride, padding, dilation = how

    def on(code: Any) -> Any:
        for i, t in enumerate(tap):
            start = torch.arange(counts[i]) * stride[i] - padding[i]
            at = start + t * dilation[i]
            # −∞ stands outside: reading another entry of the same window does not change the largest
            low_end = start + dilation[i] * torch.clamp(-(start // dilation[i]), min=0)
            at = torch.where(at < 0, low_end, at)
            last = start + dilation[i] * ((sizes[i] - 1 - start) // dilation[i])
            at = torch.where(at >= sizes[i], last, at)
            code = code.index_select(lead + i, at)
        return code

    return on
