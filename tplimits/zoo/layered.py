"""Several layers: residual, convolutional and recurrent ones, and one walked through backwards."""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, erf, relu, step
from tplimits.program.language.trace import program
from tplimits.program.layers.convolution import conv1d


@program
def residual(W: Matrix["n", "n", "layer"], x: Vector):
    """Three residual ReLU layers, x + W relu(x), from a family of matrices.

    Each layer adds a fresh Gaussian vector of variance E relu²(x) = ⟨x|x⟩/2; the input stays where it is.

    Limit: return[0] = ⟨y|y⟩ → (3/2)³ = 27/8, return[1] = ⟨x|y⟩ → 1, for the output y

    Symbols: W are three independent n × n matrices with entries N(0, 1/n); x has entries N(0, 1).

    Reference: Yang & Schoenholz 2017, Mean field residual networks, NIPS
    """
    y = x
    for layer in range(3):
        y = y + W.sel(layer=layer) @ relu(y)
    return avg(y * y), avg(x * y)


residual = residual.bind(layer=3)


@program
def convolution(W: Matrix["n", "n", "tap"], U: Matrix["n", "n", "tap"], x: Vector["position"]):
    """Two convolutions on a circle of four positions, with three taps and relu between them.

    One matrix a tap, shared by all positions; position p reads positions p − 1, p and p + 1.  Positions that see
    independent inputs have independent first layers, but relu makes the second ones correlated.

    Limit: ⟨return|return⟩ → Σ_t K(p + t, q + t) over the taps t, with K(p, q) = ⟨relu(h_p)|relu(h_q)⟩ the arc-cosine
    kernel of Cov(h_p, h_q) = 3 δ_pq: 9/2 for p = q and 9/(2π) ≈ 1.4324 otherwise

    Symbols: W and U are three n × n matrices each, with entries N(0, 1/n); the four vectors x have entries N(0, 1);
    h is the first convolution; p and q are positions.

    Reference: Garriga-Alonso, Rasmussen & Aitchison 2019; Novak et al. 2019, both ICLR
    """
    h = conv1d(x, W, over={"position": 4}, taps={"tap": 3}, padding="CIRCULAR", to="at")
    y = relu(h)
    return conv1d(y, U, over="at", taps="tap", padding="CIRCULAR", to="out")


@program
def tied_rnn(W: Matrix, x0: Vector, b: Vector):
    """A recurrent network, x_t = erf(W x_{t−1} + b), three steps with one W.

    No transpose, hence no dot-ket; what the shared weights do is correlate the steps: the hats of W x_1 and W x_2
    have covariance ⟨x_1|x_2⟩, and fresh matrices at every step would have none.

    Limit: return[0] = ⟨x_3|x_3⟩ → 0.5458…, return[1] = ⟨x_2|x_3⟩ → 0.4276…, by Cov(h_s, h_t) = ⟨x_{s−1}|x_{t−1}⟩ + 1
    and ⟨x_s|x_t⟩ = (2/π) arcsin(2 C_st/√((1 + 2C_ss)(1 + 2C_tt))), C the covariance of h

    Symbols: W is n × n with entries N(0, 1/n); x0 and b have entries N(0, 1); h_t = W x_{t−1} + b.

    Reference: Williams 1996, NIPS, for the kernel; Yang 2019, Tensor Programs I, NeurIPS, for recurrent networks
    """
    x = x0
    for _ in range(3):
        before = x
        x = erf(W @ x + b)
    return avg(x * x), avg(before * x)


@program
def backprop(W: Matrix, x: Vector, v: Vector):
    """One backward step through a ReLU layer, Wᵀ (step(h) ⊙ v): where independence of W and Wᵀ is right.

    The transpose meets a vector that depends on W, so a dot-ket is due; its coefficient is a mean over the fresh
    readout v, which is centred, and vanishes.  Gradient independence is this remark.

    Limit: return[0] = ⟨g|g⟩ → E step²(h) E v² = 1/2, return[1] = ⟨x|g⟩ → 0

    Symbols: W is n × n with entries N(0, 1/n); x and v have entries N(0, 1); h = W x.

    Reference: Schoenholz et al. 2017, Deep information propagation, ICLR; Yang 2020, Tensor Programs II,
    arXiv:2006.14548
    """
    h = W @ x
    g = W.T @ (step(h) * v)
    return avg(g * g), avg(x * g)
