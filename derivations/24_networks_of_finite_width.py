"""The experiment of Chapter 5 of Yang & Littwin 2023: networks of finite width in training beside both limits.

    python derivations/24_networks_of_finite_width.py [--full] [--out FOLDER] [--png]

ReLU perceptrons, four hidden layers in NTP and two in μP; Gaussian inputs in R^10 with random targets, squared loss,
Adam at rate 0.2 with ε = 10⁻⁴, the initial output subtracted.  The figures show outputs on four new inputs, one line a
network, the limit in black.  --full takes the 100 samples, 20 steps, 10 networks and widths 64, 512 and 4096; by
default there are 12 samples, 10 steps, 4 networks and widths 64, 256 and 1024.

At this rate Adam is nearly a sign, and outputs on the samples keep a bias that falls more slowly than n^(−1/2); strict
comparisons are those of 18 to 21, in a smooth setting.
"""

import numpy as np
from pictures import Pictures
from worked import SEED, Worked

import tplimits as tp
from tplimits.check.training import train

pictures, work = Pictures(__doc__), Worked(__doc__)
B, STEPS, TRIALS = (100, 20, 10) if pictures.full else (12, 10, 4)
WIDTHS = (64, 512, 4096) if pictures.full else (64, 256, 1024)
NEW = 4
adam, LR = tp.Adam(eps=1e-4), 0.2
rng = np.random.default_rng(SEED)
X, y = rng.standard_normal((B + NEW, 10)), rng.standard_normal(B + NEW)
error = tp.squared_error(y, train=range(B))
TIMES = [t for t in (1, 5, 10, 20) if t <= STEPS]
#: B = 100, t = 1, 5, 10, 20: deviations of one network that an independent computation found, on data of its own
FOUND = {
    "NTP": {64: (0.067, 0.161, 0.233, 0.347), 512: (0.020, 0.059, 0.087, 0.122), 4096: (0.005, 0.011, 0.022, 0.051)},
    "μP": {64: (0.080, 0.185, 0.265, 0.388), 512: (0.024, 0.065, 0.099, 0.191), 4096: (0.006, 0.020, 0.036, 0.097)},
}


@tp.network
def four(ξ: tp.Input["d"], U: tp.Vector["d"], A: tp.Matrix, B: tp.Matrix, C: tp.Matrix, v: tp.Vector):
    x = tp.relu(tp.sum(U * ξ, over="d"))
    for W in (A, B, C):
        x = tp.relu(W @ x)
    return v * x


@tp.network
def two(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    x = tp.relu(tp.sum(U * ξ, over="d"))
    return v * tp.relu(W @ x)


def experiment(name, net, parametrization, limit, file):
    """One figure, and the deviations of one network from the limit."""
    print(f"\n{name}: {B} samples, {NEW} new inputs")
    print(f"  standard error of the limit at t = {TIMES}: {listed(limit.stderr[t].mean() for t in TIMES)}")
    figure, axes = pictures.figure(len(WIDTHS), f"{name}, ReLU, Adam at {LR}: outputs on {NEW} new inputs")
    table = {}
    for axis, n in zip(axes, WIDTHS, strict=True):
        seeds = range(SEED, SEED + TRIALS)
        runs = [train(net, parametrization, adam, X, error, LR, STEPS, n, k, start=0).f for k in seeds]
        f = np.concatenate(runs)
        off = (f - limit.f)[:, TIMES] ** 2
        table[n] = np.sqrt(off.mean(axis=(0, 2)))
        of_new, of_samples = (np.sqrt(part.mean(axis=(0, 2))) for part in (off[:, :, B:], off[:, :, :B]))
        print(
            f"  width {n}: rms deviation of one run at t = {TIMES}: {listed(table[n])}; "
            f"{listed(of_new)} on new inputs, {listed(of_samples)} on the samples"
        )
        axis.plot(f[:, :, B:].transpose(1, 0, 2).reshape(STEPS + 1, -1), color="C0", alpha=0.3, linewidth=0.7)
        axis.plot(limit.f[:, B:], color="black")
        axis.set_title(f"width {n}")
        axis.set_xlabel("step")
    pictures.save(figure, file)
    early = np.polyfit(np.log(WIDTHS), np.log([table[n][0] for n in WIDTHS]), 1)[0]
    work.holds(f"after one step the deviation falls with slope {early:.2f}", abs(early + 0.5) < 0.15)
    late = np.polyfit(np.log(WIDTHS), np.log([table[n][:3] for n in WIDTHS]), 1)[0]
    print(f"  slopes at t = {TIMES[:3]}: {listed(late)}")
    if pictures.full:
        for n, found in FOUND[name].items():
            print(f"  width {n}: {listed(table[n] / found)} times what was found before")


def listed(numbers):
    """Three digits each."""
    return ", ".join(f"{x:.3f}" for x in numbers)


settings = {"error": error, "lr": LR, "steps": STEPS, "replicates": 4, "seed": SEED}
particles = 8192 if pictures.full else 2048
operator = tp.derive(four, tp.NeuralTangent(adam)).evaluate(X, f0=np.zeros(B + NEW), particles=particles, **settings)
experiment("NTP", four, tp.NTP, operator, "figure-operator-regime")
particles = 10240 if pictures.full else 4096
feature = tp.derive(two, tp.MaximalUpdate(adam)).evaluate(X, particles=particles, **settings)
experiment("μP", two, tp.MUP, feature, "figure-feature-learning")
work.finish()
