"""Which limit stands beside networks, and that it is theirs; twins that are not must be seen to be wrong."""

from __future__ import annotations

import numpy as np
import pytest
from watched import LOSS, X, deep, inputs, shallow

import tplimits as tp
from tplimits.watch.making.checking import Looked, Training, asked
from tplimits.watch.making.kets import Kets
from tplimits.watch.making.neurons import Neurons
from tplimits.watch.making.outputs import Outputs
from tplimits.watch.making.recorder import engine_of

Y = inputs(4, 3, seed=1)
SHIFTED = tp.ABCD({"matrix": ("1/2", 0, "1/2", "3/2"), "vector": ("-1/2", "1/2", "1/2", "1/2")}, tp.MUP, "mine")
#: for SGD, as fast as μP, by c in the place of d
BY_RATES = tp.ABCD({"vector": (0, 0, -1, 0), "readout": (0, 0, -1, 0), "matrix": (0, "1/2", 0, 0)}, tp.MUP, "by rates")
UNLIKE = tp.ABCD({"vector": (0, 0, "1/2", 1)}, tp.MUP, "slow")


def engine(net, table, optimizer, x=X[:4], y=None):
    targets = np.zeros((4, 3) if net is deep else 4) if y is None else y
    how = Training(tp.squared_error(targets), optimizer, 0.1, 1, 0.0, table, None, None, None)
    looked = Looked(None, None, None, None, None, True, False, 64, 2, 16)
    return engine_of(asked(net, x, how, looked, {}, None), tp.inf)


@pytest.mark.parametrize(
    ("net", "table", "optimizer", "kind"),
    [
        (shallow, None, tp.SGD(), Neurons),
        (shallow, tp.MUP, tp.Adam(), Neurons),
        (deep, tp.MUP, tp.Adam(), Kets),
        (deep, SHIFTED, tp.Adam(), Kets),
        (shallow, SHIFTED, tp.SGD(), Neurons),
        (shallow, BY_RATES, tp.SGD(momentum=0.5), Neurons),
        (deep, BY_RATES, tp.SGD(), Kets),
        (deep, tp.UP(0), tp.SGD(), Kets),
        (deep, tp.NTP, tp.SGD(), Outputs),
        (shallow, tp.NTP, tp.Adam(), Outputs),
        (deep, None, tp.Normalized(tp.SGD()), Kets),
    ],
)
def test_the_limit_is_read_off_the_exponents(net, table, optimizer, kind):
    assert engine(net, table, optimizer) is kind


@pytest.mark.parametrize(
    ("net", "table", "optimizer"),
    [
        (deep, tp.UP("1/4"), tp.SGD()),
        (deep, tp.SP, tp.SGD()),
        (shallow, UNLIKE, tp.SGD()),
        (shallow, BY_RATES, tp.Adam()),  # Adam does not see the size of a gradient as SGD does
        (deep, tp.MUP, tp.Normalized(tp.SGD())),  # steps that shrink with the width
    ],
)
def test_other_parametrizations_have_none(net, table, optimizer):
    with pytest.raises(tp.EvaluationError, match=r"widths=tp.inf: .* have neither the limit"):
        engine(net, table, optimizer)


