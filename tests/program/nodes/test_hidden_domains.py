"""Domains that cancel while a program is traced: seen where they may be left, and nothing else changes."""

import numpy as np
import pytest
import sympy

import tplimits as tp

asin = tp.elementwise(sympy.asin)


def traced(f):
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(f(x, y))

    return tp.program(program)


def of_neurons(x, y):
    β = tp.neuron("β")
    return tp.avg(tp.sqrt(x[β]) * tp.sqrt(x[β]) * y, over=β)


LOST = {
    "the same value": lambda x, y: (r := tp.log(x)) - r + y,
    "0·log": lambda x, y: x + 0 * tp.log(y),
    "√/√": lambda x, y: tp.sqrt(x) / tp.sqrt(x),
    "asin − asin": lambda x, y: asin(x) - asin(x) + x,
    "relu/relu": lambda x, y: tp.relu(x) / tp.relu(x),
    "relu²/relu": lambda x, y: tp.relu(x) ** 2 / tp.relu(x) + y,
    "log relu": lambda x, y: y + (tp.log(tp.relu(x)) - tp.log(tp.relu(x))),
    "max over max, of zero": lambda x, y: tp.maximum(x, 0 * y) / tp.maximum(x, 0 * y),
    "max over max, of a scalar": lambda x, y: tp.maximum(x, tp.avg(y)) / tp.maximum(x, tp.avg(y)),
    "max over max, of relu": lambda x, y: tp.minimum(x, tp.relu(y)) / tp.minimum(x, tp.relu(y)),
    "a difference that is relu": lambda x, y: (tp.maximum(x, y) - y) / (tp.maximum(x, y) - y),
    "of another neuron": of_neurons,
    "of a scalar": lambda x, y: x * (tp.sqrt(tp.avg(y)) / tp.sqrt(tp.avg(y))),
    "a product with relu": lambda x, y: (r := tp.relu(x) * tp.exp(y)) / r,
}


@pytest.mark.parametrize("case", LOST)
def test_what_cancels_with_its_domain_is_refused(case):
    with pytest.raises(tp.ProgramError, match="cancels, and may be no number"):
        traced(LOST[case])


CHOICES = {
    "max": lambda x, y: tp.maximum(x, y) / tp.maximum(x, y),
    "named max": lambda x, y: (m := tp.maximum(x, y).named("m")) * y / m,
    "min of max": lambda x, y: tp.minimum(x, tp.maximum(y, 2)) / tp.minimum(x, tp.maximum(y, 2)),
    "where": lambda x, y: tp.where(x, y, 1) / tp.where(x, y, 1),
    "of a scalar": lambda x, y: x * (tp.avg(y) / tp.avg(y)),
    "a product of what is not": lambda x, y: (w := tp.where(y, x, 5) * tp.exp(tp.relu(y))) / w,
}


@pytest.mark.parametrize("case", CHOICES)
def test_what_chooses_between_what_is_not_zero_cancels(case):
    program = traced(CHOICES[case])
    assert np.isfinite(program.run(n=100, seed=1)["return"])
    assert tp.derive(program).evaluate()["return"].value in (0, 1)


READ = {
    "√·√": lambda x, y: tp.sqrt(x) * tp.sqrt(x),
    "powers": lambda x, y: x**0.5 * x**0.5 + y,
    "square": lambda x, y: tp.sqrt(x + y) ** 2,
    "log − log": lambda x, y: y + tp.log(x) - tp.log(x),
    "exp log": lambda x, y: tp.exp(tp.log(x)),
    "tanh artanh": lambda x, y: tp.tanh(tp.elementwise(sympy.atanh)(x)),
    "below": lambda x, y: y / (tp.sqrt(x) * tp.sqrt(x)) * tp.sqrt(x) ** 4,
}


@pytest.mark.parametrize("case", READ)
def test_what_is_read_is_no_number_at_finite_width_and_refused_in_the_limit(case):
    program = traced(READ[case])
    assert np.isnan(program.run(n=100, seed=1)["return"])
    with pytest.raises(tp.NoLimitError, match="not real with positive probability"):
        tp.derive(program)


