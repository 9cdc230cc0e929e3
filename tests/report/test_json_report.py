"""Limits and numbers as JSON."""

from __future__ import annotations

import json

import sympy

import tplimits as tp
from tplimits import zoo


def test_a_limit_holds_its_program_kets_and_steps():
    limit = tp.derive(zoo.get("two_widths").program)
    found = json.loads(limit.document())
    assert found["format"] == "tplimits width limit"
    assert tp.from_json(json.dumps(found["program"])) == limit.program
    z = next(k for k in found["kets"] if k["name"] == "z")
    assert [(d["partner"], d["coefficient"]["sympy"]) for d in z["dot"]] == [("x", "(k/n)/2")]
    assert found["scalars"][0]["limit"]["sympy"] == "(k/n)/2"
    assert len(found["steps"]) == len(limit.steps)
    assert found["steps"][0]["citation"] == "yang2023tensor"


def test_expressions_can_be_read_by_sympy():
    limit = tp.derive(zoo.get("layer_norm").program)
    found = json.loads(limit.document())
    value = next(s for s in found["scalars"] if s["name"] == "return")["limit"]["sympy"]
    assert sympy.simplify(sympy.sympify(value) - limit.scalar("return")) == 0


def test_variances_of_fluctuation_scalars():
    limit = tp.derive(zoo.get("attention_logits").program)
    found = json.loads(limit.document())
    assert {c["value"]["sympy"] for c in found["covariances"] if c["left"] == c["right"]} == {"4"}


def test_numbers_with_their_errors():
    numbers = {"return": tp.derive(zoo.get("tied_tanh").program).evaluate()["return[0]"]}
    found = json.loads(tp.derive(zoo.get("tied_tanh").program).numbers_document(numbers))
    assert found["program"] == "tied_tanh"
    assert found["values"]["return"]["value"] == numbers["return"].value
    assert found["values"]["return"]["method"] == "quadrature"
