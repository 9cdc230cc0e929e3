"""A matrix used twice, the same way round.

W meets x and then a vector y that was made from W x.  Its rows are not independent of y any more, and yet the rule
is the same as for a new vector: the hats of all images under W form one Gaussian family,

    Cov(|W x⟩^, |W y⟩^) = ⟨x|y⟩                                                   (Yang & Littwin 2023, Eq. 2.18)

however y came about.  (The dot-ket, which is zero here, is what the transpose adds; see the next script.)
Three consequences:

    W W x is orthogonal to x and to W x:  ⟨x|W W x⟩ = ⟨W x|W W x⟩ = 0;
    with y = x + erf(W x), W y is correlated with W x exactly as y is with x, Cov = 1, and has variance
        ⟨y|y⟩ = 1 + q,  q = E erf²(W x) = (2/π) arcsin(2/3);
    W of a combination is the combination of the images: W(2x − W x) brings no new Gaussian.
"""

import sympy
from worked import Worked

import tplimits as tp

work = Worked(__doc__)


@tp.program
def reused(W: tp.Matrix, x: tp.Vector):
    h = W @ x
    u = W @ h
    y = x + tp.erf(h)
    k = W @ y
    combined = W @ (2 * x - h)
    return tp.avg(tp.erf(h) * tp.erf(k)), tp.avg(combined * u)


limit = work.derived(reused)
q = 2 / sympy.pi * sympy.asin(sympy.Rational(2, 3))
work.same("⟨x|W W x⟩", limit.braket("x", "u"), sympy.Integer(0))
work.same("⟨W x|W W x⟩", limit.braket("h", "u"), sympy.Integer(0))
work.same("Cov(|h⟩, |k⟩)", limit.braket("h", "k"), sympy.Integer(1))
work.same("⟨k|k⟩", limit.braket("k", "k"), 1 + q)
work.same("|W(2x − W x)⟩", limit.ket("combined"), 2 * limit.ket("h") - limit.ket("u"))

# the arcsine kernel at ⟨h|h⟩ = 1, ⟨h|k⟩ = 1, ⟨k|k⟩ = 1 + q; and ⟨2h − u|u⟩ = −⟨u|u⟩ = −1
overlap = 2 / sympy.pi * sympy.asin(2 / sympy.sqrt(3 * (3 + 2 * q)))
work.same("⟨erf(h)|erf(k)⟩", limit.scalar("return[0]"), overlap)
work.same("⟨W(2x − W x)|W W x⟩", limit.scalar("return[1]"), sympy.Integer(-1))
numbers = limit.evaluate("quadrature")
work.close("⟨erf(h)|erf(k)⟩ by quadrature", numbers["return[0]"], overlap.evalf(20))

work.accepts(limit)
work.rejects(limit, {"return[0]": 0.0}, "a fresh matrix at every use would make the two layers independent")
work.finish()
