"""What a network is given: arrays with one row for each input, and what a loss by name is given beside them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy
import sympy
from numpy.typing import NDArray

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, shown
from tplimits.program.nodes.given import array_of, index_array, real_array
from tplimits.program.nodes.kinds import InitialScalar

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


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
    network: Program, X: Mapping[str, Array], given: Mapping[str, Any], infinite: Collection[str] = ()
) -> Program:
    """The network with the sizes of the data and those given by name; EvaluationError for an axis without one."""
    bound = network.sized({a: given[a] for a in given if a in network.all_axes} | sizes_of(network, X))
    for axis in bound.all_axes:
        if bound.size(axis) is None and axis not in infinite:
            raise EvaluationError(f"the axis `{axis}` of `{network.name}` has no size: fix it with .bind({axis}=…).")
    return bound


Mask = NDArray[numpy.bool_]
#: different targets above which a squared loss is that of a regression, which has no accuracy
_MOST_CLASSES = 64


def classes_of(targets: Array) -> Array:
    """The different targets that are known, (classes, entries); none where they are those of a regression.

    Classes are written in whole numbers, such as −1 and 1, 0 to 9 or a one among zeros, or in two numbers that are
    repeated, such as 0.9 and −0.1; any other real number is a value to be met, however few of them there are.
    """
    rows = targets.reshape(len(targets), -1)
    known = rows[numpy.isfinite(rows).all(axis=1)]
    entries = numpy.unique(known)
    written = (entries == numpy.round(entries)).all() or len(entries) == 2 < known.size
    found = numpy.unique(known, axis=0)
    return found if written and 2 <= len(found) <= _MOST_CLASSES else found[:0]


def fixed(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, which is not changed any more."""
    array.setflags(write=False)
    return array


def weights_of(call: str, weights: Any, shape: tuple[int, ...]) -> Array:
    """One weight for each target; one for each input is that of all its targets."""
    if weights is None:
        return fixed(numpy.ones(shape))
    found = real_array(f"{call}(weights=…)", weights)
    if found.shape not in (shape, shape[:1]):
        raise EvaluationError(f"{call}(weights=…) has shape {found.shape}; give {shape}, one for each target.")
    if (found < 0).any():
        raise EvaluationError(f"{call}(weights=…) holds {found.min():g}; weights are not negative.")
    return fixed(numpy.array(numpy.broadcast_to(found.reshape(found.shape + (1,) * (len(shape) - found.ndim)), shape)))


def mask_of(call: str, train: Any, inputs: int) -> Mask:
    """Which inputs are trained on, from a mask or from their numbers."""
    if train is None:
        return fixed(numpy.ones(inputs, dtype=bool))
    try:
        given = array_of(train)
    except Exception:  # rows of different lengths, what has no end, and the code of users
        given = numpy.empty((0, 0))
    mask = numpy.zeros(inputs, dtype=bool)
    if given.dtype == bool and given.shape == (inputs,):
        mask |= given
    elif given.ndim == 1 and (given.dtype.kind in "iu" or not given.size) and _in_range(given, inputs):
        mask[given.astype(numpy.int64)] = True
    else:
        raise EvaluationError(
            f"{call}(train={shown(train, 60)}): give True or False for each of the {inputs} inputs, or some of their "
            "numbers."
        )
    if not mask.any():
        raise EvaluationError(f"{call}(train=…): the mask selects no input; there is nothing to train on.")
    return fixed(mask)


def _in_range(numbers: NDArray[Any], inputs: int) -> bool:
    return bool(((numbers >= -inputs) & (numbers < inputs)).all())
