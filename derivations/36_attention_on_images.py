"""Attention kernels on images beside convolution: Hron et al. 2020, Figure 4, Tables 2 and 5 to 7, on digits.

    python derivations/36_attention_on_images.py [--full] [--out FOLDER] [--png]

[depth] convolutions of 3 × 3 with relu, weights 1.7562 and biases 0.1841 as there, then

    flatten    a readout of every place                          gap        the mean over all places
    lap        means of 3 × 3 places, a readout of every one     vanilla    softmax attention at 1/n, a readout of every place
    struct     the same with encodings of covariance ρR in queries and keys, √α x + √(1 − α) E, and LayerNorm behind
    residual   √α x + √(1 − α) y, y attention with identity logits of encodings alone, and LayerNorm behind

with R_ab = exp(−φ (Δrow² + Δcolumn²)/64).  Images are those of scikit-learn, 8 × 8, each with mean 0 and variance 1.
Training sets are small (50 and 100 images), as these digits are easy; `on_data.py` says how accuracies and errors are made.

Three questions: which kernel is best at which depth; whether the evidence of the training data alone finds constants that
predict well; what the choice of class targets does.  The last has an answer on paper: regression is linear, so that targets
t + s·[class] for any t and s give the same classes; only the evidence depends on t.
"""

import itertools

import numpy as np
from on_data import NOISES, Fitted, Protocol, digits
from pictures import Pictures
from scipy.stats import spearmanr
from studies import Study
from worked import Worked

import tplimits as tp

pictures, work = Pictures(__doc__), Worked(__doc__)
L = tp.layers
OVER, TAPS = {"at": (8, 8)}, {"tap": (3, 3)}
WEIGHT, BIAS = float(np.sqrt(1.7562)), float(np.sqrt(0.1841))
ROW, COLUMN = (part.ravel() / 8 for part in np.mgrid[:8, :8])


def structure(φ):
    """A factor C of R = C Cᵀ, without eigenvalues below rounding."""
    R = np.exp(-φ * ((ROW[:, None] - ROW) ** 2 + (COLUMN[:, None] - COLUMN) ** 2))
    values, vectors = np.linalg.eigh(R)
    kept = values > 1e-10
    return vectors[:, kept] * np.sqrt(values[kept])


def encoding(E, φ):
    return tp.sum(tp.constant(structure(φ), axes=("at", "source")) * E, over="source")


def network(kind, depth, φ=5.0):
    """[depth] convolutions and what stands behind them."""

    def features(ξ, U, W, b):
        x = tp.relu(WEIGHT * L.conv2d(ξ, U, over=OVER, taps=TAPS) / 3 + BIAS * b.sel(layer=0))
        for i in range(1, depth):
            y = L.conv2d(x, W.sel(layer=i), over=OVER, taps=TAPS) / 3
            x = tp.relu(WEIGHT * y + BIAS * b.sel(layer=i))
        return x

    @tp.network
    def pooled(
        ξ: tp.Input["d", "at"],
        U: tp.Vector["d", "tap"],
        W: tp.Matrix["n", "n", "tap", "layer"],
        b: tp.Vector["layer"],
        v: tp.Vector,
    ):
        return v * tp.mean(features(ξ, U, W, b), over="at")

    @tp.network
    def read(
        ξ: tp.Input["d", "at"],
        U: tp.Vector["d", "tap"],
        W: tp.Matrix["n", "n", "tap", "layer"],
        b: tp.Vector["layer"],
        v: tp.Vector["at"],
    ):
        x = features(ξ, U, W, b)
        if kind == "lap":
            x = L.avg_pool(x, over=OVER, window=3, stride=1, padding="SAME")
        return tp.sum(v * x, over="at") / 8

    @tp.network
    def attention(
        ξ: tp.Input["d", "at"],
        U: tp.Vector["d", "tap"],
        W: tp.Matrix["n", "n", "tap", "layer"],
        b: tp.Vector["layer"],
        E: tp.Vector["source"],
        Q: tp.Matrix,
        V: tp.Matrix,
        O: tp.Matrix,  # noqa: E741
        v: tp.Vector["at"],
        *,
        σ=1.0,
        α=0.5,
        ρ=1.0,
    ):
        x = features(ξ, U, W, b)
        if kind == "vanilla":
            q = Q @ x
        elif kind == "struct":
            q = Q @ (tp.sqrt(α) * x + tp.sqrt((1 - α) * ρ) * encoding(E, φ))
        if kind in ("vanilla", "struct"):
            y = O @ L.attention(q, q, V @ x, over="at", scale=σ)
        else:
            q = Q @ encoding(E, φ)
            weights = ρ * tp.avg(q * q.rename(at="key"))
            y = O @ tp.sum(weights * (V @ x).rename(at="key"), over="key")
            y = tp.sqrt(α) * x + tp.sqrt(1 - α) * y
        if kind != "vanilla":
            y = L.layer_norm(y)
        return tp.sum(v * y, over="at") / 8

    net = {"gap": pooled, "flatten": read, "lap": read}.get(kind, attention)
    sizes = {} if net is not attention else {"source": structure(φ).shape[1] if kind != "vanilla" else 1}
    return net.bind(layer=depth, d=1, **sizes)


def grams(images, kind, depth, φ=5.0, tangent=False, **constants):
    """NNGP, and NTK if it is asked for."""
    trained = None if tangent else ()
    return tp.derive(network(kind, depth, φ), tp.Kernels(train=trained)).evaluate(images, **constants)


#: constants: of the paper's search for struct and residual, several scales of vanilla
PAPER = {"struct": {"φ": 5.0, "α": 0.4, "ρ": 1.5, "σ": 0.1}, "residual": {"φ": 5.0, "α": 0.65, "ρ": 0.5}}
SCALES = (0.1, 1.0, 10.0)
if __name__ == "__main__":
    import time

    images, labels = digits(400)
    p = Protocol(labels, 50)
    for kind in ("vanilla", "struct", "residual"):
        t = time.process_time(), time.perf_counter()
        g = grams(images[:200], kind, 2, **PAPER.get(kind, {})).nngp
        print(
            kind,
            Protocol(labels[:200], 50).accuracy(g),
            time.process_time() - t[0],
            time.perf_counter() - t[1],
            flush=True,
        )
