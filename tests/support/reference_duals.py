"""Means of products of two functions of jointly Gaussian variables, by published formulas and by quadrature.

For (u, v) centred Gaussian with variances p, q and covariance c, `dual(name, p, c, q)` is the pair (E φ(u)φ(v),
E φ′(u)φ′(v)), and `mean(name, p)` is E φ(u).  Arrays of floats give double precision; arrays of dtype object that hold
mpmath numbers give the working precision of mpmath, for the functions of CLOSED.  Nothing here comes from the package.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import scipy.special

Array = np.ndarray


def function(name: str) -> Callable[[Any], Array]:
    """An elementary function of an array of floats or of mpmath numbers."""
    high = np.vectorize(getattr(mpmath, name), otypes=[object])
    low = getattr(np, {"asin": "arcsin", "atan2": "arctan2"}.get(name, name))
    return lambda *x: high(*x) if any(np.asarray(e).dtype == object for e in x) else low(*x)


sqrt, exp, sinh, cosh, asin, atan2 = (function(f) for f in ("sqrt", "exp", "sinh", "cosh", "asin", "atan2"))
maximum = np.maximum


def pi_like(x: Array) -> Any:
    """π in the precision of x."""
    return +mpmath.pi if np.asarray(x).dtype == object else np.pi


def determinant(p: Array, c: Array, q: Array) -> Array:
    """pq − c²; in doubles what is rounding counts as zero: u and v coincide in such a case, or are well apart."""
    found = np.asarray(maximum(p * q - c * c, 0))
    return found[()] if found.dtype == object else np.where(found < 1e-14 * p * q, 0, found)[()]


def angle(p: Array, c: Array, q: Array) -> Array:
    """The angle between u and v, in [0, π]."""
    return atan2(sqrt(determinant(p, c, q)), c)


# -- closed forms ---------------------------------------------------------------------------------


def two_slopes(a: Any, b: Any) -> Callable[..., tuple[Array, Array]]:
    """φ(u) = a u for u > 0 and b u for u < 0: the arc-cosine kernels of order 1 and 0 (Cho & Saul 2009)."""

    def pair(p: Array, c: Array, q: Array) -> tuple[Array, Array]:
        π, θ = pi_like(c), angle(p, c, q)
        root = sqrt(determinant(p, c, q))
        same, crossed = (root + (π - θ) * c) / (2 * π), (root - θ * c) / (2 * π)
        value = (a * a + b * b) * same - 2 * a * b * crossed
        return value, (a * a + b * b) * (π - θ) / (2 * π) + 2 * a * b * θ / (2 * π)

    return pair


def step_dual(p: Array, c: Array, q: Array) -> tuple[Array, None]:
    """P(u > 0, v > 0), by Sheppard's formula; the derivative is no function."""
    π = pi_like(c)
    return (π - angle(p, c, q)) / (2 * π), None


def sign_dual(p: Array, c: Array, q: Array) -> tuple[Array, None]:
    """1 − 2θ/π."""
    return 1 - 2 * angle(p, c, q) / pi_like(c), None


def erf_dual(p: Array, c: Array, q: Array) -> tuple[Array, Array]:
    """Williams 1996."""
    π, P, Q = pi_like(c), 1 + 2 * p, 1 + 2 * q
    return 2 / π * asin(2 * c / sqrt(P * Q)), 4 / π / sqrt(P * Q - 4 * c * c)


def gelu_dual(p: Array, c: Array, q: Array) -> tuple[Array, Array]:
    """E uΦ(u) vΦ(v) by two integrations by parts, from F = E Φ(u)Φ(v); its derivative in c is the second mean."""
    π = pi_like(c)
    D = (1 + p) * (1 + q) - c * c
    F = (1 + 2 / π * asin(c / sqrt((1 + p) * (1 + q)))) / 4
    β = 1 - p / (1 + p) - q / (1 + q)
    A = p * q + β * c * c
    root = sqrt(D)
    return c * F + A / (2 * π * root), F + (c / root + 2 * β * c / root + A * c / (D * root)) / (2 * π)


def sin_dual(p: Array, c: Array, q: Array) -> tuple[Array, Array]:
    """By Euler's formula."""
    scale = exp(-(p + q) / 2)
    return scale * sinh(c), scale * cosh(c)


