"""The data that a network is given: arrays with one row for each input."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import index_array, real_array
from tplimits.program.nodes.kinds import InitialScalar

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

Array = NDArray[numpy.float64]


def inputs_of(network: Program, X: Any, name: str) -> dict[str, Array]:
    """The arrays of a set of inputs by name, checked: finite numbers, at least one input, dimensions that fit."""
    names = [network[p].name for p in network.inputs]
    if not isinstance(X, Mapping):
        if len(names) > 1:
            raise EvaluationError(
                f"`{network.name}` takes the inputs {', '.join(names)}; give {name}={{{names[0]!r}: …}} with each."
            )
        X = {names[0]: X}
    if set(X) != set(names):
        raise EvaluationError(
            f"{name} has {', '.join(map(str, X)) or 'nothing'}; `{network.name}` takes {', '.join(names)}."
        )
    found = {key: real_array(f"{name}[{key}]" if len(names) > 1 else name, X[key]) for key in names}
    counts, lengths = set(), {axis: network.size(axis) for axis in network.all_axes}
    for position in network.inputs:
        s, array = network[position], found[network[position].name]
        if array.ndim != 1 + len(s.axes):
            expected = ", ".join(("N", *s.axes))
            raise EvaluationError(
                f"{name} has shape {array.shape}; `{s.name}` takes ({expected}), one row for each input."
            )
        for axis, length in zip(s.axes, array.shape[1:], strict=True):
            size = lengths[axis]
            if size is not None and size != length:
                known = f"`{network.name}`" if network.size(axis) is not None else "another input"
                raise EvaluationError(f"{name} has {length} entries along `{axis}`; {known} has {size}.")
            # an axis that several inputs share has one length, the first one's
            lengths[axis] = sympy.Integer(length)
        if isinstance(s, InitialScalar) and s.of is not None:
            index_array(name if len(names) == 1 else f"{name}[{s.name}]", array, s.of, network.size(s.of))
        counts.add(array.shape[0])
    if len(counts) > 1:
        raise EvaluationError(f"{name} holds different numbers of inputs: {sorted(counts)}.")
    if counts == {0}:
        raise EvaluationError(f"{name} holds no input.")
    return found


def sizes_of(network: Program, X: Mapping[str, Array]) -> dict[str, Any]:
    """The sizes that the axes of inputs have in data, by name."""
    inputs = [network[position] for position in network.inputs]
    return {a: size for s in inputs for a, size in zip(s.axes, X[s.name].shape[1:], strict=True)}


def with_sizes(
    network: Program,
    X: Mapping[str, Array],
    given: Mapping[str, Any],
    infinite: Collection[str] = (),
) -> Program:
    """The network with the sizes of the data and those given by name; EvaluationError for an axis without one."""
    bound = network.sized({a: given[a] for a in given if a in network.all_axes} | sizes_of(network, X))
    for axis in bound.all_axes:
        if bound.size(axis) is None and axis not in infinite:
            raise EvaluationError(f"the axis `{axis}` of `{network.name}` has no size: fix it with .bind({axis}=…).")
    return bound
