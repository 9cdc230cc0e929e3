"""Up, down and up again through one matrix: a dot-ket inside a nonlinearity.

h = W x, x′ = Wᵀ relu(h), h′ = W relu(x′).  The ket of x′ holds |x⟩/2 beside its hat, so the hat of h′ is
correlated with that of h, and h′ has a dot-ket |relu(h)⟩/2 of its own.

Limit: return[0] = ⟨relu(h)|h′⟩ → 3/8, return[1] = ⟨h′|h′⟩ → 5/8

Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1).

Reference: Yang & Littwin 2023, Eqs. (2.18) and (2.19); the first value is ⟨x′|relu(x′)⟩, by adjointness
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, relu
from tplimits.program.language.trace import program


@program
def two_rounds(W: Matrix, x: Vector):
    h = W @ x
    up = relu(h)
    back = W.T @ up
    again = W @ relu(back)
    return avg(up * again), avg(again * again)
