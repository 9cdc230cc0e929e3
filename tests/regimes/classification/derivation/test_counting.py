"""Powers of n counted on programs against the inequalities between exponents, and on programs beyond perceptrons."""

import random
from fractions import Fraction

import pytest
import sympy

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.nodes.entries import OWN, Entry, N
from tplimits.program.parametrization.script import script
from tplimits.regimes.classification.derivation.counting import STEPS, Counting
from tplimits.regimes.classification.derivation.perceptron import asked
from tplimits.regimes.classification.derivation.sizes import NOTHING, Size, size_of
from tplimits.regimes.classification.derivation.verdict import StabilityVerdict, simplified, verdict_on

OPTIMIZERS = {"SGD": tp.SGD(), "sign": tp.SignSGD(), "Adam": tp.Adam()}


def exponents(rng):
    """Exponents in quarters, often on a boundary, sometimes beside it."""
    A = Fraction(rng.choice([1, 2, 2, 3, 4, 4, 5]), 4)
    r = [Fraction(rng.choice([-1, 0, 0, 1, 2, 3]), 4) for _ in range(3)]
    off = [Fraction(rng.choice([0, 0, 0, 0, 1, -1]), 4) for _ in range(5)]
    θ = [Fraction(rng.randint(-2, 2), 4) for _ in range(3)]
    tables = [
        (0, off[0], r[0], A + off[1]),
        (0, Fraction(1, 2) + off[2], 1 + r[1], A + off[3]),
        (0, A, 1 + r[2], off[4]),
    ]
    moved = [(a + t, b - t, c - t, d + t) for (a, b, c, d), t in zip(tables, θ, strict=True)]
    return tp.ABCD(dict(zip(("input", "hidden", "output"), moved, strict=True)))


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_inequalities_and_counted_powers_agree(name, layers):
    """Where the optimizer sees d, the theorems speak of faithful parametrizations only."""
    rng, met = random.Random(17 + layers), set()
    for _ in range(25):
        parametrization = exponents(rng)
        counted = verdict_on(*asked(layers, parametrization), OPTIMIZERS[name])
        written = StabilityVerdict(counted.network, counted.parametrization, counted.table, None)
        met.add(counted.regime)
        assert counted.faithful == written.faithful or counted.stable != sympy.true
        if counted.faithful == sympy.true:
            assert counted.regime == written.regime, parametrization
            assert bool(counted.breaks) == bool(written.breaks)
    assert "unstable" in met
    assert len(met) > 1


@tp.network
def scaled(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, s: tp.Scalar, v: tp.Vector):
    return v * tp.relu(s * (W @ tp.relu(tp.sum(U * ξ, over="d"))))


@pytest.mark.long
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_scalars_before_the_readout_count_alike(name):
    rng, met = random.Random(5), set()
    for base in (tp.MUP, tp.NTP, *(None for _ in range(40))):
        chosen = base or exponents(rng)
        power = Fraction(rng.choice([-1, 0, 0, 1, 2]), 4)
        parametrization = tp.ABCD({"scalar": (0, 0, power, 0)}, base=chosen)
        counted = verdict_on(scaled, parametrization, OPTIMIZERS[name])
        written = StabilityVerdict(counted.network, counted.parametrization, counted.table, None)
        met.add(counted.regime)
        if counted.faithful == sympy.true:
            assert counted.regime == written.regime, parametrization
    assert {"unstable", "feature"} <= met


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_tables_have_the_regime_they_are_known_for(name):
    optimizer = OPTIMIZERS[name]
    for layers in (1, 2, 4):
        assert tp.classify(layers, tp.MUP, optimizer).regime == "feature"
        assert tp.classify(layers, tp.NTP, optimizer).regime == "operator"
        assert tp.classify(layers, tp.UP("1/4"), optimizer).regime == "operator"
        assert tp.classify(layers, tp.UP(0), optimizer).regime == "feature"
        assert tp.classify(layers, tp.SP, optimizer).regime == "unstable"


