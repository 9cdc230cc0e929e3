"""Mutants: the change of one sign, comparison, number, condition or refusal of a module, planted in functions that run."""

from __future__ import annotations

import ast
import copy
import gc
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

ROOT = Path(__file__).parents[2]
_SWAPPED: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
#: a bound of whole numbers is moved by one
_MOVED: dict[type, type] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
#: any other comparison says the contrary: whether a real number may be equal to a bound is of no consequence as a rule
_CONTRARY: dict[type, type] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn,
    ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


def places(tree: ast.Module) -> Iterator[tuple[str, ast.AST, str]]:
    """Function, node and what is done to it, for every mutant of a module."""
    for function in (f for f in ast.walk(tree) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))):
        for node in _inside(function):
            if isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in _SWAPPED:
                yield function.name, node, "operator"
            elif isinstance(node, ast.Compare) and type(node.ops[0]) in _CONTRARY:
                yield function.name, node, "comparison"
            elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
                yield function.name, node, "sign"
            elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
                yield function.name, node, "number"
            elif isinstance(node, ast.Raise):
                yield function.name, node, "refusal"


def _inside(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a body without annotations, defaults, texts and functions inside."""
    stack = list(getattr(function, "body", []))
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.JoinedStr, ast.Assert)):
            continue
        yield node
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns") and not (isinstance(node, ast.Raise) and name == "exc"):
                stack.extend(x for x in (value if isinstance(value, list) else [value]) if isinstance(x, ast.AST))


def planted(tree: ast.Module, number: int) -> tuple[ast.Module, dict[str, Any]]:
    """The tree with mutant number so many, and what it is."""
    made = copy.deepcopy(tree)
    function, node, kind = list(places(made))[number]
    before = ast.unparse(node)
    if kind == "operator":
        node.op = _SWAPPED[type(node.op)]()  # type: ignore[attr-defined]
    elif kind == "comparison":
        assert isinstance(node, ast.Compare)
        moved = _MOVED.get(type(node.ops[0])) if _of_whole_numbers(node) else None
        node.ops[0] = (moved or _CONTRARY[type(node.ops[0])])()
    elif kind == "number":
        node.value = node.value + 1  # type: ignore[attr-defined]
    else:
        made = _Replaced(node).visit(made)
    line = getattr(node, "lineno", 0)
    after = {"sign": "without it", "refusal": "pass"}.get(kind) or ast.unparse(node)
    return ast.fix_missing_locations(made), {
        "function": function, "line": line, "kind": kind, "before": before[:120], "after": after[:120],
    }  # fmt: skip


def _of_whole_numbers(node: ast.Compare) -> bool:
    """Whether a side of a comparison is written as a whole number or a length."""
    sides = [node.left, node.comparators[0]]
    return any(
        (isinstance(s, ast.Constant) and type(s.value) is int and s.value > 0)
        or (isinstance(s, ast.Call) and isinstance(s.func, ast.Name) and s.func.id == "len")
        for s in sides
    )


class _Replaced(ast.NodeTransformer):
    """A sign left out, a refusal passed by: its names stay, so that the function keeps those of others that it reads."""

    def __init__(self, node: ast.AST) -> None:
        self.node = node

    def visit(self, node: ast.AST) -> Any:
        if node is not self.node:
            return self.generic_visit(node)
        if isinstance(node, ast.UnaryOp):
            return node.operand
        return ast.copy_location(ast.If(ast.Constant(False), [node], []), node)


class Garden:
    """The functions of some modules that have been imported, and what is planted in them."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._functions: defaultdict[str, list[FunctionType]] = defaultdict(list)
        within = tuple(f"{ROOT / folder}/" for folder in folders)
        gc.unfreeze()  # frozen ones are not listed
        for found in gc.get_objects():
            if isinstance(found, FunctionType) and found.__code__.co_filename.startswith(within):
                self._functions[found.__code__.co_filename].append(found)
        gc.freeze()

    def plant(self, file: str, number: int) -> bool:
        """Let the functions of a module do what they would with a mutant; False where none of them would."""
        path = str(ROOT / file)
        tree = ast.parse((ROOT / file).read_bytes())
        made, _ = planted(tree, number)
        old, new = (_codes(compile(t, path, "exec", dont_inherit=True)) for t in (tree, made))
        twins = {_place(a): b for key in old for a, b in zip(old[key], new.get(key, ()), strict=False) if a != b}
        changed = [f for f in self._functions[path] if _place(f.__code__) in twins]
        for function in changed:
            function.__code__ = twins[_place(function.__code__)]
        return bool(changed)


def _place(code: CodeType) -> tuple[str, int, bytes]:
    """Where a code stands: codes that have been run are not equal to others of the same source."""
    return code.co_qualname, code.co_firstlineno, code.co_linetable


def _codes(whole: CodeType) -> dict[tuple[str, int], list[CodeType]]:
    """The functions inside of a module's code by name and line."""
    found: defaultdict[tuple[str, int], list[CodeType]] = defaultdict(list)
    stack = [whole]
    while stack:
        code = stack.pop()
        found[code.co_qualname, code.co_firstlineno].append(code)
        stack += [c for c in code.co_consts if isinstance(c, CodeType)]
    return found
