"""Transformers of twelve layers print on a screen, in every regime, and nothing is lost."""

from __future__ import annotations

import re

import pytest

import tplimits as tp
from tplimits.report.rolled import Rolled, rolled


def averaged(layers):
    """Logits are averages, which tend to numbers."""

    @tp.network
    def net(
        ξ: tp.Input["token", "d"],
        U: tp.Vector["d"],
        Q: tp.Matrix["n", "n", "layer"],
        K: tp.Matrix["n", "n", "layer"],
        V: tp.Matrix["n", "n", "layer"],
        P: tp.Matrix["n", "n", "layer"],
        W: tp.Matrix["n", "n", "layer"],
        v: tp.Vector,
    ):
        x = tp.sum(U * ξ, over="d")
        for k in range(layers):
            keys, values = ((M.sel(layer=k) @ x).rename(token="key") for M in (K, V))
            A = tp.softmax(tp.avg((Q.sel(layer=k) @ x) * keys), over="key")
            x = x + P.sel(layer=k) @ tp.sum(A * values, over="key")
            x = x + W.sel(layer=k) @ tp.relu(x)
        return v * tp.mean(x, over="token")

    return net.bind(token=3, layer=layers)


def random(layers):
    """Logits are random, and the heads many."""

    @tp.network
    def net(
        ξ: tp.Input["token", "d"],
        U: tp.Vector["d"],
        Q: tp.Matrix["n", "n", "head", "layer"],
        K: tp.Matrix["n", "n", "head", "layer"],
        V: tp.Matrix["n", "n", "head", "layer"],
        P: tp.Matrix["n", "n", "head", "layer"],
        W: tp.Matrix["n", "n", "layer"],
        v: tp.Vector,
    ):
        x = tp.sum(U * ξ, over="d")
        for k in range(layers):
            keys, values = ((M.sel(layer=k) @ x).rename(token="key") for M in (K, V))
            A = tp.softmax(tp.sqrt(tp.n) * tp.avg((Q.sel(layer=k) @ x) * keys), over="key")
            z = P.sel(layer=k) @ tp.sum(A * values, over="key")
            x = x + tp.sum(z, over="head") / tp.sqrt(tp.size("head"))
            x = x + W.sel(layer=k) @ tp.relu(x)
        return v * tp.mean(x, over="token")

    return net.bind(token=3, layer=layers)


def normalized(layers):
    """LayerNorm before each branch."""

    @tp.network
    def net(
        ξ: tp.Input["d", "token"],
        U: tp.Vector["d"],
        WQ: tp.Matrix["n", "n", "layer"],
        WV: tp.Matrix["n", "n", "layer"],
        WO: tp.Matrix["n", "n", "layer"],
        W: tp.Matrix["n", "n", "layer"],
        V: tp.Matrix["n", "n", "layer"],
        v: tp.Vector,
    ):
        x = tp.sum(U * ξ, over="d")
        for k in range(layers):
            y = tp.layers.layer_norm(x)
            q, values = WQ.sel(layer=k) @ y, (WV.sel(layer=k) @ y).rename(token="key")
            A = tp.softmax(tp.avg(q * q.rename(token="key")), over="key")
            x = x + WO.sel(layer=k) @ tp.sum(A * values, over="key")
            x = x + V.sel(layer=k) @ tp.gelu(W.sel(layer=k) @ tp.layers.layer_norm(x))
        return v * tp.mean(x, over="token")

    return net.bind(token=4, layer=layers)


@tp.program
def plain(x: tp.Vector["token"], W: tp.Matrix["n", "n", "layer"], V: tp.Matrix["n", "n", "layer"]):
    for k in range(12):
        x = x + V.sel(layer=k) @ tp.relu(W.sel(layer=k) @ x)
    return tp.avg(tp.mean(x, over="token") * x.sel(token=0))


HEADS = ("head",)
LIMITS = {
    "width": lambda: tp.derive(plain.bind(token=2, layer=12)),
    "kernels": lambda: tp.derive(averaged(12), tp.Kernels()),
    "kernels of random logits": lambda: tp.derive(random(12), tp.Kernels(infinite=HEADS)),
    "operator": lambda: tp.derive(averaged(12), tp.NeuralTangent(tp.Adam(eps=1e-4))),
    "feature learning": lambda: tp.derive(normalized(12), tp.MaximalUpdate(tp.Adam(eps=1e-4))),
}


@pytest.mark.long
@pytest.mark.parametrize("name", LIMITS)
def test_twelve_layers_fit_a_screen(name):
    limit = LIMITS[name]()
    lines = str(limit).splitlines()
    assert any("for ℓ = " in line for line in lines)
    assert len(lines) <= 60
    assert max(map(len, lines)) < 400
    if hasattr(limit, "text"):  # what is printed in full comes back from what was rolled
        whole = [re.sub(" +", " ", line) for line in limit.text(full=True).splitlines()]
        found = rolled(whole)
        assert len(found) < len(whole) - 20
        assert [x for f in found for x in (f.unrolled() if isinstance(f, Rolled) else [f])] == whole


def test_sums_over_layers_say_every_term():
    limit = tp.derive(averaged(12), tp.MaximalUpdate(tp.SGD()))
    (short,) = (line for line in str(limit).splitlines() if "|P_{t+1}|" in line)
    (full,) = (line for line in limit.text(full=True).splitlines() if "|P_{t+1}|" in line)
    assert full.count("⟨") == 12
    assert "Σ_{ℓ=0…11} δ[layer=(11−ℓ)] |dx#(24−2ℓ)_t⟩_χ_t⟨_(172−14ℓ)_t|" in short
    assert all(f"δ[layer={11 - i}] |dx#{24 - 2 * i}_t⟩_χ_t⟨_{172 - 14 * i}_t|" in full for i in range(12))


def test_every_node_of_a_chain_of_branches_is_judged_once():
    limits = [tp.derive(averaged(layers), tp.NeuralTangent(tp.SGD())) for layers in (2, 4)]
    few, many = (len(limit.operator.kets.judged.zero) for limit in limits)
    assert 0 < few < many <= 2.2 * few
