"""Wᵀ relu(W x) through another width k: the ratio k/n stays in the limit.

W maps width n to width k.  The transpose adds up k terms of variance 1/n, so both its hat and its dot carry
the ratio of the widths: an autoencoder with a wide or a narrow hidden layer.

Limit: return[0] = ⟨x|z⟩ → ρ/2, return[1] = ⟨z|z⟩ → ρ/2 + ρ²/4 with ρ = k/n (1 unless `ratios` says otherwise)

Symbols: W is k × n with entries N(0, 1/n); x has entries N(0, 1) over width n.

Reference: Yang & Littwin 2023, Eqs. (2.18) and (2.19), with one factor for each change of width
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, relu
from tplimits.program.language.trace import program


@program
def two_widths(W: Matrix["k", "n"], x: Vector):
    h = W @ x
    z = W.T @ relu(h)
    return avg(x * z), avg(z * z)