#: what is real for sure is written as before, in as many instructions as its result in plain words
KEPT = {
    "relu": (lambda x, y: tp.sqrt(tp.relu(x)) ** 2, lambda x, y: tp.relu(x)),
    "square": (lambda x, y: tp.sqrt(x * x) * y, lambda x, y: tp.abs(x) * y),
    "log |x|": (lambda x, y: tp.exp(2 * tp.log(tp.abs(x))), lambda x, y: x**2),
    "norm": (lambda x, y: x / tp.sqrt(tp.avg(x * x)) / tp.sqrt(tp.avg(x * x)), lambda x, y: x / tp.avg(x * x)),
    "x/x": (lambda x, y: x / x * y, lambda x, y: y),
    "x²/x": (lambda x, y: y * (x * x / x), lambda x, y: y * x),
    "|x|/|x|": (lambda x, y: tp.abs(x) / tp.abs(x) + y, lambda x, y: 1 + y),
    "softmax of one": (lambda x, y: tp.exp(x) / tp.exp(x) + x, lambda x, y: 1 + x),
    "hypotenuse": (lambda x, y: tp.sqrt(x * x + tp.relu(y) ** 2) ** 2, lambda x, y: x**2 + tp.relu(y) ** 2),
    "1 + relu": (lambda x, y: (1 + tp.relu(x)) / (1 + tp.relu(x)) * y, lambda x, y: y),
    "not chosen": (lambda x, y: tp.where(-1, tp.log(x), y), lambda x, y: y),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_stays_in_its_domain_is_as_short_as_its_result(case):
    one, other = (traced(f) for f in KEPT[case])
    assert [s.body for s in one if hasattr(s, "body")] == [s.body for s in other if hasattr(s, "body")]


def test_a_domain_that_numbers_decide_is_asked_of_its_own_instruction():
    """Var = avg(y²) − avg(y)² is positive in the limit, which algebra does not see: E (x/σ)² = 1."""
    program = traced(lambda x, y: (x / tp.sqrt(tp.avg(y * y) - tp.avg(y) ** 2)) ** 2)
    assert tp.derive(program).evaluate()["return"].value == pytest.approx(1, rel=1e-12)
    wrong = traced(lambda x, y: (x * tp.sqrt(tp.avg(y * y) - 2 * tp.avg(tp.abs(y)))) ** 2)
    with pytest.raises((tp.NoLimitError, tp.EvaluationError), match="is not real at the limit of its arguments"):
        tp.derive(wrong).evaluate()


CHOSEN = {
    "√": lambda x, y: tp.where(x, tp.sqrt(x), y),
    "second side": lambda x, y: tp.where(1 - x, y, tp.log(x)),
    "beyond": lambda x, y: tp.where(x - 1, x**0.3 * (x - 1) ** 0.2, 0),
    "of two": lambda x, y: tp.where(x - y, tp.sqrt(x - y), 0),
    "of a product": lambda x, y: tp.where(x * y, tp.sqrt(2 * x * y), 0),
    "of a square": lambda x, y: tp.where(1 - x * x, asin(x), y),
    "of a function": lambda x, y: tp.where(tp.tanh(x), tp.sqrt(x), 0),
    "of a step": lambda x, y: tp.where(tp.step(x), tp.sqrt(x), tp.sqrt(-x)),
}


@pytest.mark.parametrize("case", CHOSEN)
def test_branches_are_asked_where_they_are_chosen(case):
    """The mean of a million draws, of a function that is written with NumPy's `where`."""
    x, y = np.random.default_rng(3).standard_normal((2, 1_000_000))
    with np.errstate(all="ignore"):
        drawn = {
            "√": np.where(x > 0, np.sqrt(x), y),
            "second side": np.where(1 - x > 0, y, np.log(x)),
            "beyond": np.where(x - 1 > 0, x**0.3 * (x - 1) ** 0.2, 0),
            "of two": np.where(x - y > 0, np.sqrt(x - y), 0),
            "of a product": np.where(x * y > 0, np.sqrt(2 * x * y), 0),
            "of a square": np.where(1 - x * x > 0, np.arcsin(x), y),
            "of a function": np.where(x > 0, np.sqrt(x), 0),
            "of a step": np.where(x > 0, np.sqrt(x), np.sqrt(-x)),
        }[case]
    found = tp.derive(traced(CHOSEN[case])).evaluate()["return"].value
    assert abs(found - drawn.mean()) < 4 * drawn.std() / 1e3


@pytest.mark.parametrize("f", [lambda x, y: tp.where(x, y, tp.sqrt(x)), lambda x, y: tp.where(x + 1, tp.log(x), y)])
def test_branches_that_are_no_numbers_where_they_are_chosen_are_refused(f):
    with pytest.raises(tp.NoLimitError, match="not real with positive probability"):
        tp.derive(traced(f))


def test_a_name_for_a_branch_changes_nothing():
    def named(x, y):
        root = tp.sqrt(x)
        return tp.where(x, root, y)

    assert tp.derive(traced(named)).evaluate() == tp.derive(traced(CHOSEN["√"])).evaluate()


def powers(f):
    def program(x: tp.Vector, y: tp.Vector, *, c):
        return tp.avg(y * y * f(x, c))

    return tp.program(program)


def network_of(f):
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, *, c):
        return v * f(tp.sum(U * ξ, over="d"), c)

    return tp.network(network)


