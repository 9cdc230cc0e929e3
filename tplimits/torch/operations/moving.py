"""Operations that move entries: what they do to numbers of positions is what they do to values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tplimits.errors import ProgramError
from tplimits.program.language.entrywise import sigmoid
from tplimits.torch.axes import places
from tplimits.torch.graph import Node, Ref, refuse
from tplimits.torch.operations.entrywise import plus
from tplimits.torch.operations.registry import operation
from tplimits.torch.tensors import Tensor

if TYPE_CHECKING:
    from tplimits.torch.lowering import Lowering


@operation("view", "reshape", "_unsafe_view", "flatten", "unflatten", "view_as", "reshape_as", "squeeze", "unsqueeze",
           "permute", "transpose", "t", "movedim", "moveaxis", "swapaxes", "swapdims", "numpy_T", "mT", "adjoint",
           "select", "slice", "narrow", "flip", "roll", "unfold", "diagonal", "repeat", "tile", "repeat_interleave",
           "pixel_shuffle", "pixel_unshuffle", "channel_shuffle")  # fmt: skip
def move(low: Lowering, node: Node) -> Tensor:
    """Reshapes, transposes, parts and repetitions."""
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
    arguments = {k: (known(low, v) if k != "self" else code) for k, v in node.arguments[0].items()}
    return node.target(**arguments)


def known(low: Lowering, value: Any) -> Any:
    """An argument with the arrays that data nodes are."""
    if isinstance(value, Ref):
        if value.node not in low.data or value.node in low.found.varying:
            raise ProgramError("an index that inputs or weights say is no number here.")
        return low.data[value.node]
    if isinstance(value, (list, tuple)):
        return [known(low, v) for v in value]
    return value


@operation("constant_pad_nd", "pad", "tril", "triu", "reflection_pad1d", "reflection_pad2d", "replication_pad1d",
           "replication_pad2d", "im2col")  # fmt: skip
def pad(low: Lowering, node: Node) -> Tensor:
    """Entries that become 0, by padding or by masks of triangles; reflected borders are moved ones."""
    tensor = low.operand(node, "self")
    dims = low.dims(node.number)
    if node.arguments[0].get("mode") not in (None, "constant", "reflect", "replicate", "circular"):
        refuse(node, f"its mode is {node['mode']!r}")

    def on(code: Any) -> Any:
        shifted = (code + 1).double()  # 0 is where nothing is read; reflections need floating point
        arguments = {k: v for k, v in node.arguments[0].items() if k not in ("self", "value")}
        return node.target(shifted, **arguments).long() - 1

    found = low.move(node, tensor, dims, on)
    if not node.arguments[0].get("value"):
        return found
    around, value = low.move(node, Tensor(1.0, tensor.dims, {}), dims, on), low.literal(node, "value")
    return low.entrywise(lambda x, inside: x + value * (1 - inside), [found, around], dims)


@operation("split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk", "tensor_split", "unbind")
def split(low: Lowering, node: Node) -> list[Tensor]:
    """Parts of a tensor, each by itself."""
    tensor = low.operand(node, "self")
    found = []
    for result in range(len(node.shapes[0])):

        def on(code: Any, result: int = result) -> Any:
            arguments = {k: (code if k == "self" else v) for k, v in node.arguments[0].items()}
            return node.target(**arguments)[result].contiguous()

        found.append(low.move(node, tensor, low.dims(node.number, result), on))
    return found


@operation("glu")
def gated(low: Lowering, node: Node) -> Tensor:
    """a·sigmoid(b) of the two halves a and b of a dimension."""
    tensor, dims = low.operand(node, "self"), low.dims(node.number)

    def half(which: int) -> Tensor:
        return low.move(node, tensor, dims, lambda code: code.chunk(2, node["dim"])[which].contiguous())

    return low.entrywise(lambda a, b: a * sigmoid(b), [half(0), half(1)], dims)


@operation("cat", "concat", "concatenate", "hstack", "vstack", "stack")
def cat(low: Lowering, node: Node) -> Tensor:
    """Parts side by side: each is 0 where another stands."""
    parts = [r for r in places(node.arguments[0]["tensors"]) if low.found.axes.of(r) != (0,)]
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
