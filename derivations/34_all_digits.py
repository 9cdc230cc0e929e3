"""All 1797 digits of scikit-learn with the tangent kernel of a convolutional network, from the data to the accuracy.

    python derivations/34_all_digits.py [--full] [--out FOLDER] [--png]

The network has convolutions of 3 × 3 with √2 relu, and a readout of every position; its kernels of all pairs of images
are derived and evaluated exactly, and regression on class targets with them is exact.  Beside it stand what
scikit-learn has for such data: a support vector machine, as it comes and with C and γ chosen inside each training
part, and a Gaussian process whose length, scale and noise are fitted by evidence, on 500 images of each training
part.  Everything is scored on the same ten parts; errors are standard errors over the parts.

The machine as it comes and the network run each time; --full runs again what is slow, the others are read from
derivations/results/all_digits.jsonl.
"""

import inspect
import time

import numpy as np
from pictures import Pictures
from sklearn.datasets import load_digits
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.svm import SVC
from studies import Study
from worked import Worked

import tplimits as tp

pictures, work = Pictures(__doc__), Worked(__doc__)
study = Study("all_digits", pictures.full)
images, labels = load_digits(return_X_y=True)
images = images / 16
PARTS = list(StratifiedKFold(10, shuffle=True, random_state=0).split(images, labels))


def convolutional_kernel():
    over, taps = {"at": (8, 8)}, {"tap": (3, 3)}

    @tp.network
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector["at"]):
        x = tp.relu(tp.sqrt(2) * tp.layers.conv2d(ξ, U, over=over, taps=taps) / 3)
        y = tp.relu(tp.sqrt(2) * tp.layers.conv2d(x, W, over=over, taps=taps) / 3)
        return tp.sum(v * y, over="at") / 8

    gram = tp.derive(net, tp.Kernels()).evaluate(images.reshape(-1, 1, 64)).ntk
    one_hot = np.eye(10)[labels]
    scores = []
    for train, test in PARTS:
        own = gram[np.ix_(train, train)] + 1e-4 * np.eye(len(train))
        outputs = gram[np.ix_(test, train)] @ np.linalg.solve(own, one_hot[train])
        scores.append((outputs.argmax(axis=1) == labels[test]).mean())
    return np.array(scores)


def estimator():
    over, taps = {"at": (8, 8)}, {"tap": (3, 3)}

    @tp.network
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"], v: tp.Vector["at"]):
        x = tp.relu(tp.sqrt(2) * tp.layers.conv2d(ξ, U, over=over, taps=taps) / 3)
        y = tp.relu(tp.sqrt(2) * tp.layers.conv2d(x, W, over=over, taps=taps) / 3)
        return tp.sum(v * y, over="at") / 8

    return cross_val_score(tp.sklearn.NTKClassifier(net, noise=1e-4, shape=(1, 64)), images, labels, cv=PARTS)


def machine():
    return cross_val_score(SVC(), images, labels, cv=PARTS)


def tuned_machine():
    grid = {"C": [1, 10, 100], "gamma": [0.01, 0.03, 0.1, 0.3]}
    return cross_val_score(GridSearchCV(SVC(), grid, cv=3), images, labels, cv=PARTS)


def fitted_regressor():
    scores = []
    for train, test in PARTS:
        kernel = ConstantKernel(0.1) * RBF(2.0) + WhiteKernel(1e-3, (1e-6, 1))
        some, y = np.random.default_rng(0).permutation(train)[:500], np.eye(10)[labels] - 0.1
        fitted = GaussianProcessRegressor(kernel).fit(images[some], y[some]).kernel_
        model = GaussianProcessRegressor(fitted, optimizer=None).fit(images[train], y[train])
        scores.append((model.predict(images[test]).argmax(axis=1) == labels[test]).mean())
    return np.array(scores)


def measured(function):
    """Scores by part, and the seconds of one processor."""
    begun = time.process_time()
    scores = function()
    return {
        "scores": scores,
        "lines": sum(1 for line in inspect.getsource(function).splitlines() if line.strip()),
    }, begun


ROWS = {
    "convolutional NTK, exact regression": (convolutional_kernel, True),
    "the same as an estimator, tp.sklearn": (estimator, False),
    "SVC()": (machine, True),
    "SVC, C and γ searched": (tuned_machine, False),
    "GaussianProcessRegressor, RBF fitted": (fitted_regressor, False),
}
print(f"\n{'':<50}accuracy          seconds  lines")
kept = {}
for name, (function, now) in ROWS.items():
    row = study.row(lambda f=function: measured(f)[0], model=name)
    if now:
        found, begun = measured(function)
        row = {**found, "seconds": time.process_time() - begun}
    if row is None:
        print(f"{name:<50}(--full)")
        continue
    scores = kept[name] = np.array(row["scores"])
    error = f"± {100 * scores.std(ddof=1) / len(scores) ** 0.5:.2f}" if len(scores) > 1 else "      "
    print(f"{name:<50}{100 * scores.mean():6.2f} {error} %  {row['seconds']:7.1f}  {row['lines']:5d}")
study.told()

ours, theirs = kept["convolutional NTK, exact regression"], kept["SVC()"]
difference = ours - theirs
error = difference.std(ddof=1) / len(difference) ** 0.5
print(f"\nKernel less machine, part by part: {100 * difference.mean():+.2f} ± {100 * error:.2f} %")
work.holds(f"the kernel of the network has {100 * ours.mean():.2f} % ≥ 98 %", ours.mean() >= 0.98)
for name, scores in kept.items():
    if len(scores) == len(ours) and name not in (
        "the same as an estimator, tp.sklearn",
        "convolutional NTK, exact regression",
    ):
        gap = ours - scores
        below = gap.mean() > -2 * gap.std(ddof=1) / len(gap) ** 0.5
        work.holds(f"it is not below {name}: {100 * gap.mean():+.2f} %", below)
work.finish()
