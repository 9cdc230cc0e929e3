"""⟨x|Wᵀ W x⟩: a matrix meets its transpose, and the dot-ket is all that is left.

|Wᵀh⟩ for h = W x is a fresh Gaussian plus |x⟩ E[∂|h⟩/∂|Wx⟩^] = |x⟩; were W and Wᵀ independent, x and
Wᵀ W x would be orthogonal.

Limit: return → 1

Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1).

Reference: Yang & Littwin 2023, Eq. (2.19)
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg
from tplimits.program.language.trace import program


@program
def matched_product(W: Matrix, x: Vector):
    h = W @ x
    z = W.T @ h
    return avg(x * z)
