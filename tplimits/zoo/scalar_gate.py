"""A layer switched by one number: s = sigmoid of the mean activity, y = s tanh(h), sent back through Wᵀ.

The gate is a function of an average; in the limit it is a constant, and it takes no part in the derivative
that makes the dot-ket.

Limit: return = ⟨x|Wᵀy⟩ → s E sech²(g) ≈ 0.3625 with s → 1/(1 + e^(−1/√(2π))) ≈ 0.5984

Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1); g is a standard normal.

Reference: Hu, Shen & Sun 2018, Squeeze-and-excitation networks, CVPR
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, relu, sigmoid, tanh
from tplimits.program.language.trace import program


@program
def scalar_gate(W: Matrix, x: Vector):
    h = W @ x
    s = sigmoid(avg(relu(h)))
    z = W.T @ (s * tanh(h))
    return avg(x * z)
