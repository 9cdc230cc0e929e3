"""Every refusal of the package, read from its source, so that no list of them can be out of date."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tplimits import errors

#: the classes, with what each is about
KINDS = {
    name: str(kind.__doc__).split("\n")[0]
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.TplimitsError) and kind is not errors.TplimitsError
}
_ROOT = Path(errors.__file__).parent
#: functions that raise the ProgramError "place: found; repair.", with the places of the two among their arguments
_RAISING = {"fail": (0, 1), "refuse": (1, 2), "_refuse": (0, 1)}
#: parameters that hold the class to raise, of what is given to a call
_CLASSES = frozenset({"error", "refusal"})
#: words that a message has at least, or it is put together elsewhere
_FEWEST = 3


@dataclass(frozen=True)
class Refusal:
    """One message: its class, its text with … for what is filled in, and the part of the package that raises it."""

    kind: str
    text: str
    place: str


@lru_cache(maxsize=1)
def refusals() -> tuple[Refusal, ...]:
    """All messages, by class and text."""
    found: dict[tuple[str, str], Refusal] = {}
    for path in sorted(_ROOT.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if any(f"{name}(" in source for name in KINDS):
            place = path.relative_to(_ROOT).parts[0].removesuffix(".py")
            for kind, text in _in(ast.parse(source)):
                found.setdefault((kind, text), Refusal(kind, text, place))
    return tuple(found[key] for key in sorted(found))


def matching(words: str) -> tuple[Refusal, ...]:
    """The messages that hold all words; those of a whole message find it, whatever is filled in."""
    wanted = words.lower().split()
    exact = tuple(r for r in refusals() if all(w in r.text.lower() for w in wanted))
    return exact or tuple(r for r in refusals() if _made_by(r.text, words))


def _made_by(template: str, message: str) -> bool:
    parts = [re.escape(p) for p in re.split("…+", template)]
    return re.search(".*?".join(parts), " ".join(message.split()), re.DOTALL) is not None


def _in(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The messages of a module, at their classes."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
            continue
        name, text = node.func.id, _text(node.args[0])
        if name in _RAISING and len(node.args) > _RAISING[name][1]:
            found, repair = (_text(node.args[i]) for i in _RAISING[name])
            name, text = "ProgramError", f"…: {found}; {repair}."
        name = "EvaluationError" if name in _CLASSES else name
        text = re.sub(r"…[…\s]*…", "…", " ".join(text.split()))
        if name in KINDS and len(re.findall(r"[^\W\d]{2,}", text)) >= _FEWEST:
            yield name, text


def _text(node: ast.expr) -> str:
    """A string as it is written, … for what is known only when it is raised; of two readings the longer one."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    if isinstance(node, ast.IfExp):
        return max(_text(node.body), _text(node.orelse), key=len)
    if isinstance(node, ast.FormattedValue) and isinstance(node.value, (ast.Constant, ast.JoinedStr, ast.IfExp)):
        return _text(node.value)
    return "…"
