"""What estimators and kernels are given: a network or its kernels, and rows of numbers that hold its data."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from tplimits.arrays import Array
from tplimits.derive import derive
from tplimits.errors import EvaluationError, ProgramError
from tplimits.program.nodes.given import real_array, whole_number
from tplimits.program.nodes.program import Program
from tplimits.regimes.kernels.limit import KernelLimit, Kernels
from tplimits.zoo.networks.perceptrons import mlp


def kernels_of(network: Any) -> KernelLimit:
    """The kernels of a network; they themselves where these are given; those of a ReLU perceptron where nothing is."""
    if network is None or isinstance(network, Program):
        return kernels_of(_derived(mlp if network is None else network))
    if isinstance(network, KernelLimit):
        if len(network.program.inputs) > 1:
            data = ", ".join(network.program[p].name for p in network.program.inputs)
            raise EvaluationError(
                f"`{network.program.name}` takes the data {data}; rows of X hold one. Give a network of one tp.Input "
                "that picks its parts with .sel or .take, or use limit.posterior with a dictionary of arrays."
            )
        return network
    raise ProgramError(
        f"network={type(network).__name__}(…): give a network made by @tp.network, its kernels "
        "tp.derive(network, tp.Kernels(…)), or None for a ReLU perceptron with three hidden layers."
    )


@lru_cache(maxsize=32)
def _derived(network: Program) -> KernelLimit:
    """Clones are equal programs: a search over parameters derives once."""
    return derive(network, Kernels())


def as_inputs(X: Any, shape: Any) -> Array:
    """Rows of numbers as the arrays that a network takes, (N, *shape); rows themselves where no shape is given.

    Raises EvaluationError for what is no array of finite numbers, for a shape that is none or has another number of
    entries.
    """
    rows = real_array("X", X)
    if shape is None:
        return rows
    sizes = [whole_number(s) for s in shape] if isinstance(shape, (tuple, list)) else []
    if not sizes or any(s is None or s < 1 for s in sizes):
        raise EvaluationError(f"shape={shape!r}: the shape of one input is a tuple of positive whole numbers.")
    known = [s for s in sizes if s is not None]
    if rows.ndim != 2 or rows.shape[1] != math.prod(known):
        raise EvaluationError(
            f"X has shape {rows.shape}; inputs of shape {tuple(known)} are rows of {math.prod(known)} numbers."
        )
    return rows.reshape(-1, *known)
