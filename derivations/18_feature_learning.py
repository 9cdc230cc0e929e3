"""Training in the feature-learning limit: Thms 2.5.2 and 2.7.1 of Yang & Littwin 2023, and the experiment of Chapter 5.

    python derivations/18_feature_learning.py [--full] [--out FOLDER] [--png]

First a deep linear network by hand, then Adam against networks of finite width trained with their true matrices: their
mean points at the limit, and one of them is off it by n^(−1/2).  The figure is the setting of Chapter 5 in μP: ReLU,
two hidden layers, inputs in R^10, Adam at rate 0.2 with ε = 10⁻⁴, the initial output subtracted.  --full takes its 100
samples, 20 steps and widths 64, 512 and 4096; by default there are 12 samples, 10 steps and widths 64, 256 and 1024.
"""

import numpy as np
import sympy
from pictures import Pictures
from worked import SEED, Worked

import tplimits as tp
from tplimits.check.training import train

pictures, work = Pictures(__doc__), Worked(__doc__)


@tp.network
def linear(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    u = tp.sum(U * ξ, over="d")
    h = W @ u
    return v * h


@tp.network
def smooth(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    h = W @ x
    return v * tp.tanh(h)


@tp.network
def kinked(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.relu(tp.sum(U * ξ, over="d"))
    h = W @ x
    return v * tp.relu(h)


print("\nA deep linear network, ξ = y = 1, η = ½.  χ_0 = −1, so that")
print("  u_1 = u + Wᵀv/2,   v_1 = v + Wu/2,   W_1 = W + |v⟩⟨u|/2")
print("  |W u_1⟩ = |Wu⟩ + |WWᵀv⟩/2, whose dot part is |v⟩/2;   |v⟩⟨u|u_1⟩/2 = |v⟩/2")
print("  f_1 = ⟨v_1|W_1 u_1⟩ = ½⟨Wu|Wu⟩ + ½⟨v|v⟩ + ½⟨v|v⟩ = 3/2")
hand = tp.derive(linear, tp.MaximalUpdate(tp.SGD()))
print("", hand, "", hand.latex(), "", sep="\n")
asked = {"error": tp.squared_error([1.0]), "lr": 0.5}
work.same("f_1", hand.exact([[1.0]], **asked, steps=1)[1, 0], sympy.Rational(3, 2))
unrolled = tp.derive(hand.unrolled([[1.0]], **asked, steps=1))
work.accepts(unrolled)
work.rejects(unrolled, {"return[1][sample=0]": 1.0}, "Wrong: without dot-kets f_1 = 1.")

print("\nAdam, ε = η = 0.05, two hidden layers, tanh")
STEPS, WIDTHS, NETWORKS = 5, (128, 512, 2048), (768, 192, 96) if pictures.full else (256, 64, 32)
rng = np.random.default_rng(SEED)
X, y = rng.standard_normal((6, 4)), rng.standard_normal(6)
error = tp.squared_error(y)


def limit_of(optimizer):
    """The limit on 8 replicates."""
    return tp.derive(smooth, tp.MaximalUpdate(optimizer)).evaluate(X, error=error, lr=0.05, steps=STEPS, seed=SEED)


def intercept(values, errors):
    """L and its error in L + b/n, by weighted least squares, entry by entry."""
    design = np.stack([np.ones(len(WIDTHS)), 1 / np.array(WIDTHS)], axis=1)
    L, variance = np.empty(values.shape[1:]), np.empty(values.shape[1:])
    for index in np.ndindex(*L.shape):
        weights = 1 / errors[(slice(None), *index)] ** 2
        covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
        L[index] = (covariance @ design.T @ (weights * values[(slice(None), *index)]))[0]
        variance[index] = covariance[0, 0]
    return L, np.sqrt(variance)


optimizer = tp.Adam(eps=0.05)
runs = [
    train(smooth, tp.MUP, optimizer, X, error, 0.05, STEPS, n, SEED, draws=k).f
    for n, k in zip(WIDTHS, NETWORKS, strict=True)
]
means = np.array([f.mean(axis=0) for f in runs])
errors = np.array([f.std(axis=0, ddof=1) / np.sqrt(len(f)) for f in runs])
L, of_L = intercept(means, errors)
limit = limit_of(optimizer)


def rms_z(mean, of_mean, run):
    """Over inputs and times."""
    return float(np.sqrt(np.mean((mean - run.f) ** 2 / (of_mean**2 + run.stderr**2))))


β1, β2, ε = 0.9, 0.999, 0.05
wrong = tp.Entrywise(
    lambda m, v: m / tp.sqrt(v + ε**2),
    states={"m": lambda g, m: β1 * m + (1 - β1) * g, "v": lambda g, v: β2 * v + (1 - β2) * g**2},
)
work.holds(
    f"width 2048, rms z = {rms_z(means[-1], errors[-1], limit):.2f} ≤ 1.5", rms_z(means[-1], errors[-1], limit) <= 1.5
)
work.holds(f"intercept of L + b/n, rms z = {rms_z(L, of_L, limit):.2f} ≤ 1.5", rms_z(L, of_L, limit) <= 1.5)
twin = rms_z(means[-1], errors[-1], limit_of(wrong))
work.holds(f"without bias correction, rms z = {twin:.1f} > 5", twin > 5)
off = [np.sqrt(((f - limit.f) ** 2).mean()) for f in runs]
slope = np.polyfit(np.log(WIDTHS), np.log(off), 1)[0]
work.holds(f"one network is off by {', '.join(f'{d:.4f}' for d in off)}: slope {slope:.3f}", abs(slope + 0.5) < 0.1)

print("\nChapter 5 in μP")
B, STEPS, WIDTHS = (100, 20, (64, 512, 4096)) if pictures.full else (12, 10, (64, 256, 1024))
TRIALS = 10 if pictures.full else 5
X, y = rng.standard_normal((B + 4, 10)), rng.standard_normal(B + 4)
error, adam = tp.squared_error(y, train=range(B)), tp.Adam(eps=1e-4)
particles = 10240 if pictures.full else 4096
limit = tp.derive(kinked, tp.MaximalUpdate(adam)).evaluate(
    X, error=error, lr=0.2, steps=STEPS, particles=particles, replicates=4, seed=SEED
)
times = [t for t in (1, 5, 10, 20) if t <= STEPS]
figure, axes = pictures.figure(len(WIDTHS), "μP, ReLU, Adam at 0.2: outputs on four new inputs, the limit in black")
table = {}
for axis, n in zip(axes, WIDTHS, strict=True):
    f = np.concatenate(
        [train(kinked, tp.MUP, adam, X, error, 0.2, STEPS, n, SEED + k, draws=1, start=0).f for k in range(TRIALS)]
    )
    table[n] = np.sqrt(((f - limit.f)[:, :, B:] ** 2).mean(axis=(0, 2)))
    of_trained = np.sqrt(((f - limit.f)[:, :, :B] ** 2).mean(axis=(0, 2)))
    shown, trained = (", ".join(f"{d[t]:.3f}" for t in times) for d in (table[n], of_trained))
    print(f"  width {n}: rms deviation of one run at t = {times}: {shown} on new inputs, {trained} on the samples")
    axis.plot(f[:, :, B:].transpose(1, 0, 2).reshape(STEPS + 1, -1), color="C0", alpha=0.3, linewidth=0.7)
    axis.plot(limit.f[:, B:], color="black")
    axis.set_title(f"width {n}")
    axis.set_xlabel("step")
pictures.save(figure, "figure-feature-learning")
print(f"  standard error of the limit at t = {times}: {', '.join(f'{limit.stderr[t].mean():.3f}' for t in times)}")
early = np.polyfit(np.log(WIDTHS), np.log([table[n][1] for n in WIDTHS]), 1)[0]
work.holds(f"after one step the deviation falls with slope {early:.2f}", abs(early + 0.5) < 0.15)
work.finish()
