"""The nodes of a kernel derivation: what every vector, image and fluctuation of a network becomes."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from sympy import Expr

#: a source of randomness: (kind, position, indices if they are numbers)
Source = tuple[str, int, tuple[int, ...] | None]


@dataclass(frozen=True)
class View:
    """One orientation of a matrix (of one member of a family of matrices)."""

    matrix: int
    indices: tuple[Expr, ...]
    transposed: bool

    @property
    def source(self) -> Source:
        numbers = tuple(int(i) for i in self.indices if i.is_Integer)
        kind = "Wᵀ" if self.transposed else "W"
        return kind, self.matrix, numbers if len(numbers) == len(self.indices) else None


@dataclass(frozen=True)
class Node:
    """A family of random variables, one for every index of its axes.

    `body` gives it through other nodes; without one it is Gaussian of its own: an initial vector, the hat of an
    image W x (`view`, `operand`), or a fluctuation √n·Avg (`operand`).  `gaussian` tells that the family is centred
    and jointly Gaussian with all others of that kind.  `degree` is 1 for tangents, which are linear in δθ.
    Of a random function of logits that is known by its `mean` alone, nothing else is derived.
    """

    name: str
    axes: tuple[str, ...]
    degree: int
    sources: frozenset[Source]
    body: Expr | None = None
    gaussian: bool = True
    view: View | None = None
    operand: Expr | None = None
    over: str | None = None
    initial: bool = False
    mean: Expr | None = None

    @property
    def is_fluctuation(self) -> bool:
        return self.operand is not None and self.view is None


def overlap(a: AbstractSet[Source], b: AbstractSet[Source]) -> bool:
    """Whether two sets of sources have one in common."""
    if not a.isdisjoint(b):
        return True
    return any(x[:2] == y[:2] and (x[2] is None or y[2] is None) for x in a for y in b)


@dataclass(frozen=True)
class KernelTable:
    """A quantity of a pair of inputs (or of one input: `single`), by name, with its definition.

    `left` and `right` are the axes of the two inputs; the definition uses their running indices.  `nodes` are those
    whose bracket (mean) it is, `rule` says which of the two.
    """

    number: int
    name: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    definition: Expr
    single: bool = False
    rule: str = ""
    nodes: tuple[int, ...] = ()
