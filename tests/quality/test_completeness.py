"""Tables that have to be complete: closed forms and their tests, public functions and their examples."""

from __future__ import annotations

import inspect

import pytest
from source import ROOT

import tplimits as tp
from tplimits import zoo
from tplimits.law.closed_forms.table import CLOSED_FORMS
from tplimits.program.language.refusals import ENTRYWISE
from tplimits.program.nodes import kinds as nodes
from tplimits.program.walk import METHODS, Walker
from tplimits.report.written import entries

#: public functions of tplimits without an example in their docstring, and why
NO_EXAMPLE = {
    **dict.fromkeys(ENTRYWISE, "it acts on values of a program; every program of the zoo shows one"),
    **dict.fromkeys(("avg", "mean", "sum", "softmax", "neuron", "constant"), "it has a meaning inside a program only"),
    "check": "it draws thousands of networks; README shows it",
    "from_torch": "it needs PyTorch, an extra; tests/torch and docs/pytorch.md show it",
    "scaling": "it needs PyTorch, an extra; tests/torch and docs/scaling.md show it",
    "load_plan": "it reads what plan.save wrote, and docs/scaling.md shows it",
    "from_json": "the example of to_json shows it",
}


def functions() -> list[str]:
    return [n for n in dir(tp) if not n.startswith("_") and inspect.isfunction(getattr(tp, n))]


@pytest.mark.parametrize("name", functions())
def test_public_functions_have_a_docstring(name):
    assert inspect.getdoc(getattr(tp, name))


def test_public_functions_have_an_example_or_a_reason():
    without = {n for n in functions() if ">>>" not in (inspect.getdoc(getattr(tp, n)) or "")}
    assert without - set(NO_EXAMPLE) == set()


@pytest.mark.parametrize("row", [pytest.param(r, id=r.name) for r in CLOSED_FORMS])
def test_closed_forms_have_a_test_against_mpmath_and_a_citation(row):
    tests = [p.read_text(encoding="utf-8") for p in (ROOT / "tests" / "law" / "closed_forms").glob("test_*.py")]
    assert any(row.name in text and "mpmath" in text for text in tests), f"no test of the row {row.name!r}"
    assert row.citation in entries()


def test_every_kind_of_instruction_has_a_method_of_walkers():
    kinds = {kind for kind in vars(nodes).values() if isinstance(kind, type) and issubclass(kind, nodes.Instruction)}
    # what others are kinds of is none itself
    assert {kind for kind in kinds if not kind.__subclasses__()} == set(METHODS)
    assert Walker.__abstractmethods__ == set(METHODS.values())


def test_a_walker_that_forgets_a_kind_cannot_be_made():
    class Forgetful(Walker[int]):
        initial_matrix = initial_vector = initial_scalar = matmul = average = scalar = lambda self, s: 0

    with pytest.raises(TypeError, match="outer"):
        Forgetful()


@pytest.mark.parametrize("name", list(zoo.PROGRAMS))
def test_programs_of_the_zoo_have_a_test(name):
    stems = {p.stem.removeprefix("test_") for p in (ROOT / "tests" / "zoo").glob("test_*.py")}
    assert any(name == s or name.startswith(f"{s}_") for s in stems)
