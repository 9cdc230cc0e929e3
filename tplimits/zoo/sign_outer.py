"""⟨h|sign(h xᵀ)|x⟩ for h = W x: what a sign update of a matrix does to its input.

The matrix sign(h_α x_β) is never formed: its product with x is an outer nonlinearity of order 2.

Limit: return → (E|g|)² = 2/π ≈ 0.6366

Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1); g is a standard normal.

Reference: Yang & Littwin 2023, Def. 2.6.1 (OuterNonlin) and Sec. 2.1 on sign updates
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, neuron, sign
from tplimits.program.language.trace import program


@program
def sign_outer(W: Matrix, x: Vector):
    β = neuron("β")
    h = W @ x
    y = avg(sign(h * x[β]) * x[β], over=β)
    return avg(h * y)
