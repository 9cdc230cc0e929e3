"""Functions of vectors that the index algebra has no place for, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sympy import Expr

from tplimits.errors import NoLimitError
from tplimits.program.nodes.entries import Entry

if TYPE_CHECKING:
    from tplimits.regimes.depth.derivation.lowering import Lowering


#: why products of a contraction have no value where no sums over neurons of the state are in the way
NO_CLOSED_FORM = (
    "moments of an activation that have no closed form here: at three tokens and more those of polynomials alone have "
    "one. Take a polynomial, or products at two tokens"
)


class NoFormulasError(NoLimitError):
    """The index algebra has no place for a block, whose limit may have numbers by the expansion of one layer."""


class EntangledError(NoLimitError):
    """Functions of scalars meet others of the same `matrices`, and have no mean apart from them.

    As weights of order 1 all of them may have one, taken over their scalars at once.
    """

    def __init__(self, message: str, matrices: Iterable[int]) -> None:
        super().__init__(message)
        self.matrices = frozenset(matrices)


class LargeWeightError(NoLimitError):
    """Functions of scalars of order 1, of some `matrices`, where they alone are more than 1/n, or make noise.

    As factors they have a mean of their own, which may vanish, and covariances.
    """

    def __init__(self, message: str, matrices: Iterable[int]) -> None:
        super().__init__(message)
        self.matrices = frozenset(matrices)


def no_central_limit(name: str) -> NoFormulasError:
    """The refusal of an average in a weight of order 1 that is not Gaussian of mean zero."""
    return NoFormulasError(
        f"not covered: `{name}`, of order 1, is read by a function that is not smooth on its scale, and is no average "
        "of mean zero of products with the state alone; its limit law is not known."
    )


def too_random(name: str) -> NoLimitError:
    """The refusal of an average in a weight of order 1 that no central limit theorem makes Gaussian."""
    return NoLimitError(
        f"not covered: the fluctuations of `{name}` are larger than n^(-1/2), or have no closed form; they are "
        "Gaussian where the width that is averaged over grows."
    )


def need_fresh(lowering: Lowering, position: int) -> None:
    """Refuse a function of a product whose operand is not the state, if no polynomial: its law is not Gaussian."""
    program = lowering.program
    if lowering.reading.operand(position)[1].source != program.state:
        raise NoFormulasError(
            f"{lowering.where}: the activation acts on `{program[position].name}`, a matrix times a vector that is "
            "itself random in this block; its law is Gaussian only for a matrix times the state, and beside that "
            "polynomials alone are covered. Make two blocks of it and tp.stack them."
        )


def refuse_vectors(lowering: Lowering, expr: Expr) -> None:
    """Refuse nonlinear functions of vectors that are no functions of one dense layer."""
    program = lowering.program
    vectors = [e for e in lowering.reading.inlined(expr).atoms(Entry) if program[e.source].width]
    if any(e.source == program.state for e in vectors):
        state = program[program.state or 0].name
        lowering.fail(
            f"not closed: a nonlinear function of the state `{state}` itself. Given the state its entries are fixed "
            f"numbers, so that the next covariance is no function of V; put a matrix between, as in f(W @ {state})."
        )
    if vectors:
        names = ", ".join(sorted({program[e.source].name for e in vectors}))
        raise NoFormulasError(
            f"{lowering.where}: not covered: a nonlinear function of several dense layers or tokens, or of constant "
            f"arrays beside them ({names}); use a function of one matrix times the state."
        )
