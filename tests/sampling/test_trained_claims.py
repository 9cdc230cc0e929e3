"""Limits of training judged at finite widths: formulas by hand and derived limits accepted, wrong twins rejected."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
import sympy

import tplimits as tp
from tplimits.regimes.training.finite.judged import output_sampler
from tplimits.regimes.training.finite.networks import train
from tplimits.regimes.training.finite.recipe import recipe

X = np.array([[0.9, -0.4], [-0.2, 1.3], [1.1, 0.8]])
ERROR = tp.squared_error([1.0, -0.8, np.nan], train=[0, 1])
SMALL = {"widths": (16, 32, 64, 128)}
#: for twins that are wrong by much
FEW = {"widths": (16, 32, 64), "draws": 400}

pytestmark = pytest.mark.sampling


@tp.network
def linear(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.sum(U * ξ, over="d")


@tp.network
def mlp(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))


@tp.network
def shared(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector["out"]):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    return v * tp.tanh(W @ tp.tanh(W @ x))


@tp.network
def rectangular(ξ: tp.Input["d"], U: tp.Vector["d", "k"], W: tp.Matrix["n", "k"], v: tp.Vector["n"]):
    return v * tp.erf(W @ tp.erf(tp.sum(U * ξ, over="d")))


@tp.network
def own_readout(ξ: tp.Input["d"], U: tp.Vector["d"], g: tp.Vector = 1):
    x = tp.sum(U * ξ, over="d")
    return g * tp.tanh(x) ** 2


def without_correction(eps):
    """Adam that forgets to correct its bias."""
    return tp.Entrywise(
        lambda m, v: m / sympy.sqrt(v + eps**2),
        states={"m": lambda g, m: 0.9 * m + 0.1 * g, "v": lambda g, v: 0.999 * v + 0.001 * g**2},
    )


def names(verdict):
    return [row.claim.name for row in verdict.rows]


@tp.network
def deep_linear(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * (W @ tp.sum(U * ξ, over="d"))


@pytest.mark.long
def test_small_widths_that_follow_no_series_reject_no_true_limit():
    """At n = 16 the mean of f₂ is −3, of draws of deviation 100; f₁ is nearly what it is in the limit."""
    limit = tp.derive(deep_linear, tp.MaximalUpdate(tp.SGD()))
    asked = {"X": [[1.0, 0.5]], "error": tp.squared_error([1.0]), "lr": 0.5, "steps": 2}
    second = float(limit.evaluate(**asked).f[2, 0])
    claims = {"f[1,0]": 1.5, "f[2,0]": second}
    verdict = tp.check(limit, claims=claims, **asked, **SMALL, draws=(40_000, 40_000, 20_000, 4000))
    assert [row.accepted for row in verdict.rows] == [False, None] and verdict.accepted is False
    assert abs(verdict.rows[1].z) > 3 and verdict.rows[1].lack_of_fit < 1e-4
    assert verdict.sentence.startswith("Rejected by") and "f[1,0] = 1.5" in verdict.sentence
    alone = tp.check(limit, claims={"f[2,0]": second}, **asked, **SMALL, draws=(40_000, 40_000, 20_000, 4000))
    assert alone.accepted is None and alone.sentence.startswith("Undecided by") and "raise them" in alone.sentence
    assert alone.report().title.endswith("undecided") and alone.plot().get_suptitle().startswith("undecided")


# -- by hand --------------------------------------------------------------------------------------


def linear_by_hand(lr):
    """f_1 and f_2 of v·U in the maximal update limit, ξ = y = 1: means over U, v ~ N(0, 1)."""
    first, square = 2 * lr, 1 + lr**2
    χ = first - 1
    return np.array([[0.0], [first], [first * (1 + lr**2 * χ**2) - 2 * lr * χ * square]])


def test_features_of_a_linear_network(seed):
    limit = tp.derive(linear, tp.MaximalUpdate(tp.SGD()))
    asked = {"X": [[1.0]], "error": lambda f: f - 1, "lr": 0.3, "steps": 2, "seed": seed}
    by_hand = linear_by_hand(0.3)
    verdict = tp.check(limit, claims={"f": by_hand}, **asked, **SMALL)
    assert verdict.accepted, verdict
    assert names(verdict) == ["f[1,0]", "f[2,0]"]
    assert [row.tolerance for row in verdict.rows] == pytest.approx(0.02 * by_hand[1:, 0])
    assert tp.check(limit, claims={"f[2,0]": by_hand[2, 0]}, **asked, **SMALL).accepted
    for wrong in ({"f": linear_by_hand(0.31)}, {"f[2,0]": 1.02 * by_hand[2, 0]}):
        assert not tp.check(limit, claims=wrong, **asked, **SMALL).accepted


def decayed_by_hand(λ, lr, steps, f0, gram, signal, factor=True):
    """f̃_t of v·U in the NTP, f^dec = f0: Θ between the weights of times r and s is 2 (1 − λ)^(r+s) ξξ′."""
    f, χ = [f0], []
    for t in range(steps):
        χ.append(signal(f[-1]))
        learned = sum(
            (1 - λ) ** (t - s) * (2 * (1 - λ) ** (t + 1 + s) if factor else 2) * gram @ χ[s] for s in range(t + 1)
        )
        f.append(f0 - lr * learned)
    return np.array(f)


@pytest.mark.parametrize("λ", [0.0, 0.2])
def test_the_operator_regime_given_the_start(λ, seed):
    f0 = np.array([0.5, -0.2, 0.3])
    limit = tp.derive(linear, tp.NeuralTangent(tp.SGD(), weight_decay=λ))
    given = f0 if λ == 0 else np.tile(f0, (3, 1))
    asked = {"X": X, "error": ERROR, "lr": 0.3, "steps": 2, "f0": given, "seed": seed}
    by_hand = decayed_by_hand(λ, 0.3, 2, f0, X @ X.T, ERROR)
    for claims in (None, {"f": by_hand}):
        verdict = tp.check(limit, claims=claims, **asked, **SMALL)
        assert verdict.accepted, verdict
        np.testing.assert_allclose([row.claim.value for row in verdict.rows], by_hand[1:].ravel(), rtol=1e-9)
    wrong = decayed_by_hand(λ, 0.3 if λ else 0.32, 2, f0, X @ X.T, ERROR, factor=False)
    assert not tp.check(limit, claims={"f": wrong}, **asked, **SMALL).accepted


@pytest.mark.long
def test_outputs_that_start_elsewhere_than_at_zero(seed):
    """f_0 = E tanh(Uξ)² is no random number in the limit: networks are shifted there."""
    limit = tp.derive(own_readout, tp.MaximalUpdate(tp.SGD()))
    asked = {"X": X[:2], "error": lambda f: f, "lr": 0.5, "steps": 1, "seed": seed, "particles": 4096}
    verdict = tp.check(limit, **asked, **SMALL)
    assert verdict.accepted, verdict
    start = limit.evaluate(**{**asked, "steps": 0}).f[0]
    assert not tp.check(limit, claims={"f": np.array([start, 0.98 * start])}, **asked, **SMALL).accepted


# -- derived limits and wrong twins ----------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("regime", [tp.MaximalUpdate, tp.NeuralTangent])
def test_adam_with_decay_is_accepted_and_its_wrong_twins_rejected(regime, seed):
    asked = {"X": X, "error": ERROR, "lr": 0.1, "steps": 2, "seed": seed}
    limit = tp.derive(mlp, regime(tp.Adam(eps=0.1), weight_decay=0.1))
    verdict = tp.check(limit, **asked, **SMALL)
    assert verdict.accepted, verdict
    assert len(verdict.rows) == 6
    start = {} if regime is tp.MaximalUpdate else {"f0": np.zeros((3, 3))}
    for other, lr, sampled in ((without_correction(0.1), 0.1, FEW), (tp.Adam(eps=0.1), 0.105, SMALL)):
        twin = tp.derive(mlp, regime(other, weight_decay=0.1)).evaluate(**{**asked, "lr": lr}, **start)
        assert not tp.check(limit, claims={"f": twin.f}, **asked, **sampled).accepted


@pytest.mark.long
@pytest.mark.parametrize("regime", [tp.MaximalUpdate, tp.NeuralTangent])
def test_shared_weights_and_two_outputs(regime, seed):
    """Each output has its own targets; a limit that exchanges the outputs is rejected."""
    targets = tp.squared_error(np.array([[1.0, -0.5], [-0.8, 0.7]]))
    asked = {"X": X[:2], "error": targets, "lr": 0.4, "steps": 2, "seed": seed}
    limit = tp.derive(shared.bind(out=2), regime(tp.SGD()))
    verdict = tp.check(limit, **asked, **SMALL)
    assert verdict.accepted, verdict
    assert names(verdict)[:4] == ["f[1,0;0]", "f[1,0;1]", "f[1,1;0]", "f[1,1;1]"]
    stated = np.array([row.claim.value for row in verdict.rows]).reshape(2, 2, 2)
    other = np.concatenate([np.zeros((1, 2, 2)), stated[:, :, ::-1]])
    assert not tp.check(limit, claims={"f": other}, **asked, **FEW).accepted


@pytest.mark.long
@pytest.mark.parametrize("regime", [tp.MaximalUpdate, tp.NeuralTangent])
def test_two_widths_with_a_ratio(regime, seed):
    asked = {"X": X[:2], "error": tp.squared_error([1.0, -0.8]), "lr": 0.3, "steps": 2, "seed": seed}
    limit = tp.derive(rectangular, regime(tp.Adam(eps=0.2)))
    verdict = tp.check(limit, ratios={"k": 0.5}, **asked, **SMALL)
    assert verdict.accepted, verdict
    start = {} if regime is tp.MaximalUpdate else {"f0": [0.0, 0.0]}
    square = limit.evaluate(**asked, ratios={"k": 1.5}, **start)
    assert not tp.check(limit, ratios={"k": 0.5}, claims={"f": square.f}, **asked, **SMALL).accepted


@pytest.mark.long
def test_rates_optimizers_and_mini_batches(seed):
    def batches(f, t):
        χ = np.zeros(3)
        χ[t % 2] = f[t % 2] - 1
        return χ

    rules = {"U": tp.SGD(), "W": tp.Adam(eps=0.2), "v": tp.SGD(momentum=0.5)}
    rates = {"U": 0.3, "W": lambda t: 0.2 / (1 + t), "v": 0.5}
    asked = {"X": X, "error": batches, "lr": rates, "steps": 2, "seed": seed}
    limit = tp.derive(mlp, tp.MaximalUpdate(rules, weight_decay={"U": 0, "W": 0.3, "v": 0}))
    verdict = tp.check(limit, **asked, **SMALL)
    assert verdict.accepted, verdict
    twin = tp.derive(mlp, tp.MaximalUpdate(rules, weight_decay=0)).evaluate(**asked)
    assert not tp.check(limit, claims={"f": twin.f}, **asked, **SMALL).accepted


def test_output_biases_have_no_control_variate(seed):
    @tp.network
    def biased(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, b: tp.Scalar = 1):
        return tp.readout(v * tp.sum(U * ξ, over="d")) + 0.5 * b

    asked = {"X": [[1.0]], "error": lambda f: f, "lr": 0.2, "steps": 1, "seed": seed}
    # f_0 = b/2, b_1 = b − η χ/2, and the linear part moves by −2 η χ
    for regime, start in ((tp.MaximalUpdate, {}), (tp.NeuralTangent, {"f0": [0.5]})):
        limit = tp.derive(biased, regime(tp.SGD()))
        right = np.array([[0.5], [0.5 - 0.2 * 0.5 * (0.25 + 2)]])
        assert tp.check(limit, claims={"f": right}, **asked, **start, **SMALL).accepted
        assert not tp.check(limit, claims={"f[1,0]": 0.5 - 0.2 * 0.5 * 2}, **asked, **start, **SMALL).accepted


# -- the networks ---------------------------------------------------------------------------------


def test_networks_are_shifted_along_a_path_and_the_error_sees_them_there():
    path = np.arange(9.0).reshape(3, 3)
    seen = []

    def error(f, t):
        seen.append(f.copy())
        return f

    still = train(mlp, tp.NTP, tp.SGD(), X, error, 0.0, 2, 8, weight_decay=0.3, start=path, draws=2)
    np.testing.assert_allclose(still.f, np.broadcast_to(path, (2, 3, 3)), atol=1e-12)
    np.testing.assert_allclose(seen, np.repeat(path[:2], 2, axis=0), atol=1e-12)
    # f^dec is the network at (1 − λ)^t times its weights
    plain = train(mlp, tp.NTP, tp.SGD(), X, error, 0.0, 2, 8, weight_decay=0.3, keep="UWv")
    again = {k: np.array(plain.kept[k][0, 2]) for k in "UWv"}
    start = {k: np.array(plain.kept[k][0, 0]) for k in "UWv"}
    for k in "UWv":
        np.testing.assert_allclose(again[k], 0.49 * start[k], rtol=1e-12)
    for wrong in (np.zeros(2), np.zeros((2, 3)), np.zeros((1, 3, 3))):
        with pytest.raises(tp.EvaluationError, match="start has shape"):
            train(mlp, tp.NTP, tp.SGD(), X, error, 0.0, 2, 8, start=wrong)


def small_sampler(**changed):
    how = recipe(mlp, tp.MUP, tp.SGD(), 0.5)
    return output_sampler(how, X, ERROR, 2, **changed)


@tp.network
def normed(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, g: tp.Vector, b: tp.Vector, v: tp.Vector):
    x = tp.sum(U * ξ, over="d")
    h = W @ tp.tanh(x)
    h = h - tp.avg(h)
    return v * (x + tp.tanh(g * h / tp.sqrt(tp.avg(h * h) + 0.01) + b))


@pytest.mark.long
def test_noise_at_the_start_moves_no_intercept():
    """An error signal smaller than f_0 is at width 512 changes its sign there, and NAdam's updates with it."""
    X = np.array([[2.04, -2.56], [0.42, -0.57], [-0.45, -0.22]])
    asked = {"error": tp.squared_error([-0.18, 0.54, 1.94]), "lr": 0.05, "steps": 2}
    limit = tp.derive(normed, tp.MaximalUpdate(tp.NAdam(eps=0.05)))
    verdict = tp.check(limit, X=X, widths=(32, 64, 128, 256), draws=(1600, 800, 400, 200), **asked)
    assert verdict.accepted, verdict
    wrong = tp.derive(normed, tp.MaximalUpdate(tp.Adam(eps=0.05))).evaluate(X, **asked).f
    assert not tp.check(limit, X=X, claims={"f": wrong}, widths=(32, 64, 128), draws=(1600, 800, 400), **asked).accepted


