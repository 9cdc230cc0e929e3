"""Bounds of rounding beside what many digits say."""

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.errors import EvaluationError
from tplimits.program.nodes import functions
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.running_errors import RunningErrors, mean_of_errors, samples

x, y = sympy.symbols("x y", real=True)
POINTS = np.linspace(-3.3, 3.1, 41)
WEIGHTS = np.full(41, 1 / 41)


@pytest.mark.parametrize(
    "body",
    [
        1 - sympy.tanh(5 * x) ** 2,
        10**20 * (sympy.exp(x / 10**9) - 1),
        sympy.sqrt(x**2 + 1) - functions.relu(x) - functions.relu(-x),
        (1 - sympy.cos(x / 1000)) * sympy.exp(9 * x),
        sympy.sin(30 * x) ** 2 + sympy.cos(30 * x) ** 2 - 1,
        1 / (2 - sympy.erf(x) - sympy.Rational(999999999, 10**9)),
        functions.gelu(x) - x + functions.maximum(x, 1) - functions.softplus(x),
    ],
)
def test_values_are_within_their_bounds(body):
    value, bound = RunningErrors({x: POINTS}, WEIGHTS, evaluate).of(body)
    exact = np.array(
        [float(functions.elementary(body).xreplace({x: sympy.Rational(t)}).evalf(30, maxn=500)) for t in POINTS]
    )
    assert (abs(value - exact) <= bound).all()
    # and no more than some roundings of the largest terms
    assert (bound <= 1e3 * abs(value - exact).max() + 1e-13 * abs(value)).all()


def test_jumps_that_rounding_decides_are_not_known():
    errors = RunningErrors({x: POINTS}, WEIGHTS, evaluate)
    lost = 1 - sympy.tanh(30 * x) ** 2 - sympy.Rational(1, 10**20)
    _, bound = errors.of(3 * functions.step(lost))
    # three for all |x| > 0.62, nothing where the sum has digits
    assert (bound[abs(POINTS) > 0.65] == pytest.approx(3)) and (bound[abs(POINTS) < 0.5] < 1e-10).all()
    assert errors.undecided.keys() == {lost}


def test_what_is_nothing_has_a_sign():
    errors = RunningErrors({x: POINTS}, WEIGHTS, evaluate)
    nothing = functions.relu(x) - x - functions.relu(-x)
    assert errors.of(sympy.sign(nothing) + functions.step(nothing))[1].max() < 1e-14
    assert not errors.undecided
    # x itself is exact: no bound, and no question
    assert errors.of(functions.step(x))[1].max() < 1e-15


def test_a_branch_that_is_not_chosen_counts_for_nothing():
    body = functions.where(x, 1, functions.step(sympy.exp(-30 * functions.relu(x)) + 1 - 1 / (1 + sympy.exp(-99 * x))))
    x_, weights = samples(1, 256)
    assert mean_of_errors(body, {x: x_[..., 0]}, weights, 1.0, evaluate) == 0


def test_errors_tell_what_rounding_leaves_open():
    """E(1 − tanh(3x) erf(x)) step(…) = E(1 − tanh(3x) erf x): beyond |x| = 6 a double does not see it."""

    def program(x: tp.Vector):
        return tp.avg(tp.step(1 - tp.tanh(3 * x) * tp.erf(x)))

    found = tp.derive(tp.program(program)).evaluate()["return"]
    assert abs(found.value - 1) <= found.error < 1e-7


def test_what_is_rounding_alone_has_no_number_of_particles():
    """E 10³⁰ (√(1 + x²/10⁴⁰) − 1) = 5·10⁻¹¹, 0 ± 10⁻¹⁴ by particles: no two of them differ."""

    def program(x: tp.Vector):
        return tp.avg(1e30 * tp.abs(tp.sqrt(1 + 1e-40 * x * x) - 1))

    limit = tp.derive(tp.program(program))
    found = limit.evaluate()["return"]
    assert abs(found.value - 5e-11) <= found.error
    with pytest.raises(EvaluationError, match="double precision leaves rounding alone"):
        limit.evaluate(method="particles")


def test_particles_of_nothing_are_nothing():
    def program(x: tp.Vector):
        return tp.avg(tp.abs(tp.relu(x) - x - tp.relu(-x)))

    assert tp.derive(tp.program(program)).evaluate(method="particles")["return"].value == 0


def test_training_on_what_is_rounded_away_is_refused():
    """10¹⁴ log(1 + s/10¹⁴) is s: in double precision 0.998 s, the same in all replicates."""

    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        h = W @ tp.sum(U * ξ, over="d")
        return v * h * 1e14 * tp.log(1 + 1e-14 * tp.avg(h * h))

    limit = tp.derive(tp.network(network), tp.MaximalUpdate(dict.fromkeys("UW", tp.Frozen()) | {"v": tp.SGD()}))
    asked = {"error": tp.squared_error([1.0]), "lr": 1.0, "steps": 1, "particles": 256, "replicates": 2}
    with pytest.raises(EvaluationError, match="double precision leaves rounding alone"):
        limit.evaluate([[0.6, 0.8]], **asked)
