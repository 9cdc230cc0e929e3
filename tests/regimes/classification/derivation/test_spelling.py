"""A verdict does not depend on what a program gives a name to, nor on the order in which it is written."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.classification.derivation.spelling import in_one_spelling, with_factors_before_averages


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


#: signs of ⟨q k⟩, which is as often of either one at every width
SIGNS: dict[str, Callable[[Any], Any]] = {
    "sign(a)": tp.sign,
    "|a|/a": lambda a: abs(a) / a,
    "a/|a|": lambda a: a / abs(a),
    "a/√(a²)": lambda a: a / tp.sqrt(a * a),
    "2 step(a) − 1": lambda a: 2 * tp.step(a) - 1,
    "|a|³/a³": lambda a: abs(a) ** 3 / a**3,
}


def signed(function: Callable[[Any], Any], by_name: bool) -> Any:
    @tp.network
    def gated(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Vector, Q: tp.Matrix, K: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        a = tp.avg((Q @ x) * (K @ b))
        if by_name:
            c = function(a)
            y = x * c
            return v * y + 0 * v * c
        return v * (x * function(a))

    return gated


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("name", SIGNS)
def test_signs_of_scalars_have_one_verdict(name: str, by_name: bool) -> None:
    net = signed(SIGNS[name], by_name)
    assert tp.classify(net, tp.NTP, tp.SGD()).regime == "operator"
    assert tp.classify(net, tp.MUP, tp.SGD()).regime == "feature"


def test_networks_behind_the_sign_of_a_scalar_learn_in_their_kernel() -> None:
    # f = n^(−½) Σ v x sign(a): the sign has no gradient, v and U move f by order 1, and each entry of x by n^(−½)
    rng, widths, moves, entries = np.random.default_rng(3), (64, 256, 1024), [], []
    for n in widths:
        of_f, of_x = [], []
        for _ in range(60):
            u, v, b = rng.standard_normal((3, n))
            Q, K = rng.standard_normal((2, n, n)) / n**0.5

            s = np.sign((Q @ u) @ (K @ b))
            start = (v * u).sum() * s / n**0.5
            x, w = u - (start - 1) * v * s / n**0.5, v - (start - 1) * u * s / n**0.5
            after = (w * x).sum() * np.sign((Q @ x) @ (K @ b)) / n**0.5
            of_f.append(abs(after - start))
            of_x.append(np.sqrt(np.mean(((start - 1) * v / n**0.5) ** 2)))
        moves.append(np.median(of_f))
        entries.append(np.median(of_x))
    assert abs(np.polyfit(np.log(widths), np.log(moves), 1)[0]) < 0.2
    assert abs(np.polyfit(np.log(widths), np.log(entries), 1)[0] + 0.5) < 0.2
    # and not like a scalar that tends to 0 multiplied x
    found = tp.classify(signed(lambda a: a, True), tp.NTP, tp.SGD())
    assert found.regime == "trivial"
    assert found.powers(1)["f"] == -1


#: the same fluctuation √n·Avg(y z), with its power at other places
FLUCTUATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "before": lambda y, z: tp.sqrt(tp.n) * tp.avg(y * z),
    "inside": lambda y, z: tp.avg(tp.sqrt(tp.n) * y * z),
    "of one factor": lambda y, z: tp.avg((tp.sqrt(tp.n) * y) * z),
    "of the other": lambda y, z: tp.avg(z * (y * tp.n**0.5)),
    "in two parts": lambda y, z: tp.avg((tp.n**0.25 * y) * (tp.n**0.25 * z)),
    "before and inside": lambda y, z: tp.n**0.25 * tp.avg(tp.n**0.25 * y * z),
    "named": lambda y, z: tp.avg((tp.sqrt(tp.n) * y * z).named("grown")),
}


def scores_in(average):
    @tp.network
    def scores(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
        x = tp.tanh(tp.sum(U * ξ, over="d"))
        return v * tp.tanh(average(W @ x, V @ x)) * x

    return scores


@pytest.mark.parametrize("optimizer", [tp.SGD(), tp.Adam()], ids=lambda o: o.name)
@pytest.mark.parametrize("table", [tp.NTP, tp.MUP, tp.SP], ids=["NTP", "MUP", "SP"])
def test_a_power_inside_an_average_is_one_before_it(table, optimizer):
    """√n y z grows, its average is a fluctuation of order 1: networks inside and before were of two regimes in NTP."""
    verdicts = {name: tp.classify(scores_in(f), table, optimizer) for name, f in FLUCTUATIONS.items()}
    assert len({(v.regime, v.powers(1)["f"], v.powers(2)["f"]) for v in verdicts.values()}) == 1
    if table is tp.NTP and optimizer.name == "SGD":
        assert verdicts["inside"].regime == "feature"


def test_gradient_descent_of_a_network_written_by_hand_moves_such_scores_by_order_one():
    """a = √n·Avg(y z) in NTP: a step moves it by −η g (Avg x² Avg z² + Avg x² Avg y²), g = ∂f/∂a, whatever n is."""
    moved = []
    for n in (256, 1024, 4096):
        rng = np.random.default_rng(n)
        x, (W, V) = np.tanh(rng.standard_normal(n)), rng.standard_normal((2, n, n)) / np.sqrt(n)
        v = rng.standard_normal(n) / np.sqrt(n)
        y, z = W @ x, V @ x
        a = y @ z / np.sqrt(n)
        g = (v @ x) * (1 - np.tanh(a) ** 2)
        # NTP: weights W = w/√n, and w moves by −∂f/∂w
        after_y, after_z = y - g * z / np.sqrt(n) * (x @ x) / n, z - g * y / np.sqrt(n) * (x @ x) / n
        moved.append((after_y @ after_z / np.sqrt(n) - a) / g)
        assert moved[-1] == pytest.approx(-2 * (x @ x / n) ** 2, rel=0.2)
    assert max(moved) - min(moved) < 0.15


def test_powers_of_every_term_and_of_averages_of_averages_are_before_them():
    """n·Avg(y Avg(z u) r) with the powers at any place."""

    def verdict(body):
        @tp.network
        def nested(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, R: tp.Matrix, v: tp.Vector):
            x = tp.tanh(tp.sum(U * ξ, over="d"))
            return v * tp.tanh(body(W @ x, V @ x, R @ x)) * x

        found = tp.classify(nested, tp.NTP, tp.SGD())
        return found.regime, len(found.breaks)

    root = tp.sqrt(tp.n)
    sums = {
        verdict(lambda y, z, r: root * tp.avg(y * z + z * r)),
        verdict(lambda y, z, r: tp.avg(root * (y * z + z * r))),
        verdict(lambda y, z, r: tp.avg(root * y * z + root * z * r)),
    }
    assert sums == {("feature", 0)}
    products = {
        verdict(lambda y, z, r: root * tp.avg(y * r) * root * tp.avg(y * z)),
        verdict(lambda y, z, r: tp.avg(root * (root * tp.avg(y * r)) * y * z)),
        verdict(lambda y, z, r: tp.avg(root * tp.avg(root * y * r) * y * z)),
        verdict(lambda y, z, r: tp.n * tp.avg(tp.avg(y * r) * y * z)),
    }
    assert products == {("feature", 0)}


@pytest.mark.parametrize(("table", "step"), [(tp.NTP, 0), (tp.MUP, Fraction(1, 2))], ids=["NTP", "MUP"])
def test_names_stay_with_what_they_name(table, step):
    """a = Avg(√n y z) moves by √n more than Avg(y z); the vector √n y z is a value of one spelling alone."""

    @tp.network
    def named(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
        x = tp.tanh(tp.sum(U * ξ, over="d"))
        grown = (tp.sqrt(tp.n) * (W @ x) * (V @ x)).named("grown")
        return v * tp.tanh(tp.avg(grown).named("a")) * x

    found = tp.classify(named, table, tp.SGD())
    assert found.powers(1)["a"] == step
    assert "grown" not in found.powers(1)


def test_factors_of_families_stand_where_their_averages_are_read():
    """Σ over key of c[key] Avg(y z[key]), also with the axis of what is averaged renamed on the way."""

    def verdict(scores):
        @tp.network
        def attending(ξ: tp.Input["t", "d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
            x = tp.tanh(tp.sum(U * ξ, over="d"))
            y, z = W @ x, (V @ x).rename(t="key")
            c = (tp.avg(y * y)).rename(t="key")
            return tp.mean(v * tp.sum(tp.tanh(scores(y, z, c)) * x.rename(t="key"), over="key"), over="t")

        found = tp.classify(attending.bind(t=2), tp.NTP, tp.SGD())
        return found.regime, len(found.breaks), found.powers(1)["f"]

    root = tp.sqrt(tp.n)
    assert (
        len(
            {
                verdict(lambda y, z, c: root * c * tp.avg(y * z)),
                verdict(lambda y, z, c: tp.avg(root * c * y * z)),
                verdict(lambda y, z, c: root * tp.avg(c * y * z)),
                verdict(lambda y, z, c: tp.avg(root * (c * z).rename(key="other") * y).rename(other="key")),
                # the average reads the vector with its axis at another one
                verdict(
                    lambda y, z, c: tp.avg((root * (c * z).rename(key="other") * y).named("w").rename(other="key"))
                ),
            }
        )
        == 1
    )


def test_returned_vectors_and_what_is_read_elsewhere_keep_their_powers():
    @tp.network
    def growing(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.tanh(tp.sum(U * ξ, over="d"))
        y = (tp.sqrt(tp.n) * (W @ x)).named("y")
        return tp.sqrt(tp.n) * v * x * tp.avg(y) * tp.tanh(y)

    assert with_factors_before_averages(growing) == growing
