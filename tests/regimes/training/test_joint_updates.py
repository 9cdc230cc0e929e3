"""Normalised, clipped and factored updates as a user meets them: printed, refused, resumed, invariant."""

import re
import warnings

import numpy as np
import pytest
import sympy
from latex2mathml.converter import convert

import tplimits as tp

X, Y = np.random.default_rng(0).standard_normal((3, 2)), np.array([1.0, -0.5, 0.3])
ERROR = tp.squared_error(Y)
ADAM = tp.Adam(eps=0.05)
SMALL = {"steps": 2, "particles": 256, "replicates": 2, "block": 64}


@tp.network
def net(
    ξ: tp.Input["d"], U: tp.Vector["d"], A: tp.Matrix["k", "n"], B: tp.Matrix["n", "k"], v: tp.Vector, c: tp.Scalar
):
    h = B @ tp.tanh(A @ tp.tanh(tp.sum(U * ξ, over="d")))
    return tp.readout(v * tp.tanh(h)) + c


@tp.network
def tied(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(W.T @ tp.sum(U * ξ, over="d")))


REGIMES = (tp.MaximalUpdate, tp.NeuralTangent)
OPTIMIZERS = {
    "normalised": tp.Normalized(tp.SGD(momentum=0.5)),
    "by weight": tp.Normalized(ADAM, by="weight"),
    "clipped": tp.Clipped(ADAM, 0.5),
    "as printed": tp.Clipped(tp.SGD(), 0.5, reading="printed"),
    "factored": tp.Adafactor(decay=0.9, eps=0.05),
    "whole gradient": tp.Clipped(ADAM, 0.5, of="gradient"),
    "whole gradient, as printed": tp.Clipped(tp.SGD(), 0.5, "printed", of="gradient"),
}


def evaluated(regime, optimizer, error=ERROR, lr=0.1, **settings):
    limit = tp.derive(net, regime(optimizer))
    return limit.evaluate(X, error=error, lr=lr, ratios={"k": 0.5}, **{**SMALL, "c": 0.2, **settings})


@pytest.mark.parametrize("regime", REGIMES)
def test_normalised_descent_does_not_see_the_size_of_the_error(regime):
    start = {"f0": np.zeros(3)} if regime is tp.NeuralTangent else {}
    found = evaluated(regime, tp.Normalized(tp.SGD()), **start).f
    scaled = evaluated(regime, tp.Normalized(tp.SGD()), lambda f: 1000 * ERROR(f), **start).f
    np.testing.assert_allclose(found, scaled, atol=1e-10)
    assert np.abs(found[1] - found[0]).max() > 0.05


@pytest.mark.parametrize("regime", REGIMES)
def test_a_threshold_that_is_never_reached_divides_by_itself(regime):
    start = {"f0": np.zeros(3)} if regime is tp.NeuralTangent else {}
    large = evaluated(regime, tp.Clipped(tp.SGD(), 50), lr=5.0, **start)
    np.testing.assert_allclose(large.f, evaluated(regime, tp.SGD(), lr=0.1, **start).f, atol=1e-10)
    small = evaluated(regime, tp.Clipped(tp.SGD(), 1e-9), lr=0.1, **start)
    np.testing.assert_allclose(small.f, evaluated(regime, tp.Normalized(tp.SGD()), lr=0.1, **start).f, atol=1e-10)


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("regime", REGIMES)
def test_formulas_are_closed_and_set_by_another_reader_of_latex(regime, kind):
    for network in (net, tied):
        limit = tp.derive(network, regime(OPTIMIZERS[kind], weight_decay=0.1))
        source = limit.latex()
        assert source.isascii() and source.count("{") == source.count("}")
        assert not re.search(r"\^\{[^{}]*\}_(\w|\{[^{}]*\})\^", source), "a superscript twice"
        convert(source.replace("align*", "aligned"))
        assert all(str(step) for step in limit.steps) and "yang2023tensor" in limit.citation()
        assert any("do not vanish" in a for a in limit.assumptions) == (kind not in ("factored", "whole gradient"))


