"""The transpose and the dot-ket.

z = Wᵀ y with y = φ(h), h = W x.  Were Wᵀ independent of W, z would be a fresh Gaussian, orthogonal to x.  But

    xᵀz/n = xᵀWᵀφ(h)/n = hᵀφ(h)/n → E g φ(g),  g standard normal,

which is not zero.  The ket of z has a second part, a combination of what W was applied to before,

    |z⟩ = |z⟩^ + |x⟩ E[∂|y⟩/∂|W x⟩^] = |z⟩^ + |x⟩ E φ′(g)                         (Yang & Littwin 2023, Eq. 2.19)

and Stein's identity E φ′(g) = E g φ(g) says that the two computations are one.  Its right side needs no derivative,
so that φ may jump.  Three examples:

    φ = tanh   ⟨x|z⟩ = E sech²(g),  ⟨z|z⟩ = E tanh²(g) + (E sech²(g))²
    φ = step   ⟨x|z⟩ = E g step(g) = 1/√(2π), though step′ is zero almost everywhere
    φ = id     repeated, ⟨x|(W Wᵀ)^k x⟩ = 1, 2, 5, 14, … the Catalan numbers, since every earlier use returns
"""

import mpmath
import sympy
from worked import Worked, without_dots

import tplimits as tp

work = Worked(__doc__)


def mean(f):
    """E f(g) for a standard normal g."""
    return mpmath.quad(lambda g: f(g) * mpmath.npdf(g), [-14, -5, 0, 5, 14])


@tp.program
def tied(W: tp.Matrix, x: tp.Vector):
    h = W @ x
    y = tp.tanh(h)
    z = W.T @ y
    return tp.avg(x * z), tp.avg(z * z)


limit = work.derived(tied)
slope, power = mean(lambda g: mpmath.sech(g) ** 2), mean(lambda g: mpmath.tanh(g) ** 2)
numbers = limit.evaluate()
work.close("Stein: E sech²(g)", slope, mean(lambda g: g * mpmath.tanh(g)))
work.close("⟨x|z⟩", numbers["return[0]"], slope)
work.close("⟨z|z⟩", numbers["return[1]"], power + slope**2)


@tp.program
def jump(W: tp.Matrix, x: tp.Vector):
    z = W.T @ tp.step(W @ x)
    return tp.avg(x * z)


work.same("⟨x|Wᵀ step(W x)⟩", tp.derive(jump).scalar("return"), 1 / sympy.sqrt(2 * sympy.pi))


@tp.program
def powers(W: tp.Matrix, x: tp.Vector):
    y = x
    overlaps = []
    for _ in range(5):
        h = W.T @ y
        y = W @ h
        overlaps.append(tp.avg(x * y))
    return tuple(overlaps)


catalan = tp.derive(powers)
for k in range(1, 6):
    moment = catalan.scalar(f"return[{k - 1}]")
    work.same(f"⟨x|(W Wᵀ)^{k} x⟩", moment, sympy.catalan(k))

work.accepts(limit)
work.rejects(limit, without_dots(tied), "no dot-ket, as if Wᵀ were another matrix")
work.finish()
