"""Wᵀ exp(W x / 2): not pseudo-Lipschitz, but with finite moments of every order.

The hypothesis of the Master Theorem is not met, and the derivation says so; the moments that occur are
those of a lognormal variable and the limit holds nevertheless.

Limit: return[0] = ⟨x|z⟩ → e^(1/8)/2 ≈ 0.5666, return[1] = ⟨z|z⟩ → e^(1/2) + e^(1/4)/4 ≈ 1.9697

Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1).

Reference: Yang & Littwin 2023, Setup 2.6.3, for the hypothesis that is not met
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, exp
from tplimits.program.language.trace import program


@program
def tied_exp(W: Matrix, x: Vector):
    h = W @ x
    z = W.T @ exp(h / 2)
    return avg(x * z), avg(z * z)