def test_divisors_are_printed():
    shown = repr(tp.derive(net, tp.MaximalUpdate(tp.Normalized(ADAM, by="weight"), weight_decay=0.1)))
    for line in ("ν_t[A]      = 0.9^t √(k/n)", "ν_t[B]      = 0.9^t\n", "ν_t[v]      = √E[|v_t⟩²]", ")/ν_t[B]\n"):
        assert line in shown, shown
    shown = repr(tp.derive(tied, tp.MaximalUpdate(tp.Clipped(ADAM, 0.5))))
    assert re.search(r"ν_t\[W\] += max\(1/2, √E\[Q_t\(\S+ \+ \S+\)²\]\)", shown), shown
    assert ")ᵀ/ν_s[W] |" in shown
    limit = tp.derive(net, tp.NeuralTangent(tp.Normalized(tp.SGD())))
    shown = repr(limit)
    assert "ν_t[A] = √(k/n E[" in shown and "∂f/∂c Q_t(∂f/∂c Σ_b χ^b)/ν_t[c]" in shown and "q_t·Θ_w q_t" in shown
    assert limit.is_exact and any("2.10.4" in str(s) for s in limit.steps)
    shown = repr(tp.derive(net, tp.NeuralTangent(tp.Adafactor(decay=0.9, eps=0.05))))
    assert "r ← ρ*r" in shown and "E□" in shown and "ρ = 0.9, ε = 0.05" in shown


def test_the_norm_of_the_whole_gradient_is_printed():
    whole = tp.Clipped(tp.SGD(), 0.5, of="gradient")
    shown = repr(tp.derive(net, tp.MaximalUpdate(whole)))
    squares = "k/n E[(|dh_t⟩_χ_t⟨_9_t|)²] + E[(χ_t·|dv_t⟩)²] + E[(χ_t·d^shift c_t)²]))"
    assert "= max(1/2, √(Σ_{d} E[(χ_t·|dU_t⟩)²] + k/n E[" in shown and squares in shown, shown
    assert "Q_t(|dh_t⟩_χ_t⟨_9_t|/ν_t)" in shown and "of=gradient)" in shown
    limit = tp.derive(net, tp.NeuralTangent({**dict.fromkeys("UABv", whole), "c": tp.SGD()}))
    shown = repr(limit)
    assert "⟨dh| Q_t((Σ_b χ^b |dh⟩⟨_9|)/ν_t) |_9⟩" in shown and "Q_t(∂f/∂c Σ_b χ^b)" in shown
    assert "∂f/∂c Σ_b χ^b)²" not in shown and limit.is_exact
    assert r"\big/\nu_t" in limit.latex() and r"\nu_t &= \max" in limit.latex()
    assert str(tp.Clipped(tp.SGD(), 2)) == "Clipped(optimizer=SGD(momentum=0), threshold=2, reading=usual)"


@pytest.mark.parametrize("regime", REGIMES)
def test_groups_of_parameters_are_clipped_apart(regime):
    """By the same threshold together; alone, the norm is that of one parameter, which for descent is that of Q."""
    start = {"f0": np.zeros(3)} if regime is tp.NeuralTangent else {}
    alone = {
        name: tp.Clipped(tp.SGD(), θ, of="gradient") for name, θ in zip("UABvc", (0.1, 0.2, 0.3, 0.4, 0.5), strict=True)
    }
    updates = {name: tp.Clipped(tp.SGD(), o.threshold) for name, o in alone.items()}
    found = evaluated(regime, alone, **start).f
    np.testing.assert_allclose(found, evaluated(regime, updates, **start).f, atol=1e-10)
    together = evaluated(regime, tp.Clipped(tp.SGD(), 0.1, of="gradient"), **start).f
    assert np.abs(together - found).max() > 1e-3
    assert np.abs(together[1] - together[0]).max() > 1e-2


