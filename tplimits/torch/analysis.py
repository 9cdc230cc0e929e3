"""The axes of a whole graph: data apart from values, then the rules of every operation.

Buffers that each module has its own of, statistics of batch norms and random numbers, are weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from tplimits.errors import ProgramError
from tplimits.torch.axes import Axes, dimension
from tplimits.torch.graph import FILLED, Graph, Node, refuse
from tplimits.torch.rules import choosing, contracting, entrywise, moving, reducing  # noqa: F401 - they register their rules
from tplimits.torch.rules.registry import RULES
from tplimits.torch.sizes import Wide

_ORDER = ("it orders neurons", "neurons have no order, and no limit when taken by rank")
_MATRIX = ("it is a function of a weight matrix", "a program only multiplies vectors by matrices")
#: operations that no program has: what they do, and the repair
UNKNOWN = {
    **dict.fromkeys(("sort", "topk", "argsort", "kthvalue", "mode", "msort", "argmax", "argmin", "median"), _ORDER),
    **dict.fromkeys(("_weight_norm", "vdot", "linalg_svd", "linalg_qr", "linalg_inv"), _MATRIX),
    **dict.fromkeys(
        ("fft_fft", "fft_rfft", "fft_irfft", "fft_ifft", "fft_fft2", "complex", "view_as_complex", "view_as_real"),
        ("it is complex or mixes all neurons by a Fourier transform", "programs are real, and neurons have no order"),
    ),
    **dict.fromkeys(
        ("round", "floor", "ceil", "trunc", "frac", "fmod", "remainder", "floor_divide"),
        ("it rounds values", "a program has no whole numbers: leave the rounding out, or write a smooth function"),
    ),
    "wrap_with_autocast": ("torch.autocast is in the graph", "leave it out of forward: a program is exact"),
    **dict.fromkeys(
        ("_add_batch_dim", "_remove_batch_dim"),
        ("torch.func.vmap is in the graph", "apply the function to the whole batch"),
    ),
    **dict.fromkeys(
        ("arange", "linspace", "eye", "one_hot"),
        ("it numbers neurons", "neurons have no order; a table along the width can be a buffer"),
    ),
}


#: operations that are read, or refused, as they are
KNOWN = frozenset({*RULES, *UNKNOWN, "getitem"})


@dataclass(frozen=True, eq=False)
class Analysed:
    """A graph whose axes are known; `data` are the nodes that no width and no parameter enters."""

    graph: Graph
    axes: Axes
    data: frozenset[int]

    @cached_property
    def varying(self) -> frozenset[int]:
        """The data nodes that the inputs of the model enter."""
        known: set[int] = set()
        for node in self.graph:
            if node.number in self.data and (
                node.kind == "input" or (node.op not in FILLED and any(r in known for r in node.refs))
            ):
                known.add(node.number)
        return frozenset(known)


def _unknown(axes: Axes, node: Node) -> tuple[str, str]:
    """Why an operation is in no program, and the repair."""
    found = UNKNOWN.get(node.op, ("this operation is not known to the import", "write it by known ones"))
    if found is _ORDER and (operand := node.ref("self")) is not None:
        dims = axes.of(operand)
        dim = node.arguments[0].get("dim", -1)
        if dim is not None and not isinstance(dims[dimension(dim, len(dims))], Wide):
            return "it picks entries by their values", "weigh them by softmax, or take the largest by amax"
    return found


def refuse_random(node: Node) -> None:
    """ProgramError for an operation that draws random numbers; dropout draws them in training alone."""
    training = [node.arguments[0].get(k) for k in ("train", "training") if k in node.arguments[0]]
    drops = "dropout" in node.op or "dropout_p" in node.arguments[0]  # of that its own rule says more
    if not drops and (not training or any(training)):
        refuse(node, "it draws random numbers", "make them an input of forward, or a buffer")


def analysed(graph: Graph) -> Analysed:
    """The axes of a graph, or a ProgramError that names the operation in the way."""
    axes = Axes(graph)
    data: set[int] = set()
    weights = buffers_of_a_module(graph)
    for node in graph:
        if node.kind in ("input", "buffer", "constant"):
            if not axes.wide(node.number) and node.number not in weights:
                data.add(node.number)
            elif node.kind == "input":
                refuse(node, "the example has a dimension that grows with n", "the example is the same at all widths")
            continue
        if node.kind == "parameter":
            continue
        if node.number in graph.needed and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            refuse_random(node)
        if not axes.wide(node.number) and (node.op in FILLED or all(r in data for r in node.refs)):
            data.add(node.number)
            continue
        if node.op not in RULES:
            refuse(node, *_unknown(axes, node))
        RULES[node.op](axes, node)
    if not any(axes.wide(node.number) for node in graph if node.kind == "parameter"):
        raise ProgramError(
            f"no parameter of make(n) grows with n at the widths {graph.widths}: make ignores its argument."
        )
    axes.settle()
    return Analysed(graph, axes, frozenset(data))


#: the numbers of a batch norm that belong to a trained model
STATISTICS = ("running_mean", "running_var")


def buffers_of_a_module(graph: Graph) -> frozenset[int]:
    """The buffers without a width that each module has its own of: statistics of batch norms, and random numbers."""
    own = {
        node.needed(name)
        for node in graph
        for name in STATISTICS
        if "norm" in node.op and node.arguments[0] and node.ref(name) is not None
    }
    drawn = {
        node.number
        for node in graph
        if node.kind == "buffer" and node.number in graph.needed and _is_drawn([t[node.tensor] for t in graph.tensors])
    }
    return frozenset(own | drawn)


def _is_drawn(values: list[Any]) -> bool:
    """Whether numbers of several widths have nothing to do with one another."""
    first = values[0]
    if not first.is_floating_point() or any(v.shape != first.shape for v in values) or first.numel() == 0:
        return False
    if all(torch.allclose(v, first, rtol=1e-6, atol=0) for v in values[1:]):
        return False
    ratios = [(v / first)[first != 0] for v in values[1:]]
    return any(r.numel() > 1 and not torch.allclose(r, r[:1].expand_as(r), rtol=1e-4, atol=0) for r in ratios)
