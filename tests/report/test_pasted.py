"""Formulas as a theorist pastes them: names, numbers, functions, sums factored, every sign defined."""

from __future__ import annotations

import re

import bent
import pytest
import shaped
import sympy

import tplimits as tp
from tests.report.test_deep import averaged, normalized, random
from tplimits import zoo
from tplimits.program.nodes.program import Program
from tplimits.regimes.depth.algebra.forms import Form, collected
from tplimits.regimes.depth.factoring import Sums
from tplimits.report.latex_names import label

snake = tp.elementwise(lambda z: z + tp.sin(z) ** 2)


@tp.elementwise
def gate(z):
    return z / (1 + z**2)


@tp.network
def own(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, b: tp.Vector, c: tp.Scalar):
    return tp.readout(v * snake(W @ gate(tp.sum(U * ξ, over="d") + 0.1 * b))) + 0.1 * c


@tp.network
def product(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    h = tp.sum(U * ξ, over="d")
    return v * tp.tanh(W @ (h * gate(h)))


REGIMES = (tp.Kernels(), tp.MaximalUpdate(tp.SGD()), tp.NeuralTangent(tp.Adam(eps=1e-4)))
BLOCKS = [p for m in (shaped, bent) for p in vars(m).values() if isinstance(p, Program) and p.state is not None]


def test_a_function_of_a_sum_stays_one_function():
    limit = tp.derive(product, tp.Kernels())
    assert set(re.findall(r"^ +(\w+′?)\(c11, c12, c22\) = E", str(limit), re.MULTILINE)) == {
        *("φ1", "φ2", "κ_tanh", "κ_tanh′"),
    }


GATED = {
    "z/(1 + z²)": gate,
    "z g(z)": lambda z: z * gate(z),
    "z exp(−z²/2)": tp.elementwise(lambda z: z * tp.exp(-(z**2) / 2)),
    "z σ(1.7 z)": lambda z: z * tp.sigmoid(1.7 * z),
    "z/√(1 + z²)": tp.elementwise(lambda z: z / tp.sqrt(1 + z**2)),
    "z tanh(log(1 + exp z))": lambda z: z * tp.tanh(tp.softplus(z)),
    "log(1 + z²)": lambda z: tp.log(1 + z**2),
}


@pytest.mark.parametrize("name", GATED)
def test_a_function_of_a_sum_without_a_name_has_the_means_of_one_with_a_name(name):
    def network(named):
        @tp.network
        def net(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector, b: tp.Vector):
            h = (tp.sum(U * ξ, over="d") + 0.1 * b).named("h") if named else tp.sum(U * ξ, over="d") + 0.1 * b
            return v * tp.tanh(W @ GATED[name](h))

        return tp.derive(net, tp.Kernels())

    X = [[1.0, 0.5], [0.2, -1.0]]
    bare, named = network(False), network(True)
    assert len(bare.outline.named_means) == len(named.outline.named_means) == 4
    assert bare.evaluate(X).ntk == pytest.approx(named.evaluate(X).ntk, rel=1e-9)


def test_functions_of_users_keep_their_names_and_are_defined_once():
    limit = tp.derive(own, tp.Kernels())
    shown, latex = str(limit), limit.latex()
    assert "κ_snake(c11, c12, c22) = E[snake(z1)*snake(z2)]" in shown and "κ_gate′" in shown
    assert shown.count("snake(x) =") == shown.count("gate(x) =") == 1
    assert latex.count(r"\operatorname{snake}\left(x\right) &=") == 1
    assert r"\operatorname{E}\bigl[\operatorname{gate}'\left(z_{1}\right)" in latex
    assert limit.closed_form("κ_snake") is not None


def test_softmax_of_random_logits_is_named_and_defined():
    limit = tp.derive(random(1), tp.Kernels(infinite=("head",)))
    latex = limit.latex()
    assert r"\operatorname{softmax}_{b \in \mathrm{key}}\left(L_{b}\right) &= \frac{e^{L_{b}}}" in latex
    assert latex.count("e^{") == 2 and "exp(" not in str(limit).partition("softmax_{b∈key}(L[b]) =")[0]


@pytest.mark.parametrize("regime", REGIMES, ids=lambda r: r.word)
def test_numbers_are_those_that_were_written(regime):
    latex = tp.derive(own, regime).latex()
    assert "0.1" in latex and not re.search(r"\d{9}", latex)
    assert not re.search(r"\d{9}", str(tp.derive(own, regime)))


@pytest.mark.parametrize("name", ["h**2/(1 + 0.1*h**2)", "0.1*b + Σ_d(ξ*U)", "relu(x_1)**(1/2)"])
def test_names_that_are_expressions_are_set_as_such(name):
    assert "**" not in (shown := label(name)) and r"\_" not in shown
    assert {
        "h**2/(1 + 0.1*h**2)": r"h^{2}/(1+0.1\,h^{2})",
        "0.1*b + Σ_d(ξ*U)": r"0.1\,b+\sum_{d}(\xi\,U)",
        "relu(x_1)**(1/2)": r"\mathrm{relu}(x_{1})^{1/2}",
    }[name] == shown


@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_every_unnamed_value_is_defined(name):
    for regime in REGIMES:
        try:
            latex = tp.derive(zoo.get(name).program, regime).latex()
        except (tp.NoLimitError, tp.ProgramError):
            continue
        rows = re.sub(r" \\\\\n  &\\qquad ", " ", latex).split("\\\\\n")
        defined = {m for row in rows for m in re.findall(r"x_\{\(\d+\)", row.partition("=")[0])}
        assert set(re.findall(r"x_\{\(\d+\)", latex)) <= defined
        for head in ("relu", "step", "sigmoid", "where", "gelu", "softplus"):
            used = re.search(rf"\\operatorname\{{{head}\}}(?!\()", latex) is not None
            assert latex.count(rf"\operatorname{{{head}}}(") == used


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.name)
def test_factored_sums_multiply_out_to_the_drift_and_the_diffusion(block):
    try:
        limit = tp.derive(block, tp.Proportional()).limit
    except tp.NoLimitError:
        return
    sums = Sums()
    for form in (limit.drift, limit.diffusion):
        terms = [
            (piece.front + factors, number * c)
            for number, pieces in sums.factored(form).groups
            for piece in pieces
            for factors, c in piece.inner.terms.items()
        ]
        difference = collected([*terms, *((f, -c) for f, c in form.terms.items())])
        assert all(sympy.simplify(c) == 0 for c in difference.terms.values()), difference
    for number, (rank, form) in sums.definitions.items():
        assert number > 0 and rank <= 4 and len(form.terms) > 1 and isinstance(form, Form)


