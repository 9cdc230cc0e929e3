"""Finite named axes: broadcasting, order, renaming, selecting, looking up."""

import numpy as np
import pytest

import tplimits as tp
from tplimits.errors import ProgramError


def test_arithmetic_broadcasts_by_name():
    @tp.program
    def product(x: tp.Vector["a", "b"], y: tp.Vector["b", "c"], s: tp.Scalar["c"]):
        return x * y + s

    x, y, s = (np.random.default_rng(0).normal(size=shape) for shape in ((2, 3, 5), (3, 4, 5), (4,)))
    ran = product.run(n=5, x=x, y=y, s=s)["return"]
    np.testing.assert_allclose(ran, x[:, :, None] * y[None] + s[:, None])


def test_the_order_of_axes_is_first_declaration_then_renaming():
    @tp.program
    def ordered(x: tp.Vector["b", "a"], y: tp.Vector["a", "c"]):
        z = y.rename(a="d", c="b")
        return x + y, z * x, y.rename(a="a2")

    axes = [ordered[p].axes for p in ordered.returns]
    assert axes == [("b", "a", "c"), ("b", "a", "d"), ("c", "a2")]
    assert ordered.all_axes == ("b", "a", "c", "d", "a2")


def test_initial_data_keep_the_order_of_their_annotation():
    @tp.program
    def declared(W: tp.Matrix["n", "n", "head"], x: tp.Vector["token", "head"]):
        return tp.tanh(x), tp.avg(x)

    assert declared[1].axes == ("token", "head")
    assert [declared[p].axes for p in declared.returns] == [("head", "token"), ("head", "token")]
    x = np.random.default_rng(6).normal(size=(2, 3, 4))
    ran = declared.run(n=4, x=x)
    np.testing.assert_allclose(ran["return[0]"], np.tanh(x).transpose(1, 0, 2))
    np.testing.assert_allclose(ran["return[1]"], x.mean(axis=2).T)


def test_rename_swaps():
    @tp.program
    def transpose(x: tp.Scalar["a", "b"]):
        return x - x.rename(a="b", b="a")

    x = np.arange(9.0).reshape(3, 3)
    np.testing.assert_allclose(transpose.run(n=1, x=x)["return"], x - x.T)


def test_a_chain_of_renamings():
    @tp.program
    def shifted(x: tp.Scalar["a", "b"], y: tp.Scalar["a"]):
        return tp.sum(x.rename(a="b", b="c") * y.rename(a="b"), over="b")

    x, y = np.arange(9.0).reshape(3, 3), np.array([1.0, 10.0, 100.0])
    np.testing.assert_allclose(shifted.run(n=1, x=x, y=y)["return"], y @ x)


def test_selecting():
    @tp.program
    def picked(x: tp.Vector["token", "head"], s: tp.Scalar["token"]):
        c = tp.constant([3.0, 5.0], axes="token")
        both = (tp.tanh(x) + s).sel(token=1, head=0)
        return both * c.sel(token=0) * c.sel(token=np.int64(1)), tp.sum(x, over="head").sel(token=0)

    x, s = np.random.default_rng(1).normal(size=(2, 3, 4)), np.array([0.5, 2.0])
    ran = picked.run(n=4, x=x, s=s)
    np.testing.assert_allclose(ran["return[0]"], (np.tanh(x[1, 0]) + 2) * 15)
    np.testing.assert_allclose(ran["return[1]"], x[0].sum(axis=0))


def test_minus_one_gives_zero_also_after_a_function_that_does_not_vanish_at_zero():
    table = np.array([[-1, 0, 1], [0, 1, -1]])

    @tp.program
    def padded(x: tp.Vector["pos"], W: tp.Matrix):
        patches = tp.exp(x).take(pos=table, axes=("tap", "pos2"))
        operand = W @ tp.exp(x).take(pos=table, axes=("tap", "pos2"))
        average = tp.avg(tp.cos(x).take(pos=np.array([-1, 1]), axes="one"))
        return patches, operand, average

    rng = np.random.default_rng(2)
    x, W = rng.normal(size=(2, 4)), rng.normal(size=(4, 4))
    ran = padded.run(n=4, x=x, W=W)
    gathered = np.where(table[..., None] >= 0, np.exp(x)[table], 0)
    np.testing.assert_allclose(ran["return[0]"], gathered)
    np.testing.assert_allclose(ran["return[1]"], gathered @ W.T, atol=1e-13)
    np.testing.assert_allclose(ran["return[2]"], [0, np.cos(x[1]).mean()])


def test_take_of_take_and_of_a_renamed_selection():
    first, second = np.array([1, -1, 0]), np.array([[0, 1], [2, -1]])

    @tp.program
    def nested(x: tp.Vector["pos", "head"], c: tp.Scalar["pos"]):
        y = (x.sel(head=1) + 1).rename(pos="p").take(p=first, axes=("q",)).take(q=second, axes=("u", "v"))
        z = x.rename(head="h").sel(h=0).take(pos=first, axes="q").take(q=second, axes=("u", "v"))
        return y + z, c.take(pos=first, axes="q").take(q=second, axes=("u", "v"))

    x, c = np.random.default_rng(3).normal(size=(2, 2, 3)), np.array([5.0, 7.0])

    def taken(a, table):
        shape = table.shape + (1,) * (a.ndim - 1)
        return np.where(table.reshape(shape) >= 0, a[table], 0)

    ran = nested.run(n=3, x=x, c=c)
    expected = taken(taken(x[:, 1] + 1, first), second) + taken(taken(x[:, 0], first), second)
    np.testing.assert_allclose(ran["return[0]"], expected)
    np.testing.assert_allclose(ran["return[1]"], taken(taken(c, first), second))