#: x, x, x, x² and x at c = ½, where every one of them is no number for half of the neurons
GIVEN_LATER = {
    "x^c·x^c": lambda x, c: x**c * x**c,
    "square": lambda x, c: (x**c) ** 2,
    "quotient": lambda x, c: x * x**c / x**c,
    "complement": lambda x, c: x**c * x ** (1 - c),
    "beside a root": lambda x, c: (x + 1) ** c * tp.sqrt(x + 1),
    "exponential": lambda x, c: tp.exp(4 * c * tp.log(x)),
    "sine": lambda x, c: tp.sin(2 * c * asin(x)),
    "root of a multiple": lambda x, c: tp.sqrt(c * x) ** 2,
}
DATA = np.array([[0.6, 0.8], [1.0, 0.0]])
ASKED = {"error": tp.squared_error([1.0, 0.0]), "lr": 2.0, "steps": 1}
FROZEN = {"U": tp.Frozen(), "v": tp.SGD()}
ENGINES = {
    "width": lambda f, c: tp.derive(powers(f)).evaluate(**c),
    "width, bound": lambda f, c: tp.derive(powers(f).bind(**c)).evaluate(),
    "expansion": lambda f, c: tp.derive(powers(f), tp.FiniteWidth()).evaluate(**c),
    "kernels": lambda f, c: tp.derive(network_of(f), tp.Kernels(train=("v",))).evaluate(DATA, **c),
    "kernels, bound": lambda f, c: tp.derive(network_of(f).bind(**c), tp.Kernels(train=("v",))).evaluate(DATA),
    "operator": lambda f, c: tp.derive(network_of(f), tp.NeuralTangent(FROZEN, f0=0)).evaluate(DATA, **ASKED, **c),
    "features": lambda f, c: tp.derive(network_of(f), tp.MaximalUpdate(FROZEN)).evaluate(
        DATA, **ASKED, particles=64, replicates=2, **c
    ),
}


@pytest.mark.parametrize("case", GIVEN_LATER)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_domain_is_kept_until_a_constant_has_its_value(engine, case):
    with pytest.raises(
        (tp.NoLimitError, tp.EvaluationError), match=r"not real|exponent .* is not known|not established"
    ):
        ENGINES[engine](GIVEN_LATER[case], {"c": 0.5})


@pytest.mark.parametrize("case", GIVEN_LATER)
def test_blocks_ask_for_the_constant_first(case):
    def block(s: tp.State["token"], X: tp.Matrix, M: tp.Matrix, *, c):
        return s + M @ GIVEN_LATER[case](X @ s, c) / tp.sqrt(tp.n)

    with pytest.raises(tp.NoLimitError, match=r"is real at all neurons rests on c|not real with positive probability"):
        tp.derive(tp.block(block), tp.Proportional())
    with pytest.raises(tp.NoLimitError, match="not real with positive probability"):
        tp.derive(tp.block(block).bind(c=0.5), tp.Proportional())


