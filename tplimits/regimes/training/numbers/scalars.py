"""Scalar parameters that are drawn: the limit of a network is that of its draw, and a law over draws lies above it.

At infinite width neurons follow their law, and nothing of them is random; numbers such as an output bias or a table of
embeddings stay what a network drew.  Training is then a random path, whose mean over these draws is an outer loop over
limits, each of them sure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, shown
from tplimits.program.language.render import number_text
from tplimits.program.network.data import inputs_of
from tplimits.program.network.parameters import parameters
from tplimits.program.network.samples import with_samples
from tplimits.program.network.schedules import at_step
from tplimits.program.nodes.drawing import drawn as from_law
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.given import seed_number, whole_from
from tplimits.program.nodes.kinds import InitialScalar
from tplimits.program.nodes.laws import NORMAL

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

#: draws where nothing is said
_DRAWS = 8


def open_scalars(network: Program, given: Iterable[str]) -> tuple[str, ...]:
    """The scalar parameters that are drawn: those without a value of their own that are not given."""
    known = set(given)
    found = {name: network[network.initial_names[name]] for name in parameters(network)}
    return tuple(n for n, s in found.items() if isinstance(s, InitialScalar) and s.value is None and n not in known)


def refuse_open_scalars(network: Program, given: Iterable[str]) -> None:
    """EvaluationError for a scalar parameter without a start, where one limit is asked for."""
    for name in open_scalars(network, given):
        s = network[network.initial_names[name]]
        assert isinstance(s, InitialScalar)
        drawn = "" if s.law == NORMAL else f" (drawn, {s.law.described(number_text)})"
        raise EvaluationError(
            f"the scalar parameter `{name}`{drawn} has no initial value; the limit depends on it: give {name}=…."
        )


def normal_of(seed: int, number: int, shape: tuple[int, ...]) -> Array:
    """Standard normal numbers behind the parameter of a number: a stream of its own for every seed."""
    return numpy.random.default_rng([seed, number]).standard_normal(shape)


def scalars_of(
    network: Program, X: Any, given: Mapping[str, Any], seed: int, ratios: Mapping[str, float] | None = None
) -> dict[str, Array]:
    """The scalars of a seed that are drawn, the same for networks of all widths and for the limit."""
    data = inputs_of(network, X, "X")
    sampled, sample = with_samples(network)
    known = {**at_step(given, 0), **data}
    # run at width 1 for its sizes and constants alone: scalars do not know of neurons
    bound = sampled.bind(**{sample: len(next(iter(data.values())))})
    run = Execution(bound, 1, 1, numpy.random.default_rng(0), ratios, known)
    # streams are numbered over all parameters, so that giving one leaves the others as they were
    found, names = {}, open_scalars(network, given)
    for number, name in enumerate(parameters(network)):
        s = network[network.initial_names[name]]
        if name in names and isinstance(s, InitialScalar):
            shape = run.shape(s.axes)
            found[name] = from_law(s.law, shape, partial(normal_of, seed, number, shape), run.leaves)
    return found


def starts(
    network: Program, X: Any, given: Mapping[str, Any], ratios: Any, seed: Any, draws: Any, checkpoint: Any
) -> dict[int, dict[str, Array]]:
    """The scalars of so many draws by their seeds; none where nothing is drawn."""
    drawn = open_scalars(network, given)
    if not drawn:
        if draws is not None:
            raise EvaluationError(f"draws={shown(draws, 40)}: all scalar parameters are given; nothing is drawn.")
        return {}
    if checkpoint is not None:
        raise EvaluationError(f"checkpoint=…: `{drawn[0]}` is drawn, and a file holds one draw: give {drawn[0]}=….")
    many = _DRAWS if draws is None else whole_from("draws", draws, 2, EvaluationError)
    first = seed_number(seed, EvaluationError)
    return {number: scalars_of(network, X, given, number, ratios) for number in range(first, first + many)}
