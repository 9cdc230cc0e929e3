"""Averages over neurons: `tp.avg`, named neuron indices, and the fusion of nested linear averages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
from sympy import Expr, Symbol

from tplimits.errors import shown
from tplimits.program.language.refusals import Refusals
from tplimits.program.language.signatures import stated
from tplimits.program.language.tracing import fail
from tplimits.program.language.values import Neuron, Origin, Value
from tplimits.program.nodes.entries import OWN, NeuronMean, slot_symbol


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
    outer = Value(trace, sympy.S.Zero, width, value.axes, origin=origin)
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
