"""The functions a program is written with: averages over neurons, and those on finite axes, constants and widths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy
import sympy
from sympy import Expr, Integer, Symbol

from tplimits.errors import shown
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
from tplimits.program.language.tracing import active, exact, fail, stated
from tplimits.program.language.values import Neuron, Origin, Value, sum_over
from tplimits.program.nodes.entries import OWN, ArrayEntry, N, NeuronMean, size_symbol, slot_symbol, width_symbol
from tplimits.program.nodes.given import array_of
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


@stated("tp.neuron")
def neuron(name: str) -> Neuron:
    """A named neuron index: with β = tp.neuron("β"), x[β] is x at another neuron.

    >>> neuron("β")
    Neuron(name='β')
    """
    if not isinstance(name, str) or not name.isprintable() or not name:
        fail(f"tp.neuron({shown(name)})", 'give the index a name: tp.neuron("β")')
    return Neuron(name)


@stated("tp.avg")
def avg(value: Any, over: Neuron | Sequence[Neuron] | None = None) -> Value:
    """The mean over the width of a value, or over named neuron indices.

    `tp.avg(e)` = (1/n) Σ_α e_α; `tp.avg(e, over=β)` = (1/n) Σ_β e(β), a vector if e also has its own
    neuron index; `over=(β, γ)` averages both.  ProgramError when there is nothing to average over.

    >>> import tplimits as tp
    >>> from tplimits.program.language.trace import program
    >>> @program
    ... def order_two(u: tp.Vector, v: tp.Vector):
    ...     β = tp.neuron("β")
    ...     return tp.avg(tp.tanh(u * v[β]), over=β)
    >>> order_two.run(n=2, u=[0, 1], v=[0, 0])["return"].tolist()
    [0.0, 0.0]
    """
    if not isinstance(value, Value):
        what = value.describe() if isinstance(value, Refusals) else f"a value of type {type(value).__name__}"
        fail(f"tp.avg of {what}", "average a vector of the program")
    trace = value.here().trace
    if over is None:
        if value.width is None:
            repair = "say over which neuron: tp.avg(…, over=β)" if value.neurons else "a scalar needs no average"
            if value.axes:
                repair += "; the mean over a finite axis is tp.mean(…, over=…)"
            fail(f"tp.avg of {value.describe()}", repair)
        if not value.neurons:
            return _average(value)
        # the own neuron becomes a named one, so that it is averaged together with those that are still free
        own = Symbol(f"own neuron {trace.counter()}", integer=True)
        trace.neuron_width[own], trace.neuron_name[own] = value.width, "α"
        return _average_named(value.derived(value.expr.xreplace({OWN: own}), width=None), (own,))
    neurons = tuple(over) if isinstance(over, (tuple, list)) else (over,)
    if not neurons or not all(isinstance(b, Neuron) for b in neurons) or len(set(neurons)) != len(neurons):
        fail(f"tp.avg(over={shown(over)})", 'over= takes tp.neuron("β") or a tuple of them; finite axes use tp.mean')
    for b in neurons:
        if b.symbol not in value.neurons:
            fail(f"tp.avg over {b.name} of {value.describe()}", f"index a vector by it first: x[{b.name}]")
    return _average_named(value, tuple(b.symbol for b in neurons))


def _average(vector: Value) -> Value:
    return Value(vector.trace, sympy.S.Zero, None, vector.axes, origin=Origin("avg", (vector.entry(), vector.width)))


def _average_named(value: Value, symbols: tuple[Symbol, ...]) -> Value:
    trace = value.trace
    rest = value.neurons - set(symbols)
    if rest:
        # other named neurons are still free: wait, and fuse when the last of them is averaged
        dummies = []
        for symbol in symbols:
            dummy = Symbol(f"{symbol.name}′{trace.counter()}", integer=True)
            trace.neuron_width[dummy] = trace.neuron_width[symbol]
            trace.neuron_name[dummy] = trace.neuron_name[symbol]
            dummies.append(dummy)
        inner = value.expr.xreplace(dict(zip(symbols, dummies, strict=True)))
        return value.derived(NeuronMean(inner, *dummies), neurons=rest, waiting=True)
    # means that waited are linear in all that was done to them since: a mean of means is one mean over all of them
    integrand, hoisted = _hoist(value.expr)
    slots = (*symbols, *hoisted)
    width = value.width
    # an outer nonlinearity is a vector: (2.17) has an own neuron
    if width is None:  # a scalar: let the first neuron be the vector's own, then average it
        first, slots = slots[0], slots[1:]
        width = trace.neuron_width[first]
        integrand = integrand.xreplace({first: OWN})
        if not slots:
            return _average(value.derived(integrand, width=width, neurons=frozenset(), waiting=False))
    canonical = {s: slot_symbol(i + 1) for i, s in enumerate(slots)}
    origin = Origin(
        "outer",
        (
            integrand.xreplace(canonical),
            tuple(canonical.values()),
            tuple(trace.neuron_name[s] for s in slots),
            tuple(trace.neuron_width[s] for s in slots),
        ),
    )
    outer = Value(trace, sympy.S.Zero, width, value.axes, origin=origin, made_of=(value.uid,))
    return outer if value.width is not None else _average(outer)


def _hoist(expr: Expr) -> tuple[Expr, tuple[Symbol, ...]]:
    """Waiting means pulled out of sums and products: the integrand and the neurons they averaged."""
    found: list[Symbol] = []

    def walk(node: Expr) -> Expr:
        if not node.args or not node.has(NeuronMean):
            return node
        args = [walk(a) for a in node.args]
        if isinstance(node, NeuronMean):
            found.extend(a for a in args[1:] if a not in found)
            return args[0]
        return node.func(*args)

    return walk(expr), tuple(found)
