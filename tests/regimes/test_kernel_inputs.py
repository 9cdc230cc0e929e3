"""Bad input to kernels: one clear error each, and nothing half-written."""

from __future__ import annotations

import numpy as np
import pytest

import tplimits as tp


@tp.network
def plain(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, *, σ=1):
    return σ * v * tp.relu(W @ tp.relu(tp.sum(U * ξ, over="d")))


@tp.network
def open_constant(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, *, σ):
    return σ * v * tp.relu(tp.sum(U * ξ, over="d"))


@tp.network
def masked(ξ: tp.Input["d", "token"], m: tp.Input["token"], U: tp.Vector["d"], v: tp.Vector):
    return v * tp.sum(m * tp.relu(tp.sum(U * ξ, over="d")), over="token")


LIMIT = tp.derive(plain.bind(d=3), tp.Kernels())
OPEN = tp.derive(open_constant, tp.Kernels())
MASKED = tp.derive(masked, tp.Kernels())
X = np.random.default_rng(0).standard_normal((4, 3))
TOKENS, MASK = np.ones((2, 3, 5)), np.ones((2, 5))

BAD_DATA = {
    "trailing dimension": (X[:, :2], r"X1 has 2 entries along `d`; it needs 3"),
    "one input without its axis": (X[0], r"X1 has shape \(3,\); it needs \(N, d\)"),
    "too many axes": (X[None], r"X1 has shape \(1, 4, 3\); it needs \(N, d\)"),
    "number": (1.0, r"X1 has shape \(\); it needs \(N, d\)"),
    "nothing": (None, "`X1` is given a value of type NoneType; it takes an array of numbers"),
    "no input": (X[:0], r"X1 is empty, shape \(0, 3\); it needs \(N, d\) with at least one input"),
    "no entries": (X[:, :0], r"X1 is empty, shape \(4, 0\)"),
    "empty list": ([], r"X1 has shape \(0,\)"),
    "NaN": (np.where(X > 1, np.nan, X), "`X1` has NaN or infinite entries"),
    "infinity": (np.where(X > 1, np.inf, X), "`X1` has NaN or infinite entries"),
    "NaN in single precision": ((X * np.nan).astype(np.float32), "`X1` has NaN or infinite entries"),
    "complex": (X + 0j, "`X1` is given complex numbers"),
    "text": (np.array([["1", "2", "3"]]), "`X1` is given an array of dtype <U1; it takes an array of numbers"),
    "objects": (np.array([[1, 2, "a"]], dtype=object), "`X1` is given an array of dtype object"),
    "a missing object": (np.array([[1, 2, None]], dtype=object), "`X1` has NaN or infinite entries"),
    "dates": (np.zeros((1, 3), dtype="datetime64[D]"), r"`X1` is given an array of dtype datetime64\[D\]"),
    "generator": ((x for x in X), "`X1` is given a value of type generator"),
    "ragged": ([[1, 2, 3], [1, 2]], r"Rows of different lengths: pad them and give a mask as data, shape \(N, d\)"),
    "masked": (np.ma.masked_array(X, mask=X > 0), "`X1` is given a masked array, whose mask would be lost"),
    "wrong name": ({"x": X}, "X1 has `x`; the data of `plain` is ξ"),
    "extra name": ({"ξ": X, "η": X}, "X1 has `η`; the data of `plain` is ξ"),
    "name of no kind": ({0: X}, "X1 has `0`"),
    "too large": (X * 1e300, "not a finite number"),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data(name):
    bad, message = BAD_DATA[name]
    with pytest.raises(tp.EvaluationError, match=message):
        LIMIT.evaluate(bad)


@pytest.mark.parametrize("name", [n for n in BAD_DATA if n not in ("too large", "generator")])
def test_bad_data_of_the_second_batch_and_of_inference(name):
    bad, message = BAD_DATA[name]
    message = message.replace("X1", "X2")
    for ask in (lambda: LIMIT.evaluate(X, bad), lambda: LIMIT.posterior(X, X[:, 0], bad, noise=1.0)):
        if bad is not None:  # None stands for the first batch
            with pytest.raises(tp.EvaluationError, match=message):
                ask()


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_leaves_files_as_they_are(name, tmp_path):
    LIMIT.evaluate(X, out=tmp_path / "gram")
    before = {p.name: p.read_bytes() for p in (tmp_path / "gram").iterdir()}
    with pytest.raises(tp.EvaluationError):
        LIMIT.evaluate(BAD_DATA[name][0], out=tmp_path / "gram")
    assert {p.name: p.read_bytes() for p in (tmp_path / "gram").iterdir()} == before and len(before) == 4


@pytest.mark.parametrize(
    "good", [X.tolist(), X.astype(np.longdouble), X.astype(object), np.asfortranarray(X), {"ξ": X}, np.ma.array(X)]
)
def test_the_same_data_in_other_clothes(good):
    np.testing.assert_array_equal(LIMIT.evaluate(good).ntk, LIMIT.evaluate(X).ntk)


def test_single_precision_is_read_as_the_numbers_it_holds():
    small = X.astype(np.float32)
    found = LIMIT.evaluate(small)
    assert found.nngp.dtype == found.ntk.dtype == np.float32
    np.testing.assert_array_equal(found.ntk, LIMIT.evaluate(small.astype(float)).ntk.astype(np.float32))


def test_several_data():
    for bad, message in (
        (TOKENS, "`masked` takes the data ξ, m: give X1 as a dictionary"),
        ({"ξ": TOKENS}, "X1 lacks `m`"),
        ({"ξ": TOKENS, "m": MASK[:1]}, r"X1\['m'\] has 1 inputs, but 2 elsewhere in X1"),
        ({"ξ": TOKENS, "m": MASK[:, :4]}, r"X1\['m'\] has 4 entries along `token`; it needs 5"),
        ({"ξ": TOKENS, "m": MASK * np.nan}, r"`X1\['m'\]` has NaN"),
        (
            {"ξ": [np.ones((3, 5)), np.ones((3, 4))], "m": MASK},
            r"pad them and give a mask as data, shape \(N, d, token\)",
        ),
    ):
        with pytest.raises(tp.EvaluationError, match=message):
            MASKED.evaluate(bad)
    with pytest.raises(
        tp.EvaluationError, match="X2 has 2 entries along `d`, X1 has 3; the parameter `U` has this axis"
    ):
        MASKED.evaluate({"ξ": TOKENS, "m": MASK}, {"ξ": TOKENS[:, :2], "m": MASK})


def test_padding_behind_a_mask_changes_nothing():
    rng = np.random.default_rng(1)
    short, long = rng.standard_normal((2, 3, 3)), rng.standard_normal((2, 3, 5))
    padded = np.concatenate([short, 7 + np.zeros((2, 3, 2))], axis=2)
    mask = np.ones((2, 5)) * (np.arange(5) < 3)
    one = MASKED.evaluate({"ξ": short, "m": np.ones((2, 3))}, {"ξ": long, "m": MASK})
    other = MASKED.evaluate({"ξ": padded, "m": mask}, {"ξ": long, "m": MASK})
    np.testing.assert_allclose(one.ntk, other.ntk, rtol=1e-13)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"σ": np.nan}, "σ=nan: a constant is a finite real number"),
        ({"σ": "a"}, "σ='a': a constant is a finite real number"),
        ({"σ": 1j}, "σ=1j: a constant is a finite real number"),
        ({"σ": [1]}, r"σ=\[1\]: a constant is a finite real number"),
        ({}, "the constant `σ` of `open_constant` has no value: give σ=…"),
        ({"σ": 1, "τ": 1}, "`τ` is no constant of `open_constant`; it has σ"),
        ({"σ": 1, "constants": {"σ": 1}}, "`σ` is given twice"),
        ({"σ": 1, "ratios": {"k": 2}}, "ratios={'k': …}: the widths of `open_constant` besides n are none"),
        ({"σ": 1, "ratios": 3}, "ratios=3: give names and numbers"),
        ({"σ": 1, "d": 4}, "X1 has 3 entries along `d`; it needs 4"),
        ({"σ": 1, "d": 0}, "d=0: give a whole number, at least 1"),
        ({"σ": 1, "out": ""}, "it has no name; give a folder of its own"),
        ({"σ": 1, "out": "."}, "it has no name; give a folder of its own"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(tp.EvaluationError, match=message):
        OPEN.evaluate(X, **options)


@pytest.mark.parametrize("ratio", [0, -1, np.nan, np.inf, "2", True, 1j])
def test_bad_ratios(ratio):
    @tp.network
    def wide(ξ: tp.Input["d"], U: tp.Vector["d"], A: tp.Matrix["k", "n"], B: tp.Matrix["n", "k"], v: tp.Vector):
        return v * (B @ tp.relu(A @ tp.sum(U * ξ, over="d")))

    with pytest.raises(tp.EvaluationError, match="a ratio of widths is a positive number"):
        tp.derive(wide, tp.Kernels()).evaluate(X, ratios={"k": ratio})


@pytest.mark.parametrize("kernel", ["NTK", "", None, 0, ["ntk"], np.array(["ntk"]), np.array(["ntk", "nngp"])])
def test_kernels_by_wrong_names(kernel):
    for ask in (LIMIT.posterior, LIMIT.log_marginal_likelihood):
        with pytest.raises(tp.EvaluationError, match="give one of the words 'nngp', 'ntk'"):
            ask(X, X[:, 0], noise=1.0, kernel=kernel)


def test_axes_and_parameters_by_wrong_names():
    for options, message in (
        ({"train": ("Z",)}, r"`Z` is no parameter of `plain`; it has U, W, v"),
        ({"train": 3}, r'train=3: give names, as in train=\("x", "y"\)'),
        ({"train": ("W", 3)}, "give names"),
        ({"infinite": ("head",)}, "`head` is no finite axis of `plain`; it has d"),
        ({"infinite": None}, "give names"),
    ):
        with pytest.raises(tp.ProgramError, match=message):
            tp.derive(plain, tp.Kernels(**options))
    twice = tp.derive(plain, tp.Kernels(train=("W", "v", "W")))
    assert twice.trained == ("W", "v")
    np.testing.assert_array_equal(twice.evaluate(X).ntk, LIMIT.contribution("W", "v").evaluate(X).ntk)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ({"std": -1}, "a standard deviation is not negative"),
        ({"std": np.nan}, "constants must be finite"),
        ({"std": np.inf}, "constants must be finite"),
        ({"std": 1j}, "programs are real"),
        ({"std": "1"}, "str is not a number"),
    ],
)
def test_laws_of_parameters_are_refused_where_they_are_written(law, message):
    with pytest.raises(tp.ProgramError, match=message):
        tp.init(**law)


