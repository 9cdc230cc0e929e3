"""Scalars that vectors are made with: norms, gates and attention weights."""

from fractions import Fraction

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, mean, n, relu, sigmoid, softmax, sqrt, sum, tanh
from tplimits.program.language.trace import program


@program
def layer_norm(W: Matrix, x: Vector):
    """Layer normalisation by scalars, sent back through Wᵀ.

    m and v are averages over all neurons; in the limit they are numbers and the normalised vector an affine
    function of relu(h).  The dot-ket of z = Wᵀ y is |x⟩ E relu′(h)/√v.

    Limit: return = ⟨z|z⟩ → 1 + (1/4)/v ≈ 1.7335, with m → 1/√(2π) ≈ 0.3989 and v → 1/2 − 1/(2π) ≈ 0.3408

    Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1).

    Reference: Ba, Kiros & Hinton 2016, arXiv:1607.06450; Yang & Littwin 2023, Def. 2.6.1 for scalars in programs
    """
    r = relu(W @ x)
    m = avg(r)
    v = avg((r - m) ** 2)
    y = (r - m) / sqrt(v)
    z = W.T @ y
    return avg(z * z)


@program
def batch_norm(W: Matrix, x: Vector["input"]):
    """Batch normalisation over three inputs: each neuron by its own mean and variance over a finite axis.

    The statistics are vectors, not scalars: they stay random in the limit, and y is a function of three correlated
    kets.  The three normalised vectors add up to zero, so their products are −1/2 of their squares.

    Limit: ⟨return|return⟩ → E[V/(V + 1/4)] ≈ 0.5929 for one input, −1/2 of it for two, V = (χ² with 2 degrees)/3

    Symbols: W is n × n with entries N(0, 1/n); the three vectors x have entries N(0, 1); V is the law of the
    variance of three standard normals around their mean; 1/4 is added to it under the root.

    Reference: Ioffe & Szegedy 2015, ICML; Yang et al. 2019, A mean field theory of batch normalization, ICLR
    """
    h = W @ x
    m = mean(h, over="input")
    v = mean((h - m) ** 2, over="input")
    y = (h - m) / sqrt(v + Fraction(1, 4))
    return y


batch_norm = batch_norm.bind(input=3)


@program
def scalar_gate(W: Matrix, x: Vector):
    """A layer switched by one number: s = sigmoid of the mean activity, y = s tanh(h), sent back through Wᵀ.

    The gate is a function of an average; in the limit it is a constant, and it takes no part in the derivative
    that makes the dot-ket.

    Limit: return = ⟨x|Wᵀy⟩ → s E sech²(g) ≈ 0.3625 with s → 1/(1 + e^(−1/√(2π))) ≈ 0.5984

    Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1); g is a standard normal.

    Reference: Hu, Shen & Sun 2018, Squeeze-and-excitation networks, CVPR
    """
    h = W @ x
    s = sigmoid(avg(relu(h)))
    z = W.T @ (s * tanh(h))
    return avg(x * z)


@program
def attention(W: Matrix, V: Matrix, x: Vector["token"]):
    """Softmax attention over three tokens, logits scaled by 1/n, queries and keys through one matrix.

    The logits are averages over neurons and converge to the Gram matrix of the tokens; the attention weights
    become numbers, and the outputs fixed mixtures of the values.  With separate matrices for queries and keys they
    would converge to zero and the attention would be uniform.

    Limit: ⟨return|return⟩ → (e² + 2)/(e + 2)² ≈ 0.4217 for one token, (2e + 1)/(e + 2)² ≈ 0.2891 for two

    Symbols: W and V are n × n, independent, with entries N(0, 1/n); the three tokens x have entries N(0, 1); e is
    Euler's number.

    Reference: Vaswani et al. 2017, Attention is all you need, NIPS; Yang 2019, Tensor Programs I, NeurIPS, for 1/n
    logits
    """
    q = W @ x
    k = q.rename(token="key")
    v = (V @ x).rename(token="key")
    A = softmax(avg(q * k), over="key")
    return sum(A * v, over="key")


attention = attention.bind(token=3)


@program
def attention_logits(WQ: Matrix, WK: Matrix, x: Vector["token"], c: Vector):
    """Attention logits at the scale 1/√n: they stay random, and their covariance is what converges.

    With independent matrices for queries and keys the sum of q_α k_α is centred and of size √n.  Divided by √n it
    becomes Gaussian given the tokens.

    Limit: Cov(s_ab, s_a′b′) → ⟨y_a|y_a′⟩⟨y_b|y_b′⟩, with ⟨y_a|y_b⟩ = 1 + δ_ab: every logit has variance 4

    Symbols: WQ and WK are n × n, independent, with entries N(0, 1/n); x are two tokens and c a vector common to
    them, y = x + c, all with entries N(0, 1); s = return.

    Reference: Hron et al. 2020, Infinite attention, ICML
    """
    y = x + c
    q = WQ @ y
    k = (WK @ y).rename(token="key")
    return sqrt(n) * avg(q * k)


attention_logits = attention_logits.bind(token=2)
