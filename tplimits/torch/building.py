"""A program from a graph whose axes are known: its arguments, and the body that the operations write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import sympy

from tplimits.errors import ProgramError
from tplimits.program.language.annotations import Kind
from tplimits.program.language.operations import n
from tplimits.program.language.trace import written
from tplimits.program.language.values import Value
from tplimits.program.nodes.laws import NORMAL
from tplimits.torch.data import evaluated, from_inputs
from tplimits.torch.dimensions import SIDES, dims_of
from tplimits.torch.graph import refuse
from tplimits.torch.lowering import Lowering, Total
from tplimits.torch.operations import contracting, entrywise, moving, reducing, sliding  # noqa: F401 - they register
from tplimits.torch.operations.reducing import MACHINE, SINGLE
from tplimits.torch.operations.registry import OPERATIONS
from tplimits.torch.sizes import Wide
from tplimits.torch.tensors import Dim, Writer

if TYPE_CHECKING:
    from tplimits.program.language.tracing import Trace
    from tplimits.program.nodes.program import Program
    from tplimits.torch.analysis import Analysed
    from tplimits.torch.entries import Entries


@dataclass(frozen=True, eq=False)
class Built:
    """A program, and where its arguments come from.

    atoms: the sizes of widths in multiples of n.  weights: {argument: node of a parameter or buffer}.
    inputs: {argument: node of the data}.  names: those of the atoms.  output_order: the dimensions of the module's
    output in the order of the program's axes.
    """

    program: Program
    found: Analysed
    atoms: Mapping[str, Fraction]
    weights: Mapping[str, int]
    inputs: Mapping[str, int]
    names: Mapping[Any, str]
    entries: Mapping[str, Entries]
    factors: Mapping[str, Any]
    is_readout: bool
    output_order: tuple[int, ...]

    def is_trained(self, number: int) -> bool:
        """Whether a weight is a parameter that gets gradients."""
        node = self.found.graph[number]
        return node.kind == "parameter" and bool(self.found.graph.tensors[0][node.tensor].requires_grad)


def widths_of(found: Analysed) -> tuple[dict[Any, str], dict[str, Fraction]]:
    """Names of the widths: n for the one that most dimensions have, and their sizes in multiples of n."""
    axes = found.axes
    many = Counter(axes.atom(node.number, d, r) for node, r, d in axes.wide_places())
    sizes = {atom: axes.at(atom[0], atom[2], atom[1]).atom for atom in many}
    order = sorted(many, key=lambda a: (sizes[a] != 1, -many[a], a))
    names = {atom: "n" if i == 0 else f"n{i}" for i, atom in enumerate(order)}
    return names, {names[a]: sizes[a] for a in order}


def _read(found: Analysed) -> set[int]:
    """The nodes that the program itself reads: what data make of data is evaluated before."""
    return {r for node in found.graph if node.number not in found.data for r in node.refs} | set(found.graph.outputs)


def weights_of(found: Analysed) -> dict[str, int]:
    """The parameters, and the buffers along a width, that the model reads: their nodes by name."""
    reads = _read(found)
    return {
        node.tensor: node.number
        for node in found.graph
        if node.number in reads
        and (node.kind == "parameter" or (node.kind == "buffer" and node.number not in found.data))
    }


def built(found: Analysed, example: tuple[Any, ...], name: str, entries: Mapping[str, Entries]) -> Built:
    """The program of a graph whose parameters have these initial entries."""
    names, atoms = widths_of(found)
    data = evaluated(found, example)
    graph = found.graph
    weights = weights_of(found)
    kinds = {key: _kind(found, names, number, entries[key]) for key, number in weights.items()}
    factors = {key: _factor(kinds[key], atoms, entries[key]) for key in weights if kinds[key].what == "Matrix"}
    inputs, lookups, floats = _inputs(found, kinds)
    returned: list[tuple[bool, tuple[int, ...]]] = []

    def body(trace: Trace, arguments: dict[str, Any]) -> dict[str, Any]:
        scaled = {w: int(a * graph.widths[0]) for w, a in atoms.items()}
        every = {**scaled, **{w + s: z for w, z in scaled.items() for s in SIDES}}
        for key, number in {**weights, **inputs}.items():
            _set_sizes(trace, arguments[key], found, names, number)
        values = {number: arguments[key] for key, number in weights.items()}
        values |= {number: arguments[key] for number, key in floats.items()}
        constants = dict(data)
        indices = {at: arguments[key] for at, key in lookups.items()}
        given = {k: v for k, v in arguments.items() if k not in kinds}
        scales = {arguments[key].uid: f for key, f in factors.items() if f != 1}
        low = Lowering(found, Writer(trace, every), names, values, constants, indices, given, scales)
        _run(low)
        parts, is_readout, names_ = _returned(low)
        kept = [a for a in names_ if a is not None]
        # outputs have the axes of the readout, then those that the shift alone has
        order = dict.fromkeys(a for p in parts.values() for a in trace.ordered(p.axes))
        if repeated := [a for a in kept if a not in order]:
            raise ProgramError(
                f"the output of the model is the same at all {trace.size(repeated[0])} positions of one of its "
                "dimensions; return it once."
            )
        returned.append((is_readout, tuple(kept.index(a) for a in order)))
        return parts

    unsized = any(n.op in ("rms_norm", "_fused_rms_norm") and n.arguments[0].get("eps") is None for n in graph)
    program = written(name, list(atoms), kinds, body, {MACHINE: SINGLE} if unsized else None)
    return Built(program, found, atoms, weights, inputs, names, entries, factors, *returned[0])


def _inputs(
    found: Analysed, kinds: dict[str, Kind]
) -> tuple[dict[str, int], dict[tuple[int, int], str], dict[int, str]]:
    """The nodes of the inputs by name, the names of the indices of each table, and of what is read as numbers.

    Their kinds are put beside those of the weights.
    """
    graph, varying = found.graph, from_inputs(found)
    inputs: dict[str, int] = {}
    lookups: dict[tuple[int, int], str] = {}
    for node in graph:
        if node.op == "embedding" and node.number not in found.data and node.ref("indices") in varying:
            at, table = node.needed("indices"), node.needed("weight")
            kind = _data_kind(found, at, index_of=_rows(found, table))
            key = _input_name(graph[at].name, kind, kinds)
            kinds[key], inputs[key], lookups[at, table] = kind, at, key
    floats: dict[int, str] = {}
    for number in sorted(_read(found) & varying):
        if any(
            _as_number(found, reader, number) for reader in graph.readers.get(number, ()) if reader not in found.data
        ):
            kind = _data_kind(found, number)
            key = _input_name(graph[number].name, kind, kinds)
            kinds[key], inputs[key], floats[number] = kind, number, key
    return inputs, lookups, floats


def _as_number(found: Analysed, reader: int, number: int) -> bool:
    node = found.graph[reader]
    return not (node.op == "embedding" and node.ref("indices") == number)


def _run(low: Lowering) -> None:
    graph, data = low.found.graph, low.found.data
    for node in graph:
        if node.number in data or node.kind in ("parameter", "buffer", "input", "constant"):
            continue
        if node.op == "getitem":
            low.tensors[node.number, 0] = low.tensors[node.arguments[0]["0"].node, node.arguments[0]["1"]]
            continue
        if node.op.startswith("_assert") or node.op.startswith("sym_"):
            continue
        if node.op not in OPERATIONS:
            refuse(node, "this operation is not known to the import")
        try:
            result = OPERATIONS[node.op](low, node)
        except ProgramError as error:
            if str(error).startswith("`") and "operation" in str(error)[:200]:
                raise
            refuse(node, str(error).split(": ", 1)[-1].rstrip("."))
        many = result if isinstance(result, list) else [result]
        for at, tensor in enumerate(many):
            low.tensors[node.number, at] = tensor
            _name(low, node, tensor)


def _name(low: Lowering, node: Any, tensor: Any) -> None:
    """Values bear the path of the module that ends with them."""
    if isinstance(tensor.value, Value) and node.module:
        following = [low.found.graph[r].module for r in low.found.graph.readers.get(node.number, ())]
        inside = any(f == node.module or f.startswith(f"{node.module}.") for f in following)
        if not inside and node.module not in low.writer.trace.forced.values():
            low.writer.trace.bind(node.module, tensor.value.uid)


def _returned(low: Lowering) -> tuple[dict[str, Any], bool, list[str | None]]:
    graph = low.found.graph
    tensors = [low.tensor(o) for o in graph.outputs if o not in low.found.data]
    if not tensors:
        raise ProgramError("the model returns nothing that depends on its parameters.")
    tensor = tensors[0]
    names = low.writer.names(tensor.dims, [tensor])
    if isinstance(tensor.value, Total):
        value = tensor.value
        parts = {}
        for key, part in (("return", value.summand), ("shift", value.shift)):
            if part is not None:
                parts[key] = low.writer.written(low.part(tensor, part), names)
        return parts, True, names
    value = low.value(tensor, names)
    if tensor.widths:
        return {"return": value}, False, names
    # a scalar of the program as the sum of n equal entries
    trace = low.writer.trace
    share = Value(trace, trace.constant(1 / n), "n", ())
    return {"return": share * value}, True, names


# -- arguments --------------------------------------------------------------------------------


def _factor(kind: Kind, atoms: Mapping[str, Fraction], entries: Entries) -> Any:
    """What a matrix with entries of variance 1/columns is multiplied by, powers of n apart."""
    if entries.shape == "constant":
        return 1
    columns = atoms[kind.names[1]]
    return entries.spread * sympy.sqrt(sympy.Rational(columns.numerator, columns.denominator))


def _kind(found: Analysed, names: Mapping[Any, str], at: int, entries: Entries) -> Kind:
    """What a parameter is: a matrix over two widths, a vector over one, numbers over none."""
    dims = dims_of(found, names, at)
    widths = [d.width for d in dims if d.width is not None]
    axes = _axes(found, at, dims)
    if len(widths) > 2:
        refuse(found.graph[at], "it has three dimensions that grow with n", "a matrix has two")
    what = ("Scalar", "Vector", "Matrix")[len(widths)]
    found_law = entries.shape_alone() if what == "Matrix" else entries.law()
    law = None if found_law == NORMAL else found_law
    return Kind(what, (*map(str, widths), *axes), law=law)


def _axes(found: Analysed, number: int, dims: tuple[Dim, ...]) -> tuple[str, ...]:
    table = any(
        found.graph[r].op == "embedding" and found.graph[r].ref("weight") == number
        for r in found.graph.readers.get(number, ())
    )
    sizes = [s for d in dims for s in d.finite if s > 1]
    taken: Counter[int] = Counter()
    axes = []
    for i, s in enumerate(sizes):
        if table and i == 0:
            axes.append(f"row{s}")
            continue
        taken[s] += 1
        axes.append(f"d{s}" if taken[s] == 1 else f"d{s}_{taken[s]}")
    return tuple(axes)


def _rows(found: Analysed, table: int) -> str:
    size = found.axes.of(table)[0]
    if size == 1:
        refuse(found.graph[table], "it is a table with one row", "use the row itself")
    return f"row{size}"


def _data_kind(found: Analysed, number: int, index_of: str | None = None) -> Kind:
    dims = tuple(Dim(s) for s in found.axes.of(number) if not isinstance(s, Wide))
    return Kind("Input", _axes(found, number, dims), index_of)


def _input_name(name: str, kind: Kind, kinds: Mapping[str, Kind]) -> str:
    key = name
    while key in kinds and kinds[key] != kind:
        key += "_"
    return key


def _set_sizes(trace: Trace, value: Any, found: Analysed, names: Mapping[Any, str], number: int) -> None:
    sizes = [s for d in dims_of(found, names, number) for s in d.finite if s > 1]
    for axis, size in zip(value.axes, sizes, strict=True):
        trace.set_size(axis, size)
    index_of = getattr(value, "of", None)
    if index_of is not None:
        trace.declare(index_of)
