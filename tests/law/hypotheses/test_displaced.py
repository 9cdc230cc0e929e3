"""Powers of n that vanish, which displace what a pole reads."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import sympy
from sympy import Rational, Symbol

import tplimits as tp
from tplimits.law.hypotheses.displaced import Surroundings, _Displacement, shifts
from tplimits.program.nodes.entries import NO_NEURON, OWN, Entry, entries, width_symbol

x = Symbol("x", real=True)
n = width_symbol("n")
ROOT, WHOLE = n ** Rational(-1, 2), 1 / n


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (x + 1, ()),
        (x + ROOT, (ROOT,)),
        (1 / (x + 3 * ROOT) - WHOLE * x, (ROOT, WHOLE)),
        (x * sympy.sqrt(n), ()),
        (x / (1 + sympy.sqrt(n)), ()),
        (x + ROOT + n, ()),  # n itself does not vanish
        (x + ROOT + sympy.tanh(n), ()),
        (x + n**x, ()),
    ],
    ids=str,
)
def test_powers_of_the_width_that_vanish(body, found):
    assert set(shifts(body)) == set(found)


LOG = math.log(2)


def _norm(a, b):
    return tp.sqrt(a**2 + b**2)


def _kept_off(c):
    """E (c² + h²)^(−½)."""
    return math.exp(c**2 / 4) * scipy.special.k0(c**2 / 4) / (2 * math.pi) ** 0.5


def limit_of(function):
    """avg f(h, s, x) with h = W x and s = avg(x h), which tends to 0."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        return tp.avg(function(h, tp.avg(x * h), x))

    return tp.derive(program)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda h, s, x: 1 / (tp.exp(h) + s), math.exp(0.5)),  # kept off zero by more than s moves
        (lambda h, s, x: 1 / (tp.exp(h) + s**2), math.exp(0.5)),
        (lambda h, s, x: (tp.tanh(x * s - 0.7) ** 2 + h**2) ** -0.5, _kept_off(math.tanh(0.7))),  # x s = .7 is far out
        (lambda h, s, x: h * h / (h * h + s * s), 1),  # at most 1 at every width
        (lambda h, s, x: h * h / (h * h + s**4 * x * x), 1),
        (lambda h, s, x: h * h / (h * h + tp.exp(x) + s), "number"),
        # on a plane at every s, whatever its place
        (lambda h, s, x: (h**2 + (x - s) ** 2) ** -0.25, 2**-0.25 * math.gamma(0.75)),
        # at most |q| at every width, and q has a pole of its own
        (lambda h, s, x: (lambda q: q * tp.erf(q * s) / tp.sqrt(q**2 + tp.erf(q * s) ** 2))(h * x / _norm(h, x)), 0),
        (lambda h, s, x: (lambda q: q**2 / (q**2 + (q * tp.softplus(s)) ** 2))(x / (1 + h**2)), 1 / (1 + LOG**2)),
    ],
)
def test_poles_that_scalars_do_not_reach_are_none(function, expected):
    number = limit_of(function).evaluate()["return"]
    assert number.value == pytest.approx(expected if expected != "number" else _beside_exponential(), rel=1e-9)


def _beside_exponential():
    line = np.linspace(-12, 12, 2401)
    density = np.exp(-(line**2) / 2) / (2 * np.pi) ** 0.5 * (line[1] - line[0])
    return float(density @ (line**2 / (line**2 + np.exp(line[:, None]))).T @ density)


@pytest.mark.parametrize(
    "function",
    [
        lambda h, s, x: h * h / (h * h + s),  # of either sign
        lambda h, s, x: h / (h * h + s) * h,
        lambda h, s, x: tp.tanh(h + s) / h,
        lambda h, s, x: tp.sin(h * (1 + s)) / (h + s * x),
        lambda h, s, x: (1 / tp.sqrt(h**2 + s**2) - h**2 / tp.sqrt(h**2 + s**2) ** 3) ** 2,  # its mean is 1/|s|
        lambda h, s, x: (1 / (tp.abs(h) + tp.abs(s)) - tp.abs(h) / (tp.abs(h) + tp.abs(s)) ** 2) ** 2,
    ],
)
def test_poles_that_are_removable_at_the_limit_alone_are_doubted(function):
    with pytest.raises(tp.EvaluationError, match=r"moment not established: .* the pole where .* is 0"):
        limit_of(function).evaluate()


