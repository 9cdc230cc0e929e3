"""What the integrals of one evaluation may cost together."""

from __future__ import annotations

from sympy import Expr, preorder_traversal

from tplimits.errors import EvaluationError
from tplimits.program.parts import remembered

#: operations on single numbers, about a second and a half, and half a minute
AUTO, QUADRATURE = 150_000_000, 3_000_000_000
#: operations that a node costs besides the integrand: its place, its weight, the density
_PER_NODE = 6


class TooManyNodes(EvaluationError):
    """The integrals have too many dimensions or pieces, or cost too much together."""


class TooManyAtOnce(TooManyNodes):
    """More nodes than are held at a time."""


class HiddenIsland(TooManyNodes):
    """A kink surrounds what lies between all nodes of a rule; points may see it, or not."""


class Budget:
    """Operations left; counted, not timed, so that a result does not depend on the machine."""

    def __init__(self, operations: int) -> None:
        self._given = self.left = operations
        #: whether the error of some mean is rounding: particles are rounded the same way, and do not know of it
        self.rounded = False

    @property
    def spent(self) -> int:
        """Operations so far."""
        return self._given - self.left

    def spend(self, nodes: int, per_node: int) -> None:
        """Count evaluations at some nodes; TooManyNodes when nothing is left."""
        self.left -= nodes * (per_node + _PER_NODE)
        if self.left < 0:
            raise TooManyNodes("the integrals cost too many evaluations: use method='particles'.")


@remembered(4096)
def operations(expr: Expr) -> int:
    """Operations that an expression takes, equal subexpressions once."""
    return len({node for node in preorder_traversal(expr) if node.args})
