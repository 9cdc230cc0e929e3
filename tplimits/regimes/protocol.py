"""What a regime offers; derive(), check() and the commands know no more of it than what stands here.

A new regime is a folder with two classes, a value that users give to derive() and its limit, and a line in
`tplimits.regimes.known`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

from tplimits.errors import ProgramError, shown
from tplimits.law.hypotheses.universality import UNIVERSALITY, unestablished
from tplimits.program.nodes.given import names_of
from tplimits.sampling.sampling import Given, Sampling

if TYPE_CHECKING:
    from tplimits.law.kets import Step
    from tplimits.pages.report import Report
    from tplimits.program.nodes.program import Program
    from tplimits.sampling.verdict import Verdict


@dataclass(frozen=True)
class CheckAsked:
    """A check of a limit: how to sample, what is given, the user's own claims, and keywords of the limit's own."""

    sampling: Sampling
    given: Given
    claims: Mapping[str, Any] | None
    own: Mapping[str, Any]

    @property
    def numbers(self) -> Given:
        """What is given to the networks: without `draws`, which is for the limit's own numbers."""
        constants = {name: value for name, value in self.given.constants.items() if name != "draws"}
        return Given(constants, self.given.ratios)


@dataclass(frozen=True)
class Shown:
    """Numbers as a terminal shows them: texts, or a table with a head."""

    texts: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def refuse_unknown_doubts(program: Program, names: Sequence[str], known: Sequence[str]) -> None:
    """ProgramError for a name that is not that of a doubt."""
    taken_on = (UNIVERSALITY,) if unestablished(program) else ()
    for name in names_of("assume", names, ProgramError):
        if name not in (*known, *taken_on):
            raise ProgramError(
                f"assume={shown(name)}: `{program.name}` has no such doubt; its doubts are "
                f"{', '.join(map(repr, (*known, *taken_on))) or 'none'}."
            )


class Undoubted:
    """A limit of which nothing is left in doubt."""

    program: Program

    def assuming(self, names: Sequence[str]) -> Self:
        """ProgramError: there is no doubt to take on."""
        refuse_unknown_doubts(self.program, names, ())
        return self


@runtime_checkable
class Regime(Protocol):
    """A way for sizes to go to infinity: what a user gives to derive()."""

    #: its name in every stage and on the command line, and one that commands took before
    word: ClassVar[str]
    formerly: ClassVar[str | None]
    #: what it is a limit of: "program", "block" or "network"
    takes: ClassVar[str]
    #: its fields that the command line sets
    options: ClassVar[tuple[str, ...]]
    #: arguments of its limit's `evaluate` that the command line gives; None: it has no such numbers
    inputs: ClassVar[tuple[str, ...] | None]

    def derive(self, program: Program) -> Limit:
        """The limit; ProgramError for fields that make no sense, NoLimitError where a hypothesis fails."""


class Numbered(Protocol):
    """A limit with numbers of its own."""

    @property
    def program(self) -> Program:
        """What it is the limit of."""

    @property
    def evaluate(self) -> Any:
        """The method that gives numbers with errors."""

    def shown(self, numbers: Any) -> Shown:
        """What `evaluate` gave, for a terminal."""

    def numbers_document(self, numbers: Any) -> str:
        """The same as JSON for other programs to read."""


@runtime_checkable
class Checkable(Protocol):
    """What check() takes."""

    def judged(self, asked: CheckAsked) -> Verdict:
        """Its claims, or the user's, against finite width."""


class Limit(Checkable, Protocol):
    """What derive() gives: it prints, exports, evaluates, and can be checked against finite width."""

    #: keywords of check() that this limit takes beside those of all
    check_keywords: ClassVar[tuple[str, ...]]

    @property
    def program(self) -> Program:
        """What it is the limit of."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The derivation."""

    def assuming(self, names: Sequence[str]) -> Limit:
        """The same with doubts taken on by the user; ProgramError for a name that is no doubt."""

    def latex(self) -> str:
        """A compilable fragment (amsmath)."""

    def citation(self) -> str:
        """BibTeX of what was used."""

    def report(self) -> Report:
        """The limit for a terminal, a notebook, a page, a paper and other programs."""

    def page(self) -> str:
        """One HTML file with everything."""

    def document(self) -> str:
        """JSON for other programs to read."""