def cos_dual(p: Array, c: Array, q: Array) -> tuple[Array, Array]:
    """By Euler's formula."""
    return sin_dual(p, c, q)[::-1]


def exp_dual(rate: Any) -> Callable[..., tuple[Array, Array]]:
    """φ(u) = exp(rate·u)."""

    def pair(p: Array, c: Array, q: Array) -> tuple[Array, Array]:
        value = exp(rate * rate * ((p + q) / 2 + c))
        return value, rate * rate * value

    return pair


#: means of products, by name of the function
CLOSED: dict[str, Callable[..., tuple[Array, Array | None]]] = {
    "identity": lambda p, c, q: (c, c * 0 + 1),
    "relu": two_slopes(1, 0),
    "leaky_relu": two_slopes(1, 0.25),  # dyadic constants: floats and mpmath numbers mix without rounding
    "abs": two_slopes(1, -1),
    "u_plus_relu": two_slopes(2, 1),
    "step": step_dual,
    "sign": sign_dual,
    "erf": erf_dual,
    "gelu": gelu_dual,
    "sin": sin_dual,
    "cos": cos_dual,
    "exp_quarter": exp_dual(0.25),
    "square": lambda p, c, q: (p * q + 2 * c * c, 4 * c),
    "cube": lambda p, c, q: (9 * p * q * c + 6 * c**3, 9 * (p * q + 2 * c * c)),
}

#: E φ(u) of the same functions
CLOSED_MEANS: dict[str, Callable[[Array], Array]] = {
    **dict.fromkeys(("identity", "sign", "erf", "sin", "cube"), lambda p: p * 0),
    "relu": lambda p: sqrt(p / (2 * pi_like(p))),
    "leaky_relu": lambda p: 0.75 * sqrt(p / (2 * pi_like(p))),
    "abs": lambda p: 2 * sqrt(p / (2 * pi_like(p))),
    "u_plus_relu": lambda p: sqrt(p / (2 * pi_like(p))),
    "step": lambda p: p * 0 + 0.5,
    "gelu": lambda p: p / sqrt(2 * pi_like(p) * (1 + p)),
    "cos": lambda p: exp(-p / 2),
    "exp_quarter": lambda p: exp(p / 32),
    "square": lambda p: p,
}


# -- quadrature -----------------------------------------------------------------------------------


def _sigmoid(x: Array) -> Array:
    return scipy.special.expit(x)


#: φ and φ′, analytic near the real line
SMOOTH: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "sigmoid": (_sigmoid, lambda x: _sigmoid(x) * _sigmoid(-x)),
    "softplus": (lambda x: np.logaddexp(0, x), _sigmoid),
    "swish": (lambda x: x * _sigmoid(x), lambda x: _sigmoid(x) * (1 + x * _sigmoid(-x))),
}

#: φ and φ′ with a kink at 0
KINKED: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "tanh_relu": (lambda x: np.tanh(np.maximum(x, 0)), lambda x: np.where(x > 0, 1 - np.tanh(x) ** 2, 0)),
    "softplus_abs": (lambda x: np.logaddexp(0, np.abs(x)), lambda x: np.sign(x) * _sigmoid(np.abs(x))),
}

#: the trapezoidal rule: for a function analytic in a strip of half-width a its error is about exp(−2πa/h)
STEP, REACH = 1 / 16, 10.0


def trapezoid() -> tuple[Array, Array]:
    """Nodes and weights for the standard normal law."""
    z = np.arange(-REACH, REACH + STEP / 2, STEP)
    return z, np.exp(-z * z / 2) * (STEP / np.sqrt(2 * np.pi))


def smooth_mean(f: Callable, g: Callable, p: float, c: float, q: float) -> float:
    """E f(u) g(v) on a tensor grid."""
    z, w = trapezoid()
    s = np.sqrt(p)
    slope = c / s if s else 0.0
    rest = np.sqrt(max(q - slope * slope, 0.0))
    if rest < 1e-150:
        return float(w @ (f(s * z) * g(slope * z)))
    return float(w @ (f(s * z) * (g(slope * z[:, None] + rest * z[None, :]) @ w)))


_PANELS = np.polynomial.legendre.leggauss(40)


