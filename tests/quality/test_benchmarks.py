"""Scripts that are run by hand: what they import is there, and tables of measurements are those of their files."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
SCRIPTS = sorted(BENCHMARKS.glob("*.py"))
#: what runs in an environment of its own, beside others' packages
ELSEWHERE = {"kernel_peer", "scaling", "widening"}


@pytest.fixture(autouse=True)
def found_beside(monkeypatch):
    """Scripts import each other by their names."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if (BENCHMARKS / f"{name}.py").is_file():
            del sys.modules[name]


def is_ours(module: str) -> bool:
    return module.split(".")[0] == "tplimits" or (BENCHMARKS / f"{module}.py").is_file()


def imported(tree: ast.Module) -> list[tuple[str, str | None, str]]:
    """Module, name in it, name here."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(a.name, None, a.asname or a.name) for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.module, a.name, a.asname or a.name) for a in node.names]
    return [f for f in found if is_ours(f[0]) and f[0] not in ELSEWHERE]


def value(module: str, name: str | None):
    loaded = importlib.import_module(module)
    if name is None:
        return loaded
    return getattr(loaded, name) if hasattr(loaded, name) else importlib.import_module(f"{module}.{name}")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_everything_imported_is_there(script):
    tree = ast.parse(script.read_text())
    here = {name: value(module, part) for module, part, name in imported(tree)}
    used = [
        (n.value.id, n.attr) for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
    ]
    missing = [f"{name}.{part}" for name, part in used if name in here and not hasattr(here[name], part)]
    assert not missing, f"{script.name} names what is not there: {missing}"


def test_tables_of_kernels_are_those_of_their_files():
    pages = importlib.import_module("kernel_pages").pages()
    for path, text in pages.items():
        assert path.read_text() == text, f"{path.name}: run benchmarks/kernel_pages.py"
