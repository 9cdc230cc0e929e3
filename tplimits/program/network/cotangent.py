"""Gradients of a loss on many inputs at once: one walk back from an error signal χ = ∂loss/∂f.

The rules are those of `tplimits.program.network.backward`, for one number, Σ χ f over inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sympy import Expr

from tplimits.program.network.backward import Use, Walk
from tplimits.program.network.growing import Growing
from tplimits.program.network.parameters import parameter_places
from tplimits.program.nodes.entries import width_symbol
from tplimits.program.nodes.frozen import FrozenDict
from tplimits.program.nodes.kinds import InitialScalar

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


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
    place, taken = len(program), set(program.names)
    name = "χ"
    while name in taken:
        name += "′"
    more = program.replace(
        instructions=(*program.instructions, InitialScalar(name, axes)),
        names={**program.names, name: place},
        arguments=(*program.arguments, place),
        inputs=(*program.inputs, place),
    )
    growing = Growing(more)
    walk = Walk(growing, "d", train)
    readout, *shift = program.returns
    χ = growing.entry(place)
    walk.seed(readout, axes, χ * width_symbol(program[readout].width or "n") ** (1 - a_out))
    for position in shift:
        walk.seed(position, axes, χ)
    walk.run()
    uses = {name: tuple(walk.uses.get(p, ())) for p, name in parameter_places(program).items()}
    return Cotangent(growing.finished().released, place, uses)
