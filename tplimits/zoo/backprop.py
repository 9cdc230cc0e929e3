"""One backward step through a ReLU layer, Wᵀ (step(h) ⊙ v): where independence of W and Wᵀ is right.

The transpose meets a vector that depends on W, so a dot-ket is due; its coefficient is a mean over the fresh
readout v, which is centred, and vanishes.  Gradient independence is this remark.

Limit: return[0] = ⟨g|g⟩ → E step²(h) E v² = 1/2, return[1] = ⟨x|g⟩ → 0

Symbols: W is n × n with entries N(0, 1/n); x and v have entries N(0, 1); h = W x.

Reference: Schoenholz et al. 2017, Deep information propagation, ICLR; Yang 2020, Tensor Programs II, arXiv:2006.14548
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, step
from tplimits.program.language.trace import program


@program
def backprop(W: Matrix, x: Vector, v: Vector):
    h = W @ x
    g = W.T @ (step(h) * v)
    return avg(g * g), avg(x * g)