def test_the_symmetry_changes_no_verdict_and_a_wrong_shift_does():
    rng = random.Random(3)
    for optimizer in OPTIMIZERS.values():
        for _ in range(10):
            θ = [Fraction(rng.randint(-4, 4), 4) for _ in range(3)]
            kinds = dict(zip(("matrix", "vector", "readout"), θ, strict=True))
            moved = tp.ABCD({k: tp.MUP.kind(k).shifted(t) for k, t in kinds.items()}, base=tp.MUP)
            assert tp.classify(2, moved, optimizer).regime == "feature"
    wrong = tp.ABCD({"vector": ("1/2", "-1/2", 0, 1)}, base=tp.MUP)  # a and b move, c and d do not
    assert tp.classify(2, wrong, tp.SignSGD()).powers(1)["x1"] == Fraction(-1, 2)


def test_powers_of_expressions():
    x, y = (Entry(sympy.Integer(i), OWN) for i in range(2))
    known = {x: Size(Fraction(0), Fraction(-1, 2)), y: Size(Fraction(-1, 2), Fraction(1, 4))}

    def size(expr):
        return size_of(expr, lambda e: known[e], frozenset([N]))

    scalar = Size(Fraction(0), NOTHING, Fraction(0))
    assert size_of(x * y, {x: known[x], y: scalar}.__getitem__, frozenset()) == Size(0, Fraction(-1, 2), 0)
    assert size(x * y) == Size(Fraction(-1, 2), Fraction(1, 4))
    assert size(x + y) == Size(Fraction(0), Fraction(1, 4))
    assert size(N * x / 3) == Size(Fraction(1), Fraction(1, 2))
    assert size(1 / x) == Size(Fraction(0), Fraction(-1, 2))
    assert size(sympy.tanh(y)) == Size(Fraction(-1, 2), Fraction(0))
    assert size(sympy.sign(x)) == Size(Fraction(0), Fraction(-1, 2))
    assert size(sympy.Integer(0)) == Size(NOTHING, NOTHING)
    assert size(y**2) == Size(Fraction(-1), Fraction(1, 2))


