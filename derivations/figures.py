"""Pictures of deep networks beside their covariance SDEs: Figures 1 (right), 3, 4 and 7 of Noci et al. 2023.

    python derivations/figures.py [--full] [--out FOLDER]

Networks are run layer by layer; where this version simulates SDEs, their paths are drawn beside them.  By default
samples are small (about 20 s); --full takes those of the paper, which does not state the number of tokens, n_k or
the variances at depth 0 in Figures 1 and 3: here m = 4 and 2, n_k = n and 1.
"""

import argparse
import pathlib

import matplotlib as mpl
import numpy as np

import tplimits as tp
from tplimits.check.trajectories import covariances_of_networks

mpl.use("Agg")
from matplotlib import pyplot as plt

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--full", action="store_true", help="the sample sizes of the paper")
parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("demo"), help="where the pictures go")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)
MANY = 4096 if options.full else 256


def start(m, ρ):
    return np.full((m, m), ρ) + (1 - ρ) * np.eye(m)


def attention_block(identity=1, centred=1, tempered=1):
    """Shaped attention, or with one of its three modifications left out (0)."""

    @tp.block
    def attention(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
        q, k, v = WQ @ x, (WK @ x).rename(token="key"), WV @ x
        values = v.rename(token="key")
        scale = tp.sqrt(tp.width("k")) / (τ0 * tp.sqrt(tp.n)) if tempered else tp.sqrt(tp.width("k"))
        A = tp.softmax(tp.avg(q * k) * scale, over="key")
        attended = tp.sum(A * values, over="key")
        if identity:
            attended = v + attended
        if centred:
            attended = attended - tp.mean(values, over="key")
        return tp.sqrt(1 - γ**2) * x + γ * attended

    return attention


def shaped(h, c_plus, c_minus):
    return (1 + c_plus / tp.sqrt(tp.n)) * tp.relu(h) - (1 + c_minus / tp.sqrt(tp.n)) * tp.relu(-h)


@tp.block
def resnet(x: tp.State["token"], W1: tp.Matrix, W2: tp.Matrix, *, γ, c_plus, c_minus):
    s = shaped(W1 @ x, c_plus, c_minus)
    c = 1 / tp.expect(lambda g: shaped(g, c_plus, c_minus) ** 2)
    return tp.sqrt(1 - γ**2) * x + γ * tp.sqrt(c) * (W2 @ s)


def correlation(V):
    return V[..., 0, 1] / np.sqrt(V[..., 0, 0] * V[..., 1, 1])


def simulated(block, V0, T, paths, **constants):
    """Terminal covariances of the SDE, or None where SDEs are not simulated."""
    sde = tp.derive(block, tp.Proportional())
    simulate = getattr(sde, "simulate", None)
    if simulate is None:
        return None
    return simulate(V0, T=T, dt=0.01, paths=paths, seed=1, **constants).V


def histogram(axis, networks, paths, label):
    edges = np.linspace(*np.quantile(networks, [0.002, 0.998]), 40)
    axis.hist(networks, edges, density=True, alpha=0.5, label="networks")
    if paths is not None:
        axis.hist(paths, edges, density=True, histtype="step", label="SDE")
    axis.set_xlabel(label)
    axis.legend()


def report(what, networks, paths):
    """Mean and standard deviation of both, and their distance in standard errors."""
    line = f"  {what}: networks {networks.mean():.4f}, std {networks.std():.4f}"
    if paths is not None:
        error = np.hypot(networks.std() / len(networks) ** 0.5, paths.std() / len(paths) ** 0.5)
        line += f"; SDE {paths.mean():.4f}, std {paths.std():.4f}; {abs(networks.mean() - paths.mean()) / error:.1f} σ"
    print(line)


print("Figures 1 (right) and 7: shaped attention, n = 200, d = 150, γ² = 1/8, τ0 = 1, ρ0 = 0.2")
settings = {"γ": 8**-0.5, "τ0": 1.0}
networks = covariances_of_networks(attention_block(), start(4, 0.2), 200, 150, MANY, **settings)
paths = simulated(attention_block(), start(4, 0.2), 0.75, 4096, **settings)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.5))
for axis, label, read in ((axes[0], "ρ", correlation), (axes[1], "V", lambda V: V[:, 0, 1])):
    other = None if paths is None else read(paths)
    histogram(axis, read(networks), other, label)
    report(label, read(networks), other)
figure.savefig(options.out / "figure-1-7.svg")

print("Figure 3: shaped ReLU ResNet, n = 300, d = 100, c₊ = 0, c₋ = −1, ρ0 = 0.2")
figure, axes = plt.subplots(1, 4, figsize=(15, 3.5))
tails = []
for axis, γ2 in zip(axes, (0.1, 0.5, 1.0), strict=False):
    settings = {"γ": γ2**0.5, "c_plus": 0.0, "c_minus": -1.0}
    networks = correlation(covariances_of_networks(resnet, start(2, 0.2), 300, 100, 2 * MANY, **settings))
    paths = simulated(resnet, start(2, 0.2), 1 / 3, 8192, **settings)
    other = None if paths is None else correlation(paths)
    histogram(axis, networks, other, f"ρ, γ² = {γ2}")
    report(f"γ² = {γ2}", networks, other)
    tails.append((γ2, np.quantile(np.abs(networks), 0.95)))
axes[3].plot(*zip(*tails, strict=True), "o-")
axes[3].set_xlabel("γ²")
axes[3].set_ylabel("95 % of |ρ|")
figure.savefig(options.out / "figure-3.svg")

print("Figure 4: what each modification of attention is for; n = 300, d = 150, γ² = 1/2, ρ0 = 0.2")
figure, axes = plt.subplots(1, 2, figsize=(10, 4))
variants = {
    "shaped": {},
    "no identity": {"identity": 0},
    "not centred": {"centred": 0},
    "temperature √n_k": {"tempered": 0},
    "only tempered": {"identity": 0, "centred": 0},
}
for name, kind in variants.items():
    depth = 150
    V = covariances_of_networks(
        attention_block(**kind), start(4, 0.2), 300, depth, MANY // 8, record=True, γ=0.5**0.5, τ0=1.0
    )
    with np.errstate(all="ignore"):
        ρ, size = np.abs(correlation(V)).mean(axis=1), np.abs(V[..., 0, 0]).mean(axis=1)
    axes[0].plot(ρ, label=name)
    axes[1].semilogy(size, label=name)
    last = int(np.isfinite(size).sum()) - 1  # a network without its shaping may leave the range of numbers
    print(f"  {name}: mean |ρ| {ρ[last]:.3f}, mean V {size[last]:.3g} at depth {last} of {depth}")
axes[0].set_ylabel("|ρ|")
axes[1].set_ylabel("V")
axes[0].set_xlabel("layer")
axes[1].legend()
figure.savefig(options.out / "figure-4.svg")
