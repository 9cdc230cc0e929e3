"""Letters for running indices: of finite axes, as many as there are, none of them the name of an axis."""

import tplimits as tp
from tplimits.regimes.kernels.report.outline import index_letters


def test_every_axis_has_a_letter_of_its_own():
    assert index_letters(("x", "y", "row", "b")) == {"x": "a", "y": "c", "row": "e", "b": "f"}
    many = [f"axis{i}" for i in range(12)]
    assert list(index_letters(many).values()) == [*"abcefgh", "a1", "a2", "a3", "a4", "a5"]


def test_indices_are_no_constants_and_no_inputs():
    """a² Σ_i ξ[i, a] would have two meanings of a: each letter of a print-out is one thing."""

    @tp.network
    def named(c: tp.Input["d", "token"], U: tp.Vector["d"], v: tp.Vector, *, a, i):
        return v * tp.tanh(a * tp.sum(U * c, over="d") + i)

    limit = tp.derive(named, tp.Kernels())
    text = str(limit)
    assert "indices: b over token" in text
    assert "= a**2*Σ_{j∈d}(c[j,b]*c′[j,b′])" in text
    assert r"b, b' &\in \mathrm{token}" in limit.latex()
