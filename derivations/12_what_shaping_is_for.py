"""What each part of shaped attention is for: Figure 4 of Noci et al. 2023.

    python derivations/12_what_shaping_is_for.py [--full] [--out FOLDER] [--png]

|ρ| and |V| of two tokens along networks of n = 300, d = 150, γ² = 1/2, τ0 = 1 from correlations 0.2, with one or two of
the three parts left out: the identity, the centring and the temperature τ0 √(n n_k).  Shaped attention follows its SDE.
The others have no limit, and the derivation says so: without the centring tokens align, and with the identity V grows
by a factor in every layer; without the identity alone V vanishes; at the temperature √n_k the softmax moves V by order
1.

By default 96 networks each; --full takes 2048 (the paper 2¹³).
"""

import numpy as np
from blocks import attention, attention_with
from pictures import Pictures, correlation, start
from worked import SEED, Worked

import tplimits as tp
from tplimits.regimes.depth.finite.trajectories import covariances_of_networks

pictures, work = Pictures(__doc__), Worked(__doc__)
WIDTH, DEPTH = 300, 150
NETWORKS = 2048 if pictures.full else 96
V0, CONSTANTS = start(4, 0.2), {"γ": 0.5**0.5, "τ0": 1.0}
VARIANTS = {
    "no identity": {"identity": False},
    "not centred": {"centred": False},
    "temperature √n_k": {"tempered": False},
    "temperature alone": {"identity": False, "centred": False},
    "identity alone": {"centred": False, "tempered": False},
}


def networks_of(block):
    """V along networks: (layers + 1, networks, m, m)."""
    return covariances_of_networks(block, V0, WIDTH, DEPTH, NETWORKS, SEED, record=True, **CONSTANTS)


def summary(V):
    """Mean |ρ| and median |V| over networks; the mean of V need not exist in the limit."""
    with np.errstate(all="ignore"):
        return np.abs(correlation(V)).mean(axis=1), np.median(np.abs(V[..., 0, 1]), axis=1)


print()
sde = tp.derive(attention, tp.Proportional())
paths = sde.simulate(V0, T=DEPTH / WIDTH, dt=0.01, paths=8192, seed=SEED, record=5, halve=True, **CONSTANTS)
V = networks_of(attention)
work.laws("shaped attention, γ² = 1/2", V[-1], paths)
shaped, limit = summary(V), summary(paths.halved.history.swapaxes(0, 1))
figure, axes = pictures.figure(2, "Shaped attention with parts left out, n = 300, d = 150: Figure 4")
for axis, drawn, expected in zip(axes, shaped, limit, strict=True):
    axis.plot(drawn, color="k", label="shaped")
    axis.plot(paths.time * WIDTH, expected, "o", color="k", fillstyle="none", label="its SDE")

for i, (name, parts) in enumerate(VARIANTS.items()):
    block = attention_with(**parts)
    ρ, size = summary(networks_of(block))
    for axis, drawn in zip(axes, (ρ, size), strict=True):
        axis.plot(drawn, "-" if i % 2 else "--", label=name)
    print(f"  {name}: mean |ρ| {ρ[-1]:.3f}, median |V| {size[-1]:.3g} at the end")
    off = ρ[-1] > 0.98 or not 1e-3 < size[-1] / shaped[1][-1] < 1e3
    work.holds(f"{name} degenerates", off)
    try:
        tp.derive(block, tp.Proportional())
    except tp.NoLimitError as refusal:
        work.holds(f"{name} has no limit: {str(refusal).splitlines()[0]}", True)
    else:
        work.holds(f"{name} has no limit", False)
axes[1].set_yscale("log")
axes[1].set_ylim(1e-6, 1e6)
for axis, label in zip(axes, ("mean |ρ|", "median |V| of two tokens"), strict=True):
    axis.set_xlabel("layer")
    axis.set_ylabel(label)
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=9)
pictures.save(figure, "figure-4")
work.finish()
