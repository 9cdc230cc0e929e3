"""Networks: programs with data, trainable parameters and an output (Yang & Littwin, Def. 2.9.1).

    f = width^(−a_out) Σ_α x_α + shift

The readout vector x is what the function returns; the exponent a_out belongs to the parametrization (½ in NTP), so a
program leaves it open.

Blocks are one layer of a deep network as a program, state in, state out; stacks are made of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from tplimits.errors import ProgramError
from tplimits.program.language.annotations import Kind
from tplimits.program.language.refusals import Refusals
from tplimits.program.language.trace import definition, returned_values, traced
from tplimits.program.language.tracing import fail, stated
from tplimits.program.language.values import Value
from tplimits.program.nodes.program import Program


@dataclass(frozen=True, eq=False)
class Readout(Refusals):
    """The output of a network under construction: the sum of a vector's entries, plus scalars."""

    vector: Value
    shift: Value | None = None
    takes_scalars: ClassVar[bool] = True

    def __add__(self, other: Any) -> Readout:
        if isinstance(other, Readout):
            fail("the sum of two readouts", "add the vectors: tp.readout(x + y)")
        if not isinstance(other, Value) or other.width is not None or other.neurons:
            what = other.describe() if isinstance(other, Value) else f"a value of type {type(other).__name__}"
            fail(f"a readout plus {what}", "add a scalar parameter, such as 0.1 * b with b: tp.Scalar")
        return Readout(self.vector, other if self.shift is None else self.shift + other)

    __radd__ = __add__

    def _no_arithmetic(self, *_: Any) -> NoReturn:
        fail(
            "arithmetic with a readout",
            "only scalars are added to it; multiply the vector, tp.readout(2 * x), or write a tp.Head of it",
        )

    __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no_arithmetic
    __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = __matmul__ = __rmatmul__ = _no_arithmetic

    def describe(self) -> str:
        return "a readout"


@stated("tp.readout")
def readout(vector: Any) -> Readout:
    """The sum of a vector's entries as the output of a network; scalars may be added to it.

    >>> import tplimits as tp
    >>> @tp.network
    ... def shifted(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, b: tp.Scalar):
    ...     return tp.readout(v * tp.relu(tp.sum(U * ξ, over="d"))) + 0.1 * b
    >>> len(shifted.returns)
    2
    """
    if not isinstance(vector, Value) or vector.width is None or vector.neurons:
        what = vector.describe() if isinstance(vector, Value) else f"a value of type {type(vector).__name__}"
        fail(f"tp.readout of {what}", "a network reads out a vector: tp.readout(v * x)")
    return Readout(vector)


def network(function: Callable[..., Any]) -> Program:
    """Trace a network: data annotated `tp.Input`, trainable parameters, and the vector whose entries are summed.

    Every Matrix, Vector and Scalar argument is a trainable parameter; scalars start at N(0, 1) unless a value is given.

    >>> import tplimits as tp
    >>> @tp.network
    ... def shallow(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    ...     return v * tp.relu(tp.sum(U * ξ, over="d"))
    >>> [shallow[p].name for p in shallow.inputs], len(shallow.arguments)
    (['ξ'], 3)

    Raises ProgramError where the function is no network.
    """
    place = definition(function)
    return traced(function, "@tp.network", _parts, lambda found: _refuse_no_network(found, place))


def _refuse_no_network(found: Program, place: str) -> None:
    """ProgramError unless a traced function takes data and returns one vector, and maybe a scalar to add."""
    if found.state is not None:
        raise ProgramError(f"{place} takes a tp.State; decorate it by @tp.block, or annotate the argument tp.Input.")
    if not found.inputs:
        raise ProgramError(f'{place} takes no data; annotate an argument tp.Input["d"].')
    if found.returns_tuple:
        raise ProgramError(
            f"{place} returns {len(found.returns)} values; a network returns one vector, or tp.readout(vector) + a "
            "scalar. Several outputs are axes of that vector."
        )
    vector = found[found.returns[0]]
    if vector.width is None:
        raise ProgramError(
            f"{place} returns a scalar; a network returns the vector whose entries are summed, without tp.avg."
        )


def _parts(result: Any) -> dict[str, Any]:
    """What a network returns as named values: the readout vector, and the scalar added to it."""
    if not isinstance(result, Readout):
        return returned_values(result)
    return {"return": result.vector, **({} if result.shift is None else {"shift": result.shift})}


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
