"""How operations are written in the language: entry by entry, moves, products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from tplimits.program.language import entrywise as heads
from tplimits.program.language.values import Value
from tplimits.torch.axes import places
from tplimits.torch.functions import UNARY
from tplimits.torch.graph import Node, Ref, refuse
from tplimits.torch.lowering import HIDDEN, Lowering, Total
from tplimits.torch.rules import einsum_letters
from tplimits.torch.tensors import ONE, Dim, Tensor, spread

Written = Callable[[Lowering, Node], Any]
OPERATIONS: dict[str, Written] = {}


def operation(*names: str) -> Callable[[Written], Written]:
    """Register how operations are written."""

    def kept(function: Written) -> Written:
        OPERATIONS.update(dict.fromkeys(names, function))
        return function

    return kept


# -- entry by entry ---------------------------------------------------------------------------


@operation(*UNARY)
def unary(low: Lowering, node: Node) -> Tensor:
    name, *others = node.arguments[0]
    options = {k: low.literal(node, k) for k in others if isinstance(node.arguments[0][k], (int, float, str))}
    if any(isinstance(node.arguments[0][k], Ref) for k in others):
        refuse(node, "a bound or slope of it is a tensor", "write it by torch.where")
    if node.op == "hardtanh" or node.op.startswith("clamp") or node.op == "clip":
        options = {k: v for k, v in options.items() if v is not None}
    return low.entrywise(lambda x: UNARY[node.op](x, **options), [low.operand(node, name)], low.dims(node.number))


@operation("contiguous", "clone", "alias", "lift_fresh_copy", "to", "_to_copy", "type_as", "float", "double", "dropout",
           "feature_dropout", "alpha_dropout")  # fmt: skip
def identity(low: Lowering, node: Node) -> Tensor:
    return low.operand(node, next(iter(node.arguments[0])))


@operation("zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full")
def filled(low: Lowering, node: Node) -> Tensor:
    value = 0.0 if "zeros" in node.op else 1.0 if "ones" in node.op else low.literal(node, "fill_value")
    return Tensor(value, low.dims(node.number), {})


@operation("expand", "expand_as", "broadcast_to")
def expand(low: Lowering, node: Node) -> Tensor:
    return low.broadcast(low.operand(node, "self"), low.dims(node.number))


@operation("add", "sub", "rsub", "subtract")
def add(low: Lowering, node: Node) -> Tensor:
    a, b = (low.operand(node, k) for k in ("self", "other"))
    alpha = node.arguments[0].get("alpha", 1)
    signs = {"add": (1, alpha), "sub": (1, -alpha), "subtract": (1, -alpha), "rsub": (-alpha, 1)}[node.op]
    return plus(low, [(signs[0], a), (signs[1], b)], low.dims(node.number))


def plus(low: Lowering, terms: list[tuple[Any, Tensor]], dims: tuple[Dim, ...]) -> Tensor:
    """A sum of tensors with numbers in front; sums over neurons stay sums over neurons, and logits hidden."""
    hidden = [t.hidden for _, t in terms if t.hidden is not None]
    totals = [t for _, t in terms if isinstance(t.value, Total)]
    if totals and len({t.value.vector.width for t in totals}) == 1:
        found = _sum_of_totals(low, terms, dims)
    else:
        factors = [f for f, _ in terms]
        found = low.entrywise(lambda *x: _weighted(factors, x), [replace(t, hidden=None) for _, t in terms], dims)
    if not hidden:
        return found
    seen = low.entrywise(_product, hidden, dims) if len(hidden) > 1 else low.broadcast(hidden[0], dims)
    return replace(found, hidden=seen)


def _product(*x: Any) -> Any:
    out = x[0]
    for other in x[1:]:
        out = out * other
    return out


def _weighted(factors: list[Any], x: tuple[Any, ...]) -> Any:
    out: Any = 0
    for f, v in zip(factors, x, strict=True):
        term = v if isinstance(f, int) and f == 1 else f * v
        out = term if isinstance(out, int) and out == 0 else out + term
    return out


def _sum_of_totals(low: Lowering, terms: list[tuple[Any, Tensor]], dims: tuple[Dim, ...]) -> Tensor:
    along = [(f, low.broadcast(t, dims)) for f, t in terms]
    names = low.writer.names(dims, [t for _, t in along])
    vector: Any = 0
    shift: Any = None
    for f, t in along:
        parts = (t.value.vector, t.value.shift) if isinstance(t.value, Total) else (None, t.value)
        for at, part in enumerate(parts):
            if part is None:
                continue
            part = part if not isinstance(part, Value) else low.writer.written(low.part(t, part), names)
            term = part if isinstance(f, int) and f == 1 else f * part
            if at == 0:
                vector = vector + term
            else:
                shift = term if shift is None else shift + term
    if shift is not None and not isinstance(shift, Value):
        shift = vector.derived(low.writer.trace.constant(shift), width=None, axes=())
    return low.total(Total(vector, shift), dims, names)


@operation("mul", "div", "true_divide", "multiply", "divide")
def multiply(low: Lowering, node: Node) -> Tensor:
    a, b = (low.operand(node, k) for k in ("self", "other"))
    dims = low.dims(node.number)
    down = "div" in node.op
    if node.arguments[0].get("rounding_mode"):
        refuse(node, "it rounds", "a program has no whole numbers")
    for x, f in ((a, b), (b, a)) if not down else ((a, b),):
        if isinstance(x.value, Total) and not isinstance(f.value, (Total, Value)):
            factor = 1 / f.value if down else f.value
            return _sum_of_totals(low, [(factor, x)], dims)
        if x.hidden is not None and f.hidden is None:
            found = low.entrywise(
                (lambda p, q: p / q) if down else (lambda p, q: p * q), [replace(x, hidden=None), f], dims
            )
            return replace(found, hidden=low.broadcast(x.hidden, dims))
    return low.entrywise((lambda p, q: p / q) if down else (lambda p, q: p * q), [a, b], dims)


@operation("pow")
def pow_(low: Lowering, node: Node) -> Tensor:
    return low.entrywise(
        lambda p, q: p**q, [low.operand(node, "self"), low.operand(node, "exponent")], low.dims(node.number)
    )


@operation("maximum", "minimum")
def larger(low: Lowering, node: Node) -> Tensor:
    head = heads.maximum if node.op == "maximum" else heads.minimum
    return low.entrywise(head, [low.operand(node, "self"), low.operand(node, "other")], low.dims(node.number))


@operation("addcmul", "addcdiv", "lerp")
def fused(low: Lowering, node: Node) -> Tensor:
    if node.op == "lerp":
        parts, body = ("self", "end", "weight"), lambda a, b, w: a + w * (b - a)
    else:
        value = node.arguments[0].get("value", 1)
        parts = ("self", "tensor1", "tensor2")
        body = (lambda a, b, c: a + value * b * c) if node.op == "addcmul" else (lambda a, b, c: a + value * b / c)
    return low.entrywise(body, [low.operand(node, k) for k in parts], low.dims(node.number))


@operation("prelu")
def prelu(low: Lowering, node: Node) -> Tensor:
    x, w = low.operand(node, "self"), low.operand(node, "weight")
    dims = low.dims(node.number)
    w = spread(w, dims, [1]) if w.dims and w.dims[0] != ONE else Tensor(w.value, dims, {
        a: t.reshape([1] * sum(len(d.finite) for d in dims)) for a, t in w.tables.items()})  # fmt: skip
    return low.entrywise(lambda p, q: heads.relu(p) - q * heads.relu(-1 * p), [x, w], dims)


@operation("masked_fill", "where")
def masked(low: Lowering, node: Node) -> Tensor:
    """A choice by a mask that is data; −∞ hides an entry from softmax."""
    dims = low.dims(node.number)
    if node.op == "where":
        mask, yes, no = (low.operand(node, k) for k in ("condition", "self", "other"))
    else:
        mask, no, yes = low.operand(node, "mask"), low.operand(node, "self"), low.operand(node, "value")
    if node.ref("condition" if node.op == "where" else "mask") not in low.found.data:
        refuse(node, "it chooses by a value of the network", "write it by relu, clamp or maximum")
    one = low.entrywise(lambda m: 1 - m, [mask], mask.dims)
    for x, other, seen in ((no, yes, one), (yes, no, mask)):
        if not isinstance(other.value, (Value, Total)) and float(other.value) <= HIDDEN:
            x = low.broadcast(x, dims)
            seen = low.broadcast(seen, dims)
            if x.hidden is not None:
                seen = low.entrywise(_product, [x.hidden, seen], dims)
            return replace(x, hidden=seen)
    return low.entrywise(lambda m, p, q: m * p + (1 - m) * q, [mask, yes, no], dims)


# -- moving entries ---------------------------------------------------------------------------


@operation("view", "reshape", "_unsafe_view", "flatten", "unflatten", "view_as", "reshape_as", "squeeze", "unsqueeze",
           "permute", "transpose", "t", "movedim", "moveaxis", "swapaxes", "swapdims", "numpy_T", "mT", "adjoint",
           "select", "slice", "narrow", "flip", "roll", "unfold", "diagonal", "repeat", "tile", "repeat_interleave",
           "index_select", "pixel_shuffle", "pixel_unshuffle", "index", "gather")  # fmt: skip
def move(low: Lowering, node: Node) -> Tensor:
    dims = low.dims(node.number)
    tensor = low.operand(node, "self")

    def on(code: Any) -> Any:
        return _called(low, node, code, tuple(node.shapes[0]))

    return low.move(node, tensor, dims, on)


def _called(low: Lowering, node: Node, code: Any, shape: tuple[int, ...]) -> Any:
    """The operation of a node on other entries, at the first width."""
    if node.op in ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "view_as", "reshape_as", "squeeze",
                   "unsqueeze"):  # fmt: skip
        return code.reshape(shape)
    arguments = {k: (_known(low, v) if k != "self" else code) for k, v in node.arguments[0].items()}
    return node.target(**arguments)


def _known(low: Lowering, value: Any) -> Any:
    if isinstance(value, Ref):
        if value.node not in low.data or value.node in low.arguments:
            raise TypeError("an index that is no constant")
        return low.data[value.node]
    if isinstance(value, (list, tuple)):
        return [_known(low, v) for v in value]
    return value


@operation("constant_pad_nd", "pad", "tril", "triu", "reflection_pad1d", "reflection_pad2d", "replication_pad1d",
           "replication_pad2d")  # fmt: skip
def pad(low: Lowering, node: Node) -> Tensor:
    tensor = low.operand(node, "self")
    dims = low.dims(node.number)
    if node.arguments[0].get("value"):
        refuse(node, "it pads with a number that is not 0", "pad with zeros")
    if node.arguments[0].get("mode") not in (None, "constant", "reflect", "replicate", "circular"):
        refuse(node, f"its mode is {node['mode']!r}")

    def on(code: Any) -> Any:
        shifted = (code + 1).double()  # 0 is where nothing is read; reflections need floating point
        arguments = {k: v for k, v in node.arguments[0].items() if k not in ("self", "value")}
        return node.target(shifted, **arguments).long() - 1

    return low.move(node, tensor, dims, on)


@operation("split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk", "tensor_split", "unbind")
def split(low: Lowering, node: Node) -> list[Tensor]:
    tensor = low.operand(node, "self")
    found = []
    for result in range(len(node.shapes[0])):

        def on(code: Any, result: int = result) -> Any:
            arguments = {k: (code if k == "self" else v) for k, v in node.arguments[0].items()}
            return node.target(**arguments)[result].contiguous()

        found.append(low.move(node, tensor, low.dims(node.number, result), on))
    return found


@operation("cat", "concat", "concatenate", "hstack", "vstack", "stack")
def cat(low: Lowering, node: Node) -> Tensor:
    """Parts side by side: each is 0 where another stands."""
    parts = [r for r in places(node, node.arguments[0]["tensors"]) if low.found.axes.of(r) != (0,)]
    tensors = [low.tensor(r) for r in parts]
    dims = low.dims(node.number)
    options = {k: v for k, v in node.arguments[0].items() if k != "tensors"}
    terms = []
    for i, tensor in enumerate(tensors):

        def on(code: Any, i: int = i) -> Any:
            many = [
                code if k == i else torch.full([d.size(low.writer.atoms) for d in t.dims], -1, dtype=torch.int64)
                for k, t in enumerate(tensors)
            ]
            return node.target(many, **options).contiguous()

        if isinstance(tensor.value, float) and tensor.value == 0:
            continue
        terms.append((1, low.move(node, tensor, dims, on)))
    return plus(low, terms, dims)


# -- products -----------------------------------------------------------------------------------


def letters(count: int, start: int = 0) -> str:
    """Letters for dimensions."""
    return "".join(chr(97 + start + i) for i in range(count))


def with_bias(low: Lowering, node: Node, product: Tensor, bias: Tensor | None, at: int = -1) -> Tensor:
    """A product with a bias along one dimension."""
    dims = low.dims(node.number)
    product = replace(product, dims=dims)
    if bias is None:
        return product
    return plus(low, [(1, product), (1, spread(bias, dims, [at % len(dims)]))], dims)


@operation("linear")
def linear(low: Lowering, node: Node) -> Tensor:
    x, weight = low.operand(node, "input"), low.operand(node, "weight")
    bias = low.operand(node, "bias") if node.ref("bias") is not None else None
    lead = letters(len(x.dims) - 1)
    if len(weight.dims) == 1:
        return with_bias(low, node, low.contract([(x, lead + "y"), (weight, "y")], lead), bias)
    found = low.contract([(x, lead + "y"), (weight, "zy")], lead + "z")
    return with_bias(low, node, found, bias)


@operation("matmul", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv")
def matmul(low: Lowering, node: Node) -> Tensor:
    names = {
        "matmul": ("self", "other"), "mm": ("self", "mat2"), "bmm": ("self", "mat2"), "mv": ("self", "vec"),
        "dot": ("self", "tensor"), "addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"), "addmv": ("mat", "vec"),
    }[node.op]  # fmt: skip
    a, b = (low.operand(node, k) for k in names)
    dims = low.dims(node.number)
    found = product(low, a, b)
    found = replace(found, dims=dims)
    if not node.op.startswith(("addm", "badd")):
        return found
    beta, alpha = node.arguments[0].get("beta", 1), node.arguments[0].get("alpha", 1)
    return plus(low, [(alpha, found), (beta, low.operand(node, "self"))], dims)


def product(low: Lowering, a: Tensor, b: Tensor) -> Tensor:
    """A B of the last two dimensions, others matched from the right."""
    lead = max(len(a.dims), len(b.dims), 2) - 2
    batch = letters(lead)
    one = batch[lead - (len(a.dims) - 2) :] + "xy" if len(a.dims) > 1 else "y"
    two = batch[lead - (len(b.dims) - 2) :] + "yz" if len(b.dims) > 1 else "y"
    out = batch + ("x" if len(a.dims) > 1 else "") + ("z" if len(b.dims) > 1 else "")
    return low.contract([(a, one), (b, two)], out)


@operation("einsum")
def einsum(low: Lowering, node: Node) -> Tensor:
    operands, out = einsum_letters(low.found.axes, node)
    found = [(low.tensor(r), mine) for r, mine in operands]
    result = low.contract(found, out)
    return replace(result, dims=low.dims(node.number))


@operation("embedding")
def embedding(low: Lowering, node: Node) -> Tensor:
    weight = low.operand(node, "weight")
    indices = low.index(node)
    dims = low.dims(node.number)
    if torch.is_tensor(indices):  # constant indices pick rows
        return low.move(node, weight, dims, lambda code: code[indices])
    return low.looked_up(weight, indices, dims)
