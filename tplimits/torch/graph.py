"""The graph of a module at several widths: one list of nodes, each with its shapes and arguments at every width."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import torch

from tplimits.errors import ProgramError
from tplimits.torch.derivatives import refuse_own_derivatives
from tplimits.torch.exporting import exported, module_of, silently
from tplimits.torch.rewriting import SAME, is_in_place, opened, refuse_mutation, unrolled, writes_in_place, written_out

Shape = tuple[int, ...]
#: operations that take the shape or the precision of a tensor, and none of its values
FILLED = ("zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty")


@dataclass(frozen=True)
class Ref:
    """An argument that is the result of an earlier node."""

    node: int


@dataclass(frozen=True, eq=False)
class Node:
    """One operation: its ATen name, its arguments by the names of its schema, and what it returns, at each width.

    kind: "parameter", "buffer", "input", "constant", "call" or "item" (one of several results of a node).
    shapes: the shape at each width, of each result where there are several (`many`).
    """

    number: int
    name: str
    kind: str
    op: str
    arguments: tuple[Mapping[str, Any], ...]
    shapes: tuple[Any, ...]
    dtype: Any
    many: bool
    module: str
    target: Any = None
    tensor: str = ""

    @property
    def place(self) -> str:
        """How messages call it: the module it stands in and the operation."""
        if self.kind in ("parameter", "buffer"):
            return f"the {self.kind} `{self.tensor}`"
        return place_of(self.module, self.op or self.kind, self.name)

    @property
    def refs(self) -> list[int]:
        """The nodes it reads, in order, each once."""
        return list(dict.fromkeys(r.node for r in references(self.arguments[0])))

    def __getitem__(self, name: str) -> Any:
        """An argument that is the same at all widths."""
        first, *others = (a.get(name) for a in self.arguments)
        if any(other != first for other in others):
            refuse(self, f"its argument {name} differs between widths: {[a.get(name) for a in self.arguments]}")
        return first

    def get(self, name: str) -> tuple[Any, ...]:
        """An argument at each width."""
        return tuple(a.get(name) for a in self.arguments)

    def ref(self, name: str) -> int | None:
        """The node that an argument is, or None where it is no tensor of the graph."""
        found = self.arguments[0].get(name)
        return found.node if isinstance(found, Ref) else None

    def needed(self, name: str) -> int:
        """The node that an argument is; ProgramError where it is no tensor of the graph."""
        found = self.ref(name)
        if found is None:
            refuse(self, f"its argument {name} is {self.arguments[0].get(name)!r}, no tensor of the graph")
        return found


def place_of(module: str, op: str, name: str) -> str:
    """What messages call an operation.

    >>> place_of("blocks.0", "relu", "relu_1")
    '`blocks.0`, operation relu (relu_1)'
    """
    return f"{f'`{module}`' if module else 'the model itself'}, operation {op} ({name})"


@dataclass(frozen=True, eq=False)
class Graph:
    """A module at several widths, as one list of nodes.

    outputs: the nodes it returns.  parameters: {node: name in the state dict}, tied names once, `aliases` all of them.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    widths: tuple[int, ...]
    tensors: tuple[Mapping[str, Any], ...]
    aliases: Mapping[str, tuple[str, ...]]
    modules: tuple[Any, ...]
    readers: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    @cached_property
    def needed(self) -> frozenset[int]:
        """The nodes that outputs rest on."""
        return frozenset(behind(self, *self.outputs))

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]


def behind(graph: Graph, *ends: int) -> set[int]:
    """Some nodes and all that enters them."""
    found, left = set[int](), list(ends)
    while left:
        number = left.pop()
        if number not in found:
            found.add(number)
            left += graph[number].refs
    return found


def refuse(node: Node, found: str, repair: str = "") -> NoReturn:
    """ProgramError that names the module and the operation."""
    raise ProgramError(f"{node.place}: {found}" + (f"; {repair}" if repair else "") + ".")


