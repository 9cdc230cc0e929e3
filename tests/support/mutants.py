"""Bugs planted one at a time, and the tests that run through them: `make mutants`, or `python mutants.py --help`.

A mutant is a change of one sign, comparison, number, condition or refusal.  `map` runs tests once, file after file, and
writes down which functions each calls; `run` plants a mutant and runs the tests that call its function, the quickest
first, until one fails.  Nothing is written into the package: a mutant is compiled from its changed tree when its module
is imported.  Rows go to files and are gone on from; one of a module that has changed since is judged again.  Mutants
that change nothing stand in equivalent_mutants.json, each with the reason.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDERS = ("tplimits/law", "tplimits/numbers", "tplimits/sampling")
MAP, ROWS = Path("build/mutants_map.jsonl"), Path("build/mutants.jsonl")
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.json")
TESTS = (
    "tests/law",
    "tests/numbers",
    "tests/sampling",
    "tests/regimes/width",
    "tests/regimes/finite_width",
    "tests/program",
)
#: seconds of tests for one mutant, before it counts as alive
PATIENCE = 90
_SWAPPED: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


# -- planting ---------------------------------------------------------------------------------


def places(tree: ast.Module) -> Iterator[tuple[str, ast.AST, str]]:
    """Function, node and what is done to it, for every mutant of a module."""
    for function in (f for f in ast.walk(tree) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))):
        for node in _inside(function):
            if isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in _SWAPPED:
                yield function.name, node, "operator"
            elif isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPPED:
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
        node.ops[0] = _SWAPPED[type(node.ops[0])]()  # type: ignore[attr-defined]
    elif kind == "number":
        node.value = node.value + 1  # type: ignore[attr-defined]
    else:
        made = _Replaced(node).visit(made)
    line = getattr(node, "lineno", 0)
    after = {"sign": "without it", "refusal": "pass"}.get(kind) or ast.unparse(node)
    return ast.fix_missing_locations(made), {
        "function": function, "line": line, "kind": kind, "before": before[:120], "after": after[:120],
    }  # fmt: skip


class _Replaced(ast.NodeTransformer):
    """A sign left out, a refusal passed by."""

    def __init__(self, node: ast.AST) -> None:
        self.node = node

    def visit(self, node: ast.AST) -> Any:
        if node is self.node:
            return node.operand if isinstance(node, ast.UnaryOp) else ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)


class Planting(MetaPathFinder, SourceLoader):
    """Imports one module with a mutant in it."""

    def __init__(self, file: str, number: int) -> None:
        self.file, self.number = file, number
        self.module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, origin=str(ROOT / self.file)) if name == self.module else None

    def get_filename(self, name: str) -> str:
        return str(ROOT / self.file)

    def get_data(self, path: Any) -> bytes:
        return Path(path).read_bytes()

    def get_code(self, name: str) -> Any:
        tree, _ = planted(ast.parse(self.get_data(ROOT / self.file)), self.number)
        return compile(tree, str(ROOT / self.file), "exec")


# -- as a plug-in of pytest -------------------------------------------------------------------

_CALLED: dict[str, Any] = {}
if chosen := os.environ.get("TPLIMITS_MUTANT"):
    file_, number_ = chosen.rsplit(":", 1)
    sys.meta_path.insert(0, Planting(file_, int(number_)))


def pytest_runtest_call(item: Any) -> Any:
    """While a map is made: which functions a test calls."""
    if not os.environ.get("TPLIMITS_MAP"):
        return
    seen, begun = set(), time.process_time()

    def profile(frame: Any, event: str, _: Any) -> None:
        if event == "call" and "/tplimits/" in frame.f_code.co_filename:
            seen.add(frame.f_code)

    sys.setprofile(profile)
    item.addfinalizer(lambda: _ended(item.nodeid, seen, begun))


def pytest_runtest_logreport(report: Any) -> None:
    """While a map is made: which tests fail as things are."""
    if report.failed and os.environ.get("TPLIMITS_MAP"):
        with open(os.environ["TPLIMITS_MAP"], "a", encoding="utf-8") as file:
            print(json.dumps({"failed": report.nodeid}), file=file)


def _ended(name: str, seen: set[Any], begun: float) -> None:
    sys.setprofile(None)
    own = (c for c in seen if c.co_filename.startswith(f"{ROOT}/"))
    found = sorted({f"{Path(c.co_filename).relative_to(ROOT)}:{c.co_name}" for c in own})
    kept = [f for f in found if f.startswith(FOLDERS)]
    with open(os.environ["TPLIMITS_MAP"], "a", encoding="utf-8") as file:
        print(json.dumps({"test": name, "seconds": round(time.process_time() - begun, 3), "calls": kept}), file=file)


# -- running ----------------------------------------------------------------------------------


def corpus(count: int, seed: int = 0) -> list[tuple[str, int]]:
    """So many mutants from all folders alike, the same ones each time: fewer are the first of more."""
    rng, drawn = random.Random(seed), []
    for folder in FOLDERS:
        every = []
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_bytes())
            every += [(str(path.relative_to(ROOT)), n) for n in range(len(list(places(tree))))]
        drawn.append(rng.sample(every, len(every)))
    return [mutant for row in zip(*drawn, strict=False) for mutant in row][:count]


def pytest(tests: list[str], environment: dict[str, str], patience: float) -> str:
    """Whether tests fail: "killed", "alive", "slow" (a mutant that never ends is noticed too), or "lost" without its tests."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "mutants",
        *tests,
    ]
    command += ["-x"] if "TPLIMITS_MUTANT" in environment else []
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests/support'}"} | environment
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return "slow"
    if "ERROR: not found" in done.stderr + done.stdout:
        return "lost"
    return "alive" if done.returncode == 0 else "killed"


