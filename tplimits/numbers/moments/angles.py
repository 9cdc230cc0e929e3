"""Angles in arithmetic alone, so that loops over pairs run in vector registers.

For atan2 the quotient of the smaller and the larger side is brought below tan(π/8) once; there arctan t = t + t³ P(t²)
with P the polynomial that interpolates (arctan t − t)/t³ in t² at eleven Chebyshev points of [0, tan² π/8], to 1e-17.
"""

from __future__ import annotations

import math

TINY = 1e-300
_TURN = math.tan(math.pi / 8)
#: P, lowest power first
COEFFICIENTS = (
    -0.3333333333333333,
    0.1999999999999552,
    -0.14285714284666542,
    0.11111111015256361,
    -0.09090904578123903,
    0.07692183190826087,
    -0.06664511447381948,
    0.0585814891280221,
    -0.0508544973794026,
    0.03923165829558719,
    -0.01917688711906226,
)
_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10 = COEFFICIENTS


def atan2(y: float, x: float) -> float:
    """The angle of (x, y), to three units in the last place; 0 at the origin."""
    up = abs(y)
    across = abs(x)
    steep = up > across
    large = up if steep else across
    small = across if steep else up
    turned = small > _TURN * large
    t = (small - large if turned else small) / (small + large + TINY if turned else large + TINY)
    z = t * t
    p = _C0 + z * (
        _C1 + z * (_C2 + z * (_C3 + z * (_C4 + z * (_C5 + z * (_C6 + z * (_C7 + z * (_C8 + z * (_C9 + z * (_C10)))))))))
    )
    angle = t + t * (z * p)
    angle = math.pi / 4 + angle if turned else angle
    angle = math.pi / 2 - angle if steep else angle
    angle = math.pi - angle if x < 0.0 else angle
    return -angle if y < 0.0 else angle


#: (arcsin √z/√z − 1)/z interpolated in z at Chebyshev points of [0, ¼], lowest power first: to 5e-18
ARCSINE = (
    0.16666666666666669,
    0.07499999999998433,
    0.04464285714635543,
    0.030381944138531247,
    0.02237217294214989,
    0.017352392720869973,
    0.013971212973552933,
    0.011479177415184906,
    0.01032281435018578,
    0.005457506718640358,
    0.01740087944269402,
    -0.014851887071247204,
    0.028757851367421566,
)
_A0, _A1, _A2, _A3, _A4, _A5, _A6, _A7, _A8, _A9, _A10, _A11, _A12 = ARCSINE
#: the same to 1e-9, for single precision
_B0, _B1, _B2, _B3, _B4, _B5 = (
    0.16666666337430908,
    0.07500094543497424,
    0.04459940152851218,
    0.03110066273549457,
    0.017149238357677253,
    0.03369084720283012,
)


def arc(u: float) -> float:
    """The angle in [0, π/2] whose cosine is 1 − u, without a quotient; small angles keep the digits of u."""
    small = u < 0.5
    z = 0.5 * u if small else (1.0 - u) * (1.0 - u)
    s = math.sqrt(z)
    z2 = z * z
    z4 = z2 * z2
    low = (_A0 + z * _A1) + z2 * (_A2 + z * _A3)
    middle = (_A4 + z * _A5) + z2 * (_A6 + z * _A7)
    high = ((_A8 + z * _A9) + z2 * (_A10 + z * _A11)) + z4 * _A12
    p = s + s * (z * (low + z4 * (middle + z4 * high)))
    return 2.0 * p if small else math.pi / 2 - p


def arc_single(u: float) -> float:
    """The same to 1e-9."""
    small = u < 0.5
    z = 0.5 * u if small else (1.0 - u) * (1.0 - u)
    s = math.sqrt(z)
    z2 = z * z
    p = s + s * (z * ((_B0 + z * _B1) + z2 * ((_B2 + z * _B3) + z2 * (_B4 + z * _B5))))
    return 2.0 * p if small else math.pi / 2 - p
