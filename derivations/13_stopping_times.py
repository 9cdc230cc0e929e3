"""How deep shaped attention stays stable: Figures 5 and 8 of Noci et al. 2023, networks and paths of the SDE.

    python derivations/13_stopping_times.py [--full] [--out FOLDER] [--png]

t* = d*/n, d* the first depth at which an eigenvalue of V leaves [10⁻⁴, 10⁴], capped at 1; n = d = 200, tokens of length
10√n.  The largest eigenvalue along depth, the median and 10 % quantile of t* against γ, and its median against τ0.

The limit is local, and these starts are far out: a logit has the size V/(τ0 √n) = 7 at τ0 = 1, where the softmax is not
near its first orders but saturated, so that networks of width 200 grow far more slowly than the paths, whose drift is
cubic in V.  At higher temperatures logits are small and both agree.  They are judged there: at τ0 = 50 and 100, by the
time at which an eigenvalue leaves [10, 400].  Both are looked at once a layer.

By default 24 networks a point, and 200 where they are judged; --full takes the 100 of the paper, and 1000.
"""

import itertools

import numpy as np
from blocks import attention
from pictures import Pictures, start
from worked import APART, SEED, Worked

import tplimits as tp
from tplimits.regimes.depth.finite.trajectories import covariances_of_networks
from tplimits.regimes.depth.numbers.influence import of_quantile

pictures, work = Pictures(__doc__), Worked(__doc__)
NETWORKS, JUDGED, PATHS = (100, 1000, 1000) if pictures.full else (24, 200, 128)
WIDTHS = (200, 400, 800) if pictures.full else (200, 400)
WIDTH, WIDE, NARROW = 200, (1e-4, 1e4), (10.0, 400.0)
V0 = start(4, 0.2, 100.0)
GAMMAS, TEMPERATURES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7), (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
sde = tp.derive(attention, tp.Proportional())


def networks(γ, τ0, interval=WIDE, count=NETWORKS, n=WIDTH):
    """t* of each network, and its largest eigenvalue along depth."""
    V = covariances_of_networks(attention, V0, n, n, count, SEED, record=True, γ=γ, τ0=τ0)
    finite = np.isfinite(V).all(axis=(2, 3))
    eigenvalues = np.linalg.eigvalsh(np.where(finite[..., None, None], V, np.eye(len(V0))))
    out = ~finite | (eigenvalues[..., 0] < interval[0]) | (eigenvalues[..., -1] > interval[1])
    first = np.where(out.any(axis=0), out.argmax(axis=0), n)
    return first / n, np.where(finite, eigenvalues[..., -1], np.nan)


def paths(γ, τ0, interval=WIDE, dt=1e-4, count=PATHS, record=False):
    """Paths of the SDE, stopped."""
    return sde.simulate(V0, T=1.0, dt=dt, paths=count, seed=SEED, stop=interval, record=record, γ=γ, τ0=τ0)


def capped(found):
    """t* of each path."""
    return np.minimum(found.stopping_time, 1.0)


print("\nFigures 5 and 8")
by_γ = {γ: (networks(γ, 1.0)[0], capped(paths(γ, 1.0))) for γ in GAMMAS}
by_τ0 = {τ0: (networks(0.2, τ0)[0], capped(paths(0.2, τ0))) for τ0 in TEMPERATURES}
for name, points in (("τ0 = 1, γ", by_γ), ("γ = 0.2, τ0", by_τ0)):
    for value, both in points.items():
        (a, b), (c, d) = (np.quantile(t, (0.1, 0.5)) for t in both)
        print(f"  {name} = {value:g}: t* of networks 10 % {a:.3f}, median {b:.3f}; of the SDE {c:.4f}, {d:.4f}")

print("\nFar from the limit: γ = 0.2, τ0 = 1")
medians = [np.median(networks(0.2, 1.0, count=16, n=n)[0]) for n in WIDTHS]
for n, median in zip(WIDTHS, medians, strict=True):
    print(f"  n = {n}: median t* of 16 networks {median:.3f}")
falling = all(a > b for a, b in itertools.pairwise([*medians, np.median(by_γ[0.2][1])]))
work.holds("t* falls with the width, towards that of the SDE", falling)

print("\nWhere logits are small")
for γ, τ0 in ((0.7, 50.0), (0.5, 50.0), (0.7, 100.0)):
    t, _ = networks(γ, τ0, NARROW, JUDGED)
    for twin, what in ((γ, f"γ = {γ:g}, τ0 = {τ0:g}"), (0.85 * γ, f"the wrong twin of {γ:g}, γ = {0.85 * γ:.3g}")):
        s = capped(paths(twin, τ0, NARROW, dt=1 / WIDTH, count=4000))
        scores = []
        for label, read in (("mean", lambda x: x), ("median", lambda x: of_quantile(x, 0.5))):
            (a, da), (b, db) = ((read(x).mean(), read(x).std() / len(x) ** 0.5) for x in (t, s))
            scores.append((a - b) / np.hypot(da, db))
            print(f"  {what}: {label} t* of networks {a:.4f} ± {da:.4f}, SDE {b:.4f} ± {db:.4f}, z = {scores[-1]:+.2f}")
        same = twin == γ
        asked = f"{'below' if same else 'above'} {APART:g} was asked"
        worst = max(map(abs, scores))
        work.holds(f"{what}: the largest |z| is {worst:.2f}, {asked}", (worst < APART) == same)

figure, axes = pictures.figure(3, "Shaped attention from tokens of length 10√n, n = d = 200: Figures 5 and 8")
for i, γ in enumerate((0.1, 0.3)):
    _, largest = networks(γ, 1.0, count=5)
    found = paths(γ, 1.0, count=5, record=1)
    history = found.eigenvalues(recorded=True)[..., -1]
    history[found.time > found.stopping_time[:, None]] = np.nan
    axes[0].loglog(np.arange(1, WIDTH + 1) / WIDTH, largest[1:], f"C{i}", linewidth=0.9)
    axes[0].loglog(found.time[1:], history.T[1:], f"C{i}--", linewidth=0.9)
    for style, side in (("-", "networks"), ("--", "SDE")):
        axes[0].plot([], [], f"C{i}{style}", label=f"γ = {γ:g}, {side}")
axes[0].axhline(WIDE[1], color="0.7", linewidth=0.8)
axes[0].set_xlabel("layer/n")
axes[0].set_ylabel("largest eigenvalue of V")
axes[0].set_ylim(8, 3e4)
for axis, points, label in ((axes[1], by_γ, "γ, at τ0 = 1"), (axes[2], by_τ0, "τ0, at γ = 0.2")):
    for side, style, name in ((0, "o-", "networks"), (1, "s--", "SDE")):
        for q, colour in ((0.5, "C0"), (0.1, "C1")):
            values = [np.quantile(t[side], q) for t in points.values()]
            axis.loglog(list(points), values, colour + style, label=f"{name}, {'median' if q == 0.5 else '10 %'}")
    axis.set_xticks(list(points), [f"{x:g}" for x in points])
    axis.minorticks_off()
    axis.set_xlabel(label)
    axis.set_ylabel("t*, capped at 1")
for axis in axes:
    axis.legend(fontsize=8, loc="lower left" if axis is axes[0] else "best")
pictures.save(figure, "figure-5-8")
work.finish()
