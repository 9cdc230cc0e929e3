"""Functions of scalars near the limits of these, beside networks in NumPy and the coordinate check."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import NO_NEURON, Entry
from tplimits.regimes.classification.derivation.near_limits import without_poles
from tplimits.regimes.classification.derivation.sizes import HALF, NOTHING, Size, size_of

avg = tp.avg
#: of a scalar s = ⟨x y⟩ → 0, or q = ⟨y²⟩ → 1: (function of x and y, whether it has a limit that is not 0)
SCALARS = {
    "a logarithm at 1": (lambda x, y: tp.log(avg(y * y)), False),
    "below a bend": (lambda x, y: tp.relu(avg(y * y) - 2), False),
    "below a jump": (lambda x, y: tp.step(avg(y * y) - 2), False),
    "beyond a clamp": (lambda x, y: tp.clip(avg(y * y) - 3, -1, 1) + 1, False),
    "the other alternative": (lambda x, y: tp.where(avg(y * y) - 2, 1, avg(x * y)), False),
    "below a jump, times n": (lambda x, y: tp.step(tp.n * (avg(y * y) - 2)), False),
    "above a jump": (lambda x, y: tp.step(avg(y * y) - 0.5), True),
    "a sign of √n": (lambda x, y: tp.sign(tp.sqrt(tp.n) * avg(y * y)), True),
    "a sign of −n": (lambda x, y: tp.sign(tp.n * (avg(y * y) - 2)), True),
    "sin s / s": (lambda x, y: tp.sin(avg(x * y)) / avg(x * y), True),
    "tanh s / s": (lambda x, y: tp.tanh(avg(x * y)) / avg(x * y), True),
    "(exp s − 1)/s": (lambda x, y: (tp.exp(avg(x * y)) - 1) / avg(x * y), True),
    "(1 − cos s)/s²": (lambda x, y: (1 - tp.cos(avg(x * y))) / avg(x * y) ** 2, True),
    "log(1 + s²)": (lambda x, y: tp.log(1 + avg(x * y) ** 2), False),
    "(1 − cos s)/s": (lambda x, y: (1 - tp.cos(avg(x * y))) / avg(x * y), False),
}


def network(gate):
    @tp.network
    def gated(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * x * gate(x, y)

    return gated


@pytest.mark.parametrize("case", SCALARS)
@pytest.mark.parametrize(("parametrization", "regime"), [(tp.NTP, "operator"), (tp.MUP, "feature")])
def test_powers_are_counted_where_scalars_have_their_limits(case, parametrization, regime):
    gate, stays = SCALARS[case]
    assert tp.classify(network(gate), parametrization, tp.SGD()).regime == (regime if stays else "trivial")


@pytest.mark.parametrize("case", ["a logarithm at 1", "below a bend", "a sign of √n"])
def test_finite_networks_agree(case):
    gate, stays = SCALARS[case]
    found = tp.classify(network(gate), tp.NTP, tp.SGD())
    check = found.check((64, 128, 256), seed=1)
    assert check.agrees
    assert check.counted_regime == check.measured_regime == found.regime == ("operator" if stays else "trivial")


def test_what_may_cross_its_bend_in_training_is_counted():
    """relu(q − 2) with q → 1 is 0 at the start, and as long as q moves by less than order 1."""
    q = Entry(sympy.Integer(0), NO_NEURON)

    def size(move):
        return size_of(functions.relu(q - 2), lambda e: Size(Fraction(0), move), frozenset(), limits={q: sympy.S.One})

    assert (size(-HALF).start, size(-HALF).change) == (NOTHING, NOTHING)
    assert (size(Fraction(0)).start, size(Fraction(0)).change) == (NOTHING, 0)


def changes(n, seed):
    """The rms change of U in five steps of μP of v x sin(s)/s, s = ⟨x y⟩, at one input."""
    generator = np.random.default_rng(seed)
    U, y, v = generator.normal(size=(3, n))
    start = U.copy()
    for _ in range(5):
        s = np.mean(U * y)
        gate, slope = np.sinc(s / np.pi), (s * np.cos(s) - np.sin(s)) / s**2
        error = np.mean(v * U) * gate - 1
        through = np.mean(v * U) * slope
        U, y, v = (
            U - 0.3 * error * (v * gate + through * y),
            y - 0.3 * error * through * U,
            v - 0.3 * error * U * gate,
        )
    return np.sqrt(np.mean((U - start) ** 2))


def test_networks_with_a_removable_pole_move_by_order_one():
    sizes = [np.mean([changes(n, seed) for seed in range(40)]) for n in (64, 1024)]
    assert abs(np.log2(sizes[1] / sizes[0]) / 4) < 0.05  # n^(1/2) had been counted
    found = tp.classify(network(SCALARS["sin s / s"][0]), tp.MUP, tp.SGD())
    assert found.powers(5)["x"] == 0


def test_a_logarithm_of_what_powers_of_n_make_of_order_one_is_of_order_one():
    """log(1 + n s²) with s = ⟨x y⟩ is log(1 + S²); of log q with q = ⟨y²⟩ → 1, n^(−1/2) is left."""
    sizes = []
    for gate in (lambda x, y: tp.log(1 + tp.n * avg(x * y) ** 2), lambda x, y: tp.log(avg(y * y))):
        counting = tp.classify(network(gate), tp.NTP, tp.SGD()).verdict.counting
        sizes.append(counting.start.sizes[counting.network.returns[0]].start)
    assert sizes == [0, -HALF]


def test_a_gate_that_is_shut_in_half_of_networks_has_the_size_of_the_others():
    """relu(⟨y²⟩ − 1) is 0 or of order n^(−1/2), either in half of networks: they had been measured as unstable."""
    found = tp.classify(network(lambda x, y: 1 / tp.sqrt(tp.n) + tp.relu(avg(y * y) - 1)), tp.NTP, tp.SGD())
    shut = tp.classify(network(lambda x, y: tp.relu(avg(y * y) - 1)), tp.NTP, tp.SGD())
    assert shut.regime == "trivial"
    for seed in (1, 2, 3):
        check = shut.check((32, 64, 128), seed=seed)
        assert check.measured_regime != "unstable" and not [row for row in check.apart if row.t == 0]
    assert found.check((32, 64, 128), seed=1).measured_regime != "unstable"


ROOT, SMALL = tp.sqrt(tp.n), tp.n ** sympy.Rational(-1, 4)
#: functions of q = ⟨y²⟩ → 1, which is off by √(2/n): in networks and in NumPy, and the power of n of their size
GATES = {
    "relu(q − 1 − 2/√n)": (lambda q: tp.relu(q - 1 - 2 / ROOT), lambda q, r: relu(q - 1 - 2 / r), -0.5),
    "relu(1 − q − 2/√n)": (lambda q: tp.relu(1 - q - 2 / ROOT), lambda q, r: relu(1 - q - 2 / r), -0.5),
    "relu(q − 1 + n^−¼)": (lambda q: tp.relu(q - 1 + SMALL), lambda q, r: relu(q - 1 + r**-0.5), -0.25),
    "relu(q − 1 − n^−¼)": (lambda q: tp.relu(q - 1 - SMALL), lambda q, r: relu(q - 1 - r**-0.5), None),
    "relu(√n (q − 1) − 2)": (lambda q: tp.relu(ROOT * (q - 1) - 2), lambda q, r: relu(r * (q - 1) - 2), 0),
    "relu(log q − 2/√n)": (lambda q: tp.relu(tp.log(q) - 2 / ROOT), lambda q, r: relu(np.log(q) - 2 / r), -0.5),
    "max(q, 1 + 2/√n) − 1": (lambda q: tp.maximum(q, 1 + 2 / ROOT) - 1, lambda q, r: np.maximum(q - 1, 2 / r), -0.5),
    "max(q, c) − c": (
        lambda q: tp.maximum(q, 1 + 2 / ROOT) - 1 - 2 / ROOT,
        lambda q, r: relu(q - 1 - 2 / r),
        -0.5,
    ),
    "clip(q − c, 0, 1)": (lambda q: tp.clip(q - 1 - 2 / ROOT, 0, 1), lambda q, r: relu(q - 1 - 2 / r), -0.5),
    "where(q > c, 1, 0)": (lambda q: tp.where(q - 1 - 2 / ROOT, 1, 0), lambda q, r: q > 1 + 2 / r, 0),
    "sign(q − 1 − 2/√n)": (lambda q: tp.sign(q - 1 - 2 / ROOT), lambda q, r: np.sign(q - 1 - 2 / r), 0),
    "step(q − 1 − n^−¼)": (lambda q: tp.step(q - 1 - SMALL), lambda q, r: q > 1 + r**-0.5, None),
}


def relu(x):
    return np.maximum(x, 0)


@pytest.mark.parametrize("case", GATES)
def test_constants_as_small_as_fluctuations_are_on_neither_side(case):
    """⟨y²⟩ is a χ² variable over n: sizes of functions of it are drawn at any width."""
    gate, plain, power = GATES[case]
    counting = tp.classify(network(lambda x, y: gate(avg(y * y))), tp.NTP, tp.SGD()).verdict.counting
    counted = counting.start.sizes[counting.network.returns[0]].start
    rng = np.random.default_rng(5)
    sizes = [np.sqrt(np.mean(np.square(plain(rng.chisquare(n, 20000) / n, n**0.5) * 1.0))) for n in (10**6, 10**8)]
    assert counted == (NOTHING if power is None else power)
    if power is None:
        assert sizes == [0, 0]
    else:
        # a share of one in thirteen of 20000 draws: 2 % of error, and powers are a quarter apart
        assert abs(np.log10(sizes[1] / sizes[0]) / 2 - power) < 0.05


def test_the_largest_power_beside_a_named_scalar_is_asked():
    """relu(m − 2) with the name m = √n (q − 1) is of order 1, as without a name: it had been 0 for m → 0."""
    named = network(lambda x, y: tp.relu((ROOT * (avg(y * y) - 1)).named("m") - 2))
    counting = tp.classify(named, tp.NTP, tp.SGD()).verdict.counting
    assert counting.start.sizes[counting.network.returns[0]].start == 0


T = sympy.Symbol("t", real=True)


@pytest.mark.parametrize(
    "function",
    [
        1 / sympy.sinh(T) ** 2 - 1 / T**2,
        T**2 / sympy.sin(T) ** 2,
        (sympy.sqrt(1 + T) - 1) / sympy.tanh(T),
        (sympy.exp(T) - 1) ** 2 / (T * sympy.log(1 + T)),
    ],
    ids=str,
)
def test_coefficients_at_removable_poles_are_those_of_the_series(function):
    s = Entry(sympy.Integer(0), sympy.Symbol("·"))
    found = without_poles(function.xreplace({T: s}), frozenset([s]))
    truth = sympy.series(function, T, 0, 5).removeO()
    assert sympy.expand(found.xreplace({s: T}) - truth) == 0


def flips(gate, n, draws=4000):
    """The share of networks v x (2 + sign a) in NTP in which a, of order n^(−1/2), changes its sign in five steps."""
    generator = np.random.default_rng(n)
    U, y, v = generator.normal(size=(3, draws, n))
    start = np.sign(gate(U, y, v))
    for _ in range(5):
        height = (2 + np.sign(gate(U, y, v)))[:, None]
        error = np.sum(v * U * height, 1, keepdims=True) / np.sqrt(n) - 3
        U, v = U - 0.02 * error * v * height / np.sqrt(n), v - 0.02 * error * U * height / np.sqrt(n)
    return np.mean(np.sign(gate(U, y, v)) != start)


#: averages at whose zero a gate jumps, whose changes in training are or are not those of gradients through them
JUMPED = {
    "of what is not trained": (lambda x, y, v: avg(x * y), lambda x, y, v: np.mean(x * y, 1), "operator"),
    "of the readout": (lambda x, y, v: avg(x * v), lambda x, y, v: np.mean(x * v, 1), "feature"),
}


@pytest.mark.parametrize("power", [0, 1])
@pytest.mark.parametrize("case", JUMPED)
def test_a_jump_at_a_fluctuation_is_crossed_where_training_is_aligned_with_it(case, power):
    """sign(√n a) is sign(a): no gradient goes through a jump, and what is independent of a moves it by n^(−1)."""
    gate, measured, regime = JUMPED[case]

    @tp.network
    def jumping(ξ: tp.Input["d"], U: tp.Vector["d"], y: tp.Vector, v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * x * (2 + tp.sign(tp.sqrt(tp.n) ** power * gate(x, y, v)))

    assert tp.classify(jumping, tp.NTP, tp.SGD()).regime == regime
    narrow, wide = (flips(measured, n) for n in (32, 512))
    # n^(−1/2) is a fourth here; what is of order one stays
    assert (wide < 0.5 * narrow) == (regime == "operator")
    assert (wide > 0.8 * narrow) == (regime == "feature")
