"""A kernel by sampling networks: Hron et al. 2020, Figure 2 and Equation 17, on digits.

    python derivations/38_kernels_by_sampling.py [--full] [--out FOLDER] [--png]

A convolution with relu, two layers of softmax attention at 1/√n with relu, and a readout of every place, on digits
averaged to 4 × 4.  A network of width n has √n heads of √n channels, as in the paper.  The NNGP is estimated by M of
them, each giving the covariance of its outputs over readouts, and compared with the limit by

    ‖K̂ − K‖²/‖K‖²  ≈  a/M + b,

a the variance of one network and b what no number of networks removes: finite heads are random weights inside a relu,
so that the mean itself is off.  Both fall with the width.
"""

import functools

import numpy as np
from on_data import Protocol, digits
from pictures import Pictures
from studies import Study
from worked import Worked

import tplimits as tp
from tplimits.regimes.kernels.finite.gradients import GradientSampler

pictures, work = Pictures(__doc__), Worked(__doc__)
L = tp.layers
WEIGHT, BIAS = float(np.sqrt(1.7562)), float(np.sqrt(0.1841))
IMAGES, SIZE = 20, 10
WIDTHS, COUNTS, GROUPS = (16, 64, 144), (1, 4, 16, 64), 4
#: draws of logits behind the limit
DRAWS = 1024


@tp.network
def net(
    ξ: tp.Input["d", "at"],
    U: tp.Vector["d", "tap"],
    b: tp.Vector,
    Q: tp.Matrix["n", "n", "head", "layer"],
    K: tp.Matrix["n", "n", "head", "layer"],
    V: tp.Matrix["m", "n", "head", "layer"],
    O: tp.Matrix["n", "m", "head", "layer"],  # noqa: E741
    v: tp.Vector["end"],
):
    y = L.conv2d(ξ, U, over={"at": (4, 4)}, taps={"tap": (3, 3)}, padding="VALID", to="end") / 3
    x = tp.relu(WEIGHT * y + BIAS * b)
    for layer in range(2):
        q, k, values = (WEIGHT * (A.sel(layer=layer) @ x) for A in (Q, K, V))
        y = O.sel(layer=layer) @ L.attention(q, k, values, over="end", scale=tp.sqrt(tp.n))
        x = tp.relu(tp.sum(y, over="head") / tp.sqrt(tp.size("head")))
    return WEIGHT * tp.sum(v * x, over="end") / tp.sqrt(tp.size("end"))


NET = net.bind(layer=2, d=1)


@functools.cache
def data():
    images, labels = digits(IMAGES)
    small = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 1, 16)
    return small, labels


def limit(draws):
    """The kernel of the limit, and its largest relative standard error."""
    found = tp.derive(NET, tp.Kernels(infinite=("head",), train=())).evaluate(data()[0], draws=draws, seed=1)
    return {"K": found.nngp, "error": float((found.nngp_error / np.abs(found.nngp)).max())}


def sampled(n, groups, most):
    """Kernels of networks, (groups, networks, N, N)."""
    sampler = GradientSampler(NET.bind(head=round(n**0.5)), ())
    return np.stack(
        [
            np.concatenate(
                [
                    sampler.kernels(data()[0], None, n, 1, np.random.default_rng((n, g, i)), {"m": n**-0.5}).nngp
                    for i in range(most)
                ]
            )
            for g in range(groups)
        ]
    )


def compared(n, K, groups=GROUPS, counts=COUNTS):
    """Squared relative distances and accuracies by group and number of networks."""
    found, protocol = sampled(n, groups, max(counts)), Protocol(data()[1], SIZE)
    far, right = [], []
    for of_group in found:
        means = [of_group[:many].mean(axis=0) for many in counts]
        far.append([((m - K) ** 2).sum() / (K**2).sum() for m in means])
        right.append([protocol.accuracy(m).mean for m in means])
    return {"distances": np.array(far), "accuracies": np.array(right)}


study = Study("kernels_by_sampling", pictures.full)
of_limit = study.row(lambda: limit(DRAWS), what="limit", draws=DRAWS, images=IMAGES)
if of_limit is None:
    print("\nThe limit is not there; --full makes it")
    work.finish()
    raise SystemExit
K = np.array(of_limit["K"])
protocol = Protocol(data()[1], SIZE)
print(f"\nLimit by {DRAWS} draws: relative standard error of an entry at most {of_limit['error']:.4f}")
print(f"  its accuracy with {SIZE} training images: {protocol.accuracy(K)}")
rows = {n: study.row(lambda n=n: compared(n, K), what="networks", n=n, images=IMAGES, draws=DRAWS) for n in WIDTHS}
rows = {n: row for n, row in rows.items() if row is not None}
study.told()
print(f"\n‖K̂ − K‖²/‖K‖² by networks, {GROUPS} times")
print(f"  {'width':<8}" + "".join(f"{m:^20}" for m in COUNTS) + "accuracy, %")
means = {}
for n, row in rows.items():
    far = np.array(row["distances"])
    means[n] = far.mean(axis=0)
    errors = far.std(axis=0, ddof=1) / len(far) ** 0.5
    shown = "".join(f"{f'{m:.4f} ± {e:.4f}':^20}" for m, e in zip(means[n], errors, strict=True))
    right = 100 * np.array(row["accuracies"]).mean(axis=0)
    print(f"  {n:<8}{shown}{', '.join(f'{r:.0f}' for r in right)}")
if len(means) == len(WIDTHS):
    # distances of single networks have heavy tails: slopes are those of geometric means over the groups
    far = {n: np.exp(np.log(np.array(row["distances"])).mean(axis=0)) for n, row in rows.items()}
    by_width = [np.polyfit(np.log(WIDTHS), np.log([far[n][i] for n in WIDTHS]), 1)[0] for i in range(len(COUNTS))]
    by_count = {n: np.polyfit(np.log(COUNTS), np.log(far[n]), 1)[0] for n in WIDTHS}
    for many, slope in zip(COUNTS, by_width, strict=True):
        print(f"  {many} networks: falls with the width as n^{slope:.2f}")
    for n, slope in by_count.items():
        print(f"  width {n}: falls with their number as M^{slope:.2f}")
    work.holds("it falls with the width whatever their number", max(by_width) < 0)
    work.holds("and with their number at every width", max(by_count.values()) < 0)
    last = far[WIDTHS[-1]][-1]
    work.holds(
        f"{COUNTS[-1]} networks of width {WIDTHS[-1]} are within {100 * last**0.5:.1f} % of the limit", last < 0.02
    )
    figure, axes = pictures.figure(2, "NNGP of attention by sampling networks")
    for n in WIDTHS:
        axes[0].loglog(COUNTS, far[n], "o-", label=f"n = {n}")
        axes[1].semilogx(COUNTS, 100 * np.array(rows[n]["accuracies"]).mean(axis=0), "o-", label=f"n = {n}")
    axes[1].axhline(100 * protocol.accuracy(K).mean, color="black", linewidth=0.8, label="limit")
    axes[0].set_ylabel("squared relative distance")
    axes[1].set_ylabel("accuracy, %")
    for axis in axes:
        axis.set_xlabel("networks")
        axis.legend(fontsize=8)
    pictures.save(figure, "kernels-by-sampling")

print("\nAgain with few: width 16, one group")
again = compared(16, K, 1, COUNTS[:2])["distances"][0]
if 16 in rows:
    work.holds("the first group is found again", np.allclose(again, np.array(rows[16]["distances"])[0][:2], rtol=1e-3))
work.finish()
