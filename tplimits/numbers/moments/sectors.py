"""Moments of a Gaussian pair on a quadrant, as integrals over the angle of a sector.

For u, u' centred Gaussian with standard deviations s, s' and correlation cos θ, and φ = π − θ,

    E[u^i u'^j; u > 0, u' > 0] = s^i s'^j · E r^(i+j)/(2π) · I_ij(φ),   I_ij(φ) = ∫₀^φ sin^i t sin^j(φ − t) dt

with r² of two degrees of freedom (polar coordinates; the quadrant is a sector of angle φ).  I_ij is a polynomial
in φ, cos φ and sin φ of degree one in φ, which loses all digits as φ^(i+j+1) where φ → 0: there its power series is
summed.  Sums and differences I_ij(φ) ± I_ij(π − φ), which functions of even or odd parity lead to, are written in
ψ = φ − π/2, the arcsine of the correlation.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sympy import Poly, chebyshevt_poly, chebyshevu_poly

#: below this angle the power series is used
SERIES_BELOW = 1.0
_ROUNDING = 1e-18
_MOST_TERMS = 40

Polynomial = tuple[float, ...]


@dataclass(frozen=True)
class Sector:
    """I_ij(φ) = φ·a(c) + b(c) + s·bs(c) with c = cos φ, s = sin φ; and φ^(i+j+1)·series(φ²)."""

    angle: Polynomial
    plain: Polynomial
    sine: Polynomial
    series: Polynomial


def radial(order: int) -> float:
    """E r^order / (2π) for r² of two degrees of freedom."""
    return 2 ** (order / 2) * math.gamma(order / 2 + 1) / (2 * math.pi)


@lru_cache(maxsize=64)
def sector(i: int, j: int) -> Sector:
    """The coefficients of I_ij, from exact arithmetic.

    >>> sector(1, 1).angle, sector(1, 1).sine  # (sin φ − φ cos φ)/2
    ((0.0, -0.5), (0.5,))
    >>> sector(0, 0).angle, sector(0, 0).series
    ((1.0,), (1.0,))
    """
    waves = _waves(i, j)
    return Sector(
        _in_cosine(waves["angle cos"], _chebyshev_first),
        _in_cosine(waves["cos"], _chebyshev_first),
        _in_cosine(waves["sin"], _chebyshev_second),
        _series(waves, i + j + 1),
    )


Waves = dict[str, dict[int, Fraction]]


def _waves(i: int, j: int) -> Waves:
    """I_ij as a sum over frequencies n of cos nφ, sin nφ and φ cos nφ."""
    order = i + j
    # sin^i t sin^j(φ − t) by Euler's formula, integrated frequency by frequency
    scale = Fraction((-1) ** (order // 2), 2**order)
    found: dict[str, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    even = order % 2 == 0
    for k in range(i + 1):
        for m in range(j + 1):
            weight = scale * math.comb(i, k) * math.comb(j, m) * (-1) ** (k + m)
            first, second = i - 2 * k, j - 2 * m
            # equal frequencies, of even orders alone, do not oscillate in t: the integral is φ times a wave
            if first == second:
                _add(found, "angle cos", first, weight)
                continue
            share = weight / (first - second) * (1 if even else -1)
            _add(found, "sin" if even else "cos", first, share)
            _add(found, "sin" if even else "cos", second, -share)
    return found


def _add(waves: Waves, kind: str, frequency: int, weight: Fraction) -> None:
    sign = -1 if frequency < 0 and kind.endswith("sin") else 1
    waves[kind][abs(frequency)] += sign * weight


def _series(waves: Waves, lowest: int) -> Polynomial:
    """Coefficients of φ^lowest, φ^(lowest+2), …; all lower ones vanish."""

    def coefficient(power: int) -> Fraction:
        value = Fraction(0)
        for kind, terms in waves.items():
            place = power - kind.startswith("angle")
            if place < 0 or place % 2 != kind.endswith("sin"):
                continue
            sign = (-1) ** (place // 2)
            value += sum(w * sign * Fraction(n) ** place / math.factorial(place) for n, w in terms.items())
        return value

    # exact arithmetic: the lower coefficients vanish identically, in doubles they would be rounding
    assert all(coefficient(p) == 0 for p in range(lowest))
    found = [coefficient(lowest + 2 * k) for k in range(_MOST_TERMS)]
    small = _ROUNDING * abs(found[0])
    # terms below rounding at the largest angle of the series
    while len(found) > 1 and abs(found[-1]) * Fraction(SERIES_BELOW) ** (2 * len(found)) < small:
        found.pop()
    return tuple(float(c) for c in found)


def _in_cosine(waves: dict[int, Fraction], family) -> Polynomial:
    total: list[Fraction] = []
    for frequency, weight in waves.items():
        for k, c in enumerate(family(frequency)):
            total += [Fraction(0)] * (k + 1 - len(total))
            total[k] += weight * c
    while total and total[-1] == 0:
        total.pop()
    return tuple(float(c) for c in total)


def _chebyshev_first(n: int) -> list[int]:
    """cos nφ in powers of cos φ."""
    return _ascending(chebyshevt_poly(n, polys=True))


def _chebyshev_second(n: int) -> list[int]:
    """sin nφ / sin φ in powers of cos φ."""
    return _ascending(chebyshevu_poly(n - 1, polys=True)) if n > 0 else [0]


def _ascending(polynomial: Poly) -> list[int]:
    return [int(c) for c in reversed(polynomial.all_coeffs())]


def parity(coefficients: Polynomial, odd: bool) -> Polynomial:
    """The even or the odd part of a polynomial."""
    return tuple(c if k % 2 == odd else 0.0 for k, c in enumerate(coefficients))
