"""⟨sin(W a)|sin(W (a + b))⟩: random Fourier features.

Limit: return → e^(−(C₁₁ + C₂₂)/2) sinh(C₁₂) = e^(−3/2) sinh 1 ≈ 0.2622

Symbols: W is n × n with entries N(0, 1/n); a and b have entries N(0, 1); C is the Gram matrix of a and a + b,
with C₁₁ = C₁₂ = 1 and C₂₂ = 2.

Reference: Rahimi & Recht 2007, Random features for large-scale kernel machines, NIPS
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, sin
from tplimits.program.language.trace import program


@program
def sine_kernel(W: Matrix, a: Vector, b: Vector):
    h1 = W @ a
    h2 = W @ (a + b)
    return avg(sin(h1) * sin(h2))
