"""Fluctuation scalars: √n times an average that tends to zero.

S = √n Avg(F) with ⟨1|F⟩ = 0 stays random.  Two cases that look alike.

A fresh readout.  s_ab = √n Avg(q_a ⊙ k_b), q = W_Q y, k = W_K y with independent matrices: attention logits at
1/√n.  Given y and k, s is exactly Gaussian, and

    Cov(s_ab, s_a′b′) → ⟨q_a k_b|q_a′ k_b′⟩ = ⟨y_a|y_a′⟩⟨y_b|y_b′⟩

The bracket ⟨F|F′⟩ is the covariance, because nothing that F is made of fluctuates together with the readout.

No fresh readout.  S = √n Avg((W z)² − 1).  Given z the entries of W z are independent with variance |z|²/n, so

    S ≈ √n Avg(g² − 1) + √n (|z|²/n − 1),   two independent parts of variance 2 each: Var S → 4,

while ⟨F|F⟩ = E(g² − 1)² = 2 sees the first alone.  In the same way, with h = W z, m(v) = E √v g tanh(√v g) and
m = m(1),

    √n Avg(z ⊙ Wᵀ tanh(h)) − √n m  has variance  E (g tanh g)² − m² + 2 m′(1)²,

while the bracket of its ket with itself, minus m², is E tanh² + 2 (E sech²)².  A covariance ⟨x|x⟩ of the limit at
initialisation, as in Yang & Littwin 2023, Thm 2.9.19, therefore needs outputs that are read out by fresh vectors; the
derivation refuses the rest.
"""

import mpmath
import sympy
from worked import LEVEL, SEED, Worked

import tplimits as tp
from tplimits.sampling.sampling import Sampling
from tplimits.sampling.verdict import Claim, run_check

work = Worked(__doc__)


@tp.program
def logits(WQ: tp.Matrix, WK: tp.Matrix, x: tp.Vector["token"], c: tp.Vector):
    y = x + c
    q = WQ @ y
    k = (WK @ y).rename(token="key")
    return tp.sqrt(tp.n) * tp.avg(q * k)


limit = work.derived(logits.bind(token=2), steps=False)
gram = ((2, 1), (1, 2))
for (a, b), (c, d) in (((0, 0), (0, 0)), ((0, 0), (0, 1)), ((0, 0), (1, 1)), ((0, 1), (1, 0))):
    first, second = (f"return[token={i},key={j}]" for i, j in ((a, b), (c, d)))
    by_hand = sympy.Integer(gram[a][c] * gram[b][d])
    work.same(f"Cov(s_{a}{b}, s_{c}{d})", limit.covariance(first, second), by_hand)

narrow = {"widths": (16, 32, 64, 128), "draws": (24000, 12000, 5000, 1600)}
work.accepts(limit, **narrow)
work.rejects(limit, {"return[token=0,key=1]": 1.0}, "the part c common to both tokens forgotten", **narrow)


@tp.program
def squares(W: tp.Matrix, z: tp.Vector):
    h = W @ z
    return tp.sqrt(tp.n) * tp.avg(h**2 - 1)


@tp.program
def tied(W: tp.Matrix, z: tp.Vector):
    h = W @ z
    y = W.T @ tp.tanh(h)
    return tp.sqrt(tp.n) * tp.avg(z * y)


def refused(program):
    """Whether the derivation refuses a program; its reason is printed."""
    try:
        tp.derive(program)
    except tp.NoLimitError as reason:
        print(f"\n{program.name}: {reason}")
        return True
    return False


work.holds("√n Avg((W z)² − 1) is refused", refused(squares))
work.holds("√n Avg(z ⊙ Wᵀ tanh(W z)) is refused (its mean is not zero, either)", refused(tied))


def mean(f):
    """E f(g) for a standard normal g."""
    return mpmath.quad(lambda g: f(g) * mpmath.npdf(g), [-14, -5, 0, 5, 14])


def measured(program, true, naive):
    """Finite widths accept one variance and reject the other, with the very same networks."""
    for variance, accepted in ((true, True), (naive, False)):
        claim = Claim("return", float(variance), statistic="covariance")
        verdict = run_check(program, [claim], Sampling(seed=SEED, level=LEVEL, progress=False, **narrow))
        print(f"\n{program.name}: is the variance {float(variance):.4f}?")
        work.judged(verdict, accepted)


measured(squares, true=4, naive=2)

m = mean(lambda g: g * mpmath.tanh(g))
slope = mpmath.diff(lambda v: mean(lambda g: mpmath.sqrt(v) * g * mpmath.tanh(mpmath.sqrt(v) * g)), 1)
true = mean(lambda g: (g * mpmath.tanh(g)) ** 2) - m**2 + 2 * slope**2
naive = mean(lambda g: mpmath.tanh(g) ** 2) + 2 * mean(lambda g: mpmath.sech(g) ** 2) ** 2
measured(tied, true, naive)
work.finish()
