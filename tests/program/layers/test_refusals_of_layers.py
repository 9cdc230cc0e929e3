"""One clear ProgramError for each mistake with a layer, on the user's line."""

import numpy as np
import pytest

import tplimits as tp

L = tp.layers
AT, TAP = {"at": 8}, {"tap": 3}


def traced(layer):
    """A network whose one line is a layer, given every kind of argument."""

    def net(
        ξ: tp.Input["d", "at"],
        η: tp.Input["channel", "at"],
        t: tp.Input["token"].of("vocab"),
        U: tp.Vector["d", "tap"],
        W: tp.Matrix["n", "n", "tap"],
        V: tp.Matrix["n", "k"],
        x: tp.Vector["at"],
    ):
        return layer(ξ=ξ, η=η, t=t, U=U, W=W, V=V, x=x)

    return tp.network(net)


def conv(**how):
    return lambda a: L.conv1d(a["x"], a["W"], **{"over": AT, "taps": TAP, **how})


def attended(a, mask):
    return L.attention(a["x"], a["x"], a["x"], over="at", mask=mask)


MISTAKES = {
    "channels": (lambda a: L.conv1d(a["η"], a["U"], over=AT, taps=TAP), "share no channels.*channel"),
    "dense channels": (lambda a: L.linear(a["η"], a["U"]), "linear of .* share no channels"),
    "data by a matrix": (lambda a: L.conv1d(a["ξ"], a["W"], over=AT, taps=TAP), "weights of data are vectors"),
    "vector by a vector": (
        lambda a: L.linear(a["x"], a["U"]),
        "weights of a vector are a tp.Matrix",
    ),
    "another width": (lambda a: L.linear(a["x"], a["V"]), "takes vectors over `k`"),
    "no taps": (lambda a: L.conv1d(a["x"], a["V"], over=AT, taps=TAP), "no axis `tap` for the taps"),
    "an array of weights": (lambda a: L.linear(a["x"], np.eye(3)), "linear with weights of type ndarray"),
    "an array": (lambda a: L.linear(np.eye(3), a["W"]), "linear of a value of type ndarray"),
    "padding": (conv(padding="same"), r"conv1d\(padding='same'\); paddings are 'SAME', 'VALID', 'CIRCULAR'"),
    "padding of a list": (conv(padding=["SAME"]), r"conv1d\(padding=\['SAME'\]\)"),
    "stride 0": (conv(stride=0), r"conv1d\(stride=0\); give a whole number from 1"),
    "stride of a fraction": (conv(stride=1.5), r"stride=1.5"),
    "two strides": (conv(stride=(1, 2)), r"stride=\(1, 2\)"),
    "a stride that is true": (conv(stride=True), r"stride=True"),
    "dilation 0": (conv(dilation=0), r"conv1d\(dilation=0\)"),
    "a symbolic stride": (conv(stride=tp.n), r"conv1d\(stride=n\)"),
    "VALID": (conv(padding="VALID", dilation=4), "a window over 9 places of 8.*padding='SAME'"),
    "size 0": (conv(over={"at": 0}), r"over\['at'\]=0"),
    "open size": (conv(over="at"), r"the size of `at` is open; give it: over=\{'at': …\}"),
    "open taps": (conv(taps="tap"), r"the size of `tap` is open; give it: taps=\{'tap': …\}"),
    "an axis that is not there": (conv(over={"row": 8}), "along `row`.*axes are \\(at\\)"),
    "directions": (conv(over={"at": (2, 4)}), "conv1d with over `at` of 2 × 4; name one direction"),
    "no directions": (conv(over={}), "conv1d with over nothing"),
    "names of results": (conv(to=("a", "b")), r"to=\('a', 'b'\)"),
    "a pool of nothing": (lambda a: L.avg_pool(a["x"], over={}, window=2), "avg_pool with over nothing"),
    "a large pool": (lambda a: L.avg_pool(a["x"], over=AT, window=9), "avg_pool.*a window over 9 places of 8"),
    "window 0": (lambda a: L.sum_pool(a["x"], over=AT, window=0), r"sum_pool\(window=0\)"),
    "factor 0": (lambda a: L.upsample(a["x"], over=AT, factor=0), r"upsample\(factor=0\)"),
    "a norm of data": (lambda a: L.layer_norm(a["ξ"]), "layer_norm of a scalar.*over neurons"),
    "attention of data": (lambda a: L.attention(a["ξ"], a["ξ"], a["ξ"], over="at"), "attention of a scalar"),
    "no tokens": (lambda a: L.attention(a["x"], a["x"], a["x"]), "along `token`"),
    "a mask of a vector": (lambda a: attended(a, a["x"]), "with the mask"),
    "a mask that is added": (lambda a: attended(a, np.triu(np.full((8, 8), -1e9), 1)), "negative weight in the mask"),
    "a mask of one row": (lambda a: attended(a, [1, 0]), "1 dimensions and axes"),
    "a ragged mask": (lambda a: attended(a, [[1, 2], [3]]), "something that is no array"),
    "a matrix for a mask": (lambda a: attended(a, a["W"]), "with a mask of a matrix"),
    "queries along keys": (lambda a: L.attention(a["x"], a["x"], a["x"], over="at", key="at"), 'key="source"'),
    "a mask that hides all": (lambda a: attended(a, np.tril(np.ones((8, 8)), -1)), "hides all keys of query 0"),
    "embedding of numbers": (lambda a: L.embedding(a["ξ"], a["U"]), "embedding of a scalar.*\\.of"),
    "a table without the axis": (lambda a: L.embedding(a["t"], a["U"]), "along `vocab`"),
    "indices as numbers": (lambda a: L.linear(a["t"], a["U"]), "linear of indices of `vocab`"),
    "a missing argument": (lambda a: L.conv1d(a["x"], a["W"], over=AT), "tp.layers.conv1d: missing.*'taps'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_error_on_its_line(mistake):
    layer, message = MISTAKES[mistake]
    with pytest.raises(tp.ProgramError, match=message) as error:
        traced(lambda **a: layer(a))
    assert "test_refusals_of_layers.py, line" in str(error.value)


def test_an_axis_has_one_size():
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], W: tp.Matrix["n", "n", "tap"]):
        x = L.conv1d(ξ, U, over={"at": 8}, taps={"tap": 3})
        return L.conv1d(x, W, over={"at": 9}, taps={"tap": 3})

    with pytest.raises(tp.ProgramError, match="`at` with 9 entries, but it has 8"):
        tp.network(net)


