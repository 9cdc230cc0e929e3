"""Constants that are functions of the step: step t is one of the network with c_t, whichever engine takes it."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import tplimits as tp
from tplimits.errors import EvaluationError, TplimitsError
from tplimits.program.network.schedules import moving
from tplimits.program.nodes.entries import constant_symbol
from tplimits.regimes.training.finite.networks import train
from tplimits.regimes.training.trainer.trainer import Trainer

X = np.array([[1.0, 0.5], [-0.3, 1.0], [0.2, -0.7]])
Y = np.array([1.0, -1.0, 0.5])
LR, STEPS, N = 0.5, 4, 16
HOW = {"error": tp.squared_error(Y), "lr": LR}


def warmer(t):
    """A temperature that rises."""
    return 1 + 0.4 * t


def late(t):
    """The same, one step off."""
    return warmer(t + 1)


@tp.network
def warm(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, *, c, gain=2):
    return v * tp.tanh(c * tp.sum(U * ξ, over="d")) * gain / 2


@tp.network
def deep(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, *, c):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))) * c)


def start(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return {"U": rng.standard_normal((2, n)), "v": rng.standard_normal(n)}


def by_hand(c=lambda t: 1, decay=lambda t: 0, steps=STEPS, n=N):
    """f_0, …, f_steps of `warm` in μP by loops, with a decay for U and half of it for v."""
    U, v = start(n=n).values()
    found = []
    for t in range(steps + 1):
        a = np.tanh(c(t) * (X @ U))
        found.append(a @ v / n)
        χ = (found[-1] - Y) / len(X)
        moved = LR * X.T @ (χ[:, None] * v * (1 - a**2) * c(t))
        U, v = (1 - decay(t)) * U - moved, (1 - decay(t) / 2) * v - LR * χ @ a
    return np.array(found)


def advanced(trainer, given):
    """A run step by step with its outputs at every time, and one of all steps at once that ends the same."""
    one, many = (trainer.start(X, width=N, parameters={**start(), **given}) for _ in range(2))
    found = [one.outputs()]
    for _ in range(STEPS):
        one.advance(1)
        found.append(one.outputs())
    many.advance(STEPS)
    np.testing.assert_array_equal(many.outputs(), found[-1])
    return found, many


def test_networks_are_those_of_a_loop_by_hand():
    wanted, wrong = by_hand(warmer), by_hand(late)
    trainer = Trainer(warm, tp.squared_error(Y), tp.SGD(), LR)
    found, many = advanced(trainer, {"c": warmer})
    np.testing.assert_allclose(found, wanted, atol=1e-14)
    np.testing.assert_allclose(many.value("return").mean(axis=-1), wanted[-1], atol=1e-14)
    slow = train(warm, tp.MUP, tp.SGD(), X, tp.squared_error(Y), LR, STEPS, N, given={**start(), "c": warmer})
    np.testing.assert_allclose(slow.f[0], wanted, atol=1e-14)
    assert abs(wrong - wanted).max() > 0.05


def fading(t):
    """A decay that grows weaker."""
    return 0.1 / (1 + t)


def test_decays_may_be_functions_of_the_step_in_all_networks():
    wanted, wrong = by_hand(decay=fading), by_hand(decay=lambda t: fading(t + 1))
    decays = {"U": fading, "v": lambda t: fading(t) / 2}
    trainer = Trainer(warm, tp.squared_error(Y), tp.SGD(), LR, weight_decay=decays)
    found, _ = advanced(trainer, {"c": 1})
    np.testing.assert_allclose(found, wanted, atol=1e-14)
    how = {"given": {**start(), "c": 1}, "weight_decay": decays}
    slow = train(warm, tp.MUP, tp.SGD(), X, tp.squared_error(Y), LR, STEPS, N, **how)
    np.testing.assert_allclose(slow.f[0], wanted, atol=1e-14)
    assert abs(wrong - wanted).max() > 0.01
    # shifted to 0 by the network at rate 0, which decays step by step as well
    still = train(warm, tp.MUP, tp.SGD(), X, tp.squared_error(Y), 0, STEPS, N, start=0, **how)
    assert abs(still.f).max() < 1e-15


def test_limits_without_matrices_decay_by_functions_and_the_others_say_that_they_do_not():
    how = {"optimizer": tp.SGD(), "steps": 3, "weight_decay": fading, **HOW}
    rec = tp.watch(warm, X, widths=(4096, tp.inf), seeds=2, c=1.0, particles=4096, every=1, **how)
    networks, limit = (np.array([rec.outputs(-1, width=w, seed=s) for s in range(2)]) for w in (4096, tp.inf))
    assert abs(networks - limit).max() < 0.06
    alone = tp.watch(warm, X, widths=tp.inf, c=1.0, particles=4096, **{**how, "weight_decay": fading(0)})
    assert abs(alone.outputs(-1) - limit[0]).max() > 0.02
    assert rec.settings["weight_decay"]["U"] == [fading(t) for t in range(3)]
    with pytest.raises(EvaluationError, match="the other limits are derived with one number"):
        tp.watch(deep, X, widths=tp.inf, c=1.0, **how)
    with pytest.raises(tp.ProgramError, match="for `U` is a function of the step: limits are derived with one number"):
        tp.derive(deep, tp.MaximalUpdate(tp.SGD(), weight_decay=fading))
    for wrong, said in (
        (lambda t: 1 - t / 2, r"weight_decay\(0\)=1.0"),
        (lambda: 0, "is called as weight_decay\\(t\\)"),
    ):
        with pytest.raises(EvaluationError, match=said):
            tp.watch(warm, X, widths=8, c=1.0, **{**how, "weight_decay": wrong})


def test_compiled_networks_of_a_check_are_those_of_the_interpreter():
    how = (tp.MUP, tp.Adam(eps=1e-2), X, tp.squared_error(Y), 0.05, 3, 600)
    fast = train(deep, *how, draws=3, given={"c": warmer})  # so much that it is compiled
    slow = train(deep, *how, draws=3, given={"c": warmer}, keep=("return",))
    np.testing.assert_allclose(fast.f, slow.f, atol=1e-12)


@pytest.mark.long
@pytest.mark.sampling
def test_the_limit_of_particles_is_that_of_many_neurons_and_of_networks_at_finite_width():
    limit = tp.derive(warm, tp.MaximalUpdate(tp.SGD()))
    run = limit.evaluate(X, steps=3, particles=4096, replicates=4, c=warmer, **HOW)
    particles = []
    for seed in range(6):
        alone = Trainer(warm, tp.squared_error(Y), tp.SGD(), LR).start(
            X, particles=8192, seed=seed, parameters={"c": warmer}
        )
        alone.advance(3)
        particles.append(alone.outputs())
    np.testing.assert_allclose(run.f[3], np.mean(particles, axis=0), atol=4 * run.stderr[3].max() + 1e-3)
    wrong = limit.evaluate(X, steps=2, particles=4096, replicates=4, c=late, **HOW)
    how = {"X": X, "steps": 2, "c": warmer, "seed": 1, **HOW}
    assert tp.check(limit, particles=4096, replicates=4, **how).accepted
    assert not tp.check(limit, claims={"f": wrong.f}, draws=400, **how).accepted


@pytest.mark.long
@pytest.mark.sampling
def test_the_limit_with_matrices_is_where_networks_point():
    limit = tp.derive(deep, tp.MaximalUpdate(tp.SGD()))
    how = {"error": tp.squared_error(Y[:2]), "lr": 1.0, "steps": 2}
    networks = {"X": X[:2], "c": warmer, "draws": 200, "widths": (16, 32, 64, 128, 256), **how}
    assert tp.check(limit, particles=2048, **networks).accepted
    # the same number at all steps: the first one's
    still = limit.evaluate(X[:2], particles=2048, replicates=4, c=warmer(0), **how).f
    assert not tp.check(limit, claims={"f[2,0]": float(still[2, 0])}, **networks).accepted


def test_unrolled_programs_hold_the_numbers_of_each_step():
    limit = tp.derive(warm, tp.MaximalUpdate(tp.SGD()))
    program = limit.unrolled(X, steps=2, c=warmer, gain=2, **HOW)
    found = program.run(n=N, **start())
    np.testing.assert_allclose([found[f"f_{t}"] for t in range(3)], by_hand(warmer, steps=2), atol=1e-14)
    assert abs(found["f_2"] - by_hand(late, steps=2)[2]).max() > 0.05

    @tp.network
    def linear(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, *, c):
        return c * v * tp.sum(U * ξ, over="d")

    exact = tp.derive(linear, tp.MaximalUpdate(tp.SGD())).exact(
        [[1.0]], error=tp.squared_error([1.0]), lr=1, steps=1, constants={"c": lambda t: 1 + t}
    )
    # U₁ = U + v, v₁ = v + U at c = 1: f₁ = 2 ⟨(U + v)²⟩ = 4
    assert exact.ravel().tolist() == [0, 4]


def kernel(x, s, z, t):
    """Θ of `warm` between inputs x at step s and z at step t, by quadrature on a grid."""
    points = np.linspace(-9, 9, 721)
    weights = np.exp(-(points**2) / 2) / np.exp(-(points**2) / 2).sum()
    root = np.linalg.cholesky(np.array([[x @ x, x @ z], [x @ z, z @ z]]) + 1e-14 * np.eye(2))
    a = warmer(s) * root[0, 0] * points[:, None]
    b = warmer(t) * (root[1, 0] * points[:, None] + root[1, 1] * points)
    both = weights[:, None] * weights
    gates = (both / np.cosh(a) ** 2 / np.cosh(b) ** 2).sum() * warmer(s) * warmer(t)
    return (both * np.tanh(a) * np.tanh(b)).sum() + gates * (x @ z)


@pytest.mark.long
@pytest.mark.sampling
def test_the_operator_regime_has_kernels_between_steps():
    limit = tp.derive(warm, tp.NeuralTangent(tp.SGD()))
    steps, still = 3, np.zeros((4, 3))
    run = limit.evaluate(X, steps=steps, f0=still, c=warmer, **HOW)
    wanted, χ = [still[0]], []
    for t in range(steps):
        χ.append((wanted[-1] - Y) / len(X))
        moved = sum(χ[s] @ [[kernel(x, s, z, t + 1) for z in X] for x in X] for s in range(t + 1))
        wanted.append(-LR * moved)
    np.testing.assert_allclose(run.f, wanted, atol=1e-9)
    wrong = limit.evaluate(X, steps=2, f0=still[:3], c=late, **HOW)
    assert abs(wrong.f - run.f[:3]).max() > 0.01
    how = {"X": X, "steps": 2, "c": warmer, "seed": 1, "draws": 400, **HOW}
    assert tp.check(limit, **how).accepted
    assert not tp.check(limit, claims={"f": wrong.f}, **how).accepted
    adam = tp.derive(warm, tp.NeuralTangent(tp.Adam(eps=1e-2)))
    assert tp.check(adam, **{**how, "lr": 0.1}).accepted
    silent = tp.derive(warm, tp.NeuralTangent(tp.SGD(), f0=0)).evaluate(X, steps=2, c=warmer, **HOW)
    np.testing.assert_allclose(silent.f, run.f[:3], atol=1e-12)


@pytest.mark.parametrize("what", ["lr", "weight_decay", "c"])
def test_no_function_is_asked_for_steps_that_nobody_takes(what):
    """Frame by frame, where looks ahead grow; a constant is where it is at the start of the next step."""
    run = None

    def followed(t):
        assert t <= (0 if run is None else run.step + 1)
        return 0.1

    given = {"lr": LR, "weight_decay": 0.0, "c": 1.0, what: followed}
    parameters = {**start(), "c": given.pop("c")}
    run = Trainer(warm, tp.squared_error(Y), tp.SGD(), **given).start(X, width=N, parameters=parameters)
    for _ in range(STEPS):
        run.advance(1)


def test_constants_that_are_stated_in_terms_of_others_move_along():
    c = constant_symbol("c")
    tied = warm.replace(constants={"c": None, "gain": 2 * c})
    found, given = moving(tied, {"c": warmer})
    assert (list(given), found[0].value, dict(found.constants)) == (["c"], 1, {})
    kept, given = moving(tied, {"c": warmer, "gain": 3})
    assert (list(given), dict(kept.constants)) == (["gain", "c"], {"gain": 2})
    parameters = {**start(), "c": warmer}
    alone, other = (
        Trainer(net, tp.squared_error(Y), tp.SGD(), LR).start(X, width=N, parameters={**parameters, **more})
        for net, more in ((tied, {}), (warm, {"gain": lambda t: 2 * warmer(t)}))
    )
    for run in (alone, other):
        run.advance(2)
    np.testing.assert_array_equal(alone.outputs(), other.outputs())


BAD = [
    (lambda t: float("nan") if t == 2 else 1.0, "c\\(2\\)=nan: give a finite number"),
    (lambda t: "warm", "c\\(0\\)='warm': give a finite number"),
    (lambda t: np.ones(2), "c\\(0\\)=array"),
    (lambda t: None, "c\\(0\\)=None"),
    (lambda t, s: 1.0, "c= is called as c\\(t\\)"),
    (lambda: 1.0, "c= is called as c\\(t\\)"),
]


@pytest.mark.parametrize(("c", "said"), BAD)
def test_what_is_no_schedule_is_refused_alike_everywhere(c, said):
    kets, tangent = (tp.derive(warm, regime(tp.SGD())) for regime in (tp.MaximalUpdate, tp.NeuralTangent))
    how = {"c": c, "steps": 3, **HOW}
    calls = [
        lambda: kets.evaluate(X, particles=1024, replicates=2, **how),
        lambda: kets.unrolled(X, **how),
        lambda: tangent.evaluate(X, **how),
        lambda: tp.check(kets, X=X, particles=1024, draws=20, **how),
        lambda: tp.check(tangent, X=X, draws=20, **how),
        lambda: tp.watch(warm, X, optimizer=tp.SGD(), widths=(8, tp.inf), particles=64, **how),
    ]
    for call in calls:
        with pytest.raises(EvaluationError, match=said):
            call()


def test_functions_that_cannot_be_sent_to_other_processes_are_refused():
    kets = tp.derive(warm, tp.MaximalUpdate(tp.SGD()))
    how = {"steps": 1, "c": lambda t: 1.0, **HOW}
    with ProcessPoolExecutor(1) as executor:
        for call in (
            lambda: kets.evaluate(X, executor=executor, **how),
            lambda: tp.check(kets, X=X, draws=20, executor=executor, **how),
            lambda: tp.watch(warm, X, optimizer=tp.SGD(), widths=8, executor=executor, **how),
        ):
            with pytest.raises(TplimitsError, match="c= cannot be sent to the processes"):
                call()


@pytest.mark.long
@pytest.mark.parametrize("regime", [tp.MaximalUpdate, tp.NeuralTangent])
def test_checkpoints_know_the_whole_schedule(regime, tmp_path):
    limit = tp.derive(warm, regime(tp.Adam(eps=0.1)))
    how = {"steps": 3, "particles": 64, "replicates": 2, "block": 16, "checkpoint": tmp_path / "run.npz", **HOW}
    more = {"f0": 0.0} if regime is tp.NeuralTangent else {}
    first = limit.evaluate(X, c=warmer, **more, **how)
    np.testing.assert_array_equal(limit.evaluate(X, c=lambda t: 1 + 0.4 * t, **more, **how).f, first.f)
    with pytest.raises(EvaluationError, match=r"another run|other"):
        limit.evaluate(X, c=lambda t: 1 + 0.5 * t, **more, **how)


def test_what_does_not_move():
    kets = tp.derive(warm, tp.MaximalUpdate(tp.SGD()))
    with pytest.raises(EvaluationError, match="`d` is no constant of `warm`, which has c, gain"):
        kets.evaluate(X, steps=1, c=1.0, d=lambda t: 2, **HOW)

    @tp.network
    def shifted(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Scalar, *, c):
        return tp.readout(tp.sum(U * ξ, over="d")) + c * b

    with pytest.raises(EvaluationError, match="`c` stands in what is added to the readout"):
        tp.derive(shifted, tp.NeuralTangent(tp.SGD())).evaluate(X, steps=1, c=warmer, **HOW)


RULES = {"U": tp.Frozen(), "W": tp.SGD(), "v": tp.SGD()}


def _limit(regime):
    def made(lr, decay):
        tp.derive(deep, regime(RULES, weight_decay=decay)).evaluate(
            X, error=HOW["error"], lr=lr, steps=1, c=1, particles=64, replicates=2
        )

    return made


def _networks(lr, decay):
    train(deep, tp.MUP, RULES, X, HOW["error"], lr=lr, weight_decay=decay, steps=1, n=8, seed=0, given={"c": 1})


def _watched(lr, decay):
    tp.watch(deep, X, error=HOW["error"], optimizer=RULES, lr=lr, weight_decay=decay, steps=1, widths=(8,), c=1)


@pytest.mark.parametrize("engine", [_limit(tp.MaximalUpdate), _limit(tp.NeuralTangent), _networks, _watched])
def test_rates_and_decays_by_name_are_read_by_one_rule(engine):
    """They name every parameter but those of tp.Frozen()."""
    all_, some, more = {"W": 0.1, "v": 0}, {"W": 0.1}, {"W": 0.1, "v": 0, "Q": 0.1}
    engine(all_, all_)
    engine({**all_, "U": 0.1}, {**all_, "U": 0.1})
    told = r"{…} has no \w+ for `v`, trained by SGD.*; parameters of tp.Frozen\(\) alone are left out"
    for lr, decay, what in ((some, all_, f"lr={told}"), (all_, some, f"weight_decay={told}")):
        with pytest.raises(TplimitsError, match=what):
            engine(lr, decay)
    for lr, decay, name in ((more, all_, "lr"), (all_, more, "weight_decay")):
        with pytest.raises(TplimitsError, match=f"{name}=.*: `Q` is no trained parameter; the parameters are U, W, v"):
            engine(lr, decay)
