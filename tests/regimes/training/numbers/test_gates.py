"""Jumps of scalars that vanish in training: refused where outputs depend on their sign, and only there."""

import numpy as np
import pytest

import tplimits as tp

X = np.array([[1.0, 0.5], [-0.3, 0.8]])
ASKED = {"X": X, "error": tp.squared_error([2.0, -2.0]), "lr": 0.8, "particles": 256, "replicates": 4}


@tp.network
def bent(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, a: tp.Vector, v: tp.Vector):
    h = W @ tp.tanh(tp.sum(U * ξ, over="d"))
    s = tp.avg(a * h)
    return v * tp.tanh(h) * (1 + 2 * tp.relu(s))


@tp.network
def smooth(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, a: tp.Vector, v: tp.Vector):
    h = W @ tp.tanh(tp.sum(U * ξ, over="d"))
    s = tp.avg(a * h)
    return v * tp.tanh(h) * (1 + 2 * s)


@tp.network
def plain(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))


@tp.network
def switched(ξ: tp.Input["d"], U: tp.Vector["d"], a: tp.Vector, v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    return v * x * (1 + tp.step(tp.avg(a * x)))


# ∂f/∂s = ⟨v tanh h⟩ is 0 at the start, so the kink of relu at s = 0 acts from the second step on
@pytest.mark.long
def test_a_kink_is_refused_from_the_step_on_at_which_it_acts(tmp_path):
    limit, without, same = (tp.derive(net, tp.MaximalUpdate(tp.SGD())) for net in (bent, plain, smooth))
    first, expected = (one.evaluate(**ASKED, steps=1) for one in (limit, without))
    assert (abs(first.f - expected.f) <= 5 * np.hypot(first.stderr, expected.stderr) + 1e-12).all()
    message = r"jump of the derivative of a function of scalars .* is not told from one: `s` at step 0 is "
    for steps, file in ((2, None), (2, tmp_path / "run.npz")):
        with pytest.raises(tp.EvaluationError, match=message):
            limit.evaluate(**ASKED, steps=steps, checkpoint=file)
    assert abs(same.evaluate(**ASKED, steps=2).f[2]).max() > 0.5


def test_a_jump_at_zero_is_refused_at_the_start():
    limit = tp.derive(switched, tp.MaximalUpdate(tp.SGD()))
    with pytest.raises(tp.EvaluationError, match="lands on a jump of a function of scalars"):
        limit.evaluate(**ASKED, steps=1)


def of_difference(f):
    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        y = tp.sum(U * ξ, over="d")
        return v * y * f(tp.avg((W @ y) ** 2) - tp.avg(y * y))

    return tp.derive(network, tp.MaximalUpdate(tp.SGD()))


@pytest.mark.long
def test_signs_whose_products_count_are_refused():
    """f(ξ₁) moves by sign s(ξ₁)·sign s(ξ₂): both turned together change nothing, one of them does."""
    with pytest.raises(tp.EvaluationError, match="training lands on a jump"):
        of_difference(tp.sign).evaluate(**ASKED, steps=1)
    alone = ASKED | {"X": X[:1], "error": tp.squared_error([2.0])}
    assert np.isfinite(of_difference(tp.sign).evaluate(**alone, steps=1).f).all()  # sign² = 1
    assert np.isfinite(of_difference(lambda s: tp.sign(s) * s).evaluate(**ASKED, steps=1).f).all()


@pytest.mark.parametrize(
    ("f", "what"),
    [
        (lambda s: 1 / s, "Keep the denominator or the logarithm away"),
        (lambda s: tp.tanh(1 / s), "Keep the denominator or the logarithm away"),
        (tp.log, "Keep the denominator or the logarithm away"),
        (tp.sqrt, "what stands under the root"),
        (lambda s: s**1.5, "what stands under the root"),
        (lambda s: tp.sqrt(s * s + s), "what stands under the root"),
    ],
)
def test_poles_and_roots_of_scalars_that_vanish_are_named(f, what):
    with pytest.raises((tp.NoLimitError, tp.EvaluationError), match=what):
        of_difference(f).evaluate(**ASKED, steps=1)


def test_poles_and_roots_away_from_zero_are_taken():
    first = of_difference(lambda s: 1 / (1 + s)).evaluate(**ASKED, steps=1)
    second = of_difference(lambda s: tp.sqrt(1 + s)).evaluate(**ASKED, steps=1)
    np.testing.assert_allclose(first.f, second.f, atol=1e-9)


def test_a_jump_that_gradients_hold_on_fewer_axes_is_moved_alike():
    """sign(s³) stands in vectors of all inputs and in the gradient, which has none."""

    @tp.network
    def network(ξ: tp.Input["d"], a: tp.Vector, U: tp.Vector["d"], W: tp.Matrix, V: tp.Matrix):
        x = tp.sum(U * ξ, over="d")
        s = tp.avg(a * tp.tanh(V @ a))
        return W @ (tp.sign(s**3) * x)

    @tp.network
    def without(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix):
        return W @ tp.sum(U * ξ, over="d")

    # whatever the sign, it leaves with those of W: f holds it twice
    given = {**ASKED, "particles": 512, "lr": 0.3, "steps": 2}
    found, expected = (tp.derive(f, tp.MaximalUpdate(tp.SGD())).evaluate(**given).f for f in (network, without))
    assert np.abs(expected[-1]).max() > 0.2
    assert found == pytest.approx(expected, abs=0.05)


def of_positions(f):
    @tp.network
    def network(ξ: tp.Input["pos", "d"], U: tp.Vector["d"], a: tp.Vector, v: tp.Vector):
        s = tp.avg(a * tp.sum(U * ξ, over="d"))  # over positions, 0 at the start
        return v * a * tp.sum(f(s), over="pos")

    return tp.derive(network, tp.MaximalUpdate(tp.SGD()))


@pytest.mark.long
@pytest.mark.parametrize("f", [tp.sign, tp.step, lambda s: tp.sign(s) * tp.cos(s)])
def test_jumps_inside_of_sums_over_an_axis_are_refused(f):
    """The gradient by v is a·Σ sign(s_pos), each sign ±1 as it happens: f_1 has no limit."""
    asked = ASKED | {"X": np.array([[[1.0, 0.5], [0.2, -1.0]], [[-0.3, 0.8], [0.4, 0.6]]])}
    with pytest.raises(tp.EvaluationError, match="lands on a jump of a function of scalars"):
        of_positions(f).evaluate(**asked, steps=1)
    assert np.isfinite(of_positions(lambda s: 1 + tp.sign(s) * s).evaluate(**asked, steps=1).f).all()


@pytest.mark.parametrize("f", [lambda s: tp.tanh(1 / s), lambda s: s**1.5])
def test_poles_and_roots_inside_of_sums_over_an_axis_are_refused(f):
    """The difference has the limit 0 at every position."""

    @tp.network
    def network(ξ: tp.Input["pos", "d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        y = tp.sum(U * ξ, over="d")
        mean = tp.sum(y, over="pos")
        return v * mean * tp.sum(f(tp.avg((W @ y) ** 2) - tp.avg(y * y)), over="pos")

    asked = ASKED | {"X": np.array([[[1.0, 0.5], [0.2, -1.0]], [[-0.3, 0.8], [0.4, 0.6]]])}
    with pytest.raises((tp.NoLimitError, tp.EvaluationError), match=r"Keep .* away|under the root"):
        tp.derive(network, tp.MaximalUpdate(tp.SGD())).evaluate(**asked, steps=1)


def of_a_mean(f):
    """s = E h relu(h) − E h²/2 = 0 by symmetry, and not 0 on particles."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        y = tp.sum(U * ξ, over="d")
        h = W @ y
        return v * y * f(tp.avg(h * tp.relu(h)) - tp.avg(h * h) / 2)

    return tp.derive(network, tp.MaximalUpdate(tp.SGD()))


ONE = ASKED | {"X": np.array([[0.6, 0.8]]), "error": tp.squared_error([1.0]), "lr": 1.0, "replicates": 2}


@pytest.mark.long
@pytest.mark.parametrize(
    ("f", "seeds"),
    [
        (lambda s: 2 + tp.sign(s), (15, 19, 26, 29)),
        (lambda s: tp.sign(tp.relu(s)), (0, 2, 4, 6)),
        (lambda s: tp.sign(tp.maximum(0, s)), (0, 2, 4, 6)),
    ],
)
def test_two_replicates_that_happen_to_agree_are_no_proof(f, seeds):
    """The error of a mean of two is often much less than its own; sign(relu(s)) may be 0 in both."""
    for seed in seeds:
        with pytest.raises(tp.EvaluationError, match="lands on a jump of a function"):
            of_a_mean(f).evaluate(**ONE, steps=1, seed=seed)


def test_two_replicates_are_enough_away_from_zero():
    few = ASKED | {"replicates": 2, "steps": 1}
    found = [of_a_mean(f).evaluate(**few).f for f in (lambda s: tp.sign(tp.relu(s - 3) + 1), lambda s: 1 + 0 * s)]
    np.testing.assert_allclose(*found, atol=1e-12)
    assert np.isfinite(of_a_mean(lambda s: 1 / (1 + s) + tp.relu(1 + s)).evaluate(**few).f).all()
