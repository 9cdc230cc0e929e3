"""Training through functions of several pieces, beside networks in NumPy: what grows is judged where it is read."""

from __future__ import annotations

import numpy
import pytest
import sympy

import tplimits as tp

X = numpy.array([[0.9, -0.4], [-0.2, 1.3], [1.0, 0.5]])
Y, RATE, STEPS = numpy.array([1.0, -0.8, 0.3]), 0.4, 2

#: one function in several spellings
ELU = {
    "where": lambda u: tp.where(u, u, tp.exp(u) - 1),
    "Piecewise": tp.elementwise(lambda u: sympy.Piecewise((u, u > 0), (sympy.exp(u) - 1, True))),
    "steps": lambda u: u * tp.step(u) + (tp.exp(u) - 1) * tp.step(-u),
    "a minimum": lambda u: tp.relu(u) + tp.exp(tp.minimum(u, 0)) - 1,
}


def trained(function, slope, n, networks):
    """(mean, standard error) of f after training: f = Σ v φ(W φ(U ξ)) / n, in μP with a rate for each parameter."""
    generator, outputs = numpy.random.default_rng(1), []
    for _ in range(networks):
        U, v = generator.normal(size=(n, 2)), generator.normal(size=n)
        W = generator.normal(size=(n, n)) / numpy.sqrt(n)
        for _ in range(STEPS):
            h = U @ X.T
            g = W @ function(h)
            signal = v @ function(g) / n - Y
            back = v[:, None] * slope(g) * signal
            below = (W.T @ back) * slope(h)
            v = v - RATE * function(g) @ signal
            W = W - RATE * back @ function(h).T / n
            U = U - RATE * below @ X
        outputs.append(v @ function(W @ function(U @ X.T)) / n)
    return numpy.mean(outputs, axis=0), numpy.std(outputs, axis=0) / numpy.sqrt(networks)


def limit(activation):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * activation(W @ activation(tp.sum(U * ξ, over="d")))

    found = tp.derive(network, tp.MaximalUpdate(tp.SGD())).evaluate(
        X, error=lambda f: f - Y, lr=RATE, steps=STEPS, particles=4096, replicates=4
    )
    return found.f[-1], found.stderr[-1]


@pytest.fixture(scope="module")
def networks():
    return trained(
        lambda u: numpy.where(u > 0, u, numpy.expm1(u)), lambda u: numpy.where(u > 0, 1, numpy.exp(u)), 384, 24
    )


@pytest.mark.parametrize("spelling", ELU)
def test_an_exponential_that_is_read_below_zero_trains_as_networks_do(spelling, networks):
    (f, error), (mean, spread) = limit(ELU[spelling]), networks
    assert numpy.all(abs(f - mean) < 4 * numpy.hypot(error, spread) + 0.01)


def test_networks_tell_another_slope_below_zero(networks):
    (f, error), (mean, spread) = limit(lambda u: tp.where(u, u, (tp.exp(u) - 1) / 2)), networks
    assert numpy.any(abs(f - mean) > 6 * numpy.hypot(error, spread) + 0.01)


def test_a_quotient_of_exponentials_is_the_bounded_function_that_it_is():
    whole = limit(tp.elementwise(lambda u: sympy.sinh(u) / sympy.cosh(u)))
    numpy.testing.assert_allclose(whole[0], limit(tp.tanh)[0], rtol=1e-9)


@pytest.mark.parametrize(
    "activation",
    [
        lambda u: tp.where(u, tp.exp(u) - 1, u),
        lambda u: tp.where(-u, u, tp.exp(u) - 1),
        lambda u: tp.where(u + 5, tp.exp(u), u + tp.exp(-5) + 5),
    ],
)
def test_an_exponential_that_is_read_above_zero_is_refused(activation):
    with pytest.raises(tp.EvaluationError, match="grows exponentially"):
        limit(activation)
