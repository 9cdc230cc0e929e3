"""The page in a browser: what it computes, what it says, what it asks for, and what a reader does with it."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy
import pytest
import scipy.stats
from recorded_head import FRAMES, HEAD, PROBES, recorded
from recorded_head import run as run_of

from tplimits import views
from tplimits.watch.page.shown import shown

#: messages of a page to its reader's console, and what it asks the network for
TOLD = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening")


def evaluated(page, body: str):
    """The value of the body of a function of the page's `app`."""
    return page.run(f"page.then((app) => {{ {body} }})")


def until(page, condition: str) -> None:
    """Wait until something holds of the page's `app`; the browser gives up after a minute."""
    look = f"const look = () => ({condition} ? done() : setTimeout(look, 20)); look();"
    evaluated(page, f"return new Promise((done) => {{ {look} }})")


def values(page, number: int, frame: int) -> dict[str, numpy.ndarray]:
    """All named values of a run at a frame, with the dimensions (probes, *axes, neurons)."""
    found = json.loads(
        evaluated(
            page,
            f"""const m = new Machine(app.data.runs[{number}], app.data).at({frame}, app.inputs), found = {{}};
            for (const [name, meta] of Object.entries(app.data.values)) {{
              const size = (d) => ({{ probe: m.samples, neuron: m.width[d.width], axis: d.size }})[d.kind];
              const shape = meta.dims.map(size);
              found[name] = [shape, meta.dims.map((d) => d.kind), Array.from(m.get(meta.id))];
            }}
            return JSON.stringify(found);""",
        )
    )
    arrays = {}
    for name, (shape, kinds, flat) in found.items():
        array = numpy.array(flat).reshape(shape)
        arrays[name] = numpy.moveaxis(array, kinds.index("probe"), 0) if "probe" in kinds else array
    return arrays


