"""Optimizers against loops over numbers, written out by hand in float arithmetic."""

import math

import numpy
import pytest
import sympy

import tplimits as tp
from tplimits.program.optimizers.stepping import TIME, G

GRADIENTS = numpy.random.default_rng(11).standard_normal((6, 5)) * numpy.array([1.0, 1e-4, 30.0, 0.2, 0.0])


def adam(gradients, β1, β2, eps, ahead=False):
    m = v = 0.0
    for t, g in enumerate(gradients, start=1):
        m, v = β1 * m + (1 - β1) * g, β2 * v + (1 - β2) * g * g
        mean = m / (1 - β1**t)
        if ahead:
            mean = β1 * m / (1 - β1 ** (t + 1)) + (1 - β1) * g / (1 - β1**t)
        bottom = v / (1 - β2**t) + eps**2
    return mean / math.sqrt(bottom) if bottom else 0.0


def momentum(gradients, μ):
    return sum(μ ** (len(gradients) - 1 - s) * g for s, g in enumerate(gradients))


def scheduled(gradients, β1, β2, eps):
    """NAdam as PyTorch writes it, with its momentum_decay = 0.004."""
    m = v = 0.0
    product = 1.0
    for t, g in enumerate(gradients, start=1):
        now, later = (β1 * (1 - 0.5 * 0.96 ** (0.004 * s)) for s in (t, t + 1))
        m, v, product = β1 * m + (1 - β1) * g, β2 * v + (1 - β2) * g * g, product * now
        mean = later * m / (1 - product * later) + (1 - now) * g / (1 - product)
        bottom = math.sqrt(v / (1 - β2**t)) + eps
    return mean / bottom


def rmsprop(gradients, ρ, eps):
    v = 0.0
    for g in gradients:
        v = ρ * v + (1 - ρ) * g * g
    return gradients[-1] / math.sqrt(v + eps**2)


def adagrad(gradients, eps):
    return gradients[-1] / math.sqrt(sum(g * g for g in gradients) + eps**2)


CASES = [
    pytest.param(tp.SGD(), lambda g: g[-1], id="SGD"),
    pytest.param(tp.SGD(momentum=0.9), lambda g: momentum(g, 0.9), id="momentum"),
    pytest.param(tp.SignSGD(), lambda g: float(numpy.sign(g[-1])), id="sign"),
    pytest.param(tp.SignSGD(eps=0.1), lambda g: g[-1] / math.hypot(g[-1], 0.1), id="smooth sign"),
    pytest.param(tp.Adam(), lambda g: adam(g, 0.9, 0.999, 1e-8), id="Adam"),
    pytest.param(tp.Adam(β1=0.5, β2=0.25, eps=0.05), lambda g: adam(g, 0.5, 0.25, 0.05), id="smooth Adam"),
    pytest.param(tp.NAdam(eps=0.05), lambda g: adam(g, 0.9, 0.999, 0.05, ahead=True), id="NAdam"),
    pytest.param(
        tp.NAdam(eps=0.05, convention="torch"), lambda g: scheduled(g, 0.9, 0.999, 0.05), id="NAdam with a schedule"
    ),
    pytest.param(tp.RMSProp(eps=0.01), lambda g: rmsprop(g, 0.99, 0.01), id="RMSProp"),
    pytest.param(tp.Adagrad(eps=0.01), lambda g: adagrad(g, 0.01), id="Adagrad"),
]


@pytest.mark.parametrize("optimizer, reference", CASES)
def test_steps_and_unrolled_updates_are_those_of_a_loop(optimizer, reference):
    stepper = optimizer.stepper()
    states = stepper.start((5,))
    for t, g in enumerate(GRADIENTS):
        states, q = stepper.step(t, states, g)
        expected = [reference(list(GRADIENTS[: t + 1, i])) for i in range(5)]
        numpy.testing.assert_allclose(q, expected, rtol=1e-12)
        if t < 3:
            exact = [optimizer.update([sympy.Rational(x) for x in GRADIENTS[: t + 1, i]]) for i in range(5)]
            numpy.testing.assert_allclose([float(x) for x in exact], expected, rtol=1e-12)


@pytest.mark.parametrize("optimizer, _", CASES)
def test_properties(optimizer, _):
    linear = isinstance(optimizer, tp.SGD)
    assert optimizer.is_linear == linear
    assert optimizer.sign_preserving
    assert optimizer.is_memoryless == (optimizer in (tp.SGD(), tp.SignSGD(), tp.SignSGD(eps=0.1)))
    assert optimizer.degree == (1 if linear else 0 if optimizer == tp.SignSGD() else None)


