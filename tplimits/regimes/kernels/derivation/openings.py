"""Nodes written through the nodes they are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, S

from tplimits.errors import NoLimitError
from tplimits.program.nodes.bound_axes import canonical_bound_axes
from tplimits.program.nodes.entries import AxisSum, Kron, Lookup, axis_symbol
from tplimits.program.nodes.kinds import InitialMatrix
from tplimits.program.parts import found
from tplimits.regimes.kernels.derivation.leaves import Data, Of, TableEntry, on_second, second
from tplimits.regimes.kernels.derivation.terms import Term, at, leaves, products, summed, terms

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.kernels.derivation.nodes import Node


class Openings(ABC):
    """The nodes of a kernel derivation, and how a leaf reads as an expression in others."""

    nodes: list[Node]
    program: Program

    @abstractmethod
    def form(self, expr: Expr, side: int, gaussian: bool = True) -> Of:
        """A Gaussian linear form, or a function, as an entry of a node of its own."""

    def refuse_known_by_means(self, factors: Iterable[Expr]) -> None:
        """NoLimitError where more is needed of a mean that logits stand inside of than its mean."""
        for node in (self.nodes[leaf.node] for f in factors for leaf in self.leaves(f)):
            if node.mean is not None:
                raise NoLimitError(
                    f"`{node.name}` is a mean over neurons of a function of them and of random logits: a random "
                    "function of the logits, of which the mean alone is derived. Let it enter sums over the members "
                    "linearly and beside nothing that is made of the logits, or take these out of what is averaged."
                )

    def leaves(self, expr: Expr) -> frozenset[Of]:
        return leaves(expr)

    def opened(self, leaf: Of) -> Expr:
        """A node written through the nodes it is made of."""
        node = self.nodes[leaf.node]
        if node.body is None:
            self.refuse_known_by_means([leaf])
            heads = any(isinstance(s, InitialMatrix) and s.axes for s in self.program)
            repair = (
                'Sum over an axis of infinitely many heads first: tp.Kernels(infinite=("head",)).'
                if heads
                else "Nothing averages over them: the kernel is random, and its law is not derived. Parameters that "
                'the logits do not depend on have draws of it, as tp.Kernels(train=("v",)).sample(X).'
            )
            raise NoLimitError(
                f"`{node.name}` is Gaussian only given random logits, and a nonlinear function of it is taken before "
                f"they are averaged. {repair}"
            )
        return self.placed(node.body, node.axes, leaf)

    def placed(self, expr: Expr, axes: tuple[str, ...], leaf: Of) -> Expr:
        """An expression of input 1 in its axes, at the side and the indices of a leaf."""
        from_axes = [axis_symbol(a) for a in axes]
        if leaf.side == 2:
            expr = on_second(expr)
            from_axes = [second(a) for a in from_axes]
        return self.where_present(at(expr, dict(zip(from_axes, leaf.indices, strict=True))), leaf.indices)

    def present(self, index: Expr) -> Expr:
        """1 where an index says that there is an entry, 0 elsewhere: a table may say −1."""
        complete = all(self.program.tables[i.table].smallest >= 0 for i in found(index, Lookup))
        return S.One if complete else Kron(index, index)

    def settled(self, expr: Expr) -> Expr:
        """An expression without comparisons of an index with itself, where there always is an entry, or with others."""
        compared = {k: self._compared(*k.args) for k in found(expr, Kron)}
        return expr.xreplace({k: value for k, value in compared.items() if value is not None})

    def _compared(self, i: Expr, j: Expr) -> Expr | None:
        """Kron(i, j) where it is known for all values of the running indices, else None."""
        if i == j:
            return self.present(i)
        one, other = map(self._values, (i, j))
        return None if one is None or other is None or one & other else S.Zero

    def _values(self, index: Expr) -> frozenset[int] | None:
        """All that an index may be, where numbers or a table say so."""
        if isinstance(index, Lookup):
            return frozenset(map(int, self.program.tables[index.table].values.ravel()))
        return frozenset({int(index)}) if index.is_Integer else None

    def where_present(self, expr: Expr, indices: Iterable[Expr]) -> Expr:
        """An expression times what makes it zero where an index says that there is no entry, unless it is by itself."""
        for index in indices:
            present = self.present(index)
            read = (leaf for leaf in expr.atoms(Of, Data, TableEntry, Kron) if leaf.has(index))
            # what reads the entry is 0 there by itself; a constant beside it is not
            if present != 1 and expr.xreplace(dict.fromkeys(read, S.Zero)) != 0:
                expr = present * expr
        return expr

    def alone(self, form: Of) -> Of:
        """The one node a scaled form is made of."""
        body = self.opened(form)
        if body.has(AxisSum):  # which may hold the leaf at several running indices
            return form
        (leaf,) = self.leaves(body)
        return leaf

    def unit(self, form: Of) -> tuple[Expr, Expr]:
        """A Gaussian form as a deterministic coefficient times a sum over nodes that are made of no others."""
        written: dict[Expr, Expr] = {}
        stack = [Term(S.One, (), (form,))]
        while stack:
            term = stack.pop()
            (leaf,) = term.factors
            node = self.nodes[leaf.node]
            if node.body is None or not node.gaussian:
                whole = canonical_bound_axes(summed(term.coefficient * leaf, term.bounds))
                number, rest = whole.as_independent(Of, AxisSum, as_Add=False)
                written[rest] = written.get(rest, S.Zero) + number
            else:
                stack += products([[Term(term.coefficient, term.bounds, ())], terms(self.opened(leaf), powers=False)])
        ordered = sorted(written.items(), key=lambda item: sympy.default_sort_key(item[0]))
        # any one coefficient serves: multiples of one another have the same unit
        scale = ordered[0][1] if ordered else S.One
        return scale, sympy.Add(*(number / scale * rest for rest, number in ordered))
