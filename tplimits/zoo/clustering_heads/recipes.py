"""Optimizers and rates, parameter by parameter, with which μP at its base width is the network as published.

The program holds the factor h₀ in front of its mean over neurons, and μP multiplies gradients of neurons by the width:
they are h₀ times what they are in the network as published.  Updates that do not see the size of a gradient need an ε
that is h₀ times as large, linear ones a rate that is h₀ times as small.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tplimits.errors import EvaluationError
from tplimits.zoo.clustering_heads.start import OF_NEURONS

#: all parameters, in the order of the program
PARAMETERS = ("E", "P", "q", "V", "c", "w", "b", "u")


def recipe(optimizer: Any, lr: float, base: int = 32, perceptron: float = 1.0) -> dict[str, dict[str, Any]]:
    """`optimizer=` and `lr=` for μP with base width h₀; with `base` the width itself, of the network as published.

    perceptron: a factor on the rates of w, b and u.

    >>> import tplimits as tp
    >>> found = recipe(tp.SGD(), 0.32)
    >>> found["lr"]["q"], found["lr"]["w"]
    (0.32, 0.01)

    Raises EvaluationError for an optimizer that neither is linear nor has an ε.
    """
    inner, rate = optimizer, lr * perceptron
    if hasattr(optimizer, "eps"):
        inner = replace(optimizer, eps=optimizer.eps * base)
    elif optimizer.is_linear:
        rate = rate / base
    else:
        raise EvaluationError(f"{optimizer}: how it sees gradients {base} times as large is not known here.")
    return {
        "optimizer": {name: inner if name in OF_NEURONS else optimizer for name in PARAMETERS},
        "lr": {name: rate if name in OF_NEURONS else lr for name in PARAMETERS},
    }
