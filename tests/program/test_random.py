"""Random small programs: run agrees with plain NumPy, and files give back the same program."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

import tplimits as tp

N, K, SIZE = 5, 10, 2
AXES = ("a", "b", "c")
WIDTHS = {"n": N, "k": K}

UNARY = {
    "tanh": (tp.tanh, np.tanh),
    "relu": (tp.relu, lambda x: np.maximum(x, 0)),
    "sin": (tp.sin, np.sin),
    "cos": (tp.cos, np.cos),
    "step": (tp.step, lambda x: (x > 0) * 1.0),
    "sigmoid": (tp.sigmoid, scipy.special.expit),
    "abs": (abs, np.abs),
    "clip": (lambda x: tp.clip(x, -1, 0.5), lambda x: np.clip(x, -1, 0.5)),
    "affine": (lambda x: 0.5 * x - 3, lambda x: 0.5 * x - 3),
    "elementwise": (tp.elementwise(lambda u: u / (1 + u**2)), lambda x: x / (1 + x**2)),
}
BINARY = {
    "+": (lambda x, y: x + y, lambda x, y: x + y),
    "-": (lambda x, y: x - y, lambda x, y: x - y),
    "*": (lambda x, y: x * y, lambda x, y: x * y),
    "maximum": (tp.maximum, np.maximum),
    "where": (lambda x, y: tp.where(x, y, 1), lambda x, y: np.where(x > 0, y, 1)),
    "/": (lambda x, y: x / (1 + y**2), lambda x, y: x / (1 + y**2)),
}


@dataclass(frozen=True)
class Twin:
    """A traced value and what NumPy makes of it: dimensions (a, b, c, neuron), 1 where there is no axis."""

    value: object
    array: np.ndarray
    axes: frozenset
    width: str | None

    def map(self, head):
        traced, numeric = UNARY[head]
        return Twin(traced(self.value), numeric(self.array), self.axes, self.width)

    def combine(self, other, head):
        if self.width and other.width and self.width != other.width:
            return self
        traced, numeric = BINARY[head]
        width = self.width or other.width
        return Twin(traced(self.value, other.value), numeric(self.array, other.array), self.axes | other.axes, width)

    def multiply(self, matrices, transposed):
        if self.width is None:
            return self
        names = [m for m, (rows, columns, _, _) in SHAPES.items() if (rows if transposed else columns) == self.width]
        W, array = matrices[names[0]]
        rows, columns, axis, _ = SHAPES[names[0]]
        W, array = (W.T, np.swapaxes(array, -1, -2)) if transposed else (W, array)
        product = (array @ self.array[..., None])[..., 0]
        return Twin(W @ self.value, product, self.axes | axis, columns if transposed else rows)

    def average(self):
        if self.width is None:
            return self
        return Twin(tp.avg(self.value), self.array.mean(axis=-1, keepdims=True), self.axes, None)

    def outer(self, other, scale):
        """avg over β of tanh(scale · self · other[β]) other[β]."""
        if self.width is None or other.width is None:
            return self
        β = tp.neuron(f"β{other.width}")
        y = other.value[β]
        value = tp.avg(tp.tanh(scale * self.value * y) * y, over=β)
        x, y = self.array[..., :, None], other.array[..., None, :]
        array = (np.tanh(scale * x * y) * y).mean(axis=-1)
        return Twin(value, array, self.axes | other.axes, self.width)

    def reduce(self, kind, axis):
        if axis not in self.axes:
            return self
        place, rest = AXES.index(axis), self.axes - {axis}
        if kind == "sum":
            return Twin(tp.sum(self.value, over=axis), self.array.sum(axis=place, keepdims=True), rest, self.width)
        if kind == "mean":
            return Twin(tp.mean(self.value, over=axis), self.array.mean(axis=place, keepdims=True), rest, self.width)
        if kind == "softmax":
            array = scipy.special.softmax(self.array, axis=place)
            return Twin(tp.softmax(self.value, over=axis), array, self.axes, self.width)
        if kind == "take":
            value = self.value.take(**{axis: np.array([-1, 0])}, axes=(axis,))
            array = np.take(self.array, [1, 0], axis=place) * np.array([0, 1]).reshape([-1] + [1] * (3 - place))
            return Twin(value, array, self.axes, self.width)
        return Twin(self.value.sel(**{axis: 1}), np.take(self.array, [1], axis=place), rest, self.width)

    def rename(self, old, new):
        if old not in self.axes or (new in self.axes and old != new):
            return self
        array = np.swapaxes(self.array, AXES.index(old), AXES.index(new))
        return Twin(self.value.rename(**{old: new}), array, self.axes - {old} | {new}, self.width)


#: rows, columns, axis, dimensions of the axes of each matrix
SHAPES = {
    "W": ("n", "n", frozenset(), (1, 1, 1)),
    "F": ("k", "k", frozenset("b"), (1, SIZE, 1)),
}
REDUCTIONS = ["sum", "mean", "softmax", "take", "sel"]
STEPS = st.one_of(
    st.tuples(st.just("map"), st.integers(0, 9), st.sampled_from(sorted(UNARY))),
    st.tuples(st.just("combine"), st.integers(0, 9), st.integers(0, 9), st.sampled_from(sorted(BINARY))),
    st.tuples(st.just("multiply"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("average"), st.integers(0, 9)),
    st.tuples(st.just("outer"), st.integers(0, 9), st.integers(0, 9), st.sampled_from([1, 0.5])),
    st.tuples(st.just("reduce"), st.integers(0, 9), st.sampled_from(REDUCTIONS), st.sampled_from(AXES)),
    st.tuples(st.just("rename"), st.integers(0, 9), st.sampled_from(AXES), st.sampled_from(AXES)),
)


def build(steps, named):
    """A traced program and the arrays that NumPy computes for all its values."""
    rng = np.random.default_rng(len(steps))
    data = {
        "W": rng.normal(size=(N, N)) / np.sqrt(N),
        "F": rng.normal(size=(SIZE, K, K)) / np.sqrt(K),
        "x": rng.normal(size=(SIZE, N)),
        "y": rng.normal(size=(SIZE, SIZE, K)),
        "s": rng.normal(size=SIZE),
    }
    twins = []

    def program(
        W: tp.Matrix, F: tp.Matrix["k", "k", "b"], x: tp.Vector["a"], y: tp.Vector["k", "a", "b"], s: tp.Scalar["c"]
    ):
        matrices = {"W": (W, data["W"]), "F": (F, data["F"][None, :, None])}
        twins.extend(
            (
                Twin(x, data["x"].reshape(SIZE, 1, 1, N), frozenset("a"), "n"),
                Twin(y, data["y"].reshape(SIZE, SIZE, 1, K), frozenset("ab"), "k"),
                Twin(s, data["s"].reshape(1, 1, SIZE, 1), frozenset("c"), None),
            )
        )
        for number, (action, *rest) in enumerate(steps):
            twin = twins[-1 - rest[0] % len(twins)]
            if action in ("combine", "outer"):
                rest[1] = twins[-1 - rest[1] % len(twins)]
            if action == "multiply":
                rest = [rest[0], matrices, rest[1]]
            made = getattr(twin, action)(*rest[1:])
            if made is not twin:
                twins.append(made)
                if number in named:
                    made.value.named(f"v{number}")
        return tuple(t.value for t in twins[-3:])

    return tp.program(program), data, twins[-3:]


@pytest.mark.long
@settings(max_examples=150, deadline=None, derandomize=True)
@given(steps=st.lists(STEPS, min_size=1, max_size=9), named=st.sets(st.integers(0, 8)))
def test_random_programs(steps, named):
    program, data, twins = build(steps, named)
    program = program.bind(a=SIZE, b=SIZE, c=SIZE)
    ran = program.run(n=N, ratios={"k": K / N}, **data)
    for number, (position, twin) in enumerate(zip(program.returns, twins, strict=True)):
        instruction = program[position]
        assert set(instruction.axes) == twin.axes and instruction.width == twin.width
        order = [AXES.index(a) for a in instruction.axes] + [i for i, a in enumerate(AXES) if a not in twin.axes] + [3]
        shape = (*(SIZE for _ in twin.axes), *([WIDTHS[twin.width]] if twin.width else []))
        full = np.broadcast_to(twin.array, [SIZE if a in twin.axes else 1 for a in AXES] + [twin.array.shape[-1]])
        expected = full.transpose(order).reshape(shape)
        np.testing.assert_allclose(ran[f"return[{number}]"], expected, rtol=1e-9, atol=1e-9)
    assert tp.from_json(tp.to_json(program)) == program


@settings(max_examples=60, deadline=None, derandomize=True)
@given(steps=st.lists(STEPS, min_size=1, max_size=7), named=st.sets(st.integers(0, 6)))
def test_a_random_program_inside_another_one(steps, named):
    """Inlined twice, with an axis brought from outside, it computes what it computes alone."""
    inner, data, _ = build(steps, named)

    @tp.program
    def outer(
        W: tp.Matrix,
        F: tp.Matrix["k", "k", "b"],
        x: tp.Vector["a"],
        y: tp.Vector["k", "a", "b"],
        s: tp.Scalar["c"],
        u: tp.Scalar["batch"],
    ):
        first = inner(W, F, x, y, s)
        second = inner(W.T.T, F, u * x, y, s=s)
        return (*first, *second)

    alone = inner.run(n=N, ratios={"k": K / N}, **data)
    ran = outer.run(n=N, ratios={"k": K / N}, u=[1.0, 1.0, 1.0], **data)
    count = len(inner.returns)
    for number, position in enumerate(inner.returns):
        value = alone[f"return[{number}]"]
        np.testing.assert_allclose(ran[f"return[{number}]"], value, rtol=1e-9, atol=1e-9)
        axes = outer[outer.returns[count + number]].axes
        again = ran[f"return[{count + number}]"]
        if "batch" in axes:
            place = axes.index("batch")
            assert again.shape[place] == 3
            again = np.take(again, 1, axis=place)
        order = [a for a in axes if a != "batch"]
        assert set(order) == set(inner[position].axes)
        np.testing.assert_allclose(again, value, rtol=1e-9, atol=1e-9)
    assert tp.from_json(tp.to_json(outer)) == outer