def test_take_replaces_an_axis_by_one_of_the_same_name():
    @tp.program
    def rolled(x: tp.Scalar["pos"]):
        return x - x.take(pos=np.array([2, 0, 1]), axes=("pos",))

    np.testing.assert_allclose(rolled.run(n=1, x=[1.0, 10.0, 100.0])["return"], [-99, 9, 90])


def test_take_at_a_named_neuron():
    @tp.program
    def indexed(x: tp.Vector["pos"]):
        β = tp.neuron("β")
        return tp.avg(x * tp.exp(x)[β].take(pos=np.array([1, -1]), axes=("q",)), over=β)

    x = np.random.default_rng(4).normal(size=(2, 3))
    picked = np.stack([np.exp(x[1]), np.zeros(3)])
    ran = indexed.run(n=3, x=x)["return"]
    np.testing.assert_allclose(ran, x[:, None, :] * picked.mean(axis=1)[None, :, None], atol=1e-13)


def test_a_finite_axis_named_like_a_greek_index_or_a_bound_one_is_no_clash():
    @tp.program
    def greek(x: tp.Vector["α", "β1"]):
        β = tp.neuron("β1")
        return tp.sum(tp.avg(x * tp.sum(x, over="β1")[β], over=β), over="α")

    x = np.random.default_rng(5).normal(size=(2, 3, 4))
    expected = (x * x.sum(axis=1).mean(axis=1)[:, None, None]).sum(axis=0)
    np.testing.assert_allclose(greek.run(n=4, x=x)["return"], expected, atol=1e-13)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda x: x.rename(token="head"), "`token` renamed onto the existing axis `head`; choose a name"),
        (lambda x: x.rename(tokn="a"), r"rename\(\) along `tokn` on a vector over `n` with axes \(token, head\)"),
        (lambda x: x.rename(token="a", head="a"), "two axes renamed to the same name"),
        (lambda x: x.rename(token="a b"), "the axis name 'a b'"),
        (lambda x: x.rename(token=3), "the axis name 3"),
        (lambda x: x.sel(tokn=0), r"sel\(\) along `tokn`"),
        (lambda x: x.sel(token=-1), "the indices of `token` start at 0"),
        (lambda x: (x + tp.constant([1, 2], axes="token")).sel(token=2), "the indices of `token` go from 0 to 1"),
        (lambda x: x.sel(token=1.0), "select by a whole number"),
        (lambda x: x.sel(token=True), "select by a whole number"),
        (lambda x: x.sel(token=0).sel(token=0), r"sel\(\) along `token` .*; its axes are \(head\)"),
        (lambda x: tp.sum(x, over="key"), r"tp\.sum\(\) along `key` .*; its axes are \(token, head\)"),
        (lambda x: tp.mean(x, over="key"), r"tp\.mean\(\) along `key`"),
        (lambda x: tp.softmax(x, over="key"), r"tp\.softmax\(\) along `key`"),
        (lambda x: tp.sum(tp.sum(x, over="token"), over="token"), r"along `token` .*; its axes are \(head\)"),
        (lambda x: tp.sum(x, over=tp.neuron("β")), "tp.sum over the neuron β; neurons are averaged by tp.avg"),
        (lambda x: tp.sum([x, x], over="token"), "tp.sum of a value of type list"),
        (lambda x: x.take(pos=np.array([0]), axes="p"), r"take\(\) along `pos`"),
        (lambda x: x.take(token=np.array([0]), axes="head"), r"take\(\) onto the existing axis `head`"),
        (lambda x: x.take(token=np.array([0.5]), axes="p"), "take\\(\\) with an array of 1 dimensions of float64"),
        (lambda x: x.take(token=np.array([0]), axes=("p", "q")), "one name for each of its dimensions"),
        (lambda x: x.take(token=np.array([-2]), axes="p"), "take\\(\\) with the index -2 on `token`; .* -1 gives 0"),
        (lambda x: x.take(token=np.zeros(0, int), axes="p"), "the axis `p` of size 0; an axis needs at least one"),
        (lambda x: x.take(axes="p"), r"take\(\) along 0 axes"),
        (
            lambda x: (x + tp.constant([1, 2], axes="token")).take(token=np.array([2]), axes="p"),
            "with the index 2 on `token`; indices go from 0 to 1",
        ),
        (
            lambda x: tp.avg((x[tp.neuron("β")] + 1).take(token=np.array([-1]), axes="p"), over=tp.neuron("β")),
            "take along the finite axis first, then index by the neuron",
        ),
        (lambda x: x * tp.constant([1, 2], axes="token") * tp.constant([1, 2, 3], axes="token"), "it has 2 elsewhere"),
        (
            lambda x: x.rename(token="key") * tp.constant([1], axes="key") * tp.constant([1, 2], axes="token"),
            "the axis `token` with 2 entries, but it has 1 elsewhere",
        ),
        (lambda x: tp.constant([1, 2], axes="a").rename(a="b") * tp.constant([1], axes="b"), "it has 2 elsewhere"),
        (
            lambda x: tp.constant([1], axes="b") * tp.constant([1, 2], axes="a").rename(a="b"),
            "the axis `a` of size 2 renamed to `b`, which has size 1",
        ),
    ],
)
def test_ill_formed_axes(use, words):
    with pytest.raises(ProgramError, match=words):

        @tp.program
        def ill(x: tp.Vector["token", "head"]):
            return use(x)
