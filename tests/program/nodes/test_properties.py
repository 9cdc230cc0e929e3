"""Every row of the table of functions against values of the function, and the table against the language."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from tplimits.program.nodes import functions
from tplimits.program.nodes.evaluate import ARRAY_FUNCTIONS
from tplimits.program.nodes.functions import truncated
from tplimits.program.nodes.properties import PROPERTIES, VANISHING, Growth, Properties, Symmetry, Trait

#: constants behind the first argument
BEHIND = {functions.leaky_relu: (0.3,), truncated: (2.0,)}
#: no functions of the line: of several arguments, or with poles or ends of their domain, and what passes as it is
ELSEWHERE = {
    *(sympy.Add, sympy.Mul, sympy.Pow, sympy.DiracDelta, functions.stop_gradient),
    *(functions.maximum, functions.minimum, functions.where),
    *(sympy.log, sympy.tan, sympy.asin, sympy.acos, sympy.atanh),
}
POINTS = np.concatenate([-np.geomspace(40, 1e-3, 400), np.geomspace(1e-3, 40, 400)])
ROWS = [pytest.param(head, row, id=head.__name__) for head, row in PROPERTIES.items()]


def values(head: type, x: np.ndarray) -> np.ndarray:
    return ARRAY_FUNCTIONS[head](x, *BEHIND.get(head, ()))


def contradictions(head: type, row: Properties) -> set[str]:
    """What of a row the values contradict, and what they show that it does not say."""
    f, x = values(head, POINTS), POINTS
    far, near = f[np.abs(x) > 20], np.abs(f / x)[np.abs(x) < 0.1]
    low, high = (float(end) for end in row.values)
    rises = np.diff(f) >= -1e-12
    mirrored = f[::-1]
    small = np.abs(f) <= np.abs(x) * (1 + 1e-12)
    slope = np.log2(np.abs(f).max() / np.abs(f[np.abs(x) <= 20]).max())
    # a fourth difference about 0, not symmetric, sees jumps of the value and of the slope
    around = values(head, 1e-4 * np.array([-1.7, -0.7, 0.3, 1.3, 2.3]))
    bend = np.abs(around[0] - 4 * around[1] + 6 * around[2] - 4 * around[3] + around[4])
    growth = (
        Growth.BOUNDED if np.abs(f).max() <= 2
        else Growth.EXPONENTIAL if slope > 1.5
        else Growth.LINEAR if slope > 0.9
        else Growth.LOGARITHMIC
    )  # fmt: skip
    crosses = bool((near > 0.1).all() and (near < 10).all() and (np.abs(f[np.abs(x) > 0.1]) > 0.09).all())
    fades = min(np.abs(far[:1]).max(), np.abs(far[-1:]).max()) < 1e-8
    found = {
        "growth": growth is row.growth,
        "low": (np.abs(f.min() - low) < 0.1 if np.isfinite(low) else head in BEHIND or f.min() < -3),
        "high": (np.abs(f.max() - high) < 0.1 if np.isfinite(high) else head in BEHIND or f.max() > 3),
        "odd": (row.symmetry is Symmetry.ODD) == bool(np.allclose(mirrored, -f)),
        "even": (row.symmetry is Symmetry.EVEN) == bool(np.allclose(mirrored, f)),
        "rises": row.rises_from is None or bool(rises[x[:-1] >= float(row.rises_from)].all()),
        "falls": (Trait.FALLING in row.traits) == bool((np.diff(f) <= 0).all() and head not in BEHIND),
        "entire": (Trait.ENTIRE in row.traits) == bool(bend < 1e-7),
        "crosses": head in BEHIND or (Trait.CROSSING in row.traits) == crosses,
        "below": head in BEHIND or (Trait.BELOW in row.traits) == bool(small.all()),
        "fades": (Trait.FADING in row.traits) == bool(fades),
        "degree": all(np.allclose(values(head, c * x), c**row.degree * f) for c in (0.5, 3.0))
        if row.degree is not None
        else not any(np.allclose(values(head, 3 * x), 3**d * f) for d in (0, 1)),
    }
    return {name for name, good in found.items() if not good}


@pytest.mark.parametrize(("head", "row"), ROWS)
def test_values_say_what_the_row_says(head, row):
    assert contradictions(head, row) == set()


WRONG = {
    "bounded": (sympy.asinh, Properties(Growth.BOUNDED, symmetry=Symmetry.ODD), "growth"),
    "odd": (functions.gelu, Properties(Growth.LINEAR, symmetry=Symmetry.ODD), "odd"),
    "range": (sympy.erfc, Properties(Growth.BOUNDED, (sympy.S.Zero, sympy.S.One)), "high"),
    "rising": (functions.gelu, Properties(Growth.LINEAR, rises_from=-sympy.oo), "rises"),
    "analytic": (functions.relu, Properties(Growth.LINEAR, traits=Trait.ENTIRE), "entire"),
    "crossing": (sympy.sin, Properties(Growth.BOUNDED, traits=Trait.CROSSING), "crosses"),
    "below": (sympy.erf, Properties(Growth.BOUNDED, traits=Trait.BELOW), "below"),
    "fading": (sympy.tanh, Properties(Growth.BOUNDED, traits=Trait.FADING), "fades"),
    "degree": (sympy.sign, Properties(Growth.BOUNDED, degree=1), "degree"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_row_is_found(name):
    head, row, what = WRONG[name]
    assert what in contradictions(head, row)


def test_every_function_of_the_language_has_a_row():
    assert {head for head, _ in functions.HEADS.values()} - ELSEWHERE <= PROPERTIES.keys()


def test_what_vanishes_at_zero_is_what_has_no_value_there():
    at_zero = {head for head in PROPERTIES if values(head, np.zeros(1))[0] == 0}
    assert at_zero - {sympy.sign, functions.step} == set(VANISHING)
