"""Functions of √n s with s → 0 are functions of a Gaussian, however a program writes them: no series is cut.

Kernels are random with it: given s, of v·h f(s) they are C f(s)² and (C + A) f(s)² + B f′(s)².
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from scipy.special import erf, exprel

import tplimits as tp

#: steps of .03, which the poles of tanh at iπ/2 ask for
NODES = np.linspace(-9, 9, 602)
MASSES = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()

#: a function of s ~ N(0, 1), and its values away from 0
OF_ONE = {
    "sin(s)/s": (lambda s: tp.sin(s) / s, lambda s: np.sin(s) / s),
    "sin(3s)/s": (lambda s: tp.sin(3 * s) / s, lambda s: np.sin(3 * s) / s),
    "(exp s − 1)/s": (lambda s: (tp.exp(s) - 1) / s, exprel),
    "s/tanh s": (lambda s: s / tp.tanh(s), lambda s: s / np.tanh(s)),
    "erf(s)/s": (lambda s: tp.erf(s) / s, lambda s: erf(s) / s),
    "log(1 + s²)/s²": (lambda s: tp.log(1 + s * s) / s**2, lambda s: np.log1p(s * s) / s**2),
    "(s − sin s)/s³": (lambda s: (s - tp.sin(s)) / s**3, lambda s: (s - np.sin(s)) / s**3),
    "1/(1 + sin(s)/s)": (lambda s: 1 / (1 + tp.sin(s) / s), lambda s: 1 / (1 + np.sin(s) / s)),
    "relu(s)/s": (lambda s: tp.relu(s) / s, lambda s: s > 0),
    "tanh²(1/s)": (lambda s: tp.tanh(1 / s) ** 2, lambda s: np.tanh(1 / s) ** 2),
    "s/(s + s³)": (lambda s: s / (s + s**3), lambda s: 1 / (1 + s * s)),
    "exp(s/(s + s³))": (lambda s: tp.exp(s / (s + s**3)), lambda s: np.exp(1 / (1 + s * s))),
    "√(s² + s⁴)/|s|": (lambda s: tp.sqrt(s * s + s**4) / tp.abs(s), lambda s: np.sqrt(1 + s * s)),
    "(√(1 + s²) − 1)/s²": (lambda s: (tp.sqrt(1 + s * s) - 1) / s**2, lambda s: 1 / (1 + np.sqrt(1 + s * s))),
    "where(s, sin(s)/s, 1)": (lambda s: tp.where(s, tp.sin(s) / s, 1), lambda s: np.where(s > 0, np.sin(s) / s, 1)),
    "relu(sin(s)/s)": (lambda s: tp.relu(tp.sin(s) / s), lambda s: np.maximum(np.sin(s) / s, 0)),
    "exp(−1/s²)": (lambda s: tp.exp(-1 / s**2), lambda s: np.exp(-1 / s**2)),
}
#: of these equal steps are not as good
KINKED = ("relu(s)/s", "relu(sin(s)/s)", "where(s, sin(s)/s, 1)")
#: the same of two independent ones
OF_TWO = {
    "(sin s − sin t)/(s − t)": (
        lambda s, t: (tp.sin(s) - tp.sin(t)) / (s - t),
        lambda s, t: np.cos((s + t) / 2) * np.sinc((s - t) / 2 / np.pi),
    ),
    "tanh(s t)/(s t)": (lambda s, t: tp.tanh(s * t) / (s * t), lambda s, t: np.tanh(s * t) / (s * t)),
    "t sin(s)/s": (lambda s, t: tp.sin(s) / s * t, lambda s, t: np.sin(s) / s * t),
    "t/(s² + t²) s": (lambda s, t: s * t / (1 + s * s + t * t), lambda s, t: s * t / (1 + s * s + t * t)),
    "t² sin(s)/s": (lambda s, t: tp.sin(s) / s * t * t, lambda s, t: np.sin(s) / s * t * t),
}


def magnified(W, x):
    return tp.sqrt(tp.n) * tp.avg((W @ x) * x)


@pytest.mark.parametrize("name", OF_ONE)
def test_functions_of_one_fluctuation(name):
    function, values = OF_ONE[name]

    @tp.program
    def inline(W: tp.Matrix, x: tp.Vector):
        return function(magnified(W, x))

    @tp.program
    def beside(W: tp.Matrix, x: tp.Vector):
        m = tp.avg((W @ x) * x)
        return function(tp.sqrt(tp.n) * m)

    # no node at 0
    mean, square = (MASSES @ values(NODES) ** k for k in (1, 2))
    tolerance = 1e-3 if name in KINKED else 1e-8
    for program in (inline, beside):
        found = tp.derive(program).evaluate()["return"]
        assert found.value == pytest.approx(mean, abs=tolerance)
        assert found.variance == pytest.approx(square - mean**2, abs=tolerance)


@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_fluctuations(name):
    function, values = OF_TWO[name]

    @tp.program
    def inline(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        return function(magnified(W, x), tp.sqrt(tp.n) * tp.avg((W @ x) * y))

    s, t = np.meshgrid(NODES, NODES + 0.007)  # not both at one place
    found = tp.derive(inline).evaluate()["return"]
    assert found.value == pytest.approx(MASSES @ values(s, t).T @ MASSES, abs=0.01)


def test_averages_over_neurons_of_fluctuations_and_entries():
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        s = tp.sqrt(tp.n) * tp.avg((W @ x) * x)
        quotient = x * x * magnified(W, x) / (magnified(W, x) + magnified(W, x) ** 3)
        return tp.avg((tp.sin(x * s) / s) ** 2), tp.avg((tp.exp(-((x * s) ** 2)) - 1) / s**2), tp.avg(quotient)

    found = tp.derive(program).evaluate()
    # given s: E sin²(x s) = (1 − exp(−2s²))/2 and E exp(−x² s²) = (1 + 2s²)^(−1/2)
    truth = [
        -np.expm1(-2 * NODES**2) / 2 / NODES**2,
        ((1 + 2 * NODES**2) ** -0.5 - 1) / NODES**2,
        1 / (1 + NODES**2),
    ]
    for k, values in enumerate(truth):
        assert found[f"return[{k}]"].value == pytest.approx(MASSES @ values, abs=1e-8)


def test_what_is_small_stays_small():
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        m = tp.avg((W @ x) * x)
        return tp.sin(m) / m * tp.tanh(tp.sqrt(tp.n) * m) ** 2, tp.n * (1 - tp.cos(m)), tp.n * (tp.sin(m) / m - 1)

    found = tp.derive(program).evaluate()
    expected = (MASSES @ np.tanh(NODES) ** 2, 1 / 2, -1 / 6)
    for k, value in enumerate(expected):
        assert found[f"return[{k}]"].value == pytest.approx(value, abs=1e-8)


def test_networks_move_by_the_whole_function():
    rng, n = np.random.default_rng(0), 100
    W, x = rng.standard_normal((4000, n, n)) / np.sqrt(n), rng.standard_normal((4000, n))
    s = np.einsum("dab,db,da->d", W, x, x) / np.sqrt(n)
    values = np.sin(3 * s) / s

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return tp.sin(3 * magnified(W, x)) / magnified(W, x)

    claim, error = tp.derive(program).evaluate()["return"].value, values.std() / np.sqrt(len(values))
    assert abs(values.mean() - claim) < 4 * error < abs(claim + 1.5)


def test_a_quotient_that_is_no_number_at_the_limit_stands_in_a_kink():
    """max(k/(exp k − 1), ½), k = √n (⟨x²⟩ − 1) of variance 2: k/(exp k − 1) falls through ½ once."""

    @tp.program
    def named(x: tp.Vector):
        k = tp.sqrt(tp.n) * (tp.avg(x * x) - 1)
        return tp.maximum(k / (tp.exp(k) - 1), 0.5)

    @tp.program
    def inline(x: tp.Vector):
        m = tp.avg(x * x)
        return tp.maximum(tp.sqrt(tp.n) * (m - 1) / (tp.exp(tp.sqrt(tp.n) * (m - 1)) - 1), 0.5)

    truth = MASSES @ np.maximum(1 / exprel(np.sqrt(2) * NODES), 0.5)
    for program in (named, inline):
        assert tp.derive(program).evaluate()["return"].value == pytest.approx(truth, abs=1e-3)


#: of length 1
INPUT = np.array([[0.6, 0.8]])


def draws(function, train=None):
    """NNGP and NTK at draws of s, the same ones whatever the function."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, M: tp.Matrix, v: tp.Vector):
        h = tp.tanh(tp.sum(U * ξ, over="d"))
        return v * h * function(lambda: tp.sqrt(tp.n) * tp.avg((W @ h) * (M @ h)))

    sample = tp.derive(network, tp.Kernels(train=train)).sample(INPUT, draws=200)
    return sample.nngp.ravel(), sample.ntk.ravel()


