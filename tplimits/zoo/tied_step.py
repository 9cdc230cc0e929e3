"""⟨x|Wᵀ step(W x)⟩: a jump, whose derivative exists only in the mean.

The coefficient of the dot-ket is E step′(g), the density of a standard normal at 0; Stein's form E[g step(g)]
of the same number needs no derivative.

Limit: return → E[g step(g)] = 1/√(2π) ≈ 0.3989

Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1); g is a standard normal; step(h) is 1 for
h > 0 and 0 otherwise.

Reference: Yang & Littwin 2023, Eq. (2.19); Stein 1981, Ann. Statist. 9, 1135
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, step
from tplimits.program.language.trace import program


@program
def tied_step(W: Matrix, x: Vector):
    h = W @ x
    z = W.T @ step(h)
    return avg(x * z)
