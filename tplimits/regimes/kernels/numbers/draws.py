"""Joint draws of random logits for all inputs: the same draw serves every pair, so that Gram matrices stay PSD.

Logits ⟨q|k⟩/√n are Gaussian with Cov(G_ai(ξ), G_bj(ξ′)) = P_ab(ξ, ξ′) R_ij(ξ, ξ′) for independent queries and keys: a
product of tables whose indices are apart.  With roots P = L Lᵀ, R = M Mᵀ over all (input, place) the logits are L Z Mᵀ,
Z white.  Other covariances are factored whole, and so are those of several fluctuations that are correlated.  Logits of
what earlier logits made, as of a second layer of attention, are Gaussian given these: a root for each draw of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import Expr

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.nodes.entries import Kron, free_indices
from tplimits.program.parts import apart
from tplimits.regimes.kernels.derivation.demand import placed
from tplimits.regimes.kernels.derivation.leaves import SECOND, TableEntry, plain_axis, sided
from tplimits.regimes.kernels.numbers.tables.labelled import Labelled

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.recursion import Recursion
    from tplimits.regimes.kernels.numbers.inputs import Inputs
    from tplimits.regimes.kernels.numbers.tables.interpreter import Tables

#: a covariance with more rows than this is not factored whole
_LARGEST = 6000


@dataclass
class LogitDraws:
    """Draws of every fluctuation that is asked for, (inputs, *axes, draws) for either side."""

    many: int
    seed: int
    tables: dict[tuple[int, int], Tables] = field(default_factory=dict)
    known: dict[int, tuple[Labelled, Labelled]] = field(default_factory=dict)

    def of(self, node: int, side: int) -> Labelled:
        """Draws of one fluctuation for the inputs of a side."""
        if node not in self.known:
            together = self._correlated(node)
            self.known |= self._jointly(together) if len(together) > 1 else {node: self._drawn(node)}
        return self.known[node][side - 1]

    @property
    def _recursion(self) -> Recursion:
        return self.tables[1, 2].derivation.recursion

    def _law(self, node: int, other: int) -> Expr:
        """The covariance of two fluctuations, for one member of an infinite family."""
        law = self._recursion.table(node, other)
        return law.xreplace({k: sympy.S.One for k in law.atoms(Kron) if _is_infinite(k, self._recursion.infinite)})

    def _axes(self, node: int) -> list[str]:
        return [a for a in self._recursion.nodes[node].axes if a not in self._recursion.infinite]

    def _correlated(self, node: int) -> list[int]:
        """The fluctuations that are drawn together with one."""
        found, waiting = {node}, [node]
        while waiting:
            one = waiting.pop()
            more = [p for p in self._recursion.logits if p not in found and self._law(one, p) != 0]
            found.update(more)
            waiting += more
        return sorted(found)

    def _jointly(self, nodes: Sequence[int]) -> dict[int, tuple[Labelled, Labelled]]:
        """Draws of correlated fluctuations: one root of their covariance over all (fluctuation, input, place)."""
        sides, axes = self.tables[1, 2].sides, {p: self._axes(p) for p in nodes}

        def block(left: int, right: int) -> Array:
            return _whole([[self._block(self._law(p, q), axes[p], axes[q], left, right) for q in nodes] for p in nodes])

        root = self._root(block)
        rng = numpy.random.default_rng([self.seed, *nodes])
        values = _applied(root, rng.standard_normal((root.shape[-1], self.many)))
        found: dict[int, list[Labelled]] = {p: [] for p in nodes}
        for side in (1, 2):
            inputs = sides[side - 1]
            start = 0 if side == 1 or sides[0] is sides[1] else len(values) - sum(map(self._rows(inputs), nodes))
            for p in nodes:
                rows = self._rows(inputs)(p)
                shape = (inputs.many, *(inputs.sizes[plain_axis(a)] for a in axes[p]), self.many)
                found[p].append(Labelled(values[start : start + rows].reshape(shape), ("input", *axes[p], "draw")))
                start += rows
        return {p: (one, other) for p, (one, other) in found.items()}

    def _rows(self, inputs: Inputs) -> Callable[[int], int]:
        return lambda node: inputs.many * math.prod(inputs.sizes[plain_axis(a)] for a in self._axes(node))

    def _drawn(self, node: int) -> tuple[Labelled, Labelled]:
        any_table, axes = self.tables[1, 2], self._axes(node)
        # seeded by the fluctuation: the same draws in whatever order they are asked for
        rng = numpy.random.default_rng([self.seed, node])
        groups = _split(_definition(self._law(node, node), self._recursion.tables), axes)
        roots = [self._root(partial(self._block, expr, group, group)) for expr, group in groups]
        # L Z Mᵀ: one white tensor, a root for each group of axes
        white = rng.standard_normal((*(r.shape[-1] for r in roots), self.many))
        sides = []
        for side in (1, 2):
            drawn: Array | None = None
            inputs = any_table.sides[side - 1]
            for index in range(inputs.many):
                one = white
                for (_, group), root in zip(groups, roots, strict=True):
                    size = math.prod(inputs.sizes[plain_axis(a)] for a in group)
                    start = self._offset(group, side) + index * size
                    one = numpy.moveaxis(_applied(root[..., start : start + size, :], one), 0, len(groups) - 1)
                if drawn is None:
                    drawn = numpy.empty((inputs.many, *one.shape))
                drawn[index] = one
            assert drawn is not None
            shape = [inputs.sizes[plain_axis(a)] for _, group in groups for a in group]
            order = [a for _, group in groups for a in group]
            labelled = Labelled(drawn.reshape(inputs.many, *shape, self.many), ("input", *order, "draw"))
            sides.append(Labelled(labelled.at(["input", *axes, "draw"]), ("input", *axes, "draw")))
        return sides[0], sides[1]

    def _offset(self, group: Sequence[str], side: int) -> int:
        inputs, other = self.tables[1, 2].sides
        if side == 1 or inputs is other:
            return 0
        return inputs.many * math.prod(inputs.sizes[plain_axis(a)] for a in group)

    def _root(self, block: Callable[[int, int], Array]) -> Array:
        """A root of the covariance over all (input, place) of both sides, given its blocks between sides."""
        first, second_side = self.tables[1, 2].sides
        keys = ((1, 1),) if first is second_side else ((1, 1), (1, 2), (2, 2))
        blocks = {key: block(*key) for key in keys}
        whole = blocks[1, 1]
        if len(keys) > 1:
            across = blocks[1, 2]
            whole = _whole([[whole, across], [across.swapaxes(-1, -2), blocks[2, 2]]])
        if len(whole[0]) > _LARGEST or whole.size > _LARGEST**2:
            given = f" for each of {len(whole)} draws of those that they are made of" if whole.ndim > 2 else ""
            raise EvaluationError(
                f"random logits of {whole.shape[-1]} (input, token) places would have to be drawn together{given}; the "
                f"most is {math.isqrt(_LARGEST**2 // (len(whole) if given else 1))}: give fewer inputs at a time."
            )
        values, vectors = numpy.linalg.eigh((whole + whole.swapaxes(-1, -2)) / 2)
        largest = numpy.maximum(values[..., -1:], 1e-300)
        # covariances are rounded: a little below 0 is a singular one, more is a wrong one
        if (values[..., :1] < -1e-8 * largest).any():
            raise EvaluationError(
                f"the covariance of the logits has the eigenvalue {values.min():.3g}; it must have none below 0."
            )
        # directions without variance, as of equal inputs, would be √rounding
        kept = values > 1e-14 * largest
        root: Array = vectors * numpy.sqrt(numpy.where(kept, values, 0))[..., None, :]
        root = root[..., kept.reshape(-1, kept.shape[-1]).any(axis=0)]
        return root if root.shape[-1] else numpy.zeros((*root.shape[:-1], 1))

    def _block(self, expr: Expr, group: Sequence[str], theirs: Sequence[str], left: int, right: int) -> Array:
        """A covariance between (input, place) of two sides; before them the draws of earlier logits that it reads."""
        tables = self.tables[left, right]
        value = tables.frame(1, 2).value(expr)
        one, other = tables.sides
        rows = [one.many, *(one.sizes[plain_axis(a)] for a in group)]
        columns = [other.many, *(other.sizes[plain_axis(a)] for a in theirs)]
        given = ["draw"] if "draw" in value.labels else []
        before = [self.many] * len(given)
        order = [*given, "input 1", *group, "input 2", *(a + SECOND for a in theirs)]
        array = numpy.broadcast_to(value.at(order), [*before, *rows, *columns])
        return array.reshape(*before, math.prod(rows), math.prod(columns))


def _whole(blocks: Sequence[Sequence[Array]]) -> Array:
    """A matrix of blocks, one for each draw where some block has them."""
    draws = numpy.broadcast_shapes(*(one.shape[:-2] for row in blocks for one in row))
    return numpy.block([[numpy.broadcast_to(one, (*draws, *one.shape[-2:])) for one in row] for row in blocks])


def _applied(root: Array, white: Array) -> Array:
    """A root, or one for each draw, times (columns, …, draws)."""
    if root.ndim == 2:
        return numpy.tensordot(root, white, axes=(1, 0))
    found: Array = numpy.einsum("drk,k...d->r...d", root, white)
    return found


def _is_infinite(kron: Kron, infinite: frozenset[str]) -> bool:
    return any(plain_axis(i.name) in infinite for i in kron.args if isinstance(i, sympy.Symbol))


def _definition(law: Expr, tables: Sequence) -> Expr:
    """The covariance with a table that is nothing but a product written out, where the entry reads it."""
    if isinstance(law, TableEntry):
        return placed(sided(tables[law.table].definition, *law.sides), tables[law.table], law)
    return law


def _split(law: Expr, axes: Sequence[str]) -> list[tuple[Expr, tuple[str, ...]]]:
    """Factors of a covariance with the axes each depends on, where they are apart; else the whole."""
    constant, groups = apart(law, lambda factor: {i.name.replace(SECOND, "") for i in free_indices(factor)})
    if not groups:
        return [(constant, tuple(axes))]
    groups[0] = (groups[0][0] * constant, groups[0][1])
    missing = [a for a in axes if all(a not in used for _, used in groups)]
    if missing:
        groups[0] = (groups[0][0], groups[0][1] | set(missing))
    return [(expr, tuple(a for a in axes if a in used)) for expr, used in groups]
