"""Kernels to order 1/n against programs that hold the gradients, against each other, and against exact results."""

import pickle

import numpy as np
import pytest
import sympy
from expanded import KNOWN, perceptron, tangent_two

import tplimits as tp
from tplimits.regimes.kernels.first_order import recursion
from tplimits.regimes.kernels.first_order.laws import Law
from tplimits.regimes.kernels.first_order.means import Activation
from tplimits.regimes.kernels.first_order.perceptron import H

TWICE, THRICE = tp.init(mean=0, std=2), tp.init(mean=0, std=3)
PAIR = np.array([[1.0, 0.0], [0.6, 0.7]])


@tp.network
def three(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, Y: tp.Matrix, v: tp.Vector):
    x = tp.sin(tp.sum(U * ξ, over="d"))
    y = tp.sin(1.2 * (W @ x))
    return 0.7 * v * tp.sin(1.2 * (Y @ y))


@tp.program
def three_written_out(W: tp.Matrix, Y: tp.Matrix, e: tp.Vector, f: tp.Vector, v: tp.Vector):
    """Both kernels of `three` between the inputs of `PAIR`, by its gradients."""
    h = e, 0.6 * e + 0.7 * f
    k = [1.2 * (W @ tp.sin(a)) for a in h]
    m = [1.2 * (Y @ tp.sin(a)) for a in k]
    dm = [0.7 * v * tp.cos(a) for a in m]
    dk = [1.2 * (Y.T @ d) * tp.cos(a) for d, a in zip(dm, k, strict=True)]
    dh = [1.2 * (W.T @ d) * tp.cos(a) for d, a in zip(dk, h, strict=True)]
    x, y, z = ([tp.sin(a) for a in b] for b in (h, k, m))
    nngp = 0.49 * tp.avg(z[0] * z[1])
    matrices = tp.avg(y[0] * y[1]) * tp.avg(dm[0] * dm[1]) + tp.avg(x[0] * x[1]) * tp.avg(dk[0] * dk[1])
    return nngp, nngp + 1.44 * matrices + 0.6 * tp.avg(dh[0] * dh[1])


@pytest.fixture(scope="module")
def written_out():
    return list(tp.derive(three_written_out, tp.FiniteWidth()).evaluate().values())[:2]


@pytest.mark.long
def test_two_inputs_and_three_layers(written_out):
    K = tp.derive(three, tp.Kernels(order=1)).evaluate(PAIR)
    for e, kind in zip(written_out, ("nngp", "ntk"), strict=True):
        stated = [getattr(K, name)[0, 1] for name in (kind, f"{kind}_bias", f"{kind}_variance")]
        np.testing.assert_allclose(stated, [float(e.limit), float(e.bias), float(e.variance)], rtol=1e-10)


@pytest.mark.long
def test_that_gradients_come_back_on_what_a_matrix_made_is_seen(written_out, monkeypatch):
    """Gradient independence: the term of Wᵀ after W left out."""
    right = recursion._downwards

    def independent(*args):
        found = right(*args)
        return recursion._Backward(found.limit, found.own, found.mean, found.slope, 0 * found.back)

    monkeypatch.setattr(recursion, "_downwards", independent)
    wrong = tp.derive(three, tp.Kernels(order=1)).evaluate(PAIR).ntk_bias[0, 1]
    assert abs(wrong - float(written_out[1].bias)) > 0.01


@tp.network
def biased(ξ: tp.Input["d"], U: tp.Vector["d"], a: tp.Vector, W: tp.Matrix, b: tp.Vector, v: tp.Vector, c: tp.Scalar):
    x = tp.sin(tp.sum(U * ξ, over="d") + 0.5 * a)
    return tp.readout(v * tp.sin(0.4 * (3 * (W @ x) + 2 * (b + 0.375)))) + 2 * c


@tp.program
def biased_written_out(W: tp.Matrix, e: tp.Vector, a: tp.Vector, b: tp.Vector, v: tp.Vector):
    """The tangent kernel of `biased` at the input (0.9), with the rates of the test."""
    h = 0.9 * e + 0.5 * a
    x = tp.sin(h)
    k = 1.2 * (W @ x) + 0.8 * b + 0.3
    dk = v * tp.cos(k)
    dh = 1.2 * (W.T @ dk) * tp.cos(h)
    of_k, of_h = tp.avg(dk**2), tp.avg(dh**2)
    return tp.avg(tp.sin(k) ** 2) + 3 * 1.44 * tp.avg(x**2) * of_k + 0.64 * of_k + (2 * 0.25 + 0.81) * of_h + 4