def expected(recording, run, frame: int, name: str) -> numpy.ndarray:
    """The same value by NumPy."""
    if name not in ("output", "probability"):
        return recording.value(name, frame, run.width, run.seed)
    f = recording.outputs(frame, run.width, run.seed)
    if name == "output":
        return f
    weights = numpy.exp(f - f.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.long
def test_values_are_those_of_numpy(recording, page):
    names = set(shown(HEAD, recording.settings).values)
    assert names == {"E", "P", "q", "V", "w", "b", "u", "Y", "Z", "A", "ξ", "direction", "act", "output", "probability"}
    strides = evaluated(page, "return app.data.runs.map((r) => (Object.values(r.arrays)[0] || { stride: 0 }).stride)")
    assert strides[1] == 0, "the second seed is on the page as curves alone"
    for number, run in enumerate(recording.runs):
        if not strides[number]:
            continue
        for frame in range(0, FRAMES - 1, FRAMES // 10 // strides[number] * strides[number]):
            found = values(page, number, frame)
            assert set(found) == names
            for name, array in found.items():
                right = expected(recording, run, frame, name)
                assert array.shape == right.shape, name
                assert numpy.abs(array - right).max() <= 1e-5 * max(1.0, numpy.abs(right).max()), (name, frame)


def test_parameters_have_all_their_digits_where_there_is_room(browser, recording, tmp_path):
    """Small ones that grow large, and what comes near zero: a norm divides by it, and sees what was rounded."""
    single = numpy.float32([3e-6, -1.5, 0.0, -1e-45, 77.25, -3e38, 1e-20])
    P = numpy.zeros((7, 6, 2), dtype=numpy.float32)
    P[...] = single[:, None, None] * numpy.float32([[1, -1]])
    first = recording.runs[0]
    short = {name: array[:7] for name, array in first.parameters.items()}
    found = replace(recording, runs=(replace(first, parameters={**short, "P": P}, curves={}),), steps=numpy.arange(7))
    for size, exact in ((2.6e6, True), (300.0, False)):
        found.page(tmp_path / "digits.html", views=[views.Plane("P")], size=size)
        browser.open(tmp_path / "digits.html")
        body = (
            "const held = app.data.runs[0].arrays[app.data.values.P.id]; return [held.pack.step, Array.from(held.data)]"
        )
        step, kept = evaluated(browser, body)
        assert (step == 0) is exact
        if exact:
            assert numpy.array_equal(numpy.float32(kept), P.ravel())


def test_nothing_is_told_and_nothing_is_asked_for(page, path):
    evaluated(page, "app.at(3); app.draw(); app.hover({ probe: 1 }, true); app.draw(); still(app);")
    assert [e for e in page.events if e["method"] in TOLD] == []
    asked = {e["params"]["request"]["url"] for e in page.events if e["method"] == "Network.requestWillBeSent"}
    assert {url for url in asked if not url.startswith("data:")} <= {path.as_uri(), "about:blank"}


def test_the_policy_forbids_addresses_and_other_scripts(page, path):
    refused = page.run("fetch('data:text/plain,x').then(() => 'fetched', () => 'refused')")
    assert refused == "refused"
    page.run("document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.ran = 1' }))")
    page.run("document.body.append(Object.assign(document.createElement('p'), { id: 'styled' }))")
    page.run("document.getElementById('styled').setAttribute('style', 'color: rgb(1, 2, 3)')")
    assert page.run("window.ran === undefined") is True
    assert page.run("getComputedStyle(document.getElementById('styled')).color") != "rgb(1, 2, 3)"


@pytest.mark.long
def test_a_page_is_small_and_draws_fast(page, path):
    """Bytes of the file, and the page's processor time for every fourth of 1000 frames; not the time on the wall."""
    assert path.stat().st_size <= 3_000_000
    assert evaluated(page, "return app.sides[0].panels.length") == 16

    def spent() -> float:
        metrics = {m["name"]: m["value"] for m in page.call("Performance.getMetrics")["metrics"]}
        return metrics["ThreadTime"] if "ThreadTime" in metrics else metrics["ProcessTime"]

    page.call("Performance.enable")
    before = spent()
    evaluated(page, "for (let f = 0; f < 1000; f += 4) { app.at(f); app.draw(); }")
    assert (spent() - before) / 250 < 1 / 30


def pressed(page, key: str, **more) -> None:
    text = {"text": key} if len(key) == 1 else {}
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key=key, **(text if kind == "keyDown" else {}), **more)


def test_keys_and_the_address(page, path):
    frame = "return app.frame"
    assert evaluated(page, frame) == FRAMES - 1
    for key, more, then in [
        ("Home", {}, 0),
        ("ArrowRight", {}, 1),
        ("ArrowRight", {"modifiers": 8}, 11),
        ("ArrowLeft", {}, 10),
        ("End", {}, FRAMES - 1),
        ("ArrowRight", {}, FRAMES - 1),
    ]:
        pressed(page, key, **more)
        assert evaluated(page, frame) == then, key
    assert "frame=1000" in page.run("location.hash")
    pressed(page, "Home")
    pressed(page, " ")
    assert evaluated(page, "return app.playing") is True
    until(page, "app.frame > 0")
    pressed(page, " ")
    assert evaluated(page, "return app.playing") is False
    assert evaluated(page, frame) > 0
    page.run("location.hash = '#frame=37&run=2&beside=3'")
    until(page, "app.frame === 37")
    assert evaluated(page, "return [app.frame, ...app.sides.map((s) => s.machine.run.title)]") == [
        37,
        "width 48, seed 0",
        evaluated(page, "return app.data.runs[3].title"),
    ]
    assert evaluated(page, "return app.sides.map((side) => side.panels.length)") == [16, 16]
    pressed(page, "n")
    assert evaluated(page, "return app.over") == {"probe": 0}
    pressed(page, "Escape")
    assert evaluated(page, "return app.over") is None


def places(page, title: str) -> dict:
    """Where the first points of a panel stand on the screen, and the middle of another panel."""
    return json.loads(
        evaluated(
            page,
            f"""app.draw();
            const {{ panel, canvas }} = app.sides[0].panels.find((p) => p.panel.title === {json.dumps(title)});
            const box = canvas.getBoundingClientRect(), [hits] = panel.hits, keys = hits.points.keys;
            return JSON.stringify({{ x: box.left + hits.x[0], y: box.top + hits.y[0], order: hits.order[0],
              keys: Object.fromEntries(Object.keys(keys).map((k) => [k, keys[k][hits.order[0]]])) }});""",
        )
    )


def picture(page, title: str) -> str:
    find = f"app.sides[0].panels.find((p) => p.panel.title === {json.dumps(title)}).canvas"
    return evaluated(page, f"app.draw(); return {find}.toDataURL()")


def test_the_pointer_follows_one_probe_through_all_panels(page):
    others = ["A", "ξ ↦ probability", "output"]
    before = {title: picture(page, title) for title in others}
    at = places(page, "probability")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=at["x"], y=at["y"])
    over = evaluated(page, "return app.over")
    assert over is not None and set(over) == {"probe"}
    assert all(picture(page, title) != before[title] for title in others)
    assert page.run("document.getElementById('over').textContent") != ""
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=3, y=3)
    assert evaluated(page, "return app.over") is None
    assert all(picture(page, title) == before[title] for title in others)


