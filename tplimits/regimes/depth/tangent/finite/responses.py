"""Responses of real networks to a perturbation: δx beside x through every layer, by the derivative of the block.

δx_d of a standard normal perturbation of what L is differentiated by has |û·δx_d|… the law of the gradient of û·x_d, at
every width (duality), which backpropagation in other networks tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.program.network.tangent import tangent
from tplimits.regimes.depth.finite.layer import Layer

if TYPE_CHECKING:
    from tplimits.program.nodes.kinds import Initial
    from tplimits.program.nodes.program import Program


class _Responding(Layer):
    """One layer with the tangent of its state, or of one of its matrices."""

    def __init__(self, block: Program, moved: str, n: int, x: Array, rng: Any, ratios: Any, given: Any) -> None:
        found = tangent(block, (moved,))
        assert block.state is not None
        self.moved = found.of.get(block.state)
        self.result = found.of[block.returns[0]]
        super().__init__(found.program.replace(state=block.state), n, x.shape[1], len(x), rng, "law", ratios, given)
        self.tangent: Array = numpy.zeros(())

    def _initial(self, s: Initial) -> Array:
        if len(self.arrays) == self.moved:
            return self.tangent
        return super()._initial(s)

    def respond(self, x: Array, δx: Array) -> tuple[Array, Array]:
        """The next states and their tangents."""
        self.tangent = δx
        found = self.advance(x)
        return found, self.arrays[self.result]


def responses(
    block: Program,
    x: Array,
    moved: str | Array,
    layers: int,
    rng: Any,
    ratios: Mapping[str, float] | None = None,
    given: Mapping[str, Any] | None = None,
    record: bool = False,
) -> Any:
    """x and δx (draws, m, n) behind some layers, from a perturbation of the input, or of a matrix of the first layer.

    With `record` those in front of every layer too, as lists.
    """
    n, left, δx = x.shape[-1], layers, x
    states, tangents = [x], []
    if isinstance(moved, str):
        first = _Responding(block, moved, n, x, rng, ratios, given)
        x, δx = first.respond(x, x)
        left -= 1
    else:
        δx = moved
    tangents.append(δx)
    assert block.state is not None
    layer = _Responding(block, block[block.state].name, n, x, rng, ratios, given)
    for _ in range(left):
        x, δx = layer.respond(x, δx)
        if record:
            states.append(x)
            tangents.append(δx)
    return (states, tangents) if record else (x, δx)
