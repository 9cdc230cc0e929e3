"""Fluctuation scalars: exact in the safe class, refused outside it."""

import math

import mpmath
import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.errors import EvaluationError


def variance(function):
    program = tp.program(function)
    return tp.derive(program).evaluate()["return"].variance


def test_a_fresh_readout_has_the_bracket_as_covariance():
    def program(W: tp.Matrix, x: tp.Vector, v: tp.Vector):
        return tp.avg(v * tp.relu(W @ x)) * tp.sqrt(tp.n)

    assert variance(program) == pytest.approx(0.5, abs=1e-15)


def test_logits_with_two_matrices():
    @tp.program
    def program(Q: tp.Matrix, K: tp.Matrix, x: tp.Vector["token"]):
        y = x.sel(token=0) + x.sel(token=1)
        q, k = Q @ y, K @ x
        return tp.avg(q * k) * tp.sqrt(tp.n)

    limit = tp.derive(program.bind(token=2))
    # Cov = ⟨y|y⟩⟨x_a|x_b⟩
    assert limit.covariance("return[token=0]", "return[token=0]") == 2
    assert limit.covariance("return[token=0]", "return[token=1]") == 0


def test_covariances_with_shared_readouts():
    @tp.program
    def program(W: tp.Matrix, a: tp.Vector, b: tp.Vector, v: tp.Vector):
        first = tp.avg(v * tp.relu(W @ a)) * tp.sqrt(tp.n)
        second = tp.avg(v * tp.relu(W @ (a + b))) * tp.sqrt(tp.n)
        return first, second

    limit = tp.derive(program)
    kernel = sympy.sqrt(2) / (2 * sympy.pi) * (sympy.sin(sympy.pi / 4) + 3 * sympy.pi / 4 * sympy.cos(sympy.pi / 4))
    assert sympy.simplify(limit.covariance("return[0]", "return[1]") - kernel) == 0


def test_functions_of_initial_vectors_obey_the_classical_theorem():
    def program(z: tp.Vector):
        return (tp.avg(z**4) - 3) * tp.sqrt(tp.n)

    assert variance(program) == pytest.approx(96, abs=1e-12)  # E z⁸ − 9


def test_other_widths_carry_their_own_root():
    @tp.program
    def program(Q: tp.Matrix["k", "n"], K: tp.Matrix["k", "n"], x: tp.Vector, y: tp.Vector):
        return tp.avg((Q @ x) * (K @ y)) * tp.sqrt(tp.width("k"))

    assert tp.derive(program).evaluate(ratios={"k": 3})["return"].variance == pytest.approx(1)


def test_nonlinear_functions_of_a_fluctuation():
    @tp.program
    def program(u: tp.Vector, v: tp.Vector, x: tp.Vector):
        s = tp.avg(u * v) * tp.sqrt(tp.n)
        return tp.cos(s), tp.avg(x * x * s**2)

    numbers = tp.derive(program).evaluate()
    assert numbers["return[0]"].value == pytest.approx(float(sympy.exp(-sympy.Rational(1, 2))), abs=1e-14)
    assert numbers["return[1]"].value == pytest.approx(1) and numbers["return[1]"].variance == pytest.approx(2)


def test_small_arguments_of_smooth_functions():
    def program(u: tp.Vector, v: tp.Vector):
        return tp.tanh(tp.avg(u * v)) * tp.sqrt(tp.n)

    assert variance(program) == pytest.approx(1)


