"""A weight-tied recurrent network, forwards and one step backwards.

x_t = erf(h_t), h_0 = b, h_t = W x_{t−1} + b for t = 1, 2, with one W.  Forwards no transpose occurs and the hats of all
steps are one Gaussian family:

    C_st = Cov(|h_s⟩, |h_t⟩) = ⟨x_{s−1}|x_{t−1}⟩ + 1,  C_0t = 1                    (Yang & Littwin 2023, Eq. 2.18)
    ⟨x_s|x_t⟩ = (2/π) arcsin( 2 C_st / √((1 + 2 C_ss)(1 + 2 C_tt)) )                            (Williams 1996)

Fresh matrices at every step would give C_12 = 1: tying shows in ⟨x_1|x_2⟩.

Backwards, the gradient of L = |x_2|²/(2n) with respect to the entries of x_1, times n, is

    d = Wᵀ e,   e = x_2 ⊙ erf′(h_2).

The readout x_2 depends on W, so the shortcut of taking Wᵀ for a fresh matrix in the backward pass fails: d has a
dot-ket.  Moving W to the other side, with q = ⟨x_1|x_1⟩ and h ~ N(0, q + 1),

    ⟨x_1|d⟩ = ⟨W x_1|e⟩ = q E[(erf · erf′)′(h)]                             (adjointness, then Stein's identity)
"""

import mpmath
import sympy
from worked import Worked, without_dots

import tplimits as tp

work = Worked(__doc__)
slope = tp.elementwise(lambda h: 2 / sympy.sqrt(sympy.pi) * sympy.exp(-(h**2)))


@tp.program
def recurrent(W: tp.Matrix, b: tp.Vector):
    x0 = tp.erf(b)
    u1 = W @ x0
    h1 = u1 + b
    x1 = tp.erf(h1)
    u2 = W @ x1
    h2 = u2 + b
    x2 = tp.erf(h2)
    e = x2 * slope(h2)
    d = W.T @ e
    return tp.avg(x1 * x2), tp.avg(x2 * x2), tp.avg(x1 * d)


def recursion(tied):
    """All ⟨x_s|x_t⟩ with s ≤ t ≤ 2, in exact form."""
    x = {}
    for t in range(3):
        c = {s: 1 + (x[s - 1, t - 1] if s and (tied or s == t) else 0) for s in range(t + 1)}
        own = {s: 1 + (x[s - 1, s - 1] if s else 0) for s in range(t + 1)}
        for s in range(t + 1):
            x[s, t] = (
                2 / sympy.pi * sympy.asin(2 * c[s] / sympy.sqrt(sympy.sympify((1 + 2 * own[s]) * (1 + 2 * own[t]))))
            )
    return x


limit = work.derived(recurrent)
x = recursion(tied=True)
numbers = limit.evaluate()
work.same("⟨x_0|x_1⟩", limit.braket("x0", "x1"), x[0, 1])
work.close("⟨x_1|x_1⟩", limit.braket("x1", "x1").evalf(20), x[1, 1].evalf(20))
work.close("⟨x_1|x_2⟩", numbers["return[0]"], x[1, 2].evalf(20))
work.close("⟨x_2|x_2⟩", numbers["return[1]"], x[2, 2].evalf(20))


def density(h):
    """erf′."""
    return 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-(h**2))


def curvature(h):
    """(erf · erf′)′ = erf′² + erf · erf″, with erf″(h) = −2h erf′(h)."""
    return density(h) ** 2 - 2 * h * mpmath.erf(h) * density(h)


q = mpmath.mpf(x[1, 1].evalf(30))
spread = mpmath.sqrt(q + 1)
gradient = q * mpmath.quad(lambda g: curvature(spread * g) * mpmath.npdf(g), [-14, -5, 0, 5, 14])
work.close("⟨x_1|d⟩", numbers["return[2]"], gradient)

work.accepts(limit)
work.rejects(limit, {"return[0]": float(recursion(tied=False)[1, 2])}, "a fresh matrix at every step")
work.rejects(limit, {"return[2]": without_dots(recurrent)["return[2]"]}, "Wᵀ taken for a fresh matrix backwards")
work.finish()
