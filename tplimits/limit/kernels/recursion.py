"""The tables of a network and its tangents: walk the instructions, name what every mean needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sympy
from sympy import Expr, Integer, S

from tplimits.errors import NoLimitError
from tplimits.limit.kernels.dots import dot_part
from tplimits.limit.kernels.expectations import Expectations
from tplimits.limit.kernels.infinite import different
from tplimits.limit.kernels.leaves import (
    Data,
    Given,
    Kron,
    Of,
    TableEntry,
    free_indices,
    on_first,
    on_second,
    plain_axis,
    second,
)
from tplimits.limit.kernels.nodes import Node, Source, Table, View
from tplimits.limit.kernels.safety import refuse_unsafe
from tplimits.limit.kernels.terms import Term, at, is_random, products, settled, terms
from tplimits.limit.state import in_widths_of_n, width_ratio
from tplimits.program.entries import (
    OWN,
    N,
    axis_symbol,
    canonical_bound_axes,
    constant_symbol,
    entries,
    width_symbol,
)
from tplimits.program.nodes import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    Instruction,
    MatMul,
    OuterNonlin,
    ScalarNonlin,
)
from tplimits.program.program import Program
from tplimits.program.scale import at_infinity
from tplimits.program.tangent import Tangent

ONE_SIDE, OTHER_SIDE = Integer(1), Integer(2)


class Recursion(Expectations):
    """The growing tables of one kernel derivation."""

    def __init__(self, network: Program, tangent: Tangent, infinite: Iterable[str] = ()) -> None:
        self.network, self.tangent, self.program = network, tangent, tangent.program
        self.infinite = frozenset(infinite)
        self.nodes: list[Node] = [self._placeholder(s) for s in self.program]
        self.scalars: dict[int, Expr] = {}  # deterministic scalars, with what fluctuates at lower orders of n
        self.means: dict[int, Expr] = {}
        self.tables: list[Table] = []
        self.data = dict.fromkeys(network.inputs, Data)
        self._inner: dict[tuple[int, int], Expr] = {}
        self._known: dict[tuple, int] = {}
        self._forms: dict[tuple, int] = {}
        self._scaled = any(s.body.has(N) for s in self.program if isinstance(s, (OuterNonlin, ScalarNonlin))) or any(
            s.body.has(*map(width_symbol, self.program.widths))
            for s in self.program
            if isinstance(s, (OuterNonlin, ScalarNonlin))
        )
        for position, instruction in enumerate(self.program):
            self._walk(position, instruction)

    def _placeholder(self, s: Instruction) -> Node:
        return Node(s.name, s.axes, 0, frozenset())

    def _degree(self, position: int) -> int:
        return int(position >= self.tangent.size)

    # -- instructions -------------------------------------------------------------------------

    def _walk(self, position: int, s: Instruction) -> None:
        if isinstance(s, InitialVector):
            self._initial_vector(position, s)
        elif isinstance(s, InitialScalar):
            self._initial_scalar(position, s)
        elif isinstance(s, MatMul):
            self._matmul(position, s)
        elif isinstance(s, Avg):
            self._average(position, s)
        elif isinstance(s, ScalarNonlin):
            body = self._limit(position, self.translated(s.body), keep=True)
            if is_random(at_infinity_or_itself(body)):
                self._body(position, s, at_infinity(body))
            else:
                self.scalars[position] = body
        elif isinstance(s, OuterNonlin):
            self._body(position, s, self._limit(position, self.translated(s.body, s)))
        else:
            assert isinstance(s, InitialMatrix)

    def _initial_vector(self, position: int, s: InitialVector) -> None:
        source: frozenset[Source] = frozenset({("vector", position, None)}) if s.law.std != 0 else frozenset()
        mean, std = s.law.mean, s.law.std
        if std == 0:
            self.nodes[position] = Node(s.name, s.axes, 0, source, body=mean, gaussian=False, over=s.over)
        elif mean == 0 and std == 1:
            self.nodes[position] = Node(s.name, s.axes, self._degree(position), source, over=s.over, initial=True)
        else:
            white = self._new(Node(s.name, s.axes, 0, source, over=s.over, initial=True))
            self._define(position, s, mean + std * Of(Integer(white), ONE_SIDE, *map(axis_symbol, s.axes)))

    def _initial_scalar(self, position: int, s: InitialScalar) -> None:
        if position in self.network.inputs:
            self.scalars[position] = Data(Integer(position), ONE_SIDE, *map(axis_symbol, s.axes))
        elif s.value is not None:
            self.scalars[position] = s.value
        else:
            self.scalars[position] = constant_symbol(s.name)

    def _average(self, position: int, s: Avg) -> None:
        assert s.operand is not None
        operand = self.translated(s.operand, s)
        fluctuates = [leaf for leaf in self.leaves(operand) if self._given_random(leaf)]
        mean = S.Zero if self._degree(position) else self.mean_given(operand)
        value = mean if fluctuates else self._named(mean, s.axes, position, "average")
        if not self._scaled:
            self.scalars[position] = value
            return
        self.nodes[position] = Node(
            s.name, s.axes, self._degree(position), frozenset({("√n", 0, None)}), operand=operand, over=s.over
        )
        root = sympy.sqrt(width_ratio(s.over) * N)
        logit = Of if self._degree(position) or any(a in self.infinite for a in s.axes) else Given
        self.scalars[position] = value + logit(Integer(position), ONE_SIDE, *map(axis_symbol, s.axes)) / root

    def _given_random(self, leaf: Of) -> bool:
        return any(kind == "√n" for kind, *_ in self.nodes[leaf.node].sources)

    def mean_given(self, operand: Expr) -> Expr:
        """E over the neurons, with random logits held fixed; they may only multiply."""
        parts = []
        for term in terms(self._logits_outside(operand)):
            fixed = [f for f in term.factors if all(map(self._only_logits, self.leaves(f)))]
            moving = tuple(f for f in term.factors if f not in fixed)
            parts += [Term(term.coefficient * sympy.Mul(*fixed), term.bounds, moving)] if moving else [term]
        found = S.Zero
        for t in parts:
            found += self.mean_of_terms([t])
        return found

    def _only_logits(self, leaf: Of) -> bool:
        sources = self.nodes[leaf.node].sources
        return bool(sources) and all(kind == "√n" for kind, *_ in sources)

    def _logits_outside(self, expr: Expr) -> Expr:
        """Kets whose law depends on logits written out until the logits stand apart."""
        for leaf in self.leaves(expr):
            node = self.nodes[leaf.node]
            if self._given_random(leaf) and not self._only_logits(leaf) and node.body is not None:
                expr = expr.xreplace({leaf: self._logits_outside(self.opened(leaf))})
        return expr

    def _body(self, position: int, s: Instruction, body: Expr) -> None:
        self._define(position, s, body)

    def _define(self, position: int, s: Instruction, body: Expr) -> None:
        found = terms(body)
        factors = [f for t in found for f in t.factors]
        leaves = self.leaves(body)
        plain = all(len(t.factors) == 1 and isinstance(t.factors[0], Of) for t in found)
        gaussian = plain and all(self.nodes[f.node].gaussian or self._averaged_out(t) for t in found for f in t.factors)
        degree = max((self.degree(f) for f in factors), default=0)
        sources = frozenset().union(*(self.nodes[x.node].sources for x in leaves))
        if gaussian:
            sources = frozenset(x for x in sources if x[0] != "√n") if not self._is_scalar(s) else sources
        self.nodes[position] = Node(
            s.name,
            s.axes,
            degree,
            sources,
            body=canonical_bound_axes(body),
            gaussian=gaussian and bool(found),
            over=s.width,
        )

    def _is_scalar(self, s: Instruction) -> bool:
        return s.width is None

    def _averaged_out(self, term: Term) -> bool:
        """Whether a term is a sum over infinitely many independent centred members: Gaussian whatever they are."""
        leaf = term.factors[0]
        over = {i for i, a in term.bounds if a.name in self.infinite}
        return bool(over) and bool(over & set(leaf.indices)) and self.mean_of(leaf) == 0

    # -- images -------------------------------------------------------------------------------

    def _matmul(self, position: int, s: MatMul) -> None:
        assert s.operand is not None
        view = View(s.matrix, s.matrix_indices, s.transposed)
        operand = self.translated(s.operand, s)
        degree = max(self._degree(s.matrix), self.degree(operand)) if operand != 0 else 0
        random = any(map(self._given_random, self.leaves(operand)))
        sources = frozenset({view.source}) | (frozenset({("√n", 0, None)}) if random else frozenset())
        hat = Node(s.name, s.axes, degree, sources, gaussian=not random, view=view, operand=operand, over=s.over)
        dot = dot_part(self, view, operand, s.axes)
        if dot == 0:
            self.nodes[position] = hat
            return
        number = self._new(hat)
        self._define(position, s, Of(Integer(number), ONE_SIDE, *map(axis_symbol, s.axes)) + self.factor_of(view) * dot)

    def factor_of(self, view: View) -> Expr:
        """κ: 1 for W, rows/columns for Wᵀ."""
        matrix = self.program[view.matrix]
        assert isinstance(matrix, InitialMatrix)
        return width_ratio(matrix.rows) / width_ratio(matrix.columns) if view.transposed else S.One

    def _new(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    # -- bodies -------------------------------------------------------------------------------

    def translated(self, expr: Expr, s: Instruction | None = None) -> Expr:
        """A body for input 1: entries of data, of deterministic scalars, of kets."""
        expr = in_widths_of_n(expr, self.program)
        swap: dict[Expr, Expr] = {}
        boxes = set()
        for entry in entries(expr):
            source = entry.source
            axes = self.program[source].axes
            if source in self.scalars:
                swap[entry] = at(self.scalars[source], dict(zip(map(axis_symbol, axes), entry.indices, strict=True)))
            elif self.program[source].width is None or entry.neuron == OWN:
                swap[entry] = Of(Integer(source), ONE_SIDE, *entry.indices)
            else:
                side = Integer(10 + int(entry.neuron.name[1:]))
                boxes.add(side)
                swap[entry] = Of(Integer(source), side, *entry.indices)
        found = settled(expr.xreplace(swap))
        return self._boxed(found, s) if boxes else found

    def _boxed(self, expr: Expr, s: Instruction | None) -> Expr:
        """E over the boxes of an outer nonlinearity, which must stand apart from the rest of the body."""
        parts = []
        for term in terms(expr):
            value = term.coefficient
            sides = [{int(leaf.side) for leaf in self.leaves(f)} for f in term.factors]
            if any(len(found) > 1 for found in sides):
                where = f"`{s.name}` ({s.line})" if s is not None else "an outer nonlinearity"
                raise NoLimitError(
                    f"{where}: kernels of a function that mixes two neurons inseparably are not offered; write it as a sum "
                    "of products of functions of one neuron each."
                )
            for side in sorted({s for found in sides for s in found} - {1}):
                mine = [f for f, found in zip(term.factors, sides, strict=True) if found == {side}]
                value *= self.expect([_at_side(f, ONE_SIDE) for f in mine])
            own = [f for f, found in zip(term.factors, sides, strict=True) if found == {1}]
            part = value * sympy.Mul(*own)
            for index, axis in reversed(term.bounds):
                part = sympy.Function("AxisSum")(part, index, axis)
            parts.append(part)
        return sympy.Add(*parts)

    def _limit(self, position: int, body: Expr, keep: bool = False) -> Expr:
        """The body at n = ∞; fluctuations that stay have to be of the class whose covariance is known."""
        if not body.has(N):
            return body
        try:
            limit = at_infinity(body)
        except ValueError as error:
            raise NoLimitError(
                f"{self.program.where(position)}: diverges with the width, by the term {self._shown(str(error))}: an average "
                "times a power of n has a limit only where its mean vanishes and the power is ½. "
                "With 1/√n logits take independent matrices for queries and keys; with one matrix for both divide by n."
            ) from None
        for number in {leaf.node for leaf in self.leaves(limit)} | {leaf.source for leaf in limit.atoms(Given)}:
            if self.nodes[number].is_fluctuation:
                refuse_unsafe(self, number, position)
        return body if keep else limit

    def _shown(self, text: str) -> str:
        return text if len(text) < 200 else text[:200] + "…"

    def form(self, expr: Expr, side: int) -> Of:
        """A Gaussian linear form as an entry of a node of its own; equal forms share it, on either side."""
        first = canonical_bound_axes(on_first(expr) if side == 2 else expr)
        mine = sorted(free_indices(first), key=lambda s: s.name)
        theirs = [second(i) if side == 2 else i for i in mine]
        names: list[str] = []
        for index in mine:
            name = plain_axis(index.name)
            while name in names:
                name += "′"
            names.append(name)
        body = first.xreplace({i: axis_symbol(a) for i, a in zip(mine, names, strict=True)})
        key = (body, tuple(names))
        if key not in self._forms:
            leaves = self.leaves(body)
            sources = frozenset().union(*(self.nodes[x.node].sources for x in leaves))
            over = next((self.nodes[x.node].over for x in leaves), None)
            degree = max(self.nodes[x.node].degree for x in leaves)
            name = self._form_name(leaves)
            self._forms[key] = self._new(Node(name, tuple(names), degree, sources, body=body, over=over))
        return Of(Integer(self._forms[key]), Integer(side), *theirs)

    def _form_name(self, leaves: set[Of]) -> str:
        return "+".join(sorted({self.nodes[x.node].name for x in leaves})[:3])

    # -- tables -------------------------------------------------------------------------------

    def mean_of(self, leaf: Of) -> Expr:
        node = self.nodes[leaf.node]
        if node.gaussian or node.degree or node.body is None:
            return S.Zero
        if leaf.node not in self.means:
            value = self.mean_of_terms(terms(node.body))
            self.means[leaf.node] = self._named(value, node.axes, leaf.node, "mean")
        return self.placed(self.means[leaf.node], node.axes, leaf)

    def _named(self, value: Expr, axes: tuple[str, ...], node: int, rule: str) -> Expr:
        """A quantity of one input as a table, unless it is short."""
        value = canonical_bound_axes(value)
        if value.is_number or isinstance(value, TableEntry):
            return value
        return self._entry((node,), axes, (), value, rule)

    def _entry(
        self, nodes: tuple[int, ...], left: tuple[str, ...], right: tuple[str, ...], value: Expr, rule: str = "bracket"
    ) -> Expr:
        single = len(nodes) == 1
        key = (value, left, right, single)
        if key not in self._known:
            self._known[key] = len(self.tables)
            name = "|".join(self.nodes[i].name for i in nodes)
            self.tables.append(Table(len(self.tables), name, left, right, value, single, rule, nodes))
        sides = (ONE_SIDE, ONE_SIDE if single else OTHER_SIDE)
        places = (*map(axis_symbol, left), *(second(axis_symbol(a)) for a in right))
        return TableEntry(Integer(self._known[key]), *sides, *places)

    def inner(self, a: Of, b: Of) -> Expr:
        if (self.nodes[a.node].degree + self.nodes[b.node].degree) % 2:
            return S.Zero
        if (b.node, b.side) < (a.node, a.side):
            a, b = b, a
        generic = self.table(a.node, b.node)
        left, right = self.nodes[a.node].axes, self.nodes[b.node].axes
        places = {axis_symbol(x): i for x, i in zip(left, a.indices, strict=True)}
        places |= {second(axis_symbol(x)): i for x, i in zip(right, b.indices, strict=True)}
        return at(sided(generic, a.side, b.side), places)

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
        (head,) = heads
        i, j = axis_symbol(head), second(axis_symbol(head))
        same, others = self._pair(p, q, {j: i}), different(self._pair(p, q), [i, j])
        if i in free_indices(same) or {i, j} & free_indices(others):
            raise NoLimitError(f"members of the infinite axis `{head}` differ; they have to be independent and alike.")
        short = [tuple(a for a in side if a != head) for side in (left, right)]
        kept = Kron(i, j)
        return kept * self._short_or_entry(p, q, *short, same) + (1 - kept) * self._short_or_entry(p, q, *short, others)

    def _short_or_entry(self, p: int, q: int, left: tuple[str, ...], right: tuple[str, ...], value: Expr) -> Expr:
        value = canonical_bound_axes(value)
        if value.is_number or isinstance(value, (TableEntry, Kron)):
            return value
        if isinstance(value, sympy.Mul) and all(a.is_number or isinstance(a, (TableEntry, Kron)) for a in value.args):
            if sum(isinstance(a, TableEntry) for a in value.args) == 1 and len(value.args) == 2:
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
        if a.body is None and b.body is None:
            return self._primitive(p, q, same)
        if a.over != b.over and a.over and b.over:
            raise NoLimitError(f"`{a.name}` and `{b.name}` live on different widths and are multiplied.")
        if a.gaussian and b.gaussian and not _overlapping(a, b):
            return S.Zero
        mine = terms(a.body) if a.body is not None else terms(left)
        theirs = terms((on_second(b.body) if b.body is not None else right).xreplace(same))
        return self.mean_of_terms(products([mine, theirs]))

    def _primitive(self, p: int, q: int, merge: Mapping[Expr, Expr]) -> Expr:
        """Brackets of initial vectors, of hats of one matrix, of fluctuations."""
        a, b = self.nodes[p], self.nodes[q]
        if a.initial and p == q:
            return sympy.Mul(*(Kron(axis_symbol(x), second(axis_symbol(x)).xreplace(merge)) for x in a.axes))
        if a.view is not None and b.view is not None:
            assert a.operand is not None and b.operand is not None
            if (a.view.matrix, a.view.transposed) != (b.view.matrix, b.view.transposed):
                return S.Zero
            theirs = [on_second(j).xreplace(merge) for j in b.view.indices]
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


def _without_kronecker(value: Expr) -> tuple[Expr, Expr]:
    """δ factors that all terms share, and the rest."""
    addends = sympy.Add.make_args(value)
    shared = set.intersection(*({f for f in sympy.Mul.make_args(a) if isinstance(f, Kron)} for a in addends))
    apart = sympy.Mul(*shared)
    return apart, sympy.Add(*(sympy.Mul(*(f for f in sympy.Mul.make_args(a) if f not in shared)) for a in addends))


def _overlapping(a: Node, b: Node) -> bool:
    from_both = a.sources & b.sources
    return bool(from_both) or any(
        x[:2] == y[:2] and (x[2] is None or y[2] is None) for x in a.sources for y in b.sources
    )


def sided(expr: Expr, left: int, right: int) -> Expr:
    """A quantity of (ξ, ξ′) for the inputs (left, right) instead: sides of its leaves, axes of its sums."""
    if (left, right) == (1, 2):
        return expr
    swap = {}
    for entry in expr.atoms(TableEntry):
        sides = tuple(Integer({1: left, 2: right}[s]) for s in entry.sides)
        swap[entry] = TableEntry(entry.args[0], *sides, *entry.indices)
    for entry in expr.atoms(Data):
        swap[entry] = type(entry)(entry.args[0], Integer({1: left, 2: right}[entry.side]), *entry.indices)
    return expr.xreplace(swap)


def _at_side(expr: Expr, side: Integer) -> Expr:
    return expr.xreplace({leaf: Of(leaf.args[0], side, *leaf.indices) for leaf in expr.atoms(Of)})


def at_infinity_or_itself(expr: Expr) -> Expr:
    return at_infinity(expr) if expr.has(N) else expr
