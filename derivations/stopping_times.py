"""Pictures of how deep shaped attention stays stable: Figures 5 and 8 of Noci et al. 2023, from networks.

    python derivations/stopping_times.py [--full] [--out FOLDER]

t* = d*/n, d* the first depth at which an eigenvalue of V leaves [10⁻⁴, 10⁴], capped at 1; n = d = 200, tokens of length
about 10√n.  Its median and 10 % quantile against γ, and its median against τ0.  By default 24 networks a point; --full
takes the 100 of the paper.
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
NETWORKS = 100 if options.full else 24
WIDTH, LOW, HIGH = 200, 1e-4, 1e4
V0 = 100 * (0.8 * np.eye(4) + 0.2)


@tp.block
def attention(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
    q, k, v = WQ @ x, (WK @ x).rename(token="key"), WV @ x
    values = v.rename(token="key")
    A = tp.softmax(tp.avg(q * k) * tp.sqrt(tp.width("k")) / (τ0 * tp.sqrt(tp.n)), over="key")
    return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(A * values, over="key") - tp.mean(values, over="key"))


def stopping_times(γ, τ0):
    """t* of each network, and its largest eigenvalue along depth."""
    V = covariances_of_networks(attention, V0, WIDTH, WIDTH, NETWORKS, record=True, γ=γ, τ0=τ0)
    finite = np.isfinite(V).all(axis=(2, 3))
    eigenvalues = np.linalg.eigvalsh(np.where(finite[..., None, None], V, np.eye(len(V0))))
    out = ~finite | (eigenvalues[..., 0] < LOW) | (eigenvalues[..., -1] > HIGH)
    first = np.where(out.any(axis=0), out.argmax(axis=0), WIDTH)
    return first / WIDTH, np.where(finite, eigenvalues[..., -1], np.nan)


gammas = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
times = {γ: stopping_times(γ, 1.0) for γ in gammas}
median, tenth = (np.array([np.quantile(times[γ][0], q) for γ in gammas]) for q in (0.5, 0.1))
temperatures = (0.5, 1.0, 2.0, 4.0)
by_temperature = np.array([np.median(stopping_times(0.2, τ0)[0]) for τ0 in temperatures])
for γ, half, low in zip(gammas, median, tenth, strict=True):
    print(f"γ = {γ}: t* median {half:.3f}, 10 % quantile {low:.3f}")
for τ0, half in zip(temperatures, by_temperature, strict=True):
    print(f"γ = 0.2, τ0 = {τ0}: t* median {half:.3f}")

figure, axes = plt.subplots(1, 3, figsize=(14, 4))
for γ in (0.1, 0.3):
    axes[0].semilogy(times[γ][1][:, :5], color="C0" if γ == 0.1 else "C1")
axes[0].set_xlabel("layer")
axes[0].set_ylabel("largest eigenvalue, γ = 0.1 and 0.3")
axes[1].plot(gammas, median, "o-", label="median")
axes[1].plot(gammas, tenth, "o-", label="10 %")
axes[1].set_xlabel("γ")
axes[1].set_ylabel("t*")
axes[1].legend()
axes[2].semilogx(temperatures, by_temperature, "o-")
axes[2].set_xlabel("τ0")
axes[2].set_ylabel("median of t*, γ = 0.2")
figure.savefig(options.out / "figure-5-8.svg")
