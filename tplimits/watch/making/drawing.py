"""Initial parameters: by seed and parameter, so that scalars are the same at all widths and in the limit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy
import scipy.special
import scipy.stats
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.program.network.network import parameters
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tplimits.watch.making.asked import Asked

Array = NDArray[numpy.float64]


def initial(asked: Asked, n: int, seed: int, limit: bool) -> dict[str, Array]:
    """Parameters of a network of width n before training, or samples of the kets of its limit, n of them.

    Scalars are drawn from the seed and their place in the network alone; samples of kets are scrambled Sobol points.
    """
    net, widths = asked.net, {"n": n}
    for width, ratio in asked.ratios.items():
        widths[width] = max(1, round(n * ratio))
    readout = net[net.returns[0]].width or "n"
    found: dict[str, Array] = {}
    sobol = _normals(asked, widths, seed) if limit else {}
    for number, name in enumerate(parameters(net)):
        s = net[net.initial_names[name]]
        assert isinstance(s, (InitialMatrix, InitialVector, InitialScalar))
        axes = tuple(int(size) for size in (net.size(a) for a in s.axes) if size is not None)
        e, natural = asked.recipe.exponents[name], 0.5 if isinstance(s, InitialMatrix) else 0.0
        scale = widths[readout] ** (natural - float(e.a + e.b))
        shape = (*axes, *_lengths(s, widths))
        if name in asked.given:
            found[name] = _fitting(name, asked.given[name], shape)
            continue
        rng = numpy.random.default_rng([seed, number] if isinstance(s, InitialScalar) else [seed, number, n])
        if isinstance(s, InitialScalar) and s.value is not None:
            drawn = numpy.full(shape, float(evaluate(s.value, {})))
        elif name in sobol:
            drawn = sobol[name]
        else:
            drawn = rng.standard_normal(shape)
        if isinstance(s, InitialMatrix):
            drawn = drawn / math.sqrt(shape[-1])
        if isinstance(s, InitialVector):
            drawn = float(evaluate(s.law.mean, {})) + float(evaluate(s.law.std, {})) * drawn
        found[name] = drawn * scale
    return found


def _lengths(s: InitialMatrix | InitialVector | InitialScalar, widths: Mapping[str, int]) -> tuple[int, ...]:
    if isinstance(s, InitialMatrix):
        return widths[s.rows], widths[s.columns]
    return (widths[s.over],) if isinstance(s, InitialVector) else ()


def _fitting(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    if array.shape != shape:
        raise EvaluationError(f"`{name}` is given with shape {array.shape}; at this width it needs {shape}.")
    return array.copy()


def _normals(asked: Asked, widths: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Standard normal samples of all initial kets, Sobol points through the normal quantile, by width."""
    net, found = asked.net, {}
    for number, (width, size) in enumerate(widths.items()):
        own = {
            name: tuple(int(net.size(a) or 1) for a in net[net.initial_names[name]].axes)
            for name in parameters(net)
            if isinstance(s := net[net.initial_names[name]], InitialVector) and s.over == width
        }
        dimension = sum(math.prod(axes) for axes in own.values())
        if not dimension:
            continue
        rng = numpy.random.default_rng([seed, number])
        if dimension > scipy.stats.qmc.Sobol.MAXDIM:
            points = rng.standard_normal((dimension, size))
        else:
            sobol = scipy.stats.qmc.Sobol(dimension, rng=rng)
            drawn = sobol.random_base2(math.ceil(math.log2(size)))[:size]
            points = scipy.special.ndtri(drawn.clip(1e-12, 1 - 1e-12)).T
        at = 0
        for name, axes in own.items():
            found[name] = points[at : at + math.prod(axes)].reshape(*axes, size)
            at += math.prod(axes)
    return found
