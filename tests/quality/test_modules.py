"""Sizes, names and docstrings of the modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from source import MODULES, PACKAGE

LINES = 330
VAGUE = {"utils", "util", "helpers", "helper", "core", "misc", "common"}


def test_modules_are_short():
    assert {m.place: len(m.text.splitlines()) for m in MODULES if len(m.text.splitlines()) > LINES} == {}


def test_modules_and_folders_are_named_for_what_they_hold():
    names = {part for m in MODULES for part in m.path.relative_to(PACKAGE).with_suffix("").parts}
    assert names & VAGUE == set()


def public(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Functions and classes that others may use: no leading underscore, nor inside one that has it."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node.name, node


@pytest.mark.parametrize("module", [pytest.param(m, id=m.place) for m in MODULES])
def test_modules_and_public_names_have_docstrings(module):
    programs = module.place.startswith("tplimits/zoo/") or module.name == "tplimits.demo"
    if module.path.name != "__init__.py" or module.text.strip():
        assert ast.get_docstring(module.tree), f"{module.place} does not say what it holds"
    missing = [name for name, node in public(module.tree) if not ast.get_docstring(node)]
    traced = [
        name
        for name, node in public(module.tree)
        if isinstance(node, ast.FunctionDef)
        and any(word in ast.unparse(d) for d in node.decorator_list for word in ("program", "network"))
    ]
    known = {name for name, node in public(module.tree) if ast.get_docstring(node)}  # of overloads, the last has one
    missing = [name for name in missing if name not in known]
    assert [name for name in missing if not (programs and name in traced)] == []
