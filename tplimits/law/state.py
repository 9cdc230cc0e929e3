"""What a derivation knows so far; the rules read it and add to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import networkx
import sympy
from sympy import Expr, S, Symbol

from tplimits.errors import NoLimitError
from tplimits.law.expanding import times
from tplimits.law.gaussians import CopySource, Gaussians, HatSource, View
from tplimits.law.hypotheses.displaced import Surroundings
from tplimits.law.hypotheses.reader import Doubt, Numbers, Question, Reader, Unreadable, Value
from tplimits.law.hypotheses.zero import vanishes_where_looked
from tplimits.law.kets import Ket, Key, Reference, Step, key_of
from tplimits.law.means import BoxMean
from tplimits.law.moments import NamedValue, OpenMoment, SteinMoment
from tplimits.law.unroll import Unroller, label
from tplimits.program.nodes.digits import in_digits
from tplimits.program.nodes.entries import Entry, entries, width_symbol
from tplimits.program.nodes.kinds import InitialMatrix, made_of
from tplimits.program.nodes.rounding import DATA_TOLERANCE, Rounded
from tplimits.program.parts import remembered

if TYPE_CHECKING:
    from tplimits.law.expectation import Expectations
    from tplimits.law.span import Span
    from tplimits.program.nodes.program import Program

#: a closed number below this, of so many digits, is zero
_NOTHING, _DIGITS = 1e-30, 60
#: in sentences, what has more nodes than this is written by its name
_MOST_WRITTEN = 250

ASSUMED = Reference("taken on by the user, not established", "yang2023tensor")


@dataclass(frozen=True)
class Use:
    """One application of a matrix (in one orientation) to a vector."""

    operand: str
    operand_ket: Expr
    hat: Symbol
    result: str
    result_ket: Expr


@dataclass
class Fluctuation:
    """A scalar √n·Avg(x) with ⟨1|x⟩ = 0: the Gaussian variable that stands for it."""

    symbol: Symbol
    key: Key
    over: str


#: a hypothesis on a body: it refuses, or returns its doubts
Hypothesis = Callable[[Reader, Expr, str], list[Doubt]]


def unread(question: Question) -> Sequence[Value]:
    """No numbers yet: nothing is integrated while a limit is derived."""
    raise Unreadable("it has no closed form", later=True)


@dataclass
class Derivation:
    """The growing tables of one derivation."""

    program: Program
    engine: Expectations
    with_dots: bool = True
    kets: dict[Key, Ket] = field(default_factory=dict)
    scalars: dict[Key, Expr] = field(default_factory=dict)
    uses: dict[View, list[Use]] = field(default_factory=dict)
    spans: dict[View, Span] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    fluctuations: dict[Key, Fluctuation] = field(default_factory=dict)
    covariances: dict[tuple[Symbol, Symbol], Expr] = field(default_factory=dict)
    #: hypotheses that are not established, with the instruction that rests on them
    doubts: list[tuple[Key, Doubt]] = field(default_factory=list)
    #: hypotheses that only numbers decide
    pending: list[tuple[Hypothesis, Reader, Expr, Key]] = field(default_factory=list)
    #: scalars and vectors that are the same at every width: given scalars, constants, functions of these
    exact: set[Key] = field(default_factory=set)
    #: scalars and vectors that are negative at no width
    nonnegative: set[Key] = field(default_factory=set)
    #: the positive numbers that some of these are never below
    above: dict[Key, Expr] = field(default_factory=dict)
    #: for kets with a mean closed inside: the form from which tails of later kets are judged (its own is known)
    judged: dict[Expr, Expr] = field(default_factory=dict)
    #: parts of bodies with the limits of their entries put in, and with signs for those that are never negative
    limits: dict[Expr, Expr] = field(default_factory=dict, repr=False)
    least: dict[Expr, Expr] = field(default_factory=dict, repr=False)
    #: names of doubts that the user takes on himself
    assumed: tuple[str, ...] = ()
    #: data that are indices, by position, where these are known
    data: Mapping[int, Any] = field(default_factory=dict, repr=False)
    #: values with intervals, while the numerical stage asks for them
    numbers: Numbers = unread
    #: the same derivation with nothing closed, once numbers have been integrated that way
    opened: Derivation | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.unroller = Unroller(self.program, self.data)
        self._hat_covariances: dict[tuple[HatSource, HatSource], Expr] = {}
        self._numbers: dict[Symbol, Expr] = {}
        self._labels: dict[Key, str] = {}
        self._open: dict[Symbol, bool] = {}
        self.gaussians.hat_covariance = self._hat_covariance

    @property
    def tolerance(self) -> float:
        """What counts as zero: exact zeros, and 1e-12 where array constants (data) take part."""
        return DATA_TOLERANCE if self.program.arrays else 0.0

    @cached_property
    def rounded(self) -> Rounded:
        """Where decimal numbers or data decide."""
        return Rounded(self.program)

    @cached_property
    def widths(self) -> frozenset[Symbol]:
        """The widths that bodies may be written in."""
        return frozenset(map(width_symbol, ("n", *self.program.widths)))

    @property
    def gaussians(self) -> Gaussians:
        return self.engine.gaussians

    @cached_property
    def around(self) -> Surroundings:
        """What hypotheses ask of scalars that are a little beside their limits."""

        def limit(expr: Expr) -> Expr:
            value = expr.xreplace({e: self.scalars[key_of(e)] for e in entries(expr) if key_of(e) in self.scalars})
            return value.xreplace({s: self._number(s) for s in value.free_symbols if s in self.engine.moments})

        def inside(entry: Entry) -> Expr:
            s = self.program[entry.source]
            return self.unroller.at(made_of(s), s.axes, key_of(entry)[1])

        def ket(entry: Entry) -> Expr:
            return self.kets[key_of(entry)].expr if key_of(entry) in self.kets else entry

        known = (lambda e: key_of(e) in self.exact), (lambda e: key_of(e) in self.nonnegative)
        return Surroundings(self.program, limit, inside, *known, ket, self.gaussians)

    def judge(self, hypothesis: Hypothesis, reader: Reader, body: Expr, key: Key) -> list[Doubt]:
        """Ask a hypothesis of the body of an instruction; what only numbers decide is asked again by `settle`."""
        # raises where the answer is certain; doubts that only numbers settle wait, the others are told by the limit
        found = hypothesis(reader, body, self.program.where(key[0]))
        self.doubts += [(key, doubt) for doubt in found if not doubt.later]
        if any(doubt.later for doubt in found):
            self.pending.append((hypothesis, reader, body, key))
        return found

    def settle(self, numbers: Numbers) -> list[tuple[Key, str]]:
        """Ask again, with numbers: what is refused and why, and what is still in doubt, with the instruction."""
        both = (*self.asked_again(numbers), *self.doubts)
        left = [(k, d) for k, d in both if not (isinstance(d, Doubt) and d.name in self.assumed)]
        return [(k, d.told() if isinstance(d, Doubt) else str(d)) for k, d in left]

    def asked_again(self, numbers: Numbers) -> Iterator[tuple[Key, NoLimitError | Doubt]]:
        """What numbers refuse and what they leave in doubt, one after another: each may take a while."""
        before, self.numbers = self.numbers, numbers
        try:
            for hypothesis, reader, body, key in self.pending:
                try:
                    yield from ((key, doubt) for doubt in hypothesis(reader, body, self.program.where(key[0])))
                except NoLimitError as error:
                    yield key, error
        finally:
            self.numbers = before

    def doubtful(self) -> list[str]:
        """The names of all doubts, of those too that numbers may settle."""
        both = (*self.doubts, *self.asked_again(unread))
        return list(dict.fromkeys(doubt.name for _, doubt in both if isinstance(doubt, Doubt)))

    def assume(self, names: Sequence[str]) -> None:
        """Take doubts as settled, and say so."""
        self.assumed = tuple(dict.fromkeys((*self.assumed, *names)))
        for name in names:
            self.steps.append(Step("assumption", (), lambda name=name: name, ASSUMED))  # type: ignore[misc]

    def reason_against(self, position: int, index: tuple[int, ...], refused: Sequence[tuple[Key, str]]) -> str:
        """The first of these that an entry of an instruction rests on; empty where there is none."""
        above = networkx.ancestors(self.program.graph, position) if refused else ()
        return next((text for (p, i), text in refused if p in above or (p, i) == (position, index)), "")

    def combined(self, parts: Sequence[tuple[Expr, Expr]]) -> Expr:
        """Σ coefficient · ket, with its tail judged from those of the kets."""
        total = self.engine.combination(parts)
        if any(ket in self.judged for _, ket in parts):
            self.judged[total] = sympy.Add(*(times(c, self.judged.get(ket, ket)) for c, ket in parts))
        return total

    def rests_on_open_means(self, expr: Expr) -> bool:
        """Whether an expression, or the variance of a variable in it, holds a mean without closed form.

        So count sums of numbers that cancel, means over boxes, and images of what is zero by an identity.
        """
        is_open = expr.has(BoxMean) or any(self._is_open(s) for s in expr.atoms(Symbol))
        return is_open or any(map(self._cancels, expr.atoms(sympy.Add)))

    def _cancels(self, total: Expr) -> bool:
        """Whether a sum is zero without being written as 0; names in it stand for numbers, also beside variables."""
        value = total.xreplace({s: self._number(s) for s in total.free_symbols if s in self.engine.moments})
        if value.is_Rational:
            return value == 0 and value != total
        return _is_nothing(_digits(value)) if value.is_number else value != total and vanishes_where_looked(value)

    def _is_open(self, symbol: Symbol) -> bool:
        if symbol not in self._open:
            self._open[symbol] = False  # against circles
            behind = self._behind(symbol)
            images = behind if isinstance(self.gaussians.source.get(symbol), HatSource) else []
            # what is multiplied by a fluctuation of variance 0 vanishes, and so does its image
            vanishes = self.covariances.get((symbol, symbol)) == 0 or any(map(vanishes_where_looked, images))
            self._open[symbol] = vanishes or any(map(self.rests_on_open_means, behind))
            moment = self.engine.moments.get(symbol)
            if isinstance(moment, (OpenMoment, SteinMoment)):
                self._open[symbol] = True
            elif isinstance(moment, NamedValue) and not self._open[symbol]:
                self._open[symbol] = _is_nothing(self._number(symbol))
        return self._open[symbol]

    def _number(self, symbol: Symbol) -> Expr:
        """What a name stands for as a number, exact where it is rational; the name where there is none.

        Names are replaced by numbers and not by what they stand for: written out, a deep program grows exponentially.
        """
        if symbol not in self._numbers:
            moment = self.engine.moments.get(symbol)
            value = moment.value if isinstance(moment, NamedValue) else symbol
            # numbers of numbers, each made once: `_DIGITS` leaves room for cancellations down to `_NOTHING`
            inside = {s: self._number(s) for s in value.free_symbols if s != symbol and s in self.engine.moments}
            value = value.xreplace(inside)
            known = value if value.is_Rational else _digits(value)
            self._numbers[symbol] = known if value.is_number else symbol
        return self._numbers[symbol]

    def _behind(self, symbol: Symbol) -> list[Expr]:
        """What a name stands for, what a hat is an image of, what a copy is of."""
        moment, source = self.engine.moments.get(symbol), self.gaussians.source.get(symbol)
        if isinstance(moment, NamedValue):
            return [moment.value]
        if isinstance(source, HatSource):
            return [self.uses[source.view][source.use].operand_ket]
        if isinstance(source, CopySource):
            return [source.original]
        found = [self.gaussians.long[symbol].definition] if symbol in self.gaussians.long else []
        return found + [c for (a, b), c in self.covariances.items() if a == b == symbol]

    def covariance(self, a: Symbol, b: Symbol) -> Expr:
        """Of two Gaussian variables, or of two fluctuation scalars."""
        if a in self.gaussians and b in self.gaussians:
            return self.engine.covariance(a, b)
        return self.covariances.get((a, b), S.Zero)

    def label(self, key: Key) -> str:
        """The printed name of one entry of an instruction."""
        if key not in self._labels:
            instruction = self.program[key[0]]
            self._labels[key] = label(instruction.name, instruction.axes, key[1])
        return self._labels[key]

    def text(self, expr: Expr) -> str:
        """An expression with its moments written out, the long ones by name, as text."""
        return sympy.sstr(self.engine.written_out(expr, _MOST_WRITTEN))

    def matrix_label(self, view: View) -> str:
        position, index, transposed = view
        matrix = self.program[position]
        return label(matrix.name, matrix.axes, index) + ("ᵀ" if transposed else "")

    def ratio(self, upper: str, lower: str) -> Expr:
        """The limit of one width over another, in symbols k/n."""
        return S.One if upper == lower else width_ratio(upper) / width_ratio(lower)

    def hat_factor(self, view: View) -> Expr:
        """κ = (entry variance) × (length of the sum): 1 for W, rows/columns for Wᵀ."""
        matrix = self.program[view[0]]
        assert isinstance(matrix, InitialMatrix)
        return self.ratio(matrix.rows, matrix.columns) if view[2] else S.One

    def _hat_covariance(self, a: HatSource, b: HatSource) -> Expr:
        """Cov(|Wx⟩^, |Wy⟩^) = κ ⟨x|y⟩ (Eq. 2.18)."""
        key = (a, b) if a.use <= b.use else (b, a)
        if key not in self._hat_covariances:
            uses = self.uses[a.view]
            bracket = self.engine.inner(uses[key[0].use].operand_ket, uses[key[1].use].operand_ket)
            factor = self.hat_factor(a.view)
            value = bracket if factor == 1 else sympy.expand(factor * bracket)
            self._hat_covariances[key] = self.engine.named(value, positive=a.use == b.use)
        return self._hat_covariances[key]


def _is_nothing(value: Expr) -> bool:
    return bool(value.is_number and not value.is_Rational and abs(value) < _NOTHING)


@remembered(4096)
def _digits(value: Expr) -> Expr:
    """Remembered: deep programs hold the same few numbers in many layers."""
    return in_digits(value, _DIGITS)


def width_ratio(width: str) -> Expr:
    """width / n as a positive symbol, in parentheses so that its powers read right."""
    return S.One if width == "n" else Symbol(f"({width}/n)", positive=True)


def in_widths_of_n(expr: Expr, program: Program) -> Expr:
    """Other widths in a body written as their ratio times n."""
    others = program.other_widths
    n = width_symbol("n")
    return expr.xreplace({width_symbol(w): width_ratio(w) * n for w in others}) if others else expr
