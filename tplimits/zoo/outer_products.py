"""Nonlinear outer products: functions of several neurons, averaged over all but one of them."""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import abs, avg, maximum, neuron, sign
from tplimits.program.language.trace import program


@program
def mean_distance(x: Vector):
    """y_α = (1/n) Σ_β |x_α − x_β|: an outer nonlinearity of order 2, with a kink on the diagonal.

    |y⟩ is the mean of |x − x′| over an independent copy x′, a function of |x⟩: x erf(x/√2) + √(2/π) e^(−x²/2).

    Limit: return = (1/n) Σ_α y_α → E|x − x′| = 2/√π ≈ 1.1284, Gini's mean difference of the normal law

    Symbols: x has entries N(0, 1); x′ is an independent copy.

    Reference: Yang & Littwin 2023, Def. 2.6.5 (OuterNonlin); Nair 1936, Biometrika 28, 428, for the value
    """
    β = neuron("β")
    y = avg(abs(x - x[β]), over=β)
    return avg(y)


@program
def max_of_three(x: Vector):
    """y_α = (1/n²) Σ_βγ max(x_α, x_β, x_γ): an outer nonlinearity of order 3.

    Limit: return = (1/n) Σ_α y_α → E max(x, x′, x″) = 3/(2√π) ≈ 0.8463

    Symbols: x has entries N(0, 1); x′ and x″ are independent copies.

    Reference: Yang & Littwin 2023, Def. 2.6.5 (OuterNonlin); Jones 1948, Ann. Math. Statist. 19, 270, for the value
    """
    β, γ = neuron("β"), neuron("γ")
    y = avg(maximum(maximum(x, x[β]), x[γ]), over=(β, γ))
    return avg(y)


@program
def sign_outer(W: Matrix, x: Vector):
    """⟨h|sign(h xᵀ)|x⟩ for h = W x: what a sign update of a matrix does to its input.

    The matrix sign(h_α x_β) is never formed: its product with x is an outer nonlinearity of order 2.

    Limit: return → (E|g|)² = 2/π ≈ 0.6366

    Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1); g is a standard normal.

    Reference: Yang & Littwin 2023, Def. 2.6.1 (OuterNonlin) and Sec. 2.1 on sign updates
    """
    β = neuron("β")
    h = W @ x
    y = avg(sign(h * x[β]) * x[β], over=β)
    return avg(h * y)
