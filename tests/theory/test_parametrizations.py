"""Statements of Yang & Littwin on parametrizations, as printed and as corrected, on networks of finite width."""

import math

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.training.finite.networks import train

X = np.random.default_rng(1).standard_normal((2, 3))
NARROW, WIDE, DRAWS = 128, 1024, 6


def moved(network, parametrization, optimizer, name, only=None):
    """Slope in n of the change of a value in one step, between two widths."""
    sizes = {}
    for n in (NARROW, WIDE):
        run = train(
            network, parametrization, optimizer, X, lambda f: np.ones_like(f) / len(f), 0.5, 1, n, seed=6,
            draws=DRAWS * WIDE // n, keep=() if name == "f" else (name,), only=only,
        )  # fmt: skip
        values = run.f if name == "f" else run.kept[name]
        sizes[n] = math.sqrt(np.mean((values[:, 1] - values[:, 0]) ** 2))
    return math.log(sizes[WIDE] / sizes[NARROW]) / math.log(WIDE / NARROW)


def same_rate(c):
    """SP with the learning rate n^(−c)."""
    return tp.ABCD({"input": (0, 0, c, 0), "hidden": (0, "1/2", c, 0), "output": (0, "1/2", c, 0)})


@pytest.mark.sampling
def test_standard_networks_with_sign_updates_at_rate_one_over_n_are_unstable():
    """Remark 2.2.7 says stable, with feature learning; f moves like √n, and the largest stable rate is n^(−3/2)."""
    two, one = (tp.classify(layers, tp.SP, tp.SignSGD()).program for layers in (2, 1))
    assert moved(two, same_rate(1), tp.SignSGD(), "f") == pytest.approx(0.5, abs=0.1)  # printed: 0
    assert moved(two, same_rate("3/2"), tp.SignSGD(), "f") == pytest.approx(0, abs=0.1)
    assert moved(two, same_rate("3/2"), tp.SignSGD(), "x2") == pytest.approx(-0.5, abs=0.1)  # no features
    assert moved(one, same_rate(1), tp.SignSGD(), "f") == pytest.approx(0, abs=0.1)
    regimes = [tp.classify(2, same_rate(c), tp.SignSGD()).regime for c in (1, "3/2")]
    assert regimes == ["unstable", "operator"]
    assert tp.classify(1, same_rate(1), tp.SignSGD()).regime == "operator"


@pytest.mark.sampling
@pytest.mark.parametrize("s", [0, "1/4"])
def test_readouts_of_the_stable_family_move_the_output(s):
    """r_(L+1) = 0, c = 1 − a of the last layer; with the printed r_(L+1) = 1 the readout is frozen."""
    derived = tp.UP(s)
    r = derived.readout
    printed = tp.ABCD({"readout": (r.a, r.b, r.c + 1, r.d)}, base=derived)
    network = tp.classify(2, derived, tp.SignSGD()).program
    assert moved(network, derived, tp.SignSGD(), "f", only=("W3",)) == pytest.approx(0, abs=0.1)
    assert moved(network, printed, tp.SignSGD(), "f", only=("W3",)) == pytest.approx(-1, abs=0.1)


@pytest.mark.sampling
def test_features_of_a_layer_move_as_much_as_those_before_it():
    """r_1 = 0 and r_2 = ½: x^2 moves by order 1, n^(−min r_m); with the index as printed it would be n^(−r_2)."""
    slow = tp.ABCD({"hidden": (0, "1/2", "3/2", 1)}, base=tp.MUP)
    network = tp.classify(2, slow, tp.SignSGD()).program
    assert moved(network, slow, tp.SignSGD(), "x2") == pytest.approx(0, abs=0.1)  # printed: −½
    assert moved(network, slow, tp.SignSGD(), "x2", only=("W2",)) == pytest.approx(-0.5, abs=0.1)
    assert tp.classify(2, slow, tp.SignSGD()).powers(1)["x2"] == 0


def test_faithful_holds_for_every_layer():
    """d = a + A for all layers up to the readout's d = a: one that is off by ¼ is found, in each of them."""
    for kind in ("matrix", "vector", "readout"):
        e = tp.MUP.kind(kind)
        off = tp.ABCD({kind: (e.a, e.b, e.c, e.d - tp.UP("1/4").vector.c)}, base=tp.MUP)
        assert tp.classify(2, off, tp.Adam()).faithful is False
    assert tp.classify(2, tp.MUP, tp.Adam()).faithful is True
