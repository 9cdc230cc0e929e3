"""The same program in other words: values written inline, or every one named; arguments in another order and by other
names; terms and factors exchanged; functions written out.  Whether there is a limit, and which, rests on none of this.
"""

from __future__ import annotations

import ast
import copy
import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fuzz.draft import Case

#: functions by their definitions
DEFINITIONS = {
    "tp.relu": "tp.maximum({0}, 0)",
    "tp.abs": "tp.maximum({0}, -{0})",
    "tp.sqrt": "{0}**0.5",
    "tp.sigmoid": "1/(1 + tp.exp(-{0}))",
    "tp.softplus": "tp.log(1 + tp.exp({0}))",
    "tp.tanh": "tp.elementwise(lambda u: sympy.tanh(u))({0})",
    "tp.exp": "tp.elementwise(lambda u: sympy.exp(u))({0})",
    "tp.gelu": "{0}*(1 + tp.erf({0}/sympy.sqrt(2)))/2",
    "tp.sign": "(tp.step({0}) - tp.step(-{0}))",
}
#: what makes no value of the program
_NO_VALUE = ("tp.constant", "tp.neuron", "tp.expect", "tp.size", "tp.width")
#: no text longer than this is written at every place where it is used
_LONG = 300


class _Rewriter(ast.NodeTransformer):
    """Functions of SymPy's symbols and what is no value are left alone."""

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        if ast.unparse(node.func).startswith(_NO_VALUE):
            return node
        return self.called(self.generic_visit(node))

    def called(self, node: Any) -> Any:
        return node


class _Inlined(_Rewriter):
    """Names replaced by what they stand for."""

    def __init__(self) -> None:
        self.values: dict[str, ast.expr] = {}

    def visit_Name(self, node: ast.Name) -> Any:
        return copy.deepcopy(self.values.get(node.id, node))