@tp.network
def clipped(ξ: tp.Input["token", "d"], U: tp.Vector["d"], v: tp.Vector, c: tp.Scalar):
    y = tp.sum(U * ξ, over="d")
    return tp.readout(v * tp.mean(tp.minimum(tp.exp(-(y**2)), 0.5), over="token")) + 0.4 * c


@pytest.mark.long
def test_entries_that_a_step_moves_through_a_kink_leave_terms_of_half_powers():
    """A normalised step has a limit by kernels alone, .3999 at the first input; L + b/n would point at .3974(1)."""
    X = np.array([[[0.8, -1.2], [-0.7, -0.2]], [[-0.9, -0.3], [0.5, -0.1]]])
    asked = {"X": X, "error": tp.squared_error([1.0, -0.8]), "lr": 0.3, "steps": 1, "f0": [0.2, -0.1], "seed": 1}
    asked |= {"widths": (64, 128, 256, 512), "draws": (6000, 4000, 2500, 1500)}
    net = clipped.bind(token=2)
    limit = tp.derive(net, tp.NeuralTangent(tp.Normalized(tp.SGD())))
    verdict = tp.check(limit, **asked)
    assert verdict.accepted, verdict
    assert verdict.worst.series.parameters == 3
    wrong = tp.derive(net, tp.NeuralTangent(tp.SGD())).evaluate(
        **{k: asked[k] for k in ("X", "error", "lr", "steps", "f0")}
    )
    assert not tp.check(limit, claims={"f": wrong.f}, **asked).accepted


