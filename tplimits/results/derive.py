"""derive(): a program and a regime in, the result class of the regime out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, overload

from tplimits.errors import NoLimitError, ProgramError
from tplimits.limit.recursion import deep
from tplimits.program.program import Program
from tplimits.results.kernels import KernelLimit, Kernels, derive_kernel_limit
from tplimits.results.proportional import CovarianceSDE, Proportional, derive_covariance
from tplimits.results.training.maximal import MaximalLimit, MaximalUpdate, derive_maximal_limit
from tplimits.results.training.tangent import NeuralTangent, TangentLimit, derive_tangent_limit
from tplimits.results.width import Width, WidthLimit, derive_width_limit


@overload
def derive(program: Program, regime: Width | None = None) -> WidthLimit: ...


@overload
def derive(program: Program, regime: Proportional) -> CovarianceSDE: ...


@overload
def derive(program: Program, regime: Kernels) -> KernelLimit: ...


@overload
def derive(program: Program, regime: MaximalUpdate) -> MaximalLimit: ...


@overload
def derive(program: Program, regime: NeuralTangent) -> TangentLimit: ...


def derive(
    program: Program, regime: Width | Proportional | Kernels | MaximalUpdate | NeuralTangent | None = None
) -> WidthLimit | CovarianceSDE | KernelLimit | MaximalLimit | TangentLimit:
    """The limit of a program: of infinite width, or of depth proportional to width for a block.

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
    if program.state is not None and not isinstance(regime, Proportional):
        raise ProgramError(
            f"`{program.name}` is a block, one layer of a deep network; say in which regime: "
            f"tp.derive({program.name}, tp.Proportional()) for depth proportional to width."
        )
    if isinstance(regime, (Kernels, MaximalUpdate, NeuralTangent)):
        found: KernelLimit | MaximalLimit | TangentLimit = _of_network(program, regime)
        return found
    if program.is_network:
        raise ProgramError(
            f"`{program.name}` is a network; say in which regime: tp.derive({program.name}, tp.Kernels()) for the "
            "kernels at initialisation, tp.NeuralTangent(optimizer) or tp.MaximalUpdate(optimizer) for training."
        )
    if isinstance(regime, Proportional):
        return _proportional(program, regime)
    regime = regime if regime is not None else Width()
    if not isinstance(regime, Width):
        raise ProgramError(f"derive() knows the regimes tp.Width and tp.Proportional, not {regime!r}.")
    if regime.infinite:
        raise ProgramError(
            f"tp.Width(infinite={regime.infinite!r}): finite axes stay finite in the width limit so far."
        )
    return derive_width_limit(program)


def _of_network(program: Program, regime: Kernels | MaximalUpdate | NeuralTangent) -> Any:
    if not program.is_network:
        raise ProgramError(
            f"`{program.name}` is no network: tp.{type(regime).__name__}() takes a function of tp.Input made by "
            "@tp.network."
        )
    with deep(program.name, NoLimitError):
        if isinstance(regime, Kernels):
            return derive_kernel_limit(program, regime)
        if isinstance(regime, MaximalUpdate):
            return derive_maximal_limit(program, regime)
        return derive_tangent_limit(program, regime)


def _proportional(program: Program, regime: Proportional) -> CovarianceSDE:
    if program.state is None:
        raise ProgramError(
            f"`{program.name}` is no block: tp.Proportional() takes one layer of a deep network, made by @tp.block "
            "from a function of a tp.State."
        )
    given = (regime.fixed,) if isinstance(regime.fixed, str) else regime.fixed or ()
    if not isinstance(given, Collection):
        raise ProgramError(f'tp.Proportional(fixed={given!r}): give names of widths, as in fixed=("k",).')
    fixed = tuple(given)
    for width in fixed:
        if width == "n" or width not in program.widths:
            others = ", ".join(w for w in program.widths if w != "n") or "none"
            raise ProgramError(
                f"tp.Proportional(fixed=({width!r},)): the widths of `{program.name}` besides n: {others}."
            )
    with deep(program.name, NoLimitError):
        return derive_covariance(program, fixed)
