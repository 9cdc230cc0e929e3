"""Variables of an expansion: moments on nodes, drawn and spread."""

from __future__ import annotations

import numpy as np
import pytest

from tplimits.numbers.expansion.nodes import Frame
from tplimits.numbers.expansion.samples import Samples, Spread

SIZE = 4096
FRAMES = {
    "few nodes": (lambda: Frame(0.5), 1e-12),
    "even nodes": (lambda: Frame(0.4, rough=frozenset(range(9))), 1e-9),
    "drawn": (lambda: Samples({"n": SIZE}, np.random.default_rng(0)), 6 / SIZE**0.5),
    "spread": (lambda: Spread({"n": 3}, SIZE, 0), 4e-2),
}


def mean(frame, values, dims):
    (d,) = dims
    return float(values @ frame.variables[d].weights)


@pytest.mark.parametrize("name", FRAMES)
def test_normal_variables_and_signs_have_their_moments(name):
    make, error = FRAMES[name]
    frame = make()
    one, two, sign = frame.normal("n"), frame.normal("n"), frame.signs("n")
    for variable in (one, two):
        moments = [mean(frame, variable.values**p, variable.dims) for p in (1, 2, 3)]
        assert moments == pytest.approx([0, 1, 0], abs=4 * error)
    assert set(np.unique(sign.values)) == {-1.0, 1.0}
    assert mean(frame, sign.values, sign.dims) == pytest.approx(0, abs=error)
    if one.dims == two.dims == sign.dims:  # points of their own have products as values
        for a, b in ((one, two), (one, sign), (two, sign)):
            assert mean(frame, a.values * b.values, a.dims) == pytest.approx(0, abs=error)
    else:
        assert len({one.dims, two.dims, sign.dims}) == 3
        assert frame.variables[sign.dims[0]].axis == "n"
