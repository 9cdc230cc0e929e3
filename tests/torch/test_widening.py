"""Verdicts on imported models in PyTorch's default parametrization, beside powers of n measured on the modules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from measuring import OPTIMIZERS, judged, powers
from models import MODELS

import tplimits as tp

RULES = {"SGD": tp.SGD(), "AdamW": tp.Adam()}
KEPT = Path(__file__).parents[2] / "benchmarks" / "results" / "widening.json"


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", ["gated", "sets", "conditioned"])
def test_powers_are_those_of_modules(name, optimizer):
    make, example, widths = MODELS[name]
    verdict = tp.from_torch(make, example, widths=widths).classify(RULES[optimizer])
    assert str(verdict.f[0]) == {"SGD": "1", "AdamW": "3/2"}[optimizer]
    assert str(verdict.largest_rate) == str(verdict.f[0])
    assert "cannot be widened as it is" in verdict.sentence
    measured = powers(make, example, (64, 128, 256, 512), 4, optimizer)
    found = {who: judged(float(verdict.by_parameter[who]), s) for (who, v), s in measured.items()
             if v == "f" and who != "all"}  # fmt: skip
    assert len(found) >= 5 and not [k for k, row in found.items() if row["verdict"] == "wrong"], found
    assert sum(row["verdict"] == "right" for row in found.values()) >= len(found) - 1, found
    twins = [judged(float(verdict.by_parameter[who]) - 1, measured[who, "f"]) for who in found]  # powers one less
    assert sum(row["verdict"] == "wrong" for row in twins) >= len(found) - 2, twins


def test_kept_rows_have_no_wrong_verdict():
    rows = json.loads(KEPT.read_text())
    assert len({key.rpartition(", ")[0] for key in rows}) >= 20
    for key, row in rows.items():
        every = {"f": row["f"], **row["by parameter"], **row["layers"]}
        assert not [name for name, r in every.items() if r["verdict"] == "wrong"], key


def test_what_the_model_freezes_does_not_move():
    make, example, widths = MODELS["low rank"]
    verdict = tp.from_torch(make, example, widths=widths).classify(tp.SGD())
    assert verdict.by_parameter["w.weight"] == float("-inf")
    assert verdict.by_parameter["a"] == float("-inf")  # b starts at 0: a moves nothing by itself


def test_the_report_says_it_in_words():
    make, example, widths = MODELS["perceptron"]
    net = tp.from_torch(make, example, widths=widths)
    report = net.report()
    text = str(report)
    assert "`perceptron` cannot be widened as it is: `2` moves like n in step 1" in text
    assert "the largest stable rate falls like n^(-3/2)" in text and "uniform, std 0.2582" in text
    facts = json.loads(report.to_json())
    assert facts["verdicts"]["SGD"]["largest rate"] == "-1" and facts["entries"]["2.bias"]["power"] == "-1/2"
    words = facts["verdicts"]["Adam"]["text"]
    assert "2.weight: rate times n^(-1)" in words and "6.weight: initial entries times n^(-1/2), rate times" in words
