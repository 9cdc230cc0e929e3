"""Kernel limits in print: the formulas shown give the numbers, layers stand once, LaTeX closes what it opens."""

from __future__ import annotations

import functools
import re

import kernel_networks
import numpy
import pytest
import sympy
from matplotlib import mathtext

import tplimits as tp
from tplimits.program.nodes.entries import AxisSum
from tplimits.regimes.kernels.derivation.leaves import Data, TableEntry
from tplimits.regimes.kernels.report import latex
from tplimits.regimes.kernels.report.labels import Title
from tplimits.regimes.kernels.report.outline import Layers
from tplimits.zoo.networks.perceptrons import gated_mlp, mlp
from tplimits.zoo.networks.shared_weights import conv2d_flatten

NAMES = ("mlp", "tied", "attention", "transformer", "chain")


class Reader:
    """Takes the equations of an outline at their word, entry by entry, for one pair of inputs."""

    def __init__(self, limit, one, two):
        self.outline, self.data = limit.outline, {1: one, 2: two}
        self.lines, self.same = {}, {}
        for item in self.outline.items:
            if not isinstance(item, Layers):
                assert item.title not in self.lines
                self.lines[item.title] = (item, None)
                continue
            self.same |= dict(item.before)
            for layer in range(item.first, item.last + 1):
                found = {at(e.title, layer): (e, layer) for e in item.equations}
                assert len(found) == len(item.equations) and found.keys().isdisjoint(self.lines)  # names are unique
                self.lines |= found
        self.means = {m.name: mean(m) for m in self.outline.named_means}
        self.entry = functools.cache(self._entry)

    def _entry(self, title, sides, indices):
        title = self.same.get(title, title)
        equation, layer = self.lines[title]
        return self.value(equation.right, layer, sides, dict(zip(equation.indices, indices, strict=True)))

    def value(self, expr, layer, sides, where):
        def inner(e):
            return self.value(e, layer, sides, where)

        if isinstance(expr, TableEntry):
            title = at(self.outline.titles[expr.table], layer)
            return self.entry(title, tuple(sides[s - 1] for s in expr.sides), tuple(where[i] for i in expr.indices))
        if isinstance(expr, Data):
            return self.data[sides[expr.side - 1]][tuple(where[i] for i in expr.indices)]
        if isinstance(expr, AxisSum):
            length = self.data[1].shape[-1] if expr.axis == "d" else self.data[1].shape[0]
            return sum(self.value(expr.summand, layer, sides, where | {expr.bound: i}) for i in range(length))
        if isinstance(expr, sympy.Symbol):
            return self.data[1].shape[0]  # |token|
        if type(expr).__name__ in self.means:
            a, b, c = map(inner, expr.args)
            limit = (a * c) ** 0.5 * (1 - 1e-15)
            return self.means[type(expr).__name__](a, min(max(b, -limit), limit), c)
        if not expr.args:
            return float(expr)
        if isinstance(expr, sympy.Add):
            return sum(map(inner, expr.args))
        if isinstance(expr, sympy.Mul):
            return float(numpy.prod([inner(a) for a in expr.args]))
        if isinstance(expr, sympy.Pow):
            return inner(expr.base) ** inner(expr.exp)
        return float(expr.func(*(sympy.Float(inner(a)) for a in expr.args)))


def mean(named):
    """A mean of two variables as a function of its covariances, integrated where no closed form is shown."""
    function = named.function
    if named.closed is not None:
        return sympy.lambdify(function.arguments, named.closed, "math")
    x, w = numpy.polynomial.hermite_e.hermegauss(120)
    w = numpy.outer(w, w) / w.sum() ** 2
    integrand = sympy.lambdify(function.variables, function.integrand, "numpy")

    def integrated(a, b, c):
        one = a**0.5 * x[:, None]
        two = b / a**0.5 * x[:, None] + (c - b * b / a) ** 0.5 * x[None, :]
        return float((w * integrand(one, two)).sum())

    return integrated


def at(title, layer):
    """A title that counts from ℓ, in one layer."""
    shift = re.fullmatch(r"ℓ(?:-(\d+))?", title.layer)
    return Title(title.kind, title.vectors, str(layer - int(shift[1] or 0))) if shift else title


@pytest.mark.parametrize(
    "limit, shape",
    [
        (kernel_networks.limit("mlp"), (2, 5)),
        (kernel_networks.limit("chain"), (2, 5)),
        (tp.derive(kernel_networks.transformer(3), tp.Kernels()), (2, 3, 4)),
    ],
    ids=["mlp", "chain", "transformer"],
)
def test_the_equations_as_printed_give_the_kernels(limit, shape):
    X = numpy.random.default_rng(7).standard_normal(shape)
    nngp, ntk = limit.evaluate(X)
    reader = Reader(limit, *X)
    assert reader.entry(Title("K", ""), (1, 2), ()) == pytest.approx(nngp[0, 1], rel=1e-9)
    assert reader.entry(Title("Θ", ""), (1, 2), ()) == pytest.approx(ntk[0, 1], rel=1e-9)


