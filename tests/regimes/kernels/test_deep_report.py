"""Deep networks print in the time of shallow ones: anonymous sums are not written out layer after layer."""

from __future__ import annotations

import tplimits as tp


def transformer(layers):
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


def test_twelve_layers_fit_a_screen():
    text = str(tp.derive(transformer(12), tp.Kernels()))
    assert "for ℓ = 1, …, 11" in text
    assert text.count("\n") < 60
    assert max(map(len, text.splitlines())) < 400
