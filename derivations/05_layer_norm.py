"""Layer normalisation by scalars.

r = relu(W x), m and v the mean and the variance of its entries, y = (r − m)/√v, and y is sent back through Wᵀ.

m and v depend on every entry of r, and through r on W.  But averages converge: in the limit they are numbers,

    m → E relu(g) = 1/√(2π),   v → E relu²(g) − m² = 1/2 − 1/(2π)              (Yang & Littwin 2023, Thm 2.6.10)

and y is an affine function of |r⟩ with fixed coefficients.  Hence ⟨y|y⟩ = 1, the dot-ket of z = Wᵀ y differentiates
relu alone, with coefficient E step(g)/√v = 1/(2√v), and

    ⟨z|z⟩ = ⟨y|y⟩ + (1/(2√v))² ⟨x|x⟩ = 1 + (1/4)/(1/2 − 1/(2π))
"""

import sympy
from worked import Worked, without_dots

import tplimits as tp

work = Worked(__doc__)


@tp.program
def normalised(W: tp.Matrix, x: tp.Vector):
    h = W @ x
    r = tp.relu(h)
    m = tp.avg(r)
    v = tp.avg((r - m) ** 2)
    y = (r - m) / tp.sqrt(v)
    z = W.T @ y
    return tp.avg(z * z)


limit = work.derived(normalised)
half, two_pi = sympy.Rational(1, 2), 2 * sympy.pi
v = half - 1 / two_pi
work.same("m", limit.scalar("m"), 1 / sympy.sqrt(two_pi))
work.same("v", limit.scalar("v"), v)
work.same("⟨y|y⟩", limit.braket("y", "y"), sympy.Integer(1))
work.same("the dot-ket", limit.dot("z"), limit.ket("x") * half / sympy.sqrt(v))
work.same("⟨z|z⟩", limit.scalar("return"), 1 + sympy.Rational(1, 4) / v)
work.close("⟨z|z⟩ by quadrature", limit.evaluate("quadrature")["return"], (1 + sympy.Rational(1, 4) / v).evalf(20))

work.accepts(limit)
work.rejects(limit, without_dots(normalised), "no dot-ket, as if Wᵀ were another matrix")
work.finish()
