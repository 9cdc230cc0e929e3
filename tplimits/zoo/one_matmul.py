"""W x for a fresh vector x: one Gaussian vector.

The entries of W x are Gaussian with variance |x|²/n, exactly so given x.

Limit: ⟨return|return⟩ → ⟨x|x⟩ = 1

Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1).

Reference: Yang & Littwin 2023, Eq. (2.18)
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.trace import program


@program
def one_matmul(W: Matrix, x: Vector):
    return W @ x
