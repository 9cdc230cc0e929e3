"""The source of the package, as the tests of its quality read it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tplimits"


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    path: Path

    @property
    def name(self) -> str:
        """Its dotted name."""
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def place(self) -> str:
        """Its path below the root."""
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def imports(self) -> tuple[tuple[str, bool], ...]:
        """(imported module, only for the type checker) of every import anywhere in the file."""
        return tuple(self._found())

    def _found(self) -> Iterator[tuple[str, bool]]:
        typing_only = {
            id(inner)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
            for inner in ast.walk(node)
        }
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, id(node) in typing_only) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    yield (inner if _exists(inner) else node.module), id(node) in typing_only

    def listed(self) -> Iterator[ast.ImportFrom]:
        """The lines of the stub of a package that imports lazily."""
        stub = self.path.with_suffix(".pyi")
        if stub.is_file():
            said = ast.parse(stub.read_text(encoding="utf-8")).body
            for node in (n for n in said if not isinstance(n, (ast.Expr, ast.AnnAssign))):
                assert isinstance(node, ast.ImportFrom) and node.level == 1, (
                    f"{stub}: only `from . import module`, `from .module import name`"
                )
                yield node

    def lazy_imports(self) -> Iterator[str]:
        """Modules that a package imports when they are first used: those that its stub lists, or takes names from."""
        for node in self.listed():
            yield from (f"{self.name}.{node.module or alias.name}" for alias in node.names)

    def late_imports(self) -> Iterator[str]:
        """`function: statement` of every import inside a function."""
        for function in ast.walk(self.tree):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for node in ast.walk(function):
                    if isinstance(node, (ast.Import, ast.ImportFrom)):
                        yield f"{function.name}: {ast.unparse(node)}"


@cache
def _exists(name: str) -> bool:
    """Whether a dotted name is a module of the package."""
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


MODULES = [Module(path) for path in sorted(PACKAGE.rglob("*.py"))]
