"""Particles: unbiased, honest about their errors, at least as quiet as a network of that width."""

import math
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy
import pytest
import scipy.stats
import sympy

import tplimits as tp
from tplimits.numbers import particles
from tplimits.numbers.boxes import mean_over_slots, slot_offsets
from tplimits.numbers.conditioning import Normals, Population
from tplimits.numbers.matrices import InitialOperator
from tplimits.numbers.replicates import Draws, observed


@tp.program
def tied(W: tp.Matrix, x: tp.Vector):
    z = W.T @ tp.tanh(W @ x)
    return tp.avg(x * z), tp.avg(z * z)


@tp.program
def distance(x: tp.Vector):
    β = tp.neuron("β")
    return tp.avg(tp.avg(tp.abs(x - x[β]), over=β))


@tp.program
def widths(W: tp.Matrix["k", "n"], x: tp.Vector):
    z = W.T @ tp.relu(W @ x)
    return tp.avg(x * z), tp.avg(z * z)


def test_the_bias_of_few_particles_is_taken_off():
    """The square of Avg(x y) is 1/64 on average over 64 particles, and twice that over their halves."""

    @tp.program
    def square(x: tp.Vector, y: tp.Vector):
        return tp.avg(x * y) ** 2

    asked = {"particles": 64, "replicates": 600, "conditioning": "lazy"}
    number = tp.derive(square).evaluate("particles", **asked)["return"]
    assert abs(number.value) < 4 * number.error and number.error < 1 / 64 / 8


def populations(white, size=64, seed=0):
    rows, columns = numpy.random.default_rng(seed).spawn(2)
    return Population(Normals(rows, size), white), Population(Normals(columns, size), white)


@pytest.mark.parametrize("white", [True, False])
def test_an_implicit_matrix_is_linear_and_its_transpose_is_its_adjoint(white):
    rows, columns = populations(white)
    rng = numpy.random.default_rng(1)
    matrix = InitialOperator(rows, columns)
    x, y, u = rng.standard_normal((3, 1, 64))
    wx, wty = matrix.apply(x, False), matrix.apply(y, True)
    assert y @ wx.T == pytest.approx(wty @ x.T, abs=1e-10)
    wu = matrix.apply(u, False)
    assert matrix.apply(2 * x - u, False) == pytest.approx(2 * wx - wu, abs=1e-10)
    assert matrix.apply(y - 3 * y, True) == pytest.approx(-2 * wty, abs=1e-10)


def test_white_columns_have_exact_moments():
    rows, _ = populations(True)
    a, b = rows.fresh(1)[0], rows.fresh(1)[0]
    assert [a.sum(), a @ b] == pytest.approx([0, 0], abs=1e-10)
    assert a @ a == pytest.approx(64)


def test_lazy_columns_have_the_law_of_a_real_matrix():
    """|W x|² of a 64 × 64 matrix is |x|²/64 times a χ² with 64 degrees of freedom."""
    values = []
    for seed in range(400):
        rows, columns = populations(False, seed=seed)
        x = numpy.ones((1, 64))
        values.append(float(numpy.sum(InitialOperator(rows, columns).apply(x, False) ** 2)))
    assert scipy.stats.kstest(values, scipy.stats.chi2(64).cdf).pvalue > 1e-3


def test_matrix_polynomials_are_exact_under_white_conditioning():
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector):
        y = x
        for _ in range(4):
            y = W @ y + W.T @ y
        return tp.avg(x * y)

    number = tp.derive(program).evaluate("particles", particles=512)["return"]
    assert number.value == pytest.approx(8, abs=1e-10) and number.error < 1e-10


@pytest.mark.parametrize("program", [tied, distance, widths], ids=lambda p: p.name)
def test_particles_meet_the_limit_and_white_ones_are_quieter(program):
    limit = tp.derive(program)
    exact = limit.evaluate()
    for label, observable in zip(exact, limit.observables, strict=True):
        runs = {}
        for conditioning in ("white", "lazy"):
            draws = Draws(program, (observable,), conditioning == "white", {}, {})
            seeds = [numpy.random.SeedSequence([r, 5]) for r in range(60)]
            if conditioning == "white":
                runs[conditioning] = [float(draws.replicate(512, seed)[0]) for seed in seeds]
            else:
                runs[conditioning] = [observed(draws.execution(512, seed).run(), observable) for seed in seeds]
        white, lazy = numpy.array(runs["white"]), numpy.array(runs["lazy"])
        z = (white.mean() - exact[label].value) / (white.std(ddof=1) / math.sqrt(60))
        assert abs(z) < 4  # two-sided 6e-5, for each of five observables
        assert white.std(ddof=1) < 1.1 * lazy.std(ddof=1)