@pytest.mark.parametrize("kind", ["normalised", "by weight", "factored", "whole gradient"])
def test_an_interrupted_run_goes_on_from_its_checkpoint(kind, tmp_path):
    whole = evaluated(tp.MaximalUpdate, OPTIMIZERS[kind], steps=3)
    calls = []

    def interrupt(done, total, text):
        calls.append(done)
        if done >= 3:
            raise KeyboardInterrupt

    file = tmp_path / "run.npz"
    with pytest.raises(KeyboardInterrupt):
        evaluated(tp.MaximalUpdate, OPTIMIZERS[kind], steps=3, checkpoint=file, progress=interrupt)
    assert (evaluated(tp.MaximalUpdate, OPTIMIZERS[kind], steps=3, checkpoint=file).f == whole.f).all()


def test_optimizers_by_name():
    mixed = {"U": tp.SGD(), "A": OPTIMIZERS["normalised"], "B": OPTIMIZERS["factored"], "v": ADAM, "c": tp.SGD()}
    for regime in REGIMES:
        assert np.isfinite(evaluated(regime, mixed).f).all()


def test_what_is_refused():
    limit = tp.derive(tied, tp.MaximalUpdate(OPTIMIZERS["clipped"]))
    with pytest.raises(tp.ProgramError, match="all entries of a parameter at once: steps are unrolled"):
        limit.exact(X, error=ERROR, lr=1, steps=1)
    κ = sympy.Symbol("κ", positive=True)
    for optimizer in (tp.Normalized(tp.SGD(momentum=κ)), tp.Adafactor(decay=κ, eps=0.1)):
        with pytest.raises(tp.EvaluationError, match="κ has no value"):
            evaluated(tp.MaximalUpdate, optimizer)
    by_weight = tp.derive(net, tp.NeuralTangent(tp.Normalized(tp.SGD(), by="weight")))
    with pytest.raises(tp.EvaluationError, match="divides by its size: give its value at the start, c="):
        by_weight.evaluate(X, error=ERROR, lr=0.1, ratios={"k": 0.5}, **SMALL)


def test_parametrizations_with_norms():
    weight = tp.Normalized(tp.SGD(), by="weight")
    adjusted = tp.MUP.adjusted(net, {"A": weight, "B": tp.Normalized(tp.SGD()), "U": tp.SGD()}).of(net)
    half = sympy.Rational(1, 2)
    assert [adjusted[name].c for name in ("U", "A", "B", "v", "c")] == [0, half, 0, 0, 0]
    assert tp.NTP.adjusted(net, weight).of(net)["A"].c == 0
    assert tp.classify(net, tp.MUP.adjusted(net, weight), weight).regime == "feature"


@pytest.mark.parametrize(
    "optimizer",
    [
        tp.Normalized(tp.SGD()),
        tp.Clipped(tp.SGD(), 0.2, reading="printed"),
        tp.Clipped(tp.SGD(), 0.2, reading="printed", of="gradient"),
        tp.SignSGD(),
    ],
)
def test_signals_that_vanish_have_no_direction(optimizer):
    """Outputs start at 0: with targets 0 networks go one way or the other by steps of full size."""
    X, task = [[0.9, -0.4], [-0.2, 1.3]], {"lr": 0.2, "steps": 2, "particles": 256, "replicates": 3}
    limit = tp.derive(tied, tp.MaximalUpdate(optimizer))
    with pytest.raises(tp.EvaluationError, match=r"error signals of step 0, .* have no direction"):
        limit.evaluate(X, error=tp.squared_error([0.0, 0.0]), **task)
    assert abs(limit.evaluate(X, error=tp.squared_error([1.0, 0.0]), **task).f[2]).max() > 0.05
    at_rest = limit.evaluate(X, error=tp.squared_error([0.0, 0.0]), **{**task, "lr": 0.0})
    assert abs(at_rest.f).max() < 1e-12


