"""A graph as a program: every operation becomes arithmetic of the language on values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy
import torch

from tplimits.errors import ProgramError
from tplimits.program.language.matrices import MatrixValue
from tplimits.program.language.operations import avg, constant, width
from tplimits.program.language.operations import sum as summed
from tplimits.program.language.values import Value
from tplimits.program.nodes.entries import axis_symbol
from tplimits.torch.codes import codes, decoded
from tplimits.torch.dimensions import SIDES, Scaled, bare, dims_of, power, sided, units
from tplimits.torch.graph import Node, Ref, refuse
from tplimits.torch.tensors import ONE, Dim, NoAxisToHide, Tensor, Writer, moved, places, spread
from tplimits.torch.totals import HIDDEN, Total

if TYPE_CHECKING:
    from tplimits.torch.analysis import Analysed

#: two vectors over widths in one product
OUTER = (
    "it multiplies each neuron of one vector with each of another, an array of n² entries; take the sum over one of "
    "the two widths first"
)


@dataclass(eq=False)
class Lowering:
    """The tensors of a graph that are written so far."""

    found: Analysed
    writer: Writer
    names: Mapping[Any, str]
    arguments: Mapping[int, Any]
    data: Mapping[int, Any]
    indices: Mapping[tuple[int, int], Any] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    scales: Mapping[int, Any] = field(default_factory=dict)
    picked: Mapping[int, Tensor] = field(default_factory=dict)
    scaled: Mapping[int, Scaled] = field(default_factory=dict)
    #: the arguments that were read as numbers at all widths
    literals: set[tuple[int, str]] = field(default_factory=set)
    tensors: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def dims(self, number: int, result: int = 0) -> tuple[Dim, ...]:
        """The dimensions of a result of a node; the sides of a matrix are told apart."""
        found = dims_of(self.found, self.names, number, result)
        return sided(found, SIDES) if sum(d.width is not None for d in found) == 2 else found

    def tensor(self, number: int, result: int = 0) -> Tensor:
        """A result of a node as a tensor."""
        key = (number, result)
        if key not in self.tensors:
            self.tensors[key] = self._leaf(number)
        return self.tensors[key]

    def _leaf(self, number: int) -> Tensor:
        dims = self.dims(number)
        if number in self.arguments:
            value = self.arguments[number]
            names: list[str | None] = []
            left = list(value.axes)
            for s in (s for d in dims for s in d.finite):
                names.append(left.pop(0) if s > 1 else None)
            found = self.writer.tensor(value, dims, names)
            if number in self.scaled:  # inputs that forward multiplies by a power of n
                known = self.scaled[number]
                return self.entrywise(lambda x: known.unit**known.power * x, [found], dims)
            return found
        if number in self.scaled:
            known = self.scaled[number]
            array = numpy.asarray(torch.as_tensor(self.data[number]).detach().double()) / known.at_first
            return self.entrywise(lambda c: c * known.unit**known.power, [self.fixed(array)], dims)
        return self.fixed(self.data[number])

    def fixed(self, array: Any) -> Tensor:
        """A constant array, or a number where all its entries are the same."""
        values = array.detach().double().numpy() if torch.is_tensor(array) else numpy.asarray(array, dtype=float)
        dims = tuple(Dim(s) for s in values.shape)
        first = float(values.reshape(-1)[0]) if values.size else 0.0
        if (values == first).all():
            return Tensor(first, dims, {})
        if not numpy.isfinite(values).all():
            seen = values > HIDDEN
            shown = self.fixed(numpy.where(numpy.isfinite(values) & seen, values, 0.0))
            if numpy.isnan(values).any() or (values == numpy.inf).any():
                raise ProgramError("a constant of the model is NaN or infinite.")
            return replace(shown, hidden=self.fixed(seen.astype(float)))
        names = self.writer.names([Dim(s) for s in values.shape], ())
        kept = [n for n in names if n is not None]
        value = constant(values.reshape([s for s in values.shape if s > 1]), axes=tuple(kept))
        return self.writer.tensor(value, dims, names)

    def operand(self, node: Node, name: str) -> Tensor:
        """An argument as a tensor; numbers are tensors without dimensions."""
        found = node.arguments[0].get(name)
        if isinstance(found, Ref):
            return self.tensor(found.node)
        if isinstance(found, (int, float, bool)):
            return Tensor(self.literal(node, name), (), {})
        raise ProgramError(f"{node.place}: its argument {name} is {found!r}, no tensor.")

    def index(self, node: Node) -> Any:
        """The indices of a look-up: a discrete input, or a constant array."""
        at = node.needed("indices")
        return self.indices.get((at, node.needed("weight")), self.data.get(at))

    def looked_up(self, weight: Tensor, indices: Any, dims: Sequence[Dim]) -> Tensor:
        """The rows of a table that data pick."""
        axis = next(a for a, t in weight.tables.items() if t.shape[0] > 1)
        value = weight.value.sel(**{axis: indices})
        left = [a for a in weight.value.axes if a != axis]
        names: list[str | None] = []
        own = list(indices.axes)
        for i, d in enumerate(dims):
            for s in d.finite:
                names.append((own if i < len(dims) - len(weight.dims) + 1 else left).pop(0) if s > 1 else None)
        return self.writer.tensor(value, dims, names)

    def literal(self, node: Node, name: str) -> Any:
        """A number that may be a power of n; see `power`."""
        self.literals.add((node.number, name))
        return power(node, name, node.get(name), units(self.found, self.names), self.found.graph.widths)

    def value(self, tensor: Tensor, names: Sequence[str | None]) -> Any:
        """A tensor in the program, with its positions under these names."""
        if isinstance(tensor.value, Total):
            tensor = replace(tensor, value=tensor.value.now())
        return self.writer.written(tensor, names)

    def entrywise(self, function: Callable[..., Any], tensors: Sequence[Tensor], dims: Sequence[Dim]) -> Tensor:
        """A function of tensors entry by entry, with broadcasting from the right."""
        if sum(d.width is not None for d in dims) > 1:
            raise ProgramError(
                OUTER
                if not any(isinstance(t.value, MatrixValue) for t in tensors)
                else "a function of a weight matrix is taken; a program only multiplies vectors by matrices"
            )
        along = [self.broadcast(self.shown(t), dims) for t in tensors]
        names = self.writer.names(dims, along)
        return self.writer.tensor(function(*(self.value(t, names) for t in along)), dims, names)

    def shown(self, tensor: Tensor) -> Tensor:
        """A tensor with a number so small that exp of it is 0 where it is hidden."""
        if tensor.hidden is None:
            return tensor
        both = [replace(tensor, hidden=None), tensor.hidden]
        return self.entrywise(lambda x, seen: x * seen + HIDDEN * (1 - seen), both, tensor.dims)

    def broadcast(self, tensor: Tensor, dims: Sequence[Dim]) -> Tensor:
        """A tensor along larger dimensions, matched from the right."""
        ahead = len(dims) - len(tensor.dims)
        return spread(tensor, dims, [ahead + i for i in range(len(tensor.dims))])

    def reshaped(self, node: Node, tensor: Tensor, dims: Sequence[Dim]) -> Tensor:
        """The same entries in the same order, along other dimensions."""
        return self.move(node, tensor, dims, lambda code: code.reshape([d.size(self.writer.atoms) for d in dims]))

    def move(self, node: Node, tensor: Tensor, dims: Sequence[Dim], operation: Callable[[Any], Any]) -> Tensor:
        """A tensor whose entries an operation moves; entries below 0 in its result are zeros."""
        atoms = self.writer.atoms
        result = operation(torch.from_numpy(codes(tensor.dims, atoms))).numpy()
        source = decoded(result, tensor.dims, dims, atoms)
        if source is None and isinstance(tensor.value, MatrixValue):  # rows and columns have changed places
            dims = sided(dims, SIDES[::-1])
            source = decoded(result, tensor.dims, dims, atoms)
        if source is None:
            refuse(node, "it changes the order of neurons", "neurons have no order")
        if isinstance(tensor.value, float) and tensor.value == 0:
            return replace(tensor, dims=tuple(dims), tables={})
        try:
            if isinstance(tensor.value, Total) and (source < 0).any():
                tensor = replace(tensor, value=tensor.value.now())
            return moved(tensor, source, dims)
        except NoAxisToHide:
            mask = self.fixed((source >= 0).astype(float).reshape([s for d in dims for s in d.finite]))
            mask = Tensor(mask.value, tuple(dims), mask.tables)
            whole = moved(tensor, numpy.zeros_like(source), dims)
            names = self.writer.names(dims, (mask,))
            return self.writer.tensor(self.value(mask, names) * self.value(whole, names), dims, names)

    def contract(self, operands: Sequence[tuple[Tensor, str]], out: str) -> Tensor:
        """Σ of products over the letters that the result does not have; one letter for each dimension."""
        sizes: dict[str, Dim] = {}
        for tensor, letters in operands:
            for letter, dim in zip(letters, tensor.dims, strict=True):
                if letter not in sizes or sizes[letter] == ONE:
                    sizes[letter] = dim
        gone = [c for c in sizes if c not in out]
        order = [*out, *gone]
        dims = [sizes[c] for c in order]
        along = [spread(t, dims, [order.index(c) for c in letters]) for t, letters in operands]
        names = self.writer.names(dims, along)
        groups = dict(zip(order, places(dims), strict=True))
        matrices = [i for i, (t, _) in enumerate(operands) if isinstance(t.value, MatrixValue)]
        contracted = [c for c in gone if sizes[c].width is not None]
        if not matrices and sum(sizes[c].width is not None for c in order) > 1:
            raise ProgramError(OUTER)
        if matrices:
            product = self._matrix_product(operands, along, names, contracted)
            contracted = []
        else:
            product = 1
            for t in along:
                product = product * self.value(t, names)
        for c in gone:
            for at in groups[c]:
                size = sizes[c].finite[at - groups[c][0]]
                if names[at] in getattr(product, "axes", ()):
                    product = summed(product, over=str(names[at]))
                elif size > 1:
                    product = size * product
        for c in contracted:
            product = self.over_width(product, bare(sizes[c].width))
        kept = [names[at] for c in out for at in groups[c]]
        left = [replace(sizes[c], width=bare(sizes[c].width)) for c in out]
        return (
            self.total(product, left, kept) if isinstance(product, Total) else self.writer.tensor(product, left, kept)
        )

    def over_width(self, value: Any, name: str) -> Any:
        """Σ over the neurons of a width."""
        if isinstance(value, Value) and value.width is not None:
            return Total(value)
        return width(name) * value

    def total(self, value: Total, dims: Sequence[Dim], names: Sequence[str | None]) -> Tensor:
        """A sum over neurons as a tensor."""
        tables = self.writer.tensor(value.summand, dims, names).tables
        if value.shift is not None:
            tables = {**self.writer.tensor(value.shift, dims, names).tables, **tables}
        return Tensor(value, tuple(dims), tables)

    def _matrix_product(self, operands: Any, along: Any, names: Any, contracted: list[str]) -> Any:
        if len(operands) == 1:
            raise ProgramError("the entries of a weight matrix are summed; a program multiplies vectors by matrices.")
        if len(operands) != 2 or len([1 for t, _ in operands if isinstance(t.value, MatrixValue)]) != 1:
            raise ProgramError("a product of two weight matrices is taken; a program multiplies vectors by matrices.")
        at = 0 if isinstance(operands[0][0].value, MatrixValue) else 1
        matrix, letters = operands[at]
        x = along[1 - at]
        sides = {c: str(d.width) for c, d in zip(letters, matrix.dims, strict=True) if d.width is not None}
        if len(contracted) != 1 or contracted[0] not in sides:
            raise ProgramError("a weight matrix is used entry by entry; a program multiplies vectors by it.")
        weights = self.matrix(along[at], names)
        if sides[contracted[0]].endswith(SIDES[0]):
            weights = weights.T
        vector = self.value(x, names)
        if isinstance(vector, Value) and vector.width is not None:
            product = weights @ vector
        elif not isinstance(vector, Value) and vector == 0:
            return 0.0
        else:  # the same number at all neurons
            ones = Value(self.writer.trace, self.writer.trace.constant(1), weights.sides[1], ())
            product = vector * (weights @ ones)
        product = product if isinstance(matrix.factor, int) and matrix.factor == 1 else matrix.factor * product
        return self.scales[weights.uid] * product if weights.uid in self.scales else product

    def matrix(self, tensor: Tensor, names: Sequence[str | None]) -> MatrixValue:
        """A matrix with its finite indices under these names."""
        found, swap, axes = tensor.value, {}, []
        for axis, table in tensor.tables.items():
            index, own = self.writer.index(table, names, axis)
            swap[axis] = index
            axes += own
        indices = tuple(i.xreplace({axis_symbol(a): s for a, s in swap.items()}) for i in found.indices)
        return MatrixValue(
            found.trace, found.uid, found.rows, found.columns, tuple(dict.fromkeys(axes)), indices, found.transposed
        )

    def reduce(self, tensor: Tensor, taken: Iterable[int], keep: bool) -> Tensor:
        """Σ over some dimensions."""
        letters = "".join(chr(97 + i) for i in range(len(tensor.dims)))
        taken = set(taken)
        out = "".join(c for i, c in enumerate(letters) if i not in taken)
        if isinstance(tensor.value, Total) and not any(tensor.dims[i].width for i in taken):
            found = self._reduced_total(tensor, letters, out)
        else:
            found = self.contract([(tensor, letters)], out)
        if not keep:
            return found
        dims = [ONE if i in taken else d for i, d in enumerate(tensor.dims)]
        return spread(found, dims, [i for i in range(len(dims)) if i not in taken])

    def mean(self, tensor: Tensor, taken: Iterable[int], keep: bool = True) -> Tensor:
        """The mean over some dimensions."""
        taken = set(taken)
        total = self.reduce(tensor, taken, keep)
        finite = prod(s for i in taken for s in tensor.dims[i].finite)
        count = self.count(tensor, taken)
        if isinstance(tensor.value, Total) and isinstance(total.value, Total):
            shift = None if total.value.shift is None else total.value.shift / count
            return replace(total, value=Total(total.value.summand / count, shift))
        if not isinstance(total.value, Total):
            return self.entrywise(lambda v: v / count, [total], total.dims) if count != 1 else total
        value = avg(total.value.summand)
        return replace(total, value=value / finite if finite > 1 else value)

    def _reduced_total(self, tensor: Tensor, letters: str, out: str) -> Tensor:
        """A sum over finite dimensions of a sum over neurons."""
        parts = [
            self.contract([(self.part(tensor, part), letters)], out)
            for part in (tensor.value.summand, tensor.value.shift)
            if part is not None
        ]
        names = self.writer.names(parts[0].dims, parts)
        return self.total(Total(*(self.value(p, names) for p in parts)), parts[0].dims, names)

    def part(self, tensor: Tensor, part: Value) -> Tensor:
        """The vector or the shift of a sum over neurons, as a tensor of its own."""
        return replace(tensor, value=part, tables={a: t for a, t in tensor.tables.items() if a in part.axes})

    def count(self, tensor: Tensor, taken: Iterable[int]) -> Any:
        """How many entries some dimensions have."""
        dims = [tensor.dims[i] for i in taken]
        return prod(d.outer * d.inner * (1 if d.width is None else width(bare(d.width))) for d in dims)