def test_hypotheses_of_the_limit_are_asked_for():
    @tp.network
    def growing(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.tanh(tp.sqrt(tp.n) * tp.avg(tp.sum(U * ξ, over="d")) + tp.sum(U * ξ, over="d"))

    with pytest.raises(tp.NoLimitError, match="grows with n and gradients through"):
        tp.watch(growing, X, error=LOSS, optimizer=tp.SGD(), lr=0.1, steps=1, widths=tp.inf)
    finite = tp.watch(growing, X, error=LOSS, optimizer=tp.SGD(), lr=0.1, steps=1, widths=8)
    assert finite.run().frames == 2


def test_samples_of_kets_train_as_particles_do():
    """The limit by neurons against that by operators and particles, from the same scalar."""
    how = {"error": LOSS, "optimizer": tp.Adam(eps=0.01), "lr": 0.05, "steps": 8}
    rec = tp.watch(shallow, X, **how, widths=tp.inf, probes=X, b=0.7)
    limit = tp.derive(shallow, tp.MaximalUpdate(how["optimizer"]))
    run = limit.evaluate(X, error=LOSS, lr=0.05, steps=8, b=0.7, particles=4096, replicates=8)
    f = np.array([rec.outputs(frame) for frame in range(9)])
    spread = 5 * run.stderr.max() + 1e-3
    assert np.abs(f - run.f).max() < spread
    wrong = tp.watch(shallow, X, **{**how, "lr": 0.06}, widths=tp.inf, probes=X, b=0.7)
    assert np.abs(wrong.outputs() - run.f[-1]).max() > 3 * spread


def test_limits_without_matrices_start_without_noise():
    """Outputs at the start vanish, as they do in the limit: small moves are those of a quadrature, not of the draws."""

    @tp.network
    def narrow(ξ: tp.Input["d"], v: tp.Vector["out"], U: tp.Vector["d"]):
        return v * tp.tanh(tp.sum(U * ξ, over="d"))

    narrow, x, y = narrow.bind(out=2), X[:3, :2], inputs(3, 2, seed=4)
    how = {"error": tp.squared_error(y), "optimizer": tp.SGD(), "lr": 0.05, "steps": 1, "widths": tp.inf}
    one = tp.watch(narrow, x, **how, particles=512, probes=inputs(5, 2, seed=3), seeds=4)
    assert max(abs(one.outputs(0, seed=seed)).max() for seed in range(4)) < 1e-15
    odd = tp.watch(narrow, x, **how, particles=513)  # what is left is one sample of 513
    assert 0 < abs(odd.outputs(0)).max() < 0.02
    # the first step of the readout and of U, for two outputs: lr y/3 (⟨φ φ⟩ + ⟨φ′ φ′⟩ ξ·ξ′), E v v′ = 1
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    grid = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)
    weights = np.outer(weights, weights).ravel() / (2 * np.pi)
    φ = np.tanh(grid @ x.T)
    kernel = (φ.T * weights) @ φ + ((1 - φ.T**2) * weights) @ (1 - φ**2) * (x @ x.T)
    moved = 0.05 * kernel @ y / 3
    found = tp.watch(narrow, x, **how, particles=8192, seeds=4)
    first = np.array([found.outputs(1, seed=seed) for seed in range(4)])
    # of second order in the rate: U and v move together, which outputs at 0 do not see
    assert np.abs(first - moved).max() < 0.02 * np.abs(moved).max()
    assert np.abs(first - 1.1 * moved).max() > 0.05 * np.abs(moved).max()


def test_kets_are_those_of_the_limit_itself():
    """The same replicates as `evaluate` runs, number for number."""
    how = {"error": tp.squared_error(Y), "lr": 0.2, "steps": 2}
    sizes = {"particles": 256, "replicates": 3, "seed": 5}
    found = tp.watch(
        deep, X[:4], **how, optimizer=tp.SGD(), widths=tp.inf, seeds=(5,), particles=256, replicates=3, probes=X[4:6]
    )
    limit = tp.derive(deep, tp.MaximalUpdate(tp.SGD()))
    both = np.concatenate([X[:4], X[4:6]])
    padded = tp.squared_error(np.concatenate([Y, np.full((2, 3), np.nan)]), train=range(4))
    run = limit.evaluate(both, error=padded, lr=0.2, steps=2, record=("g",), **{k: sizes[k] for k in sizes})
    outputs = np.array([found.outputs(t) for t in range(3)])
    assert np.allclose(outputs, run.f[:, 4:], atol=1e-6)
    assert np.allclose(found.value("g", 2), run.ket("g", 2)[4:], atol=1e-6)
    assert found.run().curves["loss"][-1] == pytest.approx(tp.squared_error(Y).loss(run.f[-1, :4]), rel=1e-6)


def test_the_operator_regime_is_that_of_the_limit_itself():
    how = {"error": tp.squared_error(Y), "lr": 0.5, "steps": 4}
    found = tp.watch(
        deep, X[:4], **how, optimizer=tp.SGD(), widths=tp.inf, seeds=(3,), parametrization=tp.NTP, probes=X[4:6]
    )
    limit = tp.derive(deep, tp.NeuralTangent(tp.SGD()))
    both = np.concatenate([X[:4], X[4:6]])
    padded = tp.squared_error(np.concatenate([Y, np.full((2, 3), np.nan)]), train=range(4))
    run = limit.evaluate(both, error=padded, lr=0.5, steps=4, seed=3)
    assert np.allclose([found.outputs(t) for t in range(5)], run.f[:, 4:], atol=1e-6)


def test_batches_of_the_limit_are_those_of_networks():
    """One step of SGD on a batch moves outputs as it does at a large width, and not as the whole population does."""
    batches = tp.batches(1, seed=2)
    how = {"error": tp.squared_error(Y), "optimizer": tp.SGD(), "lr": 1.0, "steps": 1, "batches": batches}
    rec = tp.watch(deep, X[:4], **how, widths=(512, tp.inf), particles=512, probes=X[:4])
    whole = tp.watch(deep, X[:4], **{**how, "batches": None}, widths=tp.inf, particles=512, probes=X[:4])
    start, moved = (rec.outputs(t, width=512) for t in (0, 1))
    change, limit = moved - start, rec.outputs(1, width=tp.inf) - rec.outputs(0, width=tp.inf)
    assert np.abs(change - limit).max() < 0.25 * np.abs(limit).max()
    other = whole.outputs(1) - whole.outputs(0)
    assert np.abs(other - limit).max() > 0.5 * np.abs(limit).max()


