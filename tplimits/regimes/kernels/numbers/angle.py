"""atan2 in arithmetic alone, so that loops over pairs run in vector registers.

The quotient of the smaller and the larger side is brought below tan(π/8) once; there arctan t = t + t³ P(t²) with P the
polynomial that interpolates (arctan t − t)/t³ in t² at eleven Chebyshev points of [0, tan² π/8], to 1e-17.
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
    """The angle of (x, y), to three units in the last place; 0 at the origin.

    >>> atan2(1.0, 1.0) == math.pi / 4, abs(atan2(1e-9, -1.0) - math.pi) < 1e-8
    (True, True)
    """
    up, across = abs(y), abs(x)
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
