"""Whether a program is the model: its weights in the program, outputs and gradients side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
import torch

from tplimits.torch.building import Built
from tplimits.torch.data import evaluated
from tplimits.torch.lowering import dims_of


def arrays_of(built: Built, tensors: dict[str, Any], n: int) -> dict[str, numpy.ndarray]:
    """The parameters of a module as arrays of the program: finite axes first, widths last."""
    found = {}
    for name, number in built.weights.items():
        dims = dims_of(built.found, built.names, number)
        shape, finite, wide = [], [], []
        for d in dims:
            finite.append(len(shape))
            shape.append(d.outer)
            if d.width is not None:
                wide.append(len(shape))
                shape.append(int(built.atoms[d.width] * n))
                finite.append(len(shape))
                shape.append(d.inner)
        array = tensors[name].detach().double().numpy().reshape(shape)
        kept = [i for i in finite if shape[i] > 1]
        gone = [i for i in finite if shape[i] == 1]
        array = array.transpose([*gone, *kept, *wide]).reshape([shape[i] for i in (*kept, *wide)])
        found[name] = array
    return found


def data_of(built: Built, example: tuple[Any, ...], at: int = 0) -> dict[str, numpy.ndarray]:
    """The data of the program on an example."""
    known = evaluated(built.found, example, at)
    found = {}
    for name, number in built.inputs.items():
        array = known[number].detach()
        array = array.numpy() if not array.is_floating_point() else array.double().numpy()
        found[name] = array.reshape([s for s in array.shape if s > 1])
    return found


def run(built: Built, tensors: dict[str, Any], example: tuple[Any, ...], at: int = 0) -> numpy.ndarray:
    """The program's output with given weights, in the shape of the module's."""
    n = built.found.graph.widths[at]
    given = {**arrays_of(built, tensors, n), **data_of(built, example, at)}
    base = built.atoms["n"]
    ratios = {w: float(a / base) for w, a in built.atoms.items() if w != "n"}
    result = built.program.run(n=int(base * n), ratios=ratios, constants=given)
    total = result["return"]
    if built.is_readout:
        total = total.sum(axis=-1)
        if len(built.program.returns) > 1:
            total = total + result["shift"]
    return numpy.asarray(total)