def mapped(folders: list[str], seconds: float) -> None:
    """Run the tests of folders that have not been run, a file at a time, and write down what each calls."""
    done, until = {row["file"] for row in _rows(MAP) if "file" in row}, time.monotonic() + seconds
    for path in (path for folder in folders for path in _files(ROOT / folder)):
        name = str(path.relative_to(ROOT))
        if name not in done and time.monotonic() < until:
            outcome = pytest([name], {"TPLIMITS_MAP": str(MAP.absolute())}, 20 * PATIENCE)
            with MAP.open("a", encoding="utf-8") as out:
                print(json.dumps({"file": name, "outcome": outcome}), file=out)


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("test_*.py"))


def _passing() -> list[dict[str, Any]]:
    """The tests that passed while the map was made: one that fails anyway notices nothing."""
    rows = list(_rows(MAP))
    failed = {row["failed"] for row in rows if "failed" in row}
    return [row for row in rows if "test" in row and row["test"] not in failed]


def _source(file: str) -> str:
    return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:12]


def judged(file: str, number: int, tests: list[dict[str, Any]], patience: float) -> dict[str, Any]:
    """One mutant, and the tests that call its function."""
    _, about = planted(ast.parse((ROOT / file).read_bytes()), number)
    about["text"] = (ROOT / file).read_text(encoding="utf-8").splitlines()[about["line"] - 1].strip()
    through = sorted((t for t in tests if f"{file}:{about['function']}" in t["calls"]), key=lambda t: t["seconds"])
    chosen, seconds = [], 0.0
    for test in through:
        if seconds + test["seconds"] > patience / 3:
            break
        chosen.append(test["test"])
        seconds += test["seconds"]
    outcome = pytest(chosen, {"TPLIMITS_MUTANT": f"{file}:{number}"}, patience) if chosen else "not run"
    return {"file": file, "number": number, "source": _source(file), "tests": len(chosen), "outcome": outcome, **about}


def _reason(row: dict[str, Any], equivalent: list[dict[str, str]]) -> str:
    """Why a mutant changes nothing; lines move, so that their numbers do not count."""
    same = ("file", "function", "text", "before", "after")
    return next((e["reason"] for e in equivalent if all(e[k] == row[k] for k in same)), "")


def main() -> int:
    """Make the map, or run mutants."""
    parser = argparse.ArgumentParser(prog="mutants", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("what", choices=["map", "run", "show"])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long; the next call goes on")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="folders or files of tests for the map")
    asked = parser.parse_args()
    MAP.parent.mkdir(exist_ok=True)
    if asked.what == "map":
        mapped(asked.tests, asked.seconds)
        return 0
    chosen = corpus(asked.count, asked.seed)
    rows = ((r["file"], r["number"], r) for r in _rows(ROWS))
    known = {(file, number): r for file, number, r in rows if (ROOT / file).exists() and r["source"] == _source(file)}
    if asked.what == "run":
        tests, until = _passing(), time.monotonic() + asked.seconds
        with ROWS.open("a", encoding="utf-8") as out:
            for mutant in chosen:
                if mutant not in known and time.monotonic() < until:
                    known[mutant] = judged(*mutant, tests, PATIENCE)
                    print(json.dumps(known[mutant], ensure_ascii=False), file=out, flush=True)
    return _told([known[mutant] for mutant in chosen if mutant in known], len(chosen))


def _told(rows: list[dict[str, Any]], asked: int) -> int:
    """Print how many were noticed, and every one that was not; how many live."""
    equivalent = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    for row in rows:
        if row["outcome"] != "killed" and _reason(row, equivalent):
            row["outcome"] = "equivalent"
    print(f"{len(rows)} of {asked}: {dict(Counter(r['outcome'] for r in rows))}")
    left = [r for r in rows if r["outcome"] in ("alive", "not run", "lost")]
    for r in left:
        print(f"{r['outcome']}: {r['file']}:{r['line']} {r['function']}: {r['before']} → {r['after']}")
    return int(any(r["outcome"] == "alive" for r in left))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines()) if path.exists() else iter(())


if __name__ == "__main__":
    sys.exit(main())
