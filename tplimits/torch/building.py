"""A program from a graph whose axes are known: its arguments, and the body that the operations write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import sympy

from tplimits.errors import ProgramError
from tplimits.program.language.annotations import Kind
from tplimits.program.language.operations import n
from tplimits.program.language.trace import written
from tplimits.program.language.values import Value
from tplimits.program.nodes.kinds import InitialScalar, InitialVector
from tplimits.program.nodes.laws import NORMAL
from tplimits.torch.data import evaluated
from tplimits.torch.dimensions import SIDES, Scaled, dims_of, scaled_data, units
from tplimits.torch.graph import refuse
from tplimits.torch.inputs import Inputs, axes_of, inputs_of, read, set_sizes, tensors_of
from tplimits.torch.lowering import Lowering
from tplimits.torch.operations import choosing, contracting, entrywise, moving, reducing, sliding  # noqa: F401 - they register
from tplimits.torch.operations.reducing import MACHINE, SINGLE
from tplimits.torch.operations.registry import OPERATIONS
from tplimits.torch.tensors import Writer, empty, without_positions
from tplimits.torch.totals import Total

if TYPE_CHECKING:
    from tplimits.program.language.tracing import Trace
    from tplimits.program.nodes.program import Program
    from tplimits.torch.analysis import Analysed
    from tplimits.torch.entries import Entries


@dataclass(frozen=True, eq=False)
class Built:
    """A program, and where its arguments come from.

    atoms: the sizes of widths in multiples of n.  weights: {argument: node of a parameter or buffer}.
    names: those of the atoms.  output_order: the dimensions of the module's
    output in the order of the program's axes.  totals: nodes that are sums over neurons.
    scaled: data that know the width.
    """

    program: Program
    found: Analysed
    atoms: Mapping[str, Fraction]
    weights: Mapping[str, int]
    inputs: Inputs
    names: Mapping[Any, str]
    entries: Mapping[str, Entries]
    factors: Mapping[str, Any]
    is_readout: bool
    output_order: tuple[int, ...]
    totals: frozenset[int]
    scaled: Mapping[int, Scaled]

    @property
    def rounded(self) -> tuple[str, ...]:
        """The widths whose sizes are rounded: their multiples of n are those of the largest model."""
        axes = self.found.axes
        return tuple(name for atom, name in self.names.items() if axes.at(atom[0], atom[2], atom[1]).growth)

    def is_trained(self, number: int) -> bool:
        """Whether a weight is a parameter that gets gradients."""
        node = self.found.graph[number]
        return node.kind == "parameter" and bool(self.found.graph.tensors[0][node.tensor].requires_grad)


def widths_of(found: Analysed) -> tuple[dict[Any, str], dict[str, Fraction], dict[str, int]]:
    """Names of the widths, n for the one that most dimensions have; their sizes in multiples of n, and at first."""
    axes = found.axes
    many = Counter(axes.atom(node.number, d, r) for node, r, d in axes.wide_places())
    widths = found.graph.widths
    kinds = {atom: axes.at(atom[0], atom[2], atom[1]) for atom in many}
    # n is a width that is not rounded and of n entries, where there is one
    order = sorted(many, key=lambda a: (kinds[a].growth, kinds[a].atom != 1, -many[a], a))
    names = {atom: "n" if i == 0 else f"n{i}" for i, atom in enumerate(order)}
    return (
        names,
        {names[a]: kinds[a].ratio(widths) for a in order},
        {names[a]: int(kinds[a].entries(widths, 0)) for a in order},
    )


def rounded_of(found: Analysed) -> list[tuple[float, ...]]:
    """The rounded sizes at all widths, in units in which that of the largest width is n."""
    widths = found.graph.widths
    last = max(range(len(widths)), key=lambda i: widths[i])
    grown = {found.axes.at(node.number, d, r).growth for node, r, d in found.axes.wide_places()}
    return [tuple(float(widths[last] * g / many[last]) for g in many) for many in sorted(grown) if many]


def weights_of(found: Analysed) -> dict[str, int]:
    """The parameters, and the buffers along a width, that the model reads: their nodes by name."""
    reads = read(found)
    return {
        node.tensor: node.number
        for node in found.graph
        if node.number in reads
        and (node.kind == "parameter" or (node.kind == "buffer" and node.number not in found.data))
    }


def built(found: Analysed, example: tuple[Any, ...], name: str, entries: Mapping[str, Entries]) -> Built:
    """The program of a graph whose parameters have these initial entries."""
    names, atoms, sizes = widths_of(found)
    scaled = scaled_data(found, example, units(found, names))
    data = evaluated(found, example)
    graph = found.graph
    weights = weights_of(found)
    kinds = {key: _kind(found, names, number, entries[key]) for key, number in weights.items()}
    factors = {key: _factor(kinds[key], atoms, entries[key]) for key in weights if kinds[key].what == "Matrix"}
    given = inputs_of(found, kinds)
    returned: list[tuple[bool, tuple[int, ...]]] = []
    totals: set[int] = set()

    def body(trace: Trace, arguments: dict[str, Any]) -> dict[str, Any]:
        # the two sides of a square matrix are told apart by a suffix, and have one size
        every = {**sizes, **{w + s: z for w, z in sizes.items() for s in SIDES}}
        for key, number in {**weights, **given.nodes}.items():
            set_sizes(trace, arguments[key], [s for d in dims_of(found, names, number) for s in d.finite if s > 1])
        for key, picks in given.chosen.items():
            set_sizes(trace, arguments[key], [s for s in (*picks.shape, *picks.sizes) if s > 1])
        writer = Writer(trace, every)
        low = Lowering(
            found, writer, names,
            {number: arguments[key] for key, number in {**weights, **given.numbers}.items()}, data,
            indices={at: arguments[key] for at, key in given.indices.items()},
            constants={k: v for k, v in arguments.items() if k not in kinds},
            scales={arguments[key].uid: f for key, f in factors.items() if f != 1},
            picked=tensors_of(given, arguments, writer),
            scaled=scaled,
        )  # fmt: skip
        run(low, graph.needed)
        totals.update(number for (number, _), t in low.tensors.items() if isinstance(t.value, Total))
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
    program = _in_units_of_readout(program, atoms, {key: entries[key] for key in weights})
    return Built(
        program, found, atoms, weights, given, names, entries, factors, *returned[0], frozenset(totals), scaled
    )


def run(low: Lowering, nodes: frozenset[int]) -> None:
    """Write these nodes, as far as they are no data."""
    graph, data = low.found.graph, low.found.data
    for node in graph:
        if node.number not in nodes or node.number in data or node.kind in ("parameter", "buffer", "input", "constant"):
            continue
        if node.op == "getitem":
            low.tensors[node.number, 0] = low.tensors[node.arguments[0]["0"].node, node.arguments[0]["1"]]
            continue
        # asserts and sizes of the exporter compute nothing
        if node.op.startswith("_assert") or node.op.startswith("sym_"):
            continue
        if node.op not in OPERATIONS:
            refuse(node, "this operation is not known to the import")
        if not node.many and without_positions(dims := low.dims(node.number)):
            low.tensors[node.number, 0] = empty(dims)  # no instruction writes what has no entry
            continue
        try:
            result = OPERATIONS[node.op](low, node)
        except ProgramError as error:
            # names its place already
            if str(error).startswith("`") and "operation" in str(error)[:200]:
                raise
            refuse(node, str(error).split(": ", 1)[-1].rstrip("."))
        _refuse_unread(low, node)
        many = result if isinstance(result, list) else [result]
        for at, tensor in enumerate(many):
            low.tensors[node.number, at] = empty(tensor.dims) if without_positions(tensor.dims) else tensor
            _name(low, node, tensor)


#: arguments that are numbers, whole ones too; others that are whole are sizes and places, which widths may change
NUMBERS = ("alpha", "beta", "value", "fill_value", "exponent", "other", "weight", "scale", "eps", "min", "max")


def _refuse_unread(low: Lowering, node: Any) -> None:
    """ProgramError for a number that differs between widths, and that the operation did not read as a power of n."""
    for name in node.arguments[0]:
        found = node.get(name)
        if (node.number, name) in low.literals or all(_same(f, found[0]) for f in found):
            continue
        numbers = [v for f in found for v in (f if isinstance(f, list) else [f])]
        if any(isinstance(v, float) for v in numbers) or name in NUMBERS:
            refuse(node, f"its argument {name} is {found} at several widths", "use a number that is the same at all")


def _same(one: Any, other: Any) -> bool:
    return one is other or bool(one == other)


def _name(low: Lowering, node: Any, tensor: Any) -> None:
    """Values bear the path of the module that ends with them."""
    if isinstance(tensor.value, Value) and node.module:
        following = [low.found.graph[r].module for r in low.found.graph.readers.get(node.number, ())]
        # the last operation of a module: none that reads it is in the same module
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


def _in_units_of_readout(program: Program, atoms: Mapping[str, Fraction], entries: Mapping[str, Entries]) -> Program:
    """Laws of vectors and scalars whose powers count the neurons that are read out, as outputs n^(−½) Σ x have it."""
    base = _exact(atoms.get(str(program[program.returns[0]].width), atoms["n"]))
    return program.replace(
        instructions=tuple(
            replace(s, law=entries[s.name].law(base))
            if isinstance(s, (InitialVector, InitialScalar)) and s.name in entries and entries[s.name].power
            else s
            for s in program
        )
    )


def _factor(kind: Kind, atoms: Mapping[str, Fraction], entries: Entries) -> Any:
    """What a matrix with entries of variance 1/columns is multiplied by, powers of n apart."""
    if entries.shape == "constant":
        return 1
    columns = atoms[kind.names[1]]
    return entries.spread * sympy.sqrt(_exact(columns)) * _exact(atoms["n"]) ** (entries.exponent - sympy.S.Half)


def _exact(size: Fraction) -> sympy.Expr:
    return sympy.Rational(size.numerator, size.denominator)


def _kind(found: Analysed, names: Mapping[Any, str], at: int, entries: Entries) -> Kind:
    """What a parameter is: a matrix over two widths, a vector over one, numbers over none."""
    dims = dims_of(found, names, at)
    widths = [d.width for d in dims if d.width is not None]
    axes = axes_of(found, at, dims)
    if len(widths) > 2:
        refuse(found.graph[at], "it has three dimensions that grow with n", "a matrix has two")
    what = ("Scalar", "Vector", "Matrix")[len(widths)]
    found_law = entries.shape_alone() if what == "Matrix" else entries.law()
    law = None if found_law == NORMAL else found_law
    return Kind(what, (*map(str, widths), *axes), law=law)
