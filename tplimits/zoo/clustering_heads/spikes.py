"""Loss spikes: where they are, and which part of the network made them.

A spike lies between two frames.  Its size, the rise of the loss, is shared out among groups of parameters by Shapley's
rule: the share of a group is what moving it adds to the loss, averaged over all orders in which the groups can move.
Apart from that, what was normalised may have turned: x/|x| turns far when x passes near 0, however little x moves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

#: parameters that move together, in the order of the network
GROUPS: Mapping[str, tuple[str, ...]] = {
    "embeddings": ("E", "P"),
    "attention": ("q", "V"),
    "perceptron": ("w", "b", "u", "c"),
}
#: x/|x| that turned by more than this, in radians, has passed near the origin
FAR = 1.0


def spikes(loss: Any, factor: float = 1.5, above: float = 0.0) -> list[int]:
    """Frames whose loss is more than `factor` times that of the frame before, and more than `above`.

    >>> spikes([1.0, 0.5, 0.9, 0.4, 0.41])
    [2]
    """
    found = numpy.asarray(loss, dtype=numpy.float64)
    rises = (found[1:] > factor * found[:-1]) & (found[1:] > above)
    return [int(t) + 1 for t in numpy.flatnonzero(rises)]


@dataclass(frozen=True)
class Spike:
    """A rise of the loss between two frames: shares by group, and how far normalised vectors turned, in radians."""

    rise: float
    shares: Mapping[str, float]
    turn_of_tokens: float
    turn_of_sequences: float

    @property
    def kind(self) -> str:
        """ "normalisation" where a normalised vector turned far, otherwise the group with the largest share."""
        if max(self.turn_of_tokens, self.turn_of_sequences) > FAR:
            return "normalisation"
        return max(self.shares, key=lambda group: self.shares[group])


def attributed(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    loss: Callable[[Mapping[str, Any]], float],
    ξ: Callable[[Mapping[str, Any]], Any],
) -> Spike:
    """A rise of the loss, shared out; `loss` and `ξ` take all parameters by name.

    E, P: (K, d) and (L, d); ξ: (N, d) on some inputs.
    """
    shares = shapley(lambda moved: loss(_mixed(before, after, moved)), tuple(GROUPS))
    S = [numpy.asarray(θ["E"])[:, None] + numpy.asarray(θ["P"])[None] for θ in (before, after)]
    return Spike(sum(shares.values()), shares, turn(*S), turn(ξ(before), ξ(after)))


def shapley(value: Callable[[Sequence[str]], float], players: Sequence[str]) -> dict[str, float]:
    """Shapley's shares of value(all) − value(none).

    >>> shapley(lambda s: 2.0 * ("a" in s) * ("b" in s), ("a", "b"))
    {'a': 1.0, 'b': 1.0}
    """
    n = len(players)
    worth = {s: value(s) for size in range(n + 1) for s in itertools.combinations(players, size)}
    found = dict.fromkeys(players, 0.0)
    for s, own in worth.items():
        for player in set(players) - set(s):
            joined = tuple(p for p in players if p in s or p == player)
            weight = math.factorial(len(s)) * math.factorial(n - len(s) - 1) / math.factorial(n)
            found[player] += weight * (worth[joined] - own)
    return found


def turn(before: Any, after: Any) -> float:
    """The largest angle between rows of two arrays (…, d), in radians."""
    a, b = (numpy.asarray(x, dtype=numpy.float64) for x in (before, after))
    a, b = (x / numpy.linalg.norm(x, axis=-1, keepdims=True) for x in (a, b))
    # |a − b| = 2 sin(angle/2), exact for small angles where the arc cosine is not
    half = numpy.clip(numpy.linalg.norm(a - b, axis=-1) / 2, 0.0, 1.0)
    return float(2 * numpy.arcsin(half).max())


def _mixed(before: Mapping[str, Any], after: Mapping[str, Any], moved: Sequence[str]) -> dict[str, Any]:
    names = {name for group in moved for name in GROUPS[group]}
    return {name: (after if name in names else before)[name] for name in before}
