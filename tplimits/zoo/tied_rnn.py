"""A recurrent network, x_t = erf(W x_{t−1} + b), three steps with one W.

No transpose, hence no dot-ket; what the shared weights do is correlate the steps: the hats of W x_1 and W x_2
have covariance ⟨x_1|x_2⟩, and fresh matrices at every step would have none.

Limit: return[0] = ⟨x_3|x_3⟩ → 0.5458…, return[1] = ⟨x_2|x_3⟩ → 0.4276…, by Cov(h_s, h_t) = ⟨x_{s−1}|x_{t−1}⟩ + 1
and ⟨x_s|x_t⟩ = (2/π) arcsin(2 C_st/√((1 + 2C_ss)(1 + 2C_tt))), C the covariance of h

Symbols: W is n × n with entries N(0, 1/n); x0 and b have entries N(0, 1); h_t = W x_{t−1} + b.

Reference: Williams 1996, NIPS, for the kernel; Yang 2019, Tensor Programs I, NeurIPS, for recurrent networks
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, erf
from tplimits.program.language.trace import program


@program
def tied_rnn(W: Matrix, x0: Vector, b: Vector):
    x = x0
    for _ in range(3):
        before = x
        x = erf(W @ x + b)
    return avg(x * x), avg(before * x)
