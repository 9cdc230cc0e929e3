"""What a recording knows: curves, values at any frame, on any inputs."""

from __future__ import annotations

import numpy as np
import pytest
from watched import HOW, LOSS, X, deep, inputs, watched

import tplimits as tp
from tplimits.regimes.training.trainer import engine


@pytest.fixture(scope="module")
def rec():
    return watched()


def by_hand(p, x):
    """`shallow` in μP, in NumPy."""
    return (p["v"] * np.tanh(x @ p["U"])).mean(axis=-1) + 0.1 * p["b"]


def test_frames_and_shapes(rec):
    assert rec.steps.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert rec.widths == (8, tp.inf)
    assert [(r.width, r.seed) for r in rec.runs] == [(8, 0), (8, 1), (tp.inf, 0), (tp.inf, 1)]
    run = rec.run(8, 1)
    assert {k: v.shape for k, v in run.parameters.items()} == {"U": (7, 3, 8), "v": (7, 8), "b": (7,)}
    assert rec.run(tp.inf).parameters["U"].shape == (7, 3, 64)
    assert rec.value("h", width=8).shape == (8, 8) and rec.value("U", width=8).shape == (3, 8)
    assert rec.loss[8].shape == (2, 7)
    assert "width 8: 2 seeds, loss" in repr(rec)


def test_values_are_those_of_the_program_at_the_recorded_parameters(rec):
    for width in rec.widths:
        p = rec.parameters(3, width, 1)
        assert np.allclose(rec.value("h", 3, width, 1), np.tanh(X @ p["U"]), atol=1e-12)
        new = inputs(2, 3, seed=5)
        assert np.allclose(rec.outputs(3, width, 1, X=new), by_hand(p, new), atol=1e-12)
    assert np.allclose(rec.outputs(3, 8, 1), by_hand(rec.parameters(3, 8, 1), X), atol=1e-12)


def test_curves_are_those_of_the_recorded_parameters(rec):
    f = rec.outputs(-1, 8, 0, X=X)
    run = rec.run(8, 0)
    assert run.curves["loss"][-1] == pytest.approx(LOSS.loss(f), rel=1e-5)
    assert run.curves["held-out loss"][-1] == pytest.approx(LOSS.held_out.loss(f), rel=1e-5)


def test_the_speed_of_plain_descent_is_the_square_of_the_gradient_curves():
    """dL = −lr Σ (gradient)², at every width and in the limit, in both parametrizations."""
    for table, widths in ((tp.MUP, (16, 64, tp.inf)), (tp.NTP, (16, 64))):
        rec = watched(optimizer=tp.SGD(), lr=1e-5, steps=1, seeds=1, widths=widths, parametrization=table)
        for run in rec.runs:
            speed = sum(float(c[0]) ** 2 for name, c in run.curves.items() if name.startswith("gradient"))
            fall = float(run.curves["loss"][0] - run.curves["loss"][1]) / 1e-5
            assert fall == pytest.approx(speed, rel=1e-3)


def test_scalars_start_alike_at_all_widths_and_in_the_limit():
    rec = watched(steps=0, widths=(4, 8, tp.inf), seeds=2)
    starts = {(r.width, r.seed): float(r.parameters["b"][0]) for r in rec.runs}
    assert len({b for (_, s), b in starts.items() if s == 0}) == 1
    assert starts[4, 0] != starts[4, 1]


def test_norms_of_gradients_may_be_left_out():
    rec = watched(gradients=False)
    assert list(rec.run(8).curves) == list(rec.run(tp.inf).curves) == ["loss", "held-out loss"]
    signs = tp.squared_error(np.sign(X[:, 0]), train=range(6))  # classes; the sine is none
    classes = ["loss", "accuracy", "held-out loss", "held-out accuracy"]
    assert list(watched(gradients=False, error=signs, widths=8).run(8).curves) == classes
    assert np.array_equal(rec.loss[8], watched().loss[8])


def test_frames_are_where_they_are_asked_for():
    assert watched(every=4, widths=4, seeds=1).steps.tolist() == [0, 4, 6]
    assert watched(every=(1, 5), widths=4, seeds=1).steps.tolist() == [0, 1, 5, 6]
    every, some = watched(widths=4, seeds=1), watched(every=(1, 5), widths=4, seeds=1)
    assert np.array_equal(some.run().parameters["U"], every.run().parameters["U"][[0, 1, 5, 6]])