def test_the_shaped_transformer_is_factored_as_in_the_literature():
    latex = tp.derive(shaped.shaped_attention, tp.Proportional()).latex()
    assert r"\frac{\gamma^{4}}{\tau_{0}^{2}} \mathcal{A}^{\alpha\beta,\delta\omega}" in latex
    assert latex.count("S_{1}^") == 3 and latex.count("S_{2} &=") == 1 and len(latex.splitlines()) < 16
    assert r"V^{\alpha\bar{x}} &=" in latex and r"m &= \text{the number of tokens}" in latex
    relu = tp.derive(shaped.relu_resnet, tp.Proportional()).latex()
    assert r"\frac{\gamma^{2} \left(c_{-} - c_{+}\right)^{2}}{2 \pi} N" in relu


@pytest.mark.long
@pytest.mark.parametrize("make", [averaged, random, normalized])
def test_layers_that_repeat_are_set_once(make):
    infinite = ("head",) if make is random else ()
    few, many = (tp.derive(make(layers), tp.Kernels(infinite=infinite)).latex() for layers in (3, 12))
    assert r"\ell &= " in few and r"\ell &= " in many
    assert many.count("\n") <= few.count("\n") + 10 < 140


def test_layers_in_training_are_set_once():
    for regime in (tp.MaximalUpdate(tp.SGD()), tp.NeuralTangent(tp.SGD())):
        latex = tp.derive(averaged(6), regime).latex()
        assert r"\ell &= 0, \ldots" in latex and latex.count("\n") < 260
