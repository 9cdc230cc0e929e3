"""The hypotheses of `limit.hypotheses`, asked of the instructions of a network and its tangents one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import sympy
from sympy import DiracDelta, Expr, S

from tplimits.errors import NoLimitError
from tplimits.law.expanding import numerators_expanded
from tplimits.law.gaussians import Gaussians
from tplimits.law.hypotheses.constants import constant_mean, outermost
from tplimits.law.hypotheses.displaced import Surroundings
from tplimits.law.hypotheses.jump import jumps
from tplimits.law.hypotheses.moments import tail
from tplimits.law.hypotheses.pole import insist_finite, poles
from tplimits.law.hypotheses.read_where import halves
from tplimits.law.hypotheses.reader import Doubt, Reader, Unreadable, Value
from tplimits.law.hypotheses.root import roots
from tplimits.law.hypotheses.shells import diverging_pole
from tplimits.law.hypotheses.signs import without_names
from tplimits.law.hypotheses.tails import Growth, InfiniteMoment, Tail, infinite_moment
from tplimits.law.hypotheses.vanishing import almost_never_zero
from tplimits.law.hypotheses.zero import LONG
from tplimits.law.state import in_widths_of_n
from tplimits.program.nodes.entries import Entry, GaussMean, N, axis_symbol, entries, reads_vectors
from tplimits.program.nodes.functions import JUMPS
from tplimits.program.nodes.kinds import Avg, Nonlin, OuterNonlin, made_of
from tplimits.program.nodes.rounding import Rounded
from tplimits.program.nodes.scale import at_infinity
from tplimits.program.parts import found, longer
from tplimits.regimes.kernels.derivation.leaves import Of, Slot, TableEntry
from tplimits.regimes.kernels.derivation.randomness import Kets
from tplimits.regimes.kernels.derivation.reading import BodyReader
from tplimits.regimes.kernels.derivation.special import is_special, spectators
from tplimits.regimes.kernels.derivation.terms import at

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.recursion import Recursion

#: a value of covariances at which every exponential of a square has moments, if any data gives it some
_SMALL = sympy.Float(1e-6)
#: generators of a quotient of polynomials that is brought to lowest terms
_GENERATORS = 12
#: asked of a body on a line; the doubts that are left
Hypothesis = Callable[[Reader, Expr, str], list[Doubt]]
#: values of a part of a body at data
Numbers = Callable[[BodyReader, Expr], Sequence[Value]]


def _no_data(reader: BodyReader, expr: Expr) -> Sequence[Value]:
    raise Unreadable("it depends on the data", later=True)


@dataclass
class Judgements:
    """What is known of the scalars and vectors of a derivation, and what has to wait for data."""

    state: Recursion
    #: scalars and vectors that are at their limits at every width
    exact: set[int] = field(default_factory=set)
    #: in training, where the backward pass begins, of which no pole or root is asked, and jumps of vectors alone
    asked: int | None = None
    #: in training, what there is no mean for, and what reads it
    unread: set[int] = field(default_factory=set)
    #: vectors that are polynomials of Gaussians and of tame functions
    tame: set[int] = field(default_factory=set)
    #: gradients with poles that cancel
    settled: set[int] = field(default_factory=set)
    #: vectors that grow exponentially, with moments all the same
    exponential: set[int] = field(default_factory=set)
    #: hypotheses that failed, as they were told: other refusals are of means that are not offered
    failed: list[str] = field(default_factory=list)
    #: Gaussian nodes, and whether their variance is seen not to vanish
    regular: dict[int, bool] = field(default_factory=dict)
    #: nodes, and whether they are seen to be zero
    zero: dict[int, bool] = field(default_factory=dict)
    #: nodes, and their bodies written out as far as they are short
    bodies: dict[int, Expr | None] = field(default_factory=dict)
    #: hypotheses that data decides, with the body and the line
    pending: list[tuple[Hypothesis, BodyReader, Expr, str]] = field(default_factory=list)
    #: vectors whose second moment data decides, at the limits of their scalars; or why not beside them
    doubts: list[tuple[int, Expr, str]] = field(default_factory=list)
    #: means of constants that are not seen to be finite
    constants: list[Doubt] = field(default_factory=list)
    #: tangents whose second moment is not established, by the name of the doubt
    unseen: dict[int, str] = field(default_factory=dict)
    #: names of doubts that the user takes on himself
    assumed: tuple[str, ...] = ()
    #: tangents that are no functions
    deltas: set[int] = field(default_factory=set)
    #: tangents without a second moment, and why
    infinite: dict[int, str] = field(default_factory=dict)
    numbers: Numbers = _no_data
    _nonnegative: dict[int, bool] = field(default_factory=dict)

    @cached_property
    def rounded(self) -> Rounded:
        """Where decimal numbers, arrays or constants decide."""
        return Rounded(self.state.program)

    @cached_property
    def kets(self) -> Kets:
        """Names of all nodes, and how fast they are known to grow."""
        return Kets(self.state)

    @cached_property
    def _small(self) -> Kets:
        """The same where all covariances are small."""
        return Kets(self.state, lambda constant: _SMALL)

    def is_gradient(self, position: int) -> bool:
        """Whether an instruction belongs to the backward pass of a network in training."""
        return self.asked is not None and position >= self.asked

    def is_nonnegative(self, position: int) -> bool:
        """Whether a scalar or a vector is negative at no width."""
        if position not in self._nonnegative:
            s, found = self.state.program[position], False
            if isinstance(s, Avg):
                found = self.is_nonnegative(s.operand.source)
            elif isinstance(s, Nonlin):
                found = bool(BodyReader(self.state).own_bounds(s.body)[0] >= 0)
            self._nonnegative[position] = found
        return self._nonnegative[position]

    def body(self, position: int, body: Expr) -> None:
        """Ask the hypotheses on jumps, poles and roots of a body; what data decides is asked again by `settle`."""
        # a tangent of a scalar vanishes in the limit, and its factor with it
        if self.state.degree_of(position) or not is_special(body, Entry, GaussMean):
            return
        where, reader = self.state.program.where(position), BodyReader(self.state, self.is_gradient(position))
        others = () if reader.of_gradient else ((poles, body), (roots, body))
        try:
            self.constants += [doubt for node in outermost(body) if (doubt := constant_mean(where, node, Gaussians()))]
            for hypothesis, asked in ((jumps, self._jumping(body)), *others):
                if hypothesis(reader, asked, where):
                    self.pending.append((hypothesis, reader, asked, where))
            # 0/0 of what is 0 at every width is at no limit: no pole is met there
            if others and any(e.source in self.exact for e in entries(body)):
                insist_finite(reader, body, reader.limit(body), where)
        except NoLimitError as error:
            self.failed.append(str(error))
            raise

    def _jumping(self, body: Expr) -> Expr:
        """What jumps are looked for in: in training those of scalars are asked of the outputs that depend on them."""
        if self.asked is None:
            return body
        scalar = (f for f in found(body, *JUMPS) if not reads_vectors(f.args[0]))
        return body.xreplace({f: sympy.Add(sympy.Dummy(real=True), *f.args[1:]) for f in scalar})

    def settle(self, numbers: Numbers) -> None:
        """Ask again with numbers for data and constants; NoLimitError where the limit lands on a jump or a pole."""
        self.numbers = numbers
        try:
            left = list(self.constants)
            for hypothesis, reader, body, where in self.pending:
                left += hypothesis(reader, body, where)
            for doubt in left:
                if doubt.name not in self.assumed:
                    raise NoLimitError(doubt.told())
        finally:
            self.numbers = _no_data

    def doubtful(self) -> list[str]:
        """The names of all doubts, of those too that data may settle."""
        return list(dict.fromkeys([d.name for d in self.open()] + [*self.unseen.values()]))

    def open(self) -> list[Doubt]:
        """The doubts themselves, those of tangents left out."""
        asked = (d for hypothesis, reader, body, where in self.pending for d in hypothesis(reader, body, where))
        return [*self.constants, *asked, *self.moments()]

    def moments(self) -> list[Doubt]:
        """The doubts whether vectors have second moments, which data may settle."""
        later = "whether it has depends on the data"
        return [replace(self.moment_doubt(p, why or later), later=True) for p, _, why in self.doubts]

    def is_assumed(self, number: int) -> bool:
        """Whether the user says that a node has a second moment, or an integral that poles of its terms cancel in."""
        taken_on = number < len(self.state.program) and f"moment of {self.state.program[number].name}" in self.assumed
        return taken_on or number in self.settled

    def moment_doubt(self, position: int, reason: str) -> Doubt:
        """The doubt whether a vector has a second moment."""
        return Doubt("moment", self.state.program[position].name, self.state.program.where(position), reason)

    def vector(self, position: int, s: OuterNonlin, limit: Expr) -> None:
        """Refuse a ket, or note a tangent, that is not square integrable; doubts wait for data."""
        if limit.has(DiracDelta):  # whether its square is a function is told where the bracket is taken
            self.deltas.add(position)
            limit = sympy.expand(limit).xreplace(dict.fromkeys(limit.atoms(DiracDelta), S.Zero))  # the rest has poles
        leaves = self.state.leaves(limit)
        if any(x.node in self.deltas for x in leaves):
            self.deltas.add(position)
            return
        self._beside_limits(position, s)
        if not leaves:
            return
        if not is_special(limit, Of) and all(self._is_tame(x.node) for x in leaves):
            self.tame.add(position)
            return
        kets = self.kets
        found = self._tail(s, limit, kets)
        if found.established:
            if found.kind is Growth.EXPONENTIAL:
                self.exponential.add(position)
            elif found.power is S.Infinity:
                self.tame.add(position)
            return
        is_tangent, where, message = self.state.degree_of(position), self.state.program.where(position), ""
        small = tail(self._small.written(limit), self._small)
        why = found.reason if found.kind is Growth.INFINITE else diverging_pole(kets.written(limit), kets)
        if why:
            message = infinite_moment(where, f"{s.name}⟩", why)
        elif (is_tangent or self.is_gradient(position)) and not self.is_square_integrable(limit):
            doubt = self.moment_doubt(position, found.reason)
            self.unseen[position] = doubt.name
            message = "" if doubt.name in self.assumed else doubt.told() if not is_tangent else _told(doubt)
        if not is_tangent:
            if message:
                self.failed.append(message)
                raise InfiniteMoment(message) if why else NoLimitError(message)
            if not self.is_gradient(position) or small.established:  # its poles are no question of data
                self.doubts.append((position, limit, ""))
            else:
                self.settled.add(position)
            if small.kind is Growth.EXPONENTIAL:
                self.exponential.add(position)
        elif message:
            self.infinite[position] = message

    def _beside_limits(self, position: int, s: OuterNonlin) -> None:
        """Note a vector whose second moment is finite only as long as no scalar is beside its limit."""
        is_tangent, reader = self.state.degree_of(position), BodyReader(self.state)

        def established(moved: Expr) -> bool:
            limit = reader.limit(moved)
            # terms may have poles that are one together; neither of |h|^(−0.2), of degree 2^54, nor of many generators
            few = len(limit.atoms(Of, TableEntry, sympy.Function)) <= _GENERATORS and not longer(limit, LONG)
            if few and all(power.exp.is_Integer for power in limit.atoms(sympy.Pow)):
                limit = sympy.cancel(limit)
            written = self.kets.written(limit)
            # what holds a delta has none: it is asked of the square below
            if not limit.has(DiracDelta) and tail(written, self.kets).established:
                return True
            is_derivative = is_tangent or self.is_gradient(position)
            return bool(is_derivative) and not diverging_pole(written, self.kets) and self.is_square_integrable(limit)

        body = in_widths_of_n(s.body, self.state.program)
        open_ = [moved for moved in self.around.bodies(body) if not established(moved)]
        if not open_:
            return
        doubt = self.moment_doubt(position, self.around.why(body, reader.shown))
        if not is_tangent:  # at the limits themselves it may be refused for a better reason
            self.doubts += [(position, reader.limit(moved), doubt.reason) for moved in open_]
        elif established(body):
            self.unseen[position] = doubt.name
            if doubt.name not in self.assumed:
                self.infinite[position] = _told(doubt)

    @cached_property
    def around(self) -> Surroundings:
        """What hypotheses ask of scalars that are a little beside their limits."""
        program = self.state.program

        def inside(entry: Entry) -> Expr:
            s = program[entry.source]
            return at(made_of(s), dict(zip(map(axis_symbol, s.axes), entry.indices, strict=True)))

        return Surroundings(
            program,
            BodyReader(self.state).limit,
            inside,
            lambda e: e.source in self.exact or bool(self.state.degree_of(e.source)),
            lambda e: self.is_nonnegative(e.source),
        )

    def _is_tame(self, number: int) -> bool:
        return (node := self.state.nodes[number]).gaussian or node.body is None or number in self.tame

    def is_square_integrable(self, expr: Expr) -> bool:
        """Whether an expression in leaves has a second moment if its covariances are small; deltas are told apart.

        Two terms with poles may cancel, as in the derivative of tanh(x)/x: then the integral tells.  They have the same
        factors outside of functions and powers, such as the tangent that they are multiples of.
        """
        leaves = self.state.leaves(expr)
        if not leaves or expr.has(DiracDelta) or any(x.node in self.deltas for x in leaves):
            return True
        kets, whole = self._small, expr.xreplace(dict.fromkeys(expr.atoms(Slot), S.One))
        written = without_names(kets.written(whole), kets)  # x beside exp(h) may be a name of h
        for half in halves(written, lambda c: almost_never_zero(c, kets)):
            # exp(−(x − 1)² y) is bounded for y > 0 as it is written, and its exponent multiplied out tells of no bound
            if tail(half, kets).established:
                continue
            half = numerators_expanded(half)
            open_ = [term for term in sympy.Add.make_args(half) if not tail(term, kets).established]
            if 1 in Counter(map(spectators(half), open_)).values():
                return False
        return True

    def why_infinite(self, position: int) -> str:
        """Why a tangent has no second moment: because one that it is made of has none; "" where all have."""
        above = self.state.program.behind((position,))
        return next((why for p, why in self.infinite.items() if p in above), "")

    def _tail(self, s: OuterNonlin, limit: Expr, kets: Kets) -> Tail:
        """Before boxes are averaged, or after: by Jensen's inequality a mean grows no faster."""
        if not s.slots:
            return tail(kets.written(limit), kets)
        whole = self.state.substituted(s.body)
        found = tail(kets.written(at_infinity(whole) if whole.has(N) else whole), kets)
        return found if found.established else tail(kets.written(limit), kets)


def _told(doubt: Doubt) -> str:
    """A doubt of a tangent, with what can be done: training rests on the tangent kernel too, and takes none on."""
    return (
        f"{doubt}. Bound the function or keep it away from its pole, or take it on yourself: "
        f"tp.derive(…, tp.Kernels(…), assume=({doubt.name!r},))."
    )
