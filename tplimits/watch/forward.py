"""Named values of a network from its parameters: the program itself, run on some inputs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy
from sympy import Integer

from tplimits.arrays import AnyArray as Array
from tplimits.errors import EvaluationError
from tplimits.program.network.samples import dependent, with_samples
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


class Forward:
    """The forward pass of a network whose parameters are given as they stand in the program.

    Samples of kets are parameters like any other: averages over neurons are averages over samples.  `settings` holds
    "a_out", the power of the output, and may hold "ratios".
    """

    def __init__(self, program: Program, settings: Mapping[str, Any]) -> None:
        self.program = program
        self.a_out = float(settings["a_out"])
        self.ratios: Mapping[str, float] = settings.get("ratios", {})

    @cached_property
    def _on_data(self) -> tuple[bool, ...]:
        return dependent(self.program)

    def value(self, position: int, parameters: Mapping[str, Array], X: Mapping[str, Array]) -> Array:
        """The value of one instruction, with the axis of inputs first if it depends on them."""
        found = self._executed(parameters, X, position + 1).arrays[position][0]
        _refuse_overflow(found, f"`{self.program[position].name}`")
        return numpy.array(found)

    def outputs(self, parameters: Mapping[str, Array], X: Mapping[str, Array]) -> Array:
        """f = n₀^(−a_out) Σ_α x_α + shift on all inputs, (inputs, *outputs)."""
        net = self.program
        run = self._executed(parameters, X, len(net))
        axes = tuple(dict.fromkeys(a for p in net.returns for a in net[p].axes))
        total: Any = 0.0
        for number, position in enumerate(net.returns):
            part = run.arrays[position][0]
            if number == 0:
                with numpy.errstate(all="ignore"):  # what overflows is refused by name
                    part = part.sum(axis=-1) * float(part.shape[-1]) ** -self.a_out
            total = total + _along(part, self._on_data[position], net[position].axes, axes)
        found = numpy.broadcast_to(total, (rows_of(X), *run.shape(axes)))
        _refuse_overflow(found, "the output")
        return numpy.array(found)

    def _executed(self, parameters: Mapping[str, Array], X: Mapping[str, Array], count: int) -> Execution:
        program, axis = with_samples(self.program)
        bound = program.bind(**{axis: Integer(rows_of(X))})
        given = {**parameters, **X}
        rng = numpy.random.default_rng(0)  # everything is given: nothing is drawn
        return Execution(bound, self._width(parameters), 1, rng, self.ratios, given).run_some(count)

    def _width(self, parameters: Mapping[str, Array]) -> int:
        """n, from a parameter that has it."""
        widths = widths_in(self.program, parameters)
        for width, size in widths.items():
            n = size / float(self.ratios.get(width, 1.0)) if width != "n" else size
            if width == "n" or "n" not in widths:
                return round(n)
        return 1


def _along(part: Array, on_data: bool, own: tuple[str, ...], axes: tuple[str, ...]) -> Array:
    """An array (inputs, *own) or (*own) with the dimensions (inputs, *axes)."""
    array = part if on_data else part[None]
    order = sorted(range(len(own)), key=lambda i: axes.index(own[i]))
    array = array.transpose(0, *(1 + i for i in order))
    return array[(slice(None), *(slice(None) if a in own else None for a in axes))]


def widths_in(program: Program, parameters: Mapping[str, Array]) -> dict[str, int]:
    """The sizes of the widths that parameters have."""
    found: dict[str, int] = {}
    for name, array in parameters.items():
        s = program[program.initial_names[name]]
        if isinstance(s, InitialVector):
            found[s.over] = array.shape[-1]
        elif isinstance(s, InitialMatrix):
            found.update({s.rows: array.shape[-2], s.columns: array.shape[-1]})
    return found


def rows_of(X: Mapping[str, Array]) -> int:
    """The number of inputs."""
    return len(next(iter(X.values())))


def _refuse_overflow(array: Array, what: str) -> None:
    if not numpy.isfinite(array).all():
        raise EvaluationError(f"{what} is NaN or infinite on these inputs: a value overflows, or is not defined there.")
