"""⟨x|(W Wᵀ)^k x⟩: moments of the Marchenko–Pastur law at k = 2, 3, 4.

A vector that W Wᵀ has met once comes back with a dot-ket for every earlier meeting; counting the ways
gives the Catalan numbers C_k, the moments of the limiting spectrum of W Wᵀ.

Limit: return → C_k = binomial(2k, k) / (k + 1) = 2, 5, 14 for k = 2, 3, 4

Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1); k is the power.

Reference: Marchenko & Pastur 1967, Math. USSR Sbornik 1, 457
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg
from tplimits.program.language.trace import program
from tplimits.program.nodes.program import Program


def gram_power(k: int) -> Program:
    """The program for one power."""

    def power(W: Matrix, x: Vector):
        y = x
        for _ in range(k):
            h = W.T @ y
            y = W @ h
        return avg(x * y)

    power.__name__ = f"gram_power_{k}"
    return program(power)


gram_power_2 = gram_power(2)
gram_power_3 = gram_power(3)
gram_power_4 = gram_power(4)