def test_a_neuron_that_is_removed_adds_nothing(recording, page):
    at = places(page, "w")
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=at["x"], y=at["y"], button="left", clickCount=1)
    gone = evaluated(page, "return Array.from(app.sides[0].machine.keep[0]).flatMap((k, i) => (k ? [] : [i]))")
    assert len(gone) == 1
    found = evaluated(
        page, "app.at(500); app.draw(); return Array.from(app.sides[0].machine.get(app.data.values.output.id))"
    )
    first = recording.runs[0]
    u = first.parameters["u"].copy()
    u[..., gone] = 0
    without = replace(recording, runs=(replace(first, parameters={**first.parameters, "u": u}),))
    right = without.outputs(500)
    assert numpy.abs(numpy.array(found).reshape(2, PROBES).T - right).max() < 1e-5
    assert numpy.abs(recording.outputs(500, 32, 0) - right).max() > 1e-4


def test_a_probe_that_is_typed_and_one_whose_entries_move(recording, page):
    typed = """const fields = document.querySelectorAll("#fields input"), set = (k, v) => {
      fields[k].value = v; fields[k].dispatchEvent(new Event("input")); };"""
    get = "app.draw(); return Array.from(app.sides[0].machine.get(app.data.values.output.id))"
    evaluated(page, "document.getElementById('add').click()")
    found = (
        numpy.array(evaluated(page, f"{typed} set(0, 0); set(1, 1); set(2, 0); app.at(200); {get}")).reshape(2, -1).T
    )
    x = numpy.concatenate([recording.probes["x"], recording.probes["x"][:1]])
    x[-1, :3] = 0, 1, 0
    assert len(found) == PROBES + 1
    assert numpy.abs(found - recording.outputs(200, 32, 0, X=x)).max() < 1e-5
    moved = (
        """fields[1].dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", altKey: true, bubbles: true }));"""
    )
    found = numpy.array(evaluated(page, f"{typed} {moved} {get}")).reshape(2, -1).T
    x[-1, :3] = 0, 0, 1
    assert numpy.abs(found - recording.outputs(200, 32, 0, X=x)).max() < 1e-5
    for wrong in ("abc", "2", "-1", "0.5", ""):
        assert evaluated(page, f"{typed} set(0, '{wrong}'); return fields[0].validity.valid") is False
    assert evaluated(page, "return app.inputs.rows[app.inputs.count - 1][0][0]") == 0, "what is refused is not taken"
    evaluated(page, "document.getElementById('reset').click()")
    assert evaluated(page, "app.draw(); return app.inputs.count") == PROBES


def test_a_still_is_svg_and_a_dark_page_is_dark(page):
    light = evaluated(page, "return [theme.ground, still(app)]")
    root = ElementTree.fromstring(light[1])
    assert root.tag.endswith("svg") and len(list(root.iter())) > 500
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    try:
        until(page, f"theme.ground !== '{light[0]}'")
        assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 28)"
    finally:
        page.call("Emulation.setEmulatedMedia", features=[])


def test_a_narrow_screen_is_wide_enough(page):
    page.call("Emulation.setDeviceMetricsOverride", width=360, height=700, deviceScaleFactor=2, mobile=True)
    try:
        assert page.run("document.documentElement.scrollWidth") <= 360
        assert evaluated(page, "app.draw(); return app.sides[0].panels[0].canvas.clientWidth") > 250
    finally:
        page.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize(
    "hostile", ["</script><script>window.ran = 1</script>", "<img src=x onerror='window.ran = 1'>\"&'"]
)
def test_names_are_shown_as_text(browser, tmp_path, hostile):
    names = {**HEAD.names, hostile: HEAD.position("ξ"), f"{hostile}2": HEAD.position("Z")}
    names = {n: p for n, p in names.items() if n not in ("ξ", "Z")}
    program = HEAD.replace(name=hostile, names=names)
    recording = recorded(3, program, labels=[hostile] * PROBES)
    path = tmp_path / "hostile.html"
    recording.page(path)
    browser.events.clear()
    browser.open(path, "#frame=</script><script>window.ran=1</script>")
    evaluated(browser, "app.hover({ probe: 1 }, true); app.draw();")
    assert browser.run("document.getElementById('title').textContent") == hostile
    assert browser.run("document.getElementById('over').textContent") == hostile
    assert browser.run("[window.ran === undefined, document.images.length, document.scripts.length]") == [True, 0, 2]
    assert [e for e in browser.events if e["method"] in TOLD] == []
    root = ElementTree.fromstring(evaluated(browser, "return still(app)"))
    assert any(hostile in (node.text or "") for node in root.iter())
    assert not any(node.tag.endswith("script") or node.tag.endswith("img") for node in root.iter())


