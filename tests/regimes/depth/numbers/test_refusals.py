"""What cannot be simulated: what was found, and the repair."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import shaped

import tplimits as tp
from tplimits.errors import EvaluationError
from tplimits.regimes.depth.numbers.settings import initial

V0 = np.array([[1.0, 0.2], [0.2, 1.0]])
GOOD = {"V0": V0, "T": 0.1, "dt": 0.01, "paths": 4, "γ": 0.5, "τ0": 1.0}


@pytest.fixture(scope="module")
def attention():
    return tp.derive(shaped.shaped_attention, tp.Proportional())


def refused(sde, pattern, **change):
    given = {k: v for k, v in {**GOOD, **change}.items() if v is not ...}
    with pytest.raises(tp.EvaluationError, match=pattern):
        sde.simulate(**given)


@pytest.mark.parametrize(
    ("V", "pattern"),
    [
        (np.array([[1.0, 0.5], [0.2, 1.0]]), "not symmetric"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "not positive semidefinite: it has the eigenvalue -1"),
        (np.array([[-1.0, 0.0], [0.0, 1.0]]), "negative variance"),
        (np.ones((2, 3)), r"shape \(2, 3\)"),
        (np.array([[np.nan, 0], [0, 1.0]]), "NaN"),
        (np.ones((3, 2, 2)), r"shape \(3, 2, 2\); it is \(m, m\), or \(paths, m, m\) with paths=4"),
        (np.ones((1, 4, 2, 2)), r"shape \(1, 4, 2, 2\)"),
        ("V", "value of type str"),
        (V0 + 0.1j * np.array([[0, 1], [-1, 0]]), "`V0` is given complex numbers; .* give the real part"),
        (None, "`V0` is given a value of type NoneType"),
        (True, r"V0 has shape \(\)"),
        ([[1.0, 0.2], [0.2]], "`V0` is given a value of type list"),
        (np.ma.masked_array(V0, mask=np.eye(2)), "`V0` is given a masked array"),
        ([["1", "0"], ["0", "1"]], "`V0` is given a value of type list; it takes an array of numbers"),
        (np.zeros((0, 0)), r"shape \(0, 0\)"),
        (np.zeros((0, 2, 2)), r"shape \(0, 2, 2\)"),
        (np.stack([V0, V0, V0, -V0]), "V0 has a negative variance"),
        (np.stack([V0, V0, V0, np.eye(2)[::-1]]), "V0 is not positive semidefinite"),
    ],
)
def test_no_covariance(attention, V, pattern):
    refused(attention, pattern, V0=V)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "x", "1", True, None, [0.1]])
def test_times_are_positive(attention, value):
    refused(attention, "dt=", dt=value)
    refused(attention, "^T=", T=value)


@pytest.mark.parametrize("value", [0, -1, 2.5, True, None, "4"])
def test_paths_are_a_positive_number(attention, value):
    refused(attention, "paths=", paths=value)


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        ({"seed": -1}, "seed=-1"),
        ({"seed": "x"}, "seed='x'"),
        ({"paths": 10**12}, "paths=1000000000000 take .* GB"),
        ({"halve": "yes"}, "halve='yes': give True"),
        ({"record": "x"}, "record='x'"),
        ({"T": 1e308, "dt": 1e-300}, "choose a larger dt"),
        ({"stop": True}, "stop=True"),
        ({"stop": (0, float("nan"))}, "stop=nan: give a finite number"),
        ({"stop": ("a", 3)}, "stop='a'"),
        ({"τ0": 1e-200}, r"the coefficient γ\*\*2.* too large for one"),
        ({"method": ["psd"]}, r"method=\['psd'\]: give one of the words 'psd', 'euler'"),
        ({"method": "milstein"}, "method='milstein': give one of the words 'psd', 'euler', 'dense'"),
        ({"stop": (2.0, 1.0)}, "0 ≤ low < high"),
        ({"stop": -3.0}, "stop=-3.0"),
        ({"stop": (1, 2, 3)}, "radius, or"),
        ({"record": -2}, "record=-2"),
        ({"record": True, "paths": 10**8}, "record=k keeps"),
        ({"threads": 0}, "threads=0"),
        ({"dt": 1e-12}, "choose a larger dt"),
        ({"γ": 1.0, "dt": 0.7, "T": 1.4}, "dt=0.7 is too large for 2 tokens: .* choose dt ≤ 0.5"),
        ({"γ": ...}, "the constant `γ` has no value: give γ="),
        ({"γ": float("nan")}, "γ=nan: give a finite number"),
        ({"τ0": 0}, "τ0|not a real number"),
        ({"σ": 1}, "`σ` is not a constant of `shaped_attention`"),
        ({"γ": 1.5}, "of `shaped_attention` is not real"),
    ],
)
def test_arguments(attention, change, pattern):
    refused(attention, pattern, **change)


def test_numbers_of_numpy_are_numbers(attention):
    wide = attention.simulate(**{**GOOD, "stop": (np.float32(0.125), np.int64(9)), "paths": np.int64(4)})
    assert (wide.V == attention.simulate(**GOOD, stop=(0.125, 9)).V).all()
    assert (attention.simulate(**GOOD, stop=(None, np.inf)).V == attention.simulate(**GOOD, stop=(0, 1e300)).V).all()


def test_another_number_of_tokens_than_the_block_has():
    masked = tp.derive(shaped.masked_attention(np.tril(np.ones((3, 3)))), tp.Proportional())
    refused(masked, "2 tokens")


def test_a_diffusion_without_a_structured_root(attention):
    bare = dataclasses.replace(attention, limit=dataclasses.replace(attention.limit, root=None))
    refused(bare, "method='psd' needs a square root of Σ .* method='dense' takes")


def test_statistics_of_what_was_not_asked_for(attention):
    paths = attention.simulate(**GOOD)
    for call, pattern in (
        (lambda: paths.step_error(), "halve=True"),
        (lambda: paths.correlation(0, 1, recorded=True), "record=True"),
        (lambda: paths.correlation(0, 2), "tokens are 0 to 1"),
        (lambda: paths.correlation(0, 1.5), r"correlation\(0, 1.5\): the tokens are 0 to 1"),
        (lambda: paths.correlation("a", None), "tokens are 0 to 1"),
        (lambda: paths.plot(0, 2), "tokens are 0 to 1"),
        (lambda: paths.quantile("a"), "`q` is given a value of type str"),
        (lambda: paths.mean([1, [2], 3, 4]), "`values` is given a value of type list"),
        (lambda: paths.output(samples=10**12), "take more than 8 GB"),
        (lambda: paths.output(seed=-1), "seed=-1"),
        (lambda: attention.simulate(**GOOD, halve=True).step_error(3), "function of the paths"),
        (lambda: paths.quantile(1.5), "between 0 and 1"),
        (lambda: paths.mean(np.zeros(3)), "4 paths"),
        (lambda: paths.output(samples=0), "at least 1"),
    ):
        with pytest.raises(tp.EvaluationError, match=pattern):
            call()


@pytest.mark.parametrize("shape", [(1, 4, 2, 2), (0, 2, 2)])
def test_starts_are_one_covariance_or_one_for_each_path(shape):
    with pytest.raises(EvaluationError, match=r"V0 has shape .*; it is \(m, m\), or \(paths, m, m\)"):
        initial(np.ones(shape))
    assert initial(np.eye(2)).shape == (2, 2)


def test_starts_that_are_symmetric_up_to_rounding_are_made_so():
    V = np.array([[[1.0, 0.5 + 1e-10], [0.5 - 1e-10, 2.0]], [[2.0, 0.25], [0.25, 1.0]]])
    assert initial(V).tolist() == [[[1.0, 0.5], [0.5, 2.0]], [[2.0, 0.25], [0.25, 1.0]]]
