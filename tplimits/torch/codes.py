"""What an operation of PyTorch moves, seen from numbers: each entry has one, and says where it stands afterwards."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tplimits.torch.tensors import Dim, Indices


def codes(dims: Sequence[Dim], atoms: Mapping[str, int]) -> Indices:
    """A number for each entry: position · N + neuron, N the entries of all widths together."""
    shape = [s for d in dims for s in d.finite]
    neurons = [atoms[d.width] for d in dims if d.width is not None]
    every = prod(neurons)
    # every entry has a number of its own, so that any operation of PyTorch can be run on numbers to see what it moves
    code = numpy.arange(prod(shape), dtype=numpy.int64).reshape(shape) * every
    # neurons of a width stand between its pieces and its inner entries
    at, step = 0, every
    for d in dims:
        at += 1
        if d.width is not None:
            step //= atoms[d.width]
            own = numpy.arange(atoms[d.width], dtype=numpy.int64) * step
            code = numpy.expand_dims(code, at) + own.reshape(-1, *(1,) * (code.ndim - at))
            at += 2
    return numpy.asarray(code).reshape([d.size(atoms) for d in dims])


def decoded(code: Indices, before: Sequence[Dim], after: Sequence[Dim], atoms: Mapping[str, int]) -> Indices | None:
    """The position that each position of a moved tensor comes from, −1 for none; None where neurons changed places."""
    order = [d.width for d in before if d.width is not None]
    every = prod(atoms[w] for w in order)
    shape, neuron_dims = [], []
    for d in after:
        shape.append(d.outer)
        if d.width is not None:
            neuron_dims.append(len(shape))
            shape += [atoms[d.width], d.inner]
    code = numpy.moveaxis(code.reshape(shape), neuron_dims, range(-len(neuron_dims), 0))
    source = numpy.where(code < 0, -1, code // every)
    kept = [d.width for d in after if d.width is not None]
    if neuron_dims:
        steps = {w: every // prod(atoms[o] for o in order[: i + 1]) for i, w in enumerate(order)}
        # a width was lost or doubled, as by a sum or a diagonal
        if sorted(kept) != sorted(order):
            return None
        expected = numpy.zeros([atoms[w] for w in kept], dtype=numpy.int64)
        for i, w in enumerate(kept):
            own = numpy.arange(atoms[w]) * steps[w]
            expected = expected + own.reshape([-1 if k == i else 1 for k in range(len(kept))])
        if not ((code % every == expected) | (code < 0)).all():
            return None
        # all neurons have to come from one position: else some moved otherwise than the rest
        positions = source.shape[: code.ndim - len(kept)]
        # the last length is said, not −1: models also split off parts that have no position
        first = source.reshape(*positions, prod(source.shape[len(positions) :]))[..., 0]
        if not (source == first.reshape(*first.shape, *(1,) * len(kept))).all():
            return None
        source = first
    return source
