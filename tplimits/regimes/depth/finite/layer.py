"""One layer of a block at width n, for many states at once: the block's own instructions on arrays.

Weights are real matrices (`weights="real"`), or their products alone are drawn (`weights="law"`): given vectors x_1,
x_2, ... that a matrix W with iid N(0, v) entries meets, in whatever way they depend on what W gave before,

    (W x_1, W x_2, ...) = L Z,  v·(x_i·x_j) = L Lᵀ,  Z with iid N(0, 1) entries,

in law.  A layer then costs O(n m) random numbers, not n², and nothing is approximated.  It does not hold for a
matrix that is used together with its transpose; such a one is drawn whole.

Either way Z is known.  Z has iid N(0, 1) entries and is independent of everything that came before, and so are the
Z of all matrices: these are the random numbers whose moments are exact at every width
(`tplimits.regimes.depth.finite.controls`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy
from sympy import Integer, Symbol

from tplimits.arrays import Array
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.kinds import Initial, InitialMatrix, MatMul
from tplimits.regimes.depth.finite.states import cholesky

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program

Weights = Literal["law", "real"]


@dataclass
class Met:
    """What one matrix has met: vectors x and their Z, of shape (draws, members of the family, vectors, width)."""

    x: Array
    z: Array
    #: L of the last vectors among them
    root: Array


@dataclass(frozen=True)
class Members:
    """Which members of a family of matrices a product reads: one, or all of them along some axes of the product."""

    fixed: tuple[int, ...] | None
    dimensions: tuple[int, ...] = ()


def members(product: MatMul) -> Members | None:
    """The members a product reads; None where the indices are anything but numbers, or names of its axes."""
    if all(isinstance(i, Integer) for i in product.matrix_indices):
        return Members(tuple(map(int, product.matrix_indices)))
    names = [i.name if isinstance(i, Symbol) else "" for i in product.matrix_indices]
    if set(names) <= set(product.axes) and len(set(names)) == len(names):
        return Members(None, tuple(1 + product.axes.index(name) for name in names))
    return None


def drawn_by_products(program: Program) -> frozenset[int]:
    """The matrices of a program of which only products matter: never met from both sides, nor in parts and whole."""
    uses: dict[int, list[MatMul]] = {}
    for s in program:
        if isinstance(s, MatMul):
            uses.setdefault(s.matrix, []).append(s)
    found = set()
    for matrix, products in uses.items():
        read = [members(p) for p in products]
        sides, kinds = {p.transposed for p in products}, {r is not None and r.fixed is None for r in read}
        # met from both sides, products are no longer those of fresh normal entries
        if None not in read and len(sides) == 1 and len(kinds) == 1:
            found.add(matrix)
    return frozenset(found)


class Layer(Execution):
    """One layer at one width: call `advance` with states of shape (draws, m, n) as often as there are layers."""

    def __init__(
        self,
        program: Program,
        n: int,
        tokens: int,
        draws: int,
        rng: Any,
        weights: Weights = "law",
        ratios: Mapping[str, float] | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        assert program.state is not None
        self.axis = program[program.state].axes[0]
        super().__init__(program, n, draws, rng, ratios, {self.axis: tokens, **(given or {})})
        self.weights, self.by_products = weights, drawn_by_products(program)
        self.state: Array = numpy.zeros(())
        self.met: dict[tuple[int, tuple[int, ...] | None], Met] = {}

    def advance(self, states: Array) -> Array:
        """The states one layer on, with weights of their own."""
        self.state, self.arrays, self.met = states, [], {}
        self.run()
        return self.arrays[self.program.returns[0]]

    @property
    def noise(self) -> dict[str, list[Array]]:
        """Z of the last layer, arrays of shape (draws, rows, width) by the width they live on."""
        found: dict[str, list[Array]] = {}
        for (matrix, _), met in self.met.items():
            initial = self.program[matrix]
            assert isinstance(initial, InitialMatrix)
            sides = {s.transposed for s in self.program if isinstance(s, MatMul) and s.matrix == matrix}
            width = initial.columns if True in sides else initial.rows
            found.setdefault(width, []).append(met.z.reshape(len(met.z), -1, met.z.shape[-1]))
        return found

    def _initial(self, s: Initial) -> Array:
        position = len(self.arrays)
        if position == self.program.state:
            return self.state
        if self.weights == "law" and position in self.by_products and s.name not in self.given:
            return numpy.zeros(())
        return super()._initial(s)

    def matmul(self, s: MatMul) -> Array:
        matrix = self.program[s.matrix]
        if s.matrix not in self.by_products or matrix.name in self.given:
            return super().matmul(s)
        assert isinstance(matrix, InitialMatrix)
        read = members(s)
        assert read is not None
        x = by_member(self._vector(s), read.dimensions)
        across = self.width[matrix.columns if s.transposed else matrix.rows]
        met = self.met.get((s.matrix, read.fixed))
        every = x if met is None else numpy.concatenate([met.x, x], axis=2)
        # of all that the matrix has met: the rows of the new vectors hold how far they are made of old ones
        L = cholesky(every @ numpy.swapaxes(every, -1, -2) / self.width[matrix.columns])
        new = L[..., -x.shape[2] :, :]
        if self.weights == "law":
            z = self.rng.standard_normal((*x.shape[:3], across))
            z = z if met is None else numpy.concatenate([met.z, z], axis=2)
            product = from_members(new @ z, read.dimensions, self.shape(s.axes))
        else:
            product = super().matmul(s)
            # real weights have the same Z, read back off their products: controls need it
            z = self._whitened(by_member(product, read.dimensions), new, None if met is None else met.z)
        self.met[s.matrix, read.fixed] = Met(every, z, new)
        return product

    def _whitened(self, product: Array, L: Array, before: Array | None) -> Array:
        """Z from W x = L Z, row by row; fresh normals for a vector that lies in the span of others."""
        z = product[..., :0, :] if before is None else before
        for row in range(product.shape[-2]):
            known = z.shape[-2]
            left = product[..., row, :] - (L[..., row, None, :known] @ z)[..., 0, :]
            pivot = L[..., row, known, None]
            # a vector in the span of others is met without a new normal: whatever stands for it has no part in the
            # product
            fresh = self.rng.standard_normal(left.shape) if (pivot == 0).any() else left
            one = numpy.where(pivot > 0, left / numpy.where(pivot > 0, pivot, 1.0), fresh)
            z = numpy.concatenate([z, one[..., None, :]], axis=-2)
        return z


def by_member(x: Array, dimensions: tuple[int, ...]) -> Array:
    """(draws, *axes, width) as (draws, members of the family, vectors, width)."""
    moved = numpy.moveaxis(x, dimensions, range(1, 1 + len(dimensions)))
    count = int(numpy.prod(moved.shape[1 : 1 + len(dimensions)], dtype=int))
    return moved.reshape(len(x), count, -1, x.shape[-1])


def from_members(x: Array, dimensions: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """The reverse of `by_member` for axes of these sizes."""
    places = [d - 1 for d in dimensions]
    rest = [size for i, size in enumerate(axes) if i not in places]
    shaped = x.reshape(len(x), *(axes[i] for i in places), *rest, x.shape[-1])
    return numpy.moveaxis(shaped, range(1, 1 + len(dimensions)), dimensions)
