"""The functions a program is written with; here those on finite axes, constants and widths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy
from sympy import Integer

from tplimits.errors import shown
from tplimits.program.language.averages import avg, neuron
from tplimits.program.language.axes import axis_names, need_axis
from tplimits.program.language.entrywise import (
    abs,
    clip,
    cos,
    elementwise,
    erf,
    exp,
    expect,
    gelu,
    leaky_relu,
    log,
    maximum,
    minimum,
    relu,
    sigmoid,
    sign,
    sin,
    softplus,
    sqrt,
    step,
    stop_gradient,
    tanh,
    where,
)
from tplimits.program.language.quantities import Quantity
from tplimits.program.language.refusals import Refusals
from tplimits.program.language.signatures import stated
from tplimits.program.language.tracing import active, exact, fail
from tplimits.program.language.values import Neuron, Value, sum_over
from tplimits.program.nodes.entries import ArrayEntry, N, size_symbol, width_symbol
from tplimits.program.nodes.listed import array_of
from tplimits.program.nodes.stated import IndexTable

n = Quantity(N)


def _over(value: Any, over: Any, action: str) -> tuple[Value, tuple[str, ...]]:
    """A value and the finite axes to work on, checked."""
    if not isinstance(value, Value):
        what = value.describe() if isinstance(value, Refusals) else f"a value of type {type(value).__name__}"
        fail(f"tp.{action} of {what}", "it takes a value of the program with a finite axis")
    if isinstance(over, Neuron):
        fail(f"tp.{action} over the neuron {over.name}", "neurons are averaged by tp.avg(…, over=β)")
    axes = axis_names(over, f"tp.{action}")
    for axis in axes:
        need_axis(axis, value.here().axes, f"tp.{action}", value.describe())
    return value, axes


@stated("tp.sum")
def sum(value: Any, over: str | Iterable[str]) -> Value:
    """The sum over one finite axis, or several.

    >>> import tplimits as tp
    >>> from tplimits.program.language.trace import program
    >>> @program
    ... def total(x: tp.Vector["token"]):
    ...     return tp.sum(x, over="token")
    >>> total.run(n=1, x=[[1], [2], [4]])["return"].tolist()
    [7.0]
    """
    value, axes = _over(value, over, "sum")
    for axis in axes:
        value = sum_over(value, axis)
    return value


@stated("tp.mean")
def mean(value: Any, over: str | Iterable[str]) -> Value:
    """The mean over one finite axis, or several; the mean over a width is `tp.avg`.

    >>> import tplimits as tp
    >>> from tplimits.program.language.trace import program
    >>> @program
    ... def mean(x: tp.Vector["token"]):
    ...     return tp.mean(x, over="token")
    >>> mean.run(n=1, x=[[1], [2], [6]])["return"].tolist()
    [3.0]
    """
    value, axes = _over(value, over, "mean")
    for axis in axes:
        value = sum_over(value, axis) / size_symbol(axis)
    return value


@stated("tp.softmax")
def softmax(value: Any, over: str | Iterable[str]) -> Value:
    """exp(value) / Σ exp(value) along one finite axis, or several together.

    >>> import tplimits as tp
    >>> from tplimits.program.language.trace import program
    >>> @program
    ... def weights(x: tp.Scalar["key"]):
    ...     return tp.softmax(x, over="key")
    >>> weights.run(n=1, x=[0, 0, 0, 0])["return"].tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    value, axes = _over(value, over, "softmax")
    weights = exp(value)
    total = weights
    for axis in axes:
        total = sum_over(total, axis)
    return weights / total


@stated("tp.constant")
def constant(array: Any, axes: Iterable[str] = ()) -> Value:
    """A constant array over finite axes, named in order.

    >>> import tplimits as tp
    >>> from tplimits.program.language.trace import program
    >>> @program
    ... def weighted(x: tp.Vector["token"]):
    ...     return tp.sum(tp.constant([1, 10], axes="token") * x, over="token")
    >>> weighted.run(n=1, x=[[1], [2]])["return"].tolist()
    [21.0]
    """
    trace = active()
    if trace is None:
        fail("tp.constant outside a program", "use it inside a function decorated with @tp.program")
    try:
        values = array_of(array)
    except Exception as error:  # rows of different lengths, too much, and the code of users
        why = str(error) or "it does not fit into memory"
        fail(f"tp.constant of something that is no array ({why})", "give an array of numbers")
    names = axis_names(axes, "tp.constant")
    if values.dtype != bool and not numpy.issubdtype(values.dtype, numpy.number):
        fail(f"tp.constant of an array of {values.dtype}", "give an array of numbers")
    if numpy.iscomplexobj(values):
        fail("tp.constant of a complex array", "programs are real")
    if values.ndim != len(names):
        fail(
            f"tp.constant of an array with {values.ndim} dimensions and axes {names}",
            "give one name for each dimension",
        )
    values = values.astype(numpy.float64)
    if not numpy.isfinite(values).all():
        fail("tp.constant of an array with NaN or infinite entries", "constants must be finite numbers")
    for name, size in zip(names, values.shape, strict=True):
        trace.set_size(trace.declare(name), size)
    if not names:
        return Value(trace, exact(float(values)), None, ())
    number = Integer(trace.add_array(IndexTable(values, names)))
    return Value(trace, ArrayEntry(number, *trace.indices(names)), None, names)


@stated("tp.size")
def size(axis: str) -> Quantity:
    """The size of a finite axis, as a symbol until it is known.

    >>> size("token")
    |token|
    """
    trace = active()
    if not isinstance(axis, str) or not axis.isprintable() or not axis:
        fail(f"tp.size({shown(axis)})", 'give the name of a finite axis, as in tp.size("token")')
    if trace is not None and axis not in trace.axes:
        fail(f"tp.size({axis!r})", f"the finite axes so far are ({', '.join(trace.axes)})")
    return Quantity(size_symbol(axis))


@stated("tp.width")
def width(name: str) -> Quantity:
    """A width as a symbol; `tp.n` is `tp.width("n")`.

    >>> width("n") == n
    True
    """
    trace = active()
    if not isinstance(name, str) or not name.isprintable() or not name:
        fail(f"tp.width({shown(name)})", 'give the name of a width, as in tp.width("k")')
    if trace is not None and name not in trace.widths:
        fail(f"tp.width({name!r})", f"the widths of this program are ({', '.join(trace.widths)})")
    return Quantity(width_symbol(name))


__all__ = [
    "abs",
    "avg",
    "clip",
    "constant",
    "cos",
    "elementwise",
    "erf",
    "exp",
    "expect",
    "gelu",
    "leaky_relu",
    "log",
    "maximum",
    "mean",
    "minimum",
    "n",
    "neuron",
    "relu",
    "sigmoid",
    "sign",
    "sin",
    "size",
    "softmax",
    "softplus",
    "sqrt",
    "step",
    "stop_gradient",
    "sum",
    "tanh",
    "where",
    "width",
]
