"""Training unrolled as one program: exact limits, and the same program as a network of finite width."""

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import sympy
import trained_networks as finite

import tplimits as tp
from tplimits.law.observables import observables
from tplimits.numbers.replicates import Draws

_DATA = np.random.default_rng(5)
X, Y = _DATA.standard_normal((3, 2)), _DATA.standard_normal(3)


@tp.network
def linear(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * (W @ tp.sum(U * ξ, over="d"))


@tp.network
def shallow(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.tanh(tp.sum(U * ξ, over="d"))


@tp.network
def two(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))


@tp.network
def tied(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d"))))


@tp.network
def transposed(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector["out"], b: tp.Scalar = 0.5):
    x = tp.sum(U * ξ, over="d")
    return tp.readout(v * (x + W.T @ tp.tanh(b * (W @ x)))) + b


def test_a_deep_linear_network_moves_to_three_halves():
    """f_1 = ⟨v_1|W_1 u_1⟩ with u_1 = u + Wᵀv/2, v_1 = v + Wu/2, W_1 = W + |v⟩⟨u|/2: three terms of ½ each."""
    limit = tp.derive(linear, tp.MaximalUpdate(tp.SGD()))
    found = limit.exact([[1.0]], error=tp.squared_error([1.0]), lr=0.5, steps=1)
    assert found.ravel().tolist() == [0, sympy.Rational(3, 2)]


@tp.network
def linear_matrix_first(ξ: tp.Input["d"], W: tp.Matrix, v: tp.Vector, U: tp.Vector["d"]):
    return v * (W @ tp.sum(U * ξ, over="d"))


@tp.network
def linear_matrix_second(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return (W.T @ v) * tp.sum(U * ξ, over="d")


@pytest.mark.parametrize("permuted", [linear_matrix_first, linear_matrix_second])
def test_the_order_of_the_arguments_does_not_matter(permuted):
    asked = {"error": tp.squared_error([1.0]), "lr": 0.5, "steps": 2}
    found = [tp.derive(n, tp.MaximalUpdate(tp.SGD())).exact([[1.0]], **asked).ravel() for n in (linear, permuted)]
    assert found[0].tolist() == found[1].tolist()
    assert found[1][1:].tolist() == [sympy.Rational(3, 2), sympy.Rational(103, 256)]


def test_particles_repeat_the_exact_values_of_a_linear_network():
    """White particles have exact second moments, and a linear network knows nothing else."""
    limit = tp.derive(linear, tp.MaximalUpdate(tp.SGD(momentum=0.5), weight_decay=0.25))
    asked = {"error": tp.squared_error([1.0, -0.5]), "lr": 0.5, "steps": 3}
    exact = limit.exact([[1.0, 0.0], [0.5, 1.0]], **asked).astype(float)
    run = limit.evaluate([[1.0, 0.0], [0.5, 1.0]], particles=512, replicates=2, **asked)
    np.testing.assert_allclose(run.f, exact, atol=1e-11)


@pytest.mark.long
def test_one_step_of_a_shallow_network_by_sign_descent():
    """f_1 = E (v + η sgn φ(u)) φ(u + η sgn v): χ_0 = −1, φ' > 0."""
    η = 0.25

    def integrand(v, u):
        moved = (v + η * np.sign(u)) * np.tanh(u + η * np.sign(v))
        return moved * scipy.stats.norm.pdf(u) * scipy.stats.norm.pdf(v)

    corners = [(-12, 0), (0, 12)]
    oracle = sum(scipy.integrate.dblquad(integrand, *u, *v)[0] for u in corners for v in corners)
    limit = tp.derive(shallow, tp.MaximalUpdate(tp.SignSGD()))
    program = limit.unrolled([[1.0]], error=tp.squared_error([1.0]), lr=η, steps=1)
    found = tp.derive(program).evaluate("quadrature", only=["return[1][sample=0]"])["return[1][sample=0]"]
    assert found.value == pytest.approx(oracle, abs=1e-9)
    run = limit.evaluate([[1.0]], error=tp.squared_error([1.0]), lr=η, steps=1, seed=1)
    assert abs(run.f[1, 0] - oracle) < 4 * run.stderr[1, 0]


@pytest.mark.parametrize(
    ("network", "optimizer", "own", "decay", "more"),
    [
        (two, tp.Adam(eps=0.05), finite.Adam(0.05), 0, {}),
        (two, tp.SGD(momentum=0.5), finite.SGD(0.5), 0.1, {"decay": 0.1}),
        (tied, tp.Adam(eps=0.05), finite.Adam(0.05), 0.1, {"decay": 0.1, "tied": True, "depth": 3}),
    ],
)
def test_the_program_is_a_network_in_training(network, optimizer, own, decay, more):
    limit = tp.derive(network, tp.MaximalUpdate(optimizer, weight_decay=decay))
    program = limit.unrolled(X, error=tp.squared_error(Y, train=[0, 2]), lr=0.1, steps=2)
    arrays = program.run(n=32, seed=1)
    start = arrays["U"].T, [arrays["W"]], arrays["v"]
    error = np.array([1.0, 0.0, 1.0])
    oracle = finite.train_from(*start, X, Y, own, 0.1, 2, trained=error, **more)
    np.testing.assert_allclose([arrays[f"f_{t}"] for t in range(3)], oracle, atol=1e-13)


@tp.network
def there_and_back(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["k", "n"], v: tp.Vector):
    return v * (W.T @ tp.tanh(W @ tp.sum(U * ξ, over="d")))


def back_and_forth(arrays, ratio, lr, steps):
    """The outputs of `there_and_back` in μP by SGD: W moves by the same whichever way it is read."""
    U, W, v = arrays["U"].T, arrays["W"], arrays["v"]
    found = []
    for _ in range(steps + 1):
        x = X @ U.T
        z = np.tanh(x @ W.T)
        found.append((z @ W * v).mean(axis=1))
        χ = ((found[-1] - Y) / len(Y))[:, None]
        dh = (1 - z**2) * (χ * v @ W.T)
        dW, dv, dx = z.T @ (χ * v) + dh.T @ x, (χ * (z @ W)).sum(axis=0), dh @ W
        U, W, v = U - lr * dx.T @ X, W - lr * ratio * dW / len(v), v - lr * dv
    return np.array(found)


def test_a_matrix_between_two_widths_moves_alike_both_ways():
    program = tp.derive(there_and_back, tp.MaximalUpdate(tp.SGD())).unrolled(
        X, error=tp.squared_error(Y), lr=0.3, steps=2
    )
    arrays = program.run(n=24, seed=2, ratios={"k": 2})
    found = [arrays[f"return_{t}"].mean(axis=-1) for t in range(3)]
    np.testing.assert_allclose(found, back_and_forth(arrays, 1, 0.3, 2), atol=1e-13)
    # divided by rows where it is read backwards it would be another network
    assert np.abs(np.array(found)[2] - back_and_forth(arrays, 0.5, 0.3, 2)[2]).max() > 1e-2


@pytest.mark.long
@pytest.mark.sampling
@pytest.mark.parametrize(("network", "steps"), [(two, 2), (transposed.bind(out=1), 2)])
def test_both_ways_to_particles_agree(network, steps):
    """Outer nonlinearities over all pairs of particles in one, blocks and stepwise conditioning in the other."""
    limit = tp.derive(network, tp.MaximalUpdate(tp.Adam(eps=0.05)))
    outputs = (1,) * (network is not two)
    asked = {"error": tp.squared_error(Y.reshape(3, *outputs)), "lr": 0.1, "steps": steps}
    program = limit.unrolled(X, **asked)
    wanted = [o for o in observables(program) if o.label.startswith(f"return[{steps}]")]
    common = Draws(program, tuple(wanted), True, {}, {})
    draws = np.array([common.replicate(384, np.random.SeedSequence([2, k])) for k in range(6)])
    run = limit.evaluate(X, particles=2048, **asked)
    error = np.hypot(draws.std(axis=0, ddof=1) / np.sqrt(6), run.stderr[steps].ravel())
    assert (np.abs(draws.mean(axis=0) - run.f[steps].ravel()) < 4 * error).all()
    assert error.max() < 0.1 * np.abs(run.f[steps]).max()


def test_scalars_start_at_the_numbers_that_are_given():
    """Left out they stay symbols; `evaluate` takes the same names."""

    @tp.network
    def scaled(W: tp.Matrix, s: tp.Scalar, ξ: tp.Input["d"], v: tp.Vector, U: tp.Vector["d"]):
        return s * v * (W @ tp.sum(U * ξ, over="d"))

    limit = tp.derive(scaled, tp.MaximalUpdate(tp.SGD()))
    how = {"X": np.array([[1.0, -0.5]]), "error": tp.squared_error([1.0]), "lr": 0.25, "steps": 2}
    given, left = limit.exact(**how, s=0.5)[:, 0], limit.exact(**how)[:, 0]
    # f_1 = s² lr |ξ|² (⟨v v⟩ + ⟨v v⟩ + ⟨h h⟩/|ξ|²): U, W and v alike; the scalar moves by a product that vanishes
    assert given[1] == sympy.Rational(3, 4) * sympy.Rational(5, 4) / 4
    s = next(iter(left[1].free_symbols))
    assert [sympy.nsimplify(f.subs(s, sympy.Rational(1, 2))) for f in left] == list(given)
    run = limit.evaluate(**how, s=0.5, particles=256, replicates=2)
    assert np.allclose(run.f[:, 0], np.array(given, dtype=float), atol=1e-12)
    assert abs(float(limit.exact(**how, s=0.6)[2, 0]) - run.f[2, 0]) > 0.02
    with pytest.raises(tp.EvaluationError, match="no constant or scalar of this name; it has s"):
        limit.exact(**how, v=1)


def test_error_signals_of_ones_own_are_taken_exactly():
    limit = tp.derive(linear, tp.MaximalUpdate(tp.SGD()))
    found = limit.exact([[1.0]], error=lambda f, t: (f - 1) * (t + 1), lr=lambda t: 0.5 / (t + 1), steps=2)
    assert found.ravel().tolist() == limit.exact([[1.0]], error=lambda f: f - 1, lr=0.5, steps=2).ravel().tolist()


def test_what_cannot_be_unrolled_is_refused():
    @tp.network
    def family(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "layer"], v: tp.Vector):
        return v * (W.sel(layer=0) @ tp.sum(U * ξ, over="d"))

    limit = tp.derive(family.bind(layer=2), tp.MaximalUpdate(tp.SGD()))
    with pytest.raises(tp.ProgramError, match="family of matrices"):
        limit.unrolled([[1.0, 2.0]], error=lambda f: f, lr=1, steps=1)
    with pytest.raises(tp.EvaluationError, match="0 or more"):
        tp.derive(linear, tp.MaximalUpdate(tp.SGD())).unrolled([[1.0]], error=lambda f: f, lr=-1, steps=1)


@pytest.mark.long
@pytest.mark.parametrize("inputs", [1, 3])
def test_kets_inside_one_another_are_refused_before_anybody_waits(inputs):
    """Two steps of Adam put kets of hundreds of thousands of nodes inside one another; one step is open means."""
    limit = tp.derive(two, tp.MaximalUpdate(tp.Adam(eps=0.05)))
    asked = {"error": tp.squared_error(Y[:inputs]), "lr": 0.1}
    told = []
    with pytest.raises(tp.ProgramError, match=r"more than 200,000 nodes at .* evaluate\(…\), or give exact\(most=…\)"):
        limit.exact(X[:inputs], **asked, steps=2, progress=lambda done, total, text: told.append((done, total, text)))
    assert 10 < told[-1][0] < told[-1][1]
    assert told[-1][2] == "the limit of two trained"
    one = limit.exact(X[:inputs], **asked, steps=1)
    assert one[1, 0].has(sympy.tanh) or one[1, 0].free_symbols
    with pytest.raises(tp.EvaluationError, match="most=0"):
        limit.exact(X[:inputs], **asked, steps=1, most=0)
    with pytest.raises(tp.ProgramError, match="more than 100 nodes"):
        limit.exact(X[:inputs], **asked, steps=1, most=100)


@pytest.mark.long
def test_long_fractions_are_refused_too():
    """Every step multiplies the digits of what data in floating point give: sums of fractions of 10⁵ digits."""
    limit = tp.derive(linear, tp.MaximalUpdate(tp.SGD()))
    with pytest.raises(tp.ProgramError, match="nodes at"):
        limit.exact(X[:1], error=tp.squared_error(Y[:1]), lr=0.1, steps=6)


def test_signs_of_gradients_that_are_zero_at_every_width():
    """A coordinate of the data that is 0 has no gradient; f_1 by hand, with E|g| = √(2/π) for each of three signs."""
    limit = tp.derive(linear, tp.MaximalUpdate(tp.SignSGD()))
    program = limit.unrolled([[1, 0]], error=tp.squared_error([1]), lr=sympy.Rational(1, 4), steps=1)
    found = tp.derive(program).evaluate()["return[1][sample=0]"].value
    assert abs(found - (np.sqrt(2 / np.pi) / 2 + 1 / (2 * np.pi))) < 1e-12


def test_an_image_of_what_is_zero_at_every_width():
    @tp.program
    def program(W: tp.Matrix, u: tp.Vector, z: tp.Vector.constant(0)):
        return tp.avg(tp.sign(W @ (z * u)) + u * u)

    @tp.program
    def drawn(W: tp.Matrix, u: tp.Vector):
        return tp.avg(tp.sign(W @ (u * tp.avg(u))) + u * u)

    assert tp.derive(program).evaluate()["return"].value == 1
    assert program.run(n=8, seed=1)["return"] > 0
    with pytest.raises(tp.TplimitsError, match="the argument of sign is 0"):
        tp.derive(drawn).evaluate()
