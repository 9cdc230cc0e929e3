"""Where training starts: PyTorch's defaults, drawn so that a wider network has the neurons of a narrower one.

    E, P ~ N(0, 1),   q, V, w, b ~ U(±d^(−1/2)),   c ~ U(±h₀^(−1/2)),   u ~ U(±h₀^(−1/2))

h₀ is the width itself in the network as published, a base width in μP.  Arrays are those of the program: neurons stand
last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import seed_number, whole_from

#: parameters with a value for every neuron
OF_NEURONS = ("w", "b", "u")


def scalars(seed: int = 0, *, d: int = 2, vocab: int = 3, length: int = 12, base: int = 32) -> dict[str, Array]:
    """E, P, q, V and c, which networks of all widths and their limit share.

    >>> {name: value.shape for name, value in scalars(d=2, vocab=3, length=12).items()}
    {'E': (3, 2), 'P': (12, 2), 'q': (2,), 'V': (2, 2), 'c': (2,)}
    """
    rng = numpy.random.default_rng([seed_number(seed, EvaluationError), 0])
    inner, outer = d**-0.5, base**-0.5
    return {
        "E": rng.standard_normal((vocab, d)),
        "P": rng.standard_normal((length, d)),
        "q": rng.uniform(-inner, inner, d),
        "V": rng.uniform(-inner, inner, (d, d)),
        "c": rng.uniform(-outer, outer, d),
    }


def neurons(width: int, seed: int = 0, *, d: int = 2, base: int | None = None) -> dict[str, Array]:
    """w, b and u of `width` neurons; those of a smaller width are the first of them.  base: h₀, the width without it.

    >>> bool((neurons(8)["w"] == neurons(32)["w"][:, :8]).all())
    True
    """
    width = whole_from("width", width, 1, EvaluationError)
    table = numpy.random.default_rng([seed_number(seed, EvaluationError), 1]).uniform(-1, 1, (width, 2 * d + 1))
    inner, outer = d**-0.5, (width if base is None else base) ** -0.5
    return {
        "w": numpy.ascontiguousarray(inner * table[:, :d].T),
        "b": inner * table[:, d],
        "u": numpy.ascontiguousarray(outer * table[:, d + 1 :].T),
    }


def with_token(parameters: Mapping[str, Any], seed: int = 0) -> dict[str, Array]:
    """The same parameters with one more token vector, N(0, 1), for a task with one more token.

    >>> with_token(scalars(vocab=2))["E"].shape
    (3, 2)
    """
    E = numpy.asarray(parameters["E"], dtype=numpy.float64)
    fresh = numpy.random.default_rng([seed_number(seed, EvaluationError), 2]).standard_normal((1, E.shape[1]))
    return {**parameters, "E": numpy.concatenate([E, fresh])}
