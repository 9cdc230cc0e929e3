"""Laws of initial entries: samples and moments against SciPy's distributions, printing, files, limits."""

import mpmath
import numpy as np
import pytest
import scipy
import sympy
from sympy import Rational, S

import tplimits as tp
from tplimits.program.nodes.drawing import drawn as entries_drawn
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.execution import Execution
from tplimits.program.nodes.functions import truncated
from tplimits.program.nodes.laws import NORMAL, Law, truncated_normal, uniform

LAWS = {
    "uniform": (uniform(S(-1), S(3)), scipy.stats.uniform(-1, 4)),
    "truncated": (truncated_normal(Rational(1, 2), S(1)), scipy.stats.truncnorm(-2, 2, scale=0.5)),
    "cut narrowly": (truncated_normal(S(2), Rational(1, 2)), scipy.stats.truncnorm(-0.25, 0.25, scale=2)),
    "cut far out": (truncated_normal(S(1), S(9)), scipy.stats.truncnorm(-9, 9)),
    "normal": (Law(S(1), S(2)), scipy.stats.norm(1, 2)),
}
HALF_BEYOND_ONE = scipy.stats.truncnorm(-1.5, 1.5)


@pytest.mark.parametrize("name", LAWS)
def test_moments_are_those_of_scipy(name):
    law, known = LAWS[name]
    assert float(law.mean) == pytest.approx(known.mean(), abs=1e-12)
    assert float(law.std) == pytest.approx(known.std(), rel=1e-10)


@pytest.mark.parametrize("name", LAWS)
def test_the_image_carries_quantiles_to_quantiles(name):
    law, known = LAWS[name]
    g = np.linspace(-5, 5, 101)
    found = entries_drawn(law, g.shape, lambda: g, {})
    assert np.allclose(found, known.ppf(scipy.stats.norm.cdf(g)), rtol=1e-9, atol=1e-9)
    symbol = sympy.Symbol("g", real=True)
    assert np.allclose(evaluate(law.image(symbol), {symbol: g}), found)


def test_far_tails_keep_their_digits():
    x, c = sympy.symbols("x c", real=True)
    at = np.array([-40.0, -12.0, -9.0, 0.0, 9.0, 12.0, 40.0])
    found = evaluate(truncated(x, c), {x: at, c: 10.0})
    with mpmath.workdps(60):
        inside = mpmath.erf(10 / mpmath.sqrt(2))
        known = [mpmath.sqrt(2) * mpmath.erfinv(inside * mpmath.erf(a / mpmath.sqrt(2))) for a in at[2:5]]
    assert np.array_equal(found, -found[::-1]) and np.allclose(found[2:5], np.array(known, dtype=float), rtol=1e-9)
    assert found[-1] == 10.0
    assert np.allclose(evaluate(truncated(x, c), {x: at, c: 0.5})[[0, -1]], [-0.5, 0.5])


def test_the_slope_of_a_truncated_variable():
    x = sympy.Symbol("x", real=True)
    f = truncated(x, Rational(3, 2))
    at = np.linspace(-3, 3, 13)
    by_differences = (evaluate(f, {x: at + 1e-6}) - evaluate(f, {x: at - 1e-6})) / 2e-6
    assert np.allclose(evaluate(f.diff(x), {x: at}), by_differences, rtol=1e-7)


@tp.network
def drawn(
    x: tp.Input["d"],
    U: tp.Vector["d"].uniform(-0.5, 1),
    w: tp.Vector.truncated(0.5, 1),
    c: tp.Vector.constant(2),
    q: tp.Scalar["d"].uniform(-1, 1),
    r: tp.Scalar.constant(3),
    b: tp.Scalar.normal(1, 2),
):
    return tp.readout(c * tp.tanh(w + tp.sum(U * q * x, over="d"))) + r * b


def test_they_print_readably():
    lines = repr(drawn).splitlines()
    for what in (
        "over n, entries uniform in [-1/2, 1]",
        "over n, entries N(0, 1/4) within ±1",
        "over n, every entry 2",
        "drawn, uniform in [-1, 1]",
        "drawn, N(1, 4)",
    ):
        assert any(what in line for line in lines), what
    assert any(line.split("=")[1].split()[0] == "3" for line in lines if " r " in line)
    assert NORMAL.described() == "N(0, 1)" and str(tp.Vector["d"].uniform(-1, 1)).endswith("uniform in [-1, 1]")


