"""Gradients of real networks: chains of layers run forward, and backpropagated with the same weights.

The weights of a layer are drawn twice from one stream, on the way there and on the way back, so that none are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy
from sympy import Symbol

from tplimits.arrays import Array
from tplimits.errors import CheckError
from tplimits.program.network.backward import Use, Walk
from tplimits.program.network.growing import Growing
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.kinds import Initial, InitialMatrix, InitialVector

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


@dataclass(frozen=True)
class Backward:
    """A block followed by its gradients for a given one of the next state."""

    block: Program
    program: Program
    cotangent: int
    uses: Mapping[str, tuple[Use, ...]] = field(hash=False)
    state: Use


def backward(block: Program) -> Backward:
    """The gradients of a block as a program."""
    growing, result = Growing(block), block[block.returns[0]]
    entry = growing.emit(InitialVector("", result.axes, result.line, over=str(result.width)), "cotangent")
    walk = Walk(growing, "d")
    walk.seed(block.returns[0], result.axes, entry)
    walk.run()
    program = growing.finished().released
    kinds = (InitialMatrix, InitialVector)
    own = {p: s.name for p, s in enumerate(block) if isinstance(s, kinds) and p != block.state}
    uses = {name: tuple(walk.uses.get(p, ())) for p, name in own.items()}
    assert block.state is not None
    states = walk.uses.get(block.state, [])
    if len(states) != 1:
        raise CheckError(
            f"`{block.name}`: backpropagation through entries of the state that are taken one by one is not run."
        )
    return Backward(block, program, entry.source, uses, states[0])


class _Pass(Execution):
    """One layer there, or there and back: states, and gradients of the next states, of shape (draws, m, n)."""

    def __init__(
        self, of: Backward, x: Array, g: Array | None, rng: Any, ratios: Any, given: Mapping[str, Any]
    ) -> None:
        axis = of.block[of.block.state or 0].axes[0]
        super().__init__(of.program, x.shape[-1], len(x), rng, ratios, {axis: x.shape[1], **given})
        self.of, self.x, self.g = of, x, g

    def _initial(self, s: Initial) -> Array:
        if len(self.arrays) == self.of.block.state:
            return self.x
        if len(self.arrays) == self.of.cotangent:
            assert self.g is not None
            return self.g
        return super()._initial(s)

    def forward(self) -> Array:
        """The next states."""
        self.run_some(len(self.of.block))
        return self.arrays[self.of.block.returns[0]]

    def on_axes(self, entry: Any, axes: tuple[str, ...]) -> Array:
        """A vector on some axes, (draws, *axes, width)."""
        found = self._grid(axes).read(self.arrays[entry.source], entry.indices, tail=1)
        return numpy.broadcast_to(found, (len(self.x), *self.shape(axes), found.shape[-1]))

    def squared(self, name: str) -> Array:
        """|∂L/∂θ|² of a matrix W = θ/√columns or of a vector, for every draw."""
        total: Any = 0.0
        for use in self.of.uses[name]:
            left = self.on_axes(use.gradient, use.axes)
            # a vector is a matrix of one column, times 1
            right = numpy.ones((*left.shape[:-1], 1)) if use.operand is None else self.on_axes(use.operand, use.axes)
            left, right = (right, left) if use.transposed else (left, right)
            family = [i.name for i in use.indices if isinstance(i, Symbol)]
            if len(family) != len(use.indices) or not set(family) <= set(use.axes):
                raise CheckError(f"the gradient of `{name}`, whose members are taken one by one, is not run.")
            kept = [1 + use.axes.index(a) for a in family]
            rest = [k for k in range(1, left.ndim - 1) if k not in kept]
            flat = [numpy.moveaxis(v, [*kept], range(1, 1 + len(kept))) for v in (left, right)]
            shape = (len(self.x), int(numpy.prod([left.shape[k] for k in kept], dtype=int)), -1)
            one, two = (v.reshape(*shape, v.shape[-1]) for v in flat)
            assert rest or one.shape[2] == 1
            total = total + numpy.swapaxes(one, -1, -2) @ two
        return numpy.asarray((total**2).sum(axis=(1, 2, 3)) / total.shape[-1])


@dataclass(frozen=True)
class Network:
    """Chains of a block, from states of a given covariance; `readout` is the token that L reads, None: all of them."""

    block: Program
    layers: int
    readout: int | None = None
    ratios: Mapping[str, float] | None = None
    given: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def backward(self) -> Backward:
        """The block with its gradients."""
        return backward(self.block)

    def squared_norms(
        self, x: Array, weights: Callable[[int], Any], readouts: Any, at: tuple[int, ...] = (0,)
    ) -> dict[tuple[str, int], Array]:
        """|∂L/∂θ|² by ("input" or a matrix or vector, layer) at some layers, and by token for "input": (draws, m).

        ("end", layers) is |x|² of each token behind the last layer.

        `weights` gives the stream of random numbers of a layer, `readouts` that of L, standard normal.  The input of a
        layer numbered as the chain is long is its end.
        """
        states = [x]
        for layer in range(self.layers):
            states.append(_Pass(self.backward, states[-1], None, weights(layer), self.ratios, self.given).forward())
        g = readouts.standard_normal(x.shape)
        if self.readout is not None:
            # all tokens are drawn either way, so that the one that is read has the same readout
            g[:, [a for a in range(x.shape[1]) if a != self.readout]] = 0.0
        found: dict[tuple[str, int], Array] = {("end", self.layers): (states[-1] ** 2).sum(axis=-1)}
        if self.layers in at:
            found["input", self.layers] = (g**2).sum(axis=-1)
        for layer in reversed(range(self.layers)):
            back = _Pass(self.backward, states[layer], g, weights(layer), self.ratios, self.given)
            back.run()
            use = self.backward.state
            g = numpy.array(back.on_axes(use.gradient, use.axes))
            if layer in at:
                found["input", layer] = (g**2).sum(axis=-1)
                found |= {(name, layer): back.squared(name) for name in self.backward.uses}
        return found
