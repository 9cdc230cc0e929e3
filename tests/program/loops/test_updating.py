"""Errors of losses as statements, against the losses on NumPy arrays and difference quotients of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from loops_on_arrays import run

import tplimits as tp
from tplimits.program.loops.form import DATA, Array
from tplimits.program.loops.lowering import training
from tplimits.program.loops.updating import SCALARS, TARGETS, WEIGHTS, kind_of, with_signal

INPUTS, CLASSES, TOKENS = 5, 3, 2


@tp.network
def single(x: tp.Input, v: tp.Vector, u: tp.Vector):
    return v * tp.tanh(u * x)


@tp.network
def several(x: tp.Input, v: tp.Vector["label"], u: tp.Vector):
    return v * tp.tanh(u * x)


@tp.network
def tokens(x: tp.Input["token"], v: tp.Vector["label"], u: tp.Vector):
    return v * tp.tanh(u * x)


def squared(f, y, w, share):
    return share * (w * (f - y) ** 2).sum() / 2


def entropy(smoothing):
    def of(f, y, w, share):
        """Labels of shape (…, inputs), classes the axis before inputs."""
        logs = f - np.log(np.exp(f).sum(axis=-2, keepdims=True))
        chosen = np.take_along_axis(logs, y[..., None, :], axis=-2)[..., 0, :]
        return -share * (w * ((1 - smoothing) * chosen + smoothing * logs.mean(axis=-2))).sum()

    return of


@pytest.mark.parametrize(
    ("network", "kind", "loss"),
    [
        (single, ("squared", 0.0), squared),
        (several.bind(label=CLASSES), ("squared", 0.0), squared),
        (several.bind(label=CLASSES), ("entropy", 0.0), entropy(0.0)),
        (several.bind(label=CLASSES), ("entropy", 0.3), entropy(0.3)),
        (tokens.bind(label=CLASSES, token=TOKENS), ("squared", 0.0), squared),
        (tokens.bind(label=CLASSES, token=TOKENS), ("entropy", 0.1), entropy(0.1)),
    ],
)
def test_errors_are_derivatives_of_the_loss(network, kind, loss):
    rng = np.random.default_rng(0)
    loops = with_signal(training(network, tp.MUP.a_out), kind)
    sizes = {loops.samples: INPUTS, "n": 4}
    full = {**sizes, **{e: s for e, s in loops.extents.items() if s is not None}}
    arrays = {a.name: a for a in loops.arrays}
    share = 0.37
    given = {SCALARS: np.array([share])}
    for a in loops.of_role("data", "parameter"):
        shape = tuple(full[e] for e in a.extents)
        given[a.name] = rng.integers(0, CLASSES, shape) if a.whole else rng.standard_normal(shape)
    weights = given[WEIGHTS] = rng.choice([0.0, 1.0, 2.5], given[WEIGHTS].shape)
    assert arrays[WEIGHTS].extents == ((loops.samples,) if kind[0] == "squared" else arrays[TARGETS].extents)
    found = run(_with_scalars(loops), sizes, given)
    f, h = found["f"], 1e-6
    expected = np.empty_like(f)
    for at in np.ndindex(f.shape):
        step = np.zeros_like(f)
        step[at] = h
        up, down = (loss(f + s * step, given[TARGETS], weights, share) for s in (1, -1))
        expected[at] = (up - down) / (2 * h)
    np.testing.assert_allclose(found["chi"], expected, atol=1e-8)
    assert np.ptp(found["chi"]) > 0.01


@pytest.mark.parametrize("kind", [("squared", 0.0), ("entropy", 0.0)])
def test_statements_of_a_loss_stand_between_outputs_and_gradients(kind):
    """All others stay; the error is no longer given."""
    plain = training(several.bind(label=CLASSES), tp.MUP.a_out)
    made = with_signal(plain, kind)
    own = [s for s in made.statements if s not in plain.statements]
    assert Counter(s for s in made.statements if s in plain.statements) == Counter(plain.statements)
    assert own[-1].target == "chi" and {s.target for s in own} & {"chi", "f"} == {"chi"}
    places = [made.statements.index(s) for s in own]
    assert places == list(range(places[0], places[0] + len(own)))
    filled = [s.target for s in made.statements]
    assert filled.index("f") < places[0] and all(filled.index(a.name) > places[-1] for a in made.of_role("gradient"))
    roles = {a.name: a.role for a in plain.arrays}
    assert roles["chi"] == "data"
    assert {a.name: a.role for a in made.arrays if a.name in roles} == {**roles, "chi": "value"}


def test_entropies_of_large_outputs_are_finite():
    loops = with_signal(training(several.bind(label=2), tp.MUP.a_out), ("entropy", 0.0))
    names = {a.title: a.name for a in loops.of_role("data", "parameter")}
    given = {names["x"]: [1.0], names["u"]: [20.0], names["v"]: [[900.0], [0.0]]}
    given |= {TARGETS: [1], WEIGHTS: [1.0], SCALARS: [1.0]}
    found = run(_with_scalars(loops), {loops.samples: 1, "n": 1}, given)
    assert found["f"].ravel() == pytest.approx([900, 0])
    assert found["chi"].ravel() == pytest.approx([1, -1])


def _with_scalars(loops):
    """With the array of scalars, which the update of parameters would bring."""
    return replace(loops, arrays=(*loops.arrays, Array(SCALARS, ("s",), DATA)), extents={**loops.extents, "s": 1})


def test_what_statements_see_of_a_loss():
    assert kind_of(tp.squared_error([0.5, 1.0])) == ("squared", 0.0)
    assert kind_of(tp.cross_entropy([0, 1], smoothing=0.2)) == ("entropy", 0.2)
    assert kind_of(lambda f: f) is None
