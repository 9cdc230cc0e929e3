"""Blocks: one layer of a deep network as a program, state in, state out; and stacks of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tplimits.errors import ProgramError
from tplimits.program.language.annotations import Kind
from tplimits.program.language.trace import definition, traced
from tplimits.program.nodes.program import Program


def block(function: Callable[..., Any]) -> Program:
    """Trace one layer of a deep network: a function that takes a `tp.State` and returns the next one.

    Matrices, vectors and scalars of the signature are drawn afresh in every layer.

    >>> import tplimits as tp
    >>> @block
    ... def linear(x: tp.State["token"], W: tp.Matrix):
    ...     return W @ x
    >>> linear.run(n=2, W=[[1, 1], [0, 1]], x=[[1, 2]])["return"].tolist()
    [[3.0, 2.0]]
    """
    place = definition(function)
    return traced(function, "@tp.block", refuse=lambda found: _refuse_no_block(found, place))


def _refuse_no_block(found: Program, place: str) -> None:
    """ProgramError unless a traced function takes one state and returns the next."""
    if found.state is None:
        raise ProgramError(f'{place}: a block takes one state; annotate an argument tp.State["token"].')
    if found.inputs:
        raise ProgramError(f"{place} takes a tp.Input; that is for @tp.network: annotate the argument tp.Scalar.")
    state = found[found.state]
    if len(found.returns) != 1 or found.returns_tuple:
        raise ProgramError(f"{place} returns {len(found.returns)} values; a block returns the next state alone.")
    result = found[found.returns[0]]
    if result.width != state.width or set(result.axes) != set(state.axes):
        kind = f"a vector over `{result.width}`" if result.width else "a scalar"
        repair = "."
        if result.width not in (None, state.width):
            repair = (
                ": a layer that leaves the width and one that comes back are one block, as in "
                f"`down @ (up @ {state.name})` with up over ({result.width}, {state.width}) and down over "
                f"({state.width}, {result.width})."
            )
        raise ProgramError(
            f"{place} returns {kind} with axes ({', '.join(result.axes)}); the next state is a vector over "
            f"`{state.width}` with axes ({', '.join(state.axes)}), as `{state.name}`{repair}"
        )


def stack(*blocks: Program) -> Program:
    """Blocks one after another as one block; constants of the same name are the same constant.

    >>> import tplimits as tp
    >>> @block
    ... def scaled(x: tp.State["token"], *, γ):
    ...     return γ * x
    >>> stack(scaled, scaled).run(n=1, x=[[1]], γ=2)["return"].tolist()
    [[4.0]]
    """
    for number, one in enumerate(blocks, start=1):
        if not isinstance(one, Program) or one.state is None:
            what = f"the program `{one.name}`" if isinstance(one, Program) else f"a value of type {type(one).__name__}"
            raise ProgramError(f"tp.stack(): argument {number} is {what}; it takes blocks made by @tp.block.")
    if not blocks:
        raise ProgramError("tp.stack() of no blocks; give it at least one.")
    first = blocks[0]
    assert first.state is not None

    def stacked(x: Any) -> Any:
        for one in blocks:
            assert one.state is not None
            x = one(**{one[one.state].name: x})
        return x

    stacked.__name__ = "_then_".join(one.name for one in blocks)
    kind = Kind("State", first[first.state].axes)
    parameter = inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
    stacked.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]
    parts = tuple(part for one in blocks for part in (one.parts or (one,)))
    return block(stacked).replace(parts=parts)
