"""Functions of several jets that are no sums or products of functions of one, as series of difference quotients are.

μ of F(u, w, …) = Σ F_u μ^u + ½ Σ F_uw ⟨d^u, d^w⟩
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.numbers.expansion.fields import Field, mapped, plus, times
from tplimits.numbers.expansion.jets import Jet, Slopes, all_slopes
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.hidden_jumps import derivative
from tplimits.program.parts import remembered

if TYPE_CHECKING:
    from tplimits.numbers.expansion.averages import Averages


def of_several(averages: Averages, function: Expr, jets: Mapping[Symbol, Jet], leaves: Mapping[Expr, float]) -> Jet:
    """F of jets, by its derivatives in all of them."""
    names = tuple(jets)
    fields = [jets[name].value for name in names]
    for one in fields:
        averages.frame.enters(one)

    def on(part: Expr) -> Field:
        def values(*arrays: Array) -> Array:
            found = evaluate(part, {**leaves, **dict(zip(names, arrays, strict=True))})
            return numpy.broadcast_to(found, numpy.broadcast_shapes(*map(numpy.shape, arrays)))

        return mapped(values, *fields)

    moving = [name for name in names if not jets[name].is_fixed]
    slopes: list[Slopes] = []
    shift: Field | None = None
    for name in moving:
        first = on(_derivative(function, (name,)))
        slopes.append(jets[name].slopes.times(first))
        if (mine := jets[name].shift) is not None:
            shift = plus(shift, times(first, mine))
        for other in moving:
            inner = averages.inner(jets[name].slopes, jets[other].slopes)
            if inner is not None:
                second = on(_derivative(function, tuple(sorted((name, other), key=names.index))))
                shift = plus(shift, mapped(lambda s, q: s * q / 2, second, inner))
    return Jet(on(function), all_slopes(slopes), shift)


@remembered(1 << 10)
def _derivative(function: Expr, by: Sequence[Symbol]) -> Expr:
    return functools.reduce(derivative, by, function)
