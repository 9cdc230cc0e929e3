"""The permutation test: neurons that change places consistently must not change what the model does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tplimits.torch.data import doubled, without_casts
from tplimits.torch.sizes import Wide

if TYPE_CHECKING:
    from tplimits.torch.analysis import Analysed


def permuted(found: Analysed, at: int, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Random parameters and buffers of the module at one width, and the same with the neurons of each atom permuted."""
    generator = torch.Generator().manual_seed(seed)
    axes = found.axes
    orders: dict[Any, Any] = {}
    plain: dict[str, Any] = {}
    moved: dict[str, Any] = {}
    for node in found.graph:
        if node.kind not in ("parameter", "buffer") or (
            node.tensor in plain and not found.graph.readers.get(node.number)
        ):
            continue
        tensor = found.graph.tensors[at][node.tensor].detach()
        if tensor.is_floating_point():
            tensor = tensor.double()
            if node.kind == "parameter":  # zeros and ones would hide what is not permuted
                tensor = tensor + 0.3 * torch.randn(tensor.shape, generator=generator, dtype=torch.float64) * (
                    tensor.shape[-1] ** -0.5 if tensor.ndim > 1 else 1.0
                )
        other = tensor
        for dim, size in enumerate(axes.of(node.number)):
            if isinstance(size, Wide):
                kind = axes.at(node.number, dim)
                width = int(kind.entries(found.graph.widths, at))
                key = axes.atom(node.number, dim)
                if key not in orders:
                    orders[key] = torch.randperm(width, generator=generator)
                index = torch.arange(tensor.shape[dim]).reshape(kind.outer, width, kind.inner)
                other = other.index_select(dim, index[:, orders[key]].reshape(-1))
        for name in found.graph.aliases.get(node.tensor, (node.tensor,)):
            plain[name], moved[name] = tensor, other
    return plain, moved


def with_weights(found: Analysed, module: Any, values: dict[str, Any], inputs: tuple[Any, ...]) -> Any:
    """What a module returns with other weights; of several names of one tensor one is given, as PyTorch ties them."""
    once = {name: value for name, value in values.items() if found.graph.aliases.get(name, (name,))[0] == name}
    return torch.func.functional_call(module, once, inputs)


def permutation_error(found: Analysed, example: tuple[Any, ...], at: int = 0, seed: int = 0) -> float:
    """The largest change of outputs, relative to their size, when neurons are permuted consistently."""
    plain, moved = permuted(found, at, seed)
    module = found.graph.modules[at]
    doubles = tuple(doubled(x) for x in example)
    with torch.no_grad(), without_casts():
        results = [_outputs(found, with_weights(found, module, values, doubles)) for values in (plain, moved)]
    worst = 0.0
    for one, other in zip(*results, strict=True):
        scale = max(float(one.abs().max()), 1e-300)
        worst = max(worst, float((one - other).abs().max()) / scale)
    return worst


def _outputs(found: Analysed, result: Any) -> list[Any]:
    """The tensors that a module returns, in order, without those that have an entry for each neuron."""
    leaves, _ = torch.utils._pytree.tree_flatten(result)
    tensors = [leaf for leaf in leaves if torch.is_tensor(leaf)]
    known = found.graph.outputs if len(found.graph.outputs) == len(tensors) else ()
    wide = {i for i, number in enumerate(known) if found.axes.wide(number)}
    return [x for i, x in enumerate(tensors) if i not in wide and x.is_floating_point()]