def test_the_numbers_do_not_depend_on_who_runs_them():
    limit = tp.derive(mlp, tp.MaximalUpdate(tp.Adam(eps=0.1)))
    asked = {"X": X, "error": ERROR, "lr": 0.1, "steps": 2, "widths": (8, 16), "draws": 300, "seed": 5}
    asked["claims"] = {"f[2,0]": 0.3}
    alone = tp.check(limit, **asked)
    for executor in (ThreadPoolExecutor(2), ProcessPoolExecutor(1)):
        with executor:
            assert tp.check(limit, executor=executor, **asked).table == alone.table


def test_functions_that_cannot_be_sent_to_processes_are_named():
    limit = tp.derive(mlp, tp.MaximalUpdate(tp.SGD()))
    asked = {"X": X, "lr": 0.1, "steps": 1, "widths": (8, 16), "draws": 20, "claims": {"f[1,0]": 0.1}}
    with ProcessPoolExecutor(1) as executor:
        for changed, name in (({"error": lambda f: f}, "error="), ({"error": ERROR, "lr": lambda t: 0.1}, "lr=")):
            with pytest.raises(tp.CheckError, match=f"{name} cannot be sent to the processes"):
                tp.check(limit, executor=executor, **{**asked, **changed})


def test_a_sampler_goes_to_another_process_with_what_it_prepared():
    sampler = small_sampler()
    sampler.prepare()
    again = pickle.loads(pickle.dumps(sampler))
    assert np.array_equal(again.run(8, 3, 5).values, sampler.run(8, 3, 5).values)


