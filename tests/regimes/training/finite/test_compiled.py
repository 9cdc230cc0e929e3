"""Many draws in compiled code against the same draws on arrays."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.training.finite import compiled
from tplimits.regimes.training.finite.networks import train

X = np.random.default_rng(0).standard_normal((4, 3))
Y = np.random.default_rng(1).standard_normal((4, 2))


@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector["out"], c: tp.Scalar, *, γ):
    return tp.readout(v * tp.tanh(W.T @ tp.gelu(W @ tp.sum(U * ξ, over="d")) * γ)) + c


@pytest.mark.parametrize(
    "optimizer",
    [tp.Adam(eps=0.05), tp.SGD(momentum=0.5), tp.Normalized(tp.SGD(), by="weight"), tp.Adafactor(eps=0.05)],
    ids=lambda optimizer: optimizer.name,
)
def test_compiled_draws_are_those_on_arrays(optimizer, monkeypatch):
    """Outputs are shifted, weights decay, and every draw has an error of its own."""
    runs = []
    for worth in (float("inf"), 0):
        monkeypatch.setattr(compiled, "_WORTH", worth)
        runs.append(
            train(
                net.bind(out=2),
                tp.MUP,
                optimizer,
                X,
                tp.squared_error(Y),
                0.1,
                4,
                9,
                seed=3,
                weight_decay=0.05,
                draws=3,
                given={"c": 0.5, "γ": 0.7},
                start=0.0,
            ).f
        )
    assert abs(runs[0][:, 4] - runs[0][:, 0]).max() > 1e-2
    np.testing.assert_allclose(runs[1], runs[0], rtol=1e-11, atol=1e-13)
    assert abs(runs[1][0] - runs[1][1]).max() > 1e-3


def test_little_work_is_done_without_a_compiler():
    assert not compiled.is_worth({"W": np.zeros((2, 9, 9))}, 4)
    assert compiled.is_worth({"W": np.zeros((50, 200, 200))}, 4)