def test_signals_without_a_known_direction_move_nothing():
    """Normalised steps of ½ pass the targets after four, and go by what noise leaves of signals from there on.

    The bias of f[5] is then 1.7 standard errors of eight replicates.  One signal alone has a sign, which is known.
    """

    @tp.network
    def shallow(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.tanh(tp.sum(U * ξ, over="d"))

    draws = np.random.default_rng(5)
    X, y = draws.standard_normal((4, 3)), draws.standard_normal(4)
    limit, task = tp.derive(shallow, tp.MaximalUpdate(tp.Normalized(tp.SGD()))), {"lr": 0.5, "particles": 256}
    assert limit.evaluate(X, error=tp.squared_error(y), steps=3, **task).stderr[3].max() < 0.05
    with pytest.raises(tp.EvaluationError, match=r"error signals of step 4, .* have no direction that is known"):
        limit.evaluate(X, error=tp.squared_error(y), steps=6, **task)
    alone = limit.evaluate(X, error=tp.squared_error(y, train=[0]), steps=6, **task)
    assert (abs(np.diff(alone.f[:, 0])) > 0.3).all() and alone.stderr[6, 0] < 0.05


@pytest.mark.parametrize(
    "optimizer", [tp.Adam(eps=1e-3), tp.Clipped(tp.SGD(), 0.2), tp.Normalized(tp.SGD(), by="weight")]
)
def test_signals_that_vanish_move_nothing_where_small_ones_do_not(optimizer):
    limit = tp.derive(tied, tp.MaximalUpdate(optimizer))
    run = limit.evaluate(
        [[0.9, -0.4], [-0.2, 1.3]], error=tp.squared_error([0.0, 0.0]), lr=0.2, steps=2, particles=256, replicates=3
    )
    assert abs(run.f).max() < 1e-12


@pytest.mark.parametrize("regime", [tp.MaximalUpdate, tp.NeuralTangent])
@pytest.mark.parametrize("optimizer", [tp.SignSGD, tp.Adam, tp.Adafactor])
@pytest.mark.parametrize(
    ("X", "y"),
    [([[0.9, -0.4], [0.9, -0.4]], [1.0, -1.0]), ([[0.9, -0.4], [-0.9, 0.4]], [1.0, 1.0])],
    ids=["equal inputs", "opposite inputs"],
)
def test_gradients_of_targets_that_contradict_each_other_have_no_direction(regime, optimizer, X, y):
    """An odd network on equal or opposite inputs: every gradient is 0, and what rounding leaves of it is no sign."""
    task = {"error": tp.squared_error(y), "lr": 0.1, "steps": 2, "particles": 256, "replicates": 2}
    task |= {"f0": 0.0} if regime is tp.NeuralTangent else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ε = 0
        pure = optimizer(eps=0)
    with pytest.raises(tp.EvaluationError, match="in step 0 the parts of a gradient that come from different inputs"):
        tp.derive(tied, regime(pure)).evaluate(X, **task)
    assert abs(tp.derive(tied, regime(optimizer(eps=0.01))).evaluate(X, **task).f).max() < 1e-10
    other = tp.squared_error([y[0], -y[1]])
    assert abs(tp.derive(tied, regime(pure)).evaluate(X, **{**task, "error": other}).f[2]).min() > 0.05


@pytest.mark.parametrize("optimizer", [tp.SignSGD(), tp.Normalized(tp.SGD())], ids=["signs", "normalized"])
@pytest.mark.parametrize("size", [1e-9, 1e-13, 1e-40])
def test_small_signals_have_a_direction(optimizer, size):
    """Updates that keep their size train s·f to s·y as f to y, however small s is."""

    def f_after(s):
        @tp.network
        def scaled(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
            return s * v * tp.tanh(tp.sum(U * ξ, over="d"))

        task = {"error": tp.squared_error([s, -s]), "lr": 0.1, "steps": 2, "particles": 256}
        return tp.derive(scaled, tp.MaximalUpdate(optimizer)).evaluate(np.eye(2), **task).f / s

    assert np.abs(f_after(size) - f_after(1.0)).max() < 1e-9
    assert np.abs(f_after(1.0)[2]).min() > 0.05
