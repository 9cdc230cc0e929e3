"""The coordinate check: powers of n of finite networks confirm what `tp.classify` counts."""

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.regimes.classification.derivation.counting import Counting
from tplimits.regimes.classification.finite import coordinates
from tplimits.regimes.classification.finite.coordinates import Coordinate, _regime
from tplimits.regimes.classification.finite.judging import measured_power
from tplimits.sampling.sampling import Sampling

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
#: those with a name, which `make test` checks on the perceptron
NAMED = 4


@pytest.mark.sampling
@pytest.mark.parametrize(
    "number", [*range(NAMED), *(pytest.param(i, marks=pytest.mark.long) for i in range(NAMED, len(PARAMETRIZATIONS)))]
)
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: o.name)
@pytest.mark.parametrize(
    "target", [pytest.param(2, id="perceptron"), pytest.param(residual, id="residual", marks=pytest.mark.long)]
)
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


@tp.network
def normed(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    h = tp.sum(U * ξ, over="d")
    c = h - tp.avg(h)
    return v * tp.relu(W @ (c / tp.sqrt(tp.avg(c * c) + 0.01)))


@tp.network
def over_n(ξ: tp.Input["d", "token"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    A = tp.softmax(tp.avg((Q @ x) * (K @ x).rename(token="key")), over="key")
    return v * tp.mean(tp.sum(A * (V @ x).rename(token="key"), over="key"), over="token")


@tp.network
def small_branch(ξ: tp.Input["d", "token"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    A = tp.softmax(tp.sqrt(tp.n) * tp.avg((Q @ x) * (K @ x).rename(token="key")), over="key")
    return v * tp.mean(x + tp.sum(A * (V @ x).rename(token="key"), over="key") / tp.sqrt(tp.n), over="token")


@tp.network
def wide(ξ: tp.Input["d"], U: tp.Vector["k", "d"], W: tp.Matrix["n", "k"], v: tp.Vector["cls"], b: tp.Scalar["cls"]):
    return tp.readout(v * tp.relu(W @ tp.relu(tp.sum(U * ξ, over="d")))) + b


@pytest.mark.sampling
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("network", [normed, over_n.bind(token=3)], ids=lambda network: network.name)
def test_averages_that_vanish_are_no_instability(network, seed):
    """Centred LayerNorm and logits over n in μP start like n^(−½), as they should."""
    check = tp.classify(network, tp.MUP, tp.SGD()).check((32, 64, 128, 256), seed=seed)
    assert check.counted_regime == check.measured_regime == "feature"
    starts = [row for row in check.rows if row.t == 0 and not row.is_vector and row.counted == Fraction(-1, 2)]
    assert all(row.scale == row.counted for row in starts if row.name != "f")
    assert len(starts) >= 2


@pytest.mark.sampling
def test_several_widths_outputs_and_biases_and_branches_over_a_root():
    found = tp.classify(wide.bind(cls=2), tp.MUP, tp.SignSGD())
    assert found.check((32, 64, 128, 256), seed=3, ratios={"k": 0.5}).measured_regime == found.regime == "feature"
    branch = tp.classify(small_branch.bind(token=3), tp.NTP, tp.SGD())
    assert branch.check((32, 64, 128, 256), seed=3).measured_regime == branch.regime == "operator"


@pytest.mark.sampling
@pytest.mark.parametrize(
    "table, wrong", [(tp.MUP, tp.NTP), (tp.NTP, tp.MUP), (tp.SP, tp.MUP), (tp.SP, tp.NTP)], ids=repr
)
def test_powers_counted_for_another_parametrization_are_not_taken_for_those_measured(table, wrong):
    """The rows of one table beside the counts of another: what is measured is told from what is counted."""
    regime = tp.classify(2, table, tp.SGD()).regime
    rows = tp.classify(2, table, tp.SGD()).check(seed=SEED).rows
    counts = {(r.name, r.t): r.counted for r in tp.classify(2, wrong, tp.SGD()).check((8, 16), seed=SEED).rows}
    assert _regime([replace(r, counted=counts[r.name, r.t]) for r in rows], measured=True) == regime


@pytest.mark.sampling
@pytest.mark.parametrize("wrong", [tp.MUP, tp.ABCD({"2": ("1/2", 0, "3/4", 1)}, base=tp.NTP)], ids=["μP", "faster"])
def test_a_count_that_is_a_quarter_off_is_rejected_or_said_to_be_undecided(wrong):
    """Features that move like n^(−¼) beside a count of n^0, and f that stays of order 1 beside one of n^(¼)."""
    check = tp.classify(2, tp.UP("1/4"), tp.SGD()).check(seed=SEED)
    counts = {(r.name, r.t): r.counted for r in tp.classify(2, wrong, tp.SGD()).check((8, 16), seed=SEED).rows}
    found = replace(check, rows=tuple(replace(r, counted=counts[r.name, r.t]) for r in check.rows))
    off = [r for r in found.rows if r.t and abs(r.difference) > 3 / 16]
    assert off and not any(r.verdict == "agrees" for r in off if r.t == 2 or r.counted > 0)
    told = repr(found).splitlines()
    assert f"; {len(found.undecided)} rows undecided: taken as counted" in told[0]
    assert sum(line.endswith(", undecided") for line in told) == len(found.undecided) > 0


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize("table", [tp.MUP, tp.NTP], ids=repr)
def test_an_output_that_starts_smaller_than_counted_is_no_agreement(table):
    """A readout of √n smaller entries moves nothing else by another power under Adam: f_0 alone tells it."""
    e = table.kind("readout")
    smaller = tp.ABCD({"readout": (e.a, e.b + Fraction(1, 2), e.c, e.d), "out": table.a_out}, base=table)
    check = tp.classify(residual, smaller, tp.Adam()).check((32, 64, 128, 256), seed=SEED)
    counts = {(r.name, r.t): r for r in tp.classify(residual, table, tp.Adam()).check((8, 16), seed=SEED, draws=2).rows}
    claimed = [(r, counts[r.name, r.t]) for r in check.rows]
    rows = tuple(replace(r, counted=c.counted, scale=c.scale, beside=c.beside) for r, c in claimed)
    found = replace(check, rows=rows)
    assert [(r.name, r.t, r.verdict) for r in found.apart] == [("f", 0, "vanishes")]
    assert not replace(found, counted_regime=found.measured_regime).agrees and check.agrees
    assert "; 1 rows not as counted" in repr(found) and ", vanishes" in repr(found)


@tp.network
def centred(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    h = W @ tp.relu(tp.sum(U * ξ, over="d"))
    return v * tp.relu((h - tp.avg(h)) / tp.sqrt(tp.avg((h - tp.avg(h)) ** 2)))


@pytest.mark.sampling
def test_outputs_before_training_are_not_drawn_of_networks_that_are_dead():
    """Behind 8 neurons with relu 1 input in 256 is 0 everywhere, and a norm without ε divides by it."""
    found = tp.classify(centred, tp.MUP, tp.SGD())
    assert found.check((32, 64, 128, 256), seed=SEED, steps=1).agrees
    X = -np.ones((1, 1))
    with pytest.raises(tp.EvaluationError, match="not finite before training, as where 0 divides"):
        found.check((2, 4), X=X, seed=SEED)


@tp.network
def five(ξ: tp.Input["d"], U: tp.Vector["d"], A: tp.Matrix, B: tp.Matrix, C: tp.Matrix, D: tp.Matrix, v: tp.Vector):
    x = tp.relu(tp.sum(U * ξ, over="d"))
    for W in (A, B, C, D):
        x = tp.relu(W @ x)
    return v * x


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize("seed", range(2))
def test_deep_networks_that_are_narrow_do_not_grow_at_the_start(seed):
    """E f_0² does not see the width, E log |f_0| grows by 1/n: at widths 8, 16, 32 like n^(½), at no power of n."""
    check = tp.classify(five, tp.NTP, tp.SGD()).check((32, 64, 128), seed=seed, steps=1, draws=32)
    assert check.agrees and not any(r.name == "f" for r in check.apart)


def test_a_power_has_the_error_of_the_spread_between_networks():
    """Sizes n^(−½) with lognormal noise: two errors cover the truth, and fall like 1/√draws."""
    rng = np.random.default_rng(4)
    widths, found = [10, 100, 1000], []
    for draws in (8, 128):
        sizes = [np.exp(rng.standard_normal((400, draws))) * n**-0.5 for n in widths]
        trials = [measured_power(widths, [s[i] for s in sizes]) for i in range(400)]
        assert 0.93 < np.mean([abs(t.power + 0.5) < 2 * t.error for t in trials]) < 1
        found.append(np.mean([t.error for t in trials]))
    assert found[0] / found[1] == pytest.approx(4, rel=0.1)
    assert measured_power([10, 100], [np.zeros(4), np.zeros(4)]).power == float("-inf")


def test_the_report_of_a_check_begins_with_its_sentence():
    check = tp.classify(2, tp.MUP, tp.SGD()).check((8, 16), steps=1, draws=4, seed=SEED)
    first, answer = repr(check).splitlines()[0], check.report().answer
    assert (answer[0].lower(), answer[1:]) == (first[0].lower(), f"{first[1:]}.")
    assert answer[0].isupper()


def test_slopes_and_regimes():
    def regime(start, x, f, error=0.0, counted=None):
        rows = [("x", 0, start), ("f", 0, -0.5), ("x", 1, x), ("f", 1, f)]
        guessed = [p if counted is None else counted for _, _, p in rows]
        made = [
            Coordinate(name, t, c, p, (), error=error, is_vector=name != "f")
            for (name, t, p), c in zip(rows, guessed, strict=True)
        ]
        return _regime(made, measured=True)

    assert regime(0, 0, 0) == "feature"
    assert regime(0, -0.5, 0) == "operator"
    assert regime(0, -0.5, -0.3) == "trivial"
    assert regime(0, -0.5, 0.3) == "unstable"
    assert regime(-0.4, 0, 0) == "unstable"
    # within the error the counted side holds, beyond it the measured one
    assert regime(0, -0.5, 0.3, error=0.25, counted=0) == "operator"
    assert regime(0, -0.5, 0.3, error=0.1, counted=0) == "unstable"


@pytest.mark.parametrize(
    "change, message",
    [
        ({"widths": (64,)}, "two widths"),
        ({"widths": (64, 1)}, "at least 2"),
        ({"widths": np.array([[8, 16]])}, "a whole number"),
        ({"steps": 0}, "at least 1"),
        ({"draws": 1}, "draws"),
    ],
)
def test_what_cannot_be_checked_is_refused(change, message):
    with pytest.raises(tp.CheckError, match=message):
        tp.classify(2, tp.MUP, tp.SGD()).check(**({"widths": (8, 16)} | change))


def test_the_level_is_shared_by_all_rows(monkeypatch):
    """Each of K values after each of S steps and at the start, and f: errors are Student's at level/(rows + 1)."""
    asked = []
    monkeypatch.setattr(coordinates, "stdtrit", lambda freedom, level: asked.append((level, freedom)) or 0.0)
    check = tp.classify(2, tp.MUP, tp.SGD()).check(np.array([4, 8]), steps=3, draws=2, seed=SEED, level=0.05)
    names = {row.name for row in check.rows}
    assert len(check.rows) == len(asked) == 4 * len(names) and len(names) > 2
    assert {level for level, _ in asked} == {0.05 / (len(asked) + 1)}
    starts = 2 * coordinates.STARTS * 2 - 2  # for f before training, of these widths: quarters would be one
    assert {freedom for _, freedom in asked} == {starts, (2 + 1) * 2 - 2}


@pytest.mark.parametrize(
    ("counted", "measured", "scale", "by_count", "by_networks"),
    [
        (0.5, 0.5, 0.0, 1, 1),
        (-0.5, -0.5, 0.0, -1, -1),
        (0.0, 0.1, 0.0, 0, 0),
        (-0.125, -0.125, 0.0, -1, -1),
        (0.0, 0.5, 0.0, 0, 1),
        (0.0, -0.5, 0.0, 0, -1),
        (0.5, 0.0, 0.0, 1, 0),
        (-0.5, -0.5, -0.5, 0, 0),
        (0.0, 0.0, -0.5, 1, 1),
    ],
)
def test_sides_of_a_scale(counted, measured, scale, by_count, by_networks):
    """A measured power counts where networks disagree with the counted one, which an eighth is not enough for.

    The counted one is on a side at any distance: behind jumps powers are eighths, sixteenths, and so on.
    """
    widths = (64, 128, 256)
    row = Coordinate("h", 1, counted, measured, tuple(w**measured for w in widths), scale, error=0.01, widths=widths)
    assert (row.side(False), row.side(True)) == (by_count, by_networks)
    assert row.difference == measured - counted


@pytest.mark.sampling
@pytest.mark.parametrize(
    "inner, outer, regime, evolving",
    [
        (tp.sign, tp.tanh, "feature", ("g", "what v reads")),
        (lambda h: h + tp.step(h), tp.tanh, "feature", ("h", "_6", "g", "what v reads")),
        (tp.tanh, tp.sign, "operator", ()),
    ],
)
def test_what_is_behind_a_jump_does_not_move(inner, outer, regime, evolving):
    """Its gradient is 0 at every neuron of every network, which stands on no jump."""

    @tp.network
    def jumping(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        h = tp.sum(U * ξ, over="d")
        g = W @ inner(h)
        return v * outer(g)

    for optimizer in (tp.SGD(), tp.SignSGD()):
        found = tp.classify(jumping, tp.MUP, optimizer)
        assert found.regime == regime and found.evolving == evolving, found
        check = found.check(seed=SEED)
        assert check.agrees and not check.apart, check
    assert ("W stays at rest: gradients behind a jump are 0" in repr(found)) == (outer is tp.sign)
    with_symbol = tp.classify(jumping, tp.UP(sympy.Symbol("s")), tp.SGD())
    assert (with_symbol.conditions["feature"] == sympy.false) == (regime == "operator")


JUMPS = {
    "sign": lambda p: tp.sign(p),
    "where": lambda p: tp.where(p, tp.tanh(p) + 1, p),
    "quotient": lambda p: p / tp.abs(p),
    "continuous": lambda p: p * tp.sign(p),
}


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize("kind", JUMPS)
def test_what_jumps_moves_by_the_root_of_the_share_that_crosses(kind):
    """Δp of n^(−s) takes n^(1 − s) neurons over the jump, and p by n^(−s/2); a second jump by n^(−s/4)."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
        h = tp.relu(tp.sum(U * ξ, over="d"))
        g = h + JUMPS[kind](W @ h)
        q = V @ g
        return v * (q + JUMPS[kind](q))

    halved = kind != "continuous"
    for table, s in ((tp.UP("1/4"), 4), (tp.NTP, 2)):
        found = tp.classify(network, table, tp.SGD())
        powers = found.powers(1)
        assert (powers["h"], powers["f"], found.regime) == (-Fraction(1, s), 0, "operator")
        assert (powers["g"], powers["q"]) == (-Fraction(1, s * (1 + halved)),) * 2
        assert powers["what v reads"] == -Fraction(1, s * (1 + 3 * halved))
        check = found.check(seed=SEED)
        assert check.agrees and not check.apart, check
    assert tp.classify(network, tp.MUP, tp.SGD()).regime == "feature"


@pytest.mark.sampling
@pytest.mark.parametrize("eps, above, regime", [(1e-8, True, "feature"), (1e2, False, "trivial")])
def test_gradients_that_fall_are_above_ε_or_below_it(eps, above, regime):
    """μP with d = 0: n^d g falls like 1/n, and Q of Adam is of order 1 as long as that is far above ε."""
    unscaled = tp.ABCD({"input": (0, 0, 0, 0), "hidden": (0, "1/2", 1, 0), "output": (1, 0, 0, 0)})
    found = tp.classify(2, unscaled, tp.Adam(eps=eps))
    assert found.regime == "unfaithful"
    assert "n^d g falls, of W1 like n^(-1)" in repr(found) and "above them: feature" in repr(found)
    check = found.check(seed=SEED)
    assert (check.above, check.counted_regime, check.measured_regime) == (above, regime, regime), check
    assert ("above ε at these widths" in repr(check)) == above


@pytest.mark.sampling
@pytest.mark.parametrize("eps", [3e-3, 1e-2])
def test_gradients_that_pass_ε_between_the_widths_decide_nothing(eps):
    """Powers between those above ε, 0, and those below it, −1, are no others than the counted ones."""
    unscaled = tp.ABCD({"input": (0, 0, 0, 0), "hidden": (0, "1/2", 1, 0), "output": (1, 0, 0, 0)})
    check = tp.classify(2, unscaled, tp.Adam(eps=eps)).check(seed=SEED)
    assert not check.apart and check.undecided and "gradients fall, and pass ε at these widths" in repr(check), check
    (f,) = (row for row in check.rows if row.name == "f" and row.t == 2)
    assert -0.9 < f.measured < -0.1 and f.verdict == "undecided" and {f.counted, f.beside} == {0, -1}
    assert {"vanishes", "grows"} & {replace(row, beside=None).verdict for row in check.rows}


@pytest.mark.parametrize(
    "measured, error, late, verdict",
    [
        (0.0, 0.2, True, "agrees"),  # both powers beside it, a quarter away, are excluded
        (0.06, 0.2, True, "undecided"),
        (-0.06, 0.2, True, "undecided"),
        (0.0, 0.26, True, "undecided"),
        (-0.5, 0.3, False, "agrees"),  # before the last step only growth is looked for, and is excluded
        (0.1, 0.01, True, "undecided"),  # neither power fits
        (0.2, 0.05, True, "grows"),
    ],
)
def test_a_row_is_decided_where_the_next_powers_are_excluded(measured, error, late, verdict):
    row = Coordinate("h", 2, 0, measured, (1.0, 1.0), error=error, late=late, widths=(64, 128))
    assert row.verdict == verdict


@tp.network
def saturating(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(V @ tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d"))))


class Claimed(Counting):
    """Networks in one table, and what is counted for another one."""

    @property
    def steps(self):
        return tp.classify(self.network, tp.NTP, self.optimizer).verdict.counting.steps


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize("rate", [0.5, 5.0])
def test_rates_at_which_narrow_networks_saturate_are_made_smaller(rate):
    """The first step of RMSProp is 32 times the rate: times n^(−½) it is no small one in networks of 32 neurons."""
    optimizer, widths = tp.RMSProp(), (32, 64, 128, 256)
    check = tp.classify(saturating, tp.NTP, optimizer).check(widths, lr=rate, seed=SEED)
    assert check.agrees and check.measured_regime == "operator", check
    assert check.slowed < 0.2 and "rates times" in repr(check)
    # in μP features move whatever the rate is: a claim that they do not is rejected, as is a table where they grow
    wrong = Claimed(saturating.returned, tp.MUP, optimizer)
    training, sampling = coordinates.Training(lr=rate), Sampling(widths, 8, SEED, 1e-2)
    found = coordinates.coordinate_check(wrong, training, sampling)
    assert (found.counted_regime, found.measured_regime) == ("operator", "feature"), found
    faster = tp.ABCD({"hidden": ("1/2", 0, 0, 0)}, base=tp.NTP)
    assert tp.classify(saturating, faster, optimizer).check(widths, lr=rate, seed=SEED).measured_regime == "unstable"


def test_growth_that_no_row_shows_is_counted_and_told():
    """tanh(√n ⟨y²⟩) saturates: all values of networks are of order 1, and what it is a function of is not."""

    def network(power):
        @tp.network
        def net(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
            x = tp.sum(U * ξ, over="d")
            return v * x * tp.tanh(tp.n**power * tp.avg(y * y))

        return tp.classify(net, tp.MUP, tp.SGD())

    grown, kept = (network(power) for power in (0.5, 0))
    assert (grown.regime, kept.regime) == ("unstable", "feature")
    found = grown.check((32, 64, 128), seed=1)
    assert (found.counted_regime, found.measured_regime, found.agrees) == ("unstable", "feature", False)
    assert "what grows is in no row: " in repr(found) and found.unseen == grown.breaks
    twin = kept.check((32, 64, 128), seed=1)
    assert (twin.counted_regime, twin.agrees, twin.unseen) == ("feature", True, ())