def references(value: Any) -> list[Ref]:
    """All references inside nested arguments."""
    if isinstance(value, Ref):
        return [value]
    if isinstance(value, Mapping):
        return [r for v in value.values() for r in references(v)]
    if isinstance(value, (list, tuple)):
        return [r for v in value for r in references(v)]
    return []


def export(
    make: Callable[[int], Any], example: tuple[Any, ...], widths: tuple[int, ...], known: Container[str]
) -> Graph:
    """The graph of make(n) at each width, checked to be one graph; known: operations that stay as they are."""
    modules = tuple(module_of(make, n) for n in widths)
    first = exported(modules[0], example, widths[0])
    # of one width: whether a backward pass is written by hand does not depend on n
    refuse_own_derivatives(modules[0], first, example)
    others = (exported(m, example, n) for m, n in zip(modules[1:], widths[1:], strict=True))
    with silently():
        programs = tuple(written_out(unrolled(opened(p)), known, _op_name) for p in (first, *others))
    if any(writes_in_place(p) for p in programs):
        # with no decompositions this only makes in-place operations functional: ATen names stay as rules know them
        with silently():
            programs = tuple(p.run_decompositions({}) for p in programs)
        for p, n in zip(programs, widths, strict=True):
            refuse_mutation(p, n)
    return _joined(programs, modules, widths)


def _joined(programs: tuple[Any, ...], modules: tuple[Any, ...], widths: tuple[int, ...]) -> Graph:
    _refuse_other_parameters(programs, widths)
    lists = [list(p.graph.nodes) for p in programs]
    for other, n in zip(lists[1:], widths[1:], strict=True):
        _refuse_other_graph(lists[0], other, (widths[0], n))
    _refuse_open_shapes(lists[0])
    placeholders = _placeholders(programs[0])
    places = {node: i for i, node in enumerate(lists[0])}
    tables = [{node: i for i, node in enumerate(nodes)} for nodes in lists]
    found: list[Node] = []
    outputs: tuple[int, ...] = ()
    for many in zip(*lists, strict=True):
        first = many[0]
        # the last node; what it returns is told by references, and no operation stands behind it
        if first.op == "output":
            outputs = tuple(r.node for r in references(_arguments(first, tables[0])))
            break
        kind, tensor = placeholders.get(first.name, ("call", ""))
        values = [node.meta.get("val") for node in many]
        # a node with several results, of which `getitem` takes one
        several = isinstance(values[0], (list, tuple))
        found.append(
            Node(
                places[first],
                first.name,
                "item" if first.op == "call_function" and _is_getitem(first.target) else kind,
                _op_name(first.target) if first.op == "call_function" else "",
                tuple(_arguments(node, table) for node, table in zip(many, tables, strict=True)),
                tuple(tuple(_shape(v) for v in value) if several else _shape(value) for value in values),
                getattr(values[0], "dtype", None),
                several,
                _path(first),
                first.target if first.op == "call_function" else None,
                tensor,
            )
        )
    readers: dict[int, tuple[int, ...]] = {}
    for node in found:
        for r in node.refs:
            readers[r] = (*readers.get(r, ()), node.number)
    state = tuple({**p.constants, **p.state_dict} for p in programs)
    return Graph(tuple(found), outputs, widths, state, aliases_of(modules[0], state[0]), modules, readers)


_SAME_GRAPH = "the number of layers and operations has to be the same at all widths."


def _refuse_other_parameters(programs: tuple[Any, ...], widths: tuple[int, ...]) -> None:
    names = [set(p.state_dict) for p in programs]
    for other, n in zip(names[1:], widths[1:], strict=True):
        if other != names[0]:
            more, name = (n, min(other - names[0])) if other - names[0] else (widths[0], min(names[0] - other))
            raise ProgramError(
                f"the graph depends on the width: `{name}` is in make({more}) and not in make("
                f"{widths[0] if more == n else n}); {_SAME_GRAPH}"
            )


