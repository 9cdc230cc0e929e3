"""Programs in other words: they are the same at finite width, and other answers to them are found out."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from fuzz import judging
from fuzz.answers import Answer, made
from fuzz.cases import case, seeds
from fuzz.draft import Case
from fuzz.judging import judge
from fuzz.seams import NO_LIMIT
from fuzz.spelling import DEFINITIONS, idle, respelled, rewritten

PLAIN = Case(
    0,
    "width",
    "@tp.program\ndef subject(W: tp.Matrix, x: tp.Vector):\n    y = tp.tanh(W @ x)\n    s = tp.avg(x)\n"
    "    return tp.avg(x*(W.T @ y))\n",
    {"bind": {}, "ratios": {}},
)


def answered(monkeypatch, body):
    """The judge's outcome where other words are a program with another body."""
    other = replace(PLAIN, source=PLAIN.source.rpartition("    return")[0] + f"    return {body}\n")
    monkeypatch.setattr(judging, "respelled", lambda subject, inline: other)
    return judge(PLAIN)


@pytest.mark.parametrize("inline", [True, False])
def test_other_words_are_the_same_program(inline):
    """By real matrices: nothing of the rules takes part.  What jumps at zero has the sign of rounding."""
    kept = [c for c in map(case, seeds(0, 30, "width")) if not NO_LIMIT & set(c.traps)]
    assert len(kept) > 12
    for first in kept:
        second = rewritten(first, random.Random(1), inline)
        options = {"n": 24, "seed": 5, "ratios": first.options["ratios"]}
        with np.errstate(all="ignore"):
            runs = [made(c).run(**options) for c in (first, second)]
        for name in (n for n in runs[0] if n.startswith("return")):
            np.testing.assert_allclose(*(run[name] for run in runs), rtol=1e-7, atol=1e-9, err_msg=str(second))


@pytest.mark.parametrize("regime", ["width", "kernels", "depth", "training"])
def test_other_words_are_programs(regime):
    for seed in seeds(0, 15, regime):
        for inline in (True, False):
            assert made(respelled(case(seed), inline)).name == "subject"


@pytest.mark.parametrize("head", DEFINITIONS)
def test_a_function_is_its_definition(head):
    """At a positive argument, where roots are real, too."""
    plain = replace(PLAIN, source=PLAIN.source.rpartition("    return")[0] + f"    return tp.avg({head}(y**2))\n")
    others = [rewritten(plain, random.Random(k), True) for k in range(12)]
    written = next(c for c in others if f"{head}(y" not in c.source and f"{head}(tp.tanh(W @ x) **" not in c.source)
    assert made(written).run(n=32)["return"] == pytest.approx(made(plain).run(n=32)["return"], rel=1e-12)


def test_what_no_result_rests_on_is_idle():
    assert idle(PLAIN) and not idle(rewritten(PLAIN, random.Random(0), False))
    assert "avg(x)" not in respelled(PLAIN, False).source


def test_another_number_is_wrong_and_a_refusal_is_shown(monkeypatch):
    assert answered(monkeypatch, "tp.avg(y*(W @ x))").kind == "agreed"  # Stein's form of the same
    assert answered(monkeypatch, "tp.avg(y*(W @ x)) + 0.001").kind == "wrong"
    assert answered(monkeypatch, "tp.avg(x*tp.step(tp.avg(x)))").kind == "spelling"


def test_numbers_are_compared_within_their_errors():
    one = Answer({"f": (np.array([1.0, 2.0]), np.array([0.01, 0.01]))})
    near, far = (Answer({"f": (one.numbers["f"][0] + shift, 0.01)}) for shift in (0.1, 0.2))
    assert not one.apart(near) and one.apart(far)
    assert one.apart(Answer({})) and one.apart(Answer(reason="a reason"))
    assert not Answer(reason="a reason").apart(Answer(reason="a reason", message="in other words"))
