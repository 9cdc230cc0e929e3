"""Three residual ReLU layers, x + W relu(x), from a family of matrices.

Each layer adds a fresh Gaussian vector of variance E relu²(x) = ⟨x|x⟩/2; the input stays where it is.

Limit: return[0] = ⟨y|y⟩ → (3/2)³ = 27/8, return[1] = ⟨x|y⟩ → 1, for the output y

Symbols: W are three independent n × n matrices with entries N(0, 1/n); x has entries N(0, 1).

Reference: Yang & Schoenholz 2017, Mean field residual networks, NIPS
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, relu
from tplimits.program.language.trace import program


@program
def residual(W: Matrix["n", "n", "layer"], x: Vector):
    y = x
    for layer in range(3):
        y = y + W.sel(layer=layer) @ relu(y)
    return avg(y * y), avg(x * y)


residual = residual.bind(layer=3)