def test_finite_networks_draw_them():
    run = Execution(drawn.bind(d=2), 500, 40, np.random.default_rng(0), given={"x": [1.0, 2.0]}).run()
    arrays = {s.name: a for s, a in zip(drawn, run.arrays, strict=True)}
    for name, law in {
        "U": scipy.stats.uniform(-0.5, 1.5),
        "w": scipy.stats.truncnorm(-2, 2, scale=0.5),
        "q": scipy.stats.uniform(-1, 2),
        "b": scipy.stats.norm(1, 2),
    }.items():
        assert scipy.stats.kstest(arrays[name].ravel(), law.cdf).pvalue > 1e-3, name
    assert (arrays["c"] == 2).all() and (arrays["r"] == 3).all()
    assert scipy.stats.kstest(arrays["U"].ravel(), scipy.stats.uniform(-0.5, 1.4).cdf).pvalue < 1e-6


def test_the_width_limit_takes_the_image():
    @tp.program
    def moments(W: tp.Matrix, x: tp.Vector.uniform(-1, 2), y: tp.Vector.truncated(1, 1.5)):
        return tp.avg((W @ x) ** 2), tp.avg(tp.tanh(x) * y**2), tp.avg(x**4), tp.avg((W @ y) ** 2)

    limit = tp.derive(moments)
    x, y = scipy.stats.uniform(-1, 3), scipy.stats.truncnorm(-1.5, 1.5)
    values = [number.value for number in limit.evaluate().values()]
    assert np.allclose(values, [1, x.expect(np.tanh) * y.var(), x.moment(4), y.var()], rtol=1e-8)
    assert "uniform in [-1, 2]" in "\n".join(str(step) for step in limit.steps) or limit.steps
    assert r"\mathcal{U}\left[-1, 2\right]" in limit.latex() and r"\text{ within }" in limit.latex()


@pytest.mark.sampling
def test_finite_width_accepts_the_limit_and_rejects_that_of_a_normal_law():
    @tp.program
    def fourth(x: tp.Vector.uniform(-1, 1)):
        return tp.avg(tp.relu(x)), tp.avg(x**4)

    @tp.program
    def normal(x: tp.Vector = tp.init(0, 1 / np.sqrt(3))):  # noqa: B008
        return tp.avg(tp.relu(x)), tp.avg(x**4)

    limit, twin = tp.derive(fourth), tp.derive(normal)
    assert tp.check(limit).accepted
    for name in ("return[0]", "return[1]"):
        assert not tp.check(limit, claims={name: twin.evaluate()[name].value}).accepted


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: tp.Vector.uniform(1, 1), "give the lower end first"),
        (lambda: tp.Vector.uniform(2, 1), "give the lower end first"),
        (lambda: tp.Vector.uniform("a", 1), "give a finite real number"),
        (lambda: tp.Vector.uniform(0, float("inf")), "finite"),
        (lambda: tp.Vector.truncated(0, 1), "positive standard deviation"),
        (lambda: tp.Vector.truncated(1, -1), "positive end"),
        (lambda: tp.Scalar.normal(0, -1), "not negative"),
        (lambda: tp.Vector.uniform(0, 1).truncated(1, 1), "entries have one law"),
        (lambda: tp.Matrix["n", "n"].uniform(0, 1), "entries of matrices are iid N"),
        (lambda: tp.Input["d"].constant(0), "data are given"),
        (lambda: tp.Vector.gamma(1), "gamma"),
    ],
)
def test_laws_that_are_none(make, what):
    with pytest.raises((tp.ProgramError, AttributeError), match=what):
        make()


def test_a_law_and_a_default_are_refused():
    def vector(x: tp.Vector.uniform(0, 1) = 3):
        return tp.avg(x)

    def scalar(x: tp.Scalar.uniform(0, 1) = 3):
        return x

    for function in (vector, scalar):
        with pytest.raises(tp.ProgramError, match="a default and a law"):
            tp.program(function)


def test_limits_ask_for_scalars_that_are_drawn():
    @tp.program
    def scaled(x: tp.Vector, b: tp.Scalar.uniform(0, 1)):
        return b * tp.avg(x**2)

    assert 0 <= scaled.run(n=10, seed=1)["b"] <= 1 and scaled.run(n=10, seed=1)["b"] != scaled.run(n=10, seed=2)["b"]
    limit = tp.derive(scaled)
    with pytest.raises(tp.EvaluationError, match=r"`b` \(drawn, uniform in \[0, 1\]\) has no value"):
        limit.evaluate()
    assert limit.evaluate(b=0.25)["return"].value == pytest.approx(0.25)


