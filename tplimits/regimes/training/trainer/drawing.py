"""Initial parameters of a run: every parameter from a stream of its own.

A vector is drawn neuron by neuron, so that the first neurons of a wide network are those of a narrow one, and scalars
are the same at all widths and in the limit.  In the limit neurons are particles: initial vectors are images of normal
variables, which are taken at the points of one scrambled Sobol sequence.  Every point stands twice, with both signs of
the readouts: what is odd in them, such as outputs at the start, vanishes exactly, as it does in the limit.  Left to the
points it is noise of order 10⁻³, which the error signals of all steps would see.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.sobol import normal_points
from tplimits.program.network.parameters import parameters
from tplimits.program.network.total import TotalProgram, late_vectors
from tplimits.program.nodes.drawing import drawn as from_law
from tplimits.program.nodes.drawing import places
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector, MatMul
from tplimits.program.nodes.laws import GRID
from tplimits.regimes.training.numbers.scalars import normal_of

if TYPE_CHECKING:
    from tplimits.program.nodes.execution import Execution
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.training.finite.recipe import Recipe

#: dimensions of a Sobol sequence
_MOST = 21201


def drawn(recipe: Recipe, run: Execution, seed: int, particles: bool) -> dict[str, Array]:
    """The parameters of one network, those that are given as they are given.

    Others are drawn by the program's laws, times n₀^(½ − a − b) for matrices and n₀^(−a − b) for others.
    """
    net = recipe.net
    n0 = run.width[net.output_width]
    quantiles = _quantiles(net, run, seed) if particles else {}
    found: dict[str, Array] = {}
    for number, name in enumerate(parameters(net)):
        s = net[net.initial_names[name]]
        assert isinstance(s, (InitialMatrix, InitialVector, InitialScalar))
        if name in run.given or (isinstance(s, InitialScalar) and s.value is not None):
            found[name] = numpy.array(run.read(s)[0])
            if name in run.given:
                # given in the program's scale already; a value of the program's own is scaled like a draw
                continue
        axes, e = run.shape(s.axes), recipe.exponents[name]
        if isinstance(s, InitialMatrix):
            shape = (*axes, run.width[s.rows], run.width[s.columns])
            whole = normal_of(seed, number, shape)
            # entries of variance 1/columns, as the program has them before any parametrization
            found[name] = from_law(s.law, shape, partial(numpy.asarray, whole), run.leaves) / numpy.sqrt(shape[-1])
        elif name not in found:
            width = (run.width[s.over],) if isinstance(s, InitialVector) else ()
            if name in quantiles:
                normal = quantiles[name]
            else:
                # neurons first: the first numbers of a stream are those of the first neurons, at any width
                normal = normal_of(seed, number, (*width, *axes))
                normal = numpy.moveaxis(normal, 0, -1) if width else normal
            found[name] = from_law(s.law, (*axes, *width), partial(numpy.asarray, normal), run.leaves)
            if s.law.shape == GRID:
                found[name] = found[name] if particles else places(found[name].shape[-1])
                continue
        # in the NTP a matrix is n^(−½) w with w of order 1: what is drawn has that power already
        natural = 0.5 if isinstance(s, InitialMatrix) else 0.0
        found[name] = found[name] * float(n0) ** (natural - float(e.a + e.b))
    return found


def _quantiles(net: Program, run: Execution, seed: int) -> Mapping[str, Array]:
    """Standard normal values of all entries of initial vectors, at the points of a Sobol sequence for each width.

    Its second half is the first with the other sign of what outputs are linear in.
    """
    found: dict[str, Array] = {}
    readouts = late_vectors(TotalProgram(net, tuple(parameters(net))))
    for width, size in run.width.items():
        vectors = [
            s
            for p, s in enumerate(net)
            if isinstance(s, InitialVector) and s.over == width and p not in net.inputs and s.name not in run.given
        ]
        entries = [int(numpy.prod(run.shape(s.axes), dtype=int)) for s in vectors]
        if not vectors:
            continue
        if sum(entries) > _MOST:
            raise EvaluationError(
                f"`{net.name}`: initial vectors have {sum(entries)} entries; particles are drawn for {_MOST} at most."
            )
        mirrored = any(s.name in readouts for s in vectors)
        points = normal_points(sum(entries), -(-size // 2) if mirrored else size, (seed, sum(entries))).T
        for s, block in zip(vectors, numpy.split(points, numpy.cumsum(entries)[:-1]), strict=True):
            half = block.reshape(*run.shape(s.axes), points.shape[-1])
            whole = numpy.concatenate([half, -half if s.name in readouts else half], axis=-1) if mirrored else half
            found[s.name] = numpy.ascontiguousarray(whole[..., :size])
    return found


def refuse_no_mean_field(recipe: Recipe) -> None:
    """EvaluationError where means over particles are not the limit: matrices, or another parametrization than μP."""
    net = recipe.net
    for position, s in enumerate(net):
        if isinstance(s, (MatMul, InitialMatrix)):
            raise EvaluationError(
                f"{net.where(position)}: particles stand for neurons where there are no matrices; the limit with "
                "matrices is that of tp.MaximalUpdate."
            )
    for name, e in recipe.exponents.items():
        power = recipe.optimizers[name].extra_power(recipe.kinds[name], e) if name in recipe.optimizers else 0
        vector = isinstance(net[net.initial_names[name]], InitialVector)
        # sizes, gradients and steps of order 1, and a mean over neurons for an output
        wanted = (e.a + e.b == 0) and (e.d - e.a == int(vector)) and (e.c + e.a + power == 0)
        if recipe.a_out != 1 or not wanted:
            raise EvaluationError(
                f"{recipe.parametrization.name}: the limit of `{net.name}` is one of means over neurons in the maximal "
                f"update parametrization alone, and `{name}` has the exponents {e} with a_out = {recipe.a_out:g}; "
                "give parametrization=tp.MUP, or a finite width=."
            )
