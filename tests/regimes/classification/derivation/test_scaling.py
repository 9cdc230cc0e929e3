"""Powers of n in programs: the same network with them and without, in exponents that make up for them."""

import random
from fractions import Fraction

import pytest
import sympy

import tplimits as tp
from tplimits.regimes.classification.derivation.scaling import scaling_of
from tplimits.regimes.classification.derivation.verdict import verdict_on

OPTIMIZERS = (tp.SGD(), tp.SignSGD(), tp.Adam())
HALF = Fraction(1, 2)


@tp.network
def plain(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector):
    return v * tp.tanh(W @ tp.relu(tp.sum(U * ξ, over="d")) + b)


@tp.network
def on_matrix(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector):
    return v * tp.tanh(tp.sqrt(tp.n) * (W @ tp.relu(tp.sum(U * ξ, over="d"))) + b)


@tp.network
def on_all(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector):
    h = (tp.relu(tp.sum(U * ξ, over="d") / tp.n)).named("h")
    y = (W @ h).named("y")
    return v * tp.tanh(tp.sqrt(tp.n) * (y + b)) * tp.sqrt(tp.n)


@tp.network
def residual(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector):
    h = tp.sum(U * ξ, over="d")
    return v * (h + tp.tanh(W @ h) / tp.sqrt(tp.n) + b)


