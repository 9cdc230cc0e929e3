"""Constants that are called what arguments of the public interface are, given by keyword: numbers by hand."""

import inspect

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.depth.expanded import limit as expanded
from tplimits.regimes.depth.limit import CovarianceSDE
from tplimits.regimes.depth.tangent.limit import TangentSDE
from tplimits.regimes.finite_width.limit import FiniteWidthLimit
from tplimits.regimes.kernels.limit import KernelLimit
from tplimits.regimes.training.feature_learning import MaximalLimit
from tplimits.regimes.training.operator import TangentLimit
from tplimits.regimes.width.limit import WidthLimit

GIVEN = {"V": 2.0, "V0": 3.0, "self": 0.5, "T": 1.0}


@tp.block
def stretched(x: tp.State["token"], W: tp.Matrix, *, V, V0, self, T):
    return (1 + V * V0 * self * T / tp.n) * (W @ x)


@tp.network
def scaled(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, *, X1, X):
    return X1 * X * v * tp.sum(U * ξ, over="d")


@tp.program
def shifted(x: tp.Vector, *, name, a, b, method):
    return tp.avg(a * x**2 + b + method + name)


def test_drift_and_paths_of_a_block():
    """(1 + c/n) W x has the drift 2 c V, c = 3: log E V_T = log V_0 + 2 c T."""
    sde = tp.derive(stretched, tp.Proportional())
    assert sde.drift_at(np.eye(1), **GIVEN) == pytest.approx(6.0)
    assert sde.layer_at(np.eye(1), **GIVEN)[0] == pytest.approx(6.0)
    assert sde.diffusion_at(np.eye(1), **GIVEN) == pytest.approx(2.0)
    placed = sde.simulate(np.eye(1), 1.0, paths=3, **GIVEN)
    assert np.array_equal(placed.V, sde.simulate(V0=np.eye(1), paths=3, constants=GIVEN).V)
    with pytest.raises(tp.EvaluationError, match=r"`T` has no value: give T=…, or constants=\{'T': …\}"):
        sde.simulate(np.eye(1), T=1.0, **{k: v for k, v in GIVEN.items() if k != "T"})
    with pytest.raises(tp.EvaluationError, match="`V` is given twice"):
        sde.drift_at(np.eye(1), constants={"V": 1.0}, **GIVEN)


def test_tangents_kernels_and_widths():
    tangent = tp.derive(stretched, tp.Proportional(tangent=True))
    joint = tangent.drift_at(np.eye(1), np.zeros((1, 1)), np.eye(1), **GIVEN)
    assert np.allclose(joint.V, 6.0)
    kernel = tp.derive(scaled, tp.Kernels(train=("U", "v")))
    x = np.array([[1.0, 2.0]])
    assert kernel.evaluate(x, X1=2.0, X=3.0).nngp == pytest.approx(36 * 5)
    finite = tp.derive(shifted, tp.FiniteWidth())
    given = {"name": 1.0, "a": 2.0, "b": 3.0}
    assert finite.limit("return", **given, constants={"method": 4.0}).value == pytest.approx(10)
    assert finite.covariance("return", **given, constants={"method": 4.0}).value == pytest.approx(8)
    assert tp.derive(shifted).evaluate("exact", method=4.0, **given)["return"].value == pytest.approx(10)


def test_growth_along_a_constant_called_as_an_option():
    """Of W (1 + dt/n) x the log gradient moves by 2 dt T."""

    @tp.block
    def lengthened(x: tp.State["token"], W: tp.Matrix, *, dt):
        return (1 + dt / tp.n) * (W @ x)

    sde = tp.derive(lengthened, tp.Proportional(tangent=True))
    found = sde.growth("dt", [0.0, 2.0], [[1.0]], T=0.5, paths=64, seed=1)
    assert found[2.0][1] - found[0.0][1] == pytest.approx(2.0, abs=0.05)


@pytest.mark.parametrize(
    "kind",
    [
        CovarianceSDE,
        TangentSDE,
        expanded.NumericSDE,
        FiniteWidthLimit,
        KernelLimit,
        MaximalLimit,
        TangentLimit,
        WidthLimit,
    ],
)
def test_whatever_takes_constants_by_keyword_sets_them_apart(kind):
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        kinds = {p.name: p.kind for p in inspect.signature(method).parameters.values()}
        if not name.startswith("_") and inspect.Parameter.VAR_KEYWORD in kinds.values() and "constants" in kinds:
            assert hasattr(method, "__wrapped__"), name
