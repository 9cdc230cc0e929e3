"""Linear arguments of functions as instructions: a sum that SymPy has flattened into others is found."""

from __future__ import annotations

import pytest

import tplimits as tp
from tplimits.program.network.preactivations import with_preactivations


@pytest.mark.parametrize("share", [1, 2, -0.5])
def test_multiples_of_an_argument_stand_by_its_name(share):
    """share·(y + W y) + tanh(y + W y): one variable, and the same numbers."""

    @tp.network
    def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        y = tp.sum(U * ξ, over="d")
        h = W @ y
        return v * (share * (y + h) + tp.tanh(y + h))

    named = with_preactivations(network)
    (argument,) = (s for s in named if s.name == "return argument")
    read = {named[e].name for e in named[-1].operands}
    assert read == {"v", argument.name}
    data = {"ξ": [0.6, 0.8]}
    found, wanted = (program.run(n=20, seed=3, **data)["return"] for program in (named, network))
    assert found == pytest.approx(wanted, rel=1e-12)
