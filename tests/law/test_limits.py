"""Width limits of small programs, exactly; the published value stands in each test."""

import mpmath
import numpy
import pytest
import scipy.special
import sympy
from sympy import Rational, pi, sqrt

import tplimits as tp
from tplimits.law import state
from tplimits.regimes.width.derivation import derive_width


def scalar(function, **sizes):
    program = tp.program(function)
    return tp.derive(program.bind(**sizes) if sizes else program).scalar("return")


def equal(value, expected):
    return sympy.simplify(value - expected) == 0


def test_the_operator_of_a_matrix_is_the_adjoint_of_its_transpose():
    """⟨y|Wx⟩ = ⟨Wᵀy|x⟩ for nonlinear kets that depend on W (Yang & Littwin, Prop. 2.6.9)."""

    @tp.program
    def both(W: tp.Matrix, a: tp.Vector, b: tp.Vector):
        x = tp.relu(W.T @ a) + b
        y = tp.relu(W @ b) * b + a
        return tp.avg(y * (W @ x)), tp.avg((W.T @ y) * x)

    limit = tp.derive(both)
    assert equal(limit.scalar("return[0]"), limit.scalar("return[1]"))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_catalan_numbers(k):
    """Moments of the Marchenko-Pastur law at ratio 1."""

    def program(W: tp.Matrix, x: tp.Vector):
        y = x
        for _ in range(k):
            y = W @ (W.T @ y)
        return tp.avg(x * y)

    assert scalar(program) == sympy.catalan(k)


@pytest.mark.parametrize(("k", "ratio"), [(2, Rational(1, 3)), (3, Rational(2))])
def test_marchenko_pastur_at_any_ratio(k, ratio):
    """⟨x|(WᵀW)^k x⟩ with W of k rows: Narayana polynomials of the ratio rows/columns."""

    def program(W: tp.Matrix["r", "n"], x: tp.Vector):
        y = x
        for _ in range(k):
            y = W.T @ (W @ y)
        return tp.avg(x * y)

    value = scalar(program)
    (symbol,) = value.free_symbols
    narayana = sum(sympy.binomial(k, j) * sympy.binomial(k, j - 1) / Rational(k) * ratio**j for j in range(1, k + 1))
    assert value.subs(symbol, ratio) == narayana


def test_semicircle_of_a_symmetrised_matrix():
    def program(W: tp.Matrix, x: tp.Vector):
        y = x
        for _ in range(6):
            y = (W @ y + W.T @ y) / sympy.sqrt(2)
        return tp.avg(x * y)

    assert scalar(program) == 5  # the third Catalan number


def test_repeated_and_dependent_directions_add_nothing():
    @tp.program
    def dependent(W: tp.Matrix, a: tp.Vector, b: tp.Vector):
        u, v = W @ tp.relu(a), W @ tp.relu(-a)
        return tp.avg((W @ tp.abs(a) - u - v) ** 2), tp.avg((W @ (2 * a - b) - 2 * (W @ a) + W @ b) ** 2)

    limit = tp.derive(dependent)
    assert limit.scalar("return[0]") == 0 and limit.scalar("return[1]") == 0
    assert any(step.rule == "linear dependence" for step in limit.steps)


