"""Layer normalisation by scalars, sent back through Wᵀ.

m and v are averages over all neurons; in the limit they are numbers and the normalised vector an affine
function of relu(h).  The dot-ket of z = Wᵀ y is |x⟩ E relu′(h)/√v.

Limit: return = ⟨z|z⟩ → 1 + (1/4)/v ≈ 1.7335, with m → 1/√(2π) ≈ 0.3989 and v → 1/2 − 1/(2π) ≈ 0.3408

Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1).

Reference: Ba, Kiros & Hinton 2016, arXiv:1607.06450; Yang & Littwin 2023, Def. 2.6.1 for scalars in programs
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, relu, sqrt
from tplimits.program.language.trace import program


@program
def layer_norm(W: Matrix, x: Vector):
    r = relu(W @ x)
    m = avg(r)
    v = avg((r - m) ** 2)
    y = (r - m) / sqrt(v)
    z = W.T @ y
    return avg(z * z)