def test_a_limit_that_is_known_on_the_probes_alone(browser, recording, tmp_path):
    """Values without parameters: shown where they were recorded, and missed where they were not."""
    limit = recording.runs[-1]
    act = numpy.stack([recording.value("act", f, math.inf, 0) for f in (0, 500, 1000)])
    outputs = numpy.stack([recording.outputs(f, math.inf, 0) for f in (0, 500, 1000)])
    short = {name: curve[[0, 500, 1000]] for name, curve in limit.curves.items()}
    alone = replace(limit, parameters={}, curves=short, values={"act": act}, outputs=outputs)
    first = recording.runs[0]
    few = {name: array[[0, 500, 1000]] for name, array in first.parameters.items()}
    first = replace(first, parameters=few, curves={n: c[[0, 500, 1000]] for n, c in first.curves.items()})
    path = tmp_path / "kets.html"
    replace(recording, runs=(first, alone), steps=recording.steps[[0, 500, 1000]]).page(path)
    browser.open(path, "#frame=1&run=1")
    found = evaluated(
        browser,
        """app.draw(); const m = app.sides[0].machine, of = (name) => m.get(app.data.values[name].id);
        return [Array.from(of("act")), Array.from(of("output")), of("ξ"), of("E")]""",
    )
    assert numpy.abs(numpy.array(found[0]).reshape(act[1].shape) - act[1]).max() < 1e-5
    assert numpy.abs(numpy.array(found[1]).reshape(2, PROBES).T - outputs[1]).max() < 1e-5
    assert found[2:] == [None, None]
    evaluated(browser, "app.inputs.add(0); app.moved = true; app.draw()")
    assert evaluated(browser, "return app.sides[0].machine.get(app.data.values.act.id)") is None


def test_clouds_over_seeds_and_the_ellipses_of_their_law(browser, recording, tmp_path):
    """Networks as far from the limit that is shown as from that of their seed; covariances n E[δ δᵀ], over n."""
    pairs = [(32, seed) for seed in range(3)] + [(48, 0), (48, 1)]
    runs = [run_of(width, seed, 3) for width, seed in pairs] + [run_of(math.inf, seed, 3) for seed in range(3)]
    bent = [replace(r, parameters={**r.parameters, "q": r.parameters["q"] + k / 8}) for k, r in enumerate(runs)]
    found = replace(recording, runs=tuple(bent), steps=recording.steps[:3])
    found.page(tmp_path / "seeds.html", views=[views.Plane("q"), views.Curves(["loss"])], seeds=3)
    browser.events.clear()
    browser.open(tmp_path / "seeds.html", "#frame=2")
    groups, covariance, known = evaluated(
        browser,
        """app.draw(); const { panel } = app.sides[0].panels[0], limit = panel.limit();
        const s = panel.seeds(panel.read("q", limit), limit);
        return [s.groups.map((g) => [g.x[0], g.y[0]]), s.covariance.map((c) => c[0]), s.known];""",
    )
    away = {pair: found.value("q", 2, *pair) - found.value("q", 2, math.inf, pair[1]) for pair in pairs}
    around = found.value("q", 2, math.inf, 0)
    assert numpy.allclose(groups, [around + away[32, 1], around + away[32, 2]], atol=1e-5) and known == 5
    right = sum(width * numpy.outer(δ, δ) for (width, _), δ in away.items()) / (5 * 32)
    assert numpy.allclose(covariance, [right[0, 0], right[0, 1], right[1, 1]], rtol=1e-4)
    assert evaluated(browser, "return NINE_OF_TEN") == pytest.approx(scipy.stats.chi2(2).ppf(0.9))
    values = numpy.random.default_rng(0).standard_normal(7)
    shares = evaluated(browser, f"const s = ordered({values.tolist()}); return BAND.map((p) => quantile(s, p));")
    assert numpy.allclose(shares, numpy.quantile(values, [0.1, 0.5, 0.9]))
    assert [e for e in browser.events if e["method"] in TOLD] == []
