"""What each operation says of the axes of its operands and results."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tplimits.torch.axes import Axes, dimension, places
from tplimits.torch.graph import Node, Ref, refuse
from tplimits.torch.sizes import Wide

Rule = Callable[[Axes, Node], None]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register what operations say of axes."""

    def kept(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return kept


# -- entry by entry ---------------------------------------------------------------------------

ENTRYWISE = [
    "add",
    "sub",
    "rsub",
    "mul",
    "div",
    "true_divide",
    "pow",
    "neg",
    "exp",
    "expm1",
    "log",
    "log1p",
    "sqrt",
    "rsqrt",
    "relu",
    "relu6",
    "gelu",
    "silu",
    "tanh",
    "sigmoid",
    "softplus",
    "elu",
    "leaky_relu",
    "hardtanh",
    "hardswish",
    "hardsigmoid",
    "mish",
    "selu",
    "celu",
    "clamp",
    "clamp_min",
    "clamp_max",
    "clip",
    "abs",
    "square",
    "reciprocal",
    "sin",
    "cos",
    "erf",
    "sign",
    "maximum",
    "minimum",
    "where",
    "masked_fill",
    "threshold",
    "log_sigmoid",
    "log_sigmoid_forward",
    "sinh",
    "cosh",
    "softsign",
    "hardshrink",
    "softshrink",
    "tanhshrink",
    "addcmul",
    "addcdiv",
    "lerp",
    "multiply",
    "divide",
    "subtract",
    "absolute",
    "negative",
    "dropout",
    "feature_dropout",
    "alpha_dropout",
    "contiguous",
    "clone",
    "alias",
    "lift_fresh_copy",
    "to",
    "_to_copy",
    "type_as",
    "float",
    "double",
    "expand",
    "expand_as",
    "broadcast_to",
    "prelu",
    "glu_jvp",
    "native_dropout",
]


@rule(*ENTRYWISE)
def entrywise(axes: Axes, node: Node) -> None:
    if "dropout" in node.op and node.arguments[0].get("train"):
        refuse(node, "it is dropout in training mode", "call .eval() on the module")
    for r in node.refs:
        if axes.wide(r):
            if node.op == "prelu" and r == node.ref("weight") and len(axes.of(r)) == 1:
                axes.same(node, (node.number, 0, 1), (r, 0, 0))
            else:
                axes.broadcast(node, r)


@rule("_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_size", "sym_constrain_range_for_size")
def nothing(axes: Axes, node: Node) -> None:
    """What torch.export notes beside the computation."""


# -- moving entries ---------------------------------------------------------------------------


@rule("view", "reshape", "_unsafe_view", "flatten", "unflatten", "view_as", "reshape_as", "squeeze", "unsqueeze")
def view(axes: Axes, node: Node) -> None:
    axes.view(node, node.ref("self"))


@rule("permute", "transpose", "t", "movedim", "moveaxis", "swapaxes", "swapdims", "numpy_T", "mT", "adjoint")
def permute(axes: Axes, node: Node) -> None:
    operand = node.ref("self")
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


@rule("select", "argmax_never")
def select(axes: Axes, node: Node) -> None:
    operand = node.ref("self")
    dim = dimension(node["dim"], len(axes.of(operand)))
    _refuse_wide(axes, node, operand, dim, "it takes one neuron")
    _kept(axes, node, operand, {dim})


@rule("slice", "narrow")
def slice_(axes: Axes, node: Node) -> None:
    operand = node.ref("self")
    dims = axes.of(operand)
    dim = dimension(node["dim"] or 0, len(dims))
    _matched(axes, node, operand, {dim})
    if not isinstance(dims[dim], Wide):
        return
    if node.op == "slice" and node["step"] != 1:
        refuse(node, "it takes every other neuron of a width", "reshape to blocks instead")
    starts = [s or 0 for s in node.get("start")]
    sizes = [shape[dim] for shape in node.shapes]
    starts = [s + axes.graph[operand].shapes[i][dim] if s < 0 else s for i, s in enumerate(starts)]
    _part(axes, node, (operand, 0, dim), (node.number, 0, dim), starts, sizes)


@rule("split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk", "tensor_split", "unbind")
def split(axes: Axes, node: Node) -> None:
    operand = node.ref("self")
    dims = axes.of(operand)
    dim = dimension(node["dim"] or 0, len(dims))
    gone = node.op == "unbind"
    if gone:
        _refuse_wide(axes, node, operand, dim, "it takes neurons one by one")
    starts = [0] * len(axes.graph.widths)
    for result in range(len(axes.dims[node.number])):
        others = [d for d in range(len(dims)) if d != dim]
        for out, d in enumerate(others if gone else range(len(dims))):
            if d != dim:
                axes.same(node, (node.number, result, out), (operand, 0, d))
        sizes = [0 if gone else shapes[result][dim] for shapes in node.shapes]
        if isinstance(dims[dim], Wide):
            _part(axes, node, (operand, 0, dim), (node.number, result, dim), starts, sizes)
        starts = [s + z for s, z in zip(starts, sizes, strict=True)]


@rule("getitem")
def item(axes: Axes, node: Node) -> None:
    source, result = node.arguments[0]["0"].node, node.arguments[0]["1"]
    if axes.graph[source].many:
        for dim in range(len(axes.of(node.number))):
            axes.same(node, (node.number, 0, dim), (source, result, dim))


@rule("cat", "concat", "concatenate", "hstack", "vstack")
def cat(axes: Axes, node: Node) -> None:
    many = [r for r in places(node, node.arguments[0]["tensors"]) if axes.of(r) != (0,)]
    dims = axes.of(node.number)
    dim = dimension(node.arguments[0].get("dim") or 0, len(dims))
    dim = {"hstack": min(1, len(dims) - 1), "vstack": 0}.get(node.op, dim)
    starts = [0] * len(axes.graph.widths)
    for r in many:
        _matched(axes, node, r, {dim})
        sizes = [shape[dim] for shape in axes.graph[r].shapes]
        if isinstance(dims[dim], Wide):
            if not isinstance(axes.of(r)[dim], Wide):
                refuse(node, f"it joins {sizes[0]} entries to a width", "widths are joined with widths")
            _part(axes, node, (node.number, 0, dim), (r, 0, dim), starts, sizes)
        starts = [s + z for s, z in zip(starts, sizes, strict=True)]


@rule("stack")
def stack(axes: Axes, node: Node) -> None:
    new = dimension(node["dim"] or 0, len(axes.of(node.number)))
    for r in places(node, node.arguments[0]["tensors"]):
        for d in range(len(axes.of(r))):
            axes.same(node, (node.number, 0, d + (d >= new)), (r, 0, d))


@rule("repeat", "tile")
def repeat(axes: Axes, node: Node) -> None:
    operand = node.ref("self")
    dims, out = axes.of(operand), axes.of(node.number)
    times = node["repeats" if node.op == "repeat" else "dims"]
    ahead = len(out) - len(dims)
    times = [1] * (len(out) - len(times)) + list(times)
    for d, size in enumerate(dims):
        if isinstance(size, Wide) and times[d + ahead] != 1:
            refuse(node, "it repeats a width as a whole", "repeat each entry instead: repeat_interleave")
        if times[d + ahead] == 1:
            axes.same(node, (node.number, 0, d + ahead), (operand, 0, d))


@rule("repeat_interleave")
def repeat_interleave(axes: Axes, node: Node) -> None:
    operand = node.ref("self")
    dims = axes.of(operand)
    times = node.arguments[0].get("repeats")
    if not isinstance(times, int) or node["dim"] is None:
        refuse(node, "it repeats entries by a tensor", "give one whole number, and dim=")
    dim = dimension(node["dim"], len(dims))
    _matched(axes, node, operand, {dim})
    if isinstance(dims[dim], Wide):
        axes.product((operand, 0, dim), times, (node.number, 0, dim), 1)


@rule("flip", "roll", "index_select", "gather", "index", "unfold", "constant_pad_nd", "pad", "tril", "triu", "cumsum",
      "take_along_dim", "diagonal", "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d",
      "cumprod", "logcumsumexp", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle")  # fmt: skip
def finite_only(axes: Axes, node: Node) -> None:
    """Operations along finite dimensions: widths stay as they are, and where they are."""
    operand = node.ref("self")
    if node.op in ("pixel_shuffle", "pixel_unshuffle", "channel_shuffle"):
        return _shuffled(axes, node, operand)
    dims, out = axes.of(operand), axes.of(node.number)
    touched = _touched(axes, node, dims)
    wide = [d for d, s in enumerate(dims) if isinstance(s, Wide)]
    for d in wide:
        if d in touched:
            refuse(
                node, f"it works along a width of {axes.graph[operand].shapes[0][d]} neurons", "neurons have no order"
            )
    if node.op == "index":
        ahead, gone = _indexed(axes, node, dims)
        for d in wide:
            axes.same(node, (node.number, 0, ahead(d)), (operand, 0, d))
        return None
    for d in wide:
        to = d if node.op != "diagonal" else d - sum(t < d for t in touched)
        axes.same(node, (node.number, 0, to), (operand, 0, d))
    return None


def _touched(axes: Axes, node: Node, dims: tuple[Any, ...]) -> set[int]:
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


def _indexed(axes: Axes, node: Node, dims: tuple[Any, ...]) -> tuple[Callable[[int], int], set[int]]:
    """Where the dimensions that an index leaves alone are in the result."""
    indices = node.arguments[0]["indices"]
    used = [d for d, i in enumerate(indices) if isinstance(i, Ref)]
    rank = max(len(axes.of(indices[d].node)) for d in used)
    together = used == list(range(used[0], used[-1] + 1))
    start = used[0] if together else 0
    left = [d for d in range(len(dims)) if d not in used]

    def to(d: int) -> int:
        at = left.index(d)
        return at if at < start else at + rank

    return to, set(used)


def _shuffled(axes: Axes, node: Node, operand: int) -> None:
    """Channels (c, r, r) that become positions, or positions that become channels."""
    rank = len(axes.of(operand))
    if node.op == "channel_shuffle":
        refuse(node, "it interleaves channels", "write it as view, transpose, flatten")
    factor = node["upscale_factor" if node.op == "pixel_shuffle" else "downscale_factor"] ** 2
    ends = (1, factor) if node.op == "pixel_shuffle" else (factor, 1)
    if isinstance(axes.of(operand)[rank - 3], Wide):
        axes.product((operand, 0, rank - 3), ends[0], (node.number, 0, rank - 3), ends[1])
    for d in range(rank - 3):
        axes.same(node, (node.number, 0, d), (operand, 0, d))


@rule(
    "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "empty_like"
)
def filled(axes: Axes, node: Node) -> None:
    r = node.ref("self")
    if r is not None and len(axes.of(r)) == len(axes.of(node.number)):
        axes.broadcast(node, r)


# -- contractions -----------------------------------------------------------------------------


@rule("linear")
def linear(axes: Axes, node: Node) -> None:
    x, weight, bias = (node.ref(k) for k in ("input", "weight", "bias"))
    last = len(axes.of(node.number)) - 1
    for d in range(last):
        axes.same(node, (node.number, 0, d), (x, 0, d))
    rank = len(axes.of(weight))
    axes.same(node, (x, 0, len(axes.of(x)) - 1), (weight, 0, rank - 1))
    if rank == 2:
        axes.same(node, (node.number, 0, last), (weight, 0, 0))
    if bias is not None:
        axes.broadcast(node, bias)


@rule("matmul", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv")
def matmul(axes: Axes, node: Node) -> None:
    names = {
        "matmul": ("self", "other"), "mm": ("self", "mat2"), "bmm": ("self", "mat2"), "mv": ("self", "vec"),
        "dot": ("self", "tensor"), "addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"), "addmv": ("mat", "vec"),
    }[node.op]  # fmt: skip
    a, b = (node.ref(k) for k in names)
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
        axes.broadcast(node, node.ref("self"))


@rule("einsum")
def einsum(axes: Axes, node: Node) -> None:
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
    operands = places(node, node.arguments[0]["tensors"])
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


@rule("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def convolution(axes: Axes, node: Node) -> None:
    x, weight, bias = (node.ref(k) for k in ("input", "weight", "bias"))
    turned = "transpose" in node.op or bool(node.arguments[0].get("transposed"))
    dims, kernel, out = axes.of(x), axes.of(weight), axes.of(node.number)
    channel = 1 if len(dims) == len(kernel) else 0
    for d in range(channel):
        axes.same(node, (node.number, 0, d), (x, 0, d))
    for d in range(channel + 1, len(dims)):
        if isinstance(dims[d], Wide):
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
    axes.product(source, many, target, each)


def _of(place: tuple[int, int, int]) -> tuple[int, int, int]:
    return place[0], place[2], place[1]


@rule("scaled_dot_product_attention")
def attention(axes: Axes, node: Node) -> None:
    q, k, v = (node.ref(name) for name in ("query", "key", "value"))
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


# -- reductions, norms --------------------------------------------------------------------------


@rule("sum", "mean", "var", "std", "amax", "amin", "max", "min", "logsumexp", "linalg_vector_norm", "norm", "prod",
      "var_mean", "std_mean", "nansum", "median", "argmax", "argmin", "any", "all")  # fmt: skip
def reduction(axes: Axes, node: Node) -> None:
    operand = node.ref("self")
    other = node.ref("other")
    if other is not None:
        return entrywise(axes, node)
    dims = axes.of(operand)
    taken = reduced(node, len(dims))
    if node.op not in ("sum", "mean", "var", "std", "var_mean", "std_mean", "linalg_vector_norm", "norm", "logsumexp"):
        for d in taken:
            _refuse_wide(axes, node, operand, d, "it takes an order of neurons")
    keep = bool(node.arguments[0].get("keepdim"))
    left = [d for d in range(len(dims)) if d not in taken]
    for result in range(len(axes.dims[node.number]) if node.many else 1):
        for i, d in enumerate(left):
            axes.same(node, (node.number, result, d if keep else i), (operand, 0, d))
    return None


def reduced(node: Node, rank: int) -> set[int]:
    """The dimensions that a reduction is taken over."""
    dim = node.arguments[0].get("dim")
    if dim is None or dim == []:
        return set(range(rank))
    return {dimension(d, rank) for d in ([dim] if isinstance(dim, int) else dim)}


@rule("softmax", "log_softmax", "_softmax", "_log_softmax", "softmin")
def softmax(axes: Axes, node: Node) -> None:
    axes.broadcast(node, node.ref("self"))


@rule("layer_norm", "rms_norm", "native_layer_norm", "_fused_rms_norm")
def layer_norm(axes: Axes, node: Node) -> None:
    axes.broadcast(node, node.ref("input"))
    for name in ("weight", "bias"):
        if (r := node.ref(name)) is not None:
            axes.broadcast(node, r)


@rule("group_norm", "native_group_norm", "instance_norm", "batch_norm", "_native_batch_norm_legit_no_training",
      "native_batch_norm", "_batch_norm_no_update")  # fmt: skip
def channel_norm(axes: Axes, node: Node) -> None:
    x = node.ref("input")
    axes.broadcast(node, x)
    for name in ("weight", "bias", "running_mean", "running_var"):
        if (r := node.ref(name)) is not None:
            axes.same(node, (node.number, 0, 1), (r, 0, 0))
    if "group_norm" in node.op and isinstance(axes.of(x)[1], Wide):
        groups = node.get("num_groups" if node.op == "group_norm" else "group")
        if len(set(groups)) == 1:
            axes.grid((x, 0, 1), groups[0])
        else:
            per = Fraction(axes.graph[x].shapes[0][1], groups[0])
            refuse(node, f"its groups have {per} channels at every width", "give the groups a fixed number")


# -- windows ----------------------------------------------------------------------------------


@rule("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d",
      "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "_adaptive_avg_pool2d",
      "upsample_nearest1d", "upsample_nearest2d", "upsample_bilinear2d", "upsample_linear1d", "upsample_bicubic2d",
      "max_pool2d_with_indices", "lp_pool2d")  # fmt: skip
def windows(axes: Axes, node: Node) -> None:
    x = node.ref("self") if node.ref("self") is not None else node.ref("input")
    dims = axes.of(x)
    rank = 1 if "1d" in node.op else 3 if "3d" in node.op else 2
    for d in range(len(dims)):
        if d >= len(dims) - rank:
            _refuse_wide(axes, node, x, d, "it pools along a width")
        else:
            axes.same(node, (node.number, 0, d), (x, 0, d))


@rule("embedding")
def embedding(axes: Axes, node: Node) -> None:
    weight, indices = node.ref("weight"), node.ref("indices")
    _refuse_wide(axes, node, weight, 0, "it looks up in a table of growing length")
    axes.same(node, (node.number, 0, len(axes.of(node.number)) - 1), (weight, 0, 1))
    if axes.wide(indices):
        refuse(node, "its indices have a width", "tokens are data")


# -- the words of rules -------------------------------------------------------------------------


def _kept(axes: Axes, node: Node, operand: int, gone: set[int]) -> None:
    left = [d for d in range(len(axes.of(operand))) if d not in gone]
    for out, d in enumerate(left):
        axes.same(node, (node.number, 0, out), (operand, 0, d))


def _matched(axes: Axes, node: Node, operand: int, but: set[int]) -> None:
    for d in range(len(axes.of(operand))):
        if d not in but:
            axes.same(node, (node.number, 0, d), (operand, 0, d))


def _part(axes: Axes, node: Node, whole: Any, part: Any, starts: list[int], sizes: list[int]) -> None:
    """A part of a width between two multiples of n."""
    n = axes.graph.widths
    ends = [s + z for s, z in zip(starts, sizes, strict=True)]
    borders = []
    for many in (starts, ends):
        factor = Fraction(many[0], n[0])
        if any(Fraction(m, w) != factor for m, w in zip(many, n, strict=True)):
            refuse(
                node,
                f"it takes the neurons {starts[0]} to {ends[0]} of a width, not a fraction of it",
                "neurons have no order",
            )
        borders.append(factor)
    axes.part(whole, part, borders)


def _refuse_wide(axes: Axes, node: Node, operand: int, dim: int, found: str) -> None:
    if isinstance(axes.of(operand)[dim], Wide):
        n = axes.graph[operand].shapes[0][dim]
        refuse(
            node, f"{found}, along a width of {n} entries", "neurons have no order, and no limit when taken by index"
        )
