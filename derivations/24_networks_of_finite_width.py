"""The experiment of Chapter 5 of Yang & Littwin 2023: networks of finite width in training beside both limits.

    python derivations/24_networks_of_finite_width.py [--full] [--out FOLDER] [--png]

ReLU perceptrons, four hidden layers in NTP and two in μP; Gaussian inputs in R^10 with random targets, squared loss,
Adam at rate 0.2 with ε = 10⁻⁴, the initial output subtracted.  The figures show outputs on four new inputs, one line a
network, the limit in black.  --full takes the 100 samples, 20 steps, and widths 64, 512 and 4096 (hours); by default
there are 12 samples, 10 steps and widths 64 to 512.  Every width has 20 networks, and deviations are over all inputs:
a few networks on four new inputs say little, and in NTP their deviations are smaller there than on the samples.

At this rate Adam is nearly a sign, and the mean of networks is off by a power of n near n^(−1/2), not 1/n.  So the
limit is judged by the mean of networks as a series L + b/√n + c/n in the width: its intercept L is the limit, and not
that of Adam without bias correction.  Sharper comparisons are those of 18 to 21, in a smooth setting.
"""

import numpy as np
from pictures import Pictures
from worked import SEED, Worked

import tplimits as tp
from tplimits.regimes.training.finite.networks import train

pictures, work = Pictures(__doc__), Worked(__doc__)
B, STEPS, TRIALS = (100, 20, 20) if pictures.full else (12, 10, 20)
WIDTHS = (64, 512, 4096) if pictures.full else (64, 128, 256, 512)
NEW = 4
adam, LR = tp.Adam(eps=1e-4), 0.2
rng = np.random.default_rng(SEED)
X, y = rng.standard_normal((B + NEW, 10)), rng.standard_normal(B + NEW)
error = tp.squared_error(y, train=range(B))
TIMES = [t for t in (1, 5, 10, 20) if t <= STEPS]
#: B = 100, t = 1, 5, 10, 20: deviations of one network over all inputs, found independently on data of their own
FOUND = {
    "NTP": {
        64: (0.067, 0.161, 0.233, 0.347),
        512: (0.020, 0.059, 0.087, 0.122),
        4096: (0.0085, 0.0239, 0.0373, 0.0566),
    },
    "μP": {64: (0.080, 0.185, 0.265, 0.388), 512: (0.024, 0.065, 0.099, 0.191)},
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


def experiment(name, net, parametrization, limits, file):
    """One figure, the deviations of one network from the limit, and where the means of networks point."""
    limit, twin = limits
    print(f"\n{name}: {B} samples, {NEW} new inputs, {TRIALS} networks of each width")
    print(f"  standard error of the limit at t = {TIMES}: {listed(limit.stderr[t].mean() for t in TIMES)}")
    figure, axes = pictures.figure(len(WIDTHS), f"{name}, ReLU, Adam at {LR}: outputs on {NEW} new inputs")
    table, means, errors = {}, [], []
    for axis, n in zip(axes, WIDTHS, strict=True):
        seeds = range(SEED, SEED + TRIALS)
        f = np.concatenate([train(net, parametrization, adam, X, error, LR, STEPS, n, k, start=0).f for k in seeds])
        off = (f - limit.f)[:, TIMES] ** 2
        table[n] = np.sqrt(off.mean(axis=(0, 2)))
        means.append(f.mean(axis=0)[TIMES])
        errors.append(f.std(axis=0, ddof=1)[TIMES] / np.sqrt(TRIALS))
        of_new, of_samples = (np.sqrt(part.mean(axis=(0, 2))) for part in (off[:, :, B:], off[:, :, :B]))
        print(
            f"  width {n}: rms deviation of one network at t = {TIMES}: {listed(table[n])}; {listed(of_samples)} on "
            f"the samples, {listed(of_new)} on new inputs; of the mean {listed(rms(means[-1] - limit.f[TIMES]))}"
        )
        axis.plot(f[:, :, B:].transpose(1, 0, 2).reshape(STEPS + 1, -1), color="C0", alpha=0.3, linewidth=0.7)
        axis.plot(limit.f[:, B:], color="black")
        axis.set_title(f"width {n}")
        axis.set_xlabel("step")
    pictures.save(figure, file)
    slopes = np.polyfit(np.log(WIDTHS), np.log([table[n] for n in WIDTHS]), 1)[0]
    print(f"  slopes of the deviation at t = {TIMES}: {listed(slopes)}")
    work.holds(f"after one step it falls with slope {slopes[0]:.2f}", abs(slopes[0] + 0.5) < 0.15)
    L, error_of = intercept(np.array(means), np.array(errors))
    z, wrong = (rms((L - one.f[TIMES]) / np.hypot(error_of, one.stderr[TIMES])) for one in (limit, twin))
    work.holds(f"means of networks point at the limit: {listed(z)} standard errors at t = {TIMES}", max(z) < 2)
    work.holds(f"not at Adam without bias correction: {listed(wrong)} standard errors", max(wrong) > 5)
    if pictures.full:
        for n, found in FOUND[name].items():
            print(f"  width {n}: {listed(table[n] / found)} times what was found before")


def intercept(means, errors):
    """L of L + b/√n + c/n with its standard error, entry by entry, by weighted least squares over the widths."""
    design = np.stack([np.ones(len(WIDTHS)), np.array(WIDTHS) ** -0.5, 1 / np.array(WIDTHS)], axis=1)
    weights = 1 / errors**2
    inverse = np.linalg.inv(np.einsum("wi,wj,wta->taij", design, design, weights))
    found = np.einsum("tai,taiw->ta", inverse[:, :, 0], np.einsum("wi,wta,wta->taiw", design, weights, means))
    return found, np.sqrt(inverse[:, :, 0, 0])


def rms(values):
    """Root mean square over the inputs, for every time."""
    return np.sqrt((values**2).mean(axis=1))


def listed(numbers):
    """Three digits each."""
    return ", ".join(f"{x:.3f}" for x in numbers)


β1, β2 = 0.9, 0.999
uncorrected = tp.Entrywise(
    lambda m, v: m / tp.sqrt(v + adam.eps**2),
    states={"m": lambda g, m: β1 * m + (1 - β1) * g, "v": lambda g, v: β2 * v + (1 - β2) * g**2},
)
settings = {"error": error, "lr": LR, "steps": STEPS, "replicates": 4, "seed": SEED}
particles = 8192 if pictures.full else 2048
start = np.zeros(B + NEW)
operators = [
    tp.derive(four, tp.NeuralTangent(optimizer)).evaluate(X, f0=start, particles=particles, **settings)
    for optimizer in (adam, uncorrected)
]
experiment("NTP", four, tp.NTP, operators, "figure-operator-regime")
particles = 10240 if pictures.full else 2048
features = [
    tp.derive(two, tp.MaximalUpdate(optimizer)).evaluate(X, particles=particles, **settings)
    for optimizer in (adam, uncorrected)
]
experiment("μP", two, tp.MUP, features, "figure-feature-learning")
work.finish()