def test_data_with_other_channels_or_another_size_are_refused():
    @tp.network
    def net(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], v: tp.Vector):
        return v * L.global_pool(tp.relu(L.conv1d(ξ, U, over={"at": 8}, taps={"tap": 3})), over="at")

    limit = tp.derive(net.bind(d=3), tp.Kernels())
    with pytest.raises(tp.EvaluationError, match="4 entries along `d`"):
        limit.evaluate(np.ones((2, 4, 8)))
    with pytest.raises(tp.EvaluationError, match="9 entries along `at`"):
        limit.evaluate(np.ones((2, 3, 9)))


@tp.network
def image(ξ: tp.Input["d", "at"], U: tp.Vector["d", "tap"], v: tp.Vector["at"]):
    x = tp.relu(L.conv2d(ξ, U, over={"at": (2, 2)}, taps={"tap": (3, 3)}))
    return tp.sum(v * x, over="at")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.array([[[1, 2, np.nan, 4]]]), "`X1` has NaN or infinite entries"),
        (
            [np.ones((1, 4)), np.ones((1, 9))],
            r"different sizes, \(1, 4\) and \(1, 9\): pad them.*\(N, d, at\)",
        ),
        (np.ones((2, 4)), r"shape \(2, 4\); it needs \(N, d, at\)"),
        (np.ones((1, 1, 2, 2)), r"shape \(1, 1, 2, 2\); it needs \(N, d, at\)"),
        (np.full((1, 1, 4), "1"), "takes an array of numbers"),
    ],
)
def test_images_that_are_none(data, message):
    with pytest.raises(tp.EvaluationError, match=message):
        tp.derive(image, tp.Kernels()).evaluate(data)


def test_pixels_that_are_whole_numbers_are_numbers():
    limit, pixels = tp.derive(image, tp.Kernels()), np.random.default_rng(0).integers(0, 255, (3, 2, 4), dtype=np.uint8)
    found, known = limit.evaluate(pixels), limit.evaluate(pixels.astype(float))
    assert (found.ntk == known.ntk).all() and found.ntk.dtype == np.float64