def test_biases_shifts_and_rates():
    rates = {"U": 1, "a": 2, "W": 3, "b": 1, "v": 1, "c": 1}
    K = tp.derive(biased, tp.Kernels(train=rates, order=1)).evaluate([[0.9]])
    (e, *_) = tp.derive(biased_written_out, tp.FiniteWidth()).evaluate().values()
    found = [float(a[0, 0]) for a in (K.ntk, K.ntk_bias, K.ntk_variance)]
    np.testing.assert_allclose(found, [float(e.limit), float(e.bias), float(e.variance)], rtol=1e-9)


@pytest.mark.long
def test_laws_and_parts_of_the_parameters():
    """A deviation in a law is a factor of outputs and none of gradients; the parts of Θ have a bias each."""

    @tp.network
    def net(
        ξ: tp.Input["d"],
        W: tp.Matrix,
        U: tp.Vector["d"] = TWICE,
        v: tp.Vector = THRICE,
    ):
        return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))

    @tp.network
    def factor(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, W: tp.Matrix):
        return 3 * v * tp.tanh(W @ tp.tanh(2 * tp.sum(U * ξ, over="d")))

    rates = {"U": sympy.Rational(1, 4), "W": 1, "v": sympy.Rational(1, 9)}
    law = tp.derive(net, tp.Kernels(order=1)).evaluate([[1.0]])
    other = tp.derive(factor, tp.Kernels(train=rates, order=1)).evaluate([[1.0]])
    assert np.allclose([law.ntk, law.ntk_bias, law.ntk_variance], [other.ntk, other.ntk_bias, other.ntk_variance])
    parts = [tp.derive(net, tp.Kernels(train=(name,), order=1)).evaluate([[1.0]]).ntk_bias for name in rates]
    assert np.allclose(sum(parts), law.ntk_bias)


def deep(φ, layers, w):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "layer"], v: tp.Vector):
        x = φ(w * tp.sum(U * ξ, over="d"))
        for i in range(layers - 1):
            x = φ(w * (W.sel(layer=i) @ x))
        return v * x

    X = PAIR / np.linalg.norm(PAIR, axis=1)[:, None]
    return tp.derive(net.bind(layer=layers - 1), tp.Kernels(order=1)).evaluate(X)


def test_critical_relu_has_five_a_layer():
    K = deep(tp.relu, 8, 2**0.5)
    np.testing.assert_allclose(np.diag(K.nngp_variance), 5 * 8, rtol=1e-12)
    np.testing.assert_allclose(np.diag(K.nngp_bias), 0, atol=1e-12)
    np.testing.assert_allclose(np.diag(K.ntk_bias), 0, atol=1e-9)


def test_linear_networks():
    """Products of normal matrices: Var K_ab = L (K_aa K_bb + K_ab²)/n; Θ is a sum of m = L + 1 terms K_{l−1} S_l, of
    which two have the covariance 2 (L − |k − l|)/n at one input of length 1."""
    K = deep(lambda x: x, 5, 1.0)
    overlap = K.nngp[0, 1]
    np.testing.assert_allclose(K.nngp_variance, 5 * np.array([[2, 1 + overlap**2], [1 + overlap**2, 2]]), rtol=1e-12)
    np.testing.assert_allclose(K.nngp_bias, 0, atol=1e-12)
    np.testing.assert_allclose(K.ntk_bias, 0, atol=1e-9)
    m = 6
    np.testing.assert_allclose(np.diag(K.ntk_variance), 2 * m * (m - 1) * (2 * m - 1) / 3, rtol=1e-12)


def test_the_expansions_of_single_inputs_that_are_known():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))

    K = tp.derive(net, tp.Kernels(order=1)).evaluate([[1.0]])
    for program, kind in ((perceptron, "nngp"), (tangent_two, "ntk")):
        (row,) = next(known for p, _, known in KNOWN.values() if p is program)
        for stated, name in zip(row.split(), (kind, f"{kind}_bias", f"{kind}_variance"), strict=True):
            assert abs(getattr(K, name).item() - float(stated)) < 10.0 ** -len(stated.partition(".")[2])


