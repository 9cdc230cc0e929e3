"""The expansion in 1/n as a user sees it: limit, bias, covariances of all scalars, and which average they come from."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

from tplimits.errors import EvaluationError, NoLimitError, ProgramError, shown
from tplimits.law.observables import Observable, observables
from tplimits.law.rules.powers import without_removable_poles
from tplimits.numbers import intervals
from tplimits.numbers.expansion import tables
from tplimits.numbers.expansion.kinks import HiddenIsland, NoDefinitePlace
from tplimits.numbers.rare import unseen
from tplimits.program.nodes.given import named_once, positive_number, seed_number, whole_from, word_of
from tplimits.program.nodes.keywords import constants_apart
from tplimits.regimes.finite_width import picture, report
from tplimits.regimes.finite_width.claims import expansion_verdict
from tplimits.regimes.finite_width.exact import ExactExpansion, exactly
from tplimits.regimes.finite_width.results import (
    Enough,
    Expansion,
    Share,
    expansions,
    near,
    order_of_moments,
    worse_than_none,
)
from tplimits.regimes.protocol import CheckAsked, Shown, refuse_unknown_doubts
from tplimits.regimes.width.derivation import derive_width
from tplimits.regimes.width.evaluation import constants_of
from tplimits.report import json_report
from tplimits.report.written import Told

if TYPE_CHECKING:
    from pathlib import Path

    from tplimits.law.kets import Step
    from tplimits.law.state import Derivation
    from tplimits.numbers.expansion.tables import Table
    from tplimits.numbers.number import Number
    from tplimits.program.nodes.program import Program
    from tplimits.report.latex_formulas import Formula
    from tplimits.sampling.verdict import Verdict


@dataclass(frozen=True)
class FiniteWidth:
    """The regime of large but finite width: means to order 1/n, and covariances.

    >>> import tplimits as tp
    >>> @tp.program
    ... def norm(W: tp.Matrix, x: tp.Vector):
    ...     return tp.avg((W @ x) ** 2)
    >>> expansion = tp.derive(norm, tp.FiniteWidth())
    >>> round(float(expansion.covariance("return", "return")), 9)
    4.0
    """

    word: ClassVar[str] = "finite-width"
    formerly: ClassVar[str | None] = None
    takes: ClassVar[str] = "program"
    options: ClassVar[tuple[str, ...]] = ()
    inputs: ClassVar[tuple[str, ...] | None] = ("method", "particles", "replicates")

    def derive(self, program: Program) -> FiniteWidthLimit:
        """The expansion; NoLimitError where a hypothesis fails, at once where all numbers are given."""
        tables.refuse_unlike_normal(program)
        found = FiniteWidthLimit(program, derive_width(tables.without_roots(program.released)))
        if found.is_given:
            try:
                found.table("quadrature")
            except NoDefinitePlace:
                found.table()
            except tables.NoRoom:
                pass  # points take longer, and are spread when numbers are asked for
        return found


@dataclass(frozen=True)
class FiniteWidthLimit(Told):
    """E θ = L + b/n + O(1/n²) and Cov(θ, θ′) = C/n + O(1/n²) for all scalars of a program."""

    program: Program
    state: Derivation = field(repr=False, compare=False)
    check_keywords: ClassVar[tuple[str, ...]] = ("method", "particles", "replicates")
    _format: ClassVar[str] = "tplimits expansion in 1/n"
    _note: ClassVar[str] = "Means to order 1/n, and covariances, of averages in networks of width n."
    _tables: dict[Any, Table | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def observables(self) -> tuple[Observable, ...]:
        """What can be asked for, in order."""
        return observables(self.program)

    @property
    def is_given(self) -> bool:
        """Whether the program says all numbers it needs."""
        with suppress(EvaluationError):
            tables.numbers_of(self.program, {}, {})
            return True
        return False

    @constants_apart
    def limit(self, name: str, **given: Any) -> Number:
        """L of a scalar, or of a bracket as "⟨return|return⟩"; constants by name, `ratios` of widths."""
        return self.evaluate(**given)[self.labels[self._place(name)]].limit

    @constants_apart
    def bias(self, name: str, **given: Any) -> Number:
        """b of a scalar."""
        return self.evaluate(**given)[self.labels[self._place(name)]].bias

    @constants_apart
    def covariance(self, a: str, b: str | None = None, /, **given: Any) -> Number:
        """C of two scalars, or of one with itself: n times their covariance; of two fluctuations √n·Avg, their own."""
        found = self.table(**given)
        return found.number("covariance", self._place(a), self._place(a if b is None else b))

    @constants_apart
    def exact(self, *names: str, **given: Any) -> ExactExpansion:
        """L, b and C of some scalars, or of all, as SymPy expressions, checked against the numbers.

        Raises EvaluationError where a mean behind them has no closed form, and names it.
        """
        places = [self._place(name) for name in names] or range(len(self.observables))
        return exactly(self.table(**given), [self.observables[i] for i in dict.fromkeys(places)])

    @constants_apart
    def breakdown(self, name: str, **given: Any) -> dict[str, Share]:
        """What each average contributes to b and to C; what the function of them itself does is the last entry."""
        found, place = self.table(**given), self._place(name)
        shares: dict[str, Share] = {}
        for part in found.parts:
            before = shares.get(part.label, Share(0.0, 0.0))
            shares[part.label] = Share(before.bias + part.bias[place], before.variance + part.variance[place])
        rest = float(found.value.bias[place]) - sum(s.bias for s in shares.values())
        return {**shares, f"{name} as a function of them": Share(rest, 0.0)}

    @constants_apart
    def at(self, n: int, **given: Any) -> dict[str, Number]:
        """Mean and variance of every scalar at width n; warns where the next terms of the series count."""
        width = whole_from("n", n, 1, EvaluationError)
        found = self.evaluate(**given)
        for name, e in found.items():
            if why := worse_than_none(name, e, width, self.order_of_moments):
                warnings.warn(why, UserWarning, stacklevel=2)
        return {name: e.at(width) for name, e in found.items()}

    @cached_property
    def order_of_moments(self) -> int:
        """The largest order of a moment of normal entries in C: above 8 the series is of use at large widths only."""
        return order_of_moments(self.state)

    @constants_apart
    def plot(self, name: str, path: str | Path | None = None, **given: Any) -> Any:
        """L + b/n with √(C/n) around it against 1/n, and what averages contribute to b; returns the Figure.

        With a `path` it is saved there too, in the format of its suffix.
        """
        return picture.plot(self, self.labels[self._place(name)], path, given)

    @constants_apart
    def width_for(
        self, name: str, relative: float | None = None, absolute: float | None = None, **given: Any
    ) -> Enough:
        """The smallest widths from which |b|/n, and for one network also √(C/n), is within a share of |L|.

        `absolute` instead of `relative` (0.01) is a distance.  EvaluationError for a share of L = 0, and for √n·Avg.
        """
        e = self.evaluate(**given)[self.labels[self._place(name)]]
        if e.limit.variance > 0:
            raise EvaluationError(f"`{name}` {e.never_near}.")
        if absolute is None:
            share = positive_number("relative", 0.01 if relative is None else relative, EvaluationError)
            if e.never_near:
                raise EvaluationError(f"`{name}` {e.never_near}: give absolute=…, a distance, instead of relative=….")
            absolute = share * abs(float(e.limit))
        return near(e, positive_number("absolute", absolute, EvaluationError))

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of all scalars and brackets."""
        return tuple(o.label for o in self.observables)

    @constants_apart
    def evaluate(
        self,
        method: str = "auto",
        *,
        particles: int | None = None,
        replicates: int = 4,
        seed: int = 0,
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> dict[str, Expansion]:
        """L, b, C and the coefficient of n^(−1/2) of every scalar, constants by name, `ratios={"k": 2}` of widths.

        `method`: "quadrature" (a grid for each function, of the variables it depends on; errors from two grids),
        "particles" (`replicates` sets of that many points spread over the law, 2048, or 1024 where functions of two
        neurons are taken; standard errors), "auto": a grid where there is room and a place for kinks.  Raises
        EvaluationError for missing constants, NoLimitError where a hypothesis fails.
        """
        return expansions(self.table(method, particles, replicates, seed, ratios=ratios, constants=constants, **named))

    @constants_apart
    def table(
        self,
        method: str = "auto",
        particles: int | None = None,
        replicates: int = 4,
        seed: int = 0,
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> Table:
        """All numbers together, found once for each choice of constants."""
        given = named_once(constants, named, "evaluate()", EvaluationError)
        word_of("method", method, tables.METHODS, EvaluationError)
        if method == "auto":
            try:
                return self.table("quadrature", ratios=ratios, constants=given)
            except tables.NoRoom:
                method = "particles"
            except HiddenIsland:
                raise  # beside other parts of a mean points would not tell that they miss it
            except NoDefinitePlace as why:  # for what moves at a kink, where points say less than the grid
                with suppress(EvaluationError, NoLimitError):
                    return self.table("particles", particles, replicates, seed, ratios, given)
                raise EvaluationError(str(why)) from None
        count = tables.points(self.program) if particles is None else particles
        asked = tables.Asked(
            method,
            whole_from("particles", count, 16, EvaluationError),
            whole_from("replicates", replicates, 2, EvaluationError),
            seed_number(seed, EvaluationError),
        )
        ratios = {} if ratios is None else ratios
        program, numbers = tables.numbers_of(self.program, given, ratios)
        key = (asked, program, tuple(numbers.scalars.items()), tuple(numbers.ratios.items()))
        if key not in self._tables:
            values = constants_of(self.program, given, ratios)
            if refused := self.state.settle(partial(intervals.values, self.state.engine, constants=values)):
                raise NoLimitError(refused[0][1])
            smooth = without_removable_poles(self.state, program, order=2)  # b and C are made of two derivatives
            self._tables[key] = tables.table(smooth, self.observables, numbers, asked)
        found = self._tables[key]
        if found is None:
            raise tables.no_room(program)
        if unseen(found.value.hits):
            # a grid may tell that what is 0 at all points is not 0 between them; what else it says is no news
            try:
                self.table("quadrature", ratios=ratios, constants=given)
            except HiddenIsland:
                raise
            except (EvaluationError, NoLimitError):
                pass
        return found

    def _place(self, name: str) -> int:
        labels = self.labels
        for text in () if not isinstance(name, str) else (name, f"⟨{name}|{name}⟩"):
            if text in labels:
                return labels.index(text)
        raise ProgramError(f"no scalar {shown(name)}; there are {', '.join(labels)}.")

    def __repr__(self) -> str:
        return report.text(self)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The derivation, one step a rule."""
        return report.steps(self)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the expansion rests on."""
        return report.ASSUMPTIONS

    @property
    def _title(self) -> str:
        return f"{self.program.name} to order 1/n"

    @property
    def _answer(self) -> str:
        return report.answer(self)

    def _picture(self) -> str:
        return picture.curves(self)

    def _formulas(self) -> Sequence[Formula]:
        return report.formulas(self)

    def _rows_used(self) -> Iterable[str]:
        return self.state.engine.used_rows

    def _asked(self) -> Mapping[str, Any]:
        return {"scalars": report.document(self)}

    def shown(self, numbers: Mapping[str, Expansion]) -> Shown:
        """A table of L, b and C."""
        return Shown(head=("quantity", "limit", "bias · n", "variance · n", "method"), rows=report.rows(numbers))

    def numbers_document(self, numbers: Mapping[str, Expansion]) -> str:
        """JSON of the numbers with their errors."""
        values = {name: report.plain(e) for name, e in numbers.items()}
        return json_report.numbers_document(self.program, values=values)

    def assuming(self, names: Sequence[str]) -> FiniteWidthLimit:
        """The same with doubts taken on by the user; ProgramError for a name that is no doubt."""
        refuse_unknown_doubts(self.program, names, self.state.doubtful())
        self.state.assume(names)
        return self

    def judged(self, asked: CheckAsked) -> Verdict:
        """b and C, or the user's claims, against networks of finite width."""
        return expansion_verdict(self, asked)

    def __reduce__(self) -> tuple[Any, ...]:
        return _derived_again, (self.program, self.state.assumed)  # the tables of a derivation hold functions


def _derived_again(program: Program, assumed: Sequence[str]) -> FiniteWidthLimit:
    state = derive_width(tables.without_roots(program.released))
    return FiniteWidthLimit(program, state).assuming(assumed)
