"""Drift and diffusion of a covariance SDE for two tokens, as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from tplimits.errors import TplimitsError
from tplimits.pages.fields import Field, arrows

if TYPE_CHECKING:
    from tplimits.regimes.depth.limit import CovarianceSDE

#: variances of the first token, and correlations, at which arrows stand; the second token has variance 1
_VARIANCES = (0.4, 0.7, 1.0, 1.3, 1.6)
_CORRELATIONS = (-0.8, -0.4, 0.0, 0.4, 0.8)
#: constants that have no value stand at this one
_UNSET = 1.0


def fields(sde: CovarianceSDE) -> str:
    """Drift (b[αα], b[αβ]) as arrows, and the standard deviations of both noises; "" for other numbers of tokens."""
    if sde.tokens.is_number and sde.tokens != 2:
        return ""
    program = sde.program
    constants = {name: _UNSET for name, value in program.constants.items() if value is None}
    state = program[program.state or 0]
    open_axes = [a for a in program.all_axes if program.size(a) is None and a not in state.axes]
    points = [(v, r * numpy.sqrt(v)) for v in _VARIANCES for r in _CORRELATIONS]
    V = numpy.array([[[v, c], [c, 1.0]] for v, c in points])
    given = {**constants, **dict.fromkeys(open_axes, 2)}
    ratios = dict.fromkeys(program.other_widths, 1.0)
    try:
        drift = numpy.asarray(sde.drift_at(V, constants=given, ratios=ratios), dtype=float)
        noise = numpy.asarray(sde.diffusion_at(V, constants=given, ratios=ratios), dtype=float)
    except TplimitsError:
        return ""  # a picture is no place for refusals: the numbers themselves tell them
    x, y = [v for v, _ in points], [float(c) for _, c in points]
    spread = numpy.sqrt(numpy.maximum(noise[:, [0, 1], [0, 1]], 0.0))
    at = ", ".join(f"{name} = {value:g}" for name, value in given.items())
    where = f"V[αα]{'; ' + at if at else ''}"
    names = (("drift b", drift[:, 0, 0], drift[:, 0, 1]), ("noise √Σ", spread[:, 0], spread[:, 1]))
    return arrows([Field(n, x, y, list(map(float, u)), list(map(float, v)), where, "V[αβ]") for n, u, v in names])
