"""tp.classify: what it says, symbolic exponents, what it proposes, and what it refuses."""

import linecache
import random
from fractions import Fraction
from typing import Any

import pytest
import sympy

import tplimits as tp

c, s = sympy.symbols("c s")


def global_rate(power):
    """SP with the learning rate n^(−power) for all layers."""
    return tp.ABCD({"input": (0, 0, power, 0), "hidden": (0, "1/2", power, 0), "output": (0, "1/2", power, 0)})


@pytest.mark.parametrize(
    "layers, optimizer, edge",
    [(1, tp.SGD(), 1), (2, tp.SGD(), 1), (1, tp.SignSGD(), 1), (2, tp.SignSGD(), "3/2"), (3, tp.SignSGD(), "3/2")],
)
def test_the_largest_stable_rate_of_standard_networks(layers, optimizer, edge):
    """c is a symbol; the answers are those of the same exponents as numbers on both sides of the edge."""
    edge = sympy.Rational(edge)
    found = tp.classify(layers, global_rate(c), optimizer)
    real = sympy.Symbol("c", real=True)
    assert found.regime is None
    assert found.stable.as_set() == sympy.Interval(edge, sympy.oo)
    assert found.conditions["operator"] == sympy.Eq(real, edge)
    assert found.conditions["feature"] == sympy.false
    for power in (edge - sympy.Rational(1, 4), edge, edge + sympy.Rational(1, 4)):
        condition = {name: x.subs(real, power) for name, x in found.conditions.items()}
        assert condition[tp.classify(layers, global_rate(power), optimizer).regime] == sympy.true


def test_the_family_of_stable_parametrizations():
    found = tp.classify(2, tp.UP(s), tp.Adam())
    real = sympy.Symbol("s", real=True)
    assert found.stable.as_set() == sympy.Interval(0, sympy.S.Half)
    assert found.faithful.as_set() == sympy.Interval(0, sympy.oo)  # b ≤ c of the readout
    assert found.conditions["feature"] == sympy.Eq(real, 0)
    assert found.conditions["operator"].as_set() == sympy.Interval.Lopen(0, sympy.S.Half)


def test_two_symbols_give_conditions_that_numbers_decide():
    a, b = sympy.symbols("a b")
    found = tp.classify(
        2, tp.ABCD({"hidden": (0, "1/2", a, 1), "input": (0, 0, b, 1), "output": (1, 0, 0, 1)}), tp.SignSGD()
    )
    for x, y in [(1, 0), (1, 1), (2, 0), (2, 3), ("1/2", 0), (1, "-1/4")]:
        values = {sympy.Symbol("a", real=True): sympy.Rational(x), sympy.Symbol("b", real=True): sympy.Rational(y)}
        chosen = [name for name, condition in found.conditions.items() if condition.subs(values) == sympy.true]
        numbers = tp.ABCD({"hidden": (0, "1/2", x, 1), "input": (0, 0, y, 1), "output": (1, 0, 0, 1)})
        assert chosen == [tp.classify(2, numbers, tp.SignSGD()).regime]


def test_what_breaks_is_said_with_its_power():
    found = tp.classify(2, global_rate(1), tp.SignSGD())
    assert found.stable is False
    assert found.breaks == ("f moves like n^(1/2) in step 1",)
    failed = [i for i in found.inequalities if i.group == "training" and not i.holds]
    assert [(i.about, i.text, i.left, i.right) for i in failed] == [("W2", "A + r", sympy.S.Half, 1)]
    assert failed[0].margin == -sympy.S.Half
    assert "✗ W2: A + r = 1/2 ≥ 1" in repr(found)
    assert "unstable" in repr(found).splitlines()[0]
    start = tp.classify(2, tp.ABCD({"hidden": (0, 0, 1, 0)}), tp.SignSGD())
    assert "h2 starts like n^(1/2) instead of n^(0)" in start.breaks


def test_scaled_gradients_matter_to_optimizers_that_see_them():
    off = tp.ABCD({"matrix": (0, "1/2", 1, "3/4")}, base=tp.MUP)
    assert tp.classify(2, off, tp.Adam()).regime == "unfaithful"
    assert "W2 has scaled gradients n^d g of size n^(-1/4) in step 0" in tp.classify(2, off, tp.Adam()).breaks
    assert tp.classify(2, off, tp.SignSGD()).regime == "feature"
    assert tp.classify(2, off, tp.SGD()).regime == "operator" or tp.classify(2, off, tp.SGD()).regime == "feature"


@pytest.mark.parametrize("optimizer", [tp.SGD(), tp.SignSGD(), tp.Adam(), tp.SGD(momentum=0.5)], ids=str)
def test_the_nearest_maximal_update_learns_features_and_keeps_what_it_can(optimizer):
    rng = random.Random(9)
    for _ in range(5):
        e = [tuple(Fraction(rng.randint(-4, 4), 4) for _ in range(4)) for _ in range(3)]
        given = tp.ABCD(dict(zip(("input", "hidden", "output"), e, strict=True)))
        near = tp.classify(2, given, optimizer).nearest
        network = tp.classify(2, given, optimizer).program
        assert tp.classify(network, near, optimizer).regime == "feature"
        old, new = given.of(network), near.of(network)
        assert all(old[k].a == new[k].a for k in old)
        if optimizer.degree is not None:
            assert all(old[k].d == new[k].d for k in old)
    assert tp.classify(2, tp.MUP, optimizer).nearest.of(network) == tp.MUP.of(network)


