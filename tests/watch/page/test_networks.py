"""Pages of networks of all kinds: what is generated for them computes what NumPy does."""

from __future__ import annotations

import json

import numpy
import pytest

import tplimits as tp
from tplimits import zoo
from tplimits.program.network.parameters import parameters
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector
from tplimits.watch.run import Run

SIZES = {"d": 3, "token": 4, "channel": 2, "row": 3, "column": 3, "node": 4, "depth": 3}


@tp.network
def functions(ξ: tp.Input["d"], U: tp.Vector["d"], b: tp.Vector, v: tp.Vector, s: tp.Scalar):
    """Every function of the language, where each is defined."""
    x = tp.sum(U * ξ, over="d") + b
    y = tp.sin(x) + tp.cos(x) + tp.exp(-tp.abs(x)) + tp.log(1 + x**2) + tp.tanh(x) + tp.sigmoid(x) + tp.softplus(x)
    z = tp.relu(x) + tp.leaky_relu(x, 0.1) + tp.gelu(x) + tp.erf(x) + tp.step(x) + tp.sign(x) + tp.clip(x, -1, 1)
    m = tp.maximum(x, y) * tp.minimum(x, z) + tp.where(x, y, z) + tp.sqrt(1 + x**2) + (1 + x**2) ** -1.5
    return tp.readout(v * (m + y * z)) + s


def drawn(program: tp.Program, rng: numpy.random.Generator, n: int) -> dict[str, numpy.ndarray]:
    """Three frames of parameters at width n."""
    found = {}
    for name in parameters(program):
        s = program[program.position(name)]
        widths = (n, n) if isinstance(s, InitialMatrix) else (n,) if isinstance(s, InitialVector) else ()
        shape = (*(int(program.size(a)) for a in s.axes), *widths)
        scale = n**-0.5 if len(widths) == 2 else 1.0
        found[name] = (scale * rng.standard_normal((3, *shape))).astype(numpy.float32)
    return found


def of_zoo(name: str) -> tp.Program:
    program = zoo.get(name).program
    open_axes = [a for a in program.all_axes if program.size(a) is None]
    return program.bind(**{a: SIZES.get(a, 2) for a in dict.fromkeys(map(program.root_axis, open_axes))})


NETWORKS = ("graph_convolution", "conv2d_flatten", "many_heads", "residual_attention", "layer_norm_mlp", "recurrent")