@pytest.mark.parametrize("case", ["square", "same matrix", "transpose", "tied logits", "scalar of the fresh vector"])
def test_outside_the_safe_class_is_refused(case):
    def square(W: tp.Matrix, z: tp.Vector):
        return (tp.avg((W @ z) ** 2) - 1) * tp.sqrt(tp.n)

    def same_matrix(W: tp.Matrix, z: tp.Vector, v: tp.Vector):
        return tp.avg((W @ z) * tp.tanh(W @ v)) * tp.sqrt(tp.n)

    def transpose(Q: tp.Matrix, K: tp.Matrix, x: tp.Vector):
        k = K @ x
        s = tp.avg((Q @ x) * k) * tp.sqrt(tp.n)
        return s - tp.avg(x * (Q.T @ k)) * tp.sqrt(tp.n)

    def tied_logits(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        return tp.avg((W @ x) * (W @ y)) * tp.sqrt(tp.n)

    def own_scalar(u: tp.Vector, v: tp.Vector):
        return tp.avg(u * v * tp.avg(tp.exp(u) * tp.exp(v))) * tp.sqrt(tp.n)

    cases = {
        "square": square,
        "same matrix": same_matrix,
        "transpose": transpose,
        "tied logits": tied_logits,
        "scalar of the fresh vector": own_scalar,
    }
    with pytest.raises(tp.NoLimitError, match="⟨x\\|x'⟩ would be wrong here"):
        tp.derive(tp.program(cases[case]))


@pytest.mark.long
@pytest.mark.sampling
def test_finite_width_accepts_the_variance_and_rejects_a_wrong_one():
    @tp.program
    def program(Q: tp.Matrix, K: tp.Matrix, x: tp.Vector, y: tp.Vector):
        return tp.avg((Q @ (x + y)) * (K @ y)) * tp.sqrt(tp.n)

    limit = tp.derive(program)
    widths, draws = (32, 64, 128), (6000, 3000, 1500)
    assert tp.check(limit, widths, draws, seed=0, level=1e-3, progress=False).accepted
    assert not tp.check(limit, widths, draws, seed=0, level=1e-3, claims={"return": 1.0}, progress=False).accepted


def test_an_open_mean_centres_what_has_the_same_law():
    def program(x: tp.Vector):
        return tp.sqrt(tp.n) * tp.avg(x * tp.tanh(x) - tp.expect(lambda g: g * tp.tanh(g)))

    def mean(f):
        return mpmath.quad(lambda g: f(g) * mpmath.npdf(g), [-mpmath.inf, 0, mpmath.inf])

    expected = mean(lambda g: (g * mpmath.tanh(g)) ** 2) - mean(lambda g: g * mpmath.tanh(g)) ** 2
    assert variance(program) == pytest.approx(float(expected), abs=1e-12)


def test_a_random_mean_without_a_closed_form_has_no_law():
    @tp.program
    def hidden(W: tp.Matrix, x: tp.Vector, v: tp.Vector):
        s = tp.sqrt(tp.n) * tp.avg(x * v)
        r = tp.avg(tp.tanh(s * (W @ x) + 1))
        return s, tp.avg(tp.relu(s * (W @ x))), r

    limit = tp.derive(hidden)
    assert limit.covariance("s", "s") == 1
    with pytest.raises(tp.EvaluationError, match="`r` depends on a mean that is itself random"):
        limit.covariance("r", "r")


def test_fluctuations_of_other_widths_are_independent_or_refused():
    def other_sources(W: tp.Matrix["k", "n"], x: tp.Vector, y: tp.Vector, z: tp.Vector, a: tp.Vector["k"]):
        return tp.sqrt(tp.n) * tp.avg(x * y), tp.sqrt(tp.width("k")) * tp.avg(a * tp.tanh(W @ z))

    limit = tp.derive(tp.program(other_sources))
    assert limit.covariance("return[0]", "return[1]") == limit.covariance("return[1]", "return[0]") == 0
    assert limit.covariance("return[0]", "return[0]") == 1

    def one_number(W: tp.Matrix["k", "n"], x: tp.Vector, b: tp.Vector["k"]):
        return tp.sqrt(tp.n) * tp.avg(x * (W.T @ b)), tp.sqrt(tp.width("k")) * tp.avg(b * (W @ x))

    with pytest.raises(tp.NoLimitError, match="shares sources with a fluctuation scalar of another width"):
        tp.derive(tp.program(one_number))


def test_fluctuations_of_other_widths_that_read_one_vector_by_fresh_ones_are_independent():
    def shared(W: tp.Matrix["k", "n"], x: tp.Vector, v: tp.Vector, b: tp.Vector["k"]):
        return tp.sqrt(tp.n) * tp.avg(x * v), tp.sqrt(tp.width("k")) * tp.avg(b * (W @ x))

    program = tp.program(shared)
    limit = tp.derive(program)
    assert [limit.covariance("return[0]", f"return[{i}]") for i in (0, 1)] == [1, 0]
    runs = [program.run(n=64, seed=seed) for seed in range(600)]
    one, other = (np.array([float(run[f"return[{i}]"]) for run in runs]) for i in (0, 1))
    # of independent Gaussians: five deviations of a mean of 600
    assert abs(np.mean(one * other)) < 5 / np.sqrt(600) < 0.5
    assert np.mean(one**2) == pytest.approx(1, abs=5 * np.sqrt(2.3 / 600))


@pytest.mark.parametrize("turned", [False, True])
def test_two_fluctuations_are_judged_together(turned):
    """Each is of the class by itself; what is fresh in one stands in an average that the other reads."""

    def program(u: tp.Vector, x: tp.Vector, w: tp.Vector):
        one = tp.sqrt(tp.n) * tp.avg(u * x)
        other = tp.sqrt(tp.n) * tp.avg(w * (2 + tp.avg(tp.tanh(u) * tp.tanh(x))))
        return (other, one) if turned else (one, other)

    def alone(u: tp.Vector, x: tp.Vector, w: tp.Vector):
        return tp.sqrt(tp.n) * tp.avg(w * (2 + tp.avg(tp.tanh(u) * tp.tanh(x))))

    assert variance(alone) == pytest.approx(4)
    with pytest.raises(tp.NoLimitError, match="its fresh factors are not independent"):
        tp.derive(tp.program(program))


def test_a_variance_that_is_itself_random_is_refused():
    """√k·Avg(a b cos S) has the variance E a² E b² cos² S: no number, whether S is of its width or of another."""

    def hidden(W: tp.Matrix["k", "n"], u: tp.Vector, v: tp.Vector, z: tp.Vector, a: tp.Vector["k"]):
        s = tp.sqrt(tp.n) * tp.avg(u * v)
        return tp.sqrt(tp.width("k")) * tp.avg(a * tp.cos(s) * (W @ z))

    def vanishing(u: tp.Vector, v: tp.Vector, x: tp.Vector, a: tp.Vector, b: tp.Vector):
        s = tp.sqrt(tp.n) * tp.avg(x * tp.avg(u * v))
        return tp.sqrt(tp.n) * tp.avg(a * b * tp.cos(s))

    for function, why in ((hidden, "shares sources with"), (vanishing, "depends on another fluctuation scalar")):
        with pytest.raises(tp.NoLimitError, match=why):
            tp.derive(tp.program(function))


@pytest.mark.parametrize(("factors", "told"), [((0.1, 0.2, -0.3), True), ((0.5, -0.25, -0.25), False)])
def test_means_that_are_zero_up_to_rounding_are_told_where_data_take_part(factors, told):
    """⟨a x² + b y² + c z²⟩ = a + b + c, which is 5.6e-17 in decimal numbers."""

    @tp.program
    def centred(x: tp.Vector, y: tp.Vector, z: tp.Vector):
        a, b, c = factors
        data = tp.constant([1.0, 2.0], axes="a")
        return tp.sqrt(tp.n) * tp.avg(a * x**2 + b * y**2 + c * z**2), tp.avg(tp.sum(data * x * x, over="a"))

    (step,) = (s for s in tp.derive(centred).steps if s.rule == "fluctuation")
    assert ("judged zero at 1e-12" in " ".join(step.remarks)) is told


def test_places_of_neurons_do_not_fluctuate():
    """(1/√n) Σ p v has a variance by v, which is fresh; nothing is by the places p, which are the same in each draw."""

    def fresh(p: tp.Vector.grid(), v: tp.Vector):
        return tp.sqrt(tp.n) * tp.avg(p * v)

    def places(p: tp.Vector.grid(), v: tp.Vector):
        return tp.sqrt(tp.n) * tp.avg((p - tp.avg(p)) * tp.cos(v))

    assert variance(fresh) == pytest.approx(1 / 3)
    with pytest.raises(tp.NoLimitError, match="outside the class"):
        tp.derive(tp.program(places))


def test_names_of_variances_are_positive_and_those_of_covariances_are_not():
    """√(c²) of a covariance is |c|."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector, v: tp.Vector, *, a, b, c, d, e, f):
        one = a * tp.relu(x) + b * x**2 + c * x + d * x**3 + e + f * x**4
        two = b * tp.relu(x) + c * x**2 + d * y + e * x**3 + f + a * y**4
        return tp.sqrt(tp.n) * tp.avg(v * one), tp.sqrt(tp.n) * tp.avg(v * two)

    limit = tp.derive(program)
    own, mixed = limit.state.covariances, ("return[0]", "return[1]")
    signs = {(p == q): value.is_positive for (p, q), value in own.items()}
    assert signs == {True: True, False: None}, mixed


#: what vanishes in the limit with s = Avg(x) → 0, and the variance of √n times its average by hand
HIDDEN = {
    "a mean": (lambda W, x, y, s: tp.relu(y) * s, 1 / (2 * math.pi)),
    "beside what is fresh": (lambda W, x, y, s: y + tp.relu(y) * s, 1 + 1 / (2 * math.pi)),
    "a difference": (lambda W, x, y, s: tp.relu(y + s) - tp.relu(y), 1 / 4),
    "in another line": (lambda W, x, y, s: x * (tp.exp(s) * x - x), 1),
    "a scalar": (lambda W, x, y, s: y + s, 2),
    "an image of what vanishes": (lambda W, x, y, s: (W @ (x * s)) * (W @ x), 1),
    "a quotient": (lambda W, x, y, s: tp.relu(y) * (tp.log(1 + s) / s) - tp.relu(y), 1 / (8 * math.pi)),
}


@pytest.mark.parametrize("case", HIDDEN)
def test_what_vanishes_with_a_scalar_is_seen_by_its_fluctuation(case):
    """√n·Avg(relu(y) s) is S E relu(y), of variance 1/2π: the limit of relu(y) s, which is 0, does not show it."""
    function, variance = HIDDEN[case]

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        return tp.sqrt(tp.n) * tp.avg(function(W, x, y, tp.avg(x)))

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], u: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x, y = tp.sum(U * ξ, over="d"), tp.sum(u * ξ, over="d")
        return v * (tp.sqrt(tp.n) * tp.avg(function(W, x, y, tp.avg(x))))

    runs = [program.run(n=300, seed=seed)["return"] for seed in range(400)]
    # five deviations of the variance of 400 draws
    assert np.var(runs) == pytest.approx(variance, rel=5 * (2 / 400) ** 0.5)
    with pytest.raises(tp.NoLimitError, match=r"outside the class whose covariance is known"):
        tp.derive(program).evaluate()
    with pytest.raises(tp.NoLimitError, match=r"outside the class whose covariance is known"):
        tp.derive(network, tp.Kernels(train=("v",))).sample([[1.0]], draws=2)


def test_what_is_linear_in_a_fresh_vector_may_vanish_with_a_scalar():
    """√n·Avg(y s) is s times a fluctuation, which tends to 0; a scalar beside 1 changes no variance."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        s = tp.avg(x)
        return tp.sqrt(tp.n) * tp.avg(y * tp.tanh(s)), tp.sqrt(tp.n) * tp.avg(y * (1 + s) * x)

    found = tp.derive(program).evaluate()
    assert [found[f"return[{i}]"].variance for i in (0, 1)] == [0, pytest.approx(1)]


@pytest.mark.parametrize(
    ("g", "mean"),
    [
        (lambda z, s: z * tp.sqrt(tp.n) * tp.sin(s), 1.0),
        (lambda z, s: z * (1 + tp.sqrt(tp.n) * (1 - tp.cos(s))), 1.0),
        (lambda z, s: z * tp.n * (1 - tp.cos(s)), 0.75),  # E S⁴/4
        (lambda z, s: z * tp.sqrt(tp.n) * tp.exp(s) - z * tp.sqrt(tp.n), 1.0),
    ],
)
def test_functions_of_small_averages_beside_vectors(g, mean):
    """A vector stands before the series of √n f(S/√n); kernels are random then, with this mean."""

    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector, z: tp.Vector):
        return tp.avg(g(z, tp.avg((W @ x) * y)) ** 2)

    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, y: tp.Vector, z: tp.Vector, v: tp.Vector):
        return v * g(z, tp.avg((W @ tp.sum(U * ξ, over="d")) * y))

    assert tp.derive(tp.program(program)).evaluate()["return"].value == pytest.approx(mean, rel=1e-12)
    kernels, X = tp.derive(tp.network(network), tp.Kernels(train=("v",))), np.array([[0.6, 0.8]])
    if not kernels.is_mixture:
        assert kernels.evaluate(X).nngp.item() == pytest.approx(mean, rel=1e-12)
        return
    drawn = kernels.sample(X, draws=4096, seed=0).nngp.ravel()
    assert abs(drawn.mean() - mean) < 4 * drawn.std() / np.sqrt(len(drawn))