def test_coefficients_are_the_derivatives_of_the_update():
    optimizer = tp.Entrywise(
        lambda m, k, g: m + k / 3 + g,
        states={"m": lambda g, m, k, t: m / (t + 2) + g - k, "k": lambda g, k: k / 2 + g},
    )
    g = sympy.symbols("g0:5", real=True)
    for t in range(5):
        update = sympy.expand(optimizer.update(g[: t + 1]))
        assert optimizer.coefficients(t) == tuple(update.coeff(x) for x in g[: t + 1])
    with pytest.raises(tp.ProgramError, match="not linear"):
        tp.Adam().coefficients(1)


def test_a_constant_added_to_a_state_is_not_linear():
    assert not tp.Entrywise(lambda m: m, states={"m": lambda m, g: m + g}, initial={"m": 1}).is_linear
    assert not tp.Entrywise(lambda g: g + 1).is_linear
    assert not tp.Entrywise(lambda g: -(g**3)).sign_preserving


def test_time_counts_from_zero():
    stepper = tp.Entrywise(lambda g, t: g / (t + 1)).stepper()
    assert [float(stepper.step(t, (), numpy.array([6.0]))[1][0]) for t in range(3)] == [6.0, 3.0, 2.0]
    assert tp.Entrywise(lambda g, t: g / (t + 1)).update([G, G]) == G / 2
    assert TIME not in tp.Adam().update([G]).free_symbols


def test_without_eps_a_warning_names_the_hypothesis_and_zero_gradients_do_not_move():
    for make in (tp.Adam, tp.NAdam, tp.RMSProp, tp.Adagrad):
        with pytest.warns(UserWarning, match="pseudo-Lipschitz"):
            optimizer = make(eps=0)
        stepper = optimizer.stepper()
        _, q = stepper.step(0, stepper.start((2,)), numpy.array([0.0, -3.0]))
        assert q[0] == 0
        assert q[1] < 0
        assert optimizer.degree == 0
    assert "jumps at 0" in tp.SignSGD().lost_hypothesis
    assert tp.SignSGD(eps=1).lost_hypothesis is None


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: tp.SGD(momentum=1), "below 1"),
        (lambda: tp.SGD(momentum=-0.1), "0 or more"),
        (lambda: tp.Adam(β1=1), "below 1"),
        (lambda: tp.Adam(eps=-1), "0 or more"),
        (lambda: tp.Adam(eps="tiny"), "finite number"),
        (lambda: tp.SignSGD(eps=float("nan")), "finite number"),
        (lambda: tp.Entrywise(lambda x: x), "argument `x`"),
        (lambda: tp.Entrywise(3), "give a function"),
        (lambda: tp.Entrywise(lambda g: "g"), "gives 'g'"),
        (lambda: tp.Entrywise(lambda g: sympy.Symbol("a") * g), "no value"),
        (lambda: tp.Entrywise(lambda g: g, states={"t": lambda g: g}), "other than g and t"),
        (lambda: tp.Entrywise(lambda g: g, initial={"m": 1}), "no such state"),
        (lambda: tp.Entrywise(lambda g: sympy.I * g), "no real number at g = 5/7"),
        (lambda: tp.Entrywise(lambda g: tp.sqrt(g)), "no real number at g = -5/7"),
        (lambda: tp.Entrywise(lambda m: m, states={"m": lambda g, m: m + sympy.log(g)}), "no real number"),
        (lambda: tp.Entrywise(lambda g: numpy.tanh(g)), "such as tp.tanh in place of numpy.tanh"),
        (lambda: tp.Entrywise(lambda g: math.tanh(g)), "such as tp.tanh in place of numpy.tanh"),
        (lambda: tp.Entrywise(lambda g: g if g > 0 else 0), "tp.where in place of if"),
        (lambda: tp.SGD().update([]), "at least one step"),
    ],
)
def test_what_is_no_optimizer_is_refused(make, message):
    with pytest.raises(tp.ProgramError, match=message):
        make()


