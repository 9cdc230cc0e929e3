"""Axes of sums, norms, pools and look-ups."""

from __future__ import annotations

from fractions import Fraction

from tplimits.torch.axes import Axes, dimension
from tplimits.torch.graph import Node, refuse
from tplimits.torch.rules.entrywise import entrywise
from tplimits.torch.rules.registry import refuse_wide, rule
from tplimits.torch.sizes import Wide


@rule("sum", "mean", "var", "std", "amax", "amin", "max", "min", "logsumexp", "linalg_vector_norm", "norm", "prod",
      "var_mean", "std_mean")  # fmt: skip
def reduction(axes: Axes, node: Node) -> None:
    """Dimensions that are left stay what they are; only sums run over neurons, orders do not."""
    operand = node.needed("self")
    other = node.ref("other")
    if other is not None:
        return entrywise(axes, node)
    dims = axes.of(operand)
    taken = reduced(node, len(dims))
    if node.op not in ("sum", "mean", "var", "std", "var_mean", "std_mean", "linalg_vector_norm", "norm", "logsumexp"):
        for d in taken:
            # the largest of n entries grows with n by their law, which no limit of means knows
            refuse_wide(axes, node, operand, d, "it takes an order of neurons")
    keep = bool(node.arguments[0].get("keepdim"))
    left = [d for d in range(len(dims)) if d not in taken]
    for result in range(len(axes.dims[node.number]) if node.many else 1):
        for i, d in enumerate(left):
            axes.same(node, (node.number, result, d if keep else i), (operand, 0, d))
    return None


@rule("cosine_similarity", "pairwise_distance")
def compared(axes: Axes, node: Node) -> None:
    """Entries of two are compared along one dimension, the last for distances; the others are matched."""
    keep = bool(node.arguments[0].get("keepdim"))
    rank = len(axes.of(node.number)) + (not keep)
    dim = dimension(node.arguments[0].get("dim", -1), rank) if node.op == "cosine_similarity" else rank - 1
    x, y = node.needed("x1"), node.needed("x2")
    if len(axes.of(x)) != rank or len(axes.of(y)) != rank:
        refuse(node, "its inputs have different numbers of dimensions", "unsqueeze one of them")
    axes.same(node, (x, 0, dim), (y, 0, dim))
    for operand in (x, y):
        for out, d in enumerate(d for d in range(rank) if d != dim):
            if axes.of(operand)[d] != 1:
                axes.same(node, (node.number, 0, out), (operand, 0, d))


def reduced(node: Node, rank: int) -> set[int]:
    """The dimensions that a reduction is taken over."""
    dim = node.arguments[0].get("dim")
    if dim is None or dim == []:
        return set(range(rank))
    return {dimension(d, rank) for d in ([dim] if isinstance(dim, int) else dim)}


@rule("softmax", "log_softmax", "_softmax", "_log_softmax")
def softmax(axes: Axes, node: Node) -> None:
    """Entries are divided by a sum: dimensions stay."""
    axes.broadcast(node, node.needed("self"))


@rule("layer_norm", "rms_norm", "native_layer_norm", "_fused_rms_norm")
def layer_norm(axes: Axes, node: Node) -> None:
    """Dimensions stay; gain and bias are matched from the right."""
    axes.broadcast(node, node.needed("input"))
    for name in ("weight", "bias"):
        if (r := node.ref(name)) is not None:
            axes.broadcast(node, r)


@rule("group_norm", "native_group_norm", "instance_norm", "batch_norm", "_native_batch_norm_legit_no_training",
      "native_batch_norm", "_batch_norm_no_update")  # fmt: skip
def channel_norm(axes: Axes, node: Node) -> None:
    """Dimensions stay; gain, bias and statistics are along the channels."""
    x = node.needed("input")
    axes.broadcast(node, x)
    for name in ("weight", "bias", "running_mean", "running_var"):
        if (r := node.ref(name)) is not None:
            axes.same(node, (node.number, 0, 1), (r, 0, 0))
    if "group_norm" in node.op and isinstance(axes.of(x)[1], Wide):
        groups = node.get("num_groups" if node.op == "group_norm" else "group")
        if len(set(groups)) == 1:
            axes.grid((x, 0, 1), groups[0])
        else:
            # groups that grow in number have a fixed size
            sizes = {Fraction(shape[1], g) for shape, g in zip(axes.graph[x].shapes, groups, strict=True)}
            if len(sizes) > 1:
                refuse(
                    node, f"it has {groups} groups at the widths {axes.graph.widths}", "let groups grow like n or not"
                )
            axes.together((x, 0, 1), int(sizes.pop()))


@rule(
    *("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d"),
    *("adaptive_max_pool1d", "adaptive_max_pool2d"),
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d"),
)
def windows(axes: Axes, node: Node) -> None:
    """Positions are finite; the other dimensions stay."""
    x = node.needed("self" if "self" in node.arguments[0] else "input")
    dims = axes.of(x)
    rank = 1 if "1d" in node.op else 3 if "3d" in node.op else 2
    for d in range(len(dims)):
        if d >= len(dims) - rank:
            refuse_wide(axes, node, x, d, "it pools along a width")
        else:
            axes.same(node, (node.number, 0, d), (x, 0, d))


@rule("embedding")
def embedding(axes: Axes, node: Node) -> None:
    """Rows of a table of fixed length; what rows hold may be a width."""
    weight, indices = node.needed("weight"), node.needed("indices")
    refuse_wide(axes, node, weight, 0, "it looks up in a table of growing length")
    axes.same(node, (node.number, 0, len(axes.of(node.number)) - 1), (weight, 0, 1))
    if axes.wide(indices):
        refuse(node, "its indices have a width", "tokens are data")
