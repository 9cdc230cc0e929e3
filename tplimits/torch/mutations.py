"""Operations in place: which are ordinary ones, and buffers that a call changes."""

from __future__ import annotations

from typing import Any

from tplimits.errors import ProgramError


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
