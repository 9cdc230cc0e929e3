"""Kernels of texts of unequal length: Hron et al. 2020, Tables 3 and 4, on docstrings of Python's standard library.

    python derivations/37_attention_on_texts.py [--full] [--out FOLDER] [--png]

Texts have 8 to 40 words, padded and masked, with embeddings made from the documentation itself (`texts.py`): strong
ones of 64 dimensions and weak ones of 4.  Five kernels:

    gap          the mean of the embeddings, linear
    gap-fcn      the mean, then two layers of relu
    cnn-gap      a convolution of five words with relu, zeros outside each text, then the mean of the text
    struct       softmax attention at 1/n with relative positions in queries and keys, the mean, a layer of relu
    cnn-struct   the convolution, then attention as in struct, the mean

Two tasks.  Which of four packages a docstring comes from is told by its words.  Whether the words of a text
stand in their order or were shuffled is told by nothing but order: to gap and gap-fcn the two are the same input
exactly, and to attention without encodings, too.
"""

import platform

import numpy as np
import texts
from on_data import Accuracy, Protocol
from pictures import Pictures
from studies import Study
from worked import Worked

import tplimits as tp

pictures, work = Pictures(__doc__), Worked(__doc__)
L = tp.layers
STRONG, WEAK = 64, 4
FROM = ("asyncio", "email", "importlib", "logging")
WEIGHT, BIAS = float(np.sqrt(2)), 0.1
α = 0.75


@tp.network
def gap(ξ: tp.Input["token", "d"], m: tp.Input["token"], c: tp.Input["token", "term"], U: tp.Vector["d"]):
    return tp.sum(m * tp.sum(U * ξ, over="d"), over="token") / (tp.sum(m, over="token") * tp.sqrt(tp.size("d")))


@tp.network
def gap_fcn(
    ξ: tp.Input["token", "d"],
    m: tp.Input["token"],
    c: tp.Input["token", "term"],
    U: tp.Vector["d"],
    b: tp.Vector["layer"],
    W: tp.Matrix,
    v: tp.Vector,
):
    x = tp.sum(m * tp.sum(U * ξ, over="d"), over="token") / (tp.sum(m, over="token") * tp.sqrt(tp.size("d")))
    x = tp.relu(WEIGHT * x + BIAS * b.sel(layer=0))
    return v * tp.relu(WEIGHT * (W @ x) + BIAS * b.sel(layer=1))


def cnn_gap(most):
    @tp.network
    def net(
        ξ: tp.Input["token", "d"],
        m: tp.Input["token"],
        c: tp.Input["token", "term"],
        U: tp.Vector["d", "tap"],
        b: tp.Vector,
        v: tp.Vector,
    ):
        y = L.conv1d(m * ξ, U, over={"token": most}, taps={"tap": 5}) / tp.sqrt(5 * tp.size("d"))
        x = m * tp.relu(WEIGHT * y + BIAS * b)
        return v * tp.sum(x, over="token") / tp.sum(m, over="token")

    return net


def struct(encoded=True):
    @tp.network
    def net(
        ξ: tp.Input["token", "d"],
        m: tp.Input["token"],
        c: tp.Input["token", "term"],
        U: tp.Vector["d"],
        E: tp.Vector["term"],
        Q: tp.Matrix,
        V: tp.Matrix,
        O: tp.Matrix,  # noqa: E741
        W: tp.Matrix,
        b: tp.Vector,
        v: tp.Vector,
    ):
        x = tp.sum(U * ξ, over="d") / tp.sqrt(tp.size("d"))
        seen = float(np.sqrt(α)) * x
        if encoded:
            seen = seen + float(np.sqrt(1 - α)) * tp.sum(c * E, over="term")
        q = Q @ seen
        y = O @ L.attention(q, q, V @ x, mask=m)
        y = tp.sum(m * y, over="token") / tp.sum(m, over="token")
        return v * tp.relu(WEIGHT * (W @ y) + BIAS * b)

    return net


def cnn_struct(most):
    @tp.network
    def net(
        ξ: tp.Input["token", "d"],
        m: tp.Input["token"],
        c: tp.Input["token", "term"],
        U: tp.Vector["d", "tap"],
        b: tp.Vector,
        E: tp.Vector["term"],
        Q: tp.Matrix,
        V: tp.Matrix,
        O: tp.Matrix,  # noqa: E741
        v: tp.Vector,
    ):
        y = L.conv1d(m * ξ, U, over={"token": most}, taps={"tap": 5}) / tp.sqrt(5 * tp.size("d"))
        x = tp.relu(WEIGHT * y + BIAS * b)
        q = Q @ (float(np.sqrt(α)) * x + float(np.sqrt(1 - α)) * tp.sum(c * E, over="term"))
        y = O @ L.attention(q, q, V @ x, mask=m)
        return v * tp.sum(m * y, over="token") / tp.sum(m, over="token")

    return net


