"""What a user gives to a kernel: data by name, sizes read off it, constants as numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, ProgramError
from tplimits.law.state import width_ratio
from tplimits.program.nodes.bind import exact_constants
from tplimits.program.nodes.entries import size_symbol
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.given import array_of, index_array, real_array, whole_from, width_ratios
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


@dataclass(frozen=True)
class Inputs:
    """Inputs of one side: the array of each data instruction, (N, *axes), and the sizes of all finite axes."""

    arrays: Mapping[int, Array]
    sizes: Mapping[str, int]
    many: int

    def some(self, part: slice | NDArray[numpy.intp]) -> Inputs:
        """A few of them."""
        many = len(range(*part.indices(self.many))) if isinstance(part, slice) else len(part)
        return Inputs({p: a[part] for p, a in self.arrays.items()}, self.sizes, many)

    def like(self) -> Inputs:
        """Others of the same kind: numbers at random, whole numbers as they are."""
        # for trial runs: the same each time, and indices that stay within their axes
        rng = numpy.random.default_rng(self.many)
        arrays = {p: rng.standard_normal(a.shape) if a.dtype.kind == "f" else a for p, a in self.arrays.items()}
        return Inputs(arrays, self.sizes, self.many)


class Known(dict[Any, Any]):
    """Sizes or numbers that do not change any more, and a key for what is remembered of them."""

    @cached_property
    def key(self) -> frozenset[tuple[Any, Any]]:
        """All items, hashed once."""
        return frozenset(self.items())


def keyed(values: Mapping[Any, Any]) -> frozenset[tuple[Any, Any]]:
    """What tells such values apart."""
    return values.key if isinstance(values, Known) else frozenset(values.items())


def read_arrays(network: Program, X: Any, name: str) -> dict[int, Array]:
    """The array of each data instruction in a batch of inputs; `name` is what messages call the batch.

    Raises EvaluationError for other data, a wrong shape, ragged rows, NaN or no input at all.
    """
    data = {network[p].name: p for p in network.inputs}
    if not isinstance(X, Mapping):
        if len(data) > 1:
            raise EvaluationError(
                f"`{network.name}` takes the data {', '.join(data)}: give {name} as a dictionary of arrays "
                "by these names."
            )
        X = {next(iter(data)): X}
    strange = [k for k in X if k not in data]
    missing = [k for k in data if k not in X]
    if strange or missing:
        found = f"has `{strange[0]}`" if strange else f"lacks `{missing[0]}`"
        raise EvaluationError(f"{name} {found}; the data of `{network.name}` is {', '.join(data)}.")
    arrays = {
        data[key]: _array(_label(network, name, data[key]), value, network[data[key]].axes) for key, value in X.items()
    }
    many = len(next(iter(arrays.values())))
    for place, array in arrays.items():
        if len(array) != many:
            label = _label(network, name, place)
            raise EvaluationError(f"{label} has {len(array)} inputs, but {many} elsewhere in {name}.")
    return arrays


def _label(network: Program, name: str, place: int) -> str:
    return f"{name}[{network[place].name!r}]" if len(network.inputs) > 1 else name


def read_sizes(network: Program, arrays: Mapping[int, Array], name: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes of axes that the data has; `sizes` are those that constants fix, and EvaluationError where they differ."""
    known = dict(sizes)
    for place, array in arrays.items():
        for axis, size in zip(network[place].axes, array.shape[1:], strict=True):
            root = network.root_axis(axis)
            # an axis has one size wherever it stands, under any of its names
            if known.setdefault(root, size) != size:
                label = _label(network, name, place)
                raise EvaluationError(f"{label} has {size} entries along `{axis}`; it needs {known[root]}.")
    for axis in network.all_axes:
        root = network.root_axis(axis)
        if root in known:
            known[axis] = known[root]
    return known


