"""Layers that are one product with weights: linear, and the rows of a table that data pick."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tplimits.program.language.axes import IndexValue
from tplimits.program.language.matrices import MatrixValue
from tplimits.program.language.operations import sum
from tplimits.program.language.tracing import fail, stated
from tplimits.program.language.values import Value
from tplimits.program.layers.windows import value


@stated("tp.layers.linear")
def linear(x: Any, weights: Any, bias: Any = None) -> Value:
    """W x + b of a vector x with weights W: tp.Matrix; Σ_d U_d ξ_d + b of numbers ξ with weights U: tp.Vector["d"].

    Axes that ξ and U share are summed; those of a vector and a matrix (heads, groups) are matched entry by entry.
    ProgramError where the channels of weights and x differ.

    >>> import tplimits as tp
    >>> @tp.network
    ... def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector):
    ...     x = tp.relu(tp.layers.linear(ξ, U) / tp.sqrt(tp.size("d")))
    ...     return v * tp.relu(tp.layers.linear(x, W, b))
    >>> tp.derive(net, tp.Kernels()).evaluate([[1.0, 1.0]]).nngp.item()
    0.75
    """
    product = times("linear", value("linear", x), weights)
    return product if bias is None else product + bias


@stated("tp.layers.embedding")
def embedding(x: Any, table: Any) -> Value:
    """The rows of a table that data pick: E[x_t] for x: tp.Input["token"].of("vocab") and E with the axis `vocab`.

    >>> import tplimits as tp
    >>> @tp.network
    ... def net(x: tp.Input["token"].of("vocab"), E: tp.Vector["vocab"], v: tp.Vector):
    ...     return v * tp.mean(tp.layers.embedding(x, E), over="token")
    >>> tp.derive(net.bind(vocab=3), tp.Kernels()).evaluate([[0, 1], [1, 1]]).nngp.tolist()
    [[0.5, 0.5], [0.5, 1.0]]
    """
    if not isinstance(x, IndexValue):
        what = x.describe() if isinstance(x, (Value, MatrixValue)) else f"a value of type {type(x).__name__}"
        fail(f"embedding of {what}", 'it looks indices up, which are data: x: tp.Input["token"].of("vocab")')
    if isinstance(table, MatrixValue):
        fail(f"embedding in {table.describe()}", f'a table has one vector for each index: tp.Vector["{x.of}"]')
    return value("embedding in a table", table).sel(**{x.of: x})


def times(what: str, x: Value, weights: Any, over: Collection[str] = (), taps: Collection[str] = ()) -> Value:
    """Weights times x, summed over taps and, of numbers x, over all axes that both have but the positions `over`.

    A vector of weights for each tap multiplies vectors neuron by neuron.
    """
    if not isinstance(weights, (Value, MatrixValue)):
        fail(f"{what} with weights of type {type(weights).__name__}", "weights are arguments of the network")
    missing = [tap for tap in taps if tap not in weights.axes]
    if missing:
        fail(f"{what} with {weights.describe()} for weights", f"they have no axis `{missing[0]}` for the taps")
    if isinstance(weights, MatrixValue):
        if x.width is None:
            fail(
                f"{what} of {x.describe()} with a matrix for weights",
                'weights of data are vectors, one for each channel: U: tp.Vector["d"]',
            )
        product = weights @ x
    elif x.width is not None:
        if not taps or weights.width != x.width:
            fail(
                f"{what} of {x.describe()} with {weights.describe()}",
                "weights of a vector are a tp.Matrix" + ("" if not taps else ", or a vector for each tap (depthwise)"),
            )
        product = weights * x
    else:
        channels = [a for a in x.axes if a not in over and a not in taps]
        shared = [a for a in channels if a in weights.axes]
        if not shared and (channels or not taps):
            fail(
                f"{what} of {x.describe()} with {weights.describe()} for weights",
                f"they share no channels; give the weights one of ({', '.join(channels)})",
            )
        product, taps = weights * x, (*shared, *taps)
    return sum(product, over=tuple(taps)) if taps else product