@pytest.mark.parametrize("case", ["x^c·x^c", "square"])
def test_whole_powers_are_the_same_as_ever(case):
    """E x^(2·2)."""
    f = GIVEN_LATER[case]
    assert tp.derive(powers(f)).evaluate(c=2)["return"].value == pytest.approx(3.0, abs=1e-12)
    assert tp.derive(powers(f).bind(c=2)).evaluate()["return"].value == pytest.approx(3.0, abs=1e-12)
    assert powers(f).bind(c=2).run(n=64, seed=0)["return"] > 0


def test_powers_of_moduli_are_one_function():
    program = powers(lambda x, c: tp.abs(x) ** c * tp.abs(x) ** c)
    assert len(program) == len(powers(lambda x, c: tp.abs(x) ** (2 * c)))
    assert tp.derive(program).evaluate(c=0.5)["return"].value == pytest.approx(np.sqrt(2 / np.pi), rel=1e-9)


def test_a_domain_that_is_an_instruction_is_not_lost_in_what_cancels():
    """|y| − max(y, −y) is 0, and y = x/√(½ + s) with s → 0 is read elsewhere: nothing is to be refused."""

    @tp.program
    def subject(V: tp.Matrix, x: tp.Vector):
        y = x / tp.sqrt(0.5 + tp.avg((V @ x) ** 2) - tp.avg(x**2))
        nothing = tp.abs(y) - tp.maximum(y, -y)
        chosen = tp.where(nothing - 0.5, 5, x)
        return tp.avg(y**2), tp.avg(chosen**2)

    found, run = tp.derive(subject).evaluate(), subject.run(n=4096, seed=0)
    for name, value in {"return[0]": 2, "return[1]": 1}.items():
        assert found[name].value == pytest.approx(value, rel=1e-9)
        assert run[name] == pytest.approx(value, rel=0.2)


def test_a_domain_that_no_argument_leaves_is_not_lost():
    """1 + (sign(x)² − 1) is a square, whose root is |sign(x)|; the root of sign(x)³ is no number at x < 0."""

    @tp.program
    def subject(x: tp.Vector):
        y = tp.sign(x) ** 2 - 1
        chosen = tp.where(x, x, 2)
        return tp.avg((tp.sqrt(1 + y) * x) ** 2), tp.avg(chosen)

    found, run = tp.derive(subject).evaluate(), subject.run(n=10**5, seed=0)
    assert found["return[0]"].value == pytest.approx(1, rel=1e-9)
    assert run["return[0]"] == pytest.approx(1, rel=0.05)

    def lost(x: tp.Vector):
        y = tp.sign(x) ** 3 - 1
        return tp.avg((tp.sqrt(1 + y) * x) ** 2)

    with pytest.raises((tp.ProgramError, tp.NoLimitError)):
        tp.derive(tp.program(lost))


def wave(u):
    return tp.abs(u * tp.exp(-(u**2) / 2))


def test_moduli_of_functions_of_a_logarithm_are_real():
    """SymPy writes |u e^(−u²/2)| with real parts of u, as log s of any s may be complex: that was no legal program."""

    @tp.program
    def subject(x: tp.Vector, y: tp.Vector):
        u = tp.log(tp.avg(x**2) + 1) + y
        return tp.avg(wave(u))

    grid = np.linspace(-12, 12, 200_001)
    u = np.log(2) + grid
    exact = np.sum(abs(u) * np.exp(-(u**2) / 2 - grid**2 / 2)) * (grid[1] - grid[0]) / np.sqrt(2 * np.pi)
    assert tp.derive(subject).evaluate()["return"].value == pytest.approx(exact, rel=1e-7)
    assert subject.run(n=10**5, seed=1)["return"] == pytest.approx(exact, rel=0.02)

    @tp.program
    def unreal(x: tp.Vector, y: tp.Vector):
        u = tp.log(x) + y
        return tp.avg(wave(u))

    with pytest.raises(tp.NoLimitError, match="not real with positive probability"):
        tp.derive(unreal)