def test_axes_that_grow_have_more_members_at_larger_widths():
    @tp.network
    def many(ξ: tp.Input["d"], U: tp.Vector["d", "head"], v: tp.Vector["head"]):
        return tp.sum(v * tp.sum(U * ξ, over="d"), over="head") / tp.sqrt(tp.size("head"))

    limit = tp.derive(many, tp.NeuralTangent(tp.SGD(), infinite=("head",)))
    by_hand = decayed_by_hand(0, 0.3, 1, np.zeros(3), X @ X.T, ERROR)
    asked = {"X": X, "error": ERROR, "lr": 0.3, "steps": 1, "widths": (32, 64, 128)}
    assert tp.check(limit, claims={"f": by_hand}, **asked).accepted
    assert not tp.check(limit, claims={"f": 1.05 * by_hand}, **asked).accepted


# -- what cannot be checked ------------------------------------------------------------------------

MU, NT = (tp.derive(mlp, regime(tp.SGD())) for regime in (tp.MaximalUpdate, tp.NeuralTangent))
DECAY = tp.derive(mlp, tp.NeuralTangent(tp.SGD(), weight_decay=0.1))
BAD = {
    "X": (MU, {"X": None}, "needs X=: give X, error, lr and steps"),
    "error": (MU, {"error": None}, "needs error="),
    "lr": (NT, {"lr": None}, "needs lr="),
    "steps": (NT, {"steps": None}, "needs steps="),
    "none": (MU, {"steps": 0}, "steps=0: give a whole number, at least 1"),
    "X1": (MU, {"X1": X}, "X1= is for the check of a KernelLimit"),
    "V0": (NT, {"V0": np.eye(2)}, "V0= is for the check of a CovarianceSDE"),
    "layers": (NT, {"layers": 3}, "layers= is for the check of a CovarianceSDE"),
    "f0 of μ": (MU, {"f0": np.zeros(3)}, "f0= is for the operator regime"),
    "f0": (NT, {"f0": np.zeros(2)}, r"f0 has shape \(2,\); it is \(3,\), or \(3, 3\) for a path"),
    "f0 decays": (DECAY, {"f0": np.zeros(3)}, r"with weight decay .* give their path, \(3, 3\)"),
    "label": (MU, {"claims": {"f[3,0]": 1}}, r"there is f, and its entries f\[1,0\], …, f\[2,2\]"),
    "start": (MU, {"claims": {"f[0,0]": 1}}, r"there is no `f\[0,0\]`"),
    "shape": (MU, {"claims": {"f": np.zeros((2, 3))}}, r"has shape \(2, 3\); it needs \(3, 3\), \(steps \+ 1, inputs"),
    "elsewhere": (NT, {"claims": {"f": np.ones((3, 3))}}, "starts elsewhere than the networks do"),
    "one number": (MU, {"claims": {"f[1,0]": [1, 2]}}, "it is about one number"),
    "NaN": (MU, {"claims": {"f[1,0]": np.nan}}, "has NaN"),
    "nothing": (MU, {"claims": {}}, "there is no claim to judge"),
    "width": (MU, {"widths": (16,)}, "needs at least 2 widths"),
    "draws": (MU, {"draws": 3}, "at least 8 draws"),
    "level": (MU, {"level": 2}, "the level is a probability"),
    "diverges": (MU, {"lr": 1e200, "error": lambda f: 1e9 + f, "claims": {"f[1,0]": 1}}, "not be trained: .* overflow"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_checked(case):
    limit, changed, message = BAD[case]
    asked = {"X": X, "error": ERROR, "lr": 0.1, "steps": 2, "widths": (8, 16), "draws": 20, **changed}
    with pytest.raises(tp.CheckError, match=message):
        tp.check(limit, **asked)


def test_bad_data_and_rates_are_refused_as_in_evaluate():
    for changed, message in (
        ({"X": X[0]}, "X has shape"),
        ({"lr": -1}, "learning rate"),
        ({"error": 3}, "give a function"),
    ):
        with pytest.raises(tp.EvaluationError, match=message):
            tp.check(MU, **{"X": X, "error": ERROR, "lr": 0.1, "steps": 2, **changed})
