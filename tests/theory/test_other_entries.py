"""Entries that are not normal: matrices by universality, input weights and biases by their law."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.program.nodes.kinds import InitialMatrix

X = np.array([[1.5, 0.5], [0.3, -2.0]])
ERROR = tp.squared_error([1.0, -1.0])


@tp.network
def uniform(
    ξ: tp.Input["d"],
    U: tp.Vector["d"].uniform(-2, 2),
    W: tp.Matrix.uniform(),
    b: tp.Vector.uniform(-1, 1),
    v: tp.Vector.signs(),
    c: tp.Scalar.uniform(-0.5, 0.5),
):
    """What PyTorch makes of two layers, and a readout of signs."""
    h = tp.tanh(tp.sum(U * ξ, over="d"))
    return tp.readout(v * tp.tanh(W @ h + b)) + c


@tp.network
def normal(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, b: tp.Vector, v: tp.Vector, c: tp.Scalar):
    """The same variances."""
    h = tp.tanh(2 / tp.sqrt(3) * tp.sum(U * ξ, over="d"))
    return tp.readout(v * tp.tanh(W @ h + b / tp.sqrt(3))) + c / (2 * tp.sqrt(3))


OTHERS = {"uniform": tp.Matrix.uniform(), "truncated": tp.Matrix.truncated(at=2), "signs": tp.Matrix.signs()}


def program_of(kind):
    def product(W: kind, x: tp.Vector):
        y = W.T @ tp.tanh(W @ x)
        return tp.avg(y * y), tp.avg(x * y)

    return tp.program(product)


# -- drawn as they are ----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "fourth", "largest"), [("uniform", 1.8, 3**0.5), ("signs", 1.0, 1.0)])
def test_run_draws_entries_of_the_law(name, fourth, largest):
    W = program_of(OTHERS[name]).run(n=300, seed=1)["W"] * 300**0.5
    assert abs(W.mean()) < 0.02 and abs(W.var() - 1) < 0.01
    assert abs((W**4).mean() - fourth) < 0.02 and largest * 0.999 < abs(W).max() <= largest * (1 + 1e-12)


def test_truncated_entries_end_where_they_are_told_to():
    W = program_of(OTHERS["truncated"]).run(n=300, seed=1)["W"] * 300**0.5
    spread = 0.8796256610342398  # of a standard normal variable within ±2, by its closed form
    assert abs(W.var() - 1) < 0.01 and 0.99 < abs(W).max() * spread / 2 <= 1


@pytest.mark.parametrize("name", OTHERS)
def test_files_and_texts_keep_the_law(name):
    program = program_of(OTHERS[name])
    assert tp.from_json(tp.to_json(program)) == program
    assert program[program.position("W")].law.shape == name
    assert {"uniform": "uniform, of variance 1/n", "truncated": "normal within ±2 deviations", "signs": "±1/sqrt(n)"}[
        name
    ] in str(program)


def test_the_law_is_kept_where_a_program_is_used_in_another():
    inner = program_of(OTHERS["signs"])

    @tp.program
    def outer(x: tp.Vector):
        return inner(x=x)

    assert [s.law.shape for s in outer if isinstance(s, InitialMatrix)] == ["signs"]


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (lambda: tp.Matrix.uniform(-1, 1), "variance 1/columns, of one law: write W: tp.Matrix.uniform"),
        (lambda: tp.Matrix.truncated(2, at=1), r"tp.Matrix.truncated\(at=2\)"),
        (lambda: tp.Matrix.truncated(), "truncated"),
        (lambda: tp.Matrix.truncated(at=-1), "give a positive end"),
        (lambda: tp.Matrix.signs(3), "factor in the program"),
        (lambda: tp.Matrix.uniform().signs(), "of one law"),
        (lambda: tp.Vector.signs(-1), "give a positive size"),
        (lambda: tp.Vector.uniform(), "uniform"),
    ],
)
def test_laws_that_make_no_sense_are_refused(made, what):
    with pytest.raises(tp.ProgramError, match=what):
        made()


# -- limits ---------------------------------------------------------------------------------------


def test_formulas_of_signs():
    @tp.program
    def signs(s: tp.Vector.signs(2)):
        return tp.avg(s * s)

    limit = tp.derive(signs)
    assert limit.scalar("return") == 4 and r"\pm 2\text{ with probability }" in limit.latex()


@pytest.mark.parametrize("name", OTHERS)
def test_universality_is_stated(name):
    limit = tp.derive(program_of(OTHERS[name]))
    assert limit.scalar("return[1]") == tp.derive(program_of(tp.Matrix)).scalar("return[1]")
    assert "by universality the limits are those of normal entries" in str([s.conclusion for s in limit.steps])


@pytest.mark.sampling
@pytest.mark.parametrize("name", OTHERS)
def test_programs_with_such_matrices_have_the_limit_of_normal_ones(name):
    limit = tp.derive(program_of(OTHERS[name]))
    options = {"widths": (32, 64, 128), "draws": (600, 400, 300)}
    verdict = tp.check(limit, **options)
    assert verdict.accepted
    wrong = {row.claim.label: 1.06 * row.claim.value for row in verdict.rows}
    assert not tp.check(limit, claims=wrong, **options).accepted


def slope(z):
    return 1 - np.tanh(z) ** 2


def by_quadrature():
    """K and Θ of `uniform` from two uniform variables and a bias, by Gauss–Legendre and Gauss–Hermite."""
    u, w = np.polynomial.legendre.leggauss(60)
    pairs, weight = np.stack(np.meshgrid(2 * u, 2 * u), -1), np.outer(w, w) / 4
    h = pairs @ X.T
    K1, slope1 = (np.einsum("xy,xyi,xyj->ij", weight, f(h), f(h)) for f in (np.tanh, slope))
    g, v = np.polynomial.hermite_e.hermegauss(60)
    z = np.stack(np.meshgrid(g, g), -1) @ np.linalg.cholesky(K1).T
    both = z[:, :, None, :] + u[:, None]
    weights = np.outer(v, v)[:, :, None] / (2 * np.pi) * w / 2
    K2, slope2 = (np.einsum("xyb,xybi,xybj->ij", weights, f(both), f(both)) for f in (np.tanh, slope))
    return K2 + 1 / 12, K2 + 1 + slope2 * (K1 + 1 + slope1 * (X @ X.T))


@pytest.mark.long
def test_kernels_of_uniform_weights_and_biases_by_an_independent_route():
    with pytest.raises(tp.NoLimitError, match=r"uniform\.bind\(d=…\)"):
        tp.derive(uniform, tp.Kernels(), assume=("universality",))
    found = tp.derive(uniform.bind(d=2), tp.Kernels(), assume=("universality",)).evaluate(X)
    nngp, ntk = by_quadrature()
    assert np.allclose(found.nngp, nngp, atol=2e-5) and np.allclose(found.ntk, ntk, atol=2e-4)


@pytest.mark.long
@pytest.mark.sampling
def test_networks_agree_with_the_kernel_of_their_law_and_not_with_that_of_normal_entries():
    limit = tp.derive(uniform.bind(d=2), tp.Kernels(), assume=("universality",))
    options = {"X1": X, "widths": (32, 64, 128), "draws": (1500, 1200, 900)}
    assert tp.check(limit, **options).accepted
    twin = tp.derive(normal, tp.Kernels()).evaluate(X)
    assert not tp.check(limit, claims={"nngp": twin.nngp, "ntk": twin.ntk}, **options).accepted


@pytest.mark.long
@pytest.mark.sampling
def test_a_training_limit_of_uniform_entries():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"].uniform(-2, 2), W: tp.Matrix.uniform(), v: tp.Vector):
        return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))

    options = {"X": X, "error": ERROR, "lr": 0.3, "steps": 2, "widths": (64, 128, 256), "draws": (300, 200, 150)}
    limit = tp.derive(net, tp.MaximalUpdate(tp.SGD()))
    assert "by universality" in limit.assumptions[-1]
    verdict = tp.check(limit, **options)
    assert verdict.accepted
    wrong = {row.claim.label: 1.1 * row.claim.value for row in verdict.rows}
    assert not tp.check(limit, claims=wrong, **options).accepted


# -- where it ends --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (tp.relu, "relu of vectors, with a kink"),
        (tp.abs, "abs of vectors"),
        (tp.sign, "sign of vectors"),
        (tp.exp, "exp of vectors, with derivatives that no polynomial bounds"),
        (lambda x: 1 / (1 + x**2), "a power -1 of vectors"),
        (lambda x: tp.maximum(x, 0.5), "maximum of vectors"),
    ],
)
def test_functions_outside_the_theorem_are_named_and_can_be_taken_on(function, what):
    def rough(W: tp.Matrix.uniform(), x: tp.Vector):
        return tp.avg(function(W @ x))

    program = tp.program(rough)
    with pytest.raises(tp.NoLimitError, match=f"entries of `W` are not normal, .*{what}.*assume="):
        tp.derive(program)
    taken = tp.derive(program, assume=("universality",))
    assert "universality" in str([s.conclusion for s in taken.steps])


def test_smooth_functions_and_functions_of_averages_are_inside():
    @tp.program
    def smooth(W: tp.Matrix.uniform(), x: tp.Vector):
        y = tp.gelu(W @ x) + tp.sigmoid(x) + (W @ x) ** 3
        return tp.relu(tp.avg(y)) / tp.sqrt(1 + tp.avg(y * y))

    assert tp.derive(smooth)
    with pytest.raises(tp.ProgramError, match="no such doubt"):
        tp.derive(smooth, assume=("universality",))


def test_fluctuations_and_order_one_over_n_are_outside():
    @tp.program
    def logit(W: tp.Matrix.uniform(), x: tp.Vector, y: tp.Vector):
        return tp.sqrt(tp.n) * tp.avg(y * (W @ x))

    with pytest.raises(tp.NoLimitError, match="multiplies by a power of n"):
        tp.derive(logit)

    @tp.block
    def layer(x: tp.State["token"], W: tp.Matrix.uniform()):
        return x + W @ x / tp.sqrt(tp.n)

    for assume in ((), ("universality",)):
        with pytest.raises(tp.NoLimitError, match="order 1/n, where fourth moments"):
            tp.derive(layer, tp.Proportional(), assume=assume)


def test_scalars_that_are_not_normal_make_no_gaussian_process():
    limit = tp.derive(uniform.bind(d=2), tp.Kernels(), assume=("universality",))
    assert any("c are not normal: K is the covariance of f_0" in line for line in limit.assumptions)
    with pytest.raises(tp.EvaluationError, match=r"c are not normal.*no Gaussian process"):
        limit.posterior(X, [1.0, 2.0], X)
    with pytest.raises(tp.NoLimitError, match="normal, of mean 0"):
        tp.derive(uniform.bind(d=2), tp.NeuralTangent(tp.SGD()), assume=("universality",))


@pytest.mark.sampling
def test_normal_output_biases_of_any_variance_in_kernels_and_in_training():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, c: tp.Scalar.normal(0, 0.7)):
        return tp.readout(v * tp.tanh(tp.sum(U * ξ, over="d"))) + c

    @tp.network
    def without(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.tanh(tp.sum(U * ξ, over="d"))

    few = {"X1": X, "widths": (16, 32, 64), "draws": (400, 300, 200)}
    assert tp.check(tp.derive(net, tp.Kernels()), **few).accepted
    mine, bare = (tp.derive(f, tp.Kernels()).evaluate(X) for f in (net, without))
    assert np.allclose(mine.nngp, bare.nngp + 0.49) and np.allclose(mine.ntk, bare.ntk + 1)
    limit = tp.derive(net, tp.NeuralTangent(tp.SGD()))
    options = {"X": X, "error": ERROR, "lr": 0.3, "steps": 2, "widths": (64, 128, 256), "draws": (200, 150, 100)}
    assert tp.check(limit, **options).accepted
