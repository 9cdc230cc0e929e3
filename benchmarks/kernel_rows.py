"""The rows of the comparison of kernels: networks by name, data, what is asked for.  Read by both sides.

Imports nothing but NumPy and the standard library, so that it runs in either environment.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass

import numpy as np

#: deviations of weights and biases of perceptrons
WEIGHT, BIAS = 1.5, 0.25


@dataclass(frozen=True)
class Row:
    """A network with the size of its images, tokens or features, inputs, and the ratios peer/own that are asked for."""

    name: str
    network: str
    inputs: int
    size: int
    channels: int = 1
    depth: int = 0
    #: of later calls, of first calls, of memory
    faster: float | None = None
    sooner: float | None = 2
    leaner: float | None = None
    #: largest relative difference of the kernels: the peer's angle of an input with itself, or its quadrature, sets it
    apart: float = 1e-6
    #: calls of the peer that take minutes are left out
    eager: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Inputs, places, channels last."""
        if self.network == "perceptron" or self.network == "tanh":
            return self.inputs, self.size
        if self.network == "transformer":
            return self.inputs, self.size, self.channels
        return self.inputs, self.size, self.size, self.channels

    @property
    def data(self) -> np.ndarray:
        """Standard normal inputs, the same on both sides."""
        return np.random.default_rng(0).standard_normal(self.shape)

    @property
    def laws(self) -> int:
        """Entries of laws that one pair of inputs needs: layers times demanded places."""
        places = self.size**2
        if self.network == "flat":
            return self.depth * places
        if self.network == "myrtle":
            return sum(many * (places // 16**level) ** 2 for level, many in ((0, 2), (1, 1), (2, 1)))
        if self.network == "transformer":
            return 2 * places
        return self.depth

    @property
    def pairs(self) -> int:
        """Pairs of inputs on one side of the diagonal, and inputs with themselves."""
        return self.inputs * (self.inputs + 1) // 2

    @property
    def text(self) -> str:
        """JSON for the command line."""
        return json.dumps(asdict(self))


def flat(size: int, inputs: int, depth: int = 4, **asked: float) -> Row:
    """Convolutions and a Flatten."""
    channels = 1 if size == 8 else 3
    return Row(f"{depth} conv + Flatten {size}×{size}×{channels}", "flat", inputs, size, channels, depth, **asked)


ROWS = (
    flat(16, 8, faster=2),
    flat(16, 32, faster=10),
    flat(8, 40, 2),
    flat(8, 200, 2, faster=10),
    flat(32, 8, faster=2),
    flat(32, 32, faster=10),
    Row("Myrtle-5, global pooling 16×16×3", "myrtle", 8, 16, 3, faster=10, leaner=1),
    Row("transformer, 2 blocks, 64 tokens", "transformer", 20, 64, 8, faster=4, leaner=1),
    Row("Myrtle-5, global pooling 32×32×3", "myrtle", 4, 32, 3, faster=20, leaner=1, eager=False),
    Row("FC, depth 5", "perceptron", 5000, 784, depth=5, faster=4),
    Row("FC, depth 20", "perceptron", 2000, 784, depth=20, faster=8, leaner=10, sooner=1),
    Row("FC tanh, depth 5", "tanh", 500, 784, depth=5, faster=20, apart=2e-2),
)
#: what the peer is not asked for: all digits, and depths that double
ALONE = (
    flat(8, 1797, 2),
    *(flat(16, 32, depth) for depth in (2, 8)),
    Row("Myrtle-5, global pooling 16×16×3", "myrtle", 16, 16, 3),
    *(Row(f"FC, depth {depth}", "perceptron", 2000, 8, depth=depth) for depth in (10, 20, 40, 80)),
)
QUICK = (
    Row("FC, depth 20", "perceptron", 200, 784, depth=20),
    Row("FC tanh, depth 5", "tanh", 50, 784, depth=5, apart=2e-2),
    flat(16, 8),
    Row("transformer, 2 blocks, 16 tokens", "transformer", 4, 16, 8),
)


def exponent(smaller: float, larger: float, factor: float) -> float:
    """The power of a size by which something grows, between two measurements."""
    return math.log(larger / smaller) / math.log(factor)
