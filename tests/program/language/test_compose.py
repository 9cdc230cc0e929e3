"""A program called inside another is inlined; what is left out becomes fresh initial data."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.errors import ProgramError
from tplimits.program.nodes.kinds import InitialMatrix, InitialScalar, InitialVector


@tp.program
def block(x: tp.Vector, W: tp.Matrix, b: tp.Vector = 0, s: tp.Scalar = 2, *, γ=1):
    h = W @ x
    h = γ * tp.tanh(h + s * b)
    return x + h


def printed(program):
    return [s.name for s in program]


def test_left_out_arguments_are_fresh_and_numbered_from_one():
    @tp.program
    def deep(x: tp.Vector):
        for _ in range(3):
            x = block(x)
        return x

    fresh = [s.name for s in deep if isinstance(s, (InitialMatrix, InitialVector, InitialScalar))]
    assert fresh == ["x", *(f"block.{i}.{name}" for i in (1, 2, 3) for name in ("W", "b", "s"))]
    assert deep.position("block.3.W") < deep.position("block.3.h#2") == deep.position("block.3.h")
    assert deep.position("block.1.h#1") == deep.position("block.1.h") - 1
    assert deep.position("x#4") == deep.position("return")


def test_the_inlined_program_computes_what_its_parts_compute():
    @tp.program
    def deep(x: tp.Vector, V: tp.Matrix):
        y = block(x, V.T, b=x, s=0.5)
        return block(y, γ=3)

    rng = np.random.default_rng(0)
    n = 6
    x, V, W = rng.normal(size=n), rng.normal(size=(n, n)), rng.normal(size=(n, n))
    ran = deep.run(n=n, x=x, V=V, **{"block.2.W": W})
    y = x + np.tanh(V.T @ x + 0.5 * x)
    np.testing.assert_allclose(ran["y"], y, atol=1e-13)
    np.testing.assert_allclose(ran["return"], y + 3 * np.tanh(W @ y), atol=1e-13)


def test_the_same_arguments_twice_are_the_same_instructions():
    @tp.program
    def twice(x: tp.Vector, W: tp.Matrix, b: tp.Vector, s: tp.Scalar):
        return tp.avg(block(x, W, b, s) * block(x, W, b, s))

    assert sum(type(i).__name__ == "MatMul" for i in twice) == 1


def test_nesting_deepens_the_names():
    @tp.program
    def pair(x: tp.Vector):
        y = block(x)
        return block(y)

    @tp.program
    def outer(x: tp.Vector):
        return pair(pair(x))

    assert "pair.2.block.1.W" in printed(outer)
    assert outer.position("pair.2.y") > outer.position("pair.1.y")


def test_named_in_the_inner_program():
    @tp.program
    def inner(x: tp.Vector, W: tp.Matrix):
        return (W @ x).named("h^1")

    @tp.program
    def outer(x: tp.Vector):
        return tp.avg(tp.tanh(inner(x)))

    assert "inner.1.h^1" in printed(outer)


def test_tuples_and_scalars_come_back_as_returned():
    @tp.program
    def moments(x: tp.Vector):
        return tp.avg(x), tp.avg(x * x)

    @tp.program
    def variance(y: tp.Vector):
        mean, square = moments(y)
        return square - mean**2

    y = np.arange(5.0)
    assert variance.run(n=5, y=y)["return"] == pytest.approx(np.var(y))


def test_numbers_stand_for_scalars():
    @tp.program
    def affine(x: tp.Vector, a: tp.Scalar, b: tp.Scalar):
        return a * x + b

    @tp.program
    def outer(x: tp.Vector, *, c):
        return affine(x, 2, b=c / tp.sqrt(tp.n))

    assert outer.run(n=4, x=np.ones(4), c=6)["return"].tolist() == [5.0] * 4


def test_widths_are_matched_and_new_ones_declared():
    @tp.program
    def inner(x: tp.Vector["k"], U: tp.Matrix["m", "k"]):
        return tp.width("k") * (U @ x) / tp.sqrt(tp.width("m"))

    @tp.program
    def outer(x: tp.Vector):
        return inner(x)

    assert outer.widths == ("n", "m")
    assert outer[outer.position("inner.1.U")].columns == "n"
    U = np.ones((6, 3))
    ran = outer.run(n=3, ratios={"m": 2}, x=np.ones(3), **{"inner.1.U": U})["return"]
    np.testing.assert_allclose(ran, 3 * (U @ np.ones(3)) / np.sqrt(6))


def test_extra_axes_are_carried_along():
    @tp.program
    def inner(x: tp.Vector["token"], W: tp.Matrix["n", "n", "head"]):
        β = tp.neuron("β")
        z = tp.softmax(tp.avg(x * (W @ x)), over="token")
        return tp.avg(tp.tanh(x[β] * x), over=β) * tp.sum(z, over="head")

    @tp.program
    def outer(x: tp.Vector["token", "batch"], W: tp.Matrix["n", "n", "head"]):
        return inner(x, W)

    rng = np.random.default_rng(1)
    x, W = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 4, 4))
    got = outer.run(n=4, x=x, W=W)["return"]
    assert outer[outer.position("return")].axes == ("token", "batch")
    for b in range(3):
        np.testing.assert_allclose(got[:, b], inner.run(n=4, x=x[:, b], W=W)["return"], atol=1e-13)


def test_sums_of_the_inner_program_do_not_capture_indices_of_the_outer_one():
    @tp.program
    def inner(x: tp.Scalar["token"], y: tp.Scalar["key"]):
        return tp.sum(tp.exp(x * y), over="key")

    @tp.program
    def outer(x: tp.Scalar["token"], y: tp.Scalar["key"]):
        return tp.sum(inner(x, y).rename(token="key") * y, over="key")

    x, y = np.array([0.1, 0.2, 0.4]), np.array([1.0, 2.0, -1.0])
    expected = (np.exp(x[:, None] * y).sum(axis=1) * y).sum()
    assert outer.run(n=1, x=x, y=y)["return"] == pytest.approx(expected)


def test_tables_arrays_and_sizes_come_along():
    @tp.program
    def convolution(x: tp.Vector["pos"]):
        taps = np.array([[-1, 0, 1], [0, 1, 2], [1, 2, -1]])
        patches = x.take(pos=taps, axes=("tap", "pos"))
        return tp.sum(tp.constant([0.5, 1, 0.25], axes="tap") * patches, over="tap")

    @tp.program
    def twice(x: tp.Vector["pos"]):
        return convolution(convolution(x))

    assert len(twice.tables) == len(twice.arrays) == 1
    assert {a: int(twice.size(a)) for a in twice.all_axes} == {"pos": 3, "tap": 3}
    x = np.array([[1.0], [2.0], [4.0]])
    once = convolution.run(n=1, x=x)["return"]
    np.testing.assert_allclose(twice.run(n=1, x=x)["return"], convolution.run(n=1, x=once)["return"])


def test_constants_are_shared_by_name_given_or_defaulted():
    @tp.program
    def inner(x: tp.Vector, *, γ, τ=2):
        return γ * x / τ

    @tp.program
    def shared(x: tp.Vector):
        return inner(x) + inner(x, γ=1, τ=4)

    assert dict(shared.constants) == {"γ": None}
    assert shared.run(n=1, x=[8.0], γ=3)["return"] == [8 * 3 / 2 + 8 / 4]


def test_what_cannot_be_passed_is_refused():
    @tp.program
    def tokens(x: tp.Vector["token"]):
        return tp.sum(x.rename(token="key"), over="key")

    @tp.program
    def rectangular(U: tp.Matrix["k", "n"], x: tp.Vector["k"]):
        return U.T @ x

    def trace(use, **annotations):
        space = {"use": use, "tp": tp}
        names = ", ".join(f"{k}: {v}" for k, v in annotations.items())
        exec(f"def outer({names}): return use({', '.join(annotations)})", space)
        return tp.program(space["outer"])

    V, M = "tp.Vector", "tp.Matrix"
    cases = [
        (lambda x: block(x, x), {"x": V}, "`W` of `block` given a vector over `n`; it takes a matrix"),
        (lambda W: block(W), {"W": M}, "`x` of `block` given a matrix n×n; it takes a vector"),
        (lambda x: block(tp.avg(x)), {"x": V}, "`x` of `block` given a scalar; it takes a vector"),
        (lambda x: block(x, s=x), {"x": V}, "`s` of `block` given a vector over `n`; it takes a scalar"),
        (lambda x: block(x[tp.neuron("β")]), {"x": V}, "free neuron index β; average the neuron index first"),
        (lambda x: block(x, z=1), {"x": V}, "`z` given to `block`; its arguments are x, W, b, s, γ"),
        (lambda x: block(x, x=x), {"x": V}, "`x` given twice to `block`; give it once"),
        (lambda x: block(*[x] * 5), {"x": V}, "5 arguments for `block`; it takes 4"),
        (lambda x: block(x, γ=x), {"x": V}, "the constant `γ` of `block` given a vector over `n`"),
        (lambda x: tokens(x), {"x": V}, r"`x` of `tokens` needs the axis `token`, given a value with axes \(\)"),
        (
            lambda x: tokens(x),
            {"x": 'tp.Vector["token", "key"]'},
            "but `tokens` uses `key` for something else; rename it",
        ),
        (
            lambda U, x: rectangular(U, x),
            {"U": 'tp.Matrix["m", "n"]', "x": V},
            "`x` of `rectangular` given on width `n`, but its width `k` is already `m` here",
        ),
        (
            lambda x: rectangular(),
            {"x": 'tp.Vector["k"]'},
            "the width `k` of `rectangular`, which is a finite axis here",
        ),
        (lambda x: block([1, 2]), {"x": V}, "a bare array"),
    ]
    for use, annotations, words in cases:
        with pytest.raises(ProgramError, match=words):
            trace(use, **annotations)


def test_calling_outside_a_program_is_refused():
    with pytest.raises(ProgramError, match=r"`block` called outside a program; run it at finite width with \.run"):
        block()


def test_conflicting_sizes_are_refused():
    @tp.program
    def three(x: tp.Vector["token"]):
        return tp.sum(x * tp.constant([1, 2, 3], axes="token"), over="token")

    with pytest.raises(ProgramError, match="the axis `token` with 3 entries, but it has 2 elsewhere"):

        @tp.program
        def outer(x: tp.Vector["token"]):
            y = x * tp.constant([1, 2], axes="token")
            return three(y)
