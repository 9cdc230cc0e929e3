"""⟨x|(W + Wᵀ)⁴ x⟩: the fourth moment of a semicircle of variance 2.

W + Wᵀ is a symmetric Gaussian matrix whose entries off the diagonal have variance 2/n; its even moments
are 2^k C_k, with C_k the Catalan numbers, and its odd ones vanish.

Limit: return → 2² C₂ = 8

Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1).

Reference: Wigner 1955, Ann. Math. 62, 548
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg
from tplimits.program.language.trace import program
from tplimits.program.nodes.program import Program


def symmetric_power(k: int) -> Program:
    """The program for one power."""

    def power(W: Matrix, x: Vector):
        y = x
        for _ in range(k):
            y = W @ y + W.T @ y
        return avg(x * y)

    power.__name__ = f"symmetric_power_{k}"
    return program(power)


symmetric_power_4 = symmetric_power(4)
