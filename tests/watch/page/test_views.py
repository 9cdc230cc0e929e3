"""Panels: which ones follow from shapes, and which requests are refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy
import pytest
from recorded_head import HEAD, recorded
from watched import shallow

import tplimits as tp
from tplimits import views
from tplimits.watch.page.checking import checked
from tplimits.watch.page.document import chosen
from tplimits.watch.page.payload import errors, room
from tplimits.watch.page.shown import shown


@pytest.fixture(scope="module")
def short():
    return recorded(5)


@pytest.fixture(scope="module")
def page(short):
    return shown(HEAD, short.settings)


def test_panels_follow_from_shapes(short, page):
    found = chosen(short, page)
    by_value = {
        view.reads[-1] if isinstance(view, views.Levels) else view.reads[0]: view for view in found if view.reads
    }
    assert by_value["E"] == views.Plane("E", axis="d", colour="vocab")
    assert by_value["P"] == views.Plane("P", axis="d", colour="token")
    assert by_value["q"] == views.Plane("q", axis="d")
    assert by_value["w"] == views.Density("w", axis="d")
    assert by_value["b"] == views.Density("b")
    assert by_value["A"] == views.Matrix("A", rows="probe", columns="token", range=(0.0, 1.0))
    assert views.Triangle("probability", axis="vocab") in found
    assert views.Levels("ξ", "probability") in found, "the last value in the plane that tells the probabilities"
    assert found[-4:] == [
        views.Curves(["loss"], log=True, title="loss"),
        views.Curves(["accuracy"], title="accuracy"),
        views.Curves([f"gradient {p}" for p in "EPqVwbu"], log=True, title="gradient norms"),
        views.Errors(),
    ]
    assert len(found) == 16


def test_nothing_hangs_on_names():
    """The same network with other names has the same panels."""
    names = {n: f"z{k}" for k, n in enumerate(HEAD.names)}
    other = HEAD.replace(names={names[n]: p for n, p in HEAD.names.items()})
    short = recorded(5)
    kinds = [type(v) for v in chosen(short, shown(HEAD, short.settings))]
    renamed = replace(short, program=other)
    assert [type(v) for v in chosen(renamed, shown(other, short.settings))] == kinds


def test_wider_values_are_matrices_or_principal_components():
    @tp.network
    def wide(ξ: tp.Input["d"], T: tp.Scalar["row", "column"], S: tp.Scalar["row"], U: tp.Vector["d"], v: tp.Vector):
        features = tp.sum(T * S, over="row") * tp.sum(ξ, over="d")
        one = tp.sum(S, over="row")
        return v * tp.tanh(tp.sum(U * ξ, over="d")) * tp.sum(features, over="column") * one

    program = wide.bind(d=3, row=4, column=5)
    page = shown(program, {"a_out": 1.0, "error": "SquaredError"})
    found = {v.reads[0]: v for v in chosen(replace(recorded(5), program=program, runs=()), page) if v.reads}
    assert found["T"] == views.Matrix("T", rows="row", columns="column")
    assert found["features"] == views.Plane("features", axis="column", colour="probe")
    assert found["S"] == views.Trace("S")
    assert found["one"] == views.Trace("one")
    assert found["output"] == views.Trace("output")


def test_what_views_leave_open_is_filled_in(page):
    asked = [views.Plane("Z"), views.Matrix("A"), views.Matrix("P"), views.Triangle("probability")]
    plane, attention, table, triangle = checked(page, asked, True, ())
    assert plane.axis == "d" and triangle.axis == "vocab"
    assert (attention.rows, attention.columns) == ("probe", "token")
    assert (table.rows, table.columns) == ("token", "d")


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (views.Plane("Zz"), "no panel can show `Zz`; the values are Z"),
        (views.Plane("Z", axis="row"), "the axes of `Z` are token, d; a view asks for `row`"),
        (views.Plane("b"), "`b` has no axis of two entries or more"),
        (views.Plane("Z", colour="d"), "a point for each of probe, token; a view asks for the colour of `d`"),
        (views.Plane("Z", entries=(0, 2)), "`d` has the entries 0, …, 1"),
        (views.Plane("Z", arrows=["b"]), "`b` has no axis `d`"),
        (views.Trace("b"), "it has an entry for every neuron"),
        (views.Curves(["lost"]), "the curves of the recording are loss"),
        (views.Matrix("w"), "it has an entry for every neuron"),
        (views.Matrix("A", rows="row"), "the axes of `A` are probe, token"),
        (views.Density("E"), "it has no neurons"),
        (views.Levels("A"), "a map of the plane starts from two numbers"),
        (views.Levels("ξ", "act"), "it is no list of numbers"),
        (views.Levels("ξ", "A"), "`A` is not computed from `ξ`"),
        (views.Levels("ξ", table="q"), "no table of two numbers for each class"),
        (views.Matrix("A", label=1), "the probes have no labels"),
        (views.Probes(), "there is no panel in it"),
        ("loss", "'loss' is no view"),
    ],
)
def test_views_that_cannot_be_shown_are_refused(page, view, said):
    with pytest.raises(tp.EvaluationError, match=said):
        checked(page, view if isinstance(view, str) else [view], False, ("loss",))


def test_a_colour_for_every_probe(short, tmp_path):
    with pytest.raises(tp.EvaluationError, match="it has 3 entries for 16 probes"):
        short.page(tmp_path / "run.html", views=[views.Plane("ξ"), views.Probes(colours=[1, 2, 3])])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seeds", [[7], 0, -1, "a", None, 1.5])
def test_seeds_that_are_not_there_are_refused(short, tmp_path, seeds):
    with pytest.raises(tp.EvaluationError, match="no run with frames of these seeds"):
        short.page(tmp_path / "run.html", seeds=seeds)


@pytest.mark.parametrize("size", [0, float("nan"), "many"])
def test_a_page_has_some_size(short, tmp_path, size):
    with pytest.raises(tp.EvaluationError, match="give a positive, finite number"):
        short.page(tmp_path / "run.html", size=size)


def test_small_runs_keep_their_frames_when_large_ones_lose_some():
    recording = recorded(101)
    small, other, limit = (recording.run(w, 0) for w in (32, 48, math.inf))
    kept = room(recording, 1, 1e5).strides
    assert set(kept) == {small, other, limit}
    assert kept[small] <= kept[other] < kept[limit]
    assert set(room(recording, [1], 1e9).strides.values()) == {1}


def test_errors_are_those_of_the_outputs_against_the_limit_of_the_seed(short):
    found = errors(short)
    assert found["frames"] == [0, 1, 2, 3, 4]
    assert [(row["width"], row["seed"]) for row in found["rows"]] == [(32, 0), (32, 1), (48, 0)]
    gap = short.outputs(3, 48, 0) - short.outputs(3, math.inf, 0)
    assert found["rows"][2]["values"][3] == pytest.approx(float(numpy.sqrt((gap**2).mean())), rel=1e-12)
    alone = replace(short, runs=short.runs[:3])
    assert errors(alone) is None and views.Errors() not in chosen(alone, shown(HEAD, short.settings))


def test_limits_that_draw_their_own_start_are_not_compared(tmp_path):
    """In NTP the distance to the limit does not fall with the width: it is that of two draws."""
    x = numpy.random.default_rng(0).standard_normal((4, 3))
    how = {"error": tp.squared_error(x[:, 0]), "optimizer": tp.SGD(), "lr": 0.1, "steps": 2, "particles": 64}
    for table, number in ((tp.NTP, 0), (tp.MUP, 1)):
        rec = tp.watch(shallow, x, **how, widths=(16, tp.inf), parametrization=table)
        assert chosen(rec, shown(rec.program, rec.settings)).count(views.Errors()) == number
        assert (errors(rec) is not None) == bool(number)
        if not number:
            with pytest.raises(tp.EvaluationError, match="operator regime start from a draw of their own"):
                rec.page(tmp_path / "run.html", views=[views.Errors()])


def test_numbers_that_are_not_finite_are_refused(short, tmp_path):
    run = short.runs[0]
    broken = replace(run, parameters={**run.parameters, "q": run.parameters["q"] * numpy.inf})
    with pytest.raises(tp.EvaluationError, match="`q` of width 32, seed 0 holds NaN or infinite"):
        replace(short, runs=(broken,)).page(tmp_path / "run.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: views.Plane(8), r"Plane\(value=…\): give a name, not 'a value of type int'"),
        (lambda: views.Plane("Z", beside=8.0), r"Plane\(beside=…\): give a list of names"),
        (lambda: views.Plane("Z", entries=(0, 1, 2)), r"Plane\(entries=…\): give two whole numbers"),
        (lambda: views.Plane("Z", squares=["token"]), r"Plane\(squares=…\): give whole numbers by the names of axes"),
        (lambda: views.Plane("Z", rays=numpy.array([1, 2])), r"Plane\(rays=…\): give True or False"),
        (lambda: views.Matrix("A", range=(1, 1)), r"Matrix\(range=…\): give two numbers, the smaller one first"),
        (lambda: views.Matrix("A", range=(0, math.inf)), r"Matrix\(range=…\): give two numbers"),
        (lambda: views.Curves(numpy.array("loss")), r"Curves\(names=…\): give a list of names"),
        (lambda: views.Levels("ξ", table=numpy.array(["E", "P"])), r"Levels\(table=…\): give a name"),
        (lambda: views.Probes(colours=["red"]), r"Probes\(colours=…\): give a list of numbers"),
        (lambda: views.Probes(marks=[0.5]), r"Probes\(marks=…\): give a list of whole numbers"),
    ],
)
def test_fields_of_views_are_plain_data(make, said):
    with pytest.raises(tp.EvaluationError, match=said):
        make()


def test_fields_are_read_from_numpy_too():
    made = views.Plane("Z", entries=numpy.array([0, 1]), beside="P", rays=numpy.True_)
    assert made == views.Plane("Z", entries=(0, 1), beside=("P",), rays=True)
    assert views.Probes(colours=numpy.arange(2), texts=["a", 1]) == views.Probes(colours=(0.0, 1.0), texts=("a", "1"))