@pytest.mark.long
def test_layers_are_found_whole_from_the_first_to_the_last():
    runs = [i for i in kernel_networks.limit("transformer").outline.items if isinstance(i, Layers)]
    assert [(r.first, r.last, len(r.equations)) for r in runs] == [(1, 24, 6), (1, 24, 10)]
    assert [(str(a.layer), a.kind, b.kind) for r in runs for a, b in r.before] == [("0", "Θ", "K")]


def test_a_layer_that_is_different_ends_the_repetition():
    @tp.network
    def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "layer"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        for layer in range(12):
            f = tp.erf if layer == 6 else tp.relu
            x = f(W.sel(layer=layer) @ x)
        return v * x

    limit = tp.derive(net.bind(layer=12), tp.Kernels())
    forward = [i for i in limit.outline.items if isinstance(i, Layers) and i.equations[0].title.kind == "K"]
    assert [(i.first, i.last) for i in forward] == [(1, 6), (8, 12)]
    X = numpy.random.default_rng(3).standard_normal((2, 5))
    reader = Reader(limit, *X)
    nngp, ntk = limit.evaluate(X)
    assert reader.entry(Title("K", ""), (1, 2), ()) == pytest.approx(nngp[0, 1], rel=1e-9)
    assert reader.entry(Title("Θ", ""), (1, 2), ()) == pytest.approx(ntk[0, 1], rel=1e-9)


def balanced(text):
    """Braces, \\left and \\right, \\begin and \\end all close."""
    opened = []
    for mark in re.findall(r"\\(?:left|right)\b|(?<!\\)[{}]", text):
        if mark in ("{", r"\left"):
            opened.append(mark)
        elif not opened or opened.pop() != {"}": "{", r"\right": r"\left"}[mark]:
            return False
    return not opened and text.count(r"\begin") == text.count(r"\end")


@pytest.mark.parametrize("name", NAMES)
def test_latex_closes_what_it_opens_and_needs_amsmath_alone(name):
    limit = kernel_networks.limit(name)
    text = limit.latex()
    shown = text.removeprefix("{\\allowdisplaybreaks\n").removesuffix("\n}")
    assert shown.startswith("\\begin{align*}\n") and shown.endswith("\n\\end{align*}")
    assert balanced(text) and text.isascii()
    assert limit._repr_latex_().startswith("$$\n\\begin{aligned}")


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_every_formula_is_set_by_another_reader_of_latex(name):
    parser = mathtext.MathTextParser("path")
    for row in latex.formulas(kernel_networks.limit(name).outline):
        whole = re.sub(r"\\begin\{pmatrix\}.*?\\end\{pmatrix\}", "C", str(row))
        parser.parse(f"${whole}$")  # raises for a double superscript, an unknown command, a brace too many


@tp.network
def twice_linear(ξ: tp.Input["d"], U: tp.Vector["d"], A: tp.Matrix, v: tp.Vector):
    return v * (A @ tp.sum(U * ξ, over="d"))


@pytest.mark.parametrize("net", [twice_linear, mlp, conv2d_flatten, gated_mlp], ids=lambda net: net.name)
def test_every_table_that_a_formula_names_is_defined(net):
    """The NNGP may be a table itself, which Θ reads too."""
    text = repr(tp.derive(net, tp.Kernels()))
    named = set(re.findall(r"K_(?:\{[^}]*\}|[\w′]+)", text))
    defined = set(re.findall(r"^ *(K_(?:\{[^}]*\}|[\w′]+))[(\[][^=\n]*= ", text, re.MULTILINE))
    assert named - defined == set()


def test_letters_of_indices():
    """Free ones from a, summed ones from i, inside of a sum the next; those of the second input with a prime."""

    @tp.network
    def pooled(ξ: tp.Input["token", "d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
        x = tp.mean(tp.relu(tp.sum(U * ξ, over="d")), over="token")
        return v * tp.relu(W @ x)

    K = "(K_{ξ·U}(ξ,ξ)[i,i], K_{ξ·U}(ξ,ξ′)[i,i′], K_{ξ·U}(ξ′,ξ′)[i′,i′])"
    lines = repr(tp.derive(pooled, tp.Kernels())).splitlines()
    assert "  K_{ξ·U}(ξ,ξ′)[a,a′] = Σ_{i∈d}(ξ[a,i]*ξ′[a′,i])" in lines
    assert f"  K_x(ξ,ξ′) = Σ_{{i∈token}}(Σ_{{i′∈token′}}(κ_relu{K}))/(|token|*|token′|)" in lines
    sums = f"Σ_{{i∈token}}(Σ_{{j∈d}}(Σ_{{i′∈token′}}(κ_relu′{K}*ξ′[i′,j])*ξ[i,j]))"
    assert f"  Θ_x(ξ,ξ′) = {sums}/(|token|*|token′|)" in lines
    assert lines[-1] == "  indices: a over token"
