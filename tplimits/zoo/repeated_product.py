"""⟨x|W W x⟩: the same matrix twice, the same way round, leaves nothing.

No transpose occurs, so there is no dot-ket: |W W x⟩ is a fresh Gaussian, orthogonal to |x⟩ and to |W x⟩.

Limit: return → 0

Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1).

Reference: Yang & Littwin 2023, Eq. (2.18)
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg
from tplimits.program.language.trace import program


@program
def repeated_product(W: Matrix, x: Vector):
    h = W @ x
    y = W @ h
    return avg(x * y)
