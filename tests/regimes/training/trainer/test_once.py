"""Inputs that are listed several times are looked at once: outputs, losses and gradients are those of all of them."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp
from tplimits.regimes.training.trainer.trainer import Trainer

X = np.array([[0.5, -1.0], [1.0, 0.2], [0.5, -1.0], [0.5, -1.0], [1.0, 0.2], [0.3, 0.3]])
LABELS = [0, 1, 0, 1, 1, 0]
WEIGHTS = [1.0, 2.0, 3.0, 0.5, 1.5, 1.0]


@tp.network
def net(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector["label"]):
    return v * tp.tanh(tp.sum(U * ξ, over="d"))


@pytest.mark.parametrize("train", [None, [0, 1, 2, 4], [0, 1, 3, 5]])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_what_is_listed_twice_counts_twice(train, weights):
    loss = tp.cross_entropy(LABELS, train=train, weights=weights, smoothing=0.1)
    by_name, by_call = (Trainer(net.bind(label=2), e, tp.SGD(), 0.1) for e in (loss, lambda f: loss(f)))
    runs = [t.start(X, width=8, seed=3) for t in (by_name, by_call)]
    for run in runs:
        run.advance(2)
    (f, gradients), (g, others) = (run.outputs_and_gradients() for run in runs)
    np.testing.assert_allclose(f, g, atol=1e-14)
    np.testing.assert_array_equal(runs[0].outputs(), f)
    for name in gradients:
        np.testing.assert_allclose(gradients[name], others[name], atol=1e-15)
