"""⟨exp(−(W a)²)|exp(−(W (a + b))²)⟩: Gaussian bumps as activations.

Limit: return → det(I + 2C)^(−1/2) = 1/√11 ≈ 0.3015

Symbols: W is n × n with entries N(0, 1/n); a and b have entries N(0, 1); C is the Gram matrix of a and a + b,
with C₁₁ = C₁₂ = 1 and C₂₂ = 2.

Reference: Williams 1998, Computation with infinite neural networks, Neural Comput. 10, 1203
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, exp
from tplimits.program.language.trace import program


@program
def bump_kernel(W: Matrix, a: Vector, b: Vector):
    h1 = W @ a
    h2 = W @ (a + b)
    return avg(exp(-(h1**2)) * exp(-(h2**2)))
