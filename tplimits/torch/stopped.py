"""Regions without gradients, `with torch.no_grad():`, as operations whose results are detached.

torch.export keeps such a region whole, as a graph inside the graph.  What it computes is what its operations compute;
what comes out of it has no gradient, which is what `detach` says.
"""

from __future__ import annotations

from typing import Any

import torch

_DETACH = torch.ops.aten.detach.default
_REGION = "wrap_with_set_grad_enabled"


def opened(program: Any) -> Any:
    """The same exported program with the operations of such regions in the graph itself."""
    graph = program.graph
    while regions := [node for node in graph.nodes if getattr(node.target, "__name__", "") == _REGION]:
        for node in regions:
            _open(program.graph_module, node)
    graph.eliminate_dead_code()
    return program


def _open(module: Any, region: Any) -> None:
    """Put the operations of a region in its place."""
    enabled, inside, *operands = region.args
    body = getattr(module, inside.target)
    with module.graph.inserting_before(region):
        places = [node for node in body.graph.nodes if node.op == "placeholder"]
        moved: dict[Any, Any] = dict(zip(places, operands, strict=True))
        for node in body.graph.nodes:
            if node.op == "get_attr":  # a region inside the region
                name = f"{inside.target}_{node.target}"
                setattr(module, name, getattr(body, node.target))
                moved[node] = module.graph.get_attr(name)
            elif node.op == "call_function":
                moved[node] = module.graph.node_copy(node, lambda n: moved[n])
            elif node.op == "output":
                results = torch.fx.map_arg(node.args[0], lambda n: moved[n])
        if not enabled:
            results = torch.fx.map_arg(results, lambda n: _detached(module, n))
    for reader in list(region.users):  # results come as a tuple, taken apart one by one
        reader.replace_all_uses_with(results[reader.args[1]])
        module.graph.erase_node(reader)
    module.graph.erase_node(region)


def _detached(module: Any, node: Any) -> Any:
    stopped = module.graph.call_function(_DETACH, (node,))
    stopped.meta = dict(node.meta)
    return stopped
