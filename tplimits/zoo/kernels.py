"""Kernels of layers: inner products of the images of two inputs."""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, erf, exp, relu, sin
from tplimits.program.language.trace import program


@program
def arcsine_kernel(W: Matrix, a: Vector, b: Vector):
    """⟨erf(W a)|erf(W (a + b))⟩: the arcsine kernel of a layer of error functions.

    Limit: return → (2/π) arcsin(2 C₁₂ / √((1 + 2 C₁₁)(1 + 2 C₂₂))) = (2/π) arcsin(2/√15) ≈ 0.3455

    Symbols: W is n × n with entries N(0, 1/n); a and b have entries N(0, 1); C is the Gram matrix of a and a + b,
    with C₁₁ = C₁₂ = 1 and C₂₂ = 2.

    Reference: Williams 1996, Computing with infinite networks, NIPS
    """
    h1 = W @ a
    h2 = W @ (a + b)
    return avg(erf(h1) * erf(h2))


@program
def relu_kernel(W1: Matrix, W2: Matrix, a: Vector, b: Vector):
    """The kernel of two ReLU layers on inputs a and a + b: the arc-cosine recursion, twice.

    Limit: return → K(K(C)₁₁, K(C)₁₂, K(C)₂₂)₁₂ ≈ 0.2801, where K takes a 2 × 2 Gram matrix to that after one layer,
    K₁₁ = C₁₁/2 and K₁₂ = √(C₁₁C₂₂) (sin θ + (π − θ) cos θ)/(2π), cos θ = C₁₂/√(C₁₁C₂₂)

    Symbols: W1 and W2 are n × n, independent, with entries N(0, 1/n); a and b have entries N(0, 1); C is the Gram
    matrix of a and a + b, with C₁₁ = C₁₂ = 1 and C₂₂ = 2.

    Reference: Cho & Saul 2009, Kernel methods for deep learning, NIPS
    """
    x1 = relu(W2 @ relu(W1 @ a))
    x2 = relu(W2 @ relu(W1 @ (a + b)))
    return avg(x1 * x2)


@program
def sine_kernel(W: Matrix, a: Vector, b: Vector):
    """⟨sin(W a)|sin(W (a + b))⟩: random Fourier features.

    Limit: return → e^(−(C₁₁ + C₂₂)/2) sinh(C₁₂) = e^(−3/2) sinh 1 ≈ 0.2622

    Symbols: W is n × n with entries N(0, 1/n); a and b have entries N(0, 1); C is the Gram matrix of a and a + b,
    with C₁₁ = C₁₂ = 1 and C₂₂ = 2.

    Reference: Rahimi & Recht 2007, Random features for large-scale kernel machines, NIPS
    """
    h1 = W @ a
    h2 = W @ (a + b)
    return avg(sin(h1) * sin(h2))


@program
def bump_kernel(W: Matrix, a: Vector, b: Vector):
    """⟨exp(−(W a)²)|exp(−(W (a + b))²)⟩: Gaussian bumps as activations.

    Limit: return → det(I + 2C)^(−1/2) = 1/√11 ≈ 0.3015

    Symbols: W is n × n with entries N(0, 1/n); a and b have entries N(0, 1); C is the Gram matrix of a and a + b,
    with C₁₁ = C₁₂ = 1 and C₂₂ = 2.

    Reference: Williams 1998, Computation with infinite neural networks, Neural Comput. 10, 1203
    """
    h1 = W @ a
    h2 = W @ (a + b)
    return avg(exp(-(h1**2)) * exp(-(h2**2)))
