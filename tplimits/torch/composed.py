"""Operations that no rule reads, as the operations that PyTorch makes them of."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from typing import Any

import torch
from torch._decomp import decomposition_table

_COMPOSED = torch._C.DispatchKey.CompositeImplicitAutograd
#: how often the parts of an operation may have parts
DEPTH = 5


def written_out(program: Any, known: Container[str], named: Callable[[Any], str]) -> Any:
    """The same exported program with the parts of operations that have other names than these.

    Where a part is not known either, the program stays as it is, and messages name what its author wrote.
    """
    found, table = program, dict[Any, Callable[..., Any]]()
    for _ in range(DEPTH):
        if not (others := _others(found, known, named)):
            return found
        if any(_parts(target) is None or target in table for target in others):
            return program
        table |= {target: _parts(target) for target in others}
        found = program.run_decompositions(dict(table))
    return program


def _others(program: Any, known: Container[str], named: Callable[[Any], str]) -> set[Any]:
    """The operations of other names that parameters enter: those of data alone are evaluated, and not read."""
    signature = program.graph_signature
    read = set[Any]()
    found = set[Any]()
    for node in program.graph.nodes:
        if node.name in signature.inputs_to_parameters or any(n in read for n in node.all_input_nodes):
            read.add(node)
            if isinstance(node.target, torch._ops.OpOverload) and named(node.target) not in known:
                found.add(node.target)
    return found


def _parts(target: Any) -> Callable[..., Any] | None:
    """What an operation is made of, if PyTorch says it."""
    if torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), _COMPOSED):
        return partial(target._op_dk, _COMPOSED)
    return decomposition_table.get(target)