@pytest.mark.parametrize("power", [2, 5, 6])
def test_long_polynomials_of_correlated_fluctuations(power):
    def program(x: tp.Vector, v: tp.Vector):
        s, t = (tp.avg(v * y) * tp.sqrt(tp.n) for y in (x, tp.relu(x)))
        return (1 + s + t) ** power

    # s + t is a Gaussian with variance E (x + relu x)² = 5/2, and s and t apart would be one with 3/2
    def spread(deviation):
        mean, square = (gaussian_mean(lambda g, k=k: (1 + deviation * g) ** (k * power)) for k in (1, 2))
        return square - mean**2

    assert variance(program) == pytest.approx(float(spread(mpmath.sqrt(2.5))), rel=1e-12)
    assert variance(program) != pytest.approx(float(spread(mpmath.sqrt(1.5))), rel=1e-3)


def gaussian_mean(function):
    return mpmath.quad(lambda g: function(g) * mpmath.npdf(g), [-mpmath.inf, -5, 0, 5, mpmath.inf])


#: functions of two Gaussians whose squares have no mean, though integrals settle on numbers
WITHOUT_VARIANCE = {
    "1/√(s² + t²)": lambda s, t: 1 / tp.sqrt(s * s + t * t),
    "max(s, t)/(s² + t²)": lambda s, t: tp.maximum(s, t) / (s * s + t * t),
    "max(s, t)/min(s, t)": lambda s, t: tp.maximum(s, t) / tp.minimum(s, t),
    "1/√|s|": lambda s, t: 1 / tp.sqrt(tp.abs(s)),
}


