"""The width limit of a program as a user sees it: views of one derivation, with numbers on request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from sympy import Expr

from tplimits import report
from tplimits.errors import EvaluationError, ProgramError, shown
from tplimits.law import targets
from tplimits.law.at_constants import at_constants, given_numbers
from tplimits.law.effort import deep
from tplimits.law.observables import Observable, ScalarObservable, observables
from tplimits.program.nodes.given import named_once, names_of
from tplimits.program.nodes.keywords import constants_apart
from tplimits.regimes import width
from tplimits.regimes.protocol import CheckAsked, Shown, refuse_unknown_doubts
from tplimits.regimes.width.claims import width_verdict
from tplimits.regimes.width.derivation import derive_width
from tplimits.regimes.width.names import Names
from tplimits.report import json_report, latex, text
from tplimits.report.roles import by_role
from tplimits.report.written import Written

if TYPE_CHECKING:
    from tplimits.law.kets import Step
    from tplimits.law.state import Derivation
    from tplimits.numbers.number import Number
    from tplimits.program.nodes.program import Program
    from tplimits.report.latex_formulas import Formula
    from tplimits.sampling.verdict import Verdict


@dataclass(frozen=True)
class Width:
    """The regime of the width limit: all widths to infinity together."""

    infinite: tuple[str, ...] = ()
    word: ClassVar[str] = "width"
    formerly: ClassVar[str | None] = None
    takes: ClassVar[str] = "program"
    options: ClassVar[tuple[str, ...]] = ()
    inputs: ClassVar[tuple[str, ...] | None] = ("method", "particles", "replicates", "only")

    def derive(self, program: Program) -> WidthLimit:
        """Kets and scalars; ProgramError for infinite axes."""
        if self.infinite is not None and names_of("infinite", self.infinite, ProgramError):
            raise ProgramError(
                f"tp.Width(infinite={shown(self.infinite)}): finite axes stay finite in the width limit so far."
            )
        return WidthLimit(program, derive_width(program.released))


@dataclass(frozen=True)
class WidthLimit(Written):
    """The width limit of a program (Yang & Littwin, Def. 2.6.5 and Theorem 2.6.10).

    Kets of all vectors, limits of all scalars, brackets; each as a SymPy expression in Gaussian
    variables, with E[…] where no closed form is known.
    """

    program: Program
    state: Derivation = field(repr=False, compare=False)
    #: the limit at the constants that were given last, where it may be another one
    _at_constants: dict[Any, WidthLimit] = field(default_factory=dict, init=False, repr=False, compare=False)
    check_keywords: ClassVar[tuple[str, ...]] = ("method", "particles", "replicates", "controls")
    _format: ClassVar[str] = json_report.LIMIT
    _template: ClassVar[str] = "width_limit.html"

    def ket(self, name: str, **index: int) -> Any:
        """|name⟩ as an expression; a family without indices gives an array of expressions."""
        return self._names.family(name, index, lambda key: self._written(self._names.ket(key).expr))

    def hat(self, name: str, **index: int) -> Any:
        """The hat part of an image W x; ProgramError when `name` is not one."""
        return self._names.family(name, index, lambda key: self._names.image(key).hat)

    def dot(self, name: str, **index: int) -> Any:
        """The dot part of an image W x."""
        return self._names.family(name, index, lambda key: self._written(self._names.image(key).dot_expr))

    def scalar(self, name: str, **index: int) -> Any:
        """The limit of a scalar."""
        return self._names.family(name, index, lambda key: self._tidied(self._names.scalar(key)))

    def braket(self, left: str, right: str) -> Expr:
        """⟨left|right⟩, the limit of (1/n) Σ left_α right_α; entries of families as in "x[token=0]"."""
        a, b = self._names.vector(left), self._names.vector(right)
        if a.width != b.width:
            raise ProgramError(f"⟨{left}|{right}⟩: `{left}` lives on width `{a.width}`, `{right}` on `{b.width}`.")
        with deep(self.program.name, EvaluationError):
            return self._tidied(self.state.engine.inner(a.expr, b.expr))

    @cached_property
    def gram(self) -> dict[tuple[str, str], Expr]:
        """The Gram table: ⟨x|y⟩ of all named vectors on one width."""
        kets = [k for key, k in self.state.kets.items() if not self.program[key[0]].name.startswith("_")]
        table = {}
        for i, a in enumerate(kets):
            for b in kets[i:]:
                if a.width == b.width:
                    table[a.label, b.label] = self.braket(a.label, b.label)
        return table

    def covariance(self, a: str, b: str) -> Expr:
        """Cov of two scalars that stay random in the limit (fluctuation scalars)."""
        known = {o.label: o for o in self._scalar_entries()}
        for name in (a, b):
            if not isinstance(name, str) or name not in known:
                raise ProgramError(f"no scalar {shown(name)}; the scalars are {', '.join(known)}.")
        return self._tidied(targets.covariance(self.state, known[a], known[b]))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The derivation, one step a rule."""
        return tuple(self.state.steps)

    def assuming(self, names: Sequence[str]) -> WidthLimit:
        """The same limit, with doubts that are named taken on by the user; ProgramError for a name that is no doubt."""
        refuse_unknown_doubts(self.program, names, self.state.doubtful())
        self.state.assume(names)
        return self

    def __repr__(self) -> str:
        return self.text()

    def text(self, full: bool = False) -> str:
        """What is printed; repeated layers and large families written out if `full`."""
        return text.width_limit(self.program, self.state, full)

    @property
    def _answer(self) -> str:
        limits = [" ".join(line.split()) for line in repr(self).splitlines() if " → " in line]
        last = limits[-1:] or [line.strip() for line in repr(self).splitlines()[-1:]]
        return f"As all widths grow, {last[0]}"

    def _formulas(self) -> list[Formula]:
        return by_role(latex.formulas(self.program, self.state), self.program)

    def _rows_used(self) -> Iterable[str]:
        return self.state.engine.used_rows

    def _on_page(self) -> Mapping[str, Any]:
        return report.html.width_limit(self._rows, self.state)

    def _in_document(self) -> Mapping[str, Any]:
        return json_report.width_limit(self.program, self.state)

    def shown(self, numbers: Mapping[str, Number]) -> Shown:
        """A table of the numbers, with variances where something stays random."""
        rows = []
        for name, n in numbers.items():
            rows.append((name, f"{n.value:.12g}", n.doubt, n.method, f"{n.variance:.12g}" if n.variance else ""))
        head: tuple[str, ...] = ("quantity", "value", "error", "method", "variance")
        columns = len(head) if any(n.variance for n in numbers.values()) else len(head) - 1
        return Shown(head=head[:columns], rows=tuple(row[:columns] for row in rows))

    def numbers_document(self, numbers: Mapping[str, Number]) -> str:
        """JSON of the numbers with their errors."""
        return json_report.numbers_document(self.program, values=json_report.numbers(numbers))

    def judged(self, asked: CheckAsked) -> Verdict:
        """Its values, and variances of what stays random, or the user's claims, against finite width."""
        return width_verdict(self, asked)

    @constants_apart
    def evaluate(
        self,
        method: str = "auto",
        *,
        particles: int = 4096,
        replicates: int = 8,
        seed: int = 0,
        conditioning: str = "white",
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        executor: Executor | None = None,
        progress: Any = None,
        only: Sequence[str] | None = None,
        **named: Any,
    ) -> dict[str, Number]:
        """Numbers with errors: the returned scalar first (⟨return|return⟩ for a vector), then named scalars.

        `method`: "exact" (closed forms alone), "quadrature" (every mean integrated, nothing closed),
        "particles" (`replicates` runs of `particles` joint samples, conditioning "white" or "lazy"), or
        "auto": exact where closed, else quadrature, else particles.  Constants and given scalars by name or
        through `constants`; `ratios={"k": 2}` gives widths relative to n.  Replicates run on `executor`, with a
        `progress` bar in a terminal; the same seed gives the same numbers on any executor.  `only` names the labels
        wanted.

        Raises EvaluationError for a missing constant, a moment that is not established, too few particles, a value
        that is not settled (a jump or a pole at a zero in disguise); its text names the labels that have a number.
        """
        given = named_once(constants, named, "evaluate()", EvaluationError)
        limit = self._at_given(given)
        left = given if limit is self else {name: v for name, v in given.items() if name not in self.program.constants}
        with deep(self.program.name, EvaluationError):
            stage = width.evaluation
            asked = stage.Particles(particles, replicates, seed, conditioning, executor, progress)
            return stage.evaluate(limit.program, limit.state, limit.observables, method, asked, ratios, left, only)

    def _at_given(self, given: Mapping[str, Any]) -> WidthLimit:
        """The limit at the constants that are given, where a jump, a pole or a moment may make it another one."""
        open_ = (doubt for _, doubt in self.state.doubts if doubt.name not in self.state.assumed)
        doubted = any(doubt.hypothesis == "moment" for doubt in open_)
        values = given_numbers(self.program, given, doubted)
        if len(values) < len(self.program.constants):
            return self

        def derived(bound: Program) -> WidthLimit:
            found = WidthLimit(bound, derive_width(bound.released))
            return found.assuming([name for name in self.state.assumed if name in found.state.doubtful()])

        return at_constants(self.program, values, self._at_constants, derived) or self if values else self

    def __reduce__(self) -> tuple[Any, ...]:
        return _derived_again, (
            self.program,
            self.state.assumed,
        )  # the tables behind a derivation hold functions; they are made again

    @cached_property
    def _names(self) -> Names:
        return Names(self.program, self.state)

    @cached_property
    def observables(self) -> tuple[Observable, ...]:
        """What evaluate() and check() report, in order."""
        return observables(self.program)

    def _scalar_entries(self) -> list[ScalarObservable]:
        return [ScalarObservable(self.state.label(key), key) for key in self.state.scalars] + [
            o for o in self.observables if isinstance(o, ScalarObservable)
        ]

    def _written(self, expr: Expr) -> Expr:
        return self.state.engine.written_out(expr)

    def _tidied(self, expr: Expr) -> Expr:
        return text.shortest(self.state.engine.written_out(expr))


def _derived_again(program: Program, assumed: Sequence[str]) -> WidthLimit:
    """A limit that was pickled, from its program."""
    return WidthLimit(program, derive_width(program.released)).assuming(assumed)
