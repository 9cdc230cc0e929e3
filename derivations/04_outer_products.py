"""Nonlinear outer products.

An update of a matrix by f(h xᵀ), entry by entry, is never formed: only its products with vectors occur,

    y_α = (1/n) Σ_β f(h_α x_β) x_β.

Neuron β is one of n look-alikes, independent of α in the limit, so the sum is a mean over a copy of the whole tuple
of kets, put in a box:

    |y⟩ = E_[1] f(|h⟩ |x⟩^[1]) |x⟩^[1]                 (Yang & Littwin 2023, Def. 2.6.5, OuterNonlin, order 2)

    f = sign   sign(h x′) = sign(h) sign(x′): |y⟩ = sign(|h⟩) E|x|, so ⟨h|y⟩ = (E|g|)² = 2/π
    f = tanh   nothing factors: ⟨h|y⟩ = E p tanh(p) for p = h x′, a product of two independent standard normals, with
               density K₀(|p|)/π (K₀ the modified Bessel function)
    |x − x′|   y_α = (1/n) Σ_β |x_α − x_β| has |y⟩ = x erf(x/√2) + √(2/π) e^(−x²/2) and mean 2/√π
"""

import mpmath
import sympy
from worked import Worked

import tplimits as tp

work = Worked(__doc__)


@tp.program
def updates(W: tp.Matrix, x: tp.Vector):
    β = tp.neuron("β")
    h = W @ x
    signed = tp.avg(tp.sign(h * x[β]) * x[β], over=β)
    smooth = tp.avg(tp.tanh(h * x[β]) * x[β], over=β)
    distance = tp.avg(tp.abs(x - x[β]), over=β)
    return tp.avg(h * signed), tp.avg(h * smooth), tp.avg(distance)


limit = work.derived(updates)
work.same("⟨h|sign(h xᵀ)|x⟩", limit.scalar("return[0]"), 2 / sympy.pi)
work.same("the mean distance", limit.scalar("return[2]"), 2 / sympy.sqrt(sympy.pi))

x = limit.ket("x")
distance = x * sympy.erf(x / sympy.sqrt(2)) + sympy.sqrt(2 / sympy.pi) * sympy.exp(-(x**2) / 2)
work.same("|distance⟩", limit.ket("distance"), distance)

bessel = 2 * mpmath.quad(lambda p: p * mpmath.tanh(p) * mpmath.besselk(0, p) / mpmath.pi, [0, 1, 4, 12, 40])
work.close("⟨h|tanh(h xᵀ)|x⟩", limit.evaluate()["return[1]"], bessel)

# an outer nonlinearity costs more than a matrix: fewer and narrower networks
few = {"widths": (32, 64, 128, 256), "draws": (8000, 3000, 800, 300)}
work.accepts(limit, **few)
factored = float(mpmath.quad(lambda g: g * mpmath.tanh(g) * mpmath.npdf(g), [-14, 0, 14]) ** 2)
work.rejects(limit, {"return[1]": factored}, "tanh(h xᵀ) taken apart into tanh(h) tanh(x)ᵀ, as sign can be", **few)
work.finish()
