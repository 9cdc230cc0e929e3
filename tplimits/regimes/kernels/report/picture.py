"""Kernels against the angle between two inputs, as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tplimits.errors import TplimitsError
from tplimits.pages.curves import Curve, drawn
from tplimits.program.nodes.kinds import InitialScalar
from tplimits.regimes.kernels import numbers as kernels

if TYPE_CHECKING:
    from tplimits.regimes.kernels.limit import KernelLimit

#: larger recursions are not run for a picture
_MOST_TABLES = 60
#: angles, and entries of an input if its axis is open
_ANGLES, _OPEN = 19, 2
#: entries of an input beyond which none is made
_LONGEST = 64
#: constants that have no value stand at this one
_UNSET = 1.0


def angles(limit: KernelLimit) -> str:
    """K and Θ of inputs at an angle, over their values at angle 0; "" where inputs are no vectors of numbers."""
    if len(limit.tables) > _MOST_TABLES or limit.is_drawn:
        return ""
    inputs = _inputs(limit)
    if inputs is None:
        return ""
    given = {name: _UNSET for name, value in limit.program.constants.items() if value is None}
    try:
        asked = kernels.request.request(limit.derivation, inputs[:1], inputs, given, None)
        if asked.needs_quadrature:
            return ""  # a second of quadrature an angle, or draws: more than who asks for formulas waits for
        pair = limit.evaluate(inputs[:1], inputs, constants=given)
    except TplimitsError:
        return ""  # a picture is no place for refusals: `evaluate` tells them
    shown: list[tuple[str, Any]] = [("K", pair.nngp)]
    if not limit.derivation.no_ntk:
        shown.append(("Θ", pair.ntk))
    degrees = tuple(float(a) for a in numpy.linspace(0.0, 180.0, _ANGLES))
    curves = []
    for name, values in shown:
        row = numpy.asarray(values, dtype=float)[0]
        row = row.reshape(_ANGLES, -1)[:, 0]
        if row[0] > 0 and numpy.isfinite(row).all():
            curves.append(Curve(f"{name}, {row[0]:.4g} at 0", degrees, tuple(map(float, row / row[0]))))
    at = f"; {', '.join(given)} = {_UNSET:g}" if given else ""
    return drawn(curves, f"angle of two inputs in degrees; entries have mean square 1{at}")


def _inputs(limit: KernelLimit) -> Any:
    """Inputs on a circle in their space, at growing angles with the first; None where they are not numbers, or long."""
    program = limit.program
    if len(program.inputs) != 1:
        return None
    data = program[program.inputs[0]]
    if not isinstance(data, InitialScalar) or data.of is not None or not data.axes:
        return None
    shape = [_OPEN if (size := program.size(a)) is None else int(size) for a in data.axes]
    if not 1 < numpy.prod(shape) <= _LONGEST:
        return None
    first, second = numpy.linalg.qr(numpy.random.default_rng(0).standard_normal((int(numpy.prod(shape)), 2)))[0].T
    at = numpy.linspace(0.0, numpy.pi, _ANGLES)[:, None]
    circle = (numpy.cos(at) * first + numpy.sin(at) * second) * numpy.sqrt(len(first))
    return circle.reshape(_ANGLES, *shape)
