"""What has no expansion in 1/n, or none that is implemented: refused with its name."""

import pytest

import tplimits as tp
from tplimits.errors import EvaluationError, NoLimitError, ProgramError


@tp.program
def kink_at_a_limit(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
    s = tp.avg(x * y)
    return tp.avg((W @ x) ** 2) + tp.abs(s)


@tp.program
def kink_of_vectors_at_a_limit(x: tp.Vector, y: tp.Vector):
    s = tp.avg(x * y)
    return tp.avg(tp.relu(s * x))


@tp.program
def only_at_infinity(W: tp.Matrix, x: tp.Vector, u: tp.Vector):
    y = tp.tanh(x + u * tp.avg(x * u))
    return tp.avg((W @ y) * (W @ tp.tanh(x)))


@tp.program
def pole_of_a_vector(x: tp.Vector):
    y = tp.tanh(x) / x
    return tp.avg(y)


@tp.program
def exponential(W: tp.Matrix, x: tp.Vector):
    e = tp.exp(W @ x)
    return tp.avg(e)


@tp.program
def three_neurons(x: tp.Vector, y: tp.Vector):
    β, γ = tp.neuron("β"), tp.neuron("γ")
    return tp.avg(tp.avg(tp.tanh(x + y[β] + y[γ]), over=(β, γ)) ** 2)


@tp.program
def signs(W: tp.Matrix.signs(), x: tp.Vector):
    return tp.avg(tp.tanh(W @ x) ** 2)


@tp.program
def turned(W: tp.Matrix.orthogonal(), x: tp.Vector):
    return tp.avg(tp.tanh(W @ x) ** 2)


@tp.program
def moving_jump(W: tp.Matrix, x: tp.Vector, b: tp.Vector):
    h = W @ x + b
    return tp.avg(tp.step(h) * b)


@tp.program
def random_inside(x: tp.Vector, u: tp.Vector):
    s = tp.sqrt(tp.n) * tp.avg(u * x)
    return tp.avg(tp.tanh(x + s))


@tp.program
def kink_at_order_one_over_n(x: tp.Vector, y: tp.Vector):
    s = tp.avg(x * y)
    return tp.avg(tp.relu(x * s**2))


@tp.program
def pole_by_an_identity(W: tp.Matrix, x: tp.Vector):
    h = W @ x
    s = tp.avg(h * tp.tanh(h)) - tp.avg(1 - tp.tanh(h) ** 2)
    return tp.avg(x**2) / (s + 0.0)


REFUSED = {
    "second order": (kink_at_order_one_over_n, "has a kink at the limit of its argument"),
    "zero by an identity": (pole_by_an_identity, "1/"),
    "kink at a scalar's limit": (kink_at_a_limit, "Abs\\(s\\)` has a kink at the limit of its argument, a scalar"),
    "kink of vectors": (kink_of_vectors_at_a_limit, "relu\\(s\\*x\\)` has a kink at the limit of its argument"),
    "direction at infinity": (only_at_infinity, "`tanh\\(x\\)`, which W is applied to.*none in the limit"),
    "moments": (pole_of_a_vector, "1/x` has a pole or a root where `x`"),
    "tails": (exponential, "exp\\(W x\\)` grows faster than any power"),
    "three neurons": (three_neurons, "averages over 2 further neurons"),
    "signs": (signs, "entries of `W` are not normal: fourth moments"),
    "orthogonal": (turned, "`W` is orthogonal"),
    "jump": (moving_jump, "step\\(h\\)` jumps where its argument moves"),
    "random": (random_inside, "`s`, which stays random in the limit"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_name(name):
    program, words = REFUSED[name]
    with pytest.raises(NoLimitError, match=words):
        tp.derive(program, tp.FiniteWidth())


def test_the_same_without_the_trap_is_read():
    @tp.program
    def apart(W: tp.Matrix, x: tp.Vector):
        s = tp.avg(x**2)
        h = W @ x
        return tp.abs(s) + tp.avg(tp.step(h)), tp.avg(1 / (x**2 + 1)), tp.avg(tp.exp(-(h**2)))

    assert float(tp.derive(apart, tp.FiniteWidth()).covariance("return[0]")) > 2


def test_constants_that_are_missing():
    @tp.program
    def scaled(x: tp.Vector, *, c):
        return tp.avg((c * x) ** 2)

    found = tp.derive(scaled, tp.FiniteWidth())
    assert "constants or scalars have no values" in repr(found)
    with pytest.raises(EvaluationError, match="the constant `c`"):
        found.bias("return")
    assert abs(float(found.covariance("return", c=2)) - 32) < 1e-9
    with pytest.raises(ProgramError, match="no scalar `other`; there are return"):
        found.bias("other", c=2)


def test_series_that_do_not_help_are_warned_of():
    @tp.program
    def heavy(g: tp.Vector):
        y = g**2 + g
        return tp.avg(y**3) / tp.avg(y**2) ** 1.5

    found = tp.derive(heavy, tp.FiniteWidth())
    with pytest.warns(UserWarning, match=r"\|b\|/n = 0.89 is not small"):
        found.at(32)
    assert found.at(2000)["return"].value < 3


def test_kinks_that_are_met_in_any_order():
    """A variable that a later one is divided along may be divided itself, or read more finely, afterwards."""

    @tp.program
    def later(x: tp.Vector, y: tp.Vector, R: tp.Matrix, W: tp.Matrix):
        z = tp.maximum(y, x)
        u = W @ x
        return tp.avg(z**2), tp.avg(tp.sign(y) * z), tp.avg(tp.tanh(R @ u) ** 2)

    found = tp.derive(later, tp.FiniteWidth())
    assert abs(float(found.limit("return[0]")) - 1) < 1e-9  # half of x² + y²
    assert abs(float(found.covariance("return[0]")) - 2) < 1e-9  # E max⁴ − 1, as E max⁴ = E x⁴