def kernels(kind, data):
    nets = {
        "gap": lambda: gap,
        "gap-fcn": lambda: gap_fcn.bind(layer=2),
        "cnn-gap": lambda: cnn_gap(data["m"].shape[1]),
        "cnn-struct": lambda: cnn_struct(data["m"].shape[1]),
        "struct": struct,
        "struct, no encodings": lambda: struct(False),
    }
    return tp.derive(nets[kind](), tp.Kernels()).evaluate(data)


def task(name, many):
    """Texts with their classes."""
    some, labels = texts.texts(FROM, many // len(FROM))
    if name == "package":
        return some, labels
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.arange(many) % 2)
    return [list(rng.permutation(t)) if label else t for t, label in zip(some, labels, strict=True)], labels


def measured(name, many, size, kind, dimensions):
    some, labels = task(name, many)
    found, protocol = kernels(kind, texts.arrays(some, dimensions)), Protocol(labels, size)
    return {"right": protocol.accuracy(found.nngp).rows, "right_ntk": protocol.accuracy(found.ntk).rows}


print("\nTwo texts as they are, and with their words shuffled")
some, _ = texts.texts(FROM, 1)
rng = np.random.default_rng(1)
data = texts.arrays([*some, *(list(rng.permutation(t)) for t in some)], WEAK)
lengths = data["m"].sum(axis=1).astype(int)
print(f"  lengths {', '.join(map(str, lengths[:4]))}: {' '.join(some[0][:8])} …")
for kind in ("gap", "gap-fcn", "struct, no encodings", "cnn-gap", "struct", "cnn-struct"):
    nngp = kernels(kind, data).nngp
    off = np.abs(nngp[:4] - nngp[4:]).max() / np.abs(nngp).max()
    blind = kind in ("gap", "gap-fcn", "struct, no encodings")
    work.holds(f"{kind}: kernels of the shuffled texts are {off:.1e} from those of the texts", (off < 1e-12) == blind)
padded = {
    name: np.concatenate([x, np.full_like(x[:, :3], 0 if name == "m" else 9.0)], axis=1) for name, x in data.items()
}
for kind in ("cnn-gap", "struct", "cnn-struct"):
    one, other = kernels(kind, data), kernels(kind, padded)
    work.matrices(f"{kind}: three more places of padding, NTK", other.ntk, one.ntk)

#: texts to train on
SIZES = {"package": 40, "order": 200}
KINDS = ("gap", "gap-fcn", "cnn-gap", "struct", "cnn-struct")
study = Study("attention_on_texts", pictures.full)
PYTHON = ".".join(platform.python_version_tuple()[:2])
table = {}
for name in ("package", "order"):
    print(f"\n{'Which package' if name == 'package' else 'Shuffled or not'}: 600 texts, training sets of {SIZES[name]}")
    print(f"  {'':<12}{'weak: NNGP':^16}{'NTK':^16}{'strong: NNGP':^16}{'NTK':^16}")
    for kind in KINDS:
        shown = []
        for dimensions in (WEAK, STRONG):
            run = {"name": name, "many": 600, "size": SIZES[name], "kind": kind, "dimensions": dimensions}
            row = study.row(lambda run=run: measured(**run) | {"python": PYTHON}, **run)
            if row is None:
                continue
            for which in ("right", "right_ntk"):
                table[name, kind, dimensions, which] = Accuracy.of(row[which])
                shown.append(f"{table[name, kind, dimensions, which]!s:^16}")
        print(f"  {kind:<12}{''.join(shown) or '(--full)'}")
study.told()
if len(table) == 2 * len(KINDS) * 4:
    print()
    for kind in ("cnn-gap", "cnn-struct"):
        difference, error = table["package", kind, WEAK, "right"].minus(table["package", "gap", WEAK, "right"])
        text = f"weak embeddings: {kind} is above gap by {100 * difference:.1f} ± {100 * error:.1f} %"
        work.holds(text, difference > 2 * error)
        difference, error = table["package", kind, STRONG, "right"].minus(table["package", "gap", STRONG, "right"])
        print(f"  strong embeddings: {kind} less gap {100 * difference:+.1f} ± {100 * error:.1f} %")
    for kind in ("gap", "gap-fcn"):
        one = table["order", kind, STRONG, "right"]
        work.holds(f"{kind} does not see order: {one}", abs(one.mean - 0.5) < 3 * one.error)
    for kind in ("cnn-gap", "cnn-struct"):
        one = table["order", kind, STRONG, "right"]
        work.holds(f"{kind} does: {one}", one.mean - 0.5 > 3 * one.error)
work.finish()