@pytest.mark.parametrize("optimizer", [tp.SGD(), tp.Adam(eps=1e-4)])
def test_networks_come_nearer_to_the_limit_as_their_width_grows(optimizer):
    """The root mean square distance over seeds falls like n^(−1/2); that to a limit with another rate does not fall."""
    how = {"error": LOSS, "optimizer": optimizer, "steps": 5, "b": 0.3}
    widths, seeds = (32, 256, 2048), 16
    rate = 0.4 if isinstance(optimizer, type(tp.SGD())) else 0.05
    rec = tp.watch(shallow, X, **how, lr=rate, widths=(*widths,), seeds=seeds, every=5)
    limits = [tp.watch(shallow, X, **how, lr=lr, widths=tp.inf, every=5).outputs() for lr in (rate, 1.5 * rate)]

    def slope(limit):
        away = [np.sqrt(np.mean([(rec.outputs(width=n, seed=s) - limit) ** 2 for s in range(seeds)])) for n in widths]
        return np.polyfit(np.log(widths), np.log(away), 1)[0]

    right, wrong = map(slope, limits)
    assert -0.65 < right < -0.35
    assert wrong > -0.35


def test_scalars_that_are_drawn_are_those_of_the_limit_with_matrices():
    @tp.network
    def biased(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, c: tp.Scalar):
        return tp.readout(v * tp.tanh(W @ tp.sum(U * ξ, over="d"))) + c

    how = {"error": tp.squared_error(np.zeros(4)), "optimizer": tp.SGD(), "lr": 0.1, "steps": 1}
    rec = tp.watch(biased, X[:4], **how, widths=(4, tp.inf), seeds=2, particles=256, replicates=2)
    for seed in (0, 1):
        drawn = float(rec.run(4, seed).parameters["c"][0])
        assert float(rec.value("c", 0, tp.inf, seed)) == pytest.approx(drawn, abs=1e-7)
        assert np.allclose(rec.outputs(0, tp.inf, seed), drawn, atol=0.1)


def test_limits_with_matrices_start_where_they_do():
    how = {"error": tp.squared_error(Y), "optimizer": tp.SGD(), "lr": 0.1, "steps": 1, "particles": 256}
    for table, said in ((tp.MUP, "goes on from its own start"), (tp.NTP, "that of fresh networks")):
        with pytest.raises(tp.EvaluationError, match=said):
            tp.watch(deep, X[:4], **how, widths=tp.inf, parametrization=table, start={"U": np.ones((3, 4))})


