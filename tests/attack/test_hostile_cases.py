"""Files, names, arguments and command lines that nobody means: an answer or a refusal, never an exception of others."""

import re
from pathlib import Path

import numpy as np
import pytest
from attack.arguments import calls
from attack.cases import KINDS, case, kind_of
from attack.judging import BAD, judge, look

import tplimits as tp

ROOT = Path(__file__).parents[2]
#: the first seeds; `make attack` takes as many as one likes
SLICE = range(300)
#: right calls that are refused: what they stand for is in the wrong arguments
REFUSED = {"tp.program", "tp.network", "tp.block", "tp.readout", "tp.Head", "tp.from_json", "tp.load_recording"} | {
    "tp.load_kernels", "tp.load_plan", ".sample", ".excess_kurtosis",
}  # fmt: skip
#: public names that are no functions of a user's arguments, or are tried elsewhere
ELSEWHERE = {
    **dict.fromkeys(("Matrix", "Vector", "Scalar", "State", "Input"), "annotations: tests/program/language"),
    **dict.fromkeys(("StoredKernels", "TrainingRun", "Classification", "Batches"), "what others give"),
    **dict.fromkeys(("TangentSDE", "NumericSDE"), "what others give"),
    **dict.fromkeys(("SP", "NTP", "MUP", "n", "inf", "Frozen", "views", "sklearn", "layers", "zoo"), "take nothing"),
    **dict.fromkeys(("from_torch", "scaling"), "PyTorch has tests of its own"),
}
LAYERS = "layers have tests of their own; two stand for their arguments here"


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_hostile_cases_end_in_answers_or_refusals(kind, tmp_path):
    wrong = []
    for seed in SLICE:
        if kind_of(seed) == kind:
            place = tmp_path / str(seed)
            place.mkdir()
            found = judge(case(seed, place))
            if found.kind in BAD:
                wrong.append(f"seed {seed}: {found.kind}: {found.said}")
    assert not wrong, "\n".join(wrong)


def test_right_calls_are_right():
    """A call that is refused anyway would find nothing."""
    found = {name: judge(lambda f=function, g=given: f(**g)) for name, (function, given) in calls().items()}
    assert {name for name, outcome in found.items() if outcome.kind != "ok"} == REFUSED


def test_every_public_function_is_called():
    named = set(re.findall(r"^\| `tp\.(\w+)", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE))
    called = {name.removeprefix("tp.") for name in calls()}
    errors = {name for name in named if name.endswith("Error")}
    assert named - called - errors - set(ELSEWHERE) == set()


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_none_are_seen(number):
    """The judge itself: a wrong twin."""
    for result in (number, {"a": number}, np.array([1.0, number]), (1.0, [number]), judged(number)):
        with pytest.raises(Exception, match=r"not finite|= (nan|inf)"):
            look(result)
    assert judge(lambda: 1 / 0).kind == "foreign"
    assert judge(lambda: number).kind == "silent"


def judged(number):
    return tp.derive(_mean).evaluate()["return"].__class__(0.5, number, "particles")


@tp.program
def _mean(x: tp.Vector):
    return tp.avg(x**2)
