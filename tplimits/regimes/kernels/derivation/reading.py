"""A body of a network with the limits of what it reads: the kernel engine's side of `hypotheses.reader.Reader`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr, S

from tplimits.law.hypotheses.bounds import bounds, bounds_through
from tplimits.law.hypotheses.displaced import vanishing_inside
from tplimits.law.hypotheses.zero import LONG, has_flat, may_cancel
from tplimits.program.nodes.entries import AxisSum, Entry, N, axis_symbol, entries
from tplimits.program.nodes.kinds import as_written
from tplimits.program.nodes.scale import at_infinity
from tplimits.program.parts import longer
from tplimits.regimes.kernels.derivation.leaves import Data, DrawMean, Given, Moment, Of, TableEntry
from tplimits.regimes.kernels.derivation.nodes import overlap
from tplimits.regimes.kernels.derivation.scales import written
from tplimits.regimes.kernels.derivation.terms import at

if TYPE_CHECKING:
    from tplimits.law.hypotheses.reader import Value
    from tplimits.regimes.kernels.derivation.recursion import Recursion

#: what has a value only once there is data
_LATER = (TableEntry, Data, Moment, DrawMean)


@dataclass(frozen=True)
class BodyReader:
    """Parts of bodies, in entries of instructions.

    `of_gradient` for the backward pass: where a row of zeros makes exact zeros, derivatives are what they are there at
    every width.
    """

    state: Recursion
    of_gradient: bool = False

    @property
    def around(self) -> None:
        """Averages of what is bent by several neurons are refused."""
        return None

    def tolerance(self, expr: Expr) -> float:
        """1e-12 where rounded numbers take part; the rounding of inputs is in the intervals."""
        return self.state.judged.rounded.tolerance(expr)

    def limit(self, expr: Expr) -> Expr:
        """The part in leaves, at n = ∞, where kets that are zero are seen to be."""
        found = self._without_zeros(self.state.substituted(expr))
        try:
            return self.state.at_infinity(found) if found.has(N) else found
        except ValueError:  # it grows with n: that is refused elsewhere
            return found

    def moves(self, expr: Expr) -> bool:
        """Whether it reads what depends on the width or is drawn, and is not 0 at every width."""
        exact = {e: self.limit(e) for e in entries(expr) if e.source in self.state.judged.exact}
        left = entries(expr.xreplace({e: value for e, value in exact.items() if value == 0}))
        return any(e not in exact for e in left)

    def settled(self, expr: Expr) -> bool:
        """Not where data decides; but a Gaussian leaf of its own cannot be cancelled."""
        limit = self.limit(expr)
        if self._has_free_part(limit) or self._is_certain(limit):
            return True
        if not self._is_visible(limit) or self._is_random_switch(limit):
            return False
        flat = has_flat(self._written_out(limit))
        return not (flat and vanishing_inside(expr, lambda e: self.limit(e) == 0, self.within))

    def values(self, expr: Expr) -> Sequence[Value]:
        """By the numerical stage, at the data it has."""
        found = self.state.judged.numbers(self, expr)
        return [v for v in found if not v.is_nothing] if self.of_gradient else found

    def within(self, expr: Expr) -> Expr:
        """Through the maps that it reads; Gaussian ones are drawn as they are."""
        scalars, nodes = self.state.scalars, self.state.nodes
        kept = {e for e in entries(expr) if e.source in scalars or nodes[e.source].gaussian}
        return self.state.judged.around.opened(expr, kept)

    def bounds(self, expr: Expr) -> tuple[Expr, Expr]:
        """By interval arithmetic, with what is negative at no width, and through the maps that it reads; sums over axes
        keep the sign of their terms.
        """
        return bounds_through(expr, self.own_bounds, self.state.judged.around.opened)

    def own_bounds(self, expr: Expr) -> tuple[Expr, Expr]:
        """Bounds of a part of a body, of what it reads the signs alone."""
        return bounds(self._signed(expr, {}))

    def written(self, expr: Expr) -> str:
        """The limit, brackets by the vectors that they are of."""
        return written(self.state, self.limit(expr))

    def shown(self, expr: Expr) -> str:
        """With the names of the program."""
        return as_written(self.state.program.__getitem__, expr)

    def _is_zero(self, leaf: Of) -> bool:
        """Kept node by node: a stream with two branches a layer is reached on 4^layers ways."""
        node, known = self.state.nodes[leaf.node], self.state.judged.zero
        if leaf.node not in known:
            # an image of zero is zero
            made_of = node.body if node.body is not None else node.operand if node.view is not None else None
            known[leaf.node] = made_of is not None and (self._without_zeros(made_of) == 0 or self._cancels(made_of))
        return known[leaf.node]

    def _cancels(self, expr: Expr) -> bool:
        """Whether a sum of leaves is 0 by what they are made of: c s − k with s → 3 and k = 3 c."""
        return bool(expr.is_Add and sympy.expand(self._written_out(expr)) == 0)

    def _without_zeros(self, expr: Expr) -> Expr:
        return expr.xreplace({x: S.Zero for x in self.state.leaves(expr) if self._is_zero(x)})

    def _has_free_part(self, limit: Expr) -> bool:
        """Whether a Gaussian leaf that does not vanish shares no source with what is added to it; of all factors."""
        nodes = self.state.nodes
        for term in sympy.Add.make_args(limit):
            leaf = next((f for f in sympy.Mul.make_args(term) if isinstance(f, Of)), None)
            # a Gaussian with a density, independent of what is added: the sum is 0 with probability 0, whatever that is
            if leaf is not None and self._is_certain(term / leaf) and self._is_regular(leaf.node):
                others = frozenset().union(*(nodes[x.node].sources for x in self.state.leaves(limit - term)))
                if not overlap(nodes[leaf.node].sources, others):
                    return True
        return limit.is_Mul and all(self._is_certain(f) or self._has_free_part(f) for f in limit.args)

    def _is_regular(self, number: int) -> bool:
        """Whether a node is Gaussian with a variance that no cancellation makes vanish, or has a part that is."""
        node, known = self.state.nodes[number], self.state.judged.regular
        if number not in known:
            made_of = node.body if node.body is not None else node.operand
            visible = self._is_visible if node.gaussian else self._has_free_part
            known[number] = visible(made_of) if made_of is not None else node.gaussian
        return known[number]

    def _is_visible(self, expr: Expr) -> bool:
        """Whether an expression in leaves is not zero, as far as algebra tells: no mean takes part, or a free part."""
        if self._without_zeros(expr) == 0:  # what a logit of variance 0 is the mean of
            return False
        parts = (expr, self._written_out(expr))
        if self._may_coincide(expr) or may_cancel(parts[1]):
            return self._has_free_part(expr)
        # s·y with s → 1 is a node of its own, and y
        if sympy.expand(parts[1]) == 0:
            return False
        leaves = self.state.leaves(expr)
        if any(self._may_be_scaled_away(x) for x in self.state.leaves(parts[1])):
            return self._has_free_part(expr)
        if not any(later(p) or self._may_be_none(p) for p in parts) and all(
            self._is_regular(x.node) or not self.state.nodes[x.node].gaussian for x in leaves
        ):
            return True
        return self._has_free_part(expr)

    def _may_be_scaled_away(self, expr: Expr) -> bool:
        """Whether each term, of a leaf that is not written out as well, has a factor that data may make 0."""
        if isinstance(expr, Of):
            node = self.state.nodes[expr.node]
            return node.body is not None and not node.gaussian and self._may_be_scaled_away(node.body)
        if isinstance(expr, AxisSum):
            return self._may_be_scaled_away(expr.summand)
        if expr.is_Add or expr.is_Mul:
            if not self.state.leaves(expr):
                return not self._is_certain(expr)
            return (all if expr.is_Add else any)(map(self._may_be_scaled_away, expr.args))
        return isinstance(expr, TableEntry) and not self._is_certain(expr)

    def _may_coincide(self, expr: Expr) -> bool:
        """Whether it reads images of one matrix that may depend on each other linearly, as W(x/|x|) and W x do."""
        # an image with a dot part is a body of both
        read = {leaf.node for leaf in self.state.leaves(expr) | self.state.leaves(self._written_out(expr))}
        images = [self.state.nodes[number] for number in sorted(read) if self.state.nodes[number].view]
        families = ([b for b in images[k:] if overlap(a.sources, b.sources)] for k, a in enumerate(images))
        return any(len(family) > 1 and self._may_depend([b.operand for b in family]) for family in families)

    def _may_depend(self, vectors: Sequence[Any]) -> bool:
        """Whether vectors are linearly dependent, or data decides; functions of different kinds are not."""
        opened = [sympy.expand(self._written_out(v)) for v in vectors]
        if any(map(later, opened)):
            return True
        terms = [{rest: c for c, rest in (t.as_coeff_Mul() for t in sympy.Add.make_args(v))} for v in opened]
        products = sorted(frozenset().union(*terms), key=sympy.default_sort_key)
        return bool(sympy.Matrix([[row.get(p, S.Zero) for p in products] for row in terms]).rank() < len(terms))

    def _written_out(self, expr: Expr) -> Expr:
        """With the bodies of its leaves, and of what these read; sums over axes and long bodies stay leaves."""
        bodies = ((x, self._body(x.node)) for x in self.state.leaves(expr))
        return expr.xreplace(
            {x: self.state.placed(body, self.state.nodes[x.node].axes, x) for x, body in bodies if body is not None}
        )

    def _body(self, number: int) -> Expr | None:
        """The body of a node written out; kept, and found without recursion: streams are long."""
        known, waiting = self.state.judged.bodies, [number]
        while waiting:
            body = self.state.nodes[waiting[-1]].body
            if body is not None and not body.has(AxisSum):
                if below := [x.node for x in self.state.leaves(body) if x.node not in known]:
                    waiting += below
                    continue
                body = self._written_out(body)
            known[waiting.pop()] = None if body is None or body.has(AxisSum) or longer(body, LONG) else body
        return known[number]

    def _is_certain(self, coefficient: Expr) -> bool:
        """Whether a factor is not zero: numbers, data, variances, reciprocals, exponentials and sums of them."""
        return coefficient != 0 and all(map(self._is_certain_factor, sympy.Mul.make_args(coefficient)))

    def _is_random_switch(self, expr: Expr) -> bool:
        """Whether it is flat on one side of a logit, as relu(S) is, S = √n·Avg: 0 with positive probability."""
        if has_flat(expr) and expr.has(Given):
            return True
        nodes = (self.state.nodes[leaf.node] for leaf in self.state.leaves(expr))
        of_logits = (n.body for n in nodes if n.body is not None and {kind for kind, *_ in n.sources} == {"√n"})
        return any(map(self._is_random_switch, of_logits))

    def _may_be_none(self, expr: Expr) -> bool:
        """Whether it reads a logit whose variance may be 0."""
        return not all(self._is_regular(int(logit.args[0])) for logit in expr.atoms(Given))

    def _is_certain_factor(self, factor: Expr) -> bool:
        if isinstance(factor, AxisSum):
            return bounds(factor.summand)[0] >= 0 and self._is_certain(factor.summand)
        if isinstance(factor, sympy.exp) or (isinstance(factor, sympy.Pow) and factor.exp.is_negative):
            return True
        read = later(factor) or factor.atoms(Of) or self._may_be_none(factor) or self._is_random_switch(factor)
        return not read or self._is_variance(factor)

    def _is_variance(self, entry: Expr) -> bool:
        """Whether an entry of a table is E x² of a node that does not vanish: Gaussian, or with a part of its own."""
        if not isinstance(entry, TableEntry):
            return False
        table = self.state.tables[entry.table]
        half = len(entry.indices) // 2
        same = table.single or (entry.sides[0] == entry.sides[1] and entry.indices[:half] == entry.indices[half:])
        if table.single and self._is_certain(table.definition):
            return True
        if not same or len(set(table.nodes)) != 1:
            return False
        (number,) = set(table.nodes)
        if not table.single:
            return self._is_regular(number)
        body = self.state.nodes[number].body
        # the mean of an even power vanishes only where its base does
        return body is not None and body.is_Pow and body.exp.is_even and self._has_free_part(body.base)

    def _signed(self, expr: Expr, known: dict[Expr, Expr]) -> Expr:
        """With one symbol for each entry and each sum over an axis, `known` where it stands twice."""
        if not isinstance(expr, (Entry, AxisSum)):
            return expr.func(*(self._signed(a, known) for a in expr.args)) if expr.args else expr
        if expr not in known:
            if isinstance(expr, Entry):
                sign = True if self.state.judged.is_nonnegative(expr.source) else None
            else:
                sign = True if self.own_bounds(expr.summand)[0] >= 0 else None
            known[expr] = sympy.Dummy(real=True, nonnegative=sign)
        return known[expr]


def held(state: Recursion, entry: Entry) -> Expr:
    """The limit of a scalar at its place."""
    value = state.scalars[entry.source]
    axes = state.program[entry.source].axes
    placed = at(value, dict(zip(map(axis_symbol, axes), entry.indices, strict=True)))
    return at_infinity(placed) if placed.has(N) else placed


def later(expr: Expr) -> set[Expr]:
    """Means in an expression that data decides; not data itself, which is what it is at every width."""
    return {x for x in expr.atoms(*_LATER) if not isinstance(x, Data)}