def test_training_that_lands_on_a_jump_of_an_average_has_no_limit():
    @tp.network
    def gated(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        h = tp.tanh(tp.sum(U * ξ, over="d"))
        return v * h + tp.relu(tp.avg(v * h)) * h * h

    how = {"optimizer": tp.SGD(), "lr": 0.5, "steps": 2, "widths": tp.inf}
    with pytest.raises(tp.EvaluationError, match="training lands on a jump of the derivative of"):
        tp.watch(gated, X, error=LOSS, **how)


def test_too_few_particles_are_refused_before_work():
    seen = []
    with pytest.raises(tp.EvaluationError, match="too few particles"):
        tp.watch(
            deep,
            X,
            error=tp.squared_error(np.zeros((8, 3))),
            optimizer=tp.SGD(),
            lr=0.1,
            steps=50,
            widths=tp.inf,
            particles=512,
            progress=lambda done, total, text: seen.append(done),
        )
    assert set(seen) <= {0}  # refused before a first step, if not before any count of them


def test_the_law_over_seeds_is_that_of_the_limit():
    """Networks follow the limit of their own seed; means over seeds agree, with the error bars of the law alone."""
    how = {"error": LOSS, "optimizer": tp.SGD(), "lr": 0.3, "steps": 6}
    rec = tp.watch(shallow, X, **how, widths=(1024, tp.inf), seeds=10, probes=X, particles=1024)
    wide, limit = rec.average(width=1024), rec.average(width=tp.inf)
    assert np.abs(wide.mean - limit.mean).max() < 0.4 * limit.error.max()  # the draws are shared
    assert np.allclose(limit.spread, limit.error * np.sqrt(10)) and limit.error.max() > 0.02
    others = tp.watch(shallow, X, **how, widths=1024, seeds=range(10, 20), probes=X).average()
    assert np.abs(others.mean - limit.mean).max() > 0.4 * limit.error.max()  # those of other draws are further off
    run = tp.derive(shallow, tp.MaximalUpdate(tp.SGD())).evaluate(
        X, **{k: how[k] for k in ("error", "lr", "steps")}, particles=2048, replicates=2, draws=10
    )
    assert np.abs(run.f[-1] - limit.mean).max() < 0.2 * limit.error.max()
    np.testing.assert_allclose(rec.average(0, tp.inf, "b").mean, rec.average(0, 1024, "b").mean, rtol=1e-6)
    for call, said in (
        (lambda: rec.average(width=tp.inf, name="U"), "an entry for every neuron"),
        (lambda: tp.watch(shallow, X, **how, widths=8).average(), "takes two of them"),
    ):
        with pytest.raises(tp.EvaluationError, match=said):
            call()


def test_limits_that_fit_nowhere_are_refused_before_anything_is_trained(tmp_path):
    """Half a million columns: they are counted, not tried."""
    x, path = inputs(3000, 3), tmp_path / "run.npz"
    how = {"error": tp.cross_entropy(np.arange(3000) % 3), "optimizer": tp.SGD(), "lr": 0.1, "steps": 50}
    with pytest.raises(tp.EvaluationError, match=r"too few particles: .* fewer inputs or fewer steps"):
        tp.watch(deep, x, **how, widths=(8, tp.inf), path=path)
    assert not path.exists()
    few = {**how, "batches": tp.batches(2), "probes": x[:2], "gradients": False}
    with pytest.raises(tp.EvaluationError, match=r"At every frame all inputs and probes count, at other steps those"):
        tp.watch(deep, x, **few, every=25, widths=tp.inf)


@pytest.mark.long
def test_between_frames_limits_look_at_the_inputs_of_a_step_alone():
    """The same limit from a part of the columns; with other batches it is another one."""
    x = inputs(20, 3)
    how = {"error": tp.squared_error(inputs(20, 3, seed=1), train=range(16)), "optimizer": tp.Adam(eps=0.01)}
    how |= {"lr": 0.1, "steps": 5, "widths": tp.inf, "replicates": 4, "probes": inputs(3, 3, seed=2), "only": ["W"]}
    every, few, other = (
        tp.watch(deep, x, **how, batches=tp.batches(3, seed=s), every=e, particles=size)
        for s, e, size in ((1, 1, 2048), (1, 5, 1024), (2, 5, 1024))
    )
    with pytest.raises(tp.EvaluationError, match="too few particles"):
        tp.watch(deep, x, **how, batches=tp.batches(3, seed=1), every=1, particles=1024)
    errors = 5 * np.hypot(every.run().curves["error of f"][-1], few.run().curves["error of f"][-1])
    apart, wrong = (np.sqrt(np.mean((r.outputs() - every.outputs()) ** 2)) for r in (few, other))
    assert apart < errors < wrong
    assert few.run().curves["loss"] == pytest.approx(every.run().curves["loss"][[0, -1]], rel=0.02)
    assert few.run().curves["gradient W"] == pytest.approx(every.run().curves["gradient W"][[0, -1]], rel=0.02)


def test_limits_of_long_runs_on_batches_fit():
    """As all inputs at all steps they were 800 columns for three outputs, and 9600 particles."""
    x, how = inputs(40, 3), {"optimizer": tp.SGD(), "lr": 0.3, "steps": 20, "widths": tp.inf, "replicates": 2}
    loss, sizes = tp.squared_error(inputs(40, 3, seed=1)), {"particles": 1024, "batches": tp.batches(2), "every": 20}
    rec = tp.watch(deep, x, error=loss, **how, **sizes, probes=x[:4], gradients=False)
    assert rec.run().curves["loss"][1] < rec.run().curves["loss"][0]


def test_scalars_of_inputs_that_are_judged_are_followed_at_all_times():
    @tp.network
    def normed(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        h = W @ tp.tanh(tp.sum(U * ξ, over="d"))
        return v * h / tp.sqrt(tp.avg(h * h) + tp.avg(h))

    how = {
        "error": tp.squared_error(np.ones(4)),
        "optimizer": tp.SGD(),
        "lr": 0.1,
        "steps": 3,
        "batches": tp.batches(1),
    }
    rec = tp.watch(normed, X[:4], **how, widths=tp.inf, every=3, particles=256, replicates=2)
    assert rec.run().frames == 2 and np.isfinite(rec.outputs()).all()