@tp.network
def rooted(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    h = tp.relu(tp.sum(U * ξ, over="d"))
    return v * tp.relu((W @ h) * tp.sqrt(tp.n))


@tp.network
def after_relu(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    h = tp.relu(tp.sum(U * ξ, over="d"))
    return v * (tp.relu(W @ h) * tp.sqrt(tp.n))


@tp.network
def root_attention(ξ: tp.Input["d", "token"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    A = tp.softmax(tp.sqrt(tp.n) * tp.avg((Q @ x) * (K @ x).rename(token="key")), over="key")
    return tp.mean(v * tp.sum(A * x.rename(token="key"), over="key"), over="token")


#: the powers of n that the program multiplies each parameter by
FACTORS = {on_matrix: {"W": HALF}, on_all: {"U": -1, "W": HALF, "b": HALF, "v": HALF}}


def drawn(rng):
    """Exponents of `plain`, in quarters, often natural and often on the boundary of two regimes."""
    A = Fraction(rng.choice([2, 3, 4]), 4)
    r = [Fraction(rng.choice([-1, 0, 0, 1, 2]), 4) for _ in range(4)]
    off = Fraction(rng.choice([0, 0, 0, 0, 1, -1]), 4)
    tables = {
        "U": (0, 0, r[0], A),
        "W": (0, HALF + off, 1 + r[1], A),
        "b": (0, 0, r[2], A),
        "v": (A, 0, 1 + r[3] - A, A),
    }
    return {k: shifted(e, Fraction(rng.randint(-2, 2), 4)) for k, e in tables.items()}


def shifted(e, θ):
    a, b, c, d = e
    return a + θ, b - θ, c - θ, d + θ


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: o.name)
@pytest.mark.parametrize("network", list(FACTORS), ids=lambda network: network.name)
def test_factors_of_n_and_exponents_that_make_up_for_them_change_no_verdict(network, optimizer):
    """n^p W with a + p is W with a: verdict, inequalities, and the moves of f and next to their scale of features."""
    rng, met = random.Random(23), set()
    for base in (tp.MUP, tp.NTP, *(None for _ in range(12))):
        table = {k: tuple(e) for k, e in base.of(plain).items()} if base else drawn(rng)
        out = base.a_out if base else 0
        more = {k: (e[0] + sympy.sympify(FACTORS[network].get(k, 0)), *e[1:]) for k, e in table.items()}
        first = tp.classify(plain, tp.ABCD(table | {"out": out}), optimizer)
        second = tp.classify(network, tp.ABCD(more | {"out": out}), optimizer)
        met.add(first.regime)
        assert second.regime == first.regime
        assert (second.stable, second.faithful, second.nontrivial) == (first.stable, first.faithful, first.nontrivial)
        assert second.powers(2)["f"] == first.powers(2)["f"]
        assert bool(second.breaks) == bool(first.breaks)
        if first.stable and first.faithful:  # a start that is natural tells which parameters take which powers
            assert [str(i) for i in second.inequalities] == [str(i) for i in first.inequalities]
            assert second.verdict.written.regime == second.regime
    assert {"unstable", "feature", "operator"} <= met


def test_powers_are_read_off_where_one_parameter_takes_them():
    for network, factors in FACTORS.items():
        found = scaling_of(network)
        assert found.readable and found.unique
        assert found.shifts == {name: -p for name, p in factors.items()}
    assert scaling_of(plain).shifts == {}
    assert not scaling_of(residual).readable
    assert not scaling_of(root_attention.bind(token=2)).readable


SMALL = tp.ABCD({"W": (0, 1, "3/2", "1/2")}, base=tp.MUP)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: o.name)
@pytest.mark.parametrize("network", [rooted, after_relu], ids=lambda network: network.name)
def test_small_weights_times_a_root_of_n_are_maximal_updates(network, optimizer):
    found = tp.classify(network, SMALL, optimizer)
    assert found.regime == "feature"
    assert found.breaks == ()
    assert "✗" not in repr(found)
    assert "W: a − 1/2" in repr(found)
    wrong = tp.classify(network, tp.ABCD({"W": (0, "3/4", "3/2", "1/2")}, base=tp.MUP), optimizer)
    assert wrong.regime == "unstable"
    assert tp.classify(network, tp.MUP, optimizer).regime == "unstable"


@pytest.mark.sampling
@pytest.mark.parametrize("optimizer", OPTIMIZERS[:2], ids=lambda o: o.name)
@pytest.mark.parametrize(
    "network, table, regime",
    [
        (rooted, SMALL, "feature"),
        (rooted, tp.ABCD({"W": (HALF, HALF, 1, 1), "U": (0, 0, 0, 1)}, base=tp.MUP), "feature"),
        (rooted, tp.ABCD({"W": (1, 0, 1, 1)}, base=tp.NTP), "operator"),
        (rooted, tp.MUP, "unstable"),
        (after_relu, SMALL, "feature"),
    ],
)
def test_finite_networks_with_factors_of_n_are_in_the_regime_that_is_counted(network, table, regime, optimizer):
    found = tp.classify(network, table, optimizer)
    assert found.regime == regime
    check = found.check(seed=2308)
    assert check.counted_regime == regime
    assert check.agrees, check


def test_inequalities_are_left_out_where_powers_of_n_are_nobodys():
    attention = root_attention.bind(token=3)
    for network, table, regime in ((attention, tp.MUP, "unstable"), (residual, tp.MUP, "feature")):
        found = tp.classify(network, table, tp.SGD())
        assert found.regime == regime
        assert found.inequalities == ()
        assert "the inequalities are for programs without powers of n" in repr(found)
        assert "✓" not in repr(found) and "✗" not in repr(found)
        assert "without powers of n" in found.latex()
        with pytest.raises(tp.ProgramError, match="powers of n that are not those of one parameter's image"):
            tp.classify(network, tp.UP(sympy.Symbol("s")), tp.SGD())


def test_symbols_know_the_power_of_an_image():
    c, s = sympy.symbols("c s")
    real = sympy.Symbol("c", real=True)
    found = tp.classify(rooted, tp.ABCD({"W": (0, 1, c, "1/2")}, base=tp.MUP), tp.SignSGD())
    assert found.conditions["feature"].as_set() == sympy.Interval(sympy.Rational(3, 2), sympy.oo)
    for power in ("5/4", "3/2", "7/4"):
        numbers = tp.classify(rooted, tp.ABCD({"W": (0, 1, power, "1/2")}, base=tp.MUP), tp.SignSGD())
        chosen = {k for k, x in found.conditions.items() if x.subs(real, sympy.Rational(power)) == sympy.true}
        assert chosen == {numbers.regime}
    assert tp.classify(rooted, tp.UP(s), tp.SGD()).regime == "unstable"


def test_verdicts_without_powers_are_those_of_before():
    verdict = verdict_on(plain, tp.MUP, tp.SGD())
    assert not verdict.doubt and verdict.scaling.shifts == {}
    assert all(scale == 0 for scale in verdict.counting.scales.values())


@tp.network
def scaled(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, s: tp.Scalar, v: tp.Vector):
    return v * tp.tanh(s * (W @ tp.sum(U * ξ, over="d")))


@pytest.mark.parametrize("optimizer", OPTIMIZERS[:2], ids=lambda o: o.name)
def test_inequalities_that_are_printed_do_not_contradict_the_verdict(optimizer):
    """r ≥ 0 of a scalar is enough, not necessary: where its gradient is small, the powers that are counted decide."""
    frozen = {"matrix": (0, HALF, 3, 1), "vector": (0, 0, 2, 1), "readout": (1, 0, 3, 1), "out": 0}
    rate = tp.ABCD(frozen | {"scalar": (0, 0, 0 if optimizer.degree == 0 else -HALF, 0)})
    for network, table in ((scaled, rate), (scaled, tp.MUP), (plain, tp.SP), (residual, tp.MUP), (rooted, tp.NTP)):
        found = tp.classify(network, table, optimizer)
        if found.inequalities:
            assert found.verdict.written.regime == found.regime
        else:
            assert "powers of n are counted" in repr(found)
    assert bool(tp.classify(scaled, rate, optimizer).inequalities) == (optimizer.degree == 0)
    assert tp.classify(scaled, tp.MUP, optimizer).inequalities


#: gates of what is small beside what is of order 1
GATES = {
    "cos": lambda h: tp.cos(h),
    "bump": lambda h: tp.exp(-h * h),
    "sigmoid": lambda h: tp.sigmoid(h),
    "quotient": lambda h: 1 / (1 + h * h),
}


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("power", [sympy.Rational(1, 2), 1])
def test_a_gate_of_what_is_small_is_a_constant(gate, power):
    """v cos(x/√n) x is v x and something small: no power has to be moved into U for that."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        h = x / tp.n**power
        return v * x * GATES[gate](h)

    assert tp.classify(net, tp.MUP, tp.SGD()).regime == "feature"
    assert tp.classify(net, tp.NTP, tp.SGD()).regime == "operator"
