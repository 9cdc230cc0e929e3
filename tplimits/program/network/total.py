"""Total programs on data: a network with its gradients, on many inputs with the same parameters.

Gradients are those of every output, or, in one walk back from an error signal χ = ∂loss/∂f, of Σ χ f over inputs and
outputs by the same rules (`tplimits.program.network.backward`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray
from sympy import Expr

from tplimits.errors import EvaluationError
from tplimits.program.network.backward import Backward, Use, Walk, backpropagation
from tplimits.program.network.data import sizes_of
from tplimits.program.network.differentiate import almost_everywhere
from tplimits.program.network.growing import Growing, with_signal
from tplimits.program.network.parameters import at_rest, parameter_places, parameters, refuse_others
from tplimits.program.network.samples import dependent, with_samples
from tplimits.program.nodes.entries import width_symbol
from tplimits.program.nodes.frozen import FrozenDict
from tplimits.program.nodes.kinds import InitialVector

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


@dataclass(frozen=True)
class TotalProgram:
    """A network and its gradients on many inputs with the same parameters.

    `train` names the parameters that are trained, all of them by default.  Raises EvaluationError for other names.
    """

    network: Program
    train: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        refuse_others(self.network, self.train or (), f"train={self.train!r}", EvaluationError)

    @property
    def trained(self) -> tuple[str, ...]:
        """The parameters that are trained; never the places of neurons."""
        rest = at_rest(self.network)
        return tuple(
            n for n in dict.fromkeys(parameters(self.network) if self.train is None else self.train) if n not in rest
        )

    @cached_property
    def backward(self) -> Backward:
        """The gradients for one input, those of jumps being zero, as they are almost everywhere."""
        # runs at many widths and of many seeds have samplers of their own, of one network
        written, key = self.network.written, ("backward", self.train)
        if key not in written:
            found = backpropagation(self.network, self.train)
            written[key] = replace(found, program=differentiable(found.program))
        return written[key]

    @cached_property
    def program(self) -> Program:
        """Everything, on many inputs; the instructions of the network come first."""
        return self._sampled[0]

    @cached_property
    def needed(self) -> frozenset[int]:
        """What the output and the gradients rest on: code that neither uses need not be run."""
        back = self.backward
        uses = [use for found in (back.gradients, back.shift_gradients) for one in found.values() for use in one]
        ends = {e.source for use in uses for e in (use.gradient, use.operand) if e is not None}
        ends.update(self.network.returns, self.network.initial_names.values())
        return back.program.behind(ends)

    def sized(self, X: Mapping[str, NDArray[numpy.float64]]) -> Program:
        """The total program with the sizes that data have."""
        return self.program.sized({self.axis: len(next(iter(X.values()))), **sizes_of(self.network, X)})

    @cached_property
    def axis(self) -> str:
        """The axis of inputs."""
        return self._sampled[1]

    @property
    def _sampled(self) -> tuple[Program, str]:
        written = self.backward.program.written
        if "samples" not in written:
            written["samples"] = with_samples(self.backward.program)
        return written["samples"]

    @cached_property
    def on_data(self) -> tuple[bool, ...]:
        """Which instructions depend on the input."""
        return dependent(self.backward.program)

    @cached_property
    def output_axes(self) -> tuple[str, ...]:
        """The axes of the output: those of the readout, then those that the shift adds."""
        axes: dict[str, None] = {}
        for position in self.network.returns:
            axes.update(dict.fromkeys(self.network[position].axes))
        return tuple(axes)

    @cached_property
    def readout_width(self) -> str:
        """The width that the output is summed over."""
        return self.network.output_width


def differentiable(program: Program) -> Program:
    """A total program without the derivatives of jumps."""
    return program.changed(almost_everywhere)


@dataclass(frozen=True)
class Cotangent:
    """A network on many inputs with the gradients of one number, Σ χ f over inputs and outputs.

    `signal` is the instruction that holds χ, data with the axes of the inputs and of the outputs; `gradients` are as in
    `Backward`: n₀ ∂/∂y for vectors y and matrices, ∂/∂c for scalars.
    """

    program: Program
    signal: int
    gradients: Mapping[str, tuple[Use, ...]] = field(hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gradients", FrozenDict(self.gradients))


def cotangent(program: Program, sample: str, a_out: Expr, train: Container[str] | None = None) -> Cotangent:
    """The gradients of Σ χ f, f = n₀^(−a_out) Σ_α x_α + shift, for a network with its inputs on the axis `sample`.

    What does not depend on the inputs gets its gradient summed over them before that is passed on.

    >>> import sympy
    >>> import tplimits as tp
    >>> from tplimits.program.network.samples import with_samples
    >>> @tp.network
    ... def shallow(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    ...     return v * tp.relu(tp.sum(U * ξ, over="d"))
    >>> found = cotangent(*with_samples(shallow), sympy.S.One)
    >>> found.program[found.signal].axes, found.program[found.gradients["U"][0].gradient.source].axes
    (('sample',), ('d',))
    """
    axes = tuple(dict.fromkeys((sample, *(a for p in program.returns for a in program[p].axes))))
    more, place = with_signal(program, axes)
    growing = Growing(more.replace(inputs=(*program.inputs, place)))
    walk = Walk(growing, "d", train)
    readout, *shift = program.returns
    χ = growing.entry(place)
    walk.seed(readout, axes, χ * width_symbol(program[readout].width or "n") ** (1 - a_out))
    for position in shift:
        walk.seed(position, axes, χ)
    walk.run()
    uses = {name: tuple(walk.uses.get(p, ())) for p, name in parameter_places(program).items()}
    return Cotangent(growing.finished().released, place, uses)


def late_vectors(total: TotalProgram) -> set[str]:
    """Vectors that their own gradient does not depend on, such as readouts v of f = Avg(v φ(h)).

    They are linear in the output, and can be drawn after everything that they multiply.
    """
    backward = total.backward
    network = total.network
    behind: dict[str, frozenset[int]] = {}
    for name, uses in backward.gradients.items():
        position = network.initial_names[name]
        found = backward.program.behind(use.gradient.source for use in uses)
        if isinstance(network[position], InitialVector) and uses and position not in found:
            behind[name] = found
    positions = {network.initial_names[name] for name in behind}
    # two vectors whose gradients read each other, as in products of readouts, cannot both come last
    return {name for name, found in behind.items() if not found & positions}
