"""Pools by sums and means of windows, of all positions, and positions repeated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.program.language.operations import mean, sum
from tplimits.program.language.tracing import stated
from tplimits.program.layers.windows import Grids, directions, flat, named, positions, read, resized, sliding, whole

if TYPE_CHECKING:
    from tplimits.program.language.values import Value


@stated("tp.layers.sum_pool")
def sum_pool(x: Any, *, over: Any, window: Any, stride: Any = None, padding: str = "VALID", to: Any = None) -> Value:
    """y_i = Σ_τ x_{s i + τ − p}: the sum of each window, side by side where no stride is given.

    over: as in conv1d and conv2d, {"at": 32}, {"at": (32, 32)} or {"row": 32, "column": 32}; window, stride: a number,
    or one for each direction.  Zeros outside count.

    >>> import tplimits as tp
    >>> from tplimits.program.language.trace import program
    >>> @program
    ... def pairs(x: tp.Vector["at"]):
    ...     return tp.layers.sum_pool(x, over={"at": 4}, window=2)
    >>> pairs.run(n=1, x=[[1], [2], [3], [4]])["return"].ravel().tolist()
    [3.0, 7.0]
    """
    return _pooled("sum_pool", x, over, (window, stride, padding), to)[0]


@stated("tp.layers.avg_pool")
def avg_pool(x: Any, *, over: Any, window: Any, stride: Any = None, padding: str = "VALID", to: Any = None) -> Value:
    """The mean of each window, zeros outside counted: sum_pool divided by the places of a window.

    >>> import tplimits as tp
    >>> from tplimits.program.language.trace import program
    >>> @program
    ... def pairs(x: tp.Vector["at"]):
    ...     return tp.layers.avg_pool(x, over={"at": 4}, window=2)
    >>> pairs.run(n=1, x=[[1], [2], [3], [4]])["return"].ravel().tolist()
    [1.5, 3.5]
    """
    total, many = _pooled("avg_pool", x, over, (window, stride, padding), to)
    return total / many


def _pooled(what: str, x: Any, over: Any, moves: tuple[Any, Any, Any], to: Any) -> tuple[Value, int]:
    """The sums of windows, and how many places one has."""
    at = positions(what, x, over)
    rank = directions(at)
    sizes = whole(what, "window", moves[0], rank)
    how = sliding(what, rank, sizes if moves[1] is None else moves[1], moves[2])
    windows: Grids = {}
    for axis, grid in at.items():
        own, sizes = sizes[: len(grid)], sizes[len(grid) :]
        windows[f"{axis}_in_{'x'.join(map(str, own))}"] = own
    seen, _ = read(x, at, windows, how, to)
    return sum(seen, over=tuple(windows)), math.prod(map(math.prod, windows.values()))


@stated("tp.layers.global_pool")
def global_pool(x: Any, *, over: Any) -> Value:
    """The mean over all positions, over one axis or several.

    >>> import tplimits as tp
    >>> from tplimits.program.language.trace import program
    >>> @program
    ... def pooled(x: tp.Vector["row", "column"]):
    ...     return tp.layers.global_pool(x, over=("row", "column"))
    >>> pooled.run(n=1, x=[[[1], [2]], [[3], [6]]])["return"].tolist()
    [3.0]
    """
    return mean(x, over=over)


@stated("tp.layers.upsample")
def upsample(x: Any, *, over: Any, factor: Any, to: Any = None) -> Value:
    """Every position `factor` times along each direction: y_i = x_{⌊i/factor⌋}.

    >>> import tplimits as tp
    >>> from tplimits.program.language.trace import program
    >>> @program
    ... def twice(x: tp.Vector["at"]):
    ...     return tp.layers.upsample(x, over={"at": 2}, factor=2)
    >>> twice.run(n=1, x=[[1], [2]])["return"].ravel().tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    at = positions("upsample", x, over)
    factors = whole("upsample", "factor", factor, directions(at))
    for (axis, grid), name in zip(at.items(), named("upsample", to, at), strict=True):
        own, factors = factors[: len(grid)], factors[len(grid) :]
        table = flat([numpy.arange(s * f)[None, :] // f for s, f in zip(grid, own, strict=True)], grid)[0]
        x = x.take(**{axis: table}, axes=name or resized(x, axis, math.prod(grid), len(table)))
    return x
