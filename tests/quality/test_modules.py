"""Sizes, names and docstrings of the modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from source import MODULES, PACKAGE, Module

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


def undescribed(module: Module) -> list[str]:
    """What has no docstring: a module, or its public names; modules of the zoo describe their programs."""
    empty = module.path.name == "__init__.py" and not module.text.strip()
    silent = [] if empty or ast.get_docstring(module.tree) else [module.place]
    programs = module.place.startswith("tplimits/zoo/") or module.name == "tplimits.demo"
    traced = {
        name
        for name, node in public(module.tree)
        if programs
        and isinstance(node, ast.FunctionDef)
        and any(word in ast.unparse(d) for d in node.decorator_list for word in ("program", "network"))
    }
    # of overloads, the last has one
    known = {name for name, node in public(module.tree) if ast.get_docstring(node)}
    return silent + [name for name, _ in public(module.tree) if name not in known | traced]


def test_modules_and_public_names_have_docstrings():
    found = {m.place: undescribed(m) for m in MODULES}
    assert {place: names for place, names in found.items() if names} == {}