def test_batches_are_shared_by_widths():
    batches = tp.batches(2, seed=3)
    rec = watched(batches=batches, widths=4, seeds=1, optimizer=tp.SGD(), lr=0.1, steps=1)
    p = rec.parameters(0)
    rows = LOSS.rows_at(0, batches)
    χ = (by_hand(p, X[rows]) - LOSS.targets[rows]) / 2
    moved = p["v"] - 0.1 * χ @ np.tanh(X[rows] @ p["U"])
    assert np.allclose(rec.parameters(1)["v"], moved, atol=1e-6)


def test_given_parameters_and_labels():
    start = {"U": np.zeros((3, 4)), "v": np.ones(4)}
    rec = watched(widths=4, seeds=1, start=start, b=2.0, probes=X[:2], labels=["one", "two"])
    assert np.array_equal(rec.parameters(0)["v"], np.ones(4)) and rec.parameters(0)["b"] == 2
    assert rec.labels.tolist() == ["one", "two"] and len(rec.value("h")) == 2


def test_what_fits_no_memory_is_told_for_what_it_is(monkeypatch):
    from tplimits.watch.making import neurons

    def full(self, step):
        raise MemoryError

    monkeypatch.setattr(neurons.Neurons, "advance", full)
    for width, said in (
        (8, "width 8, seed 0: it does not fit into memory; give smaller widths"),
        (tp.inf, "particles"),
    ):
        with pytest.raises(tp.EvaluationError, match=said):
            watched(widths=width)


def test_labels_that_are_held_out_are_looked_at_before_work():
    told = []
    labels = tp.cross_entropy([0, 1, 0, 5], train=range(3))
    how = {"optimizer": tp.SGD(), "lr": 0.1, "steps": 1, "widths": 4, "progress": lambda *now: told.append(now)}
    with pytest.raises(tp.EvaluationError, match="the label 5 has no output"):
        tp.watch(deep, X[:4], error=labels, **how)
    assert not told


def test_only_some_parameters_are_trained():
    rec = watched(only=["v"], widths=(4, tp.inf), seeds=1)
    for run in rec.runs:
        assert np.array_equal(run.parameters["U"][0], run.parameters["U"][-1])
        assert not np.array_equal(run.parameters["v"][0], run.parameters["v"][-1])
        assert [c for c in run.curves if c.startswith("gradient")] == ["gradient v"]


def test_a_recording_is_gone_on_from_on_other_data():
    rec = watched(widths=(8, tp.inf), seeds=2)
    other = tp.squared_error(np.cos(X[:, 0]))
    more = watched(start=(rec, 4), error=other)
    for run in more.runs:
        before = rec.run(run.width, run.seed).parameters
        assert all(np.array_equal(run.parameters[name][0], before[name][4]) for name in before)
    with pytest.raises(tp.EvaluationError, match=r"no parameters of width 16 and seed 0"):
        watched(start=rec, widths=16)
    with pytest.raises(tp.EvaluationError, match=r"record it with samples= as large as particles="):
        watched(start=watched(samples=32), widths=tp.inf)


def test_a_run_goes_on_from_a_frame_as_it_would_have():
    """Plain descent has no memory: from a frame on, in single precision, it takes the same way."""
    rec = watched(optimizer=tp.SGD(), lr=0.3, steps=8, widths=(8, tp.inf))
    more = watched(optimizer=tp.SGD(), lr=0.3, steps=3, start=(rec, 5), widths=(8, tp.inf))
    for run in more.runs:
        assert np.allclose(run.curves["loss"], rec.run(run.width, run.seed).curves["loss"][5:], rtol=1e-5)


