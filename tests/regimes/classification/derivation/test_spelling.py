"""A verdict does not depend on what a program gives a name to, nor on the order in which it is written."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.classification.derivation.spelling import in_one_spelling


@tp.network
def root_named(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, R: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    y = W @ x
    s = tp.avg(y**2) - tp.avg(x**2)
    return v * (R @ x) * tp.sqrt(s)


@tp.network
def root_inlined(R: tp.Matrix, ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, W: tp.Matrix):
    x = tp.sum(U * ξ, over="d")
    return v * (R @ x) * tp.sqrt(tp.avg((W @ x) ** 2) - tp.avg(tp.sum(U * ξ, over="d") ** 2))


@tp.network
def step_named(ξ: tp.Input["d"], W: tp.Matrix, U: tp.Vector["d"], v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    return v * x * (1 + tp.step(tp.sqrt(tp.n) * tp.avg((W @ x) ** 2 - x**2)))


@tp.network
def step_inlined(ξ: tp.Input["d"], W: tp.Matrix, U: tp.Vector["d"], v: tp.Vector):
    s = tp.avg((W @ tp.sum(U * ξ, over="d")) ** 2 - tp.sum(U * ξ, over="d") ** 2)
    return v * tp.sum(U * ξ, over="d") * (1 + tp.step(tp.sqrt(tp.n) * s))


@tp.network
def beside_named(c: tp.Vector, ξ: tp.Input["d"], U: tp.Vector["d"]):
    x = tp.sum(U * ξ, over="d")
    return x + 0.5 * c


@tp.network
def beside_inlined(ξ: tp.Input["d"], U: tp.Vector["d"], c: tp.Vector):
    return tp.sum(U * ξ, over="d") + 0.5 * c


@tp.network
def cancelled_named(ξ: tp.Input["d"], U: tp.Vector["d"], c: tp.Vector, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    y = x + 0.5 * c
    return v * (x - y)


@tp.network
def cancelled_renamed(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, c: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    y = x + 0.5 * c
    return v * (x - y)


@tp.network
def averaged_named(ξ: tp.Input["token", "d"], U: tp.Vector["d"], c: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    y = x + 0.5 * c
    return tp.mean(y, over="token")


@tp.network
def averaged_inlined(ξ: tp.Input["token", "d"], U: tp.Vector["d"], c: tp.Vector):
    return tp.mean(tp.sum(U * ξ, over="d") + 0.5 * c, over="token")


@tp.network
def behind_named(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, R: tp.Matrix):
    x = tp.sum(U * ξ, over="d")
    s = tp.sqrt(tp.n) * tp.avg(x * (W @ x))
    t = tp.avg(tp.step(W @ x)) - 0.5
    return R @ (x * s * t)


@tp.network
def behind_inlined(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, R: tp.Matrix):
    x = tp.sum(U * ξ, over="d")
    return R @ (x * (tp.sqrt(tp.n) * tp.avg(x * (W @ x))) * (tp.avg(tp.step(W @ x)) - 0.5))


PAIRS = {
    "an average of terms": (averaged_named, averaged_inlined),
    "a zero behind a fluctuation": (behind_named, behind_inlined),
    "a root of what vanishes": (root_named, root_inlined),
    "a jump at a fluctuation": (step_named, step_inlined),
    "a term without a readout": (beside_named, beside_inlined),
    "a sum that cancels": (cancelled_named, cancelled_renamed),
}


OPTIMIZERS = {"SGD": tp.SGD(), "sign": tp.SignSGD(), "Adam": tp.Adam(eps=0.1)}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("parametrization", ["SP", "NTP", "MUP"])
@pytest.mark.parametrize("pair", PAIRS)
def test_twins_have_one_verdict(pair, parametrization, optimizer):
    chosen = getattr(tp, parametrization), OPTIMIZERS[optimizer]
    found = [
        tp.classify(net.bind(d=2, **({"token": 2} if "token" in net.all_axes else {})), *chosen) for net in PAIRS[pair]
    ]
    counts = [f.verdict.counting for f in found]
    one, other = ((f.regime, c.moves(1)["f"], c.start.output.start) for f, c in zip(found, counts, strict=True))
    if found[0].stable is True:
        assert counts[0].features_move == counts[1].features_move
    assert one == other


def test_what_no_readout_multiplies_is_a_feature():
    """Uξ moves by order 1 in μP whether it has a name or not; that of a network with a readout alone has none."""
    assert tp.classify(beside_inlined, tp.MUP, tp.SignSGD()).evolving == ("return_unread",)
    assert tp.classify(beside_inlined, tp.NTP, tp.SGD()).regime == "operator"


def test_a_sum_that_cancels_starts_like_what_is_left():
    """Σ v (x − y) is −½ Σ v c: of order 1 for v ~ n^(−½), whichever of v and c stands last."""
    for network in PAIRS["a sum that cancels"]:
        assert not any("starts" in b for b in tp.classify(network, tp.SP, tp.SGD()).breaks)
    rng = np.random.default_rng(0)
    x, v, c = rng.standard_normal((3, 500, 1024))
    assert abs(np.std((v / 32 * (x - (x + c / 2))).sum(1)) - 0.5) < 0.06


def test_functions_keep_their_values():
    written = in_one_spelling(step_inlined)
    one, other = (net.run(n=8, seed=3, ξ=[0.3, -0.7])["return"] for net in (written, step_inlined))
    np.testing.assert_allclose(one, other, rtol=1e-12)
