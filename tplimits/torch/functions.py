"""Functions that act entry by entry, as bodies of the language."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import sympy

from tplimits.program.language import entrywise as heads

ROOT_HALF = 1 / sympy.sqrt(2)


def hyperbolic(sign: int) -> Callable[[Any], Any]:
    """(exp(x) ± exp(−x))/2: cosh, or sinh with the sign −1."""
    return lambda x: (heads.exp(x) + sign * heads.exp(-1 * x)) / 2


def gelu(x: Any, approximate: Any = "none") -> Any:
    """x Φ(x), or the form with tanh."""
    if approximate == "none":
        return heads.gelu(x)
    return x * (1 + heads.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def elu(x: Any, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Any:
    """scale · x where x > 0, scale · α (exp(x) − 1) elsewhere."""
    below = alpha * (heads.exp(input_scale * heads.minimum(x, 0)) - 1)
    return scale * (heads.relu(x) + below)


def softplus(x: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Any:
    """log(1 + exp(β x))/β; beyond the threshold PyTorch takes x, which differs by exp(−20) at most."""
    return heads.softplus(beta * x) / beta


def hardtanh(x: Any, min_val: Any = -1.0, max_val: Any = 1.0) -> Any:
    """x, cut off at two bounds."""
    return heads.clip(x, min_val, max_val)


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """x, cut off at those bounds that are given."""
    x = x if min is None else heads.maximum(x, min)
    return x if max is None else heads.minimum(x, max)


def hardsigmoid(x: Any) -> Any:
    """(x + 3)/6, cut off at 0 and 1."""
    return heads.clip(x + 3, 0, 6) / 6


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


SELU = (1.6732632423543772, 1.0507009873554805)
UNARY: dict[str, Callable[..., Any]] = {
    "neg": lambda x: -1 * x,
    "negative": lambda x: -1 * x,
    "exp": heads.exp,
    "expm1": lambda x: heads.exp(x) - 1,
    "log": heads.log,
    "log1p": lambda x: heads.log(1 + x),
    "sqrt": heads.sqrt,
    "rsqrt": lambda x: 1 / heads.sqrt(x),
    "relu": heads.relu,
    "relu6": lambda x: heads.clip(x, 0, 6),
    "gelu": gelu,
    "silu": lambda x: x * heads.sigmoid(x),
    "tanh": heads.tanh,
    "sigmoid": heads.sigmoid,
    "softplus": softplus,
    "elu": elu,
    "selu": lambda x: elu(x, *SELU),
    "celu": lambda x, alpha=1.0: elu(x, alpha, 1.0, 1 / alpha),
    "leaky_relu": lambda x, negative_slope=0.01: heads.leaky_relu(x, negative_slope),
    "hardtanh": hardtanh,
    "hardswish": lambda x: x * hardsigmoid(x),
    "hardsigmoid": hardsigmoid,
    "mish": lambda x: x * heads.tanh(heads.softplus(x)),
    "clamp": clamp,
    "clip": clamp,
    "clamp_min": lambda x, min: heads.maximum(x, min),
    "clamp_max": lambda x, max: heads.minimum(x, max),
    "abs": heads.abs,
    "absolute": heads.abs,
    "square": lambda x: x**2,
    "reciprocal": lambda x: 1 / x,
    "sin": heads.sin,
    "cos": heads.cos,
    "erf": heads.erf,
    "sign": heads.sign,
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