@pytest.mark.parametrize(
    ("argument", "orders"),
    [
        (lambda h, s, x: h * h + s * s, (2,)),
        (lambda h, s, x: h + s, (1,)),
        (lambda h, s, x: h * h - 3 * s**4, (4,)),
        (lambda h, s, x: h**2 + abs(s) ** Rational(1, 2), (Rational(1, 2),)),
        (lambda h, s, x: h + s * x, (1, 2)),  # seen beside vectors only
        (lambda h, s, x: h + tp.tanh(x), ()),
    ],
)
def test_orders_by_which_what_is_divided_by_moves(argument, orders):
    limit = limit_of(argument)
    *_, asked, _ = limit.program
    assert tuple(limit.state.around._orders(asked.body)) == orders


@pytest.mark.parametrize(
    ("argument", "whole", "units"),
    [
        (lambda h, s, x: h * h + s * s, lambda a: 1 / a, (2.0,)),  # √(h²) at h = 2
        (lambda h, s, x: h + s, lambda a: 1 / a, (2.0,)),
        (lambda h, s, x: h + s, lambda a: 1 / sympy.Abs(a), (2.0,)),
        (lambda h, s, x: h * h + s**4, lambda a: 1 / a, (2**0.5,)),
        (lambda h, s, x: 3 * h + x * s, lambda a: 1 / a, (6.0, 6**0.5)),
        (lambda h, s, x: h + s, sympy.log, ()),
        (lambda h, s, x: tp.exp(h) + s, lambda a: 1 / a, ()),  # comes not near 0
        (lambda h, s, x: h + s, lambda a: 1 / entries(a)[0], ()),  # a multiple of itself
    ],
)
def test_scalars_are_displaced_by_what_is_as_small_as_what_is_divided_by(argument, whole, units):
    limit = limit_of(argument)
    *_, asked, _ = limit.program
    found = [d.unit for d in limit.state.around._as_small(whole(asked.body))]
    assert [float(u.xreplace({a: sympy.S(2) for a in entries(u)})) for u in found] == pytest.approx(list(units))


def test_vectors_come_near_to_zero_and_scalars_alone_do_not():
    for argument, near in ((lambda h, s, x: h + s, True), (lambda h, s, x: tp.exp(h) + s, False)):
        limit = limit_of(argument)
        *_, asked, _ = limit.program
        (scalar,) = (e for e in entries(asked.body) if e.neuron == NO_NEURON)
        assert limit.state.around._comes_near(asked.body) is near
        assert not limit.state.around._comes_near(scalar)


@tp.program
def images(W: tp.Matrix, V: tp.Matrix, x: tp.Vector):
    """s → 0 and c → 1 move, W x and what is made of it stands still."""
    h = W @ x
    s, c = tp.avg(x * h), tp.avg(x * x)
    return V @ (c**2 * x), V @ (s * x), V @ (x + s * h), V @ (c * s * x), V @ x, V @ tp.tanh(h)


@pytest.mark.parametrize("signs", [(1, 1), (-1, -1), (1, -1)])
@pytest.mark.parametrize("unit", [sympy.S.One, Rational(1, 8)])
def test_images_move_with_what_they_are_images_of(signs, unit):
    """V (c y) = c V y where c is not 0, and whatever stands beside V y elsewhere; multiples of a unit leave c alone."""
    limit = tp.derive(images)
    place = {s.name: i for i, s in enumerate(limit.program)}
    turn = _Displacement(limit.state.around, signs, unit)
    s, c, *returned = (
        Entry(sympy.Integer(place[name]), NO_NEURON if name in "sc" else OWN)
        for name in ("s", "c", *(f"return[{i}]" for i in range(6)))
    )
    first, second = (turn.entry(e) for e in (s, c))
    assert first - s == signs[0] * Rational(1223, 10**7) * unit  # the 200th prime
    times = 1 + signs[1] * Rational(1229, 10**7) if unit == 1 else 1
    assert sympy.expand(second - times * c) == 0
    of_c, *others = (turn.entry(e) for e in returned)
    assert sympy.simplify(of_c / returned[0] - times**2) == 0
    moves = [sympy.expand(moved - e) for moved, e in zip(others, returned[1:], strict=True)]
    assert all(m.is_number for m in moves) and moves[3:] == [0, 0]
    sizes = [m / unit for m in moves[:3]]
    assert len({abs(m) for m in (*sizes, Rational(1223, 10**7))}) == 4, "each by a number of its own"
    assert all(1e-4 < abs(m) < 1.3e-4 for m in sizes)