def test_functions_that_are_no_loss_have_no_loss():
    rec = watched(error=lambda f: f - 1, widths=4, seeds=1)
    with pytest.raises(tp.EvaluationError, match=r"'loss' is no curve of this recording; its curves are gradient U"):
        rec.loss  # noqa: B018


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"name": "nothing", "width": 8}, "has nothing named `nothing`"),
        ({"name": "h"}, r"width=…: say which one; the recording has 8, tp.inf"),
        ({"name": "h", "width": 9}, r"width=9: the recording has 8, tp.inf"),
        ({"name": "h", "width": 8, "seed": 7}, r"seed=7: at this width the recording has 0, 1"),
        ({"name": "h", "width": 8, "frame": 7}, r"frame=7: width 8, seed 0 has the frames 0, …, 6"),
        ({"name": "h", "width": 8, "frame": "last"}, r"frame='last'"),
        ({"name": "h", "width": 8, "X": np.ones((2, 4))}, r"X has 4 entries along `d`"),
    ],
)
def test_what_is_not_there_is_said(rec, asked, said):
    with pytest.raises(tp.TplimitsError, match=said):
        rec.value(**asked)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"widths": ()}, "give at least one width"),
        ({"widths": (8, 0)}, "widths are positive whole numbers"),
        ({"widths": (8.5,)}, "widths are positive whole numbers"),
        ({"widths": -tp.inf}, "widths are positive whole numbers"),
        ({"seeds": 0}, "seeds=0"),
        ({"seeds": (-1,)}, "seed=-1"),
        ({"steps": -1}, "steps=-1"),
        ({"every": 0}, "every=0"),
        ({"every": (3, 99)}, "steps between 0 and 6"),
        ({"lr": -1.0}, "a learning rate is 0 or more"),
        ({"error": tp.squared_error(np.ones(5))}, "targets have shape"),
        ({"probes": np.ones((2, 5))}, "probes has 5 entries along `d`"),
        ({"widths": np.array(8.5)}, "widths are positive whole numbers"),
        ({"seeds": np.array(1.5)}, "give how many, or their numbers"),
        ({"every": np.array(0.5)}, "give a whole number, or steps"),
        ({"gradients": np.ones(2)}, "gradients=.*: give True or False"),
        ({"sharpness": 1}, "sharpness=1: give True or False"),
        ({"path": 3}, "path=3: give the name of a file"),
        ({"path": "a\0b"}, "give the name of a file"),
        ({"weight_decay": {"W": 0.1}}, "weight_decay=.*: `W` is no trained parameter; the parameters are U, v, b"),
        ({"labels": ["one"]}, "one number or text for each of the 8 probes"),
        ({"batches": 3}, "give tp.batches"),
        ({"batches": tp.batches(7)}, "there are 6 training inputs"),
        ({"batches": tp.batches(2), "error": lambda f: f}, "a batch needs a loss"),
        ({"start": {"W": 1.0}}, "`W` is no parameter of `shallow`"),
        ({"start": {"U": np.ones((3, 5))}}, r"width 8, seed 0: `U` has shape \(3, 5\); it needs \(3, 8\)"),
        ({"start": 3}, "start=3"),
        ({"nothing": 1.0}, "has no constant, parameter or axis of this name"),
        ({"constants": {"d": lambda t: t}}, "constants and rates alone are functions of the step; `d` is no constant"),
        ({"record": "nothing"}, "has nothing named"),
        ({"executor": 3}, "executor=3"),
        ({"path": "no such folder/run.npz"}, "its folder is missing"),
        ({"lr": 1e200, "optimizer": tp.SGD()}, "width 8, seed 0: .*(overflow|not finite)"),
        ({"optimizer": "adam"}, "optimizer='adam': give an optimizer such as tp.Adam"),
        ({"optimizer": tp.Adam}, "optimizer=.*Adam.*: give an optimizer such as tp.Adam"),
        ({"parametrization": "mup"}, "parametrization='mup': give one such as tp.MUP"),
        ({"only": 5}, "only=5: give names"),
        ({"record": 5}, "record=5: give names"),
        ({"labels": ["\ud800"] * 8}, "half a surrogate pair"),
        (
            {"error": tp.squared_error(np.arange(8.0), weights=[1, *[0] * 7]), "batches": tp.batches(1)},
            "all inputs of a batch have the weight 0",
        ),
        ({"lr": 1e20, "optimizer": tp.SGD()}, "width 8, seed 0: .*(overflow|not finite|beyond 1e38)"),
    ],
)
def test_what_makes_no_sense_is_refused(other, said):
    with pytest.raises((tp.TplimitsError, OSError), match=said):
        watched(**{"widths": 8, **other})


def test_widths_of_ratios_are_whole():
    @tp.network
    def two(ξ: tp.Input["d"], U: tp.Vector["d", "m"], W: tp.Matrix["n", "m"], v: tp.Vector):
        return v * (W @ tp.sum(U * ξ, over="d"))

    with pytest.raises(tp.EvaluationError, match=r"at width 9 the width `m` is 4.5, 0.5 times as much"):
        tp.watch(two, X, **HOW, widths=(8, 9), ratios={"m": 0.5})


def test_axes_of_several_inputs_are_of_one_size():
    @tp.network
    def two(ξ: tp.Input["d"], ζ: tp.Input["d"], v: tp.Vector["d"]):
        return tp.sum(v * (ξ - ζ), over="d")

    with pytest.raises(tp.EvaluationError, match=r"X has 2 entries along `d`; another input has 3"):
        tp.watch(two, {"ξ": X, "ζ": X[:, :2]}, **HOW, widths=8)