def test_what_the_width_or_a_zero_makes_infinite_names_the_inputs():
    @tp.network
    def ratio(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        return v * x / tp.sqrt(tp.avg(x**2))

    with pytest.raises(tp.EvaluationError, match="the NNGP of inputs 0 and 4 is not a finite number"):
        tp.derive(ratio, tp.Kernels()).evaluate(np.concatenate([X, 0 * X[:1]]))


def test_a_zero_input_that_something_divides_by_is_named():
    """Of one without such a part kernels are 0, as outputs of networks are."""

    def kernels(f):
        @tp.network
        def network(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
            return v * f(tp.sum(U * ξ, over="d"), W)

        return tp.derive(network, tp.Kernels(train=("v",)))

    X = [[1.0, 0.5], [0.0, 0.0]]
    for f in (lambda x, W: W.T @ tp.sign(W @ x), lambda x, W: x / tp.sqrt(tp.avg(x**2))):
        with pytest.raises(tp.EvaluationError, match="divides by the size of input 1, which is zero"):
            kernels(f).evaluate(X)
    found = kernels(lambda x, W: tp.sign(W @ x)).evaluate(X).nngp
    assert found == pytest.approx(np.array([[1.0, 0.0], [0.0, 0.0]]))
    with pytest.raises(tp.EvaluationError, match="leaves the range of double precision"):
        kernels(lambda x, W: tp.exp(W @ x)).evaluate([[1.0, 0.5], [40.0, 0.0]])
