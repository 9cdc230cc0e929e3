"""Told errors of what is made of zeros in disguise: their intervals go through |·|, maxima and means."""

import math

import mpmath
import pytest

import tplimits as tp

avg = tp.avg


def nought(h):
    """E h tanh h − E tanh′(h)·E h² = 0 by Stein's lemma; ±10⁻¹⁵ by quadrature."""
    return avg(h * tp.tanh(h)) - avg(1 - tp.tanh(h) ** 2) * avg(h * h)


CASES = {
    "modulus of a vector": lambda x, h: avg(tp.abs(x * nought(h))),
    "kink of a vector": lambda x, h: avg(tp.relu(x * nought(h)) * tp.relu(x)),
    "square of a vector": lambda x, h: avg(tp.sqrt((x * nought(h)) ** 2)),
    "an image": lambda x, h: avg(tp.abs(h * nought(h) + x * nought(x))),
    "a maximum": lambda x, h: avg(tp.maximum(nought(h) * x, -nought(h) * x)),
    "a modulus": lambda x, h: tp.abs(nought(h)),
    "a maximum of scalars": lambda x, h: tp.maximum(nought(h), 0),
    "beside a scalar": lambda x, h: avg(x * x * tp.abs(nought(h))),
    "magnified": lambda x, h: 1e14 * avg(tp.abs(x * nought(h))),
}


@pytest.mark.parametrize("case", CASES)
def test_zero_is_within_the_error(case):
    def program(W: tp.Matrix, x: tp.Vector):
        return CASES[case](x, W @ x)

    found = tp.derive(tp.program(program)).evaluate()["return"]
    assert abs(found.value) <= found.error < 1e-13 * (1e14 if case == "magnified" else 1)


def test_a_maximum_may_move_up_alone():
    """max(A − B, 0) of A = B is told to be up to the error of A − B, on whichever side its value falls."""

    def number(f):
        def program(W: tp.Matrix, x: tp.Vector):
            return f(nought(W @ x))

        return tp.derive(tp.program(program)).evaluate()["return"]

    plain = number(lambda s: s)
    for f in (lambda s: tp.maximum(s, 0), lambda s: tp.maximum(-s, 0)):
        assert number(f).error >= 0.8 * plain.error


def test_small_numbers_keep_their_small_errors():
    """E |x (E tanh²h − t)| is 10⁻⁶ √(2/π), with its own digits but those of the difference."""
    nodes = 0.394294490396  # E tanh² of a standard normal, to twelve digits

    def program(x: tp.Vector):
        return avg(tp.abs(x * (avg(tp.tanh(x) ** 2) - nodes + 1e-6)))

    found = tp.derive(tp.program(program)).evaluate()["return"]
    assert found.value == pytest.approx(1e-6 * math.sqrt(2 / math.pi), rel=1e-5)
    assert 1e-17 < found.error < 1e-13


def test_images_of_what_is_divided_by_a_zero_in_disguise_are_refused_without_a_warning():
    """E σ(h) is ½: slopes of forms had divided by 0."""

    def program(W: tp.Matrix, x: tp.Vector):
        far = x / (avg(tp.sigmoid(W @ x)) - 1 / 2)
        h = W @ far
        stein = avg(far * (W.T @ tp.tanh(h))) - avg(1 - tp.tanh(h) ** 2) * avg(far * far)
        return avg(x * x * tp.step(stein))

    with pytest.raises(tp.EvaluationError, match=r"`1/\(.* - 1/2\)` is not finite at the limit of its arguments"):
        tp.derive(tp.program(program)).evaluate()


@pytest.mark.parametrize("far", [30, 50])
def test_particles_do_not_know_better_than_rounding(far):
    """1 − tanh is e^(−2 far) there, 0 in doubles: 0 ± 10⁻¹⁴ had come from particles for .69."""
    with mpmath.workdps(60):
        tail = mpmath.quad(lambda x: 2 / (1 + mpmath.exp(2 * far * x)) * mpmath.npdf(x), [1, 1.2, 2, 4])
        power = int(-mpmath.log10(tail))
        truth = float(tail * mpmath.mpf(10) ** power)

    def program(x: tp.Vector):
        return 10**power * avg(tp.step(x - 1) * (1 - tp.tanh(far * x)))

    found = tp.derive(tp.program(program)).evaluate()["return"]
    assert 0.1 < truth <= 1
    assert abs(found.value - truth) <= 4 * found.error