def test_jumps_of_scalars_of_averages_and_inside_of_sums():
    """Over a mean of neurons a jump is smooth; in a sum over tokens each neuron jumps; one number jumps or does not."""

    @tp.network
    def net(X: tp.Input["d", "token"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, s: tp.Scalar):
        β = tp.neuron("β")
        h = tp.relu(tp.sum(U * X, over="d"))
        p = W @ h
        tokens = tp.sum(tp.tanh(tp.sign(p)), over="token")
        among = tp.mean(tp.avg(tp.sign(h - h[β] / 2), over=β), over="token")
        gate = tp.sign(s + tp.avg(tp.mean(p * p, over="token")))
        return v * (tp.mean(p, over="token") + tokens.named("tokens") + among.named("among") * gate.named("gate"))

    powers = tp.classify(net.bind(token=2), tp.UP("1/4"), tp.SGD()).powers(1)
    assert (powers["p"], powers["among"]) == (-Fraction(1, 4),) * 2
    assert powers["tokens"] == powers["what v reads"] == -Fraction(1, 8)
    assert powers["gate"] <= -Fraction(1, 4)


@tp.network
def attention(ξ: tp.Input["d", "token"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, V: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    A = tp.softmax(tp.avg((Q @ x) * (K @ x).rename(token="key")), over="key")
    return tp.mean(v * tp.sum(A * (V @ x).rename(token="key"), over="key"), over="token")


@tp.network
def root_attention(ξ: tp.Input["d", "token"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    A = tp.softmax(tp.sqrt(tp.n) * tp.avg((Q @ x) * (K @ x).rename(token="key")), over="key")
    return tp.mean(v * tp.sum(A * x.rename(token="key"), over="key"), over="token")


def test_attention_over_n_is_classified_as_a_perceptron_and_over_root_n_logits_move_more():
    net, root = attention.bind(token=3), root_attention.bind(token=3)
    assert tp.classify(net, tp.MUP, tp.SignSGD()).regime == "feature"
    assert tp.classify(net, tp.NTP, tp.SGD()).regime == "operator"
    # 1/√n logits: in NTP they move by order 1, in μP by √n
    assert tp.classify(root, tp.NTP, tp.SignSGD()).regime == "feature"
    broken = tp.classify(root, tp.MUP, tp.SignSGD())
    assert broken.regime == "unstable"
    assert any("n^(1/2)" in line for line in broken.breaks)


def test_gradients_that_are_small_while_logits_vanish_are_faithful():
    """At the start logits over n are of order n^(−½), and gradients through them: no d makes them of order 1 always.

    Networks of width 64, 256, 1024 in μP by Adam change features and f by what no power of n is seen in (n^0.00 and
    n^0.03); with d of Q smaller by ½ its gradients vanish, as those of a branch over √n.
    """
    net, adam = attention.bind(token=3), tp.Adam(eps=0.1)
    assert tp.classify(net, tp.MUP, adam).regime == "feature"
    assert tp.classify(net, tp.NTP, adam).regime == tp.classify(net, tp.UP("1/4"), adam).regime == "operator"
    assert isinstance(tp.classify(net, tp.MUP, adam).limit(), tp.MaximalLimit)
    smaller = tp.classify(net, tp.ABCD({"Q": (0, "1/2", 1, "1/2")}, base=tp.MUP), adam)
    assert smaller.regime == "unfaithful" and smaller.breaks[0].startswith("Q has scaled gradients")
    larger = tp.ABCD({"Q": (0, "1/2", 1, "3/2")}, base=tp.MUP)
    assert tp.classify(net, larger, adam).regime == "unfaithful"

    @tp.network
    def branch(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * tp.tanh(x + tp.relu(W @ x) / tp.sqrt(tp.n))

    assert tp.classify(branch, tp.MUP, adam).regime == "unfaithful"


@tp.network
def biased(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector, c: tp.Scalar):
    return tp.readout(v * tp.relu(W @ tp.relu(tp.sum(U * ξ, over="d")) + b)) + 0.5 * c


def test_an_output_bias_alone_moves_the_output():
    frozen = {k: (*tuple(tp.NTP.kind(k))[:2], 5, tp.NTP.kind(k).d) for k in ("matrix", "vector", "readout")}
    found = tp.classify(biased, tp.ABCD(frozen, base=tp.NTP), tp.SignSGD())
    assert found.regime == "operator"
    assert found.powers(1)["f"] == 0
    assert tp.classify(biased, tp.MUP, tp.Adam()).regime == "feature"
    assert tp.classify(biased, tp.NTP, tp.Adam()).regime == "operator"


@tp.network
def squares(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix):
    x = tp.sum(U * ξ, over="d")
    return (W @ x) ** 2 - tp.avg(x**2)


def test_without_a_readout_a_out_takes_its_place():
    steps = Counting(squares, tp.NTP, tp.SGD()).steps
    assert steps[0].output.start == 0
    assert steps[-1].output.move == 0
    assert tp.classify(squares, tp.NTP, tp.SGD()).regime == "operator"


@pytest.mark.parametrize("table", [tp.SP, tp.NTP, tp.MUP])
def test_as_many_steps_are_told_however_soon_powers_settle(table):
    steps = Counting(squares, table, tp.SGD()).steps
    assert len(steps) == STEPS + 1


def test_rates_of_scripts_undo_the_powers_that_norms_have():
    """By its norm an update has entries of another power of n, which a table adjusted to it makes up for."""
    around = tp.Normalized(tp.SGD(), by="update")
    rows = [
        {row.name: row.lr for row in script(squares, table, optimizer)}
        for table, optimizer in ((tp.MUP.adjusted(squares, around), around), (tp.MUP, tp.SignSGD()))
    ]
    assert rows[0] == rows[1] and len(rows[0]) == 2


def scaled_attention(power):
    @tp.network
    def net(ξ: tp.Input["d", "token"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        A = tp.softmax(tp.n**power * tp.avg((Q @ x) * (K @ x).rename(token="key")), over="key")
        return tp.mean(v * tp.sum(A * x.rename(token="key"), over="key"), over="token")

    return net.bind(token=3)


@pytest.mark.parametrize("power", [Fraction(1, 4), Fraction(1, 2)])
def test_shares_are_parts_of_gradients_that_pass_an_average(power):
    """All of the gradients of Q and K pass the logits n^p·avg, nothing of v's; U's does by n^(p − 1/2) at the start."""
    passes = Counting(scaled_attention(power), tp.NTP, tp.SGD()).passes
    (logits,) = passes.fluctuating
    shares = passes.shares(logits, passes.sizes(passes.backward.program, {}, {})[0], {}, Fraction(1, 2))
    assert shares == {"U": power - Fraction(1, 2), "Q": 0, "K": 0, "v": NOTHING}


def test_perceptrons_too_deep_to_be_counted_are_refused():
    assert asked(500, tp.MUP)[0].name == "perceptron500"
    for depth in (501, 10**30):
        with pytest.raises(ProgramError, match="at most 500 hidden layers"):
            asked(depth, tp.MUP)
    for wrong in (0, True, 1.5, "net"):
        with pytest.raises(ProgramError, match="give a network, or the number of hidden layers"):
            asked(wrong, tp.MUP)
    with pytest.raises(ProgramError, match="give a parametrization"):
        asked(1, "MUP")


def test_conditions_on_one_number_are_intervals():
    a, b = sympy.symbols("a b", real=True)
    for condition, wanted in (
        ((a >= 1) & (a >= 2), sympy.Le(2, a)),
        ((a > 1) & (a < 0), False),
        ((a < 1) | (a > 0), True),
        (sympy.true, True),
        ((a > 0) & (b > 0), (a > 0) & (b > 0)),
    ):
        assert simplified(condition) == wanted


def scored(power, call=lambda s: s):
    """v x tanh(s), s = n^p ⟨Q x, K x⟩/n, with a name for s or without one."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], Q: tp.Matrix, K: tp.Matrix, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * x * tp.tanh(call(tp.n**power * tp.avg((Q @ x) * (K @ x))))

    return net


@pytest.mark.parametrize(
    ("power", "start", "regime"),
    [(0, "-1/2", "trivial"), ("1/4", "-1/4", "trivial"), ("1/2", 0, "operator"), ("3/4", 0, "unstable")],
)
def test_scores_that_grow_are_as_large_with_a_name_as_without(power, start, regime):
    """f_0 of networks of width 64 to 4096 by NumPy goes like n^-.48, n^-.17, n^.05 for the first three powers."""
    rest = {"U": tp.Frozen(), "Q": tp.Frozen(), "K": tp.Frozen(), "v": tp.SGD()}
    for call in (lambda s: s, lambda s: s.named("s"), lambda s: (2 * s.named("s")).named("t")):
        found = tp.classify(scored(Fraction(power), call), tp.NTP, rest)
        assert found.verdict.counting.start.output.start == Fraction(start)
        assert found.regime == regime
        assert (found.regime == "unstable") == any("a function of starts like n^(1/4)" in b for b in found.breaks)


@pytest.mark.parametrize(
    ("gate", "value", "moves"),
    [(tp.relu, 0, False), (tp.relu, 1, True), (tp.abs, 0, False), (lambda s: tp.leaky_relu(s, 0.1), 0, True)],
)
def test_scalars_on_a_kink_whose_slope_is_zero_there_never_move(gate, value, moves):
    """relu′(0) = 0: networks by NumPy keep s = 0, and in NTP y moves like n^(−½), with s at 1 what v reads by n^0."""

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, s: tp.Scalar = value):
        return v * tp.relu(W @ tp.sum(U * ξ, over="d")) * (1 + gate(s))

    found = tp.classify(net, tp.NTP, tp.SGD())
    assert (found.verdict.counting.rates["s"] != NOTHING) == moves
    assert found.regime == ("feature" if moves else "operator")