class _Exchanged(_Rewriter):
    """Terms and factors exchanged, differences and quotients as sums and products, functions written out."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        left, right = node.left, node.right
        if not _varies(node) or self.rng.random() < 0.5:
            return node
        if isinstance(node.op, ast.Add | ast.Mult):
            return ast.BinOp(right, node.op, left)
        if isinstance(node.op, ast.Sub):
            return ast.BinOp(ast.UnaryOp(ast.USub(), right), ast.Add(), left)
        # 1/3 is rounded before the package sees it: s/3 − 1 is no s·(1/3) − 1 where it tends to zero
        if isinstance(node.op, ast.Div) and not isinstance(right, ast.Constant):
            return ast.BinOp(left, ast.Mult(), ast.BinOp(ast.Constant(1), ast.Div(), right))
        return node

    def called(self, node: Any) -> Any:
        form = DEFINITIONS.get(ast.unparse(node.func))
        if form is None or not _varies(node) or self.rng.random() < 0.6:
            return node
        return ast.parse(form.format(f"({ast.unparse(node.args[0])})"), mode="eval").body


class _Named(_Rewriter):
    """Every operation a statement of its own."""

    def __init__(self, fresh: Callable[[], str]) -> None:
        self.fresh, self.lines = fresh, []

    def named(self, node: Any) -> Any:
        if not _varies(node):
            return node
        name = self.fresh()
        self.lines.append(ast.Assign([ast.Name(name, ast.Store())], node))
        return ast.Name(name, ast.Load())

    def visit_BinOp(self, node: Any) -> Any:
        return self.named(self.generic_visit(node))

    visit_UnaryOp = visit_BinOp

    def called(self, node: Any) -> Any:
        return node if ast.unparse(node.func) in ("tp.elementwise", "tp.readout") else self.named(node)


def _varies(node: ast.expr) -> bool:
    """Whether a value of the program takes part."""
    return any(isinstance(x, ast.Name) and x.id not in ("tp", "sympy") for x in ast.walk(node))


def _statements(function: ast.FunctionDef, values: ast.expr) -> list[ast.stmt]:
    """Those that the results rest on, in their order."""
    needed, kept = {x.id for x in ast.walk(values) if isinstance(x, ast.Name)}, []
    for line in reversed(function.body[:-1]):
        if line.targets[0].id in needed:
            kept.insert(0, line)
            needed |= {x.id for x in ast.walk(line.value) if isinstance(x, ast.Name)}
    return kept


def _is_kept(value: ast.expr) -> bool:
    """Whether it is no value of the program."""
    return isinstance(value, ast.Lambda) or ast.unparse(value).startswith(_NO_VALUE)


def _inline(function: ast.FunctionDef) -> list[ast.stmt]:
    inlined, lines = _Inlined(), []
    for line in _statements(function, function.body[-1].value):
        value = inlined.visit(copy.deepcopy(line.value))
        if _is_kept(value) or len(ast.unparse(value)) > _LONG:
            lines.append(ast.Assign(line.targets, value))
            inlined.values.pop(line.targets[0].id, None)
        else:
            inlined.values[line.targets[0].id] = value
    return [*lines, ast.Return(inlined.visit(copy.deepcopy(function.body[-1].value)))]


def _name_all(function: ast.FunctionDef, rng: random.Random) -> list[ast.stmt]:
    count = iter(range(10**6))
    naming = _Named(lambda: f"{rng.choice('fmz')}{next(count)}")
    for line in [*_statements(function, function.body[-1].value), function.body[-1]]:
        value = line.value if _is_kept(line.value) else naming.visit(copy.deepcopy(line.value))
        naming.lines.append(type(line)(value=value, **({"targets": line.targets} if ast.Assign is type(line) else {})))
    return naming.lines


def _arguments(given: ast.arguments, rng: random.Random) -> None:
    """Shuffled; those with a law stand last, a state first."""
    count = len(given.args) - len(given.defaults)
    plain, lawful = given.args[:count], list(zip(given.args[count:], given.defaults, strict=True))
    first = [a for a in plain if "State" in ast.unparse(a)]
    rest = [a for a in plain if a not in first]
    rng.shuffle(rest)
    rng.shuffle(lawful)
    given.args, given.defaults = [*first, *rest, *(a for a, _ in lawful)], [law for _, law in lawful]


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self.names.get(node.arg, node.arg)
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node


def idle(case: Case) -> bool:
    """Whether a statement is there on which no result rests."""
    function = _function(case)
    return len(_statements(function, function.body[-1].value)) < len(function.body) - 1


def _function(case: Case) -> ast.FunctionDef:
    return ast.parse(case.source).body[0]


def rewritten(case: Case, rng: random.Random, inline: bool) -> Case:
    """The case without idle statements, with values inline and other words for operations, or names for everything."""
    tree = ast.parse(case.source)
    function = tree.body[0]
    function.body = _inline(function) if inline else _name_all(function, rng)
    if inline:
        function.body = [_Exchanged(rng).visit(line) for line in function.body]
    return replace(case, source=ast.unparse(ast.fix_missing_locations(tree)) + "\n")


def respelled(case: Case, inline: bool) -> Case:
    """The case rewritten, its arguments in another order and by other names."""
    rng = random.Random(case.seed)
    tree = ast.parse(rewritten(case, rng, inline).source)
    given = tree.body[0].args
    _arguments(given, rng)
    arguments = [a.arg for a in given.args if a.arg not in case.options]
    fresh = rng.sample([f"{letter}{i}" for letter in "ABCKpqrt" for i in (1, 2, 3)], len(arguments))
    names = dict(zip(arguments, fresh, strict=True))
    source = ast.unparse(ast.fix_missing_locations(_Renamed(names).visit(tree))) + "\n"
    limit = re.sub(r"'(\w+)'", lambda m: f"'{names.get(m[1], m[1])}'", case.options.get("limit", ""))
    return replace(case, source=source, options={**case.options, **({"limit": limit} if limit else {})})