@pytest.mark.parametrize(("power", "alone", "beside"), [(-1, False, True), (-2, False, True), (-0.5, True, True)])
def test_shifts_larger_than_what_is_nearest_to_a_pole_move_alone(power, alone, beside):
    """Of n entries the nearest to 0 is at 1/n: n^(−1/2) moves, 1/n only where displacements are that small."""
    around = tp.derive(images).state.around
    body = x + n ** Rational(power)
    for unit, moves in ((sympy.S.One, alone), (Rational(1, 8), beside)):
        moved = _Displacement(around, (-1, -1), unit).body(body)
        assert (moved != body) is moves
        assert not moves or moved - x == Rational(1223, 10**7) * unit * (1 if unit == 1 else -1)


def test_poles_that_read_scalars_alone_ask_for_no_limits():
    """In deep programs the numbers of limits take longer than all else; a pole beside a vector asks."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        s = tp.avg(h * x)
        return tp.avg(h / tp.sqrt(tp.avg(h * h) + s + 1)), tp.avg(x / (h + s))

    asked = []
    around = Surroundings(
        program, lambda e: asked.append(e) or sympy.S.Zero, lambda e: e, lambda e: False, lambda e: False
    )
    alone, beside = (program[program[k].operand.source].body for k in program.returns)
    assert not around.is_polar(alone) and not asked
    assert around.is_polar(beside) and asked


def _squares(x, y):
    """avg x² − 1, which is 0 at inputs of length 1 and on either side of it at finite width."""
    return tp.avg(x * x) - 1


def _quotients(x, y):
    """avg x²/(1 + x²) + avg 1/(1 + y²) − 1, a zero without closed form whose digits are not 0."""
    return tp.avg(x * x / (1 + x * x)) + tp.avg(1 / (1 + y * y)) - 1


def _kernel_of(body, zero):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], Y: tp.Vector["d"], v: tp.Vector):
        x, y = tp.sum(U * ξ, over="d"), tp.sum(Y * ξ, over="d")
        return v * body(x, zero(x, y))

    return tp.derive(network, tp.Kernels(train=("v",)))


@pytest.mark.parametrize("zero", [_squares, _quotients])
@pytest.mark.parametrize("body", [lambda x, s: x / (x * x + s), lambda x, s: x * x / (x * x + s)], ids=["1/x", "1"])
def test_means_of_what_is_never_negative_lie_on_either_side_of_their_limits(body, zero):
    """Where s < 0 the square has a pole, and s has either sign: 6e7 ± 4e-4 and 1 ± 4e-15 were given for it."""
    with pytest.raises(tp.EvaluationError, match=r"moves at finite width|no finite second moment"):
        _kernel_of(body, zero).evaluate([[0.6, 0.8]])


def test_a_divisor_that_means_keep_off_zero_is_none_to_doubt():
    nngp = _kernel_of(lambda x, s: x * x / (x * x + s), _squares).evaluate([[math.sqrt(1.5)]]).nngp.item()
    right, error = scipy.integrate.quad(
        lambda g: (1.5 * g * g / (1.5 * g * g + 0.5)) ** 2 * math.exp(-g * g / 2) / math.sqrt(2 * math.pi), -9, 9
    )
    assert abs(nngp - right) < 1e-9 + error
