"""The operator regime: Thms 2.4.7 and 2.10.3 of Yang & Littwin 2023, and the experiment of Chapter 5 in NTP.

    python derivations/19_operator_regime.py [--full] [--out FOLDER] [--png]

Gradient descent by the tangent kernel; Adam against networks of finite width trained with their true matrices; weight
decay, where the outputs at the start give way to those of the decayed network.  The figure is the setting of Chapter 5:
ReLU, four hidden layers, inputs in R^10, Adam at rate 0.2 with ε = 10⁻⁴, the initial output subtracted.  --full takes
its 100 samples, 20 steps and widths 64, 512 and 4096; by default there are 12 samples, 10 steps and widths 64 to 1024.
"""

import numpy as np
from pictures import Pictures
from worked import SEED, Worked

import tplimits as tp
from tplimits.check.training import train

pictures, work = Pictures(__doc__), Worked(__doc__)


@tp.network
def smooth(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    h = W @ x
    return v * tp.tanh(h)


@tp.network
def kinked(ξ: tp.Input["d"], U: tp.Vector["d"], A: tp.Matrix, B: tp.Matrix, C: tp.Matrix, v: tp.Vector):
    x = tp.relu(tp.sum(U * ξ, over="d"))
    for W in (A, B, C):
        x = tp.relu(W @ x)
    return v * x


rng = np.random.default_rng(SEED)
X, y = rng.standard_normal((6, 4)), rng.standard_normal(6)
error, zero = tp.squared_error(y), np.zeros(6)

print("\nGradient descent: Q = id, 𝒦(χ) = Θ χ")
descent = tp.derive(smooth, tp.NeuralTangent(tp.SGD()))
print("", descent, "", descent.latex(), "", sep="\n")
Θ = tp.derive(smooth, tp.Kernels()).evaluate(X).ntk
f = [zero]
for _ in range(5):
    f.append(f[-1] - 0.5 * Θ @ (f[-1] - y) / 6)
work.matrices("f_5", descent.evaluate(X, error=error, lr=0.5, steps=5, f0=zero).f[5], f[5])

print("\nAdam, ε = η = 0.05")
STEPS, WIDTHS, NETWORKS = 5, (128, 512, 2048), (384, 96, 48) if pictures.full else (128, 48, 16)


def limit_of(optimizer, decay=0.0, lr=0.05, **settings):
    """The limit on 8 replicates."""
    limit = tp.derive(smooth, tp.NeuralTangent(optimizer, weight_decay=decay))
    return limit.evaluate(X, error=error, lr=lr, steps=STEPS, seed=SEED, **settings)


adam = tp.Adam(eps=0.05)
runs = [
    train(smooth, tp.NTP, adam, X, error, 0.05, STEPS, n, SEED, draws=k, start=0).f
    for n, k in zip(WIDTHS, NETWORKS, strict=True)
]
limit = limit_of(adam, f0=zero, replicates=16)


def rms_z(values, run):
    """Over inputs and times, of the mean of many networks."""
    of_mean = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    z = (values.mean(axis=0) - run.f)[1:] / np.hypot(of_mean, run.stderr)[1:]
    return float(np.sqrt((z**2).mean()))


β1, β2, ε = 0.9, 0.999, 0.05
wrong = tp.Entrywise(
    lambda m, v: m / tp.sqrt(v + ε**2),
    states={"m": lambda g, m: β1 * m + (1 - β1) * g, "v": lambda g, v: β2 * v + (1 - β2) * g**2},
)
work.holds(f"width 2048, rms z = {rms_z(runs[-1], limit):.2f} ≤ 2", rms_z(runs[-1], limit) <= 2)
twin = rms_z(runs[-1], limit_of(wrong, f0=zero))
work.holds(f"without bias correction, rms z = {twin:.1f} > 5", twin > 5)
off = [np.sqrt(((f - limit.f) ** 2).mean()) for f in runs]
slope = np.polyfit(np.log(WIDTHS), np.log(off), 1)[0]
work.holds(f"one network is off by {', '.join(f'{d:.4f}' for d in off)}: slope {slope:.3f}", abs(slope + 0.5) < 0.1)

print("\nWeight decay: f^dec is what the same network gives at learning rate 0")
λ, lr = 0.1, 0.5
trained, dec = (
    train(smooth, tp.NTP, tp.SGD(), X, error, rate, STEPS, 2048, SEED, weight_decay=λ).f[0] for rate in (lr, 0.0)
)
right = np.sqrt(((limit_of(tp.SGD(), λ, lr, f0=dec).f - trained) ** 2).mean())
kept = np.sqrt(((limit_of(tp.SGD(), λ, lr, f0=np.broadcast_to(dec[0], dec.shape)).f - trained) ** 2).mean())
work.holds(
    f"one network of width 2048 is off by {right:.3f}; with f_0 in the place of f^dec by {kept:.3f}", right < kept / 4
)

print("\nChapter 5 in NTP")
B, STEPS, WIDTHS = (100, 20, (64, 512, 4096)) if pictures.full else (12, 10, (64, 256, 1024))
TRIALS = 10 if pictures.full else 4
X, y = rng.standard_normal((B + 4, 10)), rng.standard_normal(B + 4)
error, sharp = tp.squared_error(y, train=range(B)), tp.Adam(eps=1e-4)
particles = 8192 if pictures.full else 2048
limit = tp.derive(kinked, tp.NeuralTangent(sharp)).evaluate(
    X, error=error, lr=0.2, steps=STEPS, f0=np.zeros(B + 4), particles=particles, replicates=4, seed=SEED
)
times = [t for t in (1, 5, 10, 20) if t <= STEPS]
figure, axes = pictures.figure(len(WIDTHS), "NTP, ReLU, Adam at 0.2: outputs on four new inputs, the limit in black")
table = {}
for axis, n in zip(axes, WIDTHS, strict=True):
    f = np.concatenate(
        [train(kinked, tp.NTP, sharp, X, error, 0.2, STEPS, n, SEED + k, draws=1, start=0).f for k in range(TRIALS)]
    )
    table[n] = np.sqrt(((f - limit.f) ** 2).mean(axis=(0, 2)))
    shown = ", ".join(f"{table[n][t]:.3f}" for t in times)
    print(f"  width {n}: rms deviation of one run at t = {times}: {shown}")
    axis.plot(f[:, :, B:].transpose(1, 0, 2).reshape(STEPS + 1, -1), color="C0", alpha=0.3, linewidth=0.7)
    axis.plot(limit.f[:, B:], color="black")
    axis.set_title(f"width {n}")
    axis.set_xlabel("step")
pictures.save(figure, "figure-operator-regime")
print(f"  standard error of the limit at t = {times}: {', '.join(f'{limit.stderr[t].mean():.3f}' for t in times)}")
early = np.polyfit(np.log(WIDTHS), np.log([table[n][1] for n in WIDTHS]), 1)[0]
work.holds(f"after one step the deviation falls with slope {early:.2f}", abs(early + 0.5) < 0.15)
work.finish()
