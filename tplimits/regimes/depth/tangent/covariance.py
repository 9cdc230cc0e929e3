"""Forms of tangents at numbers: C, D and the derivatives of kernels beside V."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy
from sympy import Expr

from tplimits.arrays import Array
from tplimits.regimes.depth.algebra import folded
from tplimits.regimes.depth.numbers import covariance

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.forms import Form


def moved_kernels(V: Array, C: Array, D: Array) -> dict[str, Array]:
    """A and B, N with its first token moved and with both (`folded`), and r = 1/√V_aa.

    A and B are zero where the two tokens are parallel: N is of order |1 − ρ|^(3/2) there.
    """
    var, c = (numpy.diagonal(x, axis1=-2, axis2=-1) for x in (V, C))
    one, two = var[..., :, None], var[..., None, :]
    laws, back = covariance.polar(V), numpy.swapaxes(C, -1, -2)
    scale, _, sine, angle = laws
    moved = (c[..., :, None], C, back, c[..., None, :])
    with numpy.errstate(divide="ignore", invalid="ignore"):
        A = folded.first_moved(scale, sine, angle, one, moved[0], back)
        B = folded.both_moved(laws, V, one, two, moved, D)
        apart = (sine > 0) & ~numpy.eye(V.shape[-1], dtype=bool)
        return {"A": numpy.where(apart, A, 0.0), "B": numpy.where(apart, B, 0.0), "r": 1 / numpy.sqrt(var)}


def contracted(
    form: Form, state: tuple[Array, Array, Array], values: Mapping[Expr, float], arrays: Mapping[str, Array], free: int
) -> Array:
    """A form in V, C and D at numbers; `free` tokens are left as dimensions."""
    V, C, D = state
    known = {"C": C, "D": D, **moved_kernels(V, C, D)}
    return covariance.contracted(form, V, values, arrays, free, known)