def inputs_of(network: Program, arrays: Mapping[int, Array], name: str, sizes: Mapping[str, int]) -> Inputs:
    """One side of a kernel; EvaluationError for data that are to be indices and are none."""
    for place in arrays:
        s = network[place]
        if isinstance(s, InitialScalar) and s.of is not None:
            index_array(_label(network, name, place), arrays[place], s.of, sizes.get(s.of))
    return Inputs(arrays, sizes, len(next(iter(arrays.values()))))


def _array(label: str, value: Any, axes: tuple[str, ...]) -> Array:
    expected = f"({', '.join(('N', *axes))})"
    try:
        array = real_array(label, value)
    except EvaluationError as error:
        ragged = isinstance(value, (list, tuple)) and len({numpy.shape(v) if _regular(v) else None for v in value}) > 1
        hint = f" {_ragged(value)}: pad them and give a mask as data, shape {expected}." if ragged else ""
        raise EvaluationError(f"{error}{hint}") from None
    if array.ndim != 1 + len(axes):
        raise EvaluationError(f"{label} has shape {array.shape}; it needs {expected}.")
    if not array.size:
        raise EvaluationError(f"{label} is empty, shape {array.shape}; it needs {expected} with at least one input.")
    return array


def _ragged(value: Sequence[Any]) -> str:
    shapes = list(dict.fromkeys(numpy.shape(v) for v in value if _regular(v)))
    if len(shapes) < 2 or all(len(s) < 2 for s in shapes):
        return "Rows of different lengths"
    return f"Inputs of different sizes, {shapes[0]} and {shapes[1]}"


def _regular(value: Any) -> bool:
    try:
        array_of(value, numpy.float64)
    except (TypeError, ValueError):
        return False
    return True


def same_parameters(network: Program, one: Mapping[str, int], other: Mapping[str, int]) -> None:
    """Refuse sizes of two batches whose parameters would have different ones."""
    for s in network:
        if isinstance(s, (InitialMatrix, InitialVector)):
            for axis in s.axes:
                a, b = one.get(axis), other.get(axis)
                if a != b:
                    raise EvaluationError(
                        f"X2 has {b} entries along `{axis}`, X1 has {a}; the parameter `{s.name}` has this axis."
                    )


def all_sizes(network: Program, sizes: Mapping[str, int], alike: Collection[str], infinite: Collection[str]) -> Known:
    """The sizes with one member along axes of outputs that are alike; other axes need a size from data or program."""
    found = Known(sizes)
    for axis in network.all_axes:
        if axis in alike:
            found.setdefault(axis, 1)
        elif axis not in found and axis not in infinite:
            raise EvaluationError(
                f"the axis `{axis}` of `{network.name}` has no size: fix it with .bind({axis}=…), or send it to "
                f"infinity with tp.Kernels(infinite=({axis!r},))."
            )
    return found


def read_constants(
    network: Program, given: Mapping[str, Any], ratios: Mapping[str, float] | None, sizes: Mapping[str, int]
) -> tuple[dict[Expr, float], dict[str, int]]:
    """Numbers of symbolic constants and width ratios, and sizes of axes given by name."""
    given, sizes = dict(given), dict(sizes)
    for axis in [a for a in given if a in network.all_axes]:
        size = given.pop(axis)
        sizes[network.root_axis(axis)] = whole_from(axis, size, 1, EvaluationError)
    for name in given:
        if name not in network.constants:
            raise EvaluationError(
                f"`{name}` is no constant of `{network.name}`; it has {', '.join(sorted(network.constants)) or 'none'}."
            )
    try:
        values = exact_constants(network, given)
    except ProgramError as error:
        raise EvaluationError(str(error)) from None
    leaves: dict[Expr, float] = {size_symbol(a): float(s) for a, s in sizes.items()}
    for symbol, expr in values.items():
        leaves[symbol] = float(evaluate(expr, leaves))
    for width, ratio in width_ratios(network, ratios, EvaluationError).items():
        leaves[width_ratio(width)] = float(ratio)
    return leaves, sizes
