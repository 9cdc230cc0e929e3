"""Gram matrices of what matrices are applied to, in both passes of a network, as kernels between inputs.

A Gaussian image has the covariance of a bracket, ⟨x|x′⟩ for W x and (rows/columns) ⟨y|y′⟩ for Wᵀ y.  Given these
numbers it can be drawn without sampling what x is made of.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sympy import Integer, S

from tplimits.errors import NoLimitError
from tplimits.program.network.samples import dependent
from tplimits.program.network.tangent import Tangent
from tplimits.program.nodes.kinds import MatMul
from tplimits.regimes.kernels.derivation.derivation import KernelTables
from tplimits.regimes.kernels.derivation.leaves import Of
from tplimits.regimes.kernels.derivation.recursion import Recursion

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


def operand_grams(
    program: Program, infinite: tuple[str, ...], assumed: tuple[str, ...] = ()
) -> dict[int, KernelTables]:
    """The bracket of its operand for every product of a total program whose image is Gaussian and stands alone.

    Left out are images with a dot part, on finite axes, of families, and of a matrix that is used again on that side.
    """
    try:
        state = Recursion(program, Tangent(program, {}, len(program)), infinite, assumed=assumed)
    except NoLimitError:
        return {}
    products = {p: s for p, s in enumerate(program) if isinstance(s, MatMul)}
    uses = Counter((s.matrix, s.transposed) for s in products.values())
    on_data, found = dependent(program), {}
    for position, s in products.items():
        alone = uses[s.matrix, s.transposed] == 1 and not (s.axes or s.matrix_indices or s.operand.indices)
        if alone and on_data[position] and state.nodes[position].body is None:
            source = Integer(s.operand.source)
            try:
                bracket = state.inner(Of(source, Integer(1)), Of(source, Integer(2)))
            except NoLimitError:
                continue
            found[position] = KernelTables(program, (), tuple(state.tables), bracket, S.Zero, (), infinite, state)
    return found
