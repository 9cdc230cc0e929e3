"""Tables of a kernel derivation: means of nodes, brackets of pairs of nodes, each named once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Integer, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.state import width_ratio
from tplimits.program.nodes.bound_axes import canonical_bound_axes
from tplimits.program.nodes.entries import Kron, axis_symbol, free_indices, with_axes_named
from tplimits.program.nodes.kinds import InitialMatrix
from tplimits.program.parts import found
from tplimits.regimes.kernels.derivation.expectations import Expectations
from tplimits.regimes.kernels.derivation.infinite import different
from tplimits.regimes.kernels.derivation.leaves import (
    ONE_SIDE,
    OTHER_SIDE,
    Moment,
    Of,
    TableEntry,
    Unknown,
    on_first,
    on_second,
    plain_axis,
    second,
    sided,
)
from tplimits.regimes.kernels.derivation.nodes import KernelTable, Node, View, overlap
from tplimits.regimes.kernels.derivation.terms import at, products, terms

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


class Brackets(Expectations):
    """Nodes, and the tables of their means and brackets, which grow as they are asked for."""

    def __init__(self, program: Program, infinite: frozenset[str]) -> None:
        self.program, self.infinite = program, infinite
        self.nodes = [Node(s.name, s.axes, 0, frozenset()) for s in program]
        self.means: dict[int, Expr] = {}
        self.tables: list[KernelTable] = []
        self._inner: dict[tuple[int, int], Expr] = {}
        self._known: dict[tuple, int] = {}
        self._forms: dict[tuple, int] = {}

    def new_node(self, node: Node) -> int:
        """Add a node; its number."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def form(self, expr: Expr, side: int, gaussian: bool = True) -> Of:
        """A Gaussian linear form, or a function, as an entry of a node of its own; equal ones share it, on any side."""
        # written for input 1, so that the same form of either input is one node and one table
        first = canonical_bound_axes(on_first(expr) if side == 2 else expr)
        mine = sorted(free_indices(first), key=lambda s: s.name)
        given = {on_first(i) if side == 2 else i: i for i in free_indices(expr)}
        # the indices in the order of the node's axes, as this use has them
        theirs = [given[i] for i in mine]
        names = _axes_named(mine)
        body = first.xreplace({i: axis_symbol(a) for i, a in zip(mine, names, strict=True)})
        key = (body, tuple(names))
        if key not in self._forms:
            leaves = self.leaves(body)
            sources = frozenset().union(*(self.nodes[x.node].sources for x in leaves))
            over = next((self.nodes[x.node].over for x in leaves), None)
            degree = max(self.nodes[x.node].degree for x in leaves)
            name = "+".join(sorted({self.nodes[x.node].name for x in leaves})[:3])
            self._forms[key] = self.new_node(Node(name, tuple(names), degree, sources, body, gaussian, over=over))
        return Of(Integer(self._forms[key]), Integer(side), *theirs)

    def known_by_mean(self, name: str, vector: Expr, mean: Expr) -> Of:
        """A random function of logits of which the mean alone is told, with the free indices of a vector."""
        mine = sorted(free_indices(vector), key=lambda s: s.name)
        names = _axes_named(mine)
        placed = mean.xreplace({i: axis_symbol(a) for i, a in zip(mine, names, strict=True)})
        number = self.new_node(Node(name, tuple(names), 0, frozenset({("√n", 0, None)}), gaussian=False, mean=placed))
        return Of(Integer(number), ONE_SIDE, *mine)

    def image(self, like: Node, vector: Expr) -> Of:
        """The hat of another vector under the matrix of a node, as an entry of a node of its own that equal ones share.

        Free indices are running ones, of the axes of `like` or of sums.
        """
        assert like.view is not None and like.operand is not None
        own = {i for index in like.view.indices for i in free_indices(index)}
        mine = sorted(free_indices(vector) | own, key=lambda s: s.name)
        names = _axes_named(mine)
        placed = {i: axis_symbol(a) for i, a in zip(mine, names, strict=True)}
        view = replace(like.view, indices=tuple(i.xreplace(placed) for i in like.view.indices))
        operand = canonical_bound_axes(vector.xreplace(placed))
        key = (view, operand, tuple(names))
        if key not in self._forms:
            of_matrix = like.degree - self.degree(like.operand)  # 1 for an image under the tangent of a matrix
            degree = self.degree(operand) + of_matrix
            node = Node(like.name, tuple(names), degree, frozenset({view.source}), view=view, operand=operand)
            self._forms[key] = self.new_node(replace(node, over=like.over))
        return Of(Integer(self._forms[key]), ONE_SIDE, *mine)

    def factor_of(self, view: View) -> Expr:
        """κ: 1 for W, rows/columns for Wᵀ."""
        matrix = self.program[view.matrix]
        assert isinstance(matrix, InitialMatrix)
        return width_ratio(matrix.rows) / width_ratio(matrix.columns) if view.transposed else S.One

    def mean_of(self, leaf: Of) -> Expr:
        node = self.nodes[leaf.node]
        if node.mean is not None:
            return self.placed(node.mean, node.axes, leaf)
        # centred: Gaussian, or linear in a fresh δθ
        if node.gaussian or node.degree or node.body is None:
            return S.Zero
        if leaf.node not in self.means:
            value = self.mean_of_terms(terms(node.body))
            self.means[leaf.node] = self.named(value, node.axes, leaf.node, "mean")
        return self.placed(self.means[leaf.node], node.axes, leaf)

    def named(self, value: Expr, axes: tuple[str, ...], node: int, rule: str) -> Expr:
        """A quantity of one input as a table, unless it is short."""
        value = canonical_bound_axes(value)
        if value.is_number or isinstance(value, TableEntry):
            return value
        # members of an infinite family are alike
        free = free_indices(value)
        axes = tuple(a for a in axes if a not in self.infinite or axis_symbol(a) in free)
        return self._entry((node,), axes, (), value, rule)

    def _entry(
        self, nodes: tuple[int, ...], left: tuple[str, ...], right: tuple[str, ...], value: Expr, rule: str = "bracket"
    ) -> Expr:
        single = len(nodes) == 1
        self.refuse_unknown(value)
        # before it is remembered: every later bracket would rest on it
        self.refuse_free(nodes, value, {*map(axis_symbol, left), *(second(axis_symbol(a)) for a in right)})
        # equal definitions share a table, whatever vectors they are of
        key = (value, left, right, single)
        if key not in self._known:
            self._known[key] = len(self.tables)
            name = "|".join(self.nodes[i].name for i in nodes)
            self.tables.append(KernelTable(len(self.tables), name, left, right, value, single, rule, nodes))
        sides = (ONE_SIDE, ONE_SIDE if single else OTHER_SIDE)
        places = (*map(axis_symbol, left), *(second(axis_symbol(a)) for a in right))
        return TableEntry(Integer(self._known[key]), *sides, *places)

    def refuse_free(self, nodes: tuple[int, ...], value: Expr, known: set[Symbol]) -> None:
        """A recursion with an index that no sum binds and no axis has would be a wrong formula."""
        free = free_indices(value) - known
        if free:
            names = "|".join(self.nodes[i].name for i in nodes)
            raise NoLimitError(
                f"the bracket ⟨{names}⟩ keeps the index {min(i.name for i in free)} of a sum outside that sum: "
                "programs of this shape are not offered. Give the summand a name, as in y = …; tp.sum(y, over=…)."
            )

    def bracket(self, entry: TableEntry) -> str:
        """An entry of a table as the bracket of two vectors, ⟨h|h⟩[a, b]."""
        nodes = [self.nodes[i].name for i in self.tables[entry.table].nodes]
        indices = f"[{', '.join(map(str, entry.indices))}]" if entry.indices else ""
        return f"⟨{'|'.join(nodes)}⟩{indices}"

    def shown(self, value: Expr) -> str:
        """A mean in brackets of vectors, and as E of what is averaged."""
        names = {e: self.bracket(e) for e in found(value, TableEntry)}
        names |= {x: self.nodes[x.node].name for x in self.leaves(value)}
        names |= {m: f"E[{sympy.sstr(m.integrand)}]" for m in found(value, Moment)}
        return with_axes_named(sympy.sstr(value.xreplace({e: Symbol(name) for e, name in names.items()})))

    def inner(self, a: Of, b: Of) -> Expr:
        # a tangent is linear in δθ, which is fresh and centred: brackets of it with what is no tangent vanish
        if (self.nodes[a.node].degree + self.nodes[b.node].degree) % 2:
            return S.Zero
        # ⟨a|b⟩ and ⟨b|a⟩ share a table
        if (b.node, b.side) < (a.node, a.side):
            a, b = b, a
        generic = self.table(a.node, b.node)
        left, right = self.nodes[a.node].axes, self.nodes[b.node].axes
        places = {axis_symbol(x): i for x, i in zip(left, a.indices, strict=True)}
        places |= {second(axis_symbol(x)): i for x, i in zip(right, b.indices, strict=True)}
        # a bracket that is the same at all places reads none of them, and is 0 where a table says that there is none
        value = self.where_present(at(sided(generic, a.side, b.side), places), (*a.indices, *b.indices))
        return self.settled(value)

    def table(self, p: int, q: int) -> Expr:
        """E[|p⟩(ξ) |q⟩(ξ′)] in the running indices of both: an entry of a table, or something shorter."""
        if (p, q) not in self._inner:
            self._inner[p, q] = self._tabled(p, q)
        return self._inner[p, q]

    def _tabled(self, p: int, q: int) -> Expr:
        left, right = self.nodes[p].axes, self.nodes[q].axes
        heads = [a for a in left if a in self.infinite and a in right]
        if not heads:
            return self._short_or_entry(p, q, left, right, self._pair(p, q))
        # two members of an infinite family are the same or independent and alike: one table for each case
        (head,) = heads
        i, j = axis_symbol(head), second(axis_symbol(head))
        same, others = self._pair(p, q, {j: i}), different(self._pair(p, q), [i, j])
        if i in free_indices(same) or {i, j} & free_indices(others):
            raise NoLimitError(f"members of the infinite axis `{head}` differ; they have to be independent and alike.")
        mine, theirs = (tuple(a for a in side if a != head) for side in (left, right))
        kept = Kron(i, j)
        one = self._short_or_entry(p, q, mine, theirs, same)
        return kept * one + (1 - kept) * self._short_or_entry(p, q, mine, theirs, others)

    def _short_or_entry(self, p: int, q: int, left: tuple[str, ...], right: tuple[str, ...], value: Expr) -> Expr:
        value = canonical_bound_axes(value)
        # what is not known of one member may count for nothing: refused where it is left
        if value.is_number or isinstance(value, (TableEntry, Kron)) or value.has(Unknown):
            return value
        if isinstance(value, sympy.Mul) and len(value.args) == 2 and _is_scaled_entry(value.args):
            return value
        apart, rest = _without_kronecker(value)
        free = free_indices(rest)
        left = tuple(a for a in left if axis_symbol(a) in free)
        right = tuple(a for a in right if second(axis_symbol(a)) in free)
        if rest.is_number or isinstance(rest, TableEntry):
            return apart * rest
        return apart * self._entry((p, q), left, right, rest)

    def _pair(self, p: int, q: int, same: Mapping[Expr, Expr] | None = None) -> Expr:
        """The bracket, for equal members of an infinite family if `same` says so."""
        same = same or {}
        a, b = self.nodes[p], self.nodes[q]
        left = Of(Integer(p), ONE_SIDE, *map(axis_symbol, a.axes))
        right = Of(Integer(q), OTHER_SIDE, *(second(axis_symbol(x)) for x in b.axes))
        if a.mean is not None or b.mean is not None:
            return self._known_by_means(left, right, same)
        if a.body is None and b.body is None:
            return self._primitive(p, q, same)
        if a.over != b.over and a.over and b.over:
            raise NoLimitError(f"`{a.name}` and `{b.name}` live on different widths and are multiplied.")
        # independent and centred; of functions the mean of each may remain
        if a.gaussian and b.gaussian and not overlap(a.sources, b.sources):
            return S.Zero
        mine = terms(a.body) if a.body is not None else terms(left)
        theirs = terms((on_second(b.body) if b.body is not None else right).xreplace(same))
        return self.mean_of_terms(products([mine, theirs]))

    def _known_by_means(self, left: Of, right: Of, same: Mapping[Expr, Expr]) -> Expr:
        """The product of means for different members of an infinite family; of one member it is not known."""
        axes = [axis_symbol(a) for a in self.nodes[left.node].axes if a in self.infinite]
        one = sympy.Mul(*(Kron(i, second(i).xreplace(same)) for i in axes if second(i) in right.indices))
        means = self.mean_of(left) * on_second(self.mean_of(Of(right.args[0], ONE_SIDE, *map(on_first, right.indices))))
        return one * Unknown(left.args[0], right.args[0]) + (1 - one) * means.xreplace(same)

    def _primitive(self, p: int, q: int, merge: Mapping[Expr, Expr]) -> Expr:
        """Brackets of initial vectors, of hats of one matrix, of fluctuations."""
        a, b = self.nodes[p], self.nodes[q]
        if a.initial and p == q:
            return sympy.Mul(*(Kron(axis_symbol(x), second(axis_symbol(x)).xreplace(merge)) for x in a.axes))
        if a.view is not None and b.view is not None:
            assert a.operand is not None and b.operand is not None
            # (2.18): W and Wᵀ count as different matrices
            if (a.view.matrix, a.view.transposed) != (b.view.matrix, b.view.transposed):
                return S.Zero
            theirs = [on_second(j).xreplace(merge) for j in b.view.indices]
            # different members of a family of matrices are independent
            same = sympy.Mul(*(Kron(i, j) for i, j in zip(a.view.indices, theirs, strict=True)))
            if same == 0:
                return S.Zero
            bracket = self.mean_of_terms(products([terms(a.operand), terms(on_second(b.operand).xreplace(merge))]))
            return self.factor_of(a.view) * same * bracket
        if a.is_fluctuation and b.is_fluctuation:
            assert a.operand is not None and b.operand is not None
            if a.over != b.over:
                return S.Zero
            return self.mean_of_terms(products([terms(a.operand), terms(on_second(b.operand).xreplace(merge))]))
        return S.Zero


def _axes_named(indices: Sequence[Symbol]) -> list[str]:
    """Names for the axes of running indices, each once."""
    names: list[str] = []
    for index in indices:
        name = plain_axis(index.name)
        while name in names:
            name += "′"
        names.append(name)
    return names


def _is_scaled_entry(factors: tuple[Expr, ...]) -> bool:
    """Whether factors are one entry of a table, numbers and δ."""
    tabled = sum(isinstance(f, TableEntry) for f in factors)
    return tabled == 1 and all(f.is_number or isinstance(f, (TableEntry, Kron)) for f in factors)


def _without_kronecker(value: Expr) -> tuple[Expr, Expr]:
    """δ factors that all terms share, and the rest."""
    addends = sympy.Add.make_args(value)
    shared = set.intersection(*({f for f in sympy.Mul.make_args(a) if isinstance(f, Kron)} for a in addends))
    apart = sympy.Mul(*shared)
    return apart, sympy.Add(*(sympy.Mul(*(f for f in sympy.Mul.make_args(a) if f not in shared)) for a in addends))
