"""Errors of b and C where terms cancel: inputs that nearly agree, steep activations."""

from dataclasses import replace

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.kernels.finite import orders
from tplimits.regimes.kernels.first_order.means import Activation
from tplimits.regimes.kernels.first_order.recursion import Weights, coefficients

FIRST, ASIDE = np.array([1.0, 0.3]), np.array([0.2, -0.7])


@tp.network
def kinked(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, Y: tp.Matrix, v: tp.Vector):
    x = tp.relu(1.3 * (W @ tp.relu(tp.sum(U * ξ, over="d"))) + 0.2 * b)
    return v * tp.relu(1.1 * (Y @ x))


@pytest.fixture(scope="module")
def derived():
    return tp.derive(kinked, tp.Kernels(order=1))


@pytest.mark.long
def test_errors_hold_where_a_kink_is_met_by_inputs_that_nearly_agree(derived):
    """b of Θ is linear in the distance of two inputs, and b of K is 0: both are 0 for an input with itself."""
    slope = derived.evaluate(np.array([FIRST, FIRST + 1e-3 * 8 * ASIDE])).ntk_bias[0, 1] / 8
    for distance in (2e-3, 1e-3):
        found = derived.evaluate(np.array([FIRST, FIRST + distance * ASIDE]))
        wanted = slope * distance / 1e-3
        error = found.ntk_bias_error[0, 1]
        assert abs(found.ntk_bias[0, 1] - wanted) < error + 0.02 * abs(wanted)
        assert abs(found.nngp_bias[0, 1]) < found.nngp_bias_error[0, 1] < 1e-4
        assert 1e-5 < error < 0.05


def test_digits_that_are_lost_are_refused(derived):
    """The sum of terms that cancel had been printed: −2.4 for 5·10⁻⁵."""
    with pytest.raises(tp.EvaluationError, match="cancel where inputs nearly agree"):
        derived.evaluate(np.array([FIRST, FIRST + 1e-4 * ASIDE]))


class _AskedError(Exception):
    pass


def test_claims_have_the_errors_of_what_is_derived(derived, monkeypatch):
    def asked(inquiry, *rest):
        raise _AskedError(inquiry.claims)

    monkeypatch.setattr(orders, "concluded", asked)
    X = np.array([FIRST, FIRST + 1e-3 * ASIDE])
    with pytest.raises(_AskedError) as raised:
        tp.check(derived, X1=X, seed=0)
    found, errors = derived.evaluate(X), {c.label: c.error for c in raised.value.args[0] if c.statistic == "mean"}
    assert errors["b(Θ[0,1])"] >= found.ntk_bias_error[0, 1] > 0
    assert errors["b(K[0,1])"] >= found.nngp_bias_error[0, 1] > 0


class Rough:
    """An activation of which the second derivatives of E φφ′ are known up to a share."""

    def __init__(self, of, share):
        self.of, self.share = of, share

    def read(self, law):
        means = self.of.read(law)
        (second,) = law.read("second", lambda: [(means.second, self.share * abs(means.second))])
        return replace(means, second=second)


def test_errors_of_means_are_carried_to_the_coefficients():
    layers = tp.derive(kinked, tp.Kernels(order=1)).layers.layers
    plain = Activation(layers[0].activation)
    numbers = Weights(1.69, 0.04, 1.69, 0.04)
    data = np.array([[FIRST @ FIRST, FIRST @ ASIDE, ASIDE @ ASIDE]])
    for share in (1e-3, 1e-6):
        found, off = coefficients([(Rough(plain, share), numbers)] * 2, numbers, data, alone=False)
        exact, _ = coefficients([(plain, numbers)] * 2, numbers, data, alone=False)
        assert found.nngp_bias == pytest.approx(exact.nngp_bias)
        assert 0.05 * share < off.nngp_bias[0] < 20 * share


@pytest.mark.long
@pytest.mark.parametrize("bend", [lambda h: tp.maximum(h, 0.1 * h), lambda h: tp.relu(h) - 0.1 * tp.relu(-h)])
def test_a_sum_may_stand_with_several_factors(bend):
    """A bias of the first layer is one more channel of the data."""

    @tp.network
    def biased(ξ: tp.Input["d"], U: tp.Vector["d"], a: tp.Vector, v: tp.Vector):
        return v * bend(1.5 * tp.sum(U * ξ, over="d") + 0.75 * a)

    @tp.network
    def channel(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * bend(1.5 * tp.sum(U * ξ, over="d"))

    X = np.array([FIRST, ASIDE])
    found = tp.derive(biased, tp.Kernels(order=1)).evaluate(X)
    for offset, agree in ((0.5, True), (0.45, False)):
        wanted = tp.derive(channel, tp.Kernels(order=1)).evaluate(np.c_[X, [offset, offset]])
        for name in ("nngp_variance", "ntk_variance"):
            assert np.allclose(getattr(found, name), getattr(wanted, name), rtol=1e-9) == agree
