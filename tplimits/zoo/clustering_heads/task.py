"""Sparse modular addition: sequences of L tokens in 0 … p − 1, labelled by the sum of the first k of them mod p.

Nothing else in a sequence matters: neither the order of the first k tokens nor the L − k tokens behind them.  Up to
that there are C(k + p − 1, k) different inputs, the multisets of k tokens.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import whole_from

Integers = NDArray[numpy.int64]
#: sequences that `population` makes at most
_MOST = 2**22


@dataclass(frozen=True)
class SparseModularAddition:
    """The task of length L with k tokens that count, mod p.

    >>> task = SparseModularAddition(length=4, relevant=2, modulus=3)
    >>> task.labels([[1, 2, 0, 0], [2, 2, 1, 0]]).tolist(), task.multisets
    ([0, 1], 6)

    Raises EvaluationError for sizes that make no sense.
    """

    length: int = 12
    relevant: int = 5
    modulus: int = 2

    def __post_init__(self) -> None:
        whole_from("length", self.length, 1, EvaluationError)
        whole_from("relevant", self.relevant, 1, EvaluationError)
        whole_from("modulus", self.modulus, 2, EvaluationError)
        if self.relevant > self.length:
            raise EvaluationError(f"{self.relevant} relevant tokens in sequences of {self.length}; give fewer.")

    @property
    def multisets(self) -> int:
        """C(k + p − 1, k): how many inputs differ in what matters, and how many clusters an exact head makes."""
        return math.comb(self.relevant + self.modulus - 1, self.relevant)

    def labels(self, x: object) -> Integers:
        """x_1 + … + x_k mod p of sequences (N, L); EvaluationError for tokens out of range."""
        sequences = self._sequences(x)
        return numpy.asarray(sequences[:, : self.relevant].sum(axis=1) % self.modulus)

    def counts(self, x: object) -> Integers:
        """How often every token stands among the first k: (N, p), rows are the multisets."""
        prefix = self._sequences(x)[:, : self.relevant]
        return numpy.stack([(prefix == v).sum(axis=1) for v in range(self.modulus)], axis=1)

    def population(self) -> Integers:
        """All p^L sequences, in order; EvaluationError when they are more than four million."""
        if self.modulus**self.length > _MOST:
            raise EvaluationError(f"there are {self.modulus}^{self.length} sequences; draw some by draw(count, seed).")
        return numpy.array(list(itertools.product(range(self.modulus), repeat=self.length)), dtype=numpy.int64)

    def draw(self, count: int, seed: int = 0) -> Integers:
        """`count` uniform sequences with replacement, as training data is made."""
        shape = (whole_from("count", count, 1, EvaluationError), self.length)
        return numpy.random.default_rng(seed).integers(0, self.modulus, shape)

    def train_and_test(self, count: int = 2048, seed: int = 0) -> tuple[Integers, Integers]:
        """Two draws one after the other, as published; they overlap where the population is small."""
        both = self.draw(2 * count, seed)
        return both[:count], both[count:]

    def probes(self, prefixes: int = 10, suffixes: int = 4, seed: int = 0) -> Integers:
        """Every one of some prefixes with every one of some suffixes, rows of one prefix side by side.

        Prefixes go round the multisets, in different orders of their tokens.
        """
        rng = numpy.random.default_rng(seed)
        sets = list(itertools.combinations_with_replacement(range(self.modulus), self.relevant))
        chosen = sorted(sets[i % len(sets)] for i in range(prefixes))
        heads = [rng.permutation(one) for one in chosen]
        tails = rng.integers(0, self.modulus, (suffixes, self.length - self.relevant))
        return numpy.array([[*head, *tail] for head in heads for tail in tails], dtype=numpy.int64)

    def _sequences(self, x: object) -> Integers:
        found = numpy.asarray(x)
        if found.ndim != 2 or found.shape[1] != self.length or found.dtype.kind not in "iu":
            raise EvaluationError(
                f"sequences have shape {found.shape} and type {found.dtype}; give integers (N, {self.length})."
            )
        if found.size and not (found.min() >= 0 and found.max() < self.modulus):
            raise EvaluationError(f"tokens go from {found.min()} to {found.max()}; they are 0 … {self.modulus - 1}.")
        return found.astype(numpy.int64)
