"""Wᵀ tanh(W x) with one and the same W: where independence of W and Wᵀ would be wrong.

With h = W x the dot-ket of z = Wᵀ tanh(h) is |x⟩ E tanh′(h).  An autoencoder with tied weights, or one step
of a Hopfield network.

Limit: return[0] = ⟨x|z⟩ → E sech²(g) ≈ 0.6057, return[1] = ⟨z|z⟩ → E tanh²(g) + (E sech²(g))² ≈ 0.7612

Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1); g is a standard normal.

Reference: Yang & Littwin 2023, Eq. (2.19)
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, tanh
from tplimits.program.language.trace import program


@program
def tied_tanh(W: Matrix, x: Vector):
    h = W @ x
    y = tanh(h)
    z = W.T @ y
    return avg(x * z), avg(z * z)
