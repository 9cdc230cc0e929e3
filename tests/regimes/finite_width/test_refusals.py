"""What has no expansion in 1/n, or none that is implemented: refused with its name."""

import pytest
from expanded import cubed

import tplimits as tp
from tplimits.errors import EvaluationError, NoLimitError, ProgramError
from tplimits.numbers.expansion import resolutions


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
def pole_of_a_vector(x: tp.Vector, y: tp.Vector, W: tp.Matrix):
    h = W @ y
    return tp.avg(tp.sqrt(tp.abs(x + h)))


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
def pole_by_an_identity(W: tp.Matrix, x: tp.Vector):
    h = W @ x
    s = tp.avg(h * tp.tanh(h)) - tp.avg(1 - tp.tanh(h) ** 2)
    return tp.avg(x**2) / (s + 0.0)


@tp.program
def the_smaller_of_two(x: tp.Vector, y: tp.Vector):
    return tp.minimum(tp.avg(y**2), tp.avg(x**2))


@tp.program
def zero_in_disguise(y: tp.Vector, x: tp.Vector, W: tp.Matrix):
    s = tp.avg((W @ x) * y) + tp.avg(x**2) - tp.avg((W @ x) ** 2)
    return tp.maximum(s, 0)


@tp.program
def length_of_a_zero(y: tp.Vector, x: tp.Vector, W: tp.Matrix):
    s = tp.avg(y * (W @ x))
    return tp.sqrt(s**2)


@tp.program
def transposed_only_at_infinity(u: tp.Vector, x: tp.Vector, W: tp.Matrix):
    s = tp.avg(u * x)
    return tp.avg((W.T @ tp.sin(x)) * (W.T @ tp.sin((1 + s) * x)))


@tp.program
def logarithm(y: tp.Vector, x: tp.Vector, W: tp.Matrix):
    h = W @ y
    return tp.avg(tp.log((x + h) ** 2) * y)


@tp.program
def three_neurons_in_another_order(y: tp.Vector, x: tp.Vector):
    α, β = tp.neuron("α"), tp.neuron("β")
    return tp.avg(tp.avg(tp.tanh(x[α] * x + y[β]), over=(β, α)))


REFUSED = {
    "two scalars": (the_smaller_of_two, r"minimum\(Avg\(x\*\*2\), Avg\(y\*\*2\)\)` has a kink at the limit"),
    "disguise": (zero_in_disguise, r"relu\(s\)` has a kink at the limit"),
    "length": (length_of_a_zero, r"Abs\(s\)` has a kink at the limit"),
    "transposed at infinity": (transposed_only_at_infinity, r"Wᵀ is applied to.*none in the limit"),
    "logarithm": (logarithm, r"log\(.*\*\*2\)` has a pole or a root where `\(h \+ x\)\*\*2`"),
    "another order": (three_neurons_in_another_order, "averages over 2 further neurons"),
    "zero by an identity": (pole_by_an_identity, "1/"),
    "kink at a scalar's limit": (kink_at_a_limit, "Abs\\(s\\)` has a kink at the limit of its argument, a scalar"),
    "kink of vectors": (kink_of_vectors_at_a_limit, "relu\\(s\\*x\\)` has a kink at the limit of its argument"),
    "direction at infinity": (only_at_infinity, "`tanh\\(x\\)`, which W is applied to.*none in the limit"),
    "moments": (pole_of_a_vector, "sqrt\\(Abs\\(h \\+ x\\)\\)` has a pole or a root where `Abs\\(h \\+ x\\)`"),
    "tails": (exponential, "exp\\(W x\\)` grows faster than any power"),
    "three neurons": (three_neurons, "averages over 2 further neurons"),
    "signs": (signs, "entries of `W` are not normal: fourth moments"),
    "orthogonal": (turned, "`W` is orthogonal"),
    "jump": (moving_jump, "step\\(W x \\+ b\\)` jumps where its argument moves"),
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
    with pytest.raises(ProgramError, match="no scalar 'other'; there are return"):
        found.bias("other", c=2)


def test_series_that_do_not_help_are_warned_of():
    @tp.program
    def heavy(g: tp.Vector):
        y = g**2 + g
        return tp.avg(y**3) / tp.avg(y**2) ** 1.5

    found = tp.derive(heavy, tp.FiniteWidth())
    with pytest.warns(UserWarning, match=r"\|b\|/n = 0.89 is not small"):
        found.at(32)
    with pytest.warns(UserWarning, match="C holds moments of order 12"):
        found.at(500)  # where 2 % of the limit would pass without such tails
    assert "C holds moments of order 12 of normal entries" in repr(found)
    assert found.at(2000)["return"].value < 3


def test_the_order_of_moments():
    """Twice the degree: 8 for a fourth power of images, 0 for what is bounded."""

    @tp.program
    def moments(W: tp.Matrix, x: tp.Vector, *, k):
        return tp.avg((W @ x) ** k)

    @tp.program
    def bounded(x: tp.Vector):
        return tp.avg(tp.tanh(x**5))

    orders = [tp.derive(moments.bind(k=k), tp.FiniteWidth()).order_of_moments for k in (2, 4, 5)]
    assert orders == [4, 8, 10]
    assert tp.derive(bounded, tp.FiniteWidth()).order_of_moments == 0
    assert tp.derive(cubed, tp.FiniteWidth()).order_of_moments == 12


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


def test_kinks_that_are_too_many_are_named(monkeypatch):
    @tp.program
    def waves(x: tp.Vector):
        y = tp.sin(3 * x)
        return tp.avg(y), tp.avg(tp.relu(y - 0.3))

    monkeypatch.setattr(resolutions, "_MOST_PASSES", 3)
    with pytest.raises(EvaluationError, match=r"tp.avg.tp.relu.y - 0.3.*in `waves` more than 3 divisions at kinks"):
        tp.derive(waves, tp.FiniteWidth()).bias("return[0]")


@pytest.mark.long
def test_points_have_room_for_pairs_of_neurons_unless_more_are_asked_for():
    @tp.program
    def paired(x: tp.Vector):
        β = tp.neuron("β")
        return tp.avg(tp.avg(tp.tanh(x * x[β]) * x[β], over=β) ** 2)

    found = tp.derive(paired, tp.FiniteWidth())
    points = found.evaluate("particles", replicates=2)["return"]
    assert points.limit.method == "particles"
    assert abs(float(points.bias) - float(found.bias("return"))) < 0.02 * float(found.bias("return"))
    with pytest.raises(EvaluationError, match="particles=2048: functions of two neurons"):
        found.evaluate("particles", particles=2048, replicates=2)
