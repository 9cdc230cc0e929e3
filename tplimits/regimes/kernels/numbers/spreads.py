"""How far out the vectors of a kernel derivation lie at data."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy
from sympy import Expr

from tplimits.errors import EvaluationError
from tplimits.program.nodes.entries import entries
from tplimits.regimes.kernels.derivation.leaves import Of
from tplimits.regimes.kernels.derivation.reading import later
from tplimits.regimes.kernels.numbers.judged import tables_of

if TYPE_CHECKING:
    from tplimits.regimes.kernels.derivation.derivation import KernelTables
    from tplimits.regimes.kernels.numbers.inputs import Inputs


def spreads(derivation: KernelTables, inputs: Inputs, constants: Mapping[Expr, float]) -> Callable[[Expr], float]:
    """The largest standard deviation of a Gaussian vector, or a form of some, at the inputs; 1 where none is known."""
    recursion, frame = derivation.recursion, tables_of(derivation, inputs, constants).frame(1, 1)

    @functools.cache
    def spread(form: Expr) -> float:
        read = entries(form)
        if any(e.source in recursion.judged.unread for e in read):
            return 1.0
        leaves = recursion.leaves(limit := recursion.substituted(form))
        if not leaves or not all(recursion.nodes[leaf.node].gaussian for leaf in leaves) or later(limit):
            return 1.0
        ket = limit if isinstance(limit, Of) else recursion.form(limit, 1)
        try:
            return float(numpy.sqrt(numpy.max(frame.value(recursion.inner(ket, ket)).array)))
        except EvaluationError:  # a mean that is left to particles
            return 1.0

    return spread