def test_errors_fall_with_the_root_of_the_number_of_particles():
    limit = tp.derive(tied)
    counts = numpy.array([256, 1024, 4096])
    errors = [limit.evaluate("particles", particles=int(m), replicates=48, seed=3)["return[1]"].error for m in counts]
    slope = numpy.polyfit(numpy.log(counts), numpy.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.12)  # the log of an error from 48 replicates has deviation 0.1


def test_the_same_seed_gives_the_same_numbers():
    limit = tp.derive(distance)
    first, second = (limit.evaluate("particles", particles=300, seed=4)["return"] for _ in range(2))
    other = limit.evaluate("particles", particles=300, seed=5)["return"]
    assert first == second and first != other


@pytest.mark.parametrize("executor", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_executors_change_nothing(executor):
    limit = tp.derive(tied)
    alone = limit.evaluate("particles", particles=200, seed=1)
    options = {} if executor is ThreadPoolExecutor else {"mp_context": get_context("spawn")}
    seen = []
    with executor(2, **options) as pool:
        shared = limit.evaluate(
            "particles", particles=200, seed=1, executor=pool, progress=lambda done, total, text: seen.append(done)
        )
    assert shared == alone
    assert seen[-1] == 8


@pytest.mark.parametrize("size", [40, 5000])
@pytest.mark.parametrize(("slots", "skip_self"), [(1, True), (1, False), (2, False)])
def test_means_over_boxes_are_sums_over_particles_one_by_one(slots, skip_self, size):
    """Of boxes of another width, too, whose particles are counted round; three stretches have their ends met."""
    a, b, c, k = sympy.symbols("e0 e1 e2 c0", real=True)
    body = sympy.tanh(a * b) + k * sympy.Abs(a - b) + (sympy.exp(-c * c) * b if slots == 2 else 0)
    rng = numpy.random.default_rng(0)
    own, one, other = (rng.standard_normal(m) for m in (size, size if slots == 1 else size // 3, 2 * size + 1))
    offsets = slot_offsets(size, slots, 60, rng) if slots == 2 or size > 60 else slot_offsets(size, slots, 1000, rng)
    found = mean_over_slots(body, {a: own}, [{b: one}, {c: other}][:slots], {k: 0.7}, offsets, skip_self, size)
    for α in {0, 1, 39, size // 2, size - 1, min(4095, size - 1), min(4096, size - 1)}:
        values = []
        for at in offsets:
            if skip_self and at[0] == 0:
                continue
            y, z = one[(α + at[0]) % len(one)], other[(α + at[-1]) % len(other)]
            value = math.tanh(own[α] * y) + 0.7 * abs(own[α] - y)
            values.append(value + (math.exp(-z * z) * y if slots == 2 else 0))
        assert found[α] == pytest.approx(math.fsum(values) / len(values), rel=1e-12, abs=1e-13)


def test_offsets_never_meet_the_particle_itself():
    offsets = slot_offsets(50, 2, 1000, numpy.random.default_rng(0))
    assert (offsets > 0).all() and (offsets[:, 0] != offsets[:, 1]).all()


def test_errors():
    limit = tp.derive(tied)
    with pytest.raises(tp.EvaluationError, match="at least 16"):
        limit.evaluate("particles", particles=3)
    with pytest.raises(tp.EvaluationError, match="replicates=1: give a whole number, at least 2"):
        limit.evaluate("particles", replicates=1)
    with pytest.raises(tp.EvaluationError, match="give one of the words 'white', 'lazy'"):
        limit.evaluate("particles", conditioning="grey")
    with pytest.raises(tp.EvaluationError, match="too few particles"):
        limit.evaluate("particles", particles=20)

    @tp.program
    def logits(u: tp.Vector, v: tp.Vector):
        return tp.avg(u * v) * tp.sqrt(tp.n)

    with pytest.raises(tp.EvaluationError, match="fluctuation scalars"):
        tp.derive(logits).evaluate("particles")


def test_brackets_of_vectors_are_means_over_particles():
    @tp.program
    def program(W: tp.Matrix, x: tp.Vector, y: tp.Vector["token"]):
        return tp.tanh(W @ x), x + y

    limit = tp.derive(program.bind(token=2))
    exact, found = limit.evaluate(), limit.evaluate("particles", particles=256, replicates=4)
    assert exact.keys() == found.keys() and len(exact) > 3
    for name, number in exact.items():
        assert abs(found[name].value - number.value) <= 6 * found[name].error + 1e-3, name


@pytest.mark.parametrize(("slope", "seen"), [(0.25, True), (6.0, False), (8.0, False)])
def test_means_that_lie_further_out_than_particles_look_are_refused(slope, seen):
    """E exp(s x) = exp(s²/2) is that of particles at s deviations: for s = 6, one in 10⁹."""

    @tp.program
    def program(x: tp.Vector):
        return tp.avg(tp.exp(slope * x))

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.exp(slope / 2 * tp.sum(U * ξ, over="d"))

    asked = {"particles": 4096, "replicates": 4}
    training = {"error": tp.squared_error([1.0]), "lr": 1.0, "steps": 1}
    # v alone moves, by exp(s x/2) in a step
    trained = tp.derive(network, tp.MaximalUpdate({"U": tp.Frozen(), "v": tp.SGD()}))
    ways = [
        lambda: tp.derive(program).evaluate("particles", **asked)["return"].value,
        lambda: trained.evaluate([[0.6, 0.8]], **training, **asked).f[1, 0],
    ]
    for number in ways:
        if seen:
            assert number() == pytest.approx(numpy.exp(slope**2 / 2), rel=0.02)
        else:
            with pytest.raises(tp.EvaluationError, match="lies further out than 4096 particles look"):
                number()


@pytest.mark.parametrize(("slope", "seen"), [(0.1, True), (0.2, False)])
def test_squares_without_a_variance_have_no_error(slope, seen):
    """E exp(a x²)² = (1 − 4 a)^(−½) is finite for a < 1/4, the variance of its particles for a < 1/8 alone."""

    @tp.program
    def bracket(x: tp.Vector):
        return tp.exp(slope * x * x)

    @tp.program
    def image(W: tp.Matrix, x: tp.Vector):
        return tp.avg((W @ tp.exp(slope * x * x)) ** 2)

    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * tp.exp(slope * (W @ tp.sum(U * ξ, over="d")) ** 2)

    def trained(X, error, optimizer):
        limit = tp.derive(tp.network(network), tp.MaximalUpdate({"U": tp.Frozen(), "W": tp.Frozen(), "v": optimizer}))
        return limit.evaluate(X, error=tp.squared_error(error), lr=len(X), steps=1, **asked).f[1, 0]

    asked, long = {"particles": 4096, "replicates": 8}, [0.6, 0.8]
    ways = [
        lambda: tp.derive(bracket).evaluate("particles", **asked)["⟨return|return⟩"].value,
        lambda: tp.derive(image).evaluate("particles", **asked)["return"].value,
        lambda: trained([long], [1.0], tp.SGD()),
    ]
    for number in ways:
        if seen:
            assert number() == pytest.approx((1 - 4 * slope) ** -0.5, rel=0.03)
        else:
            with pytest.raises(tp.EvaluationError, match="has a mean and no variance"):
                number()
    # what nothing moves averages no square: short inputs, those without an error, and bounded updates
    assert trained([[0.1, 0.2], long], [1.0, 0.0], tp.SGD()) > 0.9
    assert trained([long], [1.0], tp.SignSGD()) == pytest.approx((1 - 2 * slope) ** -0.5, rel=0.03)


@pytest.mark.parametrize(("slope", "seen"), [(0.1, True), (0.2, False)])
def test_squares_of_what_moves_have_no_error_either(slope, seen):
    """Operands that training moves, those of the way back, and factors of gradients in the operator regime."""

    def moved(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * (W @ tp.exp(slope * tp.sum(U * ξ, over="d") ** 2))

    def back(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        return v * tp.exp(slope * (W @ tp.sum(U * ξ, over="d")) ** 2)

    def direct(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.exp(slope * tp.sum(U * ξ, over="d") ** 2)

    def trained(network, regime, optimizers, **asked):
        limit = tp.derive(tp.network(network), regime(optimizers))
        lr = {"v": 1.0, "U": 0.1, "W": 0.0}
        lr = {name: rate for name, rate in lr.items() if name in optimizers}
        asked = {"particles": 4096, "replicates": 8, "lr": lr, **asked}
        return limit.evaluate([[0.6, 0.8]], error=tp.squared_error([1.0]), steps=1, **asked).f[1, 0]

    # v moves by y = W x, and h by 0.14 ε sign(h), ε the sign of Wᵀ v: f = E x x′ + E |g| ε x′
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(200)
    moves = numpy.array([[1.0], [-1.0]])
    x, later = (numpy.exp(slope * h**2) for h in (nodes, nodes + 0.14 * moves * numpy.sign(nodes)))
    gained = ((x + moves * (2 / numpy.pi) ** 0.5) * later).mean(axis=0) @ weights / weights.sum()
    # dv = x, and dU = v x′ with E |x′| = 2 a √(2/π)/(1 − 2 a)
    by_pairs = (1 - 4 * slope) ** -0.5 + 0.14 * (2 / numpy.pi) * 2 * slope / (1 - 2 * slope)
    sign, frozen = tp.SignSGD(), tp.Frozen()
    ways = {
        gained: lambda: trained(moved, tp.MaximalUpdate, {"U": sign, "W": frozen, "v": tp.SGD()}),
        None: lambda: trained(back, tp.MaximalUpdate, {"U": sign, "W": frozen, "v": frozen}),
        by_pairs: lambda: trained(direct, tp.NeuralTangent, {"U": sign, "v": tp.SGD()}, f0=0.0),
    }
    for expected, number in ways.items():
        if not seen:
            with pytest.raises(tp.EvaluationError, match="has a mean and no variance"):
                number()
        elif expected is not None:
            assert number() == pytest.approx(expected, rel=0.03)
        else:
            assert number() > 0.0


@pytest.mark.parametrize(
    ("ket", "seen"),
    [
        (lambda x, y: 1 + tp.exp(0.2 * x * x), False),
        (lambda x, y: tp.exp(0.2 * x * x) * (1 + tp.tanh(y) ** 2), False),
        (lambda x, y: tp.exp(0.4 * x * y), False),
        (lambda x, y: tp.abs(x) ** -0.3 * (1 + x * x), False),
        # of x² beside the pole: E |x|^(−1.4) sin⁴(5 x y) is finite
        (lambda x, y: tp.abs(x) ** -0.35 * tp.sin(5 * x * y), True),
        (lambda x, y: tp.exp(0.2 * x * x) * tp.exp(-(y**2) - 0.1 * x * x), True),
    ],
)
def test_the_variance_is_that_of_the_whole_product(ket, seen):
    """Particles are refused where it is infinite; where it is not they give what is integrated."""

    @tp.program
    def program(x: tp.Vector, y: tp.Vector):
        return ket(x, y)

    limit, label = tp.derive(program), "⟨return|return⟩"
    if seen:
        found, exact = limit.evaluate("particles"), limit.evaluate("quadrature")
        assert abs(found[label].value - exact[label].value) <= 4 * found[label].error
    else:
        with pytest.raises(tp.EvaluationError, match=r"\|return⟩², which has a mean and no variance"):
            limit.evaluate("particles")


def test_what_is_infinite_is_refused_without_a_warning():
    @tp.program
    def program(x: tp.Vector):
        return tp.avg(tp.log(tp.relu(x)))

    limit = tp.derive(program, assume=("moment of _2",))
    with pytest.raises(tp.EvaluationError, match="`return` is not finite in some replicate"):
        limit.evaluate(method="particles", particles=100, replicates=4)


def test_rounding_is_looked_at_in_one_replicate_for_all(monkeypatch):
    """They have one law: as many particles are looked at as all of them would, and their numbers are the same."""

    @tp.program
    def steep(x: tp.Vector, y: tp.Vector):
        return tp.avg(tp.tanh(x + y) * (x - y))

    limit = tp.derive(steep)
    judged = []
    refused = particles.refuse_rounding

    def counted(body, known, weights, *rest):
        judged.append(weights.size)
        refused(body, known, weights, *rest)

    monkeypatch.setattr(particles, "refuse_rounding", counted)
    found = limit.evaluate("particles", particles=1 << 14, replicates=8, seed=0)["return"]
    assert judged and min(judged) == 8 * 256
    once = len(judged)
    assert limit.evaluate("particles", particles=1 << 14, replicates=4, seed=0)["return"].error > 0
    assert len(judged) == 2 * once
    monkeypatch.setattr(particles.ParticleExecution, "_look_at_rounding", lambda *_: None)
    assert limit.evaluate("particles", particles=1 << 14, replicates=8, seed=0)["return"] == found


def test_a_jump_that_rounding_decides_is_refused_by_particles():
    """step(1 − tanh² 30x − 10⁻²⁰) is 1 where |x| < .79; doubles have 1 − tanh² = 0 from .64 on."""

    @tp.program
    def lost(x: tp.Vector):
        return tp.avg(tp.step(1 - tp.tanh(30 * x) ** 2 - 1e-20))

    with pytest.raises(tp.EvaluationError, match="double precision"):
        tp.derive(lost).evaluate("particles", seed=0)
