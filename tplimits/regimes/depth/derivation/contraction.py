"""Means over the weights of a layer: Wick pairings, cumulants, and what is left when all weights are gone.

Matrices are averaged one after the other, outermost first; each is Gaussian given everything inside its operands.
A product of entries of W u is a sum over pairings (Isserlis), each pair a Gram matrix of operands; a product of
functions of dense layers of the state, with columns independent and alike, is a sum over partitions into blocks of the
joint cumulants of one column.  A covariance keeps the partitions that join its two sides.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from tplimits.errors import NoLimitError
from tplimits.regimes.depth.algebra.activations import LINEAR
from tplimits.regimes.depth.algebra.canonical import canonical
from tplimits.regimes.depth.algebra.model import Layer, Model, centred_label, column_label
from tplimits.regimes.depth.algebra.products import (
    MOST,
    OPEN,
    SPAN,
    Factor,
    Factors,
    ProductTerm,
    Sum,
    indices,
    next_number,
    placed,
    product,
    renamed,
    times,
)
from tplimits.regimes.depth.derivation.groupings import Blocks, Kind, count, end, groupings, identify, kind
from tplimits.regimes.depth.derivation.independence import entangled
from tplimits.regimes.depth.derivation.not_covered import NoFormulasError

#: functions of scalars, by the first letter of a label: those with a kink, and those of order 1
OF_SCALARS = frozenset("GY")
#: what is random, by the first letter of a label: functions of dense layers, and of scalars
RANDOM = frozenset("F") | OF_SCALARS

#: axes an operand can have
_MOST_AXES = 9
#: pairings and partitions of one sum that are gone through, a few 10⁴ in a second
_MOST_GROUPINGS = 500_000
#: indices of a product that is measured, where they are not summed, are below this
_FIXED = -200

Pair = tuple[ProductTerm, ProductTerm]


class Contraction:
    """Means of products of one model.

    `one` is the unit of the coefficients; terms of size below ε^most are dropped.  With `counting`, coefficients are
    taken for 1: the orders of a mean are wanted, not its value.
    """

    def __init__(self, model: Model, one: Any, most: int = MOST, counting: bool = False) -> None:
        self.model, self.one, self.most, self.counting = model, one, most, counting
        self._grams: dict[tuple[int | None, int | None, int], tuple[ProductTerm, ...]] = {}

    def mean(self, terms: Iterable[ProductTerm], keep: frozenset[int] = frozenset()) -> Sum:
        """E of a sum, over all matrices but those in `keep`."""
        return self._averaged(self._start((t, None) for t in terms), keep)

    def covariance(self, left: Iterable[ProductTerm], right: Iterable[ProductTerm]) -> Sum:
        """Cov of two sums: what joins them."""
        right = list(right)
        return self.joined((a, b) for a in left for b in right)

    def joined(self, pairs: Iterable[Pair], keep: frozenset[int] = frozenset(), shared: bool = False) -> Sum:
        """Σ Cov over pairs, given the matrices in `keep`; where none joins two terms, functions of scalars may.

        Summed indices of one number in both terms of a pair are one if they are `shared`.
        """
        few = ((a, b, 0 if shared else next_number(a.factors)) for a, b in pairs if a.pert + b.pert <= self.most)
        found = self._averaged(self._start((product(a, shifted(b, by, 1)), False) for a, b, by in few), keep)
        return {key: c for key, c in found.items() if key[3] or any(f[0][0] in OF_SCALARS for f in key[0])}

    def _start(self, terms: Iterable[tuple[ProductTerm, bool | None]]) -> Sum:
        found: Sum = {}
        for term, joined in terms:
            self._add(found, self._settled(term, indices(term.factors)), joined)
        return found

    def _settled(self, term: ProductTerm, summed: Iterable[int]) -> ProductTerm:
        """A term with its sums done where the state alone is left of them."""
        powers, factors = term.powers, term.factors
        for index in sorted(summed):
            powers, factors = self.closed(factors, powers, index)
        return ProductTerm(self.one if self.counting else term.coeff, powers, term.pert, factors)

    def _averaged(self, current: Sum, keep: frozenset[int]) -> Sum:
        for matrix in self.model.outermost_first():
            if matrix not in keep:
                current = self._average_over(matrix, current)
        return current

    def _add(self, into: Sum, term: ProductTerm, joined: bool | None) -> None:
        """Add a term to a sum; `joined` is None where there is nothing to join."""
        factors = term.factors
        if joined is False:
            if {copy for label, _, copy in factors if label[0] in RANDOM} != {0, 1}:
                return  # nothing random is left on one side: it cannot be joined any more
            # of what is not random any more the copy is forgotten, so that equal products merge
            factors = tuple(f if f[0][0] in RANDOM else (f[0], f[1], 0) for f in factors)
        else:
            factors = tuple((label, at, 0) for label, at, _ in factors)
        key = (canonical(factors), term.powers, term.pert, joined)
        value = into.get(key)
        into[key] = term.coeff if value is None else value + term.coeff

    def _average_over(self, matrix: int, current: Sum) -> Sum:
        found: Sum = {}
        self._insist_on_few(matrix, current)
        for (factors, powers, pert, joined), coeff in current.items():
            mine = [f for f in factors if self.model.is_of(matrix, f)]
            if not mine:
                self._add(found, ProductTerm(coeff, powers, pert, factors), joined)
                continue
            layers = [self.model.layers[f[0]] for f in mine]
            # what comes with 1/n is joined to nothing at that order: the weight is independent of it in the limit
            term = ProductTerm(coeff, powers, pert, factors)
            if (refusal := entangled(self.model, matrix, term, exactly=self.most > MOST)) is not None:
                if not self._is_negligible(term):
                    raise refusal
                continue
            # G_i − E G_i, what stands at a neuron less its mean: no cumulants of its own
            marks = [f for f in factors if f[0] == centred_label(matrix)]
            centred = [{k for k, f in enumerate(mine) if f[1][-1] == at[0]} for _, at, _ in marks]
            rest = ProductTerm(coeff, powers, pert, _without(factors, [*mine, *marks]))
            for blocks in groupings(self._kinds(matrix, factors)):
                if any(all(own.issuperset(b) or own.isdisjoint(b) for b in blocks) for own in centred):
                    continue
                for term, now_joined in self._grouped(rest, mine, layers, blocks, joined):
                    self._add(found, term, now_joined)
        return {key: c for key, c in found.items() if c}

    def _is_negligible(self, term: ProductTerm) -> bool:
        """Whether a product is beyond ε^most whatever functions of scalars it is joined to: |E P F|² ≤ E P² E F²."""
        held = [f for f in term.factors if f[0][0] in OF_SCALARS]
        # at a neuron there is no one F: n of them stand in the sum
        if any(f[0][0] != "Y" or self.model.weights[f[0]].of_neuron for f in held):
            return False
        rest = term._replace(factors=_without(term.factors, held))
        fixed = (i for i in indices(term.factors) if not self.model.dimensions[i // SPAN].width)
        size = Contraction(self.model, 1, counting=True).size(rest._replace(pert=0), fixed)
        return size is None or size > self.most

    def size(self, term: ProductTerm, fixed: Iterable[int]) -> int | None:
        """The size of a product as a power of ε, by its second moment, at indices that are not summed; None of zero."""
        change = {i: _FIXED - place for place, i in enumerate(sorted(i for i in fixed if i >= 0))}
        own = term._replace(factors=renamed(term.factors, change))
        twice = product(own, shifted(own, next_number(own.factors), 0))
        orders = [self.model.order_of(powers) for _, powers, _, _ in self.mean([twice])]
        # of a second moment of order ε^(2k) the variable itself is of order ε^k
        return min(orders) // 2 if orders else None

    def _insist_on_few(self, matrix: int, current: Sum) -> None:
        """Refuse a sum with more groupings than can be gone through, before the first of them."""
        products = [self._kinds(matrix, key[0]) for key in current]
        ways = sum(map(count, products))
        if ways > _MOST_GROUPINGS:
            raise NoLimitError(
                f"not derived: the moments of the next covariance hold products of up to {max(map(len, products))} "
                f"functions of `{self.model.names[matrix]}`, with {ways} ways to group them. Take lower powers of "
                "averages, or averages of functions of one matrix each."
            )

    def _kinds(self, matrix: int, factors: Factors) -> tuple[Kind, ...]:
        mine = [f for f in factors if self.model.is_of(matrix, f)]
        at = [f[1][-1] for f in mine]
        marked = {f[1][0] for f in factors if f[0] == centred_label(matrix)}
        centred = {i for i in marked if at.count(i) == 1}
        return tuple(kind(self.model.layers[f[0]].basis, i in centred) for f, i in zip(mine, at, strict=True))

    def _grouped(
        self, rest: ProductTerm, mine: list[Factor], layers: list[Layer], blocks: Blocks, joined: bool | None
    ) -> Iterator[tuple[ProductTerm, bool | None]]:
        """One partition: indices of each block identified, its cumulant put in."""
        change: dict[int, int] = {}
        touched: set[int] = set()
        extra: list[Factor] = []
        for block in blocks:
            own = _neuron(mine[block[0]], layers[block[0]])
            # the cumulant of one neuron makes the neurons of its block the same; their sums may then be done, and those
            # over tokens too where an operand is the same for all of them, as a mean over tokens is
            touched.update(i for k in block for i in mine[k][1] if i >= 0)
            for i in block[1:]:
                for a, b in zip(own, _neuron(mine[i], layers[i]), strict=True):
                    extra += identify(change, a, b)
            if joined is False:
                joined = len({mine[i][2] for i in block}) > 1
        change = {i: end(change, i) for i in change}
        touched = {change.get(i, i) for i in touched}
        beyond = _next(touched)
        factors = renamed((*rest.factors, *extra), change)
        values = [self._block_value([mine[i] for i in block], [layers[i] for i in block], change) for block in blocks]
        terms = [rest._replace(factors=factors)]
        for k, cumulants in enumerate(values):
            # what is too small with the largest of what is still to come is left out before it is multiplied
            most = self.most - sum(min((v.pert for v, _, _ in later), default=0) for later in values[k + 1 :])
            terms = [
                self._multiplied(term, value, open_to, copy, beyond)
                for term, (value, open_to, copy) in itertools.product(terms, cumulants)
                if term.pert + value.pert <= most
            ]
        for term in terms:
            for index in sorted(i for i in touched if i >= 0):
                powers, closed = self.closed(term.factors, term.powers, index)
                term = term._replace(powers=powers, factors=closed)
            yield term, joined

    def _multiplied(
        self, term: ProductTerm, value: ProductTerm, open_to: dict[int, int], copy: int, beyond: int
    ) -> ProductTerm:
        # numbers above all that stand: a clash would make two sums one, and a wrong formula
        above = max(beyond, next_number(term.factors), _next(open_to.values()))
        return product(term, value._replace(factors=placed(value.factors, open_to, above, copy)))

    def _block_value(
        self, block: list[Factor], layers: list[Layer], change: dict[int, int]
    ) -> list[tuple[ProductTerm, dict[int, int], int]]:
        """The cumulant of one block: templates, where their open indices go, and the copy they belong to."""
        tokens = [i for f, layer in zip(block, layers, strict=True) for i in f[1][layer.families : -1]]
        open_to = {OPEN - place: change.get(i, i) for place, i in enumerate(tokens)}
        if len(block) == 2 and all(layer.basis == LINEAR for layer in layers):
            first, second = layers
            # Cov of two rows of W u, W v: (1/columns) Σ u v, one Gram matrix for each pairing
            gram = self._gram(first, second, len(block[0][1]) - first.families - 1)
            return [(term, open_to, block[0][2]) for term in gram]
        if any(layer.operand is not None for layer in layers):
            name = self.model.names[layers[0].matrix]
            raise NoFormulasError(
                f"`{name}` multiplies the state under an activation, and another vector beside it; tied weights of "
                "this kind are not covered: use a matrix of its own for each product."
            )
        # a cumulant under its own name: written out at the end, when equal ones have merged
        factor = (column_label(tuple(layer.basis for layer in layers)), tuple(open_to), block[0][2])
        return [(ProductTerm(self.one, self.model.zero_powers, 0, (factor,)), open_to, block[0][2])]

    def _gram(self, a: Layer, b: Layer, axes: int) -> tuple[ProductTerm, ...]:
        """(1/columns) Σ_l u_l v_l of two operands, at open indices: those of the first, then those of the second."""
        if a.operand is None and b.operand is None:
            return (ProductTerm(self.one, self.model.zero_powers, 0, (("V", (OPEN, OPEN - 1), 0),)),)
        key = (a.operand, b.operand, a.columns)
        if key not in self._grams:
            summed = a.columns * SPAN
            left = self._operand(a.operand, summed, {OPEN - 1 - i: OPEN - i for i in range(axes)})
            right = self._operand(b.operand, summed, {OPEN - 1 - i: OPEN - axes - i for i in range(_MOST_AXES)})
            found: Sum = {}
            for x in left:
                for y in right:
                    if x.pert + y.pert > self.most:
                        continue
                    term = product(x, shifted(y, next_number(x.factors), 0, keep=summed))
                    term = term._replace(powers=times(term.powers, a.columns, -2))
                    # sums within an operand too: avg(x*x) beside a dense layer is of the state alone
                    self._add(found, self._settled(term, {summed, *indices(term.factors)}), None)
            self._grams[key] = tuple(ProductTerm(c, p, pert, f) for (f, p, pert, _), c in found.items())
        return self._grams[key]

    def _operand(self, position: int | None, neuron: int, axes: dict[int, int]) -> list[ProductTerm]:
        """An operand with its neuron at a summed index of number 0."""
        if position is None:
            state = ("X", (axes[OPEN - 1], neuron), 0)
            return [ProductTerm(self.one, self.model.zero_powers, 0, (state,))]
        change = {OPEN: neuron, **axes}
        return [t._replace(factors=placed(t.factors, change, 1, 0)) for t in self.model.operands[position].terms]

    def closed(self, factors: Factors, powers: tuple[int, ...], index: int) -> tuple[tuple[int, ...], Factors]:
        """The sum over an index done, where only the state or nothing is left of it."""
        holding = [f for f in factors if index in f[1]]
        dimension = index // SPAN
        if not holding:
            return times(powers, dimension, 2), factors
        if not self.model.dimensions[dimension].width:
            return powers, factors
        # functions of one neuron, whose mean over neurons is that of one (`neurons`)
        if all(f[0][0] == "Y" for f in holding):
            rest = tuple((label, tuple(i for i in at if i != index), copy) for label, at, copy in factors)
            return times(powers, dimension, 2), rest
        # a sum over neurons closes to V where the state alone is left: Σ X X is n V
        if any(f[0] != "X" for f in holding):
            return powers, factors
        tokens = tuple(f[1][0] for f in holding)
        label = "V" if len(holding) == 2 else f"Q|{len(holding)}"
        # a V between the two copies belongs to neither, and joins nothing: it is a number
        copies = {f[2] for f in holding}
        rest = tuple(f for f in factors if index not in f[1])
        return times(powers, dimension, 2), (*rest, (label, tokens, copies.pop() if len(copies) == 1 else 0))


def shifted(term: ProductTerm, by: int, copy: int, keep: int | None = None) -> ProductTerm:
    """A term with its summed indices (but `keep`) moved up by a number, as part of a copy."""
    factors = tuple(
        (label, tuple(i + by if i >= 0 and i != keep else i for i in at), copy) for label, at, _ in term.factors
    )
    return term._replace(factors=factors)


def _without(factors: Factors, mine: list[Factor]) -> Factors:
    left = list(factors)
    for f in mine:
        left.remove(f)
    return tuple(left)


def _neuron(factor: Factor, layer: Layer) -> tuple[int, ...]:
    """The indices of a dense layer that belong to its matrix: those of the family, and the row."""
    return (*factor[1][: layer.families], factor[1][-1])


def _next(indices_: Iterable[int]) -> int:
    """A number above those of some summed indices."""
    return 1 + max((i % SPAN for i in indices_ if i >= 0), default=-1)