def _pieces(ends: list[float]) -> tuple[Array, Array]:
    """Gauss–Legendre nodes and weights on neighbouring intervals."""
    x, w = _PANELS
    mid = [((a + b) / 2, (b - a) / 2) for a, b in itertools.pairwise(ends)]
    return np.concatenate([m + r * x for m, r in mid]), np.concatenate([r * w for _, r in mid])


def kinked_mean(f: Callable, g: Callable, p: float, c: float, q: float) -> float:
    """E f(u) g(v) in polar coordinates, u = √p r cos a, v = √q r cos(a − θ), cut where u or v vanishes."""
    θ = float(np.arctan2(np.sqrt(max(p * q - c * c, 0.0)), c))
    cuts = sorted({-np.pi / 2, np.pi / 2, θ - np.pi / 2, θ + np.pi / 2, 3 * np.pi / 2})
    cuts = [a for a in cuts if -np.pi / 2 <= a <= 3 * np.pi / 2]
    a, wa = _pieces(cuts)
    r, wr = _pieces([0.0, 1.0, 2.0, 4.0, 6.0, 9.0, 12.0])
    u, v = np.sqrt(p) * np.outer(np.cos(a), r), np.sqrt(q) * np.outer(np.cos(a - θ), r)
    return float(wa @ (f(u) * g(v)) @ (wr * r * np.exp(-r * r / 2)) / (2 * np.pi))


def _numeric(rule: Callable, f: Callable, p: Array, c: Array, q: Array) -> Array:
    p, c, q = np.broadcast_arrays(*(np.asarray(e, dtype=float) for e in (p, c, q)))
    return np.array([rule(f, f, *t) for t in zip(p.flat, c.flat, q.flat, strict=True)]).reshape(c.shape)


# -- by name --------------------------------------------------------------------------------------


def dual(name: str, p: Array, c: Array, q: Array) -> tuple[Array, Array | None]:
    """(E φ(u)φ(v), E φ′(u)φ′(v)); None where the derivative is no function."""
    if name in CLOSED:
        return CLOSED[name](p, c, q)
    rule, (f, df) = (smooth_mean, SMOOTH[name]) if name in SMOOTH else (kinked_mean, KINKED[name])
    return _numeric(rule, f, p, c, q), _numeric(rule, df, p, c, q)


def mean(name: str, p: Array) -> Array:
    """E φ(u)."""
    if name in CLOSED_MEANS:
        return CLOSED_MEANS[name](p)
    rule, (f, _) = (smooth_mean, SMOOTH[name]) if name in SMOOTH else (kinked_mean, KINKED[name])
    return np.array([rule(f, np.ones_like, v, v, v) for v in np.asarray(p, dtype=float).flat]).reshape(np.shape(p))


#: u φ′(u), where it is smooth
_GAINS: dict[str, Callable[[Array], Array]] = {
    "erf": lambda x: 2 / np.sqrt(np.pi) * x * np.exp(-x * x),
    "gelu": lambda x: x * scipy.special.ndtr(x) + x * x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi),
    **{name: (lambda x, df=df: x * df(x)) for name, (_, df) in SMOOTH.items()},
}


def gain_dual(name: str, p: Array, c: Array, q: Array) -> Array:
    """E u φ′(u) v φ′(v): what a gain before φ sees, since its gradient and its input are one neuron's."""
    if name == "identity":
        return c
    if name in ("relu", "leaky_relu", "abs"):
        return dual(name, p, c, q)[0]  # u φ′(u) = φ(u)
    f = _GAINS[name]
    return _numeric(smooth_mean, f, p, c, q)


def derivative_mean(name: str, p: Array) -> Array:
    """E φ′(u), for the functions that meet their own matrix again."""
    rules = {
        "relu": lambda p: p * 0 + 0.5,
        "erf": lambda p: 2 / sqrt(pi_like(p) * (1 + 2 * p)),
        "identity": lambda p: p * 0 + 1,
        "sin": lambda p: exp(-p / 2),
    }
    if name in rules:
        return rules[name](p)
    _, df = SMOOTH[name]
    return np.array([smooth_mean(df, np.ones_like, v, v, v) for v in np.asarray(p, dtype=float).flat]).reshape(p.shape)
