"""y_α = (1/n²) Σ_βγ max(x_α, x_β, x_γ): an outer nonlinearity of order 3.

Limit: return = (1/n) Σ_α y_α → E max(x, x′, x″) = 3/(2√π) ≈ 0.8463

Symbols: x has entries N(0, 1); x′ and x″ are independent copies.

Reference: Yang & Littwin 2023, Def. 2.6.5 (OuterNonlin); Jones 1948, Ann. Math. Statist. 19, 270, for the value
"""

from tplimits.program.language.annotations import Vector
from tplimits.program.language.operations import avg, maximum, neuron
from tplimits.program.language.trace import program


@program
def max_of_three(x: Vector):
    β, γ = neuron("β"), neuron("γ")
    y = avg(maximum(maximum(x, x[β]), x[γ]), over=(β, γ))
    return avg(y)
