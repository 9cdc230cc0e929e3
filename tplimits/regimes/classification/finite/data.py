"""What networks are trained on where nothing is given: inputs, and the error signal of a loss bounded below."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy
from scipy.special import expit

from tplimits.arrays import Array

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


#: inputs and entries of an input that are drawn where none are given
_INPUTS, _ENTRIES = 3, 4
#: outputs that are larger have run away
MARGIN = 3.0


def drawn_inputs(network: Program, rng: numpy.random.Generator) -> dict[str, Array]:
    """Standard normal inputs."""
    found = {}
    for position in network.inputs:
        s = network[position]
        shape = [int(network.size(a) or _ENTRIES) for a in s.axes]
        found[s.name] = rng.standard_normal((_INPUTS, *shape))
    return found


def bounded_signal(rng: numpy.random.Generator) -> Callable[[Array], Array]:
    """χ of the loss log(1 + e^(m − yf)) of random signs y: of order 1 while f is, and it ends where yf is beyond m.

    With a signal that does not see f, correct networks run away, too; that of a squared error scatters with f_0.
    """
    seed = int(rng.integers(2**31))

    # asked for every network at every step: making a generator takes longer than all the rest
    @cache
    def signs(shape: tuple[int, ...]) -> Array:
        return numpy.random.default_rng(seed).choice([-1.0, 1.0], size=shape)

    def signal(f: Array) -> Array:
        y = signs(f.shape)
        return -y * expit(MARGIN - y * f) / len(f)

    return signal
