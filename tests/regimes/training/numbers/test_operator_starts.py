"""Outputs at the start in the operator regime: the map from normal numbers to a path is read off, and has the law."""

from types import SimpleNamespace

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.training import claims
from tplimits.regimes.training.numbers import operator_kernels
from tplimits.regimes.training.numbers.operator_kernels import OutputKernel, initial_path
from tplimits.regimes.training.numbers.output_biases import OutputBiases

TIMES, INPUTS, OUTPUTS = 2, 2, (2, 3)
ROWS, COUNT = TIMES * INPUTS, 6
#: the multiples of a parameter that shrinks, one for each row, and of one that does not
SCALES = {"b": np.array([1.0, 0.5]), "c": np.array([1.0, 1.0])}


def kernel(kept, added):
    """A kernel on both output axes, or on some, with what biases add."""
    rng = np.random.default_rng(len(kept) + len(added))
    size = ROWS * int(np.prod([OUTPUTS[k] for k in kept]))
    A = rng.standard_normal((size, size))
    shape = [OUTPUTS[k] for k in kept]
    whole = (A @ A.T).reshape(ROWS, *shape, ROWS, *shape)
    m = len(kept)
    array = np.moveaxis(whole, 1 + m, 1)
    return OutputKernel(array, kept, tuple(added), np.zeros_like(array))


def covariance(found):
    """Between all (row, output, output) triples, entry by entry."""
    indices = [(r, o) for r in range(ROWS) for o in np.ndindex(OUTPUTS)]
    whole = np.zeros((len(indices), len(indices)))
    for x, (i, o) in enumerate(indices):
        for y, (j, p) in enumerate(indices):
            if all(o[k] == p[k] for k in range(2) if k not in found.kept):
                whole[x, y] = found.array[(i, j, *(o[k] for k in found.kept), *(p[k] for k in found.kept))]
            at = np.ravel_multi_index(o, OUTPUTS), np.ravel_multi_index(p, OUTPUTS)
            whole[x, y] += sum(added[at] * weights[i, j] for added, weights in found.biases)
    return whole


def added(rng, diagonal):
    B, w = rng.standard_normal((COUNT, 2)), np.repeat(SCALES["b"], INPUTS)
    return (np.diag([1.0, 1.0, 0.5, 0.5, 1.0, 0.0]) if diagonal else B @ B.T), np.outer(w, w)


BIASES = OutputBiases(
    np.arange(18.0).reshape(3, 6), np.array([0.5, -1.0, 2.0]), np.zeros(3), np.arange(6.0) / 7, ("b", "c", "b")
)
MEAN = np.tile(np.arange(6.0) / 7, (ROWS, 1)) + np.outer(
    np.repeat(SCALES["b"], 2), 0.5 * np.arange(6) + 2 * np.arange(12, 18)
)
MEAN = MEAN - np.arange(6, 12)
KERNELS = {
    "one axis": ((1,), []),
    "the other": ((0,), [added(np.random.default_rng(0), False)]),
    "both": ((0, 1), [added(np.random.default_rng(1), True)]),
    "exchanged": ((1, 0), []),
    "none": ((), []),
    "none, independent biases": ((), [added(np.random.default_rng(2), True), added(np.random.default_rng(3), True)]),
    "none, biases in common": ((), [added(np.random.default_rng(4), False)]),
}


def path(found, f0, z, monkeypatch):
    """The path from normal numbers that are given."""
    source = SimpleNamespace(standard_normal=lambda shape: z.reshape(shape))
    monkeypatch.setattr(operator_kernels.numpy.random, "default_rng", lambda seed: source)
    asked = SimpleNamespace(
        times=TIMES, inputs=INPUTS, outputs=OUTPUTS, shape=(INPUTS, *OUTPUTS), f0=f0, seed=0, scales=SCALES.__getitem__
    )
    drawn = initial_path(asked, found, BIASES)
    assert drawn.shape == (TIMES, INPUTS, *OUTPUTS)
    return drawn.ravel()


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_applied_entry_by_entry(name):
    found = kernel(*KERNELS[name])
    whole, χ = covariance(found), np.random.default_rng(5).standard_normal((ROWS, *OUTPUTS))
    assert found(χ).ravel() == pytest.approx(whole @ χ.ravel())
    assert found.full(OUTPUTS) == pytest.approx(whole)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_paths_have_their_law(name, known, monkeypatch):
    found = kernel(*KERNELS[name])
    whole, size = covariance(found), ROWS * COUNT
    first = size // 2
    f0 = np.random.default_rng(6).standard_normal((INPUTS, *OUTPUTS)) if known else None
    mean = path(found, f0, np.zeros(size), monkeypatch)
    columns = np.array([path(found, f0, e, monkeypatch) - mean for e in np.eye(size)])
    expected, law = MEAN.ravel(), whole
    if known:
        gain = np.linalg.solve(whole[:first, :first], whole[:first]).T
        expected = expected + gain @ (f0.ravel() - expected[:first])
        law = whole - gain @ whole[:first]
        assert (mean[:first] == f0.ravel()).all()
    assert mean == pytest.approx(expected, rel=1e-7, abs=1e-7 * np.abs(expected).max())
    assert columns.T @ columns == pytest.approx(law, rel=1e-6, abs=1e-7 * np.abs(whole).max())


def test_paths_that_are_given_are_taken():
    """The whole path, the start of networks that nothing moves, and a path of no steps."""
    shape = (INPUTS, *OUTPUTS)
    for times, given in ((TIMES, (TIMES, *shape)), (1, shape), (1, (1, *shape))):
        f0 = np.random.default_rng(0).standard_normal(given)
        found = initial_path(SimpleNamespace(times=times, shape=shape, f0=f0), None, None)
        assert found.shape == (times, *shape) and (found == f0).all()


def test_what_a_check_needs_is_asked_for():
    own = {"X": 1, "error": 1, "lr": 0.0, "steps": 1}
    for missing in own:
        with pytest.raises(tp.errors.CheckError, match=f"needs {missing}="):
            claims._refuse(SimpleNamespace(random_start=True), {**own, missing: None})
    claims._refuse(SimpleNamespace(random_start=True), {**own, "f0": 0.0})
    claims._refuse(SimpleNamespace(random_start=False), {**own, "f0": None})
    with pytest.raises(tp.errors.CheckError, match="f0= is for the operator regime"):
        claims._refuse(SimpleNamespace(random_start=False), {**own, "f0": 0.0})
