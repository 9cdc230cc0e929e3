"""Reading a program instruction by instruction: one method for every kind, so that none can be forgotten.

What runs, derives, prints or writes programs is a `Walker`; a new kind of instruction gets a method here, and Python
refuses every walker that lacks it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from tplimits.program.nodes.kinds import (
    Avg,
    InitialMatrix,
    InitialScalar,
    InitialVector,
    Instruction,
    MatMul,
    OuterNonlin,
    ScalarNonlin,
)

T = TypeVar("T")

#: the method that reads each kind
METHODS: dict[type[Instruction], str] = {
    InitialMatrix: "initial_matrix",
    InitialVector: "initial_vector",
    InitialScalar: "initial_scalar",
    MatMul: "matmul",
    Avg: "average",
    ScalarNonlin: "scalar",
    OuterNonlin: "outer",
}


class Walker(ABC, Generic[T]):
    """Something that is made of every instruction; `at` is what the walker needs beside it, such as its position.

    >>> class Count(Walker[int]):
    ...     initial_matrix = initial_vector = initial_scalar = lambda self, s: 0
    ...     matmul = average = scalar = outer = lambda self, s: len(s.operands)
    >>> Count().read(InitialVector("x", ()))
    0
    """

    def read(self, s: Instruction, *at: Any) -> T:
        """What is made of an instruction."""
        return getattr(self, METHODS[type(s)])(s, *at)

    @abstractmethod
    def initial_matrix(self, s: InitialMatrix, *at: Any) -> T:
        """A matrix with iid entries."""

    @abstractmethod
    def initial_vector(self, s: InitialVector, *at: Any) -> T:
        """A vector with iid entries."""

    @abstractmethod
    def initial_scalar(self, s: InitialScalar, *at: Any) -> T:
        """A number from outside."""

    @abstractmethod
    def matmul(self, s: MatMul, *at: Any) -> T:
        """W x or Wᵀ x."""

    @abstractmethod
    def average(self, s: Avg, *at: Any) -> T:
        """The mean of a vector."""

    @abstractmethod
    def scalar(self, s: ScalarNonlin, *at: Any) -> T:
        """A function of scalars."""

    @abstractmethod
    def outer(self, s: OuterNonlin, *at: Any) -> T:
        """A function of vectors, averaged over further neurons."""