def test_indices_fit_the_sizes_that_are_given():
    @tp.network
    def looked_up(t: tp.Input.of("v"), E: tp.Vector["v"]):
        return E.sel(v=t)

    for more in ({}, {"probes": [0]}):
        with pytest.raises(tp.EvaluationError, match="`X` holds 2; it takes indices of `v`, which has 2 entries"):
            tp.watch(looked_up, np.arange(8) % 3, **HOW, widths=8, v=2, **more)


def test_what_is_not_defined_at_the_start_is_no_matter_of_the_rate():
    @tp.network
    def root(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.sqrt(tp.sum(U * ξ, over="d"))

    with pytest.raises(tp.EvaluationError, match="at step 0; a value overflows, or is not defined on these inputs"):
        tp.watch(root, X, **HOW, widths=8)


def test_programs_that_are_no_networks_are_refused():
    @tp.program
    def gram(x: tp.Vector):
        return tp.avg(x * x)

    with pytest.raises(tp.ProgramError, match=r"tp\.watch takes a network"):
        tp.watch(gram, X, **HOW)


def test_limits_with_matrices_know_their_probes_alone():
    rec = tp.watch(
        deep,
        X,
        error=tp.squared_error(inputs(8, 3, seed=1)),
        optimizer=tp.SGD(),
        lr=0.2,
        steps=2,
        widths=tp.inf,
        particles=512,
        replicates=2,
        probes=X[:3],
        record=("g", "v"),
    )
    assert rec.value("g").shape == (3, 512) and rec.value("v").shape == (3, 512)
    assert rec.outputs().shape == (3, 3)
    with pytest.raises(tp.EvaluationError, match="`h` of the limit, seed 0 was not recorded; the values are g, v"):
        rec.value("h")
    with pytest.raises(tp.EvaluationError, match="known on the probes alone"):
        rec.value("g", X=X)


@pytest.mark.parametrize("odd", [np.array([8]), np.array([8, 9]), [8], {8}, float("nan"), "8", b"8", 8j, object()])
def test_widths_seeds_frames_and_names_are_what_they_are(odd):
    rec = watched(widths=8, seeds=1, steps=1)
    calls = {
        "width=": lambda: rec.value("h", 0, odd, 0),
        "seed=": lambda: rec.outputs(0, 8, odd),
        "frame=": lambda: rec.parameters(odd, 8, 0),
        "is no curve": lambda: rec.curves(odd),
        "is given|`X`|X": lambda: rec.outputs(0, 8, 0, X=odd),
    }
    for said, call in calls.items():
        with pytest.raises(tp.EvaluationError, match=said):
            call()
    assert rec.value("h", 0, np.int64(8), np.int64(0)).shape == rec.value("h", 0, 8.0, 0).shape == (8, 8)


def test_a_network_is_lowered_once_for_all_recordings(monkeypatch):
    """Seeds, widths, data, rates and starts of their own do not make it another one."""

    @tp.network
    def fresh(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, c: tp.Scalar):
        return tp.readout(v * tp.sin(tp.sum(U * ξ, over="d"))) + c

    lowered, whole = [], engine.training
    monkeypatch.setattr(engine, "training", lambda *asked: lowered.append(asked) or whole(*asked))
    for seed in range(3):
        for width in (4, 8):
            how = {**HOW, "lr": 0.01 * (1 + seed), "error": tp.squared_error(np.cos(X[:, seed]))}
            tp.watch(fresh, X + seed, **how, widths=width, seeds=(seed,), c=1.0 * seed)
    assert len(lowered) == 1
    tp.watch(fresh, X, **{**HOW, "optimizer": tp.SGD()}, widths=4)
    assert len(lowered) == 2


def test_averages_of_large_outputs_are_as_large_as_they():
    """Squares of 1e200 are no numbers; a network of relus is linear along a ray."""

    @tp.network
    def rays(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        return v * tp.relu(tp.sum(U * ξ, over="d"))

    made = tp.watch(
        rays, X, error=lambda f: f, optimizer=tp.SGD(), lr=0.1, steps=1, widths=8, seeds=3, parametrization=tp.MUP
    )
    one, large = made.average(X=X), made.average(X=1e200 * X)
    np.testing.assert_allclose(large.error / 1e200, one.error, rtol=1e-6)
    np.testing.assert_allclose(large.mean / 1e200, one.mean, rtol=1e-6)