@pytest.mark.parametrize("name", WITHOUT_VARIANCE)
@pytest.mark.parametrize("correlated", [False, True])
def test_functions_of_fluctuations_without_a_variance_are_refused(name, correlated):
    @tp.program
    def program(x: tp.Vector, y: tp.Vector, v: tp.Vector):
        s = (tp.avg(x * y) * tp.sqrt(tp.n)).named("s")
        t = (tp.avg(y * x**3 if correlated else v * x**3) * tp.sqrt(tp.n)).named("t")
        return WITHOUT_VARIANCE[name](s, t)

    with pytest.raises(EvaluationError, match="random in the limit and has no finite variance"):
        tp.derive(program).evaluate(only=("return",))


def test_a_function_of_fluctuations_that_has_a_variance_beside_a_pole():
    def program(x: tp.Vector, y: tp.Vector, v: tp.Vector):
        s, t = (tp.avg(x * z) * tp.sqrt(tp.n) for z in (y, v))
        return s / (s * s + t * t) ** sympy.Rational(3, 4)

    # r^(−1/2) cos φ: ½ E 1/r = ½ √(π/2)
    assert variance(program) == pytest.approx(math.sqrt(math.pi / 2) / 2, rel=1e-6)


@pytest.mark.parametrize("name", WITHOUT_VARIANCE)
@pytest.mark.parametrize("correlated", [False, True])
def test_variances_without_a_closed_form_make_no_variance(name, correlated):
    """1/√(s² + t²) had the variance 246.9 where E tanh² x stands for a number."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector, v: tp.Vector):
        s = (tp.avg(tp.tanh(x) * y) * tp.sqrt(tp.n)).named("s")
        t = (tp.avg((y if correlated else v) * tp.sin(tp.tanh(x))) * tp.sqrt(tp.n)).named("t")
        return WITHOUT_VARIANCE[name](s, t)

    with pytest.raises(EvaluationError, match="random in the limit and has no finite variance"):
        tp.derive(program).evaluate(only=("return",))


@pytest.mark.parametrize("a", [0.3, 0.7])
def test_exponentials_of_a_fluctuation_have_a_variance_at_some_constants(a):
    """E e^(2as²) = (1 − 4aσ²)^(−1/2) with σ² = E tanh² x = .394, infinite from a = .634 on."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector, *, a):
        return tp.exp(a * (tp.avg(tp.tanh(x) * y) * tp.sqrt(tp.n)).named("s") ** 2)

    squared = float(gaussian_mean(lambda g: mpmath.tanh(g) ** 2))
    if a > 1 / (4 * squared):
        with pytest.raises(EvaluationError, match="has no finite variance: E exp"):
            tp.derive(program).evaluate(only=("return",), a=a)
        return
    found = tp.derive(program).evaluate(only=("return",), a=a)["return"]
    assert found.value == pytest.approx((1 - 2 * a * squared) ** -0.5, rel=1e-9)
    assert found.variance == pytest.approx((1 - 4 * a * squared) ** -0.5 - 1 / (1 - 2 * a * squared), rel=1e-7)
