"""y_α = (1/n) Σ_β |x_α − x_β|: an outer nonlinearity of order 2, with a kink on the diagonal.

|y⟩ is the mean of |x − x′| over an independent copy x′, a function of |x⟩: x erf(x/√2) + √(2/π) e^(−x²/2).

Limit: return = (1/n) Σ_α y_α → E|x − x′| = 2/√π ≈ 1.1284, Gini's mean difference of the normal law

Symbols: x has entries N(0, 1); x′ is an independent copy.

Reference: Yang & Littwin 2023, Def. 2.6.5 (OuterNonlin); Nair 1936, Biometrika 28, 428, for the value
"""

from tplimits.program.language.annotations import Vector
from tplimits.program.language.operations import abs, avg, neuron
from tplimits.program.language.trace import program


@program
def mean_distance(x: Vector):
    β = neuron("β")
    y = avg(abs(x - x[β]), over=β)
    return avg(y)
