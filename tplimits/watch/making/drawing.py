"""Initial parameters: by seed and parameter, so that scalars are the same at all widths and in the limit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy
import scipy.special
import scipy.stats
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.law.unroll import size_of
from tplimits.program.network.network import parameters
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector

if TYPE_CHECKING:
    from tplimits.watch.making.asked import Asked

Array = NDArray[numpy.float64]


def initial(asked: Asked, n: int, seed: int, given: Mapping[str, Array], limit: bool) -> dict[str, Array]:
    """Parameters of a network of width n before training, or samples of the kets of its limit, n of them.

    Scalars are drawn from the seed and their place in the network alone; samples of kets are scrambled Sobol points.
    """
    net, widths, readout = asked.net, asked.widths_at(n), asked.readout_width(n)
    sobol = _sobol(asked, widths, seed) if limit else {}
    found: dict[str, Array] = {}
    for number, name in enumerate(parameters(net)):
        s = net[net.initial_names[name]]
        assert isinstance(s, (InitialMatrix, InitialVector, InitialScalar))
        shape = (*(size_of(net, a) for a in s.axes), *_lengths(s, widths))
        e, natural = asked.recipe.exponents[name], 0.5 if isinstance(s, InitialMatrix) else 0.0
        if name in given:
            found[name] = _fitting(name, given[name], shape)
            continue
        if isinstance(s, InitialScalar):
            drawn = _scalar(s, number, seed, shape)
        elif name in sobol:
            drawn = sobol[name]
        else:
            drawn = numpy.random.default_rng([seed, number, n]).standard_normal(shape)
        if isinstance(s, InitialMatrix):
            drawn = drawn / math.sqrt(shape[-1])
        if isinstance(s, InitialVector):
            drawn = float(evaluate(s.law.mean, {})) + float(evaluate(s.law.std, {})) * drawn
        found[name] = drawn * readout ** (natural - float(e.a + e.b))
    return found


def scalars(asked: Asked, seed: int) -> dict[str, Array]:
    """The scalar parameters alone, which a limit starts from."""
    net, given = asked.net, asked.given_to(math.inf, seed)
    found: dict[str, Array] = {}
    for number, name in enumerate(parameters(net)):
        s = net[net.initial_names[name]]
        if isinstance(s, InitialScalar):
            shape = tuple(size_of(net, a) for a in s.axes)
            found[name] = _fitting(name, given[name], shape) if name in given else _scalar(s, number, seed, shape)
    return found


def _scalar(s: InitialScalar, number: int, seed: int, shape: tuple[int, ...]) -> Array:
    if s.value is not None:
        return numpy.full(shape, float(evaluate(s.value, {})))
    return numpy.random.default_rng([seed, number]).standard_normal(shape)


def _lengths(s: InitialMatrix | InitialVector | InitialScalar, widths: Mapping[str, int]) -> tuple[int, ...]:
    if isinstance(s, InitialMatrix):
        return widths[s.rows], widths[s.columns]
    return (widths[s.over],) if isinstance(s, InitialVector) else ()


def _fitting(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    if array.shape != shape:
        raise EvaluationError(f"`{name}` is given with shape {array.shape}; at this width it has {shape}.")
    return array.copy()


def _sobol(asked: Asked, widths: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Standard normal samples of all initial kets: Sobol points through the normal quantile, by width."""
    net, found = asked.net, dict[str, Array]()
    vectors = [s for p, s in enumerate(net) if isinstance(s, InitialVector) and p not in net.inputs]
    for number, (width, size) in enumerate(widths.items()):
        shapes = {s.name: tuple(size_of(net, a) for a in s.axes) for s in vectors if s.over == width}
        dimension = sum(math.prod(axes) for axes in shapes.values())
        if not dimension:
            continue
        rng, at = numpy.random.default_rng([seed, number]), 0
        if dimension > scipy.stats.qmc.Sobol.MAXDIM:
            points = rng.standard_normal((dimension, size))
        else:
            drawn = scipy.stats.qmc.Sobol(dimension, seed=rng).random_base2(math.ceil(math.log2(size)))
            points = scipy.special.ndtri(drawn[:size].clip(1e-12, 1 - 1e-12)).T
        for name, axes in shapes.items():
            found[name] = points[at : at + math.prod(axes)].reshape(*axes, size)
            at += math.prod(axes)
    return found
