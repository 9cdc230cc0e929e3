"""What outputs of a network in training are called."""

from __future__ import annotations

import itertools
import math


def output_labels(path: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The place of every entry of an array (steps + 1, inputs, *outputs) by name, outputs numbered in row order.

    >>> output_labels((1, 2, 2))
    {'f[0,0;0]': (0, 0, 0), 'f[0,0;1]': (0, 0, 1), 'f[0,1;0]': (0, 1, 0), 'f[0,1;1]': (0, 1, 1)}
    """
    outputs = math.prod(path[2:])
    found = {}
    for number, index in enumerate(itertools.product(*map(range, path))):
        t, i = index[:2]
        found[f"f[{t},{i};{number % outputs}]" if len(path) > 2 else f"f[{t},{i}]"] = index
    return found
