"""derive(): a program and a regime in, the result class of the regime out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, overload

from tplimits import regimes
from tplimits.errors import NoLimitError, ProgramError, TplimitsError, shown
from tplimits.law.effort import deep
from tplimits.law.hypotheses.fluctuation import is_place
from tplimits.law.hypotheses.universality import refuse_unestablished
from tplimits.program.language.without_names import without_names
from tplimits.program.nodes.given import names_of
from tplimits.program.nodes.kinds import InitialVector
from tplimits.program.nodes.laws import GIVEN
from tplimits.program.nodes.program import Program
from tplimits.program.parts import derivation_begins
from tplimits.program.room import with_room
from tplimits.regimes.protocol import Limit, Regime
from tplimits.regimes.width.limit import Width, WidthLimit

if TYPE_CHECKING:
    from tplimits.regimes.depth.limit import CovarianceSDE, Proportional
    from tplimits.regimes.finite_width.limit import FiniteWidth, FiniteWidthLimit
    from tplimits.regimes.kernels.limit import KernelLimit, Kernels
    from tplimits.regimes.training.feature_learning import MaximalLimit, MaximalUpdate
    from tplimits.regimes.training.operator import NeuralTangent, TangentLimit


@overload
def derive(program: Program, regime: Width | None = None, *, assume: Sequence[str] = ()) -> WidthLimit: ...


@overload
def derive(program: Program, regime: FiniteWidth, *, assume: Sequence[str] = ()) -> FiniteWidthLimit: ...


@overload
def derive(program: Program, regime: Proportional, *, assume: Sequence[str] = ()) -> CovarianceSDE: ...


@overload
def derive(program: Program, regime: Kernels, *, assume: Sequence[str] = ()) -> KernelLimit: ...


@overload
def derive(program: Program, regime: MaximalUpdate, *, assume: Sequence[str] = ()) -> MaximalLimit: ...


@overload
def derive(program: Program, regime: NeuralTangent, *, assume: Sequence[str] = ()) -> TangentLimit: ...


@overload
def derive(program: Program, regime: Regime, *, assume: Sequence[str] = ()) -> Limit: ...


def derive(program: Program, regime: Regime | None = None, *, assume: Sequence[str] = ()) -> Any:
    """The limit of a program: of infinite width, or of depth proportional to width for a block.

    >>> import tplimits as tp
    >>> @tp.program
    ... def gram(W: tp.Matrix, x: tp.Vector):
    ...     return tp.avg(x * (W.T @ (W @ x)))
    >>> derive(gram).scalar("return")
    1

    `assume` names doubts that the caller takes on himself, as `evaluate` names them: a second moment or the sign of an
    argument that the analysis does not reach, or that matrices whose entries are not normal have the limits of normal
    ones ("universality").  The limit repeats them.  Limits of depth have none.

    Raises ProgramError for what is not a program, NoLimitError where a hypothesis of the limit fails.
    """
    if not isinstance(program, Program):
        raise ProgramError(f"derive() takes a program made by @tp.program, not {type(program).__name__}.")
    asked = Width() if regime is None else regime
    if not isinstance(asked, Regime) or isinstance(asked, type):
        known = ", ".join(f"tp.{kind.__name__}" for kind, _ in regimes.known.REGIMES)
        raise ProgramError(f"derive() knows the regimes {known}, not {shown(regime)}.")
    _refuse_unnamed(program, asked)
    if asked.takes != _kind(program):
        raise ProgramError(
            f"`{program.name}` is no {asked.takes}: tp.{type(asked).__name__}() takes {_MADE[asked.takes]}."
        )
    _refuse_given(program)
    _refuse_places(program, asked)
    for why in getattr(program, "unlike", ()):  # an imported model says what no limit reads of it
        raise NoLimitError(why)
    names = names_of("assume", assume, ProgramError)
    derivation_begins()
    refuse_unestablished(program, names, asked.takes == "block")
    with deep(program.name, NoLimitError):
        limit = _limit(asked, program)
    return limit.assuming(names) if names else limit


@with_room
def _limit(regime: Regime, program: Program) -> Limit:
    """The limit, of the program in other words where it has none in its own: names have no say in it."""
    try:
        return regime.derive(program)
    except NoLimitError as refused:
        with suppress(TplimitsError):
            written = without_names(program, str(refused))
            if len(written) < len(program) and not program.parts:
                return regime.derive(written)
        raise


#: how each kind of program is made
_MADE = {
    "network": "a function of tp.Input made by @tp.network",
    "block": "one layer of a deep network, made by @tp.block from a function of a tp.State",
    "program": "a program made by @tp.program",
}


def _refuse_given(program: Program) -> None:
    """Numbers along a width that are given one by one have no ket."""
    for s in program:
        if isinstance(s, InitialVector) and s.law.shape == GIVEN:
            raise NoLimitError(
                f"`{s.name}` is given numbers along the width {s.over}, not drawn: how they look when {s.over} "
                "grows is not known. Replace it by a vector with a law, or leave it out."
            )


def _refuse_places(program: Program, regime: Regime) -> None:
    """At order 1/n averages over places of neurons have other errors than those of independent entries."""
    for s in program:
        if regime.takes == "block" and isinstance(s, InitialVector) and is_place(s):
            raise NoLimitError(
                f"`{s.name}` holds places of neurons: averages over them do not fluctuate, and layers share them, "
                "while drift and noise of a layer are those of independent entries drawn anew. Leave it out, or take "
                "another regime."
            )


def _kind(program: Program) -> str:
    return "block" if program.state is not None else "network" if program.is_network else "program"


def _refuse_unnamed(program: Program, regime: Regime) -> None:
    """A block or a network has several limits: the regime has to be said."""
    known = _kind(program)
    if known == "program" or regime.takes != "program":
        return
    if known == "block":
        raise ProgramError(
            f"`{program.name}` is a block, one layer of a deep network; say in which regime: "
            f"tp.derive({program.name}, tp.Proportional()) for depth proportional to width."
        )
    raise ProgramError(
        f"`{program.name}` is a network; say in which regime: tp.derive({program.name}, tp.Kernels()) for the "
        "kernels at initialisation, tp.NeuralTangent(optimizer) or tp.MaximalUpdate(optimizer) for training."
    )
