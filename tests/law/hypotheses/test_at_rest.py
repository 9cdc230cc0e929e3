"""What is divided by and is 0 at a share of neurons: 0/0 there, whatever the numerator is and however it is written."""

import numpy as np
import pytest

import tplimits as tp

X = np.array([[0.6, 0.8]])
#: quotients by y that stay bounded, or grow like y, beside y = 0
QUOTIENTS = {
    "relu(y)/y": lambda y: tp.relu(y) / y,
    "|y|/y": lambda y: tp.abs(y) / y,
    "y/|y|": lambda y: y / tp.abs(y),
    "y²/|y|": lambda y: y**2 / tp.abs(y),
    "√y²/y": lambda y: tp.sqrt(y**2) / y,
    "gelu(y)/y": lambda y: tp.gelu(y) / y,
    "step(y − 1)/y": lambda y: tp.step(y - 1) / y,
    "relu(y² − 1)/y²": lambda y: tp.relu(y**2 - 1) / y**2,
}
#: functions of a standard normal that are 0 at a share of neurons
AT_REST = {
    "relu": tp.relu,
    "x relu(x)": lambda x: x * tp.relu(x),
    "x + relu(−x)": lambda x: x + tp.relu(-x),
    "x step(x)": lambda x: tp.step(x) * x,
    "where": lambda x: tp.where(x - 1, x, 0 * x),
}


def width(function):
    @tp.program
    def program(x: tp.Vector):
        return tp.avg(function(x))

    return tp.derive(program).evaluate()["return"].value


def kernels(function):
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * function(tp.sum(U * ξ, over="d"))

    return tp.derive(net, tp.Kernels(train=("v",))).evaluate(X).nngp.item()


def one_line(outer, inner):
    return lambda x: outer(inner(x))


def by_names(outer, inner):
    def function(x):
        y = inner(x)
        z = outer(y)
        return z

    return function


@pytest.mark.parametrize("written", [one_line, by_names])
@pytest.mark.parametrize("inner", AT_REST)
@pytest.mark.parametrize("outer", QUOTIENTS)
def test_no_numerator_makes_a_number_of_it(outer, inner, written):
    """Half of the neurons of a network of any width, or a sixth or five sixths, are no number."""
    with np.errstate(invalid="ignore"):
        y = {"relu": lambda x: np.maximum(x, 0), "where": lambda x: np.where(x > 1, x, 0.0)}.get(inner)
        assert y is None or np.isnan(np.abs(z := y(np.linspace(-2, 2, 9))) / z).any()
    for engine in (width, kernels):
        with pytest.raises(tp.TplimitsError, match=r"not established|not finite|infinite|second moment|cancels"):
            engine(written(QUOTIENTS[outer], AT_REST[inner]))


#: what is never at rest, and its mean and mean of squares by symmetry
NEVER = {
    "|x|": (lambda x: tp.relu(x) / (tp.relu(x) + tp.relu(-x)), 0.5, 0.5),
    "x": (lambda x: tp.relu(x) / x, 0.5, 0.5),
    "max": (lambda x: x / tp.maximum(x, -x), 0.0, 1.0),
    "bent": (lambda x: x / (x + tp.relu(x)), 0.75, 0.625),
}


@pytest.mark.parametrize("case", NEVER)
def test_what_is_0_almost_nowhere_is_divided_by(case):
    function, mean, square = NEVER[case]
    assert width(function) == pytest.approx(mean, abs=1e-9)
    assert kernels(function) == pytest.approx(square, abs=1e-9)
    assert kernels(function) != pytest.approx(square + 0.01, abs=1e-3)


@pytest.mark.parametrize("inner", ["relu", "x step(x)"])
@pytest.mark.parametrize("outer", QUOTIENTS)
def test_every_engine_asks(outer, inner):
    """The same hypothesis of expansions in the width, training, blocks and classification, which names the doubt."""
    function = one_line(QUOTIENTS[outer], AT_REST[inner])

    @tp.program
    def program(x: tp.Vector):
        return tp.avg(function(x))

    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * function(tp.sum(U * ξ, over="d"))

    @tp.network
    def deep(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * tp.tanh(W @ function(tp.sum(U * ξ, over="d")))

    @tp.block
    def block(x: tp.State["token"], W: tp.Matrix, U: tp.Matrix):
        return x + (U @ function(W @ x)) / tp.sqrt(tp.n)

    at = {"error": lambda f: f - 1, "lr": 0.1, "steps": 1}
    still = {"v": tp.SGD(), "U": tp.Frozen()}
    asked = {
        "expansion": lambda: tp.derive(program, tp.FiniteWidth()).evaluate(),
        "operator": lambda: tp.derive(net, tp.NeuralTangent(still)).evaluate(X, **at),
        "feature": lambda: tp.derive(net, tp.MaximalUpdate(still)).evaluate(X, particles=1024, replicates=2, **at),
        "blocks": lambda: tp.derive(block.bind(token=1), tp.Proportional()).drift_at(np.eye(1)),
    }
    for engine, number in asked.items():
        with pytest.raises(tp.TplimitsError):
            pytest.fail(f"{engine}: {number()}")
    assert tp.classify(deep, tp.NTP, tp.SGD()).at_start.doubts
