"""Fragments as a user pastes them compile, and nothing sticks out by more than five points."""

from __future__ import annotations

import bent
import pytest
import shaped
from fuzz.cases import case, seeds
from fuzz.judging import derived
from typesetting import complaints

import tplimits as tp
from tplimits import zoo
from tplimits.program.nodes.program import Program
from tplimits.report.latex_formulas import Formula, fragment

RANDOM = 25


def limits_of(network, infinite=()):
    """The limits that there are of a network."""
    regimes = (
        tp.Kernels(infinite=infinite),
        tp.MaximalUpdate(tp.SGD()),
        tp.MaximalUpdate(tp.Adafactor(), weight_decay=0.1),
        tp.NeuralTangent(tp.Adam(eps=1e-4), infinite=infinite),
    )
    for regime in regimes:
        try:
            yield regime.word, tp.derive(network, regime)
        except (tp.NoLimitError, tp.ProgramError):
            continue


@pytest.mark.long
def test_the_zoo_compiles(tmp_path):
    found = {f"width {name}": tp.derive(entry.program).latex() for name, entry in zoo.PROGRAMS.items()}
    for name, entry in zoo.NETWORKS.items():
        of_network = enumerate(limits_of(entry.program, entry.infinite))
        found |= {f"{i} {word} {name}": limit.latex() for i, (word, limit) in of_network}
    assert len(found) > 80
    assert complaints(found, tmp_path) == {}


def test_blocks_compile(tmp_path):
    blocks = [p for m in (shaped, bent) for p in vars(m).values() if isinstance(p, Program) and p.state is not None]
    found = {}
    for block in blocks:
        try:
            found[block.name] = tp.derive(block, tp.Proportional()).latex()
        except tp.NoLimitError:
            continue
    assert len(found) > 3
    assert complaints(found, tmp_path) == {}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*the update jumps:UserWarning")
def test_random_architectures_compile(tmp_path):
    found = {}
    for seed in seeds(0, 3 * RANDOM):
        try:
            found[str(seed)] = derived(case(seed)).latex()
        except (tp.NoLimitError, tp.ProgramError):
            continue
        if len(found) == RANDOM:
            break
    assert len(found) == RANDOM
    assert complaints(found, tmp_path) == {}


@pytest.mark.parametrize("long", [r"\left(a_{1} + b\right)", r"\sqrt{\frac{a + b}{c}}", r"\frac{a b}{c_{2} + d}"])
def test_any_shape_is_broken(tmp_path, long):
    """Sums and products of a piece, under a root, in a fraction, in brackets in brackets, in bars, in an exponent."""
    total, product = " + ".join([long] * 60), r" \cdot ".join([long] * 40)
    shapes = {
        "sum": total,
        "product": product,
        "root": rf"1 + \sqrt{{{total}}}",
        "fraction": rf"x - \frac{{{total}}}{{{product}}}",
        "nested": rf"\operatorname{{E}}\left[a \left({total}\right)^{{2}} + \left({product}\right)\right]",
        "bars": rf"y \left|x \left({total}\right) \left|{product}\right|\right|^{{2}}",
        "exponent": rf"x + e^{{- {total}}} y",
        "left": "y",
    }
    rows = {k: fragment([Formula("x" if k != "left" else total, "=", (text,))]) for k, text in shapes.items()}
    assert complaints(rows, tmp_path) == {}


def test_what_sticks_out_is_found(tmp_path):
    wide = r"\begin{align*} x &= " + " + ".join(["a"] * 60) + r"\end{align*}"
    assert list(complaints({"good": "$a$", "wide": wide, "wrong": r"$\frac{a}$ $a^b^c$"}, tmp_path)) == [
        "wide",
        "wrong",
    ]
