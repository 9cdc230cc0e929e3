"""What a hypothesis reads of a derivation: every engine that has limits implements these protocols.

A *body* is the expression of one instruction as it runs at finite width.  Hypotheses are judged on the body, not on
the value that its limits give: in `avg(u) * (1 / s)` the first factor may be zero and hide the pole of the second.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sympy import Expr, Symbol

if TYPE_CHECKING:
    from tplimits.law.hypotheses.displaced import Surroundings

#: of a question
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Doubt:
    """A hypothesis that is not established: which ("moment", "jump", …) of what, on which line, and why.

    `later` where nothing but numbers, or values of constants, are missing: it is asked again when there are.
    In training, outputs before `from_step` do not rest on it.
    """

    hypothesis: str
    of: str
    where: str
    reason: str
    later: bool = False
    from_step: int = 0

    @property
    def name(self) -> str:
        """What a user calls it to take it on himself."""
        return f"{self.hypothesis} of {self.of}"

    def __str__(self) -> str:
        return f"{self.hypothesis} not established: {self.of} at {self.where}: {self.reason}"

    def told(self) -> str:
        """The same with what can be done."""
        return (
            f"{self}. Bound the function or keep it away from its pole, or take it on yourself: "
            f"tp.derive(…, assume=({self.name!r},))."
        )


@dataclass(frozen=True)
class Value:
    """An expression at one point of its variables: a number, its error, whether it moves with what it is made of.

    relu(h) is 0 at h = −1 and does not move; h − r·h with r → 1 is 0 at every h and moves with r.
    """

    number: float
    error: float
    moves: bool = True

    @property
    def is_zero(self) -> bool:
        """Whether the interval number ± error holds zero."""
        return not abs(self.number) > self.error

    @property
    def is_nothing(self) -> bool:
        """Whether it is 0 without an error, as all is that is made of zeros."""
        return self.number == self.error == 0


class Unreadable(Exception):
    """An expression has no numbers yet; `later` when values of constants or data, given later, will decide."""

    def __init__(self, reason: str, later: bool) -> None:
        super().__init__(reason)
        self.reason, self.later = reason, later


@dataclass(frozen=True)
class Question:
    """An expression to be looked at with numbers: `held` are symbols in it that stand for deterministic limits.

    `fluctuations` are all scalars S = √n·Avg of the derivation, which stay random.
    """

    expr: Expr
    held: Mapping[Symbol, Expr]
    variables: Sequence[Symbol]
    covariance: Callable[[Symbol, Symbol], Expr] = field(compare=False, repr=False)
    fluctuations: Set[Symbol] = frozenset()


class Numbers(Protocol):
    """What the numerical stage does for the hypotheses of a derivation."""

    def __call__(self, question: Question) -> Sequence[Value]:
        """The expression at some points of its variables (one where it has none); may raise Unreadable."""


class Reader(Protocol):
    """A body and the limits of what it reads: for the hypotheses on jumps, poles and roots."""

    @property
    def around(self) -> Surroundings | None:
        """What is known of the entries of the program; None where nothing is averaged that other neurons bend."""

    def tolerance(self, expr: Expr) -> float:
        """What counts as zero beside intervals: rounding of decimal numbers and data that a part of the body reads."""

    def limit(self, expr: Expr) -> Expr:
        """A part of the body with scalars at their limits and vectors as their random variables."""

    def moves(self, expr: Expr) -> bool:
        """Whether a part of the body reads a scalar or a vector, which at finite width is not at its limit."""

    def settled(self, expr: Expr) -> bool:
        """Whether algebra alone tells if the limit vanishes.

        It does where no mean without closed form takes part, and nothing that vanishes stands beside a function that
        is flat somewhere (`zero.has_flat`): sign(relu(h) + s·g) with s → 0 has its jump at every h < 0.
        """

    def values(self, expr: Expr) -> Sequence[Value]:
        """The part of the body at some points of its random variables (one, for a scalar); may raise Unreadable."""

    def within(self, expr: Expr) -> Expr:
        """The part of the body with what the vectors that it reads are made of; as it is where that is not known."""

    def bounds(self, expr: Expr) -> tuple[Expr, Expr]:
        """Between which numbers the part of the body lies at every finite width; ±∞ where nothing is known."""

    def shown(self, expr: Expr) -> str:
        """The part of the body as a user wrote it."""

    def written(self, expr: Expr) -> str:
        """Its limit, as text."""


class Randomness(Protocol):
    """Centred Gaussian variables, and names for long functions of them: for the hypothesis on moments."""

    #: how fast functions grow, once it is known
    growths: dict[Expr, Any]
    #: what else was asked of functions, by `answered_once`
    answers: dict[tuple[Any, ...], Any]

    def is_random(self, symbol: Symbol) -> bool:
        """Whether a symbol is a variable or the name of a function of variables."""

    def definition(self, symbol: Symbol) -> Expr | None:
        """What a name stands for; None for a variable."""

    def of(self, expr: Expr) -> set[Symbol]:
        """The free variables of an expression, through names."""

    def covariance(self, a: Symbol, b: Symbol) -> Expr:
        """The covariance of two variables."""


def answered_once(question: Callable[..., Answer]) -> Callable[..., Answer]:
    """A question about expressions and the randomness in them, its last argument, which keeps the answers."""

    @functools.wraps(question)
    def asked(*about: Any) -> Answer:
        *of, gaussians = about
        answers, key = gaussians.answers, (question, *of)
        if key not in answers:
            answers[key] = question(*about)
        return answers[key]

    return asked
