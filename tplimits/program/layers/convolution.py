"""Convolutions: a product with weights for each tap, and the sum over taps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tplimits.program.language.tracing import stated
from tplimits.program.layers.dense import times
from tplimits.program.layers.windows import Spreading, grids, positions, read, sliding

if TYPE_CHECKING:
    from tplimits.program.language.values import Value


@stated("tp.layers.conv1d")
def conv1d(
    x: Any,
    weights: Any,
    *,
    over: Any,
    taps: Any,
    stride: Any = 1,
    padding: str = "SAME",
    dilation: Any = 1,
    to: Any = None,
) -> Value:
    """y_i = Σ_τ W_τ x_{s i + δ τ − p} along one axis, without a factor: 1/√(taps · channels) stands in the program.

    weights: tp.Matrix["n", "n", "tap"] of vectors, tp.Vector["tap"] for a depthwise convolution, neuron by neuron, and
    tp.Vector["d", "tap"] of data with d channels; further axes of weights and x (groups) are matched.
    over: the positions and their number, {"at": 32}, or "at" where it is known.
    taps: {"tap": 3}.  padding: "SAME" (zeros, ⌈size/stride⌉ places, the odd one behind), "VALID", "CIRCULAR".
    to: the axis of the result, else `at` where the size stays and `at_16` where it becomes 16.

    ProgramError for weights without the taps or channels, a stride or dilation that is no whole number from 1, an
    unknown padding, a window that does not fit.

    >>> import tplimits as tp
    >>> @tp.network
    ... def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], v: tp.Vector):
    ...     x = tp.layers.conv1d(ξ, U, over={"at": 4}, taps={"tap": 3}, stride=2)
    ...     return v * tp.mean(tp.relu(x), over="at_2")
    >>> net.size("at_2")
    2
    """
    return _convolution("conv1d", x, weights, {"over": over, "taps": taps}, (1, stride, padding, dilation), to)


@stated("tp.layers.conv2d")
def conv2d(
    x: Any,
    weights: Any,
    *,
    over: Any,
    taps: Any,
    stride: Any = 1,
    padding: str = "SAME",
    dilation: Any = 1,
    to: Any = None,
) -> Value:
    """As conv1d along two directions: two axes, or one axis that holds an image row by row.

    over: {"row": 32, "column": 32} with taps {"down": 3, "across": 3}, or {"at": (32, 32)} with {"tap": (3, 3)}.
    stride, dilation: a number, or one for each direction.  to: as many names as `over` has.

    >>> import tplimits as tp
    >>> @tp.network
    ... def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], v: tp.Vector["at_4"]):
    ...     x = tp.layers.conv2d(ξ, U, over={"at": (4, 4)}, taps={"tap": (3, 3)}, padding="VALID")
    ...     return tp.sum(v * tp.relu(x), over="at_4") / 2
    >>> tp.derive(net, tp.Kernels()).evaluate([[[1.0] * 16]]).nngp.item()
    4.5
    """
    return _convolution("conv2d", x, weights, {"over": over, "taps": taps}, (2, stride, padding, dilation), to)


@stated("tp.layers.conv_transpose1d")
def conv_transpose1d(
    x: Any,
    weights: Any,
    *,
    over: Any,
    taps: Any,
    stride: Any = 1,
    padding: str = "SAME",
    dilation: Any = 1,
    to: Any = None,
) -> Value:
    """y_j = Σ W_τ x_i over taps and places with s i + δ τ − p = j: conv1d transposed, from places of y to those of x.

    Arguments are those of conv1d.  There are size · stride places of y, (size − 1) · stride + δ (taps − 1) + 1 of them
    for padding="VALID".

    >>> import tplimits as tp
    >>> @tp.network
    ... def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], v: tp.Vector["at_4"]):
    ...     x = tp.layers.conv_transpose1d(ξ, U, over={"at": 2}, taps={"tap": 2}, stride=2)
    ...     return tp.sum(v * tp.relu(x), over="at_4")
    >>> tp.derive(net, tp.Kernels()).evaluate([[[1.0, 2.0]]]).nngp.item()
    5.0
    """
    moves = (1, stride, padding, dilation)
    return _convolution("conv_transpose1d", x, weights, {"over": over, "taps": taps}, moves, to, transposed=True)


@stated("tp.layers.conv_transpose2d")
def conv_transpose2d(
    x: Any,
    weights: Any,
    *,
    over: Any,
    taps: Any,
    stride: Any = 1,
    padding: str = "SAME",
    dilation: Any = 1,
    to: Any = None,
) -> Value:
    """As conv_transpose1d along two directions, with the arguments of conv2d.

    >>> import tplimits as tp
    >>> @tp.network
    ... def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], v: tp.Vector):
    ...     x = tp.layers.conv_transpose2d(ξ, U, over={"at": (2, 2)}, taps={"tap": (2, 2)}, stride=2)
    ...     return v * tp.mean(tp.relu(x), over="at_16")
    >>> net.size("at_16")
    16
    """
    moves = (2, stride, padding, dilation)
    return _convolution("conv_transpose2d", x, weights, {"over": over, "taps": taps}, moves, to, transposed=True)


def _convolution(
    what: str, x: Any, weights: Any, axes: dict[str, Any], moves: tuple[Any, ...], to: Any, transposed: bool = False
) -> Value:
    rank, stride, padding, dilation = moves
    at = positions(what, x, axes["over"], rank)
    windows = grids(what, "taps", axes["taps"], x, rank)
    how = sliding(what, rank, stride, padding, dilation)
    seen, out = read(x, at, windows, Spreading(**vars(how)) if transposed else how, to)
    return times(what, seen, weights, over=out, taps=tuple(windows))
