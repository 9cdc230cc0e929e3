"""derive(): a program and a regime in, the result class of the regime out."""

from __future__ import annotations

from tplimits.errors import NoLimitError, ProgramError
from tplimits.limit.recursion import deep
from tplimits.limit.width import derive_width
from tplimits.program.program import Program
from tplimits.results.width import Width, WidthLimit


def derive(program: Program, regime: Width | None = None) -> WidthLimit:
    """The infinite-width limit of a program.

    >>> import tplimits as tp
    >>> @tp.program
    ... def gram(W: tp.Matrix, x: tp.Vector):
    ...     return tp.avg(x * (W.T @ (W @ x)))
    >>> derive(gram).scalar("return")
    1

    Raises ProgramError for what is not a program, NoLimitError where a hypothesis of the limit fails.
    """
    if not isinstance(program, Program):
        raise ProgramError(f"derive() takes a program made by @tp.program, not {type(program).__name__}.")
    regime = regime if regime is not None else Width()
    if not isinstance(regime, Width):
        raise ProgramError(f"derive() knows the regime tp.Width, not {regime!r}.")
    if regime.infinite:
        raise ProgramError(
            f"tp.Width(infinite={regime.infinite!r}): finite axes stay finite in the width limit so far."
        )
    with deep(program.name, NoLimitError):
        return WidthLimit(program, derive_width(program))
