"""⟨x|(Uᵀ Wᵀ W U)² x⟩: the second moment of a product of two independent matrices.

Two matrices, each with its transpose.  The moments of (W U)ᵀ (W U) are Fuss–Catalan numbers, 1, 3, 12, 55, …;
those of one matrix would be 1, 2, 5, 14.

Limit: return → binomial(3k, k) / (2k + 1) = 3 for k = 2

Symbols: W and U are n × n, independent, with entries N(0, 1/n); x has entries N(0, 1).

Reference: Penson & Życzkowski 2011, Phys. Rev. E 83, 061118
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg
from tplimits.program.language.trace import program
from tplimits.program.nodes.program import Program


def product_gram(k: int) -> Program:
    """The program for one power."""

    def power(W: Matrix, U: Matrix, x: Vector):
        y = x
        for _ in range(k):
            u = U @ y
            h = W @ u
            z = W.T @ h
            y = U.T @ z
        return avg(x * y)

    power.__name__ = f"product_gram_{k}"
    return program(power)


product_gram_2 = product_gram(2)
