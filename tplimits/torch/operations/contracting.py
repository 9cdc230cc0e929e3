"""Products: linear maps, matrix products, sums over letters, look-ups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from tplimits.program.language.matrices import MatrixValue
from tplimits.torch.graph import Node, refuse
from tplimits.torch.operations.entrywise import plus
from tplimits.torch.operations.registry import operation
from tplimits.torch.rules.contracting import FACTORS, einsum_letters
from tplimits.torch.tensors import Tensor, spread

if TYPE_CHECKING:
    from tplimits.torch.lowering import Lowering


def letters(count: int, first: str = "a") -> str:
    """Letters for dimensions."""
    return "".join(chr(ord(first) + i) for i in range(count))


def with_bias(low: Lowering, node: Node, product: Tensor, at: int = -1) -> Tensor:
    """A product with the bias of its node, if it has one, along one dimension."""
    dims = low.dims(node.number)
    product = replace(product, dims=dims)
    if node.ref("bias") is None:
        return product
    return plus(low, [(1, product), (1, spread(low.operand(node, "bias"), dims, [at % len(dims)]))], dims)


@operation("linear")
def linear(low: Lowering, node: Node) -> Tensor:
    """x Wᵀ + b."""
    x, weight = low.operand(node, "input"), low.operand(node, "weight")
    lead = letters(len(x.dims) - 1)
    if len(weight.dims) == 1:
        return with_bias(low, node, low.contract([(x, lead + "y"), (weight, "y")], lead))
    found = low.contract([(x, lead + "y"), (weight, "zy")], lead + "z")
    return with_bias(low, node, found)


@operation("matmul", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv")
def matmul(low: Lowering, node: Node) -> Tensor:
    """Products of matrices and vectors, with numbers in front and something added: β C + α A B."""
    a, b = (low.operand(node, k) for k in FACTORS[node.op])
    dims = low.dims(node.number)
    found = product(low, a, b)
    found = replace(found, dims=dims)
    if not node.op.startswith(("addm", "badd")):
        return found
    beta, alpha = low.literal(node, "beta"), low.literal(node, "alpha")
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
    """Sums of products by letters."""
    operands, out = einsum_letters(low.found.axes, node)
    found = [_diagonal(low, node, low.tensor(r), mine) for r, mine in operands]
    return replace(_by_pairs(low, found, out), dims=low.dims(node.number))


def _by_pairs(low: Lowering, found: list[tuple[Tensor, str]], out: str) -> Tensor:
    """A product of several: what shares a width with a matrix comes to one vector, which the matrix multiplies."""

    def taken(some: list[tuple[Tensor, str]], others: list[tuple[Tensor, str]]) -> tuple[Tensor, str]:
        read = out + "".join(m for _, m in others)
        kept = "".join(c for c in dict.fromkeys("".join(m for _, m in some)) if c in read)
        return (low.contract(some, kept), kept) if len(some) > 1 else some[0]

    while len(found) > 2:
        vectors = [f for f in found if not isinstance(f[0].value, MatrixValue)]
        pairs = (
            (f, shared)
            for f in found if isinstance(f[0].value, MatrixValue)
            for c, d in list(zip(f[1], f[0].dims, strict=True))[::-1] if d.width is not None
            if (shared := [v for v in vectors if c in v[1]])
        )  # fmt: skip
        if (pair := next(pairs, None)) is None:
            break
        matrix, shared = pair
        left = [f for f in found if f is not matrix and not any(f is s for s in shared)]
        found = [*left, taken([taken(shared, [matrix, *left]), matrix], left)]
    return low.contract(found, out)


def _diagonal(low: Lowering, node: Node, tensor: Tensor, mine: str) -> tuple[Tensor, str]:
    """A tensor with the entries at which dimensions of one letter agree."""
    for letter in dict.fromkeys(mine):
        while mine.count(letter) > 1:
            one, other = mine.index(letter), mine.rindex(letter)
            if tensor.dims[one].width is not None:
                refuse(node, "it takes the diagonal of a weight matrix", "a program multiplies vectors by matrices")
            dims = tensor.dims[:other] + tensor.dims[other + 1 :]

            def on(code: Any, one: int = one, other: int = other) -> Any:
                return code.diagonal(dim1=one, dim2=other).movedim(-1, one).contiguous()

            tensor, mine = low.move(node, tensor, dims, on), mine[:other] + mine[other + 1 :]
    return tensor, mine


@operation("bilinear")
def bilinear(low: Lowering, node: Node) -> Tensor:
    """Σ_ij x_i W_kij y_j + b_k."""
    x, y, weight = (low.operand(node, k) for k in ("input1", "input2", "weight"))
    lead = letters(len(x.dims) - 1)
    if len(weight.widths) < 2:
        found = low.contract([(x, lead + "x"), (y, lead + "y"), (weight, "zxy")], lead + "z")
    elif all(weight.dims[i].width is not None for i in (1, 2)):  # a matrix between two vectors: x·(W y)
        both = low.contract([(y, lead + "y"), (weight, "zxy")], lead + "zx")
        found = low.contract([(x, lead + "x"), (both, lead + "zx")], lead + "z")
    else:  # a matrix: one side is finite, and comes to the vector that it is multiplied by
        both = low.contract([(x, lead + "x"), (y, lead + "y")], lead + "xy")
        found = low.contract([(both, lead + "xy"), (weight, "zxy")], lead + "z")
    return with_bias(low, node, found)


@operation("embedding")
def embedding(low: Lowering, node: Node) -> Tensor:
    """Rows of a table: by an input of the program, or by numbers that are known."""
    weight = low.operand(node, "weight")
    indices = low.index(node)
    dims = low.dims(node.number)
    if torch.is_tensor(indices):  # constant indices pick rows
        return low.move(node, weight, dims, lambda code: code[indices])
    return low.looked_up(weight, indices, dims)