def test_biases_with_a_law_are_in_the_kernel_and_no_gaussian_process_in_the_operator_regime():
    @tp.network
    def biased(x: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, b: tp.Scalar.uniform(-1, 1)):
        return tp.readout(v * tp.relu(tp.sum(U * x, over="d"))) + b

    assert tp.derive(biased, tp.Kernels()).evaluate([[1.0]]).nngp.item() == pytest.approx(1 / 2 + 1 / 3)
    with pytest.raises(tp.NoLimitError, match=r"`b` is drawn, uniform in \[-1, 1\], and added to the output"):
        tp.derive(biased, tp.NeuralTangent(tp.SGD()))


@pytest.mark.parametrize("cut", [0.7, 2.0])
def test_the_slope_of_a_cut_normal_is_the_ratio_of_densities(cut):
    """T = Φ_cut⁻¹ ∘ Φ has T′ = φ(x) (2 Φ(c) − 1)/φ(T): by differences of its values."""
    x = sympy.Symbol("x", real=True)
    slope = truncated(x, sympy.Rational(cut)).diff(x)
    for at in (-1.3, 0.0, 0.8):
        known = {x: np.array([at - 1e-5, at, at + 1e-5])}
        low, middle, high = evaluate(truncated(x, sympy.Rational(cut)), known)
        assert float(evaluate(slope, known)[1]) == pytest.approx((high - low) / 2e-5, rel=1e-6)
        assert abs(middle) < cut


@pytest.mark.parametrize(
    ("function", "value"),
    [(lambda x: 1 / (2 - x), lambda t: 1 / (2 - t)), (lambda x: tp.log(2 + x), lambda t: np.log(2 + t))],
    ids=["pole", "logarithm"],
)
@pytest.mark.parametrize(
    ("kind", "law"),
    [(tp.Vector.uniform(-1, 1), scipy.stats.uniform(-1, 2)), (tp.Vector.truncated(1, 1.5), HALF_BEYOND_ONE)],
    ids=["uniform", "truncated"],
)
def test_what_bounded_entries_do_not_reach_is_no_pole(kind, law, function, value):
    """Limits, and √(C/n) of averages of independent entries, by SciPy's law."""

    @tp.program
    def kept_off(x: kind):
        return tp.avg(function(x))

    mean, square = (law.expect(lambda t, k=k: value(t) ** k) for k in (1, 2))
    assert tp.derive(kept_off).evaluate()["return"].value == pytest.approx(mean, rel=1e-10)
    at = tp.derive(kept_off, tp.FiniteWidth()).evaluate()["return"]
    assert (at.bias.value, at.variance.value) == (
        pytest.approx(0, abs=1e-10),
        pytest.approx(square - mean**2, rel=1e-8),
    )

    @tp.program
    def reached(x: tp.Vector):
        return tp.avg(function(x))

    with pytest.raises(tp.NoLimitError, match="no finite second moment"):
        tp.derive(reached, tp.FiniteWidth())


def test_truncated_entries_are_odd_and_have_digits():
    x = sympy.Symbol("x", real=True)
    assert truncated(-2 * x, S(3)) == -truncated(2 * x, S(3))
    at = truncated(Rational(1, 2), Rational(3, 2)).evalf(30)
    assert abs(scipy.stats.truncnorm(-1.5, 1.5).cdf(float(at)) - scipy.stats.norm.cdf(0.5)) < 1e-15

    @tp.program
    def odd(x: tp.Vector.truncated(1, 1.5)):
        return tp.sqrt(tp.n) * tp.avg(tp.sin(x))

    assert tp.derive(odd).evaluate()["return"].variance == pytest.approx(
        HALF_BEYOND_ONE.expect(lambda t: np.sin(t) ** 2), rel=1e-9
    )

    @tp.network
    def jumping(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Vector.truncated(1, 1.5), v: tp.Vector):
        return v * tp.relu(b) * tp.sum(U * ξ, over="d") * tp.sign(b - 1)

    found = tp.derive(jumping, tp.Kernels(train=("v",))).evaluate([[1.0], [2.0]])
    assert found.nngp == pytest.approx(HALF_BEYOND_ONE.var() / 2 * np.array([[1, 2], [2, 4]]), rel=1e-9)
