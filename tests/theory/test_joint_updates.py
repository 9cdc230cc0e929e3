"""Normalised, clipped and factored updates in both training limits, beside networks trained with true matrices.

Each limit has a twin that is wrong: a norm of the gradient in the place of that of the update, weights that do not
decay, the smaller of threshold and norm, a second moment of every entry.
"""

import functools

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.training.finite.networks import train
from tplimits.regimes.training.numbers.divisors import MatrixDivisor
from tplimits.regimes.training.numbers.updates import BlockUpdate

pytestmark = pytest.mark.sampling

STEPS, PARTICLES = 3, 2048
_DATA = np.random.default_rng(5)
X, Y = _DATA.standard_normal((4, 3)), _DATA.standard_normal(4)
ERROR = tp.squared_error(Y)


@tp.network
def two(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))


@tp.network
def three(ξ: tp.Input["d"], U: tp.Vector["d"], A: tp.Matrix, B: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(B @ tp.tanh(A @ tp.tanh(tp.sum(U * ξ, over="d"))))


@tp.network
def widths(
    ξ: tp.Input["d"],
    U: tp.Vector["d"],
    A: tp.Matrix["k", "n"],
    B: tp.Matrix["n", "k"],
    v: tp.Vector,
    c: tp.Scalar = 0.3,
):
    return tp.readout(v * tp.tanh(B @ tp.tanh(A @ tp.sum(U * ξ, over="d")))) + c


@tp.network
def family(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "layer"], v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    for layer in range(2):
        x = tp.tanh((1 + layer) * (W.sel(layer=layer) @ x))
    return v * x


ADAM, HALF = tp.Adam(eps=0.05), {"k": 0.5}
#: network, optimizer, learning rate, weight decay, ratios of widths
CASES = {
    "normalised SGD": (two, tp.Normalized(tp.SGD()), 0.2, 0, {}),
    "normalised momentum, decay": (three, tp.Normalized(tp.SGD(momentum=0.5)), 0.2, 0.1, {}),
    "normalised Adam": (two, tp.Normalized(ADAM), 0.2, 0, {}),
    "normalised Adam, decay": (three, tp.Normalized(ADAM), 0.1, 0.1, {}),
    "normalised Adam, two widths": (widths, tp.Normalized(ADAM), 0.1, 0, HALF),
    "normalised SGD, two widths": (widths, tp.Normalized(tp.SGD()), 0.1, 0, HALF),
    "normalised Adam, family": (family.bind(layer=2), tp.Normalized(ADAM), 0.1, 0, {}),
    "by weight, SGD": (three, tp.Normalized(tp.SGD(), by="weight"), 0.3, 0, {}),
    "by weight, Adam, decay": (two, tp.Normalized(ADAM, by="weight"), {"U": 0.1, "W": 1.0, "v": 0.1}, 0.3, {}),
    "by weight, SGD, two widths, decay": (widths, tp.Normalized(tp.SGD(), by="weight"), 0.3, 0.1, HALF),
    # norms of the first steps are 1.3, 0.8, 0.9 for U, W, v with Adam, 0.24 to 0.44 with SGD: above and below
    "clipped Adam": (two, tp.Clipped(ADAM, 0.9), 0.1, 0, {}),
    "clipped SGD": (two, tp.Clipped(tp.SGD(), 0.33), 0.1, 0, {}),
    "clipped SGD, as printed": (two, tp.Clipped(tp.SGD(), 0.33, reading="printed"), 0.1, 0, {}),
    # |G_0| is .65 and shrinks
    "clipped gradient, SGD": (two, tp.Clipped(tp.SGD(), 0.5, of="gradient"), 0.1, 0, {}),
    "clipped gradient, momentum, as printed": (
        widths,
        tp.Clipped(tp.SGD(momentum=0.5), 0.5, "printed", of="gradient"),
        0.1,
        0.1,
        HALF,
    ),
    "clipped gradient, signs": (
        family.bind(layer=2),
        tp.Clipped(tp.SignSGD(eps=0.5), 0.2, "printed", of="gradient"),
        0.1,
        0,
        {},
    ),
    "Adafactor": (three, tp.Adafactor(decay=0.9, eps=0.05), 0.05, 0, {}),
    "Adafactor, of a matrix": (two, tp.Adafactor(decay=0.9, eps=0.05), {"U": 0, "W": 0.3, "v": 0}, 0, {}),
    "Adafactor, two widths": (widths, tp.Adafactor(decay=0.9, eps=0.05), 0.05, 0, HALF),
}
#: one of each kind, in `make test`
SHORT = ("normalised Adam", "clipped Adam", "clipped gradient, SGD", "Adafactor, of a matrix")
REGIMES = {"μP": (tp.MUP, tp.MaximalUpdate), "NTP": (tp.NTP, tp.NeuralTangent)}
#: means move by 1/n, more so where layers are narrower than n: these are twice as wide, and half as many networks then
#: have the same error
WIDTH, NETWORKS = 256, 48
#: so are those whose twin differs least
NEAR = "Adafactor, of a matrix"


@functools.cache
def trained(case, regime):
    """Mean and standard error of f − f_0, in NTP with decay of f − f^dec: of what does not depend on the start.

    Error signals see this difference alone in NTP, so that all networks have one limit.
    """
    network, optimizer, lr, decay, ratios = CASES[case]
    wide = 2 if ratios or case == NEAR else 1
    settings = {"ratios": ratios, "weight_decay": decay, "n": WIDTH * wide}
    setting = (network, REGIMES[regime][0].adjusted(network, optimizer), optimizer, X)
    settings |= {"draws": NETWORKS // wide, "start": 0 if regime == "NTP" else None}
    f = train(*setting, ERROR, lr, STEPS, seed=3, **settings).f
    moved = f - f[:, :1]
    return moved[:, 1:].mean(axis=0), moved[:, 1:].std(axis=0, ddof=1) / np.sqrt(len(moved))


def limit(case, regime, optimizer=None):
    network, own, lr, decay, ratios = CASES[case]
    found = tp.derive(network, REGIMES[regime][1](optimizer or own, weight_decay=decay))
    start = {} if regime == "μP" else {"f0": np.zeros((STEPS + 1, len(X)) if decay else len(X))}
    return found.evaluate(X, error=ERROR, lr=lr, steps=STEPS, particles=PARTICLES, replicates=8, ratios=ratios, **start)


def rms_z(case, regime, run):
    mean, error = trained(case, regime)
    z = (mean - (run.f[1:] - run.f[0])) / np.hypot(error, run.stderr[1:])
    return float(np.sqrt((z**2).mean()))


@pytest.mark.long
@pytest.mark.parametrize("case", [c if c in SHORT else pytest.param(c, marks=pytest.mark.long) for c in CASES])
@pytest.mark.parametrize("regime", REGIMES)
def test_networks_agree_within_their_standard_errors(case, regime):
    run = limit(case, regime)
    assert rms_z(case, regime, run) <= 2
    assert np.abs(run.f[-1] - run.f[0]).max() > 5 * trained(case, regime)[1].max()


@pytest.mark.parametrize("regime", REGIMES)
def test_the_norm_of_the_gradient_is_not_that_of_the_update(regime, monkeypatch):
    """Def. 2.10.7 leaves out the Q of the scalar variable whose norm divides."""
    step = BlockUpdate.step

    def without_q(self, t, left, right, lr, decay):
        square = ((left @ left.T) * (right @ right.T)).sum() / (left.shape[1] * right.shape[1])
        monkeypatch.setattr(self._divisor, "share", lambda _, decay: 1 / np.sqrt(square), raising=True)
        step(self, t, left, right, lr, decay)

    monkeypatch.setattr(BlockUpdate, "step", without_q)
    assert rms_z("normalised Adam", regime, limit("normalised Adam", regime)) > 5


@pytest.mark.parametrize("regime", REGIMES)
def test_initial_weights_decay_in_their_norm(regime, monkeypatch):
    share = MatrixDivisor.share
    monkeypatch.setattr(MatrixDivisor, "share", lambda self, square, decay: share(self, square, 1.0))
    case = "by weight, Adam, decay"
    assert rms_z(case, regime, limit(case, regime)) > 5


@pytest.mark.long
@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize(
    "case, wrong",
    [
        ("clipped Adam", tp.Clipped(ADAM, 0.9, reading="printed")),
        ("clipped SGD, as printed", tp.Clipped(tp.SGD(), 0.33)),
        ("clipped gradient, SGD", tp.Clipped(tp.SGD(), 0.5)),
        ("clipped gradient, momentum, as printed", tp.Clipped(tp.SGD(momentum=0.5), 0.5, of="gradient")),
        ("clipped gradient, signs", tp.SignSGD(eps=0.5)),
        ("normalised SGD", tp.SGD()),
        ("by weight, SGD", tp.Normalized(tp.SGD())),
        ("Adafactor, of a matrix", tp.Adam(β1=0, β2=0.9, eps=0.05)),
    ],
)
def test_other_updates_are_rejected(case, wrong, regime):
    assert rms_z(case, regime, limit(case, regime, wrong)) > 3
