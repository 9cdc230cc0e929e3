"""Softmax attention over three tokens, logits scaled by 1/n, queries and keys through one matrix.

The logits are averages over neurons and converge to the Gram matrix of the tokens; the attention weights
become numbers, and the outputs fixed mixtures of the values.  With separate matrices for queries and keys they
would converge to zero and the attention would be uniform.

Limit: ⟨return|return⟩ → (e² + 2)/(e + 2)² ≈ 0.4217 for one token, (2e + 1)/(e + 2)² ≈ 0.2891 for two

Symbols: W and V are n × n, independent, with entries N(0, 1/n); the three tokens x have entries N(0, 1); e is
Euler's number.

Reference: Vaswani et al. 2017, Attention is all you need, NIPS; Yang 2019, Tensor Programs I, NeurIPS, for 1/n logits
"""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, softmax, sum
from tplimits.program.language.trace import program


@program
def attention(W: Matrix, V: Matrix, x: Vector["token"]):
    q = W @ x
    k = q.rename(token="key")
    v = (V @ x).rename(token="key")
    A = softmax(avg(q * k), over="key")
    return sum(A * v, over="key")


attention = attention.bind(token=3)