@pytest.mark.long
def test_closed_forms_and_means_of_derivatives_agree():
    c = [np.array([v]) for v in (0.9, -0.4, 1.3)]
    smooth, closed = Activation(sympy.erf(H)), Activation(sympy.erf(H))
    closed.__dict__["is_smooth"] = False
    for law in (Law(tuple(c)), Law((c[0],))):
        one, other = smooth.read(law), closed.read(law.moved(None))
        for name in ("first", "second", "slope_first", "slope_second"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-7, atol=1e-9)


@pytest.mark.long
def test_an_input_that_is_there_twice():
    K = tp.derive(three, tp.Kernels(order=1)).evaluate(PAIR[[0, 1, 0]])
    for name in ("nngp_bias", "nngp_variance", "ntk_bias", "ntk_variance"):
        array = getattr(K, name)
        np.testing.assert_allclose(array[2], array[0, [0, 1, 0]], rtol=1e-12)
        np.testing.assert_array_equal(array, array.T)


@pytest.mark.long
def test_nearly_the_same_inputs_have_nearly_the_same_kernels():
    near = PAIR[[0]] + np.array([[0.0, 0.0], [0.0, 1e-3], [0.0, 1e-5]])
    K = tp.derive(three, tp.Kernels(order=1)).evaluate(PAIR[:1], near)
    for name in ("nngp_bias", "nngp_variance", "ntk_bias", "ntk_variance"):
        array = getattr(K, name)[0]
        assert abs(array[1] - array[0]) < 1e-4
        assert abs(array[2] - array[0]) < 1e-6


@pytest.mark.long
def test_means_and_deviations_at_a_width_and_pickles():
    limit = tp.derive(three, tp.Kernels(order=1))
    K = pickle.loads(pickle.dumps(limit)).evaluate(PAIR)
    at = K.at(100)
    np.testing.assert_allclose(at.ntk, K.ntk + K.ntk_bias / 100)
    np.testing.assert_allclose(at.ntk_error, np.sqrt(K.ntk_variance / 100))
    nngp, ntk = K
    np.testing.assert_array_equal(ntk, tp.derive(three, tp.Kernels()).evaluate(PAIR).ntk)
    assert nngp.shape == (2, 2)


SPELLED = {
    "where": lambda h: tp.where(h, h, 0),
    "step": lambda h: h * tp.step(h),
    "sign": lambda h: h * (1 + tp.sign(h)) / 2,
}


@pytest.mark.parametrize("spelled", SPELLED)
def test_jumps_that_leave_nothing_are_kinks(spelled):
    """h step(h) is relu(h): n Var of avg relu(W x)² = 5/4·q² + Var(x²)/4, q = E x², of a mean that has no bias."""
    phi = SPELLED[spelled]

    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * phi(W @ tp.tanh(tp.sum(U * ξ, over="d")))

    found = tp.derive(tp.network(net), tp.Kernels(order=1)).evaluate(np.array([[1.0, 0.0]]))
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    q, fourth = (weights @ np.tanh(nodes) ** k / weights.sum() for k in (2, 4))
    stated = [found.nngp[0, 0], found.nngp_bias[0, 0], found.nngp_variance[0, 0]]
    np.testing.assert_allclose(stated, [q / 2, 0, 5 / 4 * q**2 + (fourth - q**2) / 4], rtol=1e-9, atol=1e-12)


@pytest.mark.long
def test_one_closed_mean_of_a_pair():
    """(1 − cos 2h)/2 is sin² h, where one of the means alone has a closed form."""

    def one(phi):
        def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
            return v * phi(W @ tp.tanh(tp.sum(U * ξ, over="d")))

        return tp.derive(tp.network(net), tp.Kernels(order=1)).evaluate(PAIR)

    written, plain = one(lambda h: (1 - tp.cos(2 * h)) / 2), one(lambda h: tp.sin(h) ** 2)
    for name in ("nngp_bias", "nngp_variance", "ntk_bias", "ntk_variance"):
        np.testing.assert_allclose(getattr(written, name), getattr(plain, name), rtol=1e-9)
