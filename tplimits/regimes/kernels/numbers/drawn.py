"""Kernels as means over draws: of random logits, of means that do not separate; or kernels given the logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.number import standard_error
from tplimits.program.nodes.given import seed_number
from tplimits.progress import Progress, reporting
from tplimits.regimes.kernels.derivation.leaves import SECOND
from tplimits.regimes.kernels.numbers.draws import LogitDraws
from tplimits.regimes.kernels.numbers.inseparable import POINTS, MeanPoints, refuse_long_draws
from tplimits.regimes.kernels.numbers.request import (
    KERNELS,
    GramRequest,
    KernelPair,
    dropped,
    of_tables,
    refuse_infinite,
    sampling_of,
    shape_of,
)
from tplimits.regimes.kernels.numbers.symmetry import symmetric
from tplimits.regimes.kernels.numbers.tables.interpreter import Tables


def joint_draws(asked: GramRequest, many: int, seed: int, conditional: bool = False) -> dict[tuple[int, int], Tables]:
    """Tables of all pairs of batches that share draws."""
    draws = LogitDraws(many, seed)
    sides, derivation = (asked.one, asked.other), asked.derivation
    points = MeanPoints(POINTS * many, (seed,), conditional) if asked.cost.is_too_much else None
    demand = None if derivation.is_drawn or conditional else derivation.demand  # logits are drawn for all places
    for a, b in ((1, 1), (1, 2), (2, 2)):
        both = sides[a - 1], sides[b - 1]
        draws.tables[a, b] = Tables(
            derivation, both, asked.constants, draws, (a, b), conditional, demand=demand, points=points
        )
    return draws.tables


def drawn(
    asked: GramRequest,
    places: Sequence[tuple[int, int]],
    draws: int = 1024,
    replicates: int = 8,
    seed: int = 0,
    progress: Progress = None,
) -> dict[tuple[int, int], KernelPair]:
    """Kernels between the batches (1, 1), (1, 2) or (2, 2) of a request, from the same draws."""
    count, many, base = sampling_of(draws, replicates, seed).values()
    if many < 2 or count < many:
        raise EvaluationError(
            f"draws={draws!r}, replicates={replicates!r}: whole numbers, 2 replicates or more, of one draw or more."
        )
    if asked.cost.is_too_much:
        refuse_long_draws(asked.cost, count, asked.derivation.network.name, asked.constants)
    kernels = ("nngp",) if asked.derivation.no_ntk else KERNELS
    found: dict[tuple[int, int], list[list[Array]]] = {place: [] for place in places}
    with reporting(progress) as report:
        report.plan(many, "replicates of the draws")
        for replicate in range(many):
            tables = joint_draws(asked, max(1, count // many), base * many + replicate)
            for place in places:
                mine = replace(asked, one=tables[place].sides[0], other=tables[place].sides[1])
                values = [dropped(mine, v) for v in of_tables(mine, tables[place], kernels)]
                found[place].append([symmetric(v) if mine.one is mine.other else v for v in values])
            report.advance(1)
    return {place: _averaged(asked, values) for place, values in found.items()}


def _averaged(asked: GramRequest, found: list[list[Array]]) -> KernelPair:
    means = [numpy.mean([f[i] for f in found], axis=0) for i in (0, -1)]  # the NNGP twice where there is no NTK
    errors = [standard_error(numpy.array([f[i] for f in found])) for i in (0, -1)]
    refuse_infinite(asked, KERNELS, means)
    return KernelPair(means[0], means[1], errors[0], errors[1])


def sampled(asked: GramRequest, draws: int, seed: int) -> tuple[Array, Array]:
    """Kernels given draws of the logits of finitely many heads: (draws, N1, N2, *axes, *axes)."""
    tables = joint_draws(asked, draws, seed_number(seed, EvaluationError), conditional=True)[1, 2]
    frame, axes = tables.frame(1, 2), asked.derivation.axes
    order = ["draw", "input 1", "input 2", *axes, *(a + SECOND for a in axes)]
    kernels = []
    for expr in (asked.derivation.nngp, asked.derivation.ntk):
        value = frame.value(expr)
        values = numpy.broadcast_to(value.at(order), (draws, *shape_of(asked, axes)))
        mine = [dropped(asked, v) for v in values]
        kernels.append(numpy.stack([symmetric(v) for v in mine] if asked.symmetric else mine))
    return kernels[0], kernels[1]
