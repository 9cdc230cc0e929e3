"""Trained matrices as operators: adjoint, repeatable, of the right law, and equal to matrices where those fit."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.numbers.columns import Basis, Population
from tplimits.numbers.matrices import InitialOperator, TrainedMatrix
from tplimits.regimes.training.numbers.operator_kernels import _conditioned, _drawn
from tplimits.regimes.training.numbers.operator_particles import Member
from tplimits.regimes.training.numbers.updates import BlockUpdate, LowRankUpdate

M = 128


def operator(white, rows=M, columns=M):
    rng = np.random.default_rng(0)
    return InitialOperator(*(Population(size, white, rng.spawn(1)[0]) for size in (rows, columns)))


@pytest.mark.parametrize("white", [True, False])
@pytest.mark.parametrize("rows", [M, 2 * M])
def test_the_transpose_is_adjoint_and_images_repeat(white, rows):
    W, rng = operator(white, rows), np.random.default_rng(1)
    x, y = rng.standard_normal((3, M)), rng.standard_normal((2, rows))
    Wx = W.apply(x, False)
    Wty = W.apply(y, True)
    again = W.apply(np.concatenate([x[:1] + 2 * x[1:2], rng.standard_normal((1, M))]), False)
    np.testing.assert_allclose(y @ Wx.T, Wty @ x.T, atol=1e-9)
    np.testing.assert_allclose(again[0], Wx[0] + 2 * Wx[1], atol=1e-9)
    np.testing.assert_allclose(W.apply(x, False), Wx, atol=1e-10)
    assert W.inputs[False].count == 4 and W.inputs[True].count == 2


def test_white_images_have_the_gram_matrix_of_their_operands():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, M))
    Wx = operator(True).apply(x, False)
    np.testing.assert_allclose(Wx @ Wx.T, x @ x.T, rtol=1e-9)
    np.testing.assert_allclose(Wx.sum(axis=1), 0, atol=1e-9)


def test_lazy_images_have_the_law_of_a_matrix():
    """E |Wᵀ W x|² = |x|² (1 + 1 + 1/M) for independent entries of variance 1/M."""
    rng, found = np.random.default_rng(2), []
    for _ in range(400):
        W = InitialOperator(*(Population(M, False, r) for r in rng.spawn(2)))
        x = np.ones((1, M))
        found.append((W.apply(W.apply(x, False), True) ** 2).mean())
    expected = 2 + 1 / M
    assert abs(np.mean(found) - expected) < 4 * np.std(found) / 20


def test_white_columns_are_orthogonal_until_a_quarter_is_spent():
    population = Population(M, True, np.random.default_rng(0))
    fresh = population.fresh(M // 4 - 1)
    np.testing.assert_allclose(fresh @ fresh.T, M * np.eye(M // 4 - 1), atol=1e-9)
    assert population.white
    plain = population.fresh(2, Basis(M))
    assert not population.white
    assert abs(plain @ fresh.T).max() > 0.1


def test_linear_updates_equal_the_recursion_of_a_matrix():
    rng, μ, λ, η = np.random.default_rng(3), 0.5, 0.1, 0.3
    update = LowRankUpdate(M, 2 * M, tp.SGD(momentum=μ))
    matrix, momentum = np.zeros((M, 2 * M)), np.zeros((M, 2 * M))
    for t in range(4):
        left, right = rng.standard_normal((3, M)), rng.standard_normal((3, 2 * M))
        update.step(t, left, right, η, 1 - λ)
        momentum = μ * momentum + left.T @ right
        matrix = (1 - λ) * matrix - η * momentum / (2 * M)
    x, y = rng.standard_normal((2, 2 * M)), rng.standard_normal((2, M))
    np.testing.assert_allclose(update.apply(x, False), x @ matrix.T, atol=1e-12)
    np.testing.assert_allclose(update.apply(y, True), y @ matrix, atol=1e-12)


@pytest.mark.parametrize("blocks", [1, 4])
def test_nonlinear_updates_equal_the_recursion_of_the_blocks(blocks):
    rng, λ, η, rows, columns = np.random.default_rng(4), 0.1, 0.3, M, M // 2
    optimizer = tp.Adam(eps=0.1)
    update, stepper = BlockUpdate(rows, columns, blocks, optimizer), optimizer.stepper()
    inside = np.kron(np.eye(blocks), np.ones((rows // blocks, columns // blocks)))
    states, matrix = stepper.start((rows, columns)), np.zeros((rows, columns))
    for t in range(3):
        left, right = rng.standard_normal((2, rows)), rng.standard_normal((2, columns))
        update.step(t, left, right, η, 1 - λ)
        states, moved = stepper.step(t, states, left.T @ right)
        matrix = (1 - λ) * matrix - η * moved
    seen = matrix * inside * blocks / columns  # the mean over a block stands for the mean over all
    x, y = rng.standard_normal((2, columns)), rng.standard_normal((2, rows))
    np.testing.assert_allclose(update.apply(x, False), x @ seen.T, atol=1e-12)
    np.testing.assert_allclose(update.apply(y, True), y @ seen, atol=1e-12)


def test_decay_acts_on_the_initial_matrix():
    W = TrainedMatrix(operator(False), LowRankUpdate(M, M, tp.SGD()))
    x = np.ones((1, M))
    before = W.apply(x, False)
    W.decay *= 0.9
    np.testing.assert_allclose(W.apply(x, False), 0.9 * before, atol=1e-12)


def test_columns_that_are_not_finite_are_refused():
    with pytest.raises(tp.EvaluationError, match="not finite"):
        operator(True).apply(np.full((1, M), np.nan), False)


def test_the_last_kets_serve_all_later_steps():
    member = Member(np.zeros((3, 1, 1, 4)), None, np.zeros(1, np.int64), np.array([1.0, 2.0, 4.0]))
    assert [member.at(t) for t in range(5)] == [0, 1, 2, 2, 2]
    χ = np.array([[3.0], [5.0]])
    for t, scale in enumerate((1, 2, 4, 4)):
        np.testing.assert_array_equal(member.signal(χ, t), χ / scale)
        np.testing.assert_array_equal(member.collected(χ, t, 2), np.stack([χ[:, 0] / scale, [0, 0]], axis=1))


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_first_rows_that_are_known_condition_the_others(scale):
    """Given the first rows, means and covariance are those of a regression on them; repeated rows tell nothing new."""
    rng = np.random.default_rng(5)
    root = np.sqrt(scale) * rng.standard_normal((5, 4))
    root[1] = root[0] / 3  # rows 0 and 1 are one number
    covariance, mean = root @ root.T, np.sqrt(scale) * rng.standard_normal((5, 2))
    first = mean[:3] + root[:3] @ rng.standard_normal((4, 2))
    means, rest = _conditioned(mean, covariance, first)
    kept = [0, 2]
    gain = np.linalg.solve(covariance[np.ix_(kept, kept)], covariance[kept]).T
    np.testing.assert_allclose(means, mean + gain @ (first - mean[:3])[kept], rtol=1e-8, atol=1e-9 * scale**0.5)
    np.testing.assert_allclose(rest, covariance - gain @ covariance[kept], atol=1e-9 * scale)
    assert (means[:3] == first).all() and not rest[:3].any() and not rest[:, :3].any()
    z = rng.standard_normal((5, 2))
    np.testing.assert_array_equal(_drawn(mean, z, covariance, first)[:3], first)
    images = _drawn(np.zeros((5, 5)), np.eye(5), covariance, None)
    np.testing.assert_allclose(images @ images.T, covariance, atol=1e-12 * np.abs(covariance).max())
    first[1] += np.sqrt(scale)
    with pytest.raises(tp.EvaluationError, match="f0 cannot be the outputs"):
        _conditioned(mean / min(scale, 1) ** 0.5, covariance, first / min(scale, 1) ** 0.5)
