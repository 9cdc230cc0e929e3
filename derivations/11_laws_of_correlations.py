"""Deep networks and paths of their covariance SDEs have one law: Figures 1 (right), 3 and 7 of Noci et al. 2023.

    python derivations/11_laws_of_correlations.py [--full] [--out FOLDER] [--png]

Shaped attention, n = 200, d = 150, γ² = 1/8, τ0 = 1, and a shaped ReLU residual network, n = 300, d = 100, c₊ = 0,
c₋ = −1, both from correlations 0.2.  The number of tokens, n_k and the variances at depth 0 are not stated in the
paper: here 4 and 2 tokens, n_k = n and variances 1.  Paths take steps of 0.01 and of half of it, for their error, and
the latter are compared.  By default samples are small; --full takes those of the paper, 2¹² and 2¹³ networks, and
steps of 0.0025, whose error is below the noise.

Networks of width 200 and 300 are off their limit by a few tenths of a percent, less than these samples see.
"""

import numpy as np
from blocks import attention, resnet
from pictures import Pictures, correlation, histogram, start
from worked import SEED, Worked

import tplimits as tp
from tplimits.regimes.depth.finite.trajectories import covariances_of_networks
from tplimits.regimes.depth.numbers.influence import of_quantile

pictures, work = Pictures(__doc__), Worked(__doc__)
MANY = 4096 if pictures.full else 320
#: how much γ² of a wrong twin is off
WRONG = 1.2 if pictures.full else 1.6
PATHS = {
    "dt": 0.0025 if pictures.full else 0.01,
    "paths": 2**15 if pictures.full else 2**14,
    "seed": SEED,
    "halve": True,
}

print("\nFigures 1 and 7: shaped attention")
V0, settings = start(4, 0.2), {"γ": 8**-0.5, "τ0": 1.0}
sde = tp.derive(attention, tp.Proportional())
networks = covariances_of_networks(attention, V0, 200, 150, MANY, SEED, **settings)
paths = sde.simulate(V0, T=0.75, **PATHS, **settings)
work.laws("attention, γ² = 1/8", networks, paths)
wrong = sde.simulate(V0, T=0.75, **PATHS, **{**settings, "γ": (WRONG / 8) ** 0.5})
work.laws(f"the wrong twin, γ² = {WRONG / 8:g}", networks, wrong, same=False)
figure, (left, right) = pictures.figure(2, "Shaped attention, n = 200, d = 150: Figures 1 (right) and 7")
histogram(left, correlation(networks), correlation(paths.halved.V), "correlation ρ")
histogram(right, networks[:, 0, 1], paths.halved.V[:, 0, 1], "covariance V of two tokens")
pictures.save(figure, "figure-1-7")

print("\nFigure 3: shaped ReLU residual network")
V0, slopes = start(2, 0.2), {"c_plus": 0.0, "c_minus": -1.0}
sde = tp.derive(resnet, tp.Proportional())
squares, drawn = (0.01, 0.1, 0.25, 0.5, 1.0), (0.1, 0.5, 1.0)
figure, axes = pictures.figure(4, "Shaped ReLU residual network, n = 300, d = 100: Figure 3")
panels, tails = dict(zip(drawn, axes, strict=False)), []
for γ2 in squares:
    γ = γ2**0.5
    networks = covariances_of_networks(resnet, V0, 300, 100, 2 * MANY, SEED, γ=γ, **slopes)
    paths = sde.simulate(V0, T=1 / 3, **PATHS, γ=γ, **slopes)
    work.laws(f"residual network, γ² = {γ2:g}", networks, paths)
    if γ2 in panels:
        histogram(panels[γ2], correlation(networks), correlation(paths.halved.V), f"correlation ρ, γ² = {γ2:g}")
    if γ2 == 0.5:
        wrong = sde.simulate(V0, T=1 / 3, **PATHS, γ=(WRONG * γ2) ** 0.5, **slopes)
        work.laws(f"the wrong twin, γ² = {WRONG * γ2:g}", networks, wrong, same=False)
    high = [of_quantile(np.abs(correlation(V)), 0.95) for V in (networks, paths.halved.V)]
    tails.append([v for h in high for v in (h.mean(), h.std() / len(h) ** 0.5)])
value, error, expected, _ = np.transpose(tails)
last, γs = axes[-1], np.sqrt(squares)
last.errorbar(γs, value, 2 * error, fmt="o", capsize=3, label="networks, ± 2 standard errors")
last.plot(γs, expected, "C1--", label="SDE")
last.set_xlabel("γ")
last.set_ylabel("95 % quantile of |ρ|")
last.legend()
pictures.save(figure, "figure-3")
work.finish()
