"""The kernel of two ReLU layers on inputs a and a + b: the arc-cosine recursion, twice.

Limit: return → K(K(C)₁₁, K(C)₁₂, K(C)₂₂)₁₂ ≈ 0.2801, where K takes a 2 × 2 Gram matrix to that after one layer,
K₁₁ = C₁₁/2 and K₁₂ = √(C₁₁C₂₂) (sin θ + (π − θ) cos θ)/(2π), cos θ = C₁₂/√(C₁₁C₂₂)

Symbols: W1 and W2 are n × n, independent, with entries N(0, 1/n); a and b have entries N(0, 1); C is the Gram
matrix of a and a + b, with C₁₁ = C₁₂ = 1 and C₂₂ = 2.

Reference: Cho & Saul 2009, Kernel methods for deep learning, NIPS
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, relu
from tplimits.program.language.trace import program


@program
def relu_kernel(W1: Matrix, W2: Matrix, a: Vector, b: Vector):
    x1 = relu(W2 @ relu(W1 @ a))
    x2 = relu(W2 @ relu(W1 @ (a + b)))
    return avg(x1 * x2)
