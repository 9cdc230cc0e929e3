"""Wᵀ relu(W x) with tied weights: an autoencoder whose limit is in closed form.

The hat of z = Wᵀ relu(W x) has variance E relu²(g) = 1/2, its dot is half of |x⟩.

Limit: ⟨return|return⟩ = ⟨z|z⟩ → 1/2 + (1/2)² = 3/4

Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1); g is a standard normal.

Reference: Li & Nguyen 2019, On random deep weight-tied autoencoders, ICLR
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import relu
from tplimits.program.language.trace import program


@program
def tied_relu(W: Matrix, x: Vector):
    h = W @ x
    z = W.T @ relu(h)
    return z