def test_a_matrix_used_twice_is_not_two_matrices():
    def once(W: tp.Matrix, x: tp.Vector):
        return tp.avg(tp.relu(W @ x) * (W @ tp.relu(W @ x)))

    def twice(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        return tp.avg((W @ h) * (W.T @ tp.tanh(h)))

    assert scalar(once) == 0  # ⟨relu h|W relu h⟩: hats W x and W relu h have covariance ⟨x|relu h⟩ = 0
    assert scalar(twice) == 0


def test_dot_ket_of_a_kink_in_both_forms():
    """step has no derivative: E δ(h) by its density, and Stein's form gives the same number."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        z = W.T @ tp.step(W @ x)
        return tp.avg(x * z)

    limit = tp.derive(program)
    assert equal(limit.scalar("return"), 1 / sqrt(2 * pi))
    (dot,) = [s for s in limit.steps if s.rule == "dot" and "E[" in s.conclusion]
    assert "∂" in dot.remarks[0] and "⁺" in dot.remarks[0]


def test_a_jump_beside_a_jump_goes_by_stein():
    """relu(h + sign h) jumps by 1 at 0: E[∂] = P(h > 0) + φ(0), but step·δ has no value of its own."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = W @ x
        return tp.avg(x * (W.T @ tp.relu(h + tp.sign(h))))

    limit = tp.derive(program)
    assert equal(limit.scalar("return"), Rational(1, 2) + 1 / sqrt(2 * pi))
    assert any("Stein form" in r for s in limit.steps for r in s.remarks)


def test_a_jump_beside_its_own_delta_has_the_mean_of_both_sides():
    """z = sign(h) exp(sign h) jumps by e + 1/e at 0, not by 2 exp(0): E[∂z/∂h] = φ(0) (e + 1/e) = E[h z]."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        s = tp.sign(W @ x)
        return tp.avg(x * (W.T @ (s * tp.exp(s)))), tp.avg(x * (W.T @ (s * tp.step(W @ x))))

    limit = tp.derive(program)
    assert equal(limit.scalar("return[1]"), 1 / sqrt(2 * pi))
    assert limit.evaluate()["return[0]"].value == pytest.approx(float(sqrt(2 / pi) * sympy.cosh(1)), abs=1e-9)


def test_dot_parts_of_combinations_are_combinations_of_dot_parts():
    """With Wᵀ of another width: κ is the ratio of the two."""

    @tp.program
    def program(W: tp.Matrix["k", "n"], x: tp.Vector, y: tp.Vector["k"]):
        h, g = W.T @ y, W @ x
        a, b = tp.tanh(h) + x, h**3
        u, v = W @ a, W @ b
        both = W @ (2 * a - 3 * b)
        again = W @ (b * 5)
        back = W.T @ tp.tanh(g)
        return tp.avg(u * v), tp.avg(both * again), tp.avg(back * back)

    limit = tp.derive(program)
    u, v, both, again = (limit.dot(name) for name in ("u", "v", "both", "again"))
    assert u != 0 and v != 0
    assert equal(both, 2 * u - 3 * v) and equal(again, 5 * v)
    assert equal(limit.hat("both"), 2 * limit.hat("u") - 3 * limit.hat("v"))
    # E ab + E y² · E a' · E b' with h ~ N(0, k/n)
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(80)
    at, weights = 2**0.5 * nodes, weights / weights.sum()
    expected = weights @ (at**3 * numpy.tanh(at)) + (weights @ numpy.cosh(at) ** -2.0) * 3 * 2
    assert limit.evaluate(ratios={"k": 2})["return[0]"].value == pytest.approx(expected, rel=1e-6)


def test_sign_of_relu_is_zero_half_of_the_time():
    def program(x: tp.Vector):
        return tp.avg(tp.sign(tp.relu(x)))

    def negative(x: tp.Vector):
        return tp.avg(tp.step(-tp.relu(x)))

    def product(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.step(tp.relu(x) * y))

    assert scalar(program) == Rational(1, 2)
    assert scalar(negative) == 0
    assert scalar(product) == Rational(1, 4)


def test_boxes_are_independent_copies_of_the_whole_tuple():
    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        β = tp.neuron("β")
        z = tp.avg(x[β] * (x[β] + y[β]) * y, over=β)  # y E[x(x + y)] = y
        return tp.avg(z * y), tp.avg(z * x)

    limit = tp.derive(program)
    assert (limit.scalar("return[0]"), limit.scalar("return[1]")) == (1, 0)


def test_powers_of_a_box_mean_take_independent_copies():
    """E_x (E_b |x − x'|)²: closed by three-step orthants, against mpmath."""

    def program(x: tp.Vector):
        β = tp.neuron("β")
        y = tp.avg(tp.abs(x - x[β]), over=β)
        return tp.avg(y * y)

    def inner(x):
        return x * mpmath.erf(x / mpmath.sqrt(2)) + mpmath.sqrt(2 / mpmath.pi) * mpmath.exp(-x * x / 2)

    expected = mpmath.quad(lambda x: inner(x) ** 2 * mpmath.npdf(x), [-10, 0, 10])
    assert abs(float(scalar(program)) - float(expected)) < 1e-12


def test_boxes_of_two_instructions_are_not_one_box():
    """The same mean written twice is the same vector, over other copies: E y z = E y², and not E |x − x'|²."""

    @tp.program
    def program(x: tp.Vector):
        b, c = tp.neuron("b"), tp.neuron("c")
        y, z = tp.avg(tp.abs(x - x[b]), over=b), tp.avg(tp.abs(x - x[c]), over=c)
        return tp.avg(y * z), tp.avg(y * y), tp.avg(tp.avg(y[b] * z * tp.abs(x - x[b]), over=b))

    first, second, third = (n.value for n in tp.derive(program).evaluate().values())
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(60)
    weights /= weights.sum()
    mean = nodes * (2 * scipy.special.ndtr(nodes) - 1) + 2 * numpy.exp(-(nodes**2) / 2) / (2 * numpy.pi) ** 0.5
    assert first == pytest.approx(second) == pytest.approx(float(weights @ mean**2), rel=1e-6)
    line = numpy.linspace(-9, 9, 1201)
    density = numpy.exp(-(line**2) / 2) / (2 * numpy.pi) ** 0.5 * (line[1] - line[0])
    at = density * (line * (2 * scipy.special.ndtr(line) - 1) + 2 * numpy.exp(-(line**2) / 2) / (2 * numpy.pi) ** 0.5)
    assert third == pytest.approx(float(at @ abs(line[:, None] - line) @ at), rel=1e-4)


def test_a_coefficient_that_vanishes_is_no_dot_part():
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        return W.T @ tp.cos(W @ x), W.T @ tp.sin(W @ x)

    limit = tp.derive(program)
    assert (limit.dot("return[0]"), limit.dot("return[1]")) == (0, sympy.exp(-Rational(1, 2)) * limit.ket("x"))
    said = [r for s in limit.steps if s.rule == "dot" for r in s.remarks if "E[" in r]
    assert ["(no dot)" in r for r in said] == [True, False]


def test_symbolic_constants_and_given_scalars_stay_symbols():
    @tp.program
    def program(x: tp.Vector, s: tp.Scalar, *, γ):
        return s * tp.avg(tp.exp(γ * x) * x)

    limit = tp.derive(program)
    γ, s = sympy.Symbol("γ", real=True), sympy.Symbol("s", real=True)
    assert equal(limit.scalar("return"), s * γ * sympy.exp(γ**2 / 2))
    assert float(limit.evaluate(γ=0.5, s=2)["return"]) == pytest.approx(float(sympy.exp(Rational(1, 8))), abs=1e-15)


def test_initial_laws_and_constants():
    law = tp.init(mean=1, std=2)

    @tp.program
    def program(g: tp.Vector = 1, x: tp.Vector = law):
        return tp.avg(x * x), tp.avg(tp.step(x)), tp.avg(g * x)

    limit = tp.derive(program)
    assert limit.scalar("return[0]") == 5
    assert equal(limit.scalar("return[1]"), (1 + sympy.erf(sqrt(2) / 4)) / 2)
    assert limit.scalar("return[2]") == 1


def test_negative_powers_of_n_vanish():
    def program(W: tp.Matrix, x: tp.Vector, *, c):
        return tp.avg(((1 + c / tp.sqrt(tp.n)) * tp.relu(W @ x)) ** 2)

    assert scalar(program) == Rational(1, 2)


def test_expect_is_a_constant_on_both_sides():
    @tp.program
    def program(x: tp.Vector):
        return tp.avg(tp.relu(x) ** 2) / tp.expect(lambda g: tp.relu(g) ** 2)

    assert tp.derive(program).scalar("return") == 1
    assert program.run(n=4000, seed=1)["return"] == pytest.approx(1, abs=0.2)


def test_families_unroll_entry_by_entry():
    @tp.program
    def program(W: tp.Matrix["n", "n", "head"], x: tp.Vector["token"]):
        z = W @ x
        return tp.avg(tp.sum(z, over="head") * tp.sum(z, over="head"))

    limit = tp.derive(program.bind(head=3, token=2))
    assert limit.scalar("return") == sympy.ImmutableDenseNDimArray([3, 3])
    assert limit.braket("z[token=0,head=1]", "z[token=0,head=1]") == 1
    assert limit.braket("z[token=0,head=0]", "z[token=0,head=1]") == 0


def test_absent_entries_are_zero_everywhere():
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector["pos"]):
        y = W @ x.take(pos=numpy.array([-1, 0]), axes=("at",))
        return tp.avg(y * y)

    limit = tp.derive(program.bind(pos=1))
    assert list(limit.scalar("return")) == [0, 1]


def test_without_dots_is_the_naive_limit():
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        z = W.T @ tp.relu(W @ x)
        return tp.avg(z * z)

    position = program.returns[0]
    assert derive_width(program).scalars[(position, ())] == Rational(3, 4)
    assert derive_width(program, with_dots=False).scalars[(position, ())] == Rational(1, 2)


@pytest.mark.long
def test_deep_programs_neither_recurse_nor_swell():
    def chain(activation, depth, transpose):
        def function(W: tp.Matrix, x: tp.Vector):
            h = x
            for _ in range(depth):
                h = W @ activation(W.T @ h) if transpose else activation(W @ h + x)
            return tp.avg(h * x)

        return tp.program(function)

    tied = tp.derive(chain(tp.tanh, 66, False))
    closed, open_ = tied.evaluate()["return"], tied.evaluate("particles", particles=2048)["return"]
    low, high = open_.interval(0.999)
    assert low < float(closed) < high
    deep = tp.derive(chain(tp.tanh, 8, True))
    number = deep.evaluate(particles=2048, method="particles")["return"]
    assert number.error < 0.02


def test_normalised_layers_ask_of_every_deviation_whether_it_vanishes_and_do_not_write_it_out():
    """Each divides by a deviation that is closed in terms of the last: written out it doubles with every layer."""

    @tp.program
    def program(W: tp.Matrix["n", "n", "layer"], x: tp.Vector):
        y = x
        for layer in range(24):
            r = tp.relu(W.sel(layer=layer) @ y)
            m = tp.avg(r)
            y = (r - m) / tp.sqrt(tp.avg((r - m) ** 2))
        return tp.avg(r)

    found = tp.derive(program.bind(layer=24)).evaluate("exact")["return"]
    assert found.value == pytest.approx(float(1 / sqrt(2 * pi)), abs=1e-12)  # E relu of a standard normal


@pytest.mark.long
@pytest.mark.parametrize(
    "layer",
    [
        lambda W, h, x: tp.relu(W.T @ tp.relu(W @ h)),
        lambda W, h, x: tp.relu(W @ h + W.T @ h),
        lambda W, h, x: h + tp.relu(W @ h) / 10,
        lambda W, h, x: tp.erf(W.T @ tp.erf(W @ h)),
        lambda W, h, x: tp.gelu(W @ (h - tp.avg(h))) + x,
        lambda W, h, x: tp.relu(W @ h - tp.tanh(W.T @ h)) - tp.avg(h * x) * h,
        lambda W, h, x: (W @ h + (W.T @ h) ** 2 / 4) / 2,
    ],
    ids=["ping-pong", "symmetric", "residual", "erf", "gelu", "mixed", "polynomial"],
)
def test_layers_that_use_one_matrix_again_and_again(layer):
    """Closed forms that grow without end are given up; the two ways of sampling agree on what is left."""

    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        h = x
        for _ in range(3):
            h = layer(W, h, x)
        return tp.avg(h * x)

    limit = tp.derive(program)
    white = limit.evaluate("particles", particles=4096)["return"]
    lazy = limit.evaluate("particles", particles=4096, conditioning="lazy", seed=1)["return"]
    assert abs(white.value - lazy.value) < 6 * (white.error**2 + lazy.error**2) ** 0.5
    for number in limit.evaluate().values():
        assert abs(number.value - white.value) < 6 * white.error + number.error


def test_array_constants_are_data_judged_at_1e_12():
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector["i"], v: tp.Vector):
        c = tp.constant([0.1, 0.2, -0.3], axes=("i",))
        mean = tp.avg(tp.sum(c, over="i") + v) * tp.sqrt(tp.n)  # 0.1 + 0.2 − 0.3 is 5.6e-17 in doubles
        ones = tp.constant([1.0, 1.0, 1.0], axes=("i",))
        y = tp.sum(c * ones, over="i") * v
        return mean, tp.avg((W @ (x.sel(i=0) + y)) * (W @ x.sel(i=0)))

    limit = tp.derive(program)
    assert limit.evaluate()["return[0]"].variance == pytest.approx(1)
    remarks = [r for s in limit.steps for r in s.remarks]
    assert sum("array constants are data" in r for r in remarks) == 2


def test_numbers_that_layers_share_are_worked_out_once():
    def normalised(depth):
        def program(W: tp.Matrix["n", "n", "layer"], x: tp.Vector):
            for layer in range(depth):
                h = tp.relu(W.sel(layer=layer) @ x)
                x = (h - tp.avg(h)) / tp.sqrt(tp.avg((h - tp.avg(h)) ** 2))
            return tp.avg(x * x)

        return tp.program(program).bind(layer=depth)

    made = []
    for depth in (4, 12):
        state._digits.cache_clear()
        tp.derive(normalised(depth))
        made.append(state._digits.cache_info().misses)
    # three numbers a layer are asked for
    assert made[1] - made[0] <= 12 - 4
