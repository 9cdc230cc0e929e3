"""The nodes of a network and its tangents: walk the instructions, each a node or a deterministic scalar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Integer, S

from tplimits.errors import NoLimitError
from tplimits.law.hypotheses.sharp import refuse_sharp
from tplimits.law.hypotheses.spread import is_spread
from tplimits.law.hypotheses.zero import is_nothing_by_halves, without_rounding
from tplimits.law.rules.dots import NotAFunction
from tplimits.law.rules.magnified import brought_out, brought_up
from tplimits.law.rules.powers import KINKED, scaled_out, series_limit
from tplimits.law.rules.removable import continued, smooth
from tplimits.law.rules.small import refuse_unexpanded, smoothed_out
from tplimits.law.state import in_widths_of_n, width_ratio
from tplimits.program.nodes.bound_axes import canonical_bound_axes
from tplimits.program.nodes.entries import OWN, DataIndex, Entry, N, axis_symbol, constant_symbol, entries, width_symbol
from tplimits.program.nodes.kinds import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    Instruction,
    MatMul,
    Nonlin,
    OuterNonlin,
    ScalarNonlin,
)
from tplimits.program.nodes.laws import NORMAL
from tplimits.program.nodes.scale import at_infinity
from tplimits.program.parts import put_in
from tplimits.regimes.kernels.derivation import logits, members
from tplimits.regimes.kernels.derivation.brackets import Brackets
from tplimits.regimes.kernels.derivation.closing import with_closed_means
from tplimits.regimes.kernels.derivation.deltas import without_deltas_at_zeros
from tplimits.regimes.kernels.derivation.dots import dot_part
from tplimits.regimes.kernels.derivation.infinite import counted, members_summed, sizes
from tplimits.regimes.kernels.derivation.judging import Judgements
from tplimits.regimes.kernels.derivation.leaves import ONE_SIDE, Data, Datum, Given, NoTangentKernel, Of
from tplimits.regimes.kernels.derivation.nodes import Node, Source, View
from tplimits.regimes.kernels.derivation.reading import BodyReader
from tplimits.regimes.kernels.derivation.safety import note_exact, settle
from tplimits.regimes.kernels.derivation.scales import (
    diverging_term,
    keeps_powers,
    lower_orders,
    reads_powers,
    refuse_lower_orders,
    vanishing,
)
from tplimits.regimes.kernels.derivation.terms import at, gathered, is_random, terms

if TYPE_CHECKING:
    from tplimits.program.network.tangent import Tangent
    from tplimits.program.nodes.program import Program


class Recursion(Brackets):
    """Instructions of a network and its tangents as nodes, with the tables they need."""

    def __init__(
        self,
        network: Program,
        tangent: Tangent,
        infinite: Iterable[str] = (),
        outputs: Iterable[int] | None = None,
        assumed: Sequence[str] = (),
    ) -> None:
        """`outputs` are what is asked for: nothing else is looked at, and no hypothesis asked of it."""
        super().__init__(tangent.program, frozenset(infinite))
        self.network, self.tangent = network, tangent
        self.scalars: dict[int, Expr] = {}  # deterministic scalars, with what fluctuates at lower orders of n
        self.with_powers: dict[int, Expr] = {}  # vectors with powers of n, which a later one may bring out
        self.open: dict[int, Expr] = {}  # vectors with sums over infinite axes, which a later one may divide
        self.fluctuations: list[int] = []  # those that stay in some limit
        self._apart: dict[int, Expr | None] = {}  # images given logits, with the logits in front
        self.judged = Judgements(self, assumed=tuple(assumed))
        bodies = [s.body for s in self.program if isinstance(s, Nonlin)]
        widths = {N, *map(width_symbol, self.program.widths)}
        self._scaled, self._brought_out = any(body.has(*widths) for body in bodies), brought_out(bodies, widths)
        for position in tangent.behind(outputs):
            self.walk(position)

    @property
    def logits(self) -> list[int]:
        """The fluctuations that stay in some limit, without tangents."""
        return [p for p in self.fluctuations if not self.nodes[p].degree]

    def degree_of(self, position: int) -> int:
        """1 for a tangent."""
        return int(position >= self.tangent.size)

    def walk(self, position: int) -> None:
        """Read one instruction, whose operands have been read."""
        s = self.program[position]
        note_exact(self, position, s)
        members.refuse_lower_sizes(self, position)
        if isinstance(s, InitialVector):
            self._initial_vector(position, s)
        elif isinstance(s, InitialScalar):
            self._initial_scalar(position, s)
        elif isinstance(s, MatMul):
            self._matmul(position, s)
        elif isinstance(s, Avg):
            self._average(position, s)
        elif isinstance(s, ScalarNonlin):
            # a scalar keeps what fluctuates at lower orders: a later body may multiply it by √n
            judged = without_rounding(BodyReader(self), self._judged_body(position, s.body))
            refuse_sharp(self.program, position, judged)
            body = self.translated(judged)
            body = self._limit(position, smoothed_out(body, Of, self._brought_out), keep=True)
            # a function of logits that stay random: a node, since what reads it is conditional on them
            if is_random(at_infinity(body)):
                self._define(position, s, at_infinity(body))
            else:
                self.scalars[position] = body
        elif isinstance(s, OuterNonlin):
            judged = without_rounding(BodyReader(self), self._judged_body(position, s.body))
            refuse_sharp(self.program, position, judged)
            body = smoothed_out(members.inside_functions(self, self.translated(judged, s)), Of, self._brought_out)
            limit = without_deltas_at_zeros(self, self._limit(position, body))
            if self._brought_out and body.has(N) and keeps_powers(self, position, judged, limit):
                self.with_powers[position] = scaled_out(body)
            self.judged.vector(position, s, limit)
            self._define(position, s, limit)
        else:
            assert isinstance(s, InitialMatrix)

    def _initial_vector(self, position: int, s: InitialVector) -> None:
        source: frozenset[Source] = frozenset({("vector", position, None)}) if s.law.std != 0 else frozenset()
        if s.law.std == 0:
            self.nodes[position] = Node(s.name, s.axes, 0, source, body=s.law.mean, gaussian=False, over=s.over)
        elif s.law == NORMAL:
            self.nodes[position] = Node(s.name, s.axes, self.degree_of(position), source, over=s.over, initial=True)
        else:
            # vectors of other laws are functions of white ones, so that brackets know one kind of draw
            white = self.new_node(Node(s.name, s.axes, self.degree_of(position), source, over=s.over, initial=True))
            self._define(position, s, s.law.image(Of(Integer(white), ONE_SIDE, *map(axis_symbol, s.axes))))

    def _initial_scalar(self, position: int, s: InitialScalar) -> None:
        if position in self.network.inputs:
            self.scalars[position] = Data(Integer(position), ONE_SIDE, *map(axis_symbol, s.axes))
        elif s.value is not None:
            self.scalars[position] = s.value
        else:
            self.scalars[position] = constant_symbol(s.name)

    def _average(self, position: int, s: Avg) -> None:
        power, whole, operand = self._operand(position, s)
        fluctuates = any(logits.is_given(self, leaf) for leaf in self.leaves(operand))
        if self.degree_of(position):
            value = logits.moved_mean(self, operand) if fluctuates else S.Zero
        else:
            mean = logits.mean_given(self, operand)
            known = logits.random(self, s.name, operand, mean) if fluctuates else None
            value = self.named(mean, s.axes, position, "average") if known is None else known
            value += lower_orders(whole - operand, partial(logits.mean_given, self))
        # no power of n stands in any body: nothing can make the fluctuation of an average visible
        if not self._scaled:
            self.scalars[position] = power * value
            return
        self.nodes[position] = Node(
            s.name, s.axes, self.degree_of(position), frozenset({("√n", 0, None)}), operand=operand, over=s.over
        )
        # the average with its fluctuation of order n^(−1/2), which a later √n may bring out
        root = sympy.sqrt(width_ratio(s.over) * N)
        logit = Of if self.degree_of(position) or any(a in self.infinite for a in s.axes) else Given
        moving = logit(Integer(position), ONE_SIDE, *map(axis_symbol, s.axes)) / root
        self.scalars[position] = sympy.expand(power * (value + moving)) if power != 1 else value + moving

    def _define(self, position: int, s: Instruction, body: Expr) -> None:
        found = terms(body)
        factors = [f for t in found for f in t.factors]
        leaves = self.leaves(body)
        plain = all(len(t.factors) == 1 and isinstance(t.factors[0], Of) for t in found)
        gaussian = plain and all(
            self.nodes[f.node].gaussian or members.averaged_out(self, t) for t in found for f in t.factors
        )
        degree = max((self.degree(f) for f in factors), default=0)
        members.kept_open(self, position, body)
        sources = frozenset().union(*(self.nodes[x.node].sources for x in leaves))
        if gaussian and s.width is not None and not any(logits.is_made_of(self, x) for x in leaves):
            sources = frozenset(x for x in sources if x[0] != "√n")
        self.nodes[position] = Node(
            s.name,
            s.axes,
            degree,
            sources,
            body=canonical_bound_axes(body),
            gaussian=gaussian and bool(found),
            over=s.width,
        )

    def _matmul(self, position: int, s: MatMul) -> None:
        view = View(s.matrix, s.matrix_indices, s.transposed)
        power, _, operand = self._operand(position, s)
        degree = max(self.degree_of(s.matrix), self.degree(operand)) if operand != 0 else 0
        # Gaussian given the logits alone: its variance depends on them
        random = any(logits.is_given(self, x) for x in self.leaves(operand))
        sources = frozenset({view.source}) | (frozenset({("√n", 0, None)}) if random else frozenset())
        hat = Node(s.name, s.axes, degree, sources, gaussian=not random, view=view, operand=operand, over=s.over)
        dot = self.dot(position, view, operand)
        members.image_kept_open(self, position, hat, operand)
        if dot == 0 and power == 1:
            self.nodes[position] = hat
            return
        image = Of(Integer(self.new_node(hat)), ONE_SIDE, *map(axis_symbol, s.axes)) + self.factor_of(view) * dot
        if power != 1:
            self.with_powers[position], image = power * image, S.Zero
        self._define(position, s, image)

    def _operand(self, position: int, s: Avg | MatMul) -> tuple[Expr, Expr, Expr]:
        """A power of n in front, and what it multiplies: with lower powers, and at n = ∞."""
        whole = self.translated(s.operand, s)
        if not reads_powers(self, s.operand):
            return S.One, whole, whole
        power, whole = vanishing(whole)
        return power, whole, self._limit(position, whole)

    def dot(self, position: int, view: View, operand: Expr) -> Expr:
        """The dot part of an image; a tangent whose dot part is no mean of a function has no second moment."""
        try:
            return dot_part(self, view, operand)
        except (NotAFunction, NoTangentKernel) as error:
            why = f"{self.program.where(position)}: {error}"
            if not self.degree_of(position):
                raise NoLimitError(why) from None
            self.judged.infinite[position] = why
            return S.Zero

    def opened(self, leaf: Of) -> Expr:
        """Also of an image that is Gaussian only given logits, where these stand apart from it."""
        number, node = leaf.node, self.nodes[leaf.node]
        if node.body is None and node.view is not None and not node.gaussian:
            if number not in self._apart:
                self._apart[number] = logits.image_apart(self, number)
            if (found := self._apart[number]) is not None:
                return self.placed(found, node.axes, leaf)
        return super().opened(leaf)

    def _judged_body(self, position: int, body: Expr) -> Expr:
        """A body without poles that a numerator takes away at the limits of scalars; no other pole is left."""
        whole = S.Zero if is_nothing_by_halves(body) else in_widths_of_n(body, self.program)
        body = brought_up(whole, self._tends)
        body = continued(body, self._tends, self._moves, self._brought_out, self._with_its_names_open)
        self.judged.body(position, body)
        return body

    def _with_its_names_open(self, body: Expr) -> Expr:
        return in_widths_of_n(self.judged.around.opened(body), self.program)

    def smooth(self, program: Program, order: int) -> Program:
        """The network, with numbers put in, and with Taylor polynomials in place of removable poles."""
        return smooth(program, self._tends, self._moves, order)

    def _tends(self, entry: Entry) -> Expr | None:
        known = entry.source in self.scalars and not self.degree_of(entry.source)
        return with_closed_means(self.tables, at_infinity(self.substituted(entry))) if known else None

    def _moves(self, argument: Expr) -> bool:
        return bool({e.source for e in entries(argument)} - self.judged.exact) and is_spread(self.program, argument)

    def translated(self, expr: Expr, s: Instruction | None = None) -> Expr:
        """A body for input 1: entries of data, of deterministic scalars, of kets; boxes as means."""
        found = self.substituted(expr)
        return logits.boxed(self, found, s) if any(leaf.side > 2 for leaf in self.leaves(found)) else found

    def substituted(self, expr: Expr) -> Expr:
        """An expression with leaves for its entries; kets in boxes have sides of their own."""
        expr = in_widths_of_n(expr, self.program)
        swap: dict[Expr, Expr] = {}
        # beside a power of the number of members sums over them are written out
        sized = bool(sizes(expr, self.infinite))
        data = {d: Datum(d.args[0], ONE_SIDE, *d.indices) for d in expr.atoms(DataIndex)}
        for entry in entries(expr):
            source, indices = entry.source, [i.xreplace(data) for i in entry.indices]
            axes = self.program[source].axes
            if source in self.scalars:
                swap[entry] = at(self.scalars[source], dict(zip(map(axis_symbol, axes), indices, strict=True)))
            else:
                own = self.program[source].width is None or entry.neuron == OWN  # else a box: a side of its own
                side = ONE_SIDE if own else Integer(10 + int(entry.neuron.name[1:]))
                known, leaf = self.nodes[source].body, Of(Integer(source), side, *indices)
                if source in self.with_powers:
                    swap[entry] = self.placed(self.with_powers[source], axes, leaf)
                elif sized and source in self.open:
                    swap[entry] = self.placed(self.open[source], axes, leaf)
                elif sized and known is not None and members_summed(known, self.infinite):
                    swap[entry] = self.placed(known, axes, leaf)
                else:
                    swap[entry] = known if known is not None and known.is_number else leaf
        gone = {e: v for e, v in swap.items() if v == 0 and self.degree_of(e.source)}
        # tangents that vanish first: their factors may be infinite
        return counted(put_in(put_in(expr, gone, {}), swap, {}), self.infinite)

    def _limit(self, position: int, body: Expr, keep: bool = False) -> Expr:
        """The body at n = ∞; fluctuations that stay have to be of the class whose covariance is known."""
        # √n·relu(S/√n) is relu(S): powers of n come out of homogeneous heads first
        body = scaled_out(body)
        try:
            limit = gathered(at_infinity(body)) if body.has(N) else body
        except ValueError as error:
            found = None if body.has(*KINKED) else series_limit(body, Of, Given)  # whose sides would differ
            if found is None:
                refuse_unexpanded(self.program.where(position), body, self.written_out)
                raise diverging_term(self, position, body, str(error)) from None
            limit = found
        refuse_lower_orders(limit, self.program.where(position))
        for number in sorted({x.node for x in self.leaves(limit)} | {x.source for x in limit.atoms(Given)}):
            if self.nodes[number].is_fluctuation:
                settle(self, number)
        return body if keep else limit

    def at_infinity(self, expr: Expr) -> Expr:
        """An expression in leaves at n = ∞, √n relu(S/√n) as relu(S); ValueError where a power of n grows."""
        return at_infinity(scaled_out(expr))
