"""Layers that repeat are written once, and nothing is lost."""

from __future__ import annotations

import itertools
import random

import pytest

import tplimits as tp
from tplimits.report.latex_formulas import Formula, _rolled_sum, rolled_rows
from tplimits.report.rolled import Rolled, _even, rolled, segments, table, together


def written_out(lines):
    return [line for item in rolled(lines) for line in (item.unrolled() if isinstance(item, Rolled) else [item])]


@pytest.mark.parametrize("depth", [2, 3, 12])
def test_what_is_rolled_can_be_written_out(depth):
    lines = ["start"]
    for i in range(depth):
        lines += [
            f"h{i} = W[layer={depth - i}] x{i}",
            f"a{3 * i + 1} = 0.5 h{i}",
            f"x{i + 1} = f(a{3 * i + 1})",
            "same",
        ]
    assert written_out(lines) == lines
    assert len(rolled(lines)) == (len(lines) if depth < 3 else 2)


def test_a_layer_that_differs_is_not_rolled_away():
    lines = [line for i in range(12) for line in (f"h{i} = W x{i}", f"x{i + 1} = relu(h{i if i != 6 else 5})")]
    assert written_out(lines) == lines
    assert any(line == "x7 = relu(h5)" for line in rolled(lines))


def test_numbers_with_leading_zeros_stay():
    lines = [f"x{i:02d} = {i}.50" for i in range(20)]
    assert written_out(lines) == lines


def test_a_deep_network_in_training_prints_few_lines():
    @tp.network
    def deep(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix["n", "n", "layer"], v: tp.Vector):
        x = tp.sum(U * ξ, over="d")
        for i in range(12):
            x = x + W.sel(layer=i) @ tp.tanh(x)
        return v * x

    limit = tp.derive(deep.bind(layer=12), tp.MaximalUpdate(tp.SGD()))
    assert str(limit).count("\n") < 60 < limit.text(full=True).count("\n")


def test_the_first_of_names_that_count_from_two_is_explained():
    lines = [line for i in range(6) for line in (f"h#{i + 1} = W x", f"y#{i + 2} = h")]
    (found,) = rolled(lines)
    assert found.opening == "for ℓ = 0, …, 5, h#1 is h:"
    (other,) = rolled([f"y#{i + 2} = h" for i in range(6)])
    assert other.opening == "for ℓ = 0, …, 5:"


def test_lines_of_one_depth_stand_beside_each_other_and_openings_alone():
    assert together(["a", "b", "  c", "for:", "  d", "  e"]) == ["a;   b", "  c", "for:", "  d;   e"]
    assert together(["for:", "x", "y:", "z"]) == ["for:", "x", "y:", "z"]


@pytest.mark.parametrize("many", [7, 8])
def test_sums_of_few_terms_are_written_out(many):
    found = _rolled_sum([f"+ x_{{{i}}}" for i in range(many)])
    assert len(found) == (many if many < 8 else 1)


@pytest.mark.parametrize(
    ("lines", "opening"),
    [
        ([f"h#{i} = W x#{i}" for i in range(2, 7)], "for ℓ = 0, …, 4:"),  # no first one is among them
        ([f"h#{i} = W x#{i - 1}" for i in range(2, 7)], "for ℓ = 0, …, 4, x#1 is x:"),
        ([f"d#{6 - i} = 2 e#{5 - i}" for i in range(5)], "for ℓ = 0, …, 4, e#1 is e:"),
        ([f"d{i + 1} = 2 e#{7 - i}" for i in range(5)], "for ℓ = 0, …, 4:"),
    ],
)
def test_what_a_first_layer_is_called_is_said_where_it_is_among_them(lines, opening):
    (found,) = rolled(lines)
    assert found.opening == opening


def longest_even_run(numbers, period):
    """Of all runs of whole layers whose numbers grow evenly the first longest one: (start, layers)."""
    best = (0, 1)
    for start in range(len(numbers) - period + 1):
        times = 1
        while start + (times + 1) * period <= len(numbers):
            layers = [numbers[start + i * period : start + (i + 1) * period] for i in range(times + 1)]
            steps = [[b - a for a, b in zip(x, y, strict=True)] for x, y in itertools.pairwise(layers)]
            if any(step != steps[0] for step in steps):
                break
            times += 1
        best = max(best, (start, times), key=lambda run: run[1])
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_longest_even_run_of_a_stretch(seed):
    rng = random.Random(seed)
    numbers, value, step = [], 0, 1
    for _ in range(24):
        step = rng.choice([step] * 6 + [1, 2])
        value += step
        numbers.append(value)
    for period in (1, 2, 3):
        found = _even([(n,) for n in [7, *numbers]], 1, period, len(numbers))
        start, times = longest_even_run(numbers, period)
        assert found == (1 + start, times)


def test_two_layers_of_a_long_sum_are_one():
    assert len(_rolled_sum([f"+ {c}_{{{i}}}" for i in range(2) for c in "abcd"])) == 1


def test_thirty_rows_stand_as_they_are_and_more_are_rolled():
    rows = [Formula(f"x_{{{i + 1}}}", "=", (f"W_{{{i}}} x_{{{i}}}",)) for i in range(31)]
    assert rolled_rows(rows[:30]) == rows[:30]
    assert [row.left for row in rolled_rows(rows)] == [r"\ell", r"x_{1+\ell}"]
    assert rolled_rows(rows)[0].right == (r"0, \ldots, 30:",)


def test_lines_of_one_depth_stand_beside_each_other():
    assert together(["  a", "  b", "    c", "    d", "  e:", "  f"]) == ["  a;   b", "    c;   d", "  e:", "  f"]


def test_runs_begin_right_behind_what_differs():
    assert segments(list("abbb"), 3) == [(1, 1, 3)]
    assert segments(list("abbbc"), 3) == [(1, 1, 3)] and segments(list("abbc"), 3) == []
    assert sorted(segments(list("aaabbb"), 3)) == [(0, 1, 3), (3, 1, 3)]
    assert segments(list("xabababy"), 3) == [(1, 2, 6)]


def test_three_alike_are_rolled_in_a_table_and_two_are_not():
    rows = [row for i in range(3) for row in ((f"h{i}", f"= W x{i}"), (f"x{i + 1}", f"= f(h{i})"))]
    assert list(table(rows, 6)) == ["  for ℓ = 0, …, 2:", "    hℓ     = W xℓ", "    x(1+ℓ) = f(hℓ)"]
    assert len(list(table(rows[:4], 6))) == 4
    assert len(list(table(rows, 6, full=True))) == 6
