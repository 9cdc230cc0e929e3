"""Functions that act entry by entry, as bodies of the language."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import sympy

from tplimits.errors import ProgramError
from tplimits.program.language import entrywise as heads
from tplimits.program.language.values import Value

ROOT_HALF = 1 / sympy.sqrt(2)


def hyperbolic(sign: int) -> Callable[[Any], Any]:
    """(exp(x) ± exp(−x))/2: cosh, or sinh with the sign −1."""
    return lambda x: (heads.exp(x) + sign * heads.exp(-1 * x)) / 2


def gelu(x: Any, approximate: Any = "none") -> Any:
    """x Φ(x), or the form with tanh."""
    if approximate == "none":
        return heads.gelu(x)
    return x * (1 + heads.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def minimum_0(x: Any) -> Any:
    """The smaller of x and 0, with the derivative 1 at 0, as PyTorch's have that are made of it.

    Neurons that are exactly 0 are common: those of a dead channel whose bias starts at 0.
    """
    return x - heads.relu(x)


def between(x: Any, low: Any, high: Any) -> Any:
    """x cut off at two bounds, with the derivative 0 at both of them."""
    return (low + high) - x + heads.relu(x - low) - heads.relu(high - x)


def elu(x: Any, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Any:
    """scale · x where x > 0, scale · α (exp(x) − 1) elsewhere."""
    below = alpha * (heads.exp(input_scale * minimum_0(x)) - 1)
    return scale * (heads.relu(x) + below)


def softplus(x: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Any:
    """log(1 + exp(β x))/β; beyond the threshold PyTorch takes x, which differs by exp(−20) at most."""
    if threshold < 16:
        raise ProgramError(f"its threshold is {threshold}: it jumps there; use 20, as PyTorch does by itself.")
    return heads.softplus(beta * x) / beta


def hardtanh(x: Any, min_val: Any = -1.0, max_val: Any = 1.0) -> Any:
    """x, cut off at two bounds."""
    return between(x, min_val, max_val)


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """x, cut off at those bounds that are given, with the derivative 0 at each of them; before 2.14 PyTorch has 1."""
    if min is None:
        return x if max is None else max - heads.relu(max - x)
    if max is None:
        return min + heads.relu(x - min)
    values = isinstance(min, Value) or isinstance(max, Value)
    return clamp(clamp(x, min), None, max) if values else between(x, min, max)


def hardsigmoid(x: Any) -> Any:
    """(x + 3)/6, cut off at 0 and 1."""
    return between(x, -3, 3) / 6 + sympy.S.Half


def threshold(x: Any, threshold: Any, value: Any) -> Any:
    """x where it is above a threshold, a number elsewhere."""
    return heads.where(x - threshold, x, value)


def shrink(hard: bool) -> Callable[..., Any]:
    """x with an interval around 0 set to 0; the soft form moves the rest towards 0."""

    def function(x: Any, lambd: Any = 0.5) -> Any:
        if hard:
            return x * (heads.step(x - lambd) + heads.step(-1 * x - lambd))
        return heads.relu(x - lambd) - heads.relu(-1 * x - lambd)

    return function


def logit(x: Any, eps: Any = None) -> Any:
    """log(x/(1 − x)), of x between ε and 1 − ε where ε is given."""
    x = x if eps is None else clamp(x, eps, 1 - eps)
    return heads.log(x / (1 - x))


def rrelu(x: Any, lower: Any = 0.125, upper: Any = 1 / 3, training: Any = False) -> Any:
    """leaky_relu with the mean of the slopes that training draws."""
    return heads.leaky_relu(x, (lower + upper) / 2)


def above(x: Any, y: Any) -> Any:
    """1 where x > y, 0 elsewhere; a comparison has no gradient."""
    return heads.stop_gradient(heads.step(x - y))


#: comparisons and what joins them, as numbers 0 and 1
LOGICAL: dict[str, Callable[..., Any]] = {
    "gt": above,
    "lt": lambda x, y: above(y, x),
    "ge": lambda x, y: 1 - above(y, x),
    "le": lambda x, y: 1 - above(x, y),
    "eq": lambda x, y: (1 - above(x, y)) * (1 - above(y, x)),
    "ne": lambda x, y: above(x, y) + above(y, x),
    **dict.fromkeys(("logical_and", "bitwise_and", "__and__"), lambda x, y: x * y),
    **dict.fromkeys(("logical_or", "bitwise_or", "__or__"), lambda x, y: x + y - x * y),
    **dict.fromkeys(("logical_xor", "bitwise_xor", "__xor__"), lambda x, y: x + y - 2 * x * y),
    **dict.fromkeys(("logical_not", "bitwise_not"), lambda x: 1 - x),
}


SELU = (1.6732632423543772, 1.0507009873554805)
UNARY: dict[str, Callable[..., Any]] = {
    "exp": heads.exp,
    "expm1": lambda x: heads.exp(x) - 1,
    "log": heads.log,
    "log1p": lambda x: heads.log(1 + x),
    "sqrt": heads.sqrt,
    "rsqrt": lambda x: 1 / heads.sqrt(x),
    "relu": heads.relu,
    "relu6": lambda x: between(x, 0, 6),
    "gelu": gelu,
    "silu": lambda x: x * heads.sigmoid(x),
    "tanh": heads.tanh,
    "sigmoid": heads.sigmoid,
    "softplus": softplus,
    "elu": elu,
    "selu": lambda x: elu(x, *SELU),
    "celu": lambda x, alpha=1.0: elu(x, alpha, 1.0, 1 / alpha),
    "leaky_relu": lambda x, negative_slope=0.01: heads.leaky_relu(x, negative_slope),
    "rrelu": rrelu,
    "hardtanh": hardtanh,
    "hardswish": lambda x: x * hardsigmoid(x),
    "hardsigmoid": hardsigmoid,
    "mish": lambda x: x * heads.tanh(heads.softplus(x)),
    "clamp": clamp,
    "clip": clamp,
    "clamp_min": lambda x, min: clamp(x, min),
    "clamp_max": lambda x, max: clamp(x, None, max),
    "abs": heads.abs,
    "absolute": heads.abs,
    "square": lambda x: x**2,
    "reciprocal": lambda x: 1 / x,
    **{
        name: heads.elementwise(getattr(sympy, name))
        for name in ("tan", "asin", "acos", "atan", "asinh", "atanh", "erfc")
    },
    "acosh": lambda x: heads.log(x + heads.sqrt(x**2 - 1)),
    "exp2": lambda x: heads.exp(math.log(2) * x),
    "log2": lambda x: heads.log(x) / math.log(2),
    "log10": lambda x: heads.log(x) / math.log(10),
    "logit": logit,
    "special_ndtr": lambda x: (1 + heads.erf(ROOT_HALF * x)) / 2,
    "special_entr": lambda x: -1 * x * heads.log(x),
    "deg2rad": lambda x: math.pi / 180 * x,
    "rad2deg": lambda x: 180 / math.pi * x,
    "sin": heads.sin,
    "cos": heads.cos,
    "erf": heads.erf,
    "sign": heads.sign,
    "sgn": heads.sign,
    "threshold": threshold,
    "log_sigmoid": lambda x: -1 * heads.softplus(-1 * x),
    "sinh": hyperbolic(-1),
    "cosh": hyperbolic(1),
    "softsign": lambda x: x / (1 + heads.abs(x)),
    "hardshrink": shrink(True),
    "softshrink": shrink(False),
    "tanhshrink": lambda x: x - heads.tanh(x),
    "detach": heads.stop_gradient,
    "detach_": heads.stop_gradient,
}
#: functions of two values; those beside them in `operations` know numbers that are powers of n
BINARY: dict[str, Callable[..., Any]] = {
    "logaddexp": lambda x, y: y + heads.softplus(x - y),
    "hypot": lambda x, y: heads.sqrt(x**2 + y**2),
    "xlogy": lambda x, y: x * heads.log(y),
    "xlog1py": lambda x, y: x * heads.log(1 + y),
}
