"""One MatMul.

Given x and y, the pairs ((W x)_α, (W y)_α), α = 1 … n, are independent and Gaussian, with covariance xᵀy/n.  When
the inner products converge, ket by ket:

    |W x⟩ and |W y⟩ are jointly Gaussian, Cov(|W x⟩, |W y⟩) = ⟨x|y⟩              (Yang & Littwin 2023, Eq. 2.18)

and nothing else, as long as the transpose of W has not been used.  A layer of error functions on top then has the
kernel of Williams (1996):

    ⟨erf(W x)|erf(W y)⟩ = (2/π) arcsin( 2⟨x|y⟩ / √((1 + 2⟨x|x⟩)(1 + 2⟨y|y⟩)) )

Here x = a and y = a + b for independent a and b: ⟨x|x⟩ = ⟨x|y⟩ = 1, ⟨y|y⟩ = 2.
"""

import sympy
from worked import Worked

import tplimits as tp

work = Worked(__doc__)


@tp.program
def layer(W: tp.Matrix, a: tp.Vector, b: tp.Vector):
    y = a + b
    g = W @ a
    h = W @ y
    return tp.avg(tp.erf(g) * tp.erf(h))


limit = work.derived(layer)
for left, right, value in (("g", "g", 1), ("g", "h", 1), ("h", "h", 2)):
    work.same(f"⟨{left}|{right}⟩", limit.braket(left, right), sympy.Integer(value))


def williams(xx, xy, yy):
    return 2 / sympy.pi * sympy.asin(2 * xy / sympy.sqrt((1 + 2 * xx) * (1 + 2 * yy)))


kernel = williams(1, 1, sympy.Integer(2))
work.same("the kernel", limit.scalar("return"), kernel)
work.close("the kernel by quadrature", limit.evaluate("quadrature")["return"], kernel.evalf(20))

work.accepts(limit)
wrong = float(williams(1, 1, sympy.Integer(1)))
work.rejects(limit, {"return": wrong}, "a + b taken to have the variance of a")
work.finish()
