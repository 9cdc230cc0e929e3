"""Two convolutions on a circle of four positions, with three taps and relu between them.

One matrix a tap, shared by all positions; position p reads positions p − 1, p and p + 1.  Positions that see
independent inputs have independent first layers, but relu makes the second ones correlated.

Limit: ⟨return|return⟩ → Σ_t K(p + t, q + t) over the taps t, with K(p, q) = ⟨relu(h_p)|relu(h_q)⟩ the arc-cosine
kernel of Cov(h_p, h_q) = 3 δ_pq: 9/2 for p = q and 9/(2π) ≈ 1.4324 otherwise

Symbols: W and U are three n × n matrices each, with entries N(0, 1/n); the four vectors x have entries N(0, 1);
h is the first convolution; p and q are positions.

Reference: Garriga-Alonso, Rasmussen & Aitchison 2019; Novak et al. 2019, both ICLR
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import relu
from tplimits.program.language.trace import program
from tplimits.program.layers.convolution import conv1d


@program
def convolution(W: Matrix["n", "n", "tap"], U: Matrix["n", "n", "tap"], x: Vector["position"]):
    h = conv1d(x, W, over={"position": 4}, taps={"tap": 3}, padding="CIRCULAR", to="at")
    y = relu(h)
    return conv1d(y, U, over="at", taps="tap", padding="CIRCULAR", to="out")
