"""Wᵀ gelu(W x) with the exact GELU: moments of a Gaussian distribution function.

gelu(h) = h Φ(h).  Its mean slope is 1/2, that of relu; its second moment is less than that of relu.

Limit: return[0] = ⟨x|z⟩ → E gelu′(g) = 1/2, return[1] = ⟨z|z⟩ → E gelu²(g) + 1/4 = 7/12 + 1/(2√3π) ≈ 0.6752

Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1); g is a standard normal with distribution
function Φ.

Reference: Hendrycks & Gimpel 2016, arXiv:1606.08415; Tsuchida et al. 2021, AAAI
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, gelu
from tplimits.program.language.trace import program


@program
def tied_gelu(W: Matrix, x: Vector):
    h = W @ x
    z = W.T @ gelu(h)
    return avg(x * z), avg(z * z)
