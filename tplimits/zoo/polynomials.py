"""Polynomials of random matrices: products with W and Wᵀ, and moments of their spectra."""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg
from tplimits.program.language.trace import program
from tplimits.program.nodes.program import Program


@program
def one_matmul(W: Matrix, x: Vector):
    """W x for a fresh vector x: one Gaussian vector.

    The entries of W x are Gaussian with variance |x|²/n, exactly so given x.

    Limit: ⟨return|return⟩ → ⟨x|x⟩ = 1

    Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1).

    Reference: Yang & Littwin 2023, Eq. (2.18)
    """
    return W @ x


@program
def matched_product(W: Matrix, x: Vector):
    """⟨x|Wᵀ W x⟩: a matrix meets its transpose, and the dot-ket is all that is left.

    |Wᵀh⟩ for h = W x is a fresh Gaussian plus |x⟩ E[∂|h⟩/∂|Wx⟩^] = |x⟩; were W and Wᵀ independent, x and
    Wᵀ W x would be orthogonal.

    Limit: return → 1

    Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1).

    Reference: Yang & Littwin 2023, Eq. (2.19)
    """
    h = W @ x
    z = W.T @ h
    return avg(x * z)


@program
def repeated_product(W: Matrix, x: Vector):
    """⟨x|W W x⟩: the same matrix twice, the same way round, leaves nothing.

    No transpose occurs, so there is no dot-ket: |W W x⟩ is a fresh Gaussian, orthogonal to |x⟩ and to |W x⟩.

    Limit: return → 0

    Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1).

    Reference: Yang & Littwin 2023, Eq. (2.18)
    """
    h = W @ x
    y = W @ h
    return avg(x * y)


def gram_power(k: int) -> Program:
    """The program for one power."""

    def power(W: Matrix, x: Vector):
        """⟨x|(W Wᵀ)^k x⟩: moments of the Marchenko–Pastur law at k = 2, 3, 4.

        A vector that W Wᵀ has met once comes back with a dot-ket for every earlier meeting; counting the ways
        gives the Catalan numbers C_k, the moments of the limiting spectrum of W Wᵀ.

        Limit: return → C_k = binomial(2k, k) / (k + 1) = 2, 5, 14 for k = 2, 3, 4

        Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1); k is the power.

        Reference: Marchenko & Pastur 1967, Math. USSR Sbornik 1, 457
        """
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


def symmetric_power(k: int) -> Program:
    """The program for one power."""

    def power(W: Matrix, x: Vector):
        """⟨x|(W + Wᵀ)⁴ x⟩: the fourth moment of a semicircle of variance 2.

        W + Wᵀ is a symmetric Gaussian matrix whose entries off the diagonal have variance 2/n; its even moments
        are 2^k C_k, with C_k the Catalan numbers, and its odd ones vanish.

        Limit: return → 2² C₂ = 8

        Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1).

        Reference: Wigner 1955, Ann. Math. 62, 548
        """
        y = x
        for _ in range(k):
            y = W @ y + W.T @ y
        return avg(x * y)

    power.__name__ = f"symmetric_power_{k}"
    return program(power)


symmetric_power_4 = symmetric_power(4)


def product_gram(k: int) -> Program:
    """The program for one power."""

    def power(W: Matrix, U: Matrix, x: Vector):
        """⟨x|(Uᵀ Wᵀ W U)² x⟩: the second moment of a product of two independent matrices.

        Two matrices, each with its transpose.  The moments of (W U)ᵀ (W U) are Fuss–Catalan numbers, 1, 3, 12, 55, …;
        those of one matrix would be 1, 2, 5, 14.

        Limit: return → binomial(3k, k) / (2k + 1) = 3 for k = 2

        Symbols: W and U are n × n, independent, with entries N(0, 1/n); x has entries N(0, 1).

        Reference: Penson & Życzkowski 2011, Phys. Rev. E 83, 061118
        """
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
