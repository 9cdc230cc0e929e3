"""The coordinate check: powers of n of finite networks confirm what `tp.classify` counts."""

import random
from fractions import Fraction

import pytest

import tplimits as tp
from tplimits.check.coordinates import Coordinate, _regime, _slope

SEED = 2308


@tp.network
def residual(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    h = x + tp.tanh(W @ x)
    return v * (h + V @ tp.relu(h))


def random_parametrizations():
    """Three stable and two unstable ones, in quarters: every exponent that decides is 0 or ¼ and more away from it."""
    rng = random.Random(2811)

    def quarter(least, most):
        return Fraction(rng.randint(least, most), 4)

    def drawn():
        A, θ, r = quarter(2, 4), [quarter(-2, 2) for _ in range(3)], [quarter(-1, 3) for _ in range(3)]
        tables = [(0, 0, r[0], A), (0, Fraction(1, 2), 1 + r[1], A), (0, A, 1 + r[2], 0)]
        moved = [(a + t, b - t, c - t, d + t) for (a, b, c, d), t in zip(tables, θ, strict=True)]
        return tp.ABCD(dict(zip(("input", "hidden", "output"), moved, strict=True)))

    stable, unstable = [], []
    while len(stable) < 3 or len(unstable) < 2:
        found = drawn()
        regimes = {tp.classify(2, found, o).regime for o in OPTIMIZERS}
        if "unstable" in regimes:
            unstable.append(found)
        elif regimes <= {"feature", "operator"}:
            stable.append(found)
    return [*stable[:3], *unstable[:2]]


OPTIMIZERS = (tp.SGD(), tp.SignSGD())
PARAMETRIZATIONS = [tp.SP, tp.NTP, tp.MUP, tp.UP("1/4"), *random_parametrizations()]


@pytest.mark.sampling
@pytest.mark.parametrize("number", range(len(PARAMETRIZATIONS)))
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: o.name)
@pytest.mark.parametrize("target", [2, residual], ids=["perceptron", "residual"])
def test_finite_networks_are_in_the_regime_that_is_counted(target, optimizer, number):
    found = tp.classify(target, PARAMETRIZATIONS[number], optimizer)
    check = found.check(seed=SEED)
    assert check.counted_regime == found.regime
    assert check.agrees, check


@pytest.mark.sampling
def test_a_wrong_claim_is_rejected():
    """Networks in μP are not in the regime that is counted for NTP, nor those in NTP with the rates of SP."""
    wide = tp.classify(2, tp.MUP, tp.SignSGD()).check((32, 64, 128, 256), seed=SEED)
    assert wide.measured_regime == "feature" != tp.classify(2, tp.NTP, tp.SignSGD()).regime
    rates = tp.ABCD({"hidden": ("1/2", 0, 0, 0)}, base=tp.NTP)
    assert tp.classify(2, rates, tp.SignSGD()).check((32, 64, 128, 256), seed=SEED).measured_regime == "unstable"


@pytest.mark.sampling
def test_measured_powers_are_close_to_counted_ones():
    """One rate n^(−1) for a standard network with the sign: f moves like √n, features of the first layer like 1/n."""
    rate = tp.ABCD({"input": (0, 0, 1, 0), "hidden": (0, "1/2", 1, 0), "output": (0, "1/2", 1, 0)})
    check = tp.classify(2, rate, tp.SignSGD()).check(seed=SEED, steps=1)
    powers = {row.name: row.measured for row in check.rows if row.t == 1}
    assert powers["f"] == pytest.approx(0.5, abs=0.12)
    assert powers["x1"] == pytest.approx(-1, abs=0.12)
    assert powers["what W3 reads"] == pytest.approx(0, abs=0.12)
    assert "change of f after 1 step(s)" in repr(check)
    assert abs(check.worst.difference) < 0.15


def test_slopes_and_regimes():
    assert _slope([10, 100, 1000], [1.0, 0.1, 0.01]) == pytest.approx(-1)
    assert _slope([10, 100], [0.0, 0.0]) == float("-inf")

    def regime(start, x, f):
        rows = [("x", 0, start), ("f", 0, -0.5), ("x", 1, x), ("f", 1, f)]
        return _regime([Coordinate(name, t, p, p, ()) for name, t, p in rows], measured=True)

    assert regime(0, 0, 0) == "feature"
    assert regime(0, -0.5, 0.05) == "operator"
    assert regime(0, -0.5, -0.3) == "trivial"
    assert regime(0, -0.5, 0.3) == "unstable"
    assert regime(-0.4, 0, 0) == "unstable"


@pytest.mark.parametrize(
    "change, message",
    [({"widths": (64,)}, "two widths"), ({"widths": (64, 1)}, "at least 2"), ({"steps": 0}, "at least 1")],
)
def test_what_cannot_be_checked_is_refused(change, message):
    with pytest.raises(tp.CheckError, match=message):
        tp.classify(2, tp.MUP, tp.SGD()).check(**({"widths": (8, 16)} | change))
