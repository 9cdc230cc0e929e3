"""Gram determinants Δ = K11 K22 − K12² that keep their digits where two inputs are nearly collinear.

From the entries of K alone Δ is known to about 1e-16 K11 K22, an angle to 1e-8.  Carried along a recursion instead,
each step gives the new Δ as a sum of terms that are never negative, from the old one:

    K' = aK + b:       Δ' = a²Δ + ab(K11 + K22 − 2K12),   K11 + K22 − 2K12 = (√K11 − √K22)² + 2(√(K11K22) − K12)
    K' = K + L:        Δ' = ΔK + ΔL + (√(K11L22) − √(K22L11))² + 2(√(K11K22L11L22) − K12L12)
    φ of slopes f₊, −f₋ on the two half-lines: from 1 ∓ κ by half angles and series in the angle

`Kernel` holds names; the functions write text (see `writing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.numbers.moments.quadrant import TINY, Angle
from tplimits.numbers.moments.sectors import SERIES_BELOW, sector
from tplimits.numbers.moments.writing import Writer, number, polynomial, product


@dataclass(frozen=True)
class Kernel:
    """Names (or numbers as text) of K11, K12, K22 and the determinant."""

    first: str
    cross: str
    second: str
    det: str


def _excess(writer: Writer, first: str, away: str, det: str) -> str:
    """√first − |cross| where det = first − cross² ≥ 0, for a text `first` and |cross|."""
    root = writer.let(writer.call("sqrt", first))
    return writer.let(f"{det}/({root} + {away} + {TINY})")


def shifted(writer: Writer, kernel: Kernel, b: float) -> str:
    """The determinant of K + b for b > 0."""
    roots = [writer.let(writer.call("sqrt", s)) for s in (kernel.first, kernel.second)]
    # a difference of roots as a difference of the variances: equal variances give zero
    gap = writer.let(f"({kernel.first} - {kernel.second})/({roots[0]} + {roots[1]} + {TINY})")
    size = writer.let(f"{kernel.first}*{kernel.second}")
    away = writer.let(writer.call("fabs", kernel.cross))
    excess = _excess(writer, size, away, kernel.det)
    # √(K11K22) − K12 = (√(K11K22) − |K12|) + (|K12| − K12), both without cancellation
    folded = f"({away} - {kernel.cross})"
    return writer.let(f"{kernel.det} + {number(b)}*({gap}*{gap} + 2.0*({excess} + {folded}))")


def summed(writer: Writer, k: Kernel, other: Kernel) -> str:
    """The determinant of K + L."""
    left, right = writer.let(f"{k.first}*{other.second}"), writer.let(f"{k.second}*{other.first}")
    roots = [writer.let(writer.call("sqrt", s)) for s in (left, right)]
    gap = writer.let(f"({left} - {right})/({roots[0]} + {roots[1]} + {TINY})")
    cross = writer.let(f"{k.cross}*{other.cross}")
    # K11K22L11L22 − K12²L12² = ΔK L11L22 + K12² ΔL
    inner = writer.let(f"{k.det}*{other.first}*{other.second} + {k.cross}*{k.cross}*{other.det}")
    away = writer.let(writer.call("fabs", cross))
    excess = writer.let(f"{inner}/({roots[0]}*{roots[1]} + {away} + {TINY})")
    folded = f"({away} - {cross})"
    return writer.let(f"{k.det} + {other.det} + {gap}*{gap} + 2.0*({excess} + {folded})")


def piecewise_linear(writer: Writer, kernel: Kernel, positive: float, negative: float) -> str:
    """The determinant of E φ(x)φ(x') for φ(x) = positive · x₊ + negative · x₋ with x₋ = max(−x, 0).

    With m = (positive² + negative²)/2 the new kernel is m·s s'·κ off the diagonal, and with κ = cos θ + β q(θ),
    q(θ) = (sin θ − θ cos θ)/π, β = (positive + negative)²/(2m),

        1 − κ = (1 − cos θ) − β q(θ),   1 + κ = (1 + cos θ) + β q(θ)                               for cos θ > 0,
        1 − κ = (2 − β) cos φ + (1 − cos φ) − β q(φ),   1 + κ = (1 − cos φ) + β (cos φ + q(φ))      else, φ = π − θ.
    """
    m = (positive**2 + negative**2) / 2
    if m == 0:
        return "0.0"
    beta = (positive + negative) ** 2 / (2 * m)
    angle = Angle(writer, kernel.first, kernel.cross, kernel.second, kernel.det)
    size, root = angle.size, angle.root
    away = writer.let(writer.call("fabs", kernel.cross))
    acute = writer.let(writer.call("atan2", root, away))  # θ or π − θ, at most π/2
    safe = writer.let(f"{size} + {TINY}")
    cosine = writer.let(f"{away}/{safe}")
    versine = writer.let(f"{kernel.det}/({size}*({size} + {away}) + {TINY})")  # 1 − |cos θ|
    square = writer.let(f"{acute}*{acute}")
    series = writer.let(polynomial(sector(1, 1).series, square))
    # π − θ below 1 is the acute angle: means of the same law have the same series there
    writer.know(polynomial(sector(1, 1).series, writer.let(f"{angle.phi}*{angle.phi}")), series)
    sine = writer.let(f"{root}/{safe}")
    closed = f"{sine} - {acute}*{cosine}"
    q = writer.let(
        f"{writer.select(f'{acute} < {SERIES_BELOW}', f'2.0*{acute}*{square}*{series}', closed)}*{number(1 / numpy.pi)}"
    )
    turned = writer.let(product(beta, q))
    forward = f"({versine} - {turned})*(1.0 + {cosine} + {turned})"
    # at obtuse angles the roles of 1 − κ and 1 + κ change: each is again a sum of small parts in φ
    lower = f"({product(2 - beta, cosine)} + {versine} - {turned})"
    backward = f"{lower}*({versine} + {product(beta, f'({cosine} + {q})')})"
    chosen = writer.select(f"{kernel.cross} > 0.0", forward, backward)
    return writer.let(f"{number(m * m)}*{kernel.first}*{kernel.second}*{chosen}")


def full(upper: Sequence[Array], size: int) -> Array:
    """Covariances (N, size, size) from the arrays (N,) of their upper triangle, row by row."""
    found = numpy.empty((len(upper[0]), size, size))
    for entry, i, j in zip(upper, *numpy.triu_indices(size), strict=True):
        found[:, i, j] = found[:, j, i] = entry
    return found


def refuse_indefinite(grams: Array) -> None:
    """EvaluationError for a covariance (of N) that is not positive semidefinite but for its rounding."""
    traces = numpy.einsum("nii->n", grams)
    bad = numpy.linalg.eigvalsh(grams).min(axis=1, initial=0.0) < -1e-9 * numpy.maximum(traces, 0.0)
    if bad.any():
        raise EvaluationError(f"the covariance {grams[bad][0].tolist()} is not positive semidefinite.")


def gram_determinant(c11: Any, c12: Any, c22: Any) -> Array:
    """max(c11 c22 − c12², 0) of the given doubles, exact up to its own rounding (Dekker's products)."""
    a, b, c = (numpy.asarray(v, dtype=numpy.float64) for v in (c11, c12, c22))
    upper, upper_rest = _two_product(a, c)
    lower, lower_rest = _two_product(b, b)
    with numpy.errstate(all="ignore"):
        # the rests are what cancellation of the two products leaves over
        exact = (upper - lower) + (upper_rest - lower_rest)
        plain = a * c - b * b
    return numpy.maximum(numpy.where(numpy.isfinite(exact), exact, plain), 0.0)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a·b as a double and what it lacks (where nothing over- or underflows)."""
    with numpy.errstate(all="ignore"):
        p = a * b
        (a1, a2), (b1, b2) = _halves(a), _halves(b)
        return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Array) -> tuple[Array, Array]:
    # splitting overflows near the largest double: there the plain difference is taken
    big = 134217729.0 * a  # 2^27 + 1
    high = big - (big - a)
    return high, a - high


def residual_determinant(x: Array, y: Array) -> Array:
    """|x|² |y − tx|² row by row, x scaled by the power of two that makes t about one."""
    norm = numpy.einsum("ij,ij->i", x, x)
    share = numpy.einsum("ij,ij->i", x, y) / numpy.where(norm > 0, norm, 1.0)
    residual = y - share[:, None] * x
    # once more: what is left of x in the residual after rounding
    again = numpy.einsum("ij,ij->i", x, residual) / numpy.where(norm > 0, norm, 1.0)
    residual -= again[:, None] * x
    return norm * numpy.einsum("ij,ij->i", residual, residual)
