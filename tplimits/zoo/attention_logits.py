"""Attention logits at the scale 1/√n: they stay random, and their covariance is what converges.

With independent matrices for queries and keys the sum of q_α k_α is centred and of size √n.  Divided by √n it
becomes Gaussian given the tokens.

Limit: Cov(s_ab, s_a′b′) → ⟨y_a|y_a′⟩⟨y_b|y_b′⟩, with ⟨y_a|y_b⟩ = 1 + δ_ab: every logit has variance 4

Symbols: WQ and WK are n × n, independent, with entries N(0, 1/n); x are two tokens and c a vector common to
them, y = x + c, all with entries N(0, 1); s = return.

Reference: Hron et al. 2020, Infinite attention, ICML
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, n, sqrt
from tplimits.program.language.trace import program


@program
def attention_logits(WQ: Matrix, WK: Matrix, x: Vector["token"], c: Vector):
    y = x + c
    q = WQ @ y
    k = (WK @ y).rename(token="key")
    return sqrt(n) * avg(q * k)


attention_logits = attention_logits.bind(token=2)