def test_multipliers_are_those_of_the_literature():
    """Adam in μP: input 1, hidden 1/n, output 1/n, with std 1, n^(−½), 1/n; SGD: n, 1, 1/n."""
    network = tp.classify(2, tp.MUP, tp.SignSGD()).program
    adam = tp.classify(network, tp.MUP, tp.SignSGD()).multipliers.at(1024, base=128)
    assert {k: v["lr"] for k, v in adam.items()} == pytest.approx({"W1": 1, "W2": 1 / 8, "W3": 1 / 8})
    assert {k: v["std"] for k, v in adam.items()} == pytest.approx({"W1": 1, "W2": 1 / 32, "W3": 1 / 1024})
    sgd = tp.classify(network, tp.MUP, tp.SGD()).multipliers
    assert [row.lr for row in sgd] == [1, 0, -1]
    assert "lr" in repr(sgd)
    with pytest.raises(tp.ProgramError, match="no parameter"):
        sgd["w"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0, tp.SP, tp.SGD()), "number of hidden layers"),
        (("mlp", tp.SP, tp.SGD()), "give a network"),
        ((2, "SP", tp.SGD()), "such as tp.MUP"),
        ((2, tp.SP, "adam"), "such as tp.Adam"),
        ((2, tp.ABCD({"4": (0, 0, 0, 0)}), tp.SGD()), "no layer"),
    ],
)
def test_what_cannot_be_classified_is_refused(arguments, message):
    with pytest.raises(tp.ProgramError, match=message):
        tp.classify(*arguments)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: tp.UP(1), "between 0"),
        (lambda: tp.UP(0.1), "exact rational"),
        (lambda: tp.ABCD({"hidden": (0, 0, 0)}), "four exponents"),
        (lambda: tp.ABCD({"hidden": (0, 0, 0, 0), "matrix": (0, 0, 0, 0)}), "given twice"),
        (lambda: tp.ABCD({"output": (0, 0, 0, 0), "out": 1}), "a_out = 0"),
        (lambda: tp.ABCD([1, 2]), "by name"),
        (lambda: tp.ABCD({"hidden": ("x", 0, 0, 0)}), "exact rational"),
    ],
)
def test_what_is_no_parametrization_is_refused(make, message):
    with pytest.raises(tp.ProgramError, match=message):
        make()


def test_symbols_have_no_powers_and_no_coordinate_check():
    found = tp.classify(2, tp.UP(s), tp.SGD())
    with pytest.raises(tp.CheckError, match="symbols"):
        found.powers(1)
    with pytest.raises(tp.CheckError, match="symbols"):
        found.check()
    assert found.parametrization.substituted({s: "1/4"}).of(found.program) == tp.UP("1/4").of(found.program)
    assert r"\begin{align*}" in found.latex()


def test_optimizers_by_parameter():
    rules = {"W1": tp.SGD(), "W2": tp.SignSGD(), "W3": tp.SGD()}
    assert tp.classify(2, tp.MUP, rules).regime == "feature"
    with pytest.raises(tp.ProgramError, match="for `W3`"):
        tp.classify(2, tp.MUP, {"W1": tp.SGD(), "W2": tp.SGD()})


def test_scalars_inside_and_outside_of_the_network():
    """One that multiplies inside acts like a bias there; one that is added to the output moves it alone."""

    @tp.network
    def gated(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector, b: tp.Scalar, s: tp.Scalar):
        return tp.readout(v * tp.tanh(s * tp.sum(U * ξ, over="d"))) + b

    shown = repr(tp.classify(gated, tp.MUP, tp.SGD()))
    groups = shown.split("  stable in training\n")[1].split("\n  ")
    training, output, features = (
        [line.strip() for line in group.splitlines()]
        for group in "\n".join(groups)
        .replace("learned if one holds", "nontrivial if one holds")
        .split("if one holds\n")
    )
    assert [x for x in training if x[2] in "bs"] == ["✓ b: r = 0 ≥ 0", "✓ s: r = 0 ≥ 0"]
    assert [x for x in output if x[2] in "bs"] == ["✓ b: r = 0", "✗ s: A + r = 1, wanted 1/2"]
    assert [x for x in features if x[2] in "bs"] == ["✓ s: r = 0"]


@pytest.mark.parametrize("optimizer", [tp.Adam(eps=0.05), tp.SignSGD(), tp.SGD()], ids=lambda o: o.name)
def test_verdicts_on_symbols_are_printed(optimizer):
    """No power is counted for symbols, so that none is told to fall below an ε."""
    b, c, d = sympy.symbols("b c d", real=True)
    found = tp.classify(2, tp.ABCD({"1": (0, b, c, d), "2": (0, b, c, d), "3": (0, b, c, d)}), optimizer)
    assert "falls" not in str(found) and "stable" in str(found) and found.latex()


@pytest.mark.parametrize(
    ("name", "shown"), [("Ω", r"$\Omega$"), ("x̂", r"$\hat{x}$"), ("х", r"$\mathtt{U{+}0445}$"), ("a_b", r"a\_b")]
)
def test_names_in_sentences_are_ones_that_latex_knows(name, shown):
    """pdflatex stops at letters that it does not know."""
    parameters = f'ξ: tp.Input["d"], {name}: tp.Vector["d"], v: tp.Vector'
    known: dict[str, Any] = {"tp": tp}
    source = f"def net({parameters}):\n    return v * tp.relu(tp.sum({name} * ξ, over='d'))\n"
    linecache.cache["<named>"] = len(source), None, source.splitlines(keepends=True), "<named>"
    exec(compile(source, "<named>", "exec"), known)
    latex = tp.classify(tp.network(known["net"]), tp.SP, tp.SGD()).report().latex
    assert f"stable at the start, {shown}:" in latex and latex.isascii()