@pytest.mark.parametrize("program", [functions.bind(d=3), *map(of_zoo, NETWORKS)], ids=lambda p: p.name)
def test_values_are_those_of_numpy(browser, tmp_path, program):
    rng = numpy.random.default_rng(3)
    n, probes = 12, 5
    data = {}
    for position in program.inputs:
        s = program[position]
        data[s.name] = rng.standard_normal((probes, *(int(program.size(a)) for a in s.axes)))
    run = Run(n, 0, drawn(program, rng, n), {"loss": numpy.array([3.0, 2.0, 1.0])})
    settings = {"a_out": 0.5, "error": "SquaredError"}
    recording = tp.Recording(program, numpy.arange(3), (run,), data, None, settings)
    path = tmp_path / "page.html"
    recording.page(path)
    browser.events.clear()
    browser.open(path, "#frame=1")
    found = json.loads(
        browser.run(
            """page.then((app) => { app.draw(); const m = app.sides[0].machine, found = {};
            for (const [name, { id, dims }] of Object.entries(app.data.values)) {
              const size = (d) => (d.kind === "probe" ? m.samples : d.size || m.width[0]);
              found[name] = [dims.map((d) => [d.kind, size(d)]), Array.from(m.get(id))];
            } return JSON.stringify(found) })"""
        )
    )
    assert [e for e in browser.events if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")] == []
    assert "output" in found
    for name, (dims, flat) in found.items():
        array = numpy.array(flat).reshape([size for _, size in dims])
        kinds = [kind for kind, _ in dims]
        array = numpy.moveaxis(array, kinds.index("probe"), 0) if "probe" in kinds else array
        right = recording.outputs(1, n, 0) if name == "output" else recording.value(name, 1, n, 0)
        assert array.shape == right.shape, name
        assert numpy.abs(array - right).max() <= 1e-5 * max(1.0, numpy.abs(right).max()), name


def test_any_name_of_an_axis_or_a_value_will_do(browser, tmp_path):
    """Axes called as the page calls its own, or as JavaScript calls parts of its objects; a value called `output`."""

    @tp.network
    def named(
        ξ: tp.Input["constructor"],
        w: tp.Vector["constructor", "probe"],
        S: tp.Scalar["probe", "neuron"],
        T: tp.Scalar["probe", "__proto__"],
    ):
        output = tp.sum(T * T, over="__proto__")
        probability = tp.sum(S, over="neuron") + output
        return tp.sum(w * ξ, over="constructor") * probability

    program = named.bind(constructor=2, probe=3, neuron=2, __proto__=2)
    rng = numpy.random.default_rng(4)
    run = Run(6, 0, drawn(program, rng, 6), {"loss": numpy.array([3.0, 2.0, 1.0])})
    data = {"ξ": rng.standard_normal((4, 2))}
    settings = {"a_out": 1.0, "error": "CrossEntropy"}
    recording = tp.Recording(program, numpy.arange(3), (run,), data, numpy.array([0, 1, 2, 0]), settings)
    views = [
        tp.views.Plane("S", axis="neuron′", colour="probe′", texts=True),
        tp.views.Plane("T"),
        tp.views.Density("w"),
    ]
    path = tmp_path / "page.html"
    recording.page(path, [*views, tp.views.Plane("output′"), tp.views.Triangle("probability′")])
    browser.events.clear()
    browser.open(path, "#frame=1")
    found = browser.run(
        """page.then((app) => { app.draw(); const panels = app.sides[0].panels.map((p) => p.panel);
        for (const panel of panels) for (const [k] of panel.hits[0].x.entries()) {
          app.hover(panel.hit(panel.hits[0].x[k], panel.hits[0].y[k]), true); app.draw(); }
        const m = app.sides[0].machine, get = (name) => Array.from(m.get(app.data.values[name].id));
        return [["output", "output′"].map(get), Object.keys(app.over).sort()] })"""
    )
    assert [e for e in browser.events if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")] == []
    assert numpy.abs(found[0][0] - recording.value("output", 1)).max() < 1e-5
    assert numpy.abs(numpy.reshape(found[0][1], (3, 4)).T - recording.outputs(1)).max() < 1e-5
    assert found[1] == ["probe"]


def test_a_network_that_was_trained_beside_its_limit(browser, tmp_path):
    """Outputs of the limit are those of all its particles, other values those of the samples that were recorded."""

    @tp.network
    def trained(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector["label"], s: tp.Scalar["label"]):
        h = tp.tanh(tp.sum(U * ξ, over="d"))
        size = tp.avg(h**2)
        return tp.readout(v * h) + s * size

    rng = numpy.random.default_rng(5)
    X, labels = rng.standard_normal((8, 2)), numpy.arange(8) % 2
    asked = {"error": tp.cross_entropy(labels), "optimizer": tp.SGD(), "lr": 0.5, "steps": 3, "labels": labels}
    recording = tp.watch(
        trained.bind(d=2, label=2), X, widths=(8, tp.inf), particles=128, samples=32, progress=False, **asked
    )
    path = tmp_path / "page.html"
    recording.page(path)
    browser.open(path)
    for number, run in enumerate(recording.runs):
        found = browser.run(
            f"""page.then((app) => {{ const m = new Machine(app.data.runs[{number}], app.data).at(2, app.inputs);
            const get = (name) => Array.from(m.get(app.data.values[name].id)), known = ["h", "size", "output"].map(get);
            m.remove(0, 3, true); return [...known, get("output")]; }})"""
        )
        n = 32 if run.is_limit else 8
        assert numpy.abs(numpy.reshape(found[0], (8, n)) - recording.value("h", 2, run.width)).max() < 1e-5
        assert numpy.abs(found[1] - recording.value("size", 2, run.width)).max() < 1e-5
        f = recording.outputs(2, run.width)
        assert numpy.abs(numpy.reshape(found[2], (2, 8)).T - f).max() < 1e-5
        assert numpy.abs(numpy.reshape(found[3], (2, 8)).T - f).max() > 1e-3, "a removed neuron is missed"
