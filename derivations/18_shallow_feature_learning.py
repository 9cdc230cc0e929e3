"""Thm 2.5.2 of Yang & Littwin 2023: the feature-learning limit of networks with one hidden layer.

    python derivations/18_shallow_feature_learning.py [--full]

Without matrices every neuron moves by itself, in the mean field f_t = ⟨v_t|φ(u_t)⟩ of all others:

    |u_{t+1}⟩ = |u_t⟩ − η Q_t(Σ χ φ'(|u_t⟩ξ)|v_t⟩ξ, …),   |v_{t+1}⟩ = |v_t⟩ − η Q_t(Σ χ φ(|u_t⟩ξ), …).

One step of sign descent is an integral over two Gaussians, taken by quadrature; then Adam, SGD and Adam with decay over
several steps, against networks of widths up to 32,768 (262,144 with --full).
"""

import numpy as np
import scipy.integrate
import scipy.stats
import sympy
from pictures import Pictures
from trained import ERROR, SETTINGS, X, Y, compare, fall, networks, reject, shallow, uncorrected
from worked import SEED, Worked

import tplimits as tp

pictures, work = Pictures(__doc__), Worked(__doc__)
η = 0.25

print("\nSign descent on ξ = y = 1, seen at ξ = 1 and ξ = −½.  χ_0 = −1 and φ' > 0, so that")
print("  u_1 = u + η sgn v,   v_1 = v + η sgn φ(u) = v + η sgn u,   f_1(ξ) = E (v + η sgn u) φ((u + η sgn v) ξ)")
sign = tp.derive(shallow, tp.MaximalUpdate(tp.SignSGD()))
print("", sign, "", sign.latex(), "", sep="\n")


def by_hand(ξ: float, of_input: float = η, of_readout: float = η) -> float:
    """f_1(ξ), the quarters of the plane one by one: between them the signs are constant."""

    def integrand(v: float, u: float) -> float:
        moved = (v + of_readout * np.sign(u)) * np.tanh(ξ * (u + of_input * np.sign(v)))
        return moved * scipy.stats.norm.pdf(u) * scipy.stats.norm.pdf(v)

    halves = [(-12, 0), (0, 12)]
    return sum(scipy.integrate.dblquad(integrand, *u, *v, epsabs=1e-11)[0] for u in halves for v in halves)


data, targets = [[1.0], [-0.5]], tp.squared_error([1.0, np.nan], train=[0])
asked = {"error": targets, "lr": η, "steps": 1}
step = tp.derive(sign.unrolled(data, **asked))
labels = [f"return[1][sample={a}]" for a in (0, 1)]
numbers = step.evaluate("quadrature", only=labels)
run = sign.evaluate(data, **asked, seed=SEED)
for a, ξ in enumerate((1.0, -0.5)):
    work.close(f"f_1({ξ:g}) by quadrature", numbers[labels[a]].value, by_hand(ξ))
    z = (run.f[1, a] - by_hand(ξ)) / run.stderr[1, a]
    work.holds(f"f_1({ξ:g}) on particles: {run.f[1, a]:.5f} ± {run.stderr[1, a]:.5f}, z = {z:+.2f}", abs(z) < 4)
signs = networks(shallow, tp.MUP, tp.SignSGD(), η, 1, {2**15: 16}, data=(data, targets))
mean, error = signs.mean(2**15)
z = abs(mean[1] - [by_hand(1.0), by_hand(-0.5)]) / error[1]
work.holds(f"networks of width 32768: z = {z[0]:.2f}, {z[1]:.2f}", z.max() < 4)
frozen = abs(mean[1] - [by_hand(1.0, of_input=0.0), by_hand(-0.5, of_input=0.0)]) / error[1]
work.holds(f"wrong: features that do not move, z = {frozen.min():.0f} and more", frozen.min() > 5)

print("\nThe linear network, ξ = y = 1, η = ½: u_1 = u + v/2, v_1 = v + u/2, f_1 = ⟨v_1|u_1⟩ = 1")


@tp.network
def linear(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.sum(U * ξ, over="d")


exact = tp.derive(linear, tp.MaximalUpdate(tp.SGD()))
asked = {"error": tp.squared_error([1.0]), "lr": 0.5, "steps": 2}
found = exact.exact([[1.0]], **asked).ravel()
work.same("f_1", found[1], sympy.Integer(1))
work.same("f_2 (χ_1 = 0: nothing moves)", found[2], sympy.Integer(1))

STEPS = 10
COUNTS = {512: 2048, 4096: 512, 32768: 128} if pictures.full else {512: 256, 4096: 64, 32768: 12}
if pictures.full:
    COUNTS |= {262144: 32}
for name, (optimizer, lr, decay) in SETTINGS.items():
    print(f"\n{name}: {STEPS} steps on six inputs in R^4")
    finite = networks(shallow, tp.MUP, optimizer, lr, STEPS, COUNTS, decay)
    derived = tp.derive(shallow, tp.MaximalUpdate(optimizer, weight_decay=decay))
    limit = derived.evaluate(X, error=ERROR, lr=lr, steps=STEPS, particles=2**14, seed=SEED)
    print(f"  mean |f_{STEPS} − y| {np.abs(limit.f[-1] - Y).mean():.3f}, at the start {np.abs(Y).mean():.3f}")
    compare(work, name, finite, limit)
    if name == "Adam":
        fall(work, finite, limit)
        twin = tp.derive(shallow, tp.MaximalUpdate(uncorrected()))
        twin = twin.evaluate(X, error=ERROR, lr=lr, steps=STEPS, particles=2**14, seed=SEED)
        reject(work, "wrong: no bias correction", finite, twin)
work.finish()
