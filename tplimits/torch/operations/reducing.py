"""How sums, norms, softmax and attention are written in the language."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from tplimits.program.language import entrywise as heads
from tplimits.torch.axes import dimension
from tplimits.torch.graph import Node, refuse
from tplimits.torch.operations.contracting import letters, product
from tplimits.torch.operations.entrywise import larger, plus
from tplimits.torch.operations.registry import operation
from tplimits.torch.rules.reducing import reduced
from tplimits.torch.tensors import ONE, Dim, Tensor, spread

if TYPE_CHECKING:
    from tplimits.torch.lowering import Lowering


@operation("sum", "mean", "var", "std", "linalg_vector_norm", "norm", "amax", "amin", "max", "min", "logsumexp", "prod",
           "var_mean", "std_mean")  # fmt: skip
def reduction(low: Lowering, node: Node) -> Any:
    """Sums, means, variances and norms over some dimensions; the largest and products over finite ones."""
    if node.ref("other") is not None:
        return larger(low, node)
    x = low.operand(node, "self")
    taken, keep = reduced(node, len(x.dims)), bool(node.arguments[0].get("keepdim"))
    if node.op == "sum":
        return low.reduce(x, taken, keep)
    if node.op == "mean":
        return low.mean(x, taken, keep)
    if node.op in ("var", "std", "var_mean", "std_mean"):
        spread_ = variance(low, x, taken, keep, correction(node))
        if node.op.startswith("std"):
            spread_ = low.entrywise(heads.sqrt, [spread_], spread_.dims)
        return [spread_, low.mean(x, taken, keep)] if node.op.endswith("_mean") else spread_
    if node.op in ("linalg_vector_norm", "norm"):
        return norm(low, node, x, taken, keep)
    if node.op == "logsumexp":
        total = low.reduce(low.entrywise(heads.exp, [x], x.dims), taken, keep)
        return low.entrywise(heads.log, [total], total.dims)
    found = folded(low, node, x, taken, keep)
    return [found] if node.many else found


def norm(low: Lowering, node: Node, x: Tensor, taken: set[int], keep: bool) -> Tensor:
    """The root of the sum of squares, or the sum of sizes."""
    order = node.arguments[0].get("ord", node.arguments[0].get("p", 2))
    if order not in (2, 2.0, None, 1, 1.0):
        refuse(node, f"it is a norm of order {order}", "norms of order 1 and 2 are sums")
    euclidean = order in (2, 2.0, None)
    total = low.reduce(low.entrywise(lambda v: v**2 if euclidean else heads.abs(v), [x], x.dims), taken, keep)
    return low.entrywise(heads.sqrt, [total], total.dims) if euclidean else total


@operation("pairwise_distance")
def distance(low: Lowering, node: Node) -> Tensor:
    """The norm of x − y + ε along the last dimension."""
    x, y = (low.operand(node, k) for k in ("x1", "x2"))
    dims = tuple(a if a != ONE else b for a, b in zip(x.dims, y.dims, strict=True))
    eps = low.literal(node, "eps")
    apart = low.entrywise(lambda u, v: u - v + eps, [x, y], dims)
    return norm(low, node, apart, {len(dims) - 1}, bool(node.arguments[0].get("keepdim")))


@operation("cosine_similarity")
def cosine(low: Lowering, node: Node) -> Tensor:
    """x·y over the product of the norms, each of which is ε at least."""
    x, y = (low.operand(node, k) for k in ("x1", "x2"))
    dim, eps = dimension(node["dim"], len(x.dims)), low.literal(node, "eps")
    norms = []
    for v in (x, y):
        total = low.reduce(low.entrywise(lambda u: u**2, [v], v.dims), {dim}, True)
        norm = low.entrywise(lambda s: heads.maximum(heads.sqrt(s), eps), [total], total.dims)
        norms.append(low.entrywise(lambda u, s: u / s, [v, norm], v.dims))
    dims = tuple(a if a != ONE else b for a, b in zip(x.dims, y.dims, strict=True))
    return low.reduce(low.entrywise(lambda a, b: a * b, norms, dims), {dim}, False)


@operation("cumsum")
def running(low: Lowering, node: Node) -> Tensor:
    """Sums of all entries so far, along a finite dimension."""
    x = low.operand(node, "self")
    dim = dimension(node["dim"], len(x.dims))
    own = letters(len(x.dims))
    earlier = low.fixed(torch.ones(x.dims[dim].outer, x.dims[dim].outer).triu())
    return low.contract([(x, own), (earlier, own[dim] + "Z")], own.replace(own[dim], "Z"))


@operation("cumprod")
def running_product(low: Lowering, node: Node) -> Tensor:
    """Products of all entries so far, along a finite dimension."""
    x = low.operand(node, "self")
    dim = dimension(node["dim"], len(x.dims))
    one = [ONE if i == dim else d for i, d in enumerate(x.dims)]
    found: Tensor | None = None
    terms = []
    for t in range(x.dims[dim].outer):

        def at(code: Any, t: int = t) -> Any:
            return code.narrow(dim, t, 1)

        entry = low.move(node, x, one, at)
        found = entry if found is None else low.entrywise(lambda a, b: a * b, [found, entry], one)

        def on(code: Any, t: int = t) -> Any:
            many = [torch.full_like(code, -1)] * x.dims[dim].outer
            return torch.cat([*many[:t], code, *many[t + 1 :]], dim)

        terms.append((1, low.move(node, found, x.dims, on)))
    return plus(low, terms, x.dims)


def correction(node: Node) -> Any:
    """What is subtracted from the number of entries in a variance."""
    given = node.arguments[0]
    if "correction" in given:
        return 1 if given["correction"] is None else given["correction"]
    return 1 if given.get("unbiased", True) else 0


def variance(low: Lowering, x: Tensor, taken: Iterable[int], keep: bool = True, less: Any = 0) -> Tensor:
    """The variance over dimensions, with `less` subtracted from the number of entries."""
    taken = set(taken)
    centred = low.entrywise(lambda v, m: v - m, [x, low.mean(x, taken)], x.dims)
    total = low.reduce(low.entrywise(lambda v: v**2, [centred], x.dims), taken, keep)
    return plus(low, [(1 / (low.count(x, taken) - less), total)], total.dims)


def folded(low: Lowering, node: Node, x: Tensor, taken: set[int], keep: bool) -> Tensor:
    """max, min or a product over finite dimensions, entry after entry."""
    head = {"amax": heads.maximum, "max": heads.maximum, "amin": heads.minimum, "min": heads.minimum,
            "prod": lambda a, b: a * b}[node.op]  # fmt: skip
    shape = [d.outer for i, d in enumerate(x.dims) if i in taken]
    found: Tensor | None = None
    kept = tuple(d for i, d in enumerate(x.dims) if i not in taken)
    for at in torch.cartesian_prod(*(torch.arange(s) for s in shape)).reshape(-1, len(shape)).tolist():

        def one(code: Any, at: list[int] = at) -> Any:
            for i, index in zip(sorted(taken, reverse=True), reversed(at), strict=True):
                code = code.select(i, index)
            return code

        entry = low.move(node, x, kept, one)
        found = entry if found is None else low.entrywise(head, [found, entry], kept)
    assert found is not None
    if not keep:
        return found
    return spread(
        found,
        [ONE if i in taken else d for i, d in enumerate(x.dims)],
        [i for i in range(len(x.dims)) if i not in taken],
    )


@operation("softmax", "_softmax", "log_softmax", "_log_softmax")
def softmax_(low: Lowering, node: Node) -> Tensor:
    """softmax and its logarithm along one dimension."""
    x = low.operand(node, "self")
    dim = dimension(node["dim"], len(x.dims))
    if "log" not in node.op:
        return softmax(low, x, dim)
    total = low.reduce(low.entrywise(heads.exp, [x], x.dims), {dim}, True)
    return low.entrywise(lambda v, t: v - heads.log(t), [x, total], x.dims)


def softmax(low: Lowering, x: Tensor, dim: int) -> Tensor:
    """exp(x)/Σ exp(x); hidden entries get no weight."""
    weights = low.entrywise(heads.exp, [replace(x, hidden=None)], x.dims)
    if x.hidden is not None:
        weights = low.entrywise(lambda w, s: w * s, [weights, x.hidden], x.dims)
    total = low.reduce(weights, {dim}, True)
    return low.entrywise(lambda w, t: w / t, [weights, total], x.dims)


@operation("scaled_dot_product_attention")
def attention(low: Lowering, node: Node) -> Tensor:
    """softmax(Q Kᵀ/√d + mask) V."""
    q, k, v = (low.operand(node, name) for name in ("query", "key", "value"))
    if node.arguments[0].get("enable_gqa"):
        k, v = (_shared(low, node, q, x) for x in (k, v))
    rank = len(q.dims)
    turned = spread(k, [*k.dims[:-2], k.dims[-1], k.dims[-2]], [*range(rank - 2), rank - 1, rank - 2])
    logits = product(low, q, turned)
    given = low.literal(node, "scale")
    scale = 1 / _root(low.count(q, [rank - 1])) if given is None else given
    logits = plus(low, [(scale, logits)], logits.dims)
    if node.arguments[0].get("is_causal"):
        rows, columns = (d.outer for d in logits.dims[-2:])
        seen = low.fixed(torch.ones(rows, columns).tril())
        logits = replace(logits, hidden=low.broadcast(seen, logits.dims))
    mask = node.ref("attn_mask")
    if mask is not None:
        m = low.tensor(mask)
        if low.found.graph[mask].dtype == torch.bool:
            logits = replace(logits, hidden=low.broadcast(m, logits.dims))
        else:
            logits = plus(low, [(1, logits), (1, m)], logits.dims)
    found = product(low, softmax(low, logits, rank - 1), v)
    return replace(found, dims=low.dims(node.number))


def _root(count: Any) -> Any:
    return heads.sqrt(count) if not isinstance(count, int) else math.sqrt(count)


def _shared(low: Lowering, node: Node, q: Tensor, x: Tensor) -> Tensor:
    """Keys or values that several heads share, once for each head."""
    heads_of = q.dims[-3]
    times = heads_of.size(low.writer.atoms) // x.dims[-3].size(low.writer.atoms)
    dims = (*x.dims[:-3], heads_of, *x.dims[-2:])
    return low.move(node, x, dims, lambda code: code.repeat_interleave(times, -3))


#: the constant of norms without ε, for which PyTorch takes that of the precision: single, as models are trained
MACHINE = "machine_eps"
SINGLE, DOUBLE = float(torch.finfo(torch.float32).eps), float(torch.finfo(torch.float64).eps)


def normalised(low: Lowering, x: Tensor, taken: set[int], eps: Any, centred: bool = True) -> Tensor:
    """(x − mean)/√(variance + ε), or x/√(mean of squares + ε)."""
    if not centred:
        square = low.mean(low.entrywise(lambda v: v**2, [x], x.dims), taken)
        return low.entrywise(lambda v, s: v / heads.sqrt(s + eps), [x, square], x.dims)
    middle = low.entrywise(lambda v, m: v - m, [x, low.mean(x, taken)], x.dims)
    spread_ = low.mean(low.entrywise(lambda v: v**2, [middle], x.dims), taken)
    return low.entrywise(lambda v, s: v / heads.sqrt(s + eps), [middle, spread_], x.dims)


def scaled(low: Lowering, node: Node, x: Tensor, at: int | None = None) -> Tensor:
    """The gain and the bias of a norm: along one dimension, or the last ones."""
    for name, body in (("weight", lambda v, w: v * w), ("bias", lambda v, b: v + b)):
        if node.ref(name) is not None:
            w = low.operand(node, name)
            w = low.broadcast(w, x.dims) if at is None else spread(w, x.dims, [at])
            x = low.entrywise(body, [x, w], x.dims)
    return x


@operation("layer_norm", "rms_norm", "native_layer_norm", "_fused_rms_norm")
def layer_norm(low: Lowering, node: Node) -> Any:
    """Norms over the last dimensions, with gain and bias."""
    x = low.operand(node, "input")
    rank = len(node.arguments[0]["normalized_shape"])
    unsaid = node.arguments[0].get("eps") is None
    eps = low.constants[MACHINE] if unsaid else low.literal(node, "eps")
    taken = set(range(len(x.dims) - rank, len(x.dims)))
    found = scaled(low, node, normalised(low, x, taken, eps, "rms" not in node.op))
    return [found] if node.many else found


@operation("group_norm", "native_group_norm", "instance_norm")
def group_norm(low: Lowering, node: Node) -> Any:
    """Norms over groups of channels and all positions, with gain and bias by channel."""
    x = low.operand(node, "input")
    if node.op == "instance_norm":
        if node.ref("running_mean") is not None and not node.arguments[0].get("use_input_stats"):
            return batch_norm(low, node)
        found = normalised(low, x, set(range(2, len(x.dims))), low.literal(node, "eps"))
        return scaled(low, node, found, 1)
    many = node.get("num_groups" if node.op == "group_norm" else "group")
    groups, channels = many[0], x.dims[1]
    if len(set(many)) > 1:  # groups of a few channels each, as many groups as neurons
        each = node.shapes[0][1] // groups
        parts = (replace(channels, inner=channels.inner // each), Dim(each))
    elif channels.outer % groups and channels.width is not None:
        refuse(node, f"{groups} groups do not divide {channels.outer} pieces of a width")
    else:
        parts = (Dim(groups), replace(channels, outer=channels.outer // groups))
    dims = (x.dims[0], *parts, *x.dims[2:])
    found = normalised(low, low.reshaped(node, x, dims), set(range(2, len(dims))), low.literal(node, "eps"))
    found = scaled(low, node, low.reshaped(node, found, x.dims), 1)
    return [found] if node.many else found


@operation("batch_norm", "_native_batch_norm_legit_no_training", "_batch_norm_no_update", "native_batch_norm")
def batch_norm(low: Lowering, node: Node) -> Any:
    """(x − m)/√(v + ε) with the running mean and variance, with gain and bias by channel."""
    if node.arguments[0].get("training"):
        refuse(
            node,
            "it takes statistics of the batch whatever the mode is, which mixes inputs",
            "give it running ones, as nn.BatchNorm has",
        )
    x = low.operand(node, "input")
    m, v = (spread(low.operand(node, k), x.dims, [1]) for k in ("running_mean", "running_var"))
    eps = low.literal(node, "eps")
    found = low.entrywise(lambda x_, m_, v_: (x_ - m_) / heads.sqrt(v_ + eps), [x, m, v], x.dims)
    found = scaled(low, node, found, 1)
    return [found] if node.many else found
