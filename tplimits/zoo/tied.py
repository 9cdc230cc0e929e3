"""One matrix and its transpose around a nonlinearity: where independence of W and Wᵀ would be wrong."""

from tplimits.program.language.annotations import Matrix, Vector
from tplimits.program.language.operations import avg, exp, gelu, relu, step, tanh
from tplimits.program.language.trace import program


@program
def tied_tanh(W: Matrix, x: Vector):
    """Wᵀ tanh(W x) with one and the same W: where independence of W and Wᵀ would be wrong.

    With h = W x the dot-ket of z = Wᵀ tanh(h) is |x⟩ E tanh′(h).  An autoencoder with tied weights, or one step
    of a Hopfield network.

    Limit: return[0] = ⟨x|z⟩ → E sech²(g) ≈ 0.6057, return[1] = ⟨z|z⟩ → E tanh²(g) + (E sech²(g))² ≈ 0.7612

    Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1); g is a standard normal.

    Reference: Yang & Littwin 2023, Eq. (2.19)
    """
    h = W @ x
    y = tanh(h)
    z = W.T @ y
    return avg(x * z), avg(z * z)


@program
def tied_relu(W: Matrix, x: Vector):
    """Wᵀ relu(W x) with tied weights: an autoencoder whose limit is in closed form.

    The hat of z = Wᵀ relu(W x) has variance E relu²(g) = 1/2, its dot is half of |x⟩.

    Limit: ⟨return|return⟩ = ⟨z|z⟩ → 1/2 + (1/2)² = 3/4

    Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1); g is a standard normal.

    Reference: Li & Nguyen 2019, On random deep weight-tied autoencoders, ICLR
    """
    h = W @ x
    z = W.T @ relu(h)
    return z


@program
def tied_step(W: Matrix, x: Vector):
    """⟨x|Wᵀ step(W x)⟩: a jump, whose derivative exists only in the mean.

    The coefficient of the dot-ket is E step′(g), the density of a standard normal at 0; Stein's form E[g step(g)]
    of the same number needs no derivative.

    Limit: return → E[g step(g)] = 1/√(2π) ≈ 0.3989

    Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1); g is a standard normal; step(h) is 1 for
    h > 0 and 0 otherwise.

    Reference: Yang & Littwin 2023, Eq. (2.19); Stein 1981, Ann. Statist. 9, 1135
    """
    h = W @ x
    z = W.T @ step(h)
    return avg(x * z)


@program
def tied_gelu(W: Matrix, x: Vector):
    """Wᵀ gelu(W x) with the exact GELU: moments of a Gaussian distribution function.

    gelu(h) = h Φ(h).  Its mean slope is 1/2, that of relu; its second moment is less than that of relu.

    Limit: return[0] = ⟨x|z⟩ → E gelu′(g) = 1/2, return[1] = ⟨z|z⟩ → E gelu²(g) + 1/4 = 7/12 + 1/(2√3π) ≈ 0.6752

    Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1); g is a standard normal with distribution
    function Φ.

    Reference: Hendrycks & Gimpel 2016, arXiv:1606.08415; Tsuchida et al. 2021, AAAI
    """
    h = W @ x
    z = W.T @ gelu(h)
    return avg(x * z), avg(z * z)


@program
def tied_exp(W: Matrix, x: Vector):
    """Wᵀ exp(W x / 2): not pseudo-Lipschitz, but with finite moments of every order.

    The hypothesis of the Master Theorem is not met, and the derivation says so; the moments that occur are
    those of a lognormal variable and the limit holds nevertheless.

    Limit: return[0] = ⟨x|z⟩ → e^(1/8)/2 ≈ 0.5666, return[1] = ⟨z|z⟩ → e^(1/2) + e^(1/4)/4 ≈ 1.9697

    Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1).

    Reference: Yang & Littwin 2023, Setup 2.6.3, for the hypothesis that is not met
    """
    h = W @ x
    z = W.T @ exp(h / 2)
    return avg(x * z), avg(z * z)


@program
def two_rounds(W: Matrix, x: Vector):
    """Up, down and up again through one matrix: a dot-ket inside a nonlinearity.

    h = W x, x′ = Wᵀ relu(h), h′ = W relu(x′).  The ket of x′ holds |x⟩/2 beside its hat, so the hat of h′ is
    correlated with that of h, and h′ has a dot-ket |relu(h)⟩/2 of its own.

    Limit: return[0] = ⟨relu(h)|h′⟩ → 3/8, return[1] = ⟨h′|h′⟩ → 5/8

    Symbols: W is n × n with entries N(0, 1/n); x has entries N(0, 1).

    Reference: Yang & Littwin 2023, Eqs. (2.18) and (2.19); the first value is ⟨x′|relu(x′)⟩, by adjointness
    """
    h = W @ x
    up = relu(h)
    back = W.T @ up
    again = W @ relu(back)
    return avg(up * again), avg(again * again)


@program
def two_widths(W: Matrix["k", "n"], x: Vector):
    """Wᵀ relu(W x) through another width k: the ratio k/n stays in the limit.

    W maps width n to width k.  The transpose adds up k terms of variance 1/n, so both its hat and its dot carry
    the ratio of the widths: an autoencoder with a wide or a narrow hidden layer.

    Limit: return[0] = ⟨x|z⟩ → ρ/2, return[1] = ⟨z|z⟩ → ρ/2 + ρ²/4 with ρ = k/n (1 unless `ratios` says otherwise)

    Symbols: W is k × n with entries N(0, 1/n); x has entries N(0, 1) over width n.

    Reference: Yang & Littwin 2023, Eqs. (2.18) and (2.19), with one factor for each change of width
    """
    h = W @ x
    z = W.T @ relu(h)
    return avg(x * z), avg(z * z)
