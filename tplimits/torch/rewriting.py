"""Exported programs in the operations that rules know, under one name each.

torch.export keeps regions `with torch.no_grad():` whole, as a graph inside the graph.  What they compute is what their
operations compute; what comes out of them has no gradient, which is what `detach` says.  Recurrent cells and sequences,
too, are kept whole; their gates are pieces of one matrix, which the rules of `linear`, `chunk` and of entrywise
functions already know.  Operations that no rule reads are written as those that PyTorch makes them of.  Some operations
in place are ordinary ones; buffers that a call changes are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.nn.functional import linear

from tplimits.errors import ProgramError

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


_ATEN = torch.ops.aten


def _lstm_cell(x: Any, state: Any, w_x: Any, w_h: Any, b_x: Any = None, b_h: Any = None) -> tuple[Any, Any]:
    h, c = state
    i, f, g, o = (linear(x, w_x, b_x) + linear(h, w_h, b_h)).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru_cell(x: Any, h: Any, w_x: Any, w_h: Any, b_x: Any = None, b_h: Any = None) -> Any:
    r_x, z_x, n_x = linear(x, w_x, b_x).chunk(3, 1)
    r_h, z_h, n_h = linear(h, w_h, b_h).chunk(3, 1)
    new = (n_x + (r_x + r_h).sigmoid() * n_h).tanh()
    z = (z_x + z_h).sigmoid()
    return (h - new) * z + new


def _rnn_cell(act: Callable[[Any], Any]) -> Callable[..., Any]:
    def cell(x: Any, h: Any, w_x: Any, w_h: Any, b_x: Any = None, b_h: Any = None) -> Any:
        return act(linear(x, w_x, b_x) + linear(h, w_h, b_h))

    return cell


CELLS = {
    _ATEN.lstm_cell.default: _lstm_cell,
    _ATEN.gru_cell.default: _gru_cell,
    _ATEN.rnn_tanh_cell.default: _rnn_cell(torch.tanh),
    _ATEN.rnn_relu_cell.default: _rnn_cell(torch.relu),
}
SEQUENCES = {
    op: decomposition_table[op]
    for op in (_ATEN.lstm.input, _ATEN.gru.input, _ATEN.rnn_tanh.input, _ATEN.rnn_relu.input)
}


def unrolled(program: Any) -> Any:
    """The same exported program, with cells and sequences written out."""
    table = {**CELLS, **SEQUENCES}
    if any(node.target in table for node in program.graph.nodes):
        return program.run_decompositions(dict(table))
    return program


def writes_in_place(program: Any) -> bool:
    """Whether an in-place operation cannot be read as the ordinary one: its operand is seen by others, or a view."""
    for node in program.graph.nodes:
        if node.op != "call_function" or not is_in_place(node.target):
            continue
        operand = node.args[0]
        if operand.op != "call_function" or _is_view(operand.target):
            return True
        order = {other: i for i, other in enumerate(program.graph.nodes)}
        if any(order[user] > order[node] or _is_view(user.target) for user in operand.users if user is not node):
            return True
    return False


def is_in_place(target: Any) -> bool:
    """Whether an operation changes its first operand."""
    schema = getattr(target, "_schema", None)
    return bool(schema and schema.arguments and (i := schema.arguments[0].alias_info) and i.is_write)


def _is_view(target: Any) -> bool:
    schema = getattr(target, "_schema", None)
    return bool(schema and schema.arguments and schema.arguments[0].alias_info and not is_in_place(target))


def refuse_mutation(program: Any, n: int) -> None:
    """ProgramError where a buffer or an input is not what it was after a call."""
    for spec in program.graph_signature.output_specs:
        if "MUTATION" in spec.kind.name:
            raise ProgramError(
                f"forward changes the buffer or input `{spec.target or spec.arg.name}` in place (width {n}); a program "
                "has no state: compute it anew, or fix it before importing."
            )


#: other names of operations, as `torch.arctan` and `torch.special.expit` leave them in a graph
SAME = {
    **{f"arc{f}": f"a{f}" for f in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")},
    **{"greater": "gt", "less": "lt", "greater_equal": "ge", "less_equal": "le", "not_equal": "ne"},
    **{f"special_{f}": f for f in ("erf", "erfc", "exp2", "expm1", "log1p", "logit", "sinc", "xlogy", "xlog1py")},
    **{"special_expit": "sigmoid", "special_softmax": "softmax", "special_log_softmax": "log_softmax"},
    **{"special_logsumexp": "logsumexp", "fix": "trunc", "linalg_matmul": "matmul", "row_stack": "vstack"},
}
