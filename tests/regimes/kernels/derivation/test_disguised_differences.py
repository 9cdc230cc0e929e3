"""A difference of two means is judged against the errors of both: errors that are moved together cancel in it."""

import math

import numpy as np
import pytest

import tplimits as tp

avg = tp.avg
TILTED = tp.init(mean=0.3, std=1)

#: 0 at |ξ| = 1: by Stein's lemma, or by symmetry
NOUGHTS = {
    "E relu(x) x − P(x > 0)": lambda x: avg(tp.relu(x) * x) - avg(tp.step(x)),
    "the same, permuted": lambda x: avg(tp.step(x)) - avg(x * tp.relu(x)),
    "E |x| x² − 2 E |x|": lambda x: avg(tp.abs(x) * x * x) - 2 * avg(tp.abs(x)),
    "E tanh(x) x − E (1 − tanh² x)": lambda x: avg(tp.tanh(x) * x) - avg(1 - tp.tanh(x) ** 2),
}

#: a function with a jump, a pole or a root at 0, and its square at 0.01
FUNCTIONS = {
    "sqrt": (tp.sqrt, 0.01),
    "sign": (tp.sign, 1.0),
    "log": (tp.log, math.log(0.01) ** 2),
    "1/s": (lambda s: 1 / s, 1e4),
}


@pytest.mark.parametrize("name", NOUGHTS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_cannot_be_told_from_zero_is_refused(name, function):
    outer, square = FUNCTIONS[function]

    def network(ξ: tp.Input["d"], U: tp.Vector["d"], z: tp.Vector, v: tp.Vector, *, c):
        return v * z * outer(NOUGHTS[name](tp.sum(U * ξ, over="d")) + c)

    kernels = tp.derive(tp.network(network), tp.Kernels(train=("v",)))
    with pytest.raises(tp.EvaluationError, match="0 within its error"):
        kernels.evaluate(np.array([[0.6, 0.8]]), c=0)
    shifted = kernels.evaluate(np.array([[0.6, 0.8]]), c=0.01).nngp.item()  # not at 0
    assert shifted == pytest.approx(square, rel=1e-9)


@pytest.mark.parametrize("least", [False, True])
def test_a_sum_takes_itself_away_whatever_its_axis_is_called(least):
    """min(3 h, E[a⁴] h) is 3 h: Θ = 9 (K + |ξ|²), trained through a mean that is not zero as well."""

    @tp.network
    def net(ξ: tp.Input["d"], a: tp.Vector, v: tp.Vector, U: tp.Vector["d"] = TILTED):
        h = tp.sum(U * ξ, over="d")
        s = avg(a**4)
        return v * (tp.minimum if least else tp.maximum)(3 * h, s * h)

    X = np.array([[0.9, 0.4], [-0.7, -1.0]])
    found = tp.derive(net, tp.Kernels()).evaluate(X)
    gram, means = X @ X.T, 0.3 * X.sum(axis=1)
    np.testing.assert_allclose(found.nngp, 9 * (gram + np.outer(means, means)), rtol=1e-12)
    np.testing.assert_allclose(found.ntk, found.nngp + 9 * gram, rtol=1e-12)
