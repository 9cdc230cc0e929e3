"""⟨erf(W a)|erf(W (a + b))⟩: the arcsine kernel of a layer of error functions.

Limit: return → (2/π) arcsin(2 C₁₂ / √((1 + 2 C₁₁)(1 + 2 C₂₂))) = (2/π) arcsin(2/√15) ≈ 0.3455

Symbols: W is n × n with entries N(0, 1/n); a and b have entries N(0, 1); C is the Gram matrix of a and a + b,
with C₁₁ = C₁₂ = 1 and C₂₂ = 2.

Reference: Williams 1996, Computing with infinite networks, NIPS
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, erf
from tplimits.program.language.trace import program


@program
def arcsine_kernel(W: Matrix, a: Vector, b: Vector):
    h1 = W @ a
    h2 = W @ (a + b)
    return avg(erf(h1) * erf(h2))
