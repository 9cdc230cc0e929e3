"""Constants of a file, evaluated with bounds before SymPy ever sees them as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mpmath

from tplimits.errors import ProgramError

#: the natural logarithm of the largest constant, and the smallest part of its terms a sum may be
_LARGEST, _SMALLEST = 10_000, mpmath.mpf(10) ** -40


def constant(name: str, values: Sequence[mpmath.mpf], rational: bool) -> mpmath.mpf:
    """The value of a head at numbers; `rational` tells that these are rational, so that sums are exact.

    ProgramError for what is not a finite real number, is out of all bounds, or cancels to nothing:
    SymPy would decide the sign of such a constant by finding its minimal polynomial, which may take for ever.

    >>> constant("pow", [mpmath.mpf(2), mpmath.mpf(-1)], rational=True)
    mpf('0.5')
    """
    if name in ("add", "maximum", "minimum", "where") and not rational:
        _refuse_cancelling(values if name == "add" else values[:1] if name == "where" else (values[0], -values[1]))
    if name in ("exp", "sinh", "cosh"):
        _refuse_large(values[0])
    if name == "pow" and values[0] != 0:
        _refuse_large(values[1] * mpmath.log(abs(values[0])))
    try:
        value = NUMERICAL[name](*values)
    except (ValueError, ZeroDivisionError, OverflowError):
        value = mpmath.nan
    if isinstance(value, mpmath.mpc) or not mpmath.isfinite(value):
        raise ProgramError(
            "it is not a finite real number; check for a division by zero or a root of a negative number."
        )
    return mpmath.mpf(value)


def _refuse_cancelling(terms: Sequence[mpmath.mpf]) -> None:
    if abs(mpmath.fsum(terms)) < max(map(abs, terms)) * _SMALLEST:
        raise ProgramError("constants that cancel; write the exact result.")


def _refuse_large(logarithm: mpmath.mpf) -> None:
    if abs(logarithm) > _LARGEST:
        raise ProgramError("a constant too large or too small; use one between 10^-4000 and 10^4000.")


#: how mpmath evaluates each head, by its name in files
NUMERICAL: dict[str, Callable[..., mpmath.mpf]] = {
    "add": lambda *v: mpmath.fsum(v),
    "mul": lambda *v: mpmath.fprod(v),
    "pow": mpmath.power,
    "step": lambda x: mpmath.mpf(x > 0),
    "relu": lambda x: max(x, mpmath.mpf(0)),
    "leaky_relu": lambda x, slope: x if x > 0 else slope * x,
    "maximum": max,
    "minimum": min,
    "where": lambda c, x, y: x if c > 0 else y,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "gelu": lambda x: x * mpmath.ncdf(x),
    "abs": abs,
    "stop_gradient": lambda x: x,
    "dirac": lambda x: mpmath.nan if x == 0 else mpmath.mpf(0),
    **{
        name: getattr(mpmath, name)
        for name in (
            *("sign", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
            *("asinh", "atanh", "erf", "erfc"),
        )
    },
}
