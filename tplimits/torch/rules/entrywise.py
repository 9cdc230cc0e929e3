"""Axes of operations that act entry by entry: dimensions are matched from the right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tplimits.torch.functions import BINARY, LOGICAL, UNARY
from tplimits.torch.graph import Node, refuse
from tplimits.torch.rules.registry import rule

if TYPE_CHECKING:
    from tplimits.torch.axes import Axes

#: beside the functions of one value
ENTRYWISE = (
    *("add", "sub", "subtract", "rsub", "mul", "multiply", "div", "divide", "true_divide", "pow", "float_power"),
    *("maximum", "minimum", "fmax", "fmin", "positive", "nan_to_num", "neg", "negative"),
    *("where", "masked_fill", "addcmul", "addcdiv", "lerp", "prelu"),
    *("dropout", "feature_dropout", "alpha_dropout", "native_dropout", "contiguous", "clone", "alias"),
    *("lift_fresh_copy", "to", "_to_copy", "type_as", "float", "double", "expand", "expand_as", "broadcast_to"),
)


@rule(*UNARY, *BINARY, *LOGICAL, *ENTRYWISE)
def entrywise(axes: Axes, node: Node) -> None:
    """Dimensions are those of the operands, matched from the right."""
    if "dropout" in node.op and node.arguments[0].get("train"):
        refuse(
            node, "it is dropout whatever the mode is", "give it training=self.training, which evaluation switches off"
        )
    if any(v in (torch.float16, torch.bfloat16) for v in node.arguments[0].values() if isinstance(v, torch.dtype)):
        refuse(node, "it casts to half precision", "import the model in single precision")
    for r in node.refs:
        if axes.wide(r):
            if node.op == "prelu" and r == node.ref("weight") and len(axes.of(r)) == 1:
                axes.same(node, (node.number, 0, 1), (r, 0, 0))
            else:
                axes.broadcast(node, r)


@rule("_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_size", "sym_constrain_range_for_size")
def nothing(axes: Axes, node: Node) -> None:
    """What torch.export notes beside the computation."""


@rule(
    "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "empty_like"
)
def filled(axes: Axes, node: Node) -> None:
    """What is filled like another tensor has its axes; of `new_zeros` and its like it has the precision alone."""
    r = None if node.op.startswith("new_") else node.ref("self")
    if r is not None and len(axes.of(r)) == len(axes.of(node.number)):
        axes.broadcast(node, r)
