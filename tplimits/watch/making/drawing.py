"""Initial parameters: by seed and parameter, so that scalars are the same at all widths and in the limit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy
import scipy.special
import scipy.stats
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.law.unroll import size_of
from tplimits.program.network.network import parameters
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector

if TYPE_CHECKING:
    from tplimits.watch.making.asked import Asked

Array = NDArray[numpy.float64]


def initial(asked: Asked, n: int, seed: int, given: Mapping[str, Array], limit: bool) -> dict[str, Array]:
    """Parameters of a network of width n before training, or samples of the kets of its limit, n of them.

    Scalars are drawn from the seed and their place in the network alone; samples of kets are scrambled Sobol points.
    """
    net, readout = asked.net, asked.readout_width(n)
    drawing = _Drawing(asked, n, seed)
    sobol = _sobol(asked, drawing.width, seed) if limit else {}
    found: dict[str, Array] = {}
    for number, name in enumerate(parameters(net)):
        s = net[net.initial_names[name]]
        assert isinstance(s, (InitialMatrix, InitialVector, InitialScalar))
        e, natural = asked.recipe.exponents[name], 0.5 if isinstance(s, InitialMatrix) else 0.0
        if name in given:
            found[name] = _fitting(name, given[name], drawing.shape_of(s))
        else:
            found[name] = drawing.drawn(s, number, sobol.get(name)) * readout ** (natural - float(e.a + e.b))
    return found


def scalars(asked: Asked, seed: int) -> dict[str, Array]:
    """The scalar parameters alone, which a limit starts from."""
    net, given, drawing = asked.net, asked.given_to(math.inf, seed), _Drawing(asked, 1, seed)
    found: dict[str, Array] = {}
    for number, name in enumerate(parameters(net)):
        s = net[net.initial_names[name]]
        if isinstance(s, InitialScalar):
            at = given.get(name)
            found[name] = drawing.drawn(s, number) if at is None else _fitting(name, at, drawing.shape_of(s))
    return found


class _Points:
    """Points in the place of random numbers."""

    def __init__(self, points: Array) -> None:
        self.points = points

    def standard_normal(self, shape: tuple[int, ...]) -> Array:
        """These points; laws that are no normal one take their images."""
        return self.points.reshape(shape)


class _Drawing(Execution):
    """The initial data of one network, each parameter with random numbers of its own."""

    def __init__(self, asked: Asked, n: int, seed: int) -> None:
        super().__init__(asked.net, n, 1, numpy.random.default_rng(0), asked.ratios)
        self.n, self.seed = n, seed

    def shape_of(self, s: InitialMatrix | InitialVector | InitialScalar) -> tuple[int, ...]:
        """The shape of a parameter."""
        over = (
            (s.rows, s.columns) if isinstance(s, InitialMatrix) else (s.over,) if isinstance(s, InitialVector) else ()
        )
        return (*self.shape(s.axes), *(self.width[w] for w in over))

    def drawn(
        self, s: InitialMatrix | InitialVector | InitialScalar, number: int, points: Array | None = None
    ) -> Array:
        """A parameter as the program draws it; `number` is its place among all."""
        own = [self.seed, number] if isinstance(s, InitialScalar) else [self.seed, number, self.n]
        source: Any = numpy.random.default_rng(own) if points is None else _Points(points)
        self.rng = source
        return numpy.array(self._initial(s)[0])


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