def _refuse_other_graph(first: list[Any], other: list[Any], widths: tuple[int, int]) -> None:
    for a, b in zip(first, other, strict=False):
        if a.op != b.op or (a.op == "call_function" and a.target != b.target):
            raise ProgramError(
                f"the graph depends on the width: {_path(a) or 'the model'} does {_op_name(a.target)} at width "
                f"{widths[0]} and {_op_name(b.target)} at {widths[1]}; {_SAME_GRAPH}"
            )
    # after the common part agrees: the first operation that differs says more than two counts
    if len(first) != len(other):
        raise ProgramError(
            f"the graph depends on the width: {len(first)} operations at width {widths[0]}, {len(other)} at "
            f"{widths[1]}; {_SAME_GRAPH}"
        )


def _refuse_open_shapes(nodes: list[Any]) -> None:
    for node in nodes:
        value = node.meta.get("val")
        for v in value if isinstance(value, (list, tuple)) else [value]:
            if any(not isinstance(s, int) for s in getattr(v, "shape", ())):
                raise ProgramError(
                    f"{place_of(_path(node), _op_name(node.target), node.name)}: how many entries it has depends on "
                    "values of tensors; keep all of them, and weigh by a mask what is not to count."
                )


def _placeholders(program: Any) -> dict[str, tuple[str, str]]:
    """What the placeholders stand for: their kind, and the name of their tensor."""
    kinds = {"PARAMETER": "parameter", "BUFFER": "buffer", "USER_INPUT": "input", "CONSTANT_TENSOR": "constant"}
    return {
        s.arg.name: (kinds.get(s.kind.name, s.kind.name), s.target or "") for s in program.graph_signature.input_specs
    }


def _arguments(node: Any, places: Mapping[Any, int]) -> dict[str, Any]:
    """The arguments of an FX node by the names of its schema, with references in place of nodes."""

    def read(value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return Ref(places[value])
        if isinstance(value, (list, tuple)):
            return [read(v) for v in value]
        return value

    # by the names of the schema: the same operation comes with positional and named arguments
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return {str(i): read(a) for i, a in enumerate(node.args)}
    found = {}
    for i, argument in enumerate(schema.arguments):
        if i < len(node.args):
            found[argument.name] = read(node.args[i])
        elif argument.name in node.kwargs:
            found[argument.name] = read(node.kwargs[argument.name])
        else:
            found[argument.name] = argument.default_value if argument.has_default_value() else None
    return found


def _is_getitem(target: Any) -> bool:
    return getattr(target, "__name__", "") == "getitem" and not hasattr(target, "_schema")


def _op_name(target: Any) -> str:
    """The name of an ATen operation without its overload; an in-place one is the ordinary one."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return getattr(target, "__name__", str(target))
    name = schema.name.split("::")[1]
    name = name[:-1] if name.endswith("_") and is_in_place(target) else name
    return SAME.get(name, name)


def _shape(value: Any) -> Shape:
    return tuple(int(s) for s in getattr(value, "shape", ()))


def _path(node: Any) -> str:
    """The innermost module that a node comes from, as the module tree names it."""
    stack = node.meta.get("nn_module_stack") or {}
    path = next(reversed(stack.values()))[0] if stack else ""
    return path.removeprefix("L__self__").removeprefix(".").split("@")[0]


def aliases_of(module: Any, tensors: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """All names of each parameter and buffer: tied ones are one object, whatever a signature says.

    ProgramError for different parameters in one memory: each of them has a gradient, and both are changed by either.
    """
    named = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers())}
    groups: dict[int, list[str]] = {}
    memory: dict[int, str] = {}
    for name in tensors:
        tensor = named.get(name, tensors[name])
        groups.setdefault(id(tensor), []).append(name)
        if getattr(tensor, "requires_grad", False) and tensor.numel():
            first = memory.setdefault(tensor.untyped_storage().data_ptr(), name)
            if id(named.get(first, tensors[first])) != id(tensor):
                raise ProgramError(
                    f"the parameters `{first}` and `{name}` are two tensors in one memory: PyTorch trains each of "
                    "them, and a step of one changes the other; use one parameter, transposed or reshaped in forward."
                )
    return {name: tuple(group) for group in groups.values() for name in group}