#: E tanh² z, and the variance of s
SECOND = MASSES @ np.tanh(NODES) ** 2


@pytest.fixture(scope="module")
def drawn():
    return np.log(draws(lambda s: tp.exp(s()), ("v",))[0] / SECOND) / 2


def test_draws_are_those_of_the_logit(drawn):
    assert draws(lambda s: s(), ("v",))[0] == pytest.approx(SECOND * drawn**2, rel=1e-6, abs=1e-9)
    assert drawn.var() == pytest.approx(SECOND**2, rel=0.35)  # of 200


@pytest.mark.parametrize("name", OF_ONE)
def test_kernels_of_functions_of_one_fluctuation(name, drawn):
    function, values = OF_ONE[name]
    nngp, _ = draws(lambda s: function(s()), ("v",))
    assert nngp == pytest.approx(SECOND * values(drawn) ** 2, rel=1e-6, abs=1e-9)


#: a function of s, its values and its slope
SMOOTH = {
    "sin(s)/s": (
        lambda s: tp.sin(s()) / s(),
        lambda s: np.sin(s) / s,
        lambda s: (s * np.cos(s) - np.sin(s)) / s**2,
    ),
    "max(s, s²/(s + s³))": (
        lambda s: tp.maximum(s(), s() ** 2 / (s() + s() ** 3)),
        lambda s: np.maximum(s, s / (1 + s * s)),
        lambda s: np.where(s > 0, 1, (1 - s * s) / (1 + s * s) ** 2),
    ),
    "(√(1 + s²) − 1)/s²": (
        lambda s: (tp.sqrt(1 + s() ** 2) - 1) / s() ** 2,
        lambda s: 1 / (1 + np.sqrt(1 + s * s)),
        lambda s: -s / (1 + np.sqrt(1 + s * s)) ** 2 / np.sqrt(1 + s * s),
    ),
    "where(s, s, 0)": (
        lambda s: tp.where(s(), s(), 0),
        lambda s: np.maximum(s, 0),
        lambda s: (s > 0).astype(float),
    ),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_tangent_kernels_of_functions_of_one_fluctuation(name, drawn):
    function, values, slope = SMOOTH[name]
    # of v; of U through h, E (1 − tanh²)²; of W, M and U through s
    A = MASSES @ (1 - np.tanh(NODES) ** 2) ** 2
    B = 2 * SECOND**2 * (SECOND + A)
    expected = (SECOND + A) * values(drawn) ** 2 + B * slope(drawn) ** 2
    assert draws(function)[1] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("function", [lambda s: tp.relu(s()) / s(), lambda s: tp.tanh(1 / s())])
def test_jumps_that_no_head_shows_have_no_tangent_kernel(function):
    with pytest.raises(tp.NoLimitError, match="derivative of a jump of a scalar that stays random"):
        draws(function)


#: functions of n and of a = s/√n, and what they tend to
OF_WIDTH = {
    "√n sin a": (lambda a: tp.sqrt(tp.n) * tp.sin(a), lambda s: s),
    "√n (exp a − 1)": (lambda a: tp.sqrt(tp.n) * (tp.exp(a) - 1), lambda s: s),
    "√n (√(1 + a) − 1)": (lambda a: tp.sqrt(tp.n) * (tp.sqrt(1 + a) - 1), lambda s: s / 2),
    "n (1 − cos a)": (lambda a: tp.n * (1 - tp.cos(a)), lambda s: s * s / 2),
    "n a sin a − √n a": (lambda a: tp.n * a * tp.sin(a) - tp.sqrt(tp.n) * a, lambda s: s * s - s),
    "a/√(sin² a + 1/n)": (lambda a: a / tp.sqrt(tp.sin(a) ** 2 + 1 / tp.n), lambda s: s / np.sqrt(s * s + 1)),
}
#: functions of these
OF_THESE = {
    "sin(u)/u": OF_ONE["sin(s)/s"],
    "exp(−u²)": (lambda u: tp.exp(-u * u), lambda u: np.exp(-u * u)),
    "relu(u − 0.3)": (lambda u: tp.relu(u - 0.3), lambda u: np.maximum(u - 0.3, 0)),
    "max(u, u²/(u + u³))": (lambda u: tp.maximum(u, u * u / (u + u**3)), lambda u: np.maximum(u, u / (1 + u * u))),
}


@pytest.mark.parametrize("outer", OF_THESE)
@pytest.mark.parametrize("inner", OF_WIDTH)
def test_functions_of_the_width_and_what_is_small(inner, outer, drawn):
    (small, large), (function, values) = OF_WIDTH[inner], OF_THESE[outer]

    @tp.program
    def inline(W: tp.Matrix, x: tp.Vector):
        return function(small(tp.avg((W @ x) * x)))

    @tp.program
    def named(W: tp.Matrix, x: tp.Vector):
        return function(small(tp.avg((W @ x) * x)).named("u"))

    # no node at 0, nor at 1
    mean, square = (MASSES @ values(large(NODES + 1e-4)) ** k for k in (1, 2))
    for program in (inline, named):
        found = tp.derive(program).evaluate()["return"]
        assert found.value == pytest.approx(mean, abs=2e-3)
        assert found.variance == pytest.approx(square - mean**2, abs=4e-3)
    expected = SECOND * values(large(drawn)) ** 2
    for a_named in (lambda a: a, lambda a: a.named("u")):
        nngp, _ = draws(lambda s, a_named=a_named: function(a_named(small(s() / tp.sqrt(tp.n)))), ("v",))
        assert nngp == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_corrections_are_kept_where_a_power_of_n_brings_them_out():
    """n (exp(−n (1 − cos a)) − exp(−n a²/2)) tends to s⁴/24 exp(−s²/2): a leading order of both leaves 0."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        a = tp.avg((W @ x) * x)
        return tp.n * (tp.exp(-tp.n * (1 - tp.cos(a))) - tp.exp(-tp.n * a * a / 2))

    truth = MASSES @ (NODES**4 / 24 * np.exp(-(NODES**2) / 2))
    assert tp.derive(program).evaluate()["return"].value == pytest.approx(truth, abs=1e-8)


def test_powers_of_n_beyond_the_usual_cut_no_series_short(drawn):
    """n^(9/2) (a − sin a)³ tends to s⁹/216, and to 0 where sin is cut after a⁶."""

    def ninth(s):
        a = s() / tp.sqrt(tp.n)
        return tp.n ** sympy.Rational(9, 2) * (a - tp.sin(a)) ** 3

    nngp, _ = draws(ninth, ("v",))
    assert nngp == pytest.approx(SECOND * drawn**18 / 216**2, rel=1e-5, abs=1e-16)
    with pytest.raises(tp.NoLimitError, match="grows with n"):  # no series of so high an order is taken
        draws(lambda s: tp.sin(ninth(s)), ("v",))


@pytest.mark.parametrize("name", [False, True])
def test_what_is_divided_by_is_0_with_positive_probability(name):
    def function(s):
        u = tp.sqrt(tp.n) * tp.relu(s() / tp.sqrt(tp.n))
        u = u.named("u") if name else u
        return tp.sin(u) / u

    with pytest.raises(tp.EvaluationError, match="is not finite at the limit of its arguments"):
        draws(function, ("v",))
    # of a jump there is nothing to refuse: relu(s) is 0 at every width where it is
    nngp, _ = draws(lambda s: tp.step(tp.relu(s()).named("u")), ("v",))
    assert set(np.round(nngp / SECOND, 9)) == {0.0, 1.0}


def test_powers_of_n_stand_beside_what_tends_to_0_alone():
    """tanh(y)/(√n s·r) with r = ⟨h tanh h⟩ − ⟨sech² h⟩, a zero in disguise: it is r that is named."""

    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        h = W @ x
        r = (tp.avg(h * tp.tanh(h)) - tp.avg(1 - tp.tanh(h) ** 2)).named("r")
        return tp.tanh(y) / (tp.sqrt(tp.n) * tp.avg(h * x) * r)

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, y: tp.Vector, v: tp.Vector):
        return v * program(W, tp.sum(U * ξ, over="d"), y)

    with pytest.raises(tp.EvaluationError, match="`r` tends to 0 within its error"):
        tp.derive(network, tp.Kernels(train=("v",))).sample(INPUT)


def test_poles_inside_of_others_are_asked_first():
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector):
        h = W @ x
        r = (tp.avg(h * tp.tanh(h)) - tp.avg(1 - tp.tanh(h) ** 2)).named("r")
        return tp.avg(1 / (1 + y / r))

    with pytest.raises(tp.EvaluationError, match="`r` tends to 0 within its error"):
        tp.derive(program).evaluate()


@pytest.mark.parametrize("name", OF_TWO)
def test_kernels_of_functions_of_two_fluctuations(name):
    """In every way of writing them."""
    function, _ = OF_TWO[name]

    def sampled(write):
        @tp.network
        def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, M: tp.Matrix, v: tp.Vector):
            h = tp.tanh(tp.sum(U * ξ, over="d"))
            a, b = tp.avg((W @ h) * (M @ h)).named("a"), tp.avg((W @ (h * h - 1)) * (M @ h**3)).named("b")
            return v * h * write(a, b)

        sample = tp.derive(network, tp.Kernels()).sample(INPUT, draws=30)
        return np.concatenate([sample.nngp.ravel(), sample.ntk.ravel()])

    root = tp.sqrt(tp.n)
    named = sampled(lambda a, b: function((root * a).named("s"), (root * b).named("t")))
    for write in (lambda a, b: function(root * a, root * b), lambda a, b: function(tp.n * a / root, 2 * root * b / 2)):
        assert sampled(write) == pytest.approx(named, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("name", [False, True])
def test_roots_of_fluctuations_are_not_real(name):
    """With probability ½: √s had been no number in kernels of a named one."""

    def root(s):
        return tp.sqrt(s().named("s") if name else s())

    with pytest.raises(tp.TplimitsError, match=r"not real|negative at finite width with positive probability"):
        draws(root, ("v",))


def test_a_quotient_whose_powers_of_n_cancel_is_a_sign():
    """|√n a|/(√n a) is |a|/a before anything is read."""
    assert draws(lambda s: tp.abs(s()) / s(), ("v",))[0] == pytest.approx(SECOND)

    def sign(s):
        fluctuation = s().named("s")
        return tp.abs(fluctuation) / fluctuation

    nngp, _ = draws(sign, ("v",))
    assert nngp == pytest.approx(SECOND)


def test_a_pole_without_a_power_of_n_has_no_hint_of_one():
    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return tp.avg(x * x) / tp.avg(x * y)

    with pytest.raises(tp.NoLimitError, match="Keep the denominator or the logarithm away from zero") as refused:
        tp.derive(program)
    assert "√n" not in str(refused.value)


#: what reads r = y (avg a² − avg b²), a named vector that tends to 0, y and both averages with √n beside it: √n r is
#: y S with Var S = 4, S independent of all else
NAMED = {
    "by itself": lambda y, r, W, z: tp.sqrt(tp.n) * r,
    "in a function": lambda y, r, W, z: tp.sqrt(tp.n) * tp.tanh(r),
    "its image": lambda y, r, W, z: tp.sqrt(tp.n) * (W @ r),
    "a function of its image": lambda y, r, W, z: tp.sqrt(tp.n) * tp.tanh((W @ r).named("p")),
}


@pytest.mark.parametrize("case", NAMED)
def test_kernels_see_what_a_vector_fluctuates_by_where_nothing_else_is_left_of_it(case):
    """They had the kernel 0 where such a vector had a name and was read by itself; networks have 4."""

    @tp.network
    def network(
        ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, a: tp.Vector, b: tp.Vector, W: tp.Matrix, z: tp.Vector
    ):
        y = tp.sum(U * ξ, over="d")
        r = (y * tp.avg(a * a) - y * tp.avg(b * b)).named("r")
        return v * NAMED[case](y, r, W, z)

    found = tp.derive(network, tp.Kernels(train=("v",))).sample(np.array([[0.6, 0.8]]), draws=4000, seed=0).nngp
    assert abs(np.mean(found) - 4) < 0.4
    # one average alone fluctuates half as much
    assert abs(np.mean(found) - 2) > 1
