"""The perceptron with L hidden layers as a network, for whoever gives the number of layers alone."""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

from tplimits.errors import ProgramError, shown
from tplimits.program.language.annotations import Input, Matrix, Vector
from tplimits.program.language.operations import relu, sum
from tplimits.program.network.network import network
from tplimits.program.nodes.program import Program
from tplimits.program.parametrization.table import Parametrization

#: the most hidden layers that are counted
MOST_LAYERS = 500


def asked(target: Any, parametrization: Any) -> tuple[Program, Parametrization]:
    """The network, and its parametrization, that a network or a number of hidden layers stands for."""
    if not isinstance(parametrization, Parametrization):
        raise ProgramError(
            f"classify(…, {shown(parametrization)}): give a parametrization such as tp.MUP or tp.ABCD({{…}})."
        )
    if isinstance(target, Program):
        return target, parametrization
    if isinstance(target, bool) or not isinstance(target, int) or target < 1:
        raise ProgramError(
            f"classify({shown(target)}, …): give a network, or the number of hidden layers of a perceptron."
        )
    if target > MOST_LAYERS:
        raise ProgramError(
            f"classify({target if target < 10**20 else '10^20 and more'}, …): at most {MOST_LAYERS} hidden layers are "
            "counted one by one; powers of n are the same with fewer."
        )
    names = [str(layer) for layer in range(1, target + 2)]
    strange = set(parametrization.by_name) - set(names)
    if strange:
        raise ProgramError(f"{parametrization!r}: {min(strange)!r} is no layer; they are {', '.join(names)}.")
    return perceptron(target), on_layers(parametrization, target)


@lru_cache(maxsize=16)
def perceptron(hidden_layers: int) -> Program:
    """f = Σ W3 relu(W2 relu(W1 ξ)), with so many hidden layers; parameters are W1, …, W(L+1), features x1, …, xL.

    >>> [s.name for s in perceptron(2)]
    ['ξ', 'W1', 'W2', 'W3', 'x1', 'h2', 'x2', 'return']
    """
    names = ["ξ", *(f"W{layer}" for layer in range(1, hidden_layers + 2))]
    kinds = [Input["d"], Vector["d"], *[Matrix] * (hidden_layers - 1), Vector]

    def forward(*values: Any) -> Any:
        ξ, first, *weights = values
        x = relu(sum(first * ξ, over="d")).named("x1")
        for layer, W in enumerate(weights[:-1], start=2):
            x = relu((W @ x).named(f"h{layer}")).named(f"x{layer}")
        return weights[-1] * x

    forward.__name__ = f"perceptron{int(hidden_layers)}"
    place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    arguments = [inspect.Parameter(n, place, annotation=k) for n, k in zip(names, kinds, strict=True)]
    setattr(forward, "__signature__", inspect.Signature(arguments))  # noqa: B010
    return network(forward)


def on_layers(parametrization: Parametrization, hidden_layers: int) -> Parametrization:
    """A parametrization that names layers "1", …, "L+1", on the parameters of the perceptron."""
    layers = {str(layer): f"W{layer}" for layer in range(1, hidden_layers + 2)}
    return parametrization.with_names({layers.get(name, name): e for name, e in parametrization.by_name.items()})
