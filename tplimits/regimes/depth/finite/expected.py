"""The mean of V′ over the last matrices of a layer, exactly, at any width.

Products with matrices that meet nothing else, and that only linear functions make the next state of, enter it as

    X′ = A + Σ_j B_j Z_j,   Z_j with iid N(0, 1) entries, independent of A and B,

so that E[V′ | A, B] = (1/n)(A Aᵀ + Σ_j B_j B_jᵀ).  A and B_j are what the instructions behind the products make of
zeros, and of one column of the root L of each product W x = L Z.  n·E[V′ − V] keeps its mean and loses the noise of
W_V, or of the second layer of a perceptron.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx
import numpy

from tplimits.arrays import Array
from tplimits.program.nodes.kinds import MatMul, OuterNonlin
from tplimits.regimes.depth.finite.layer import Layer, from_members, members
from tplimits.regimes.depth.finite.states import covariance

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


#: a function is linear when it is so up to this, relative to its size
_LINEAR = 1e-9


def last_products(program: Program) -> tuple[int, ...]:
    """Products with matrices that meet nothing else, behind which stand functions of one neuron alone."""
    met = [s.matrix for s in program if isinstance(s, MatMul)]
    local = {p for p, s in enumerate(program) if isinstance(s, OuterNonlin) and not s.slots}
    return tuple(
        p
        for p, s in enumerate(program)
        if isinstance(s, MatMul) and met.count(s.matrix) == 1 and networkx.descendants(program.graph, p) <= local
    )


class Expectation:
    """The mean of V′ over the last matrices; whether they enter linearly is judged once, at the numbers of a layer."""

    def __init__(self, layer: Layer) -> None:
        self.layer, program = layer, layer.program
        self.products = tuple(p for p in last_products(program) if self._known(p))
        self.behind = sorted(set().union(*(networkx.descendants(program.graph, p) for p in self.products)))
        if self.products and not self._linear():
            self.products = ()

    def _known(self, position: int) -> bool:
        return any(matrix == self._matmul(position).matrix for matrix, _ in self.layer.met)

    def _matmul(self, position: int) -> MatMul:
        s = self.layer.program[position]
        assert isinstance(s, MatMul)
        return s

    def covariance(self) -> Array:
        """E[V′ | all but the last products] of the layer that has just run, (draws, m, m)."""
        layer = self.layer
        zero = {p: numpy.zeros((1,) * layer.arrays[p].ndim) for p in self.products}
        constant = self._state(zero)
        found = covariance(constant)
        for p in self.products:
            s = self._matmul(p)
            read = members(s)
            assert read is not None
            root = layer.met[s.matrix, read.fixed].root
            # one normal of Z at a time: what it does to the state is B_j
            for member, row in numpy.ndindex(root.shape[1], root.shape[-1]):
                column = numpy.zeros((*root.shape[:3], 1))
                column[:, member, :, 0] = root[:, member, :, row]
                column = from_members(column, read.dimensions, layer.shape(s.axes))
                found = found + covariance(self._state({**zero, p: column}) - constant)
        return found

    def _state(self, products: dict[int, Array]) -> Array:
        """The next state with other products; everything else stays as it is."""
        layer = self.layer
        kept = {q: layer.arrays[q] for q in (*self.products, *self.behind)}
        try:
            for p, array in products.items():
                layer.arrays[p] = numpy.broadcast_to(array, kept[p].shape)
            for q in self.behind:
                s = layer.program[q]
                assert isinstance(s, OuterNonlin)
                layer.arrays[q] = layer.outer(s)
            return layer.arrays[layer.program.returns[0]]
        finally:
            for q, array in kept.items():
                layer.arrays[q] = array

    def _linear(self) -> bool:
        rng = numpy.random.default_rng(0)
        drawn = {p: self.layer.arrays[p] for p in self.products}
        others = {p: rng.standard_normal(a.shape) for p, a in drawn.items()}
        # linear in all products together, at two points and a combination of them
        zero, first, second, both = (
            self._state({p: a * drawn[p] + b * others[p] for p in drawn}) for a, b in ((0, 0), (1, 0), (0, 1), (2, -3))
        )
        off = both - zero - 2 * (first - zero) + 3 * (second - zero)
        return bool(numpy.abs(off).max() <= _LINEAR * numpy.abs(both).max())