def test_optimizers_are_values():
    assert tp.Adam() == tp.Adam(β1=0.9)
    assert hash(tp.Adam()) == hash(tp.Adam(β1=0.9))
    assert repr(tp.SGD(momentum=0.5)) == "SGD(momentum=0.5)"
    assert repr(tp.Entrywise(lambda m: m, states={"m": lambda g, m: m + g})) == "Entrywise(Q = m, m ← g + m)"
    starting = tp.Entrywise(lambda m: m, states={"m": lambda g, m: m + g}, initial={"m": 2})
    assert repr(starting) == "Entrywise(Q = m, m ← g + m, m = 2 at the start)"


@pytest.mark.parametrize(
    "function, lost",
    [
        (lambda g: 1 / g, "not bounded where gradients vanish"),
        (lambda g: abs(g) ** sympy.Rational(-1, 4), "not bounded where gradients vanish"),
        (lambda g: tp.sign(g), "jumps, or has no bounded slope"),
        (lambda g: sympy.sqrt(abs(g)), "jumps, or has no bounded slope"),
        (lambda g: tp.where(g, tp.tanh(1 / g), 0), "jumps, or has no bounded slope"),
        (lambda g: sympy.exp(-g), "faster than any polynomial"),
    ],
)
def test_updates_that_are_not_pseudo_lipschitz_are_remarked(function, lost):
    with pytest.warns(UserWarning, match=lost) as told:
        optimizer = tp.Entrywise(function)
    assert told[0].filename == __file__
    assert lost in optimizer.lost_hypothesis
    assert optimizer.has_pole == ("bounded where" in lost)


@pytest.mark.parametrize(
    "function",
    [
        lambda g: g,
        lambda g: g**9 + 3,
        lambda g: abs(g),
        lambda g: tp.relu(g),
        lambda g: tp.tanh(1000 * g),
        lambda g: g / sympy.sqrt(g**2 + sympy.Rational(1, 10**16)),
        lambda g: tp.maximum(-1, tp.minimum(1, g)),
        lambda g, t: g / (t + 1),
        lambda g: tp.gelu(g) * tp.sigmoid(g),
        lambda g: sympy.sin(g) * sympy.exp(-(g**2)),
    ],
)
def test_updates_that_are_pseudo_lipschitz_are_not(function):
    optimizer = tp.Entrywise(function)
    assert optimizer.lost_hypothesis is None and not optimizer.has_pole


@pytest.mark.parametrize(
    ("optimizer", "divides"),
    [
        (lambda: tp.SGD(), False),
        (lambda: tp.Adam(), False),
        (lambda: tp.Normalized(tp.SGD()), True),
        (lambda: tp.Normalized(tp.SGD(), by="weight"), True),
        (lambda: tp.Clipped(tp.SGD(), 0.5), True),
        (lambda: tp.Clipped(tp.SGD(), 0.5, of="gradient"), False),
        (lambda: tp.Clipped(tp.SGD(), 0.5, "printed", of="gradient"), True),
        (lambda: tp.Adafactor(eps=0.05), False),
    ],
)
def test_norms_that_may_vanish_are_divided_by(optimizer, divides):
    """The usual clipping of gradients divides by a maximum with a positive threshold."""
    assert optimizer().may_vanish is divides


@pytest.mark.parametrize(
    ("update", "bounded", "keeps_signs"),
    [
        (lambda g: tp.sign(g) * tp.log(1 + tp.abs(g)), False, True),
        (lambda g: g / (1 + g * g) ** sympy.Rational(7, 16), False, True),
        (lambda g: g / tp.sqrt(1 + g * g), True, True),
        (lambda g: tp.sin(g), True, False),
        (lambda g: tp.relu(g), False, False),
        (lambda g: tp.clip(g, -1e30, 1e30), True, True),
    ],
    ids=["logarithm", "small power", "sigmoid", "sine", "relu", "clipped"],
)
def test_what_grows_slowly_is_unbounded_and_what_is_tiny_has_a_sign(update, bounded, keeps_signs):
    optimizer = tp.Entrywise(update)
    assert (optimizer.is_bounded, optimizer.sign_preserving) == (bounded, keeps_signs)


@pytest.mark.parametrize("name", ["g", "m", "v", "p", "μ"])
def test_symbols_of_hyperparameters_are_no_gradients_and_no_states(name):
    symbol = sympy.Symbol(name, real=True)
    assert sympy.expand(tp.SGD(momentum=symbol).update([2, 3]) - (2 * symbol + 3)) == 0
    first = tp.Adam(β1=0, β2=0, eps=symbol).update([2, 3])
    assert float(abs(first - 3 / sympy.sqrt(9 + symbol**2)).subs(symbol, 0.5)) < 1e-12
