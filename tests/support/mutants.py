"""Bugs planted one at a time, and the tests that run through them: `make mutants`, or `python mutants.py --help`.

A mutant is a change of one sign, comparison, number, condition or refusal.  `map` runs tests once, file after file, and
writes down which functions each calls; `run` plants a mutant and runs the tests that call its function, the nearest and
quickest first, until one fails.  One process imports the package and collects the tests; each file and each mutant has
a copy of it to itself, so that nothing is imported twice and nothing is written into the package.  A test that notices
a mutant must pass without it in a copy of its own.  Rows go to files and are gone on from; one of a module that has
changed since is judged again.  Mutants that change nothing stand in equivalent_mutants.json, each with the reason.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import itertools
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from planting import ROOT, Garden, places, planted

FOLDERS = tuple(f"tplimits/{part}" for part in ("law", "numbers", "sampling", "program", "regimes", "report"))
MAP, ROWS = ROOT / "build/mutants_map.jsonl", ROOT / "build/mutants.jsonl"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.json")
TESTS = (
    *FOLDERS,
    *(f"tests/{part}" for part in ("law", "numbers", "sampling", "program", "regimes", "theory", "report")),
)
#: seconds of the processor for one mutant, and of the tests that are chosen for it: it counts as noticed between them
PATIENCE, CHOSEN = 60, 10
#: a function that fewer tests call may be a compiled one, whose calls are not seen
FEW = 3


def corpus(count: int, seed: int = 0, folders: Sequence[str] = FOLDERS) -> list[tuple[str, int]]:
    """So many mutants from folders alike, the same ones each time: fewer are the first of more."""
    drawn = []
    for folder in folders:
        every = [place for path in sorted((ROOT / folder).rglob("*.py")) for place in _drawn(path, seed)]
        drawn.append([mutant for _, mutant in sorted(every)])
    return [mutant for row in zip(*drawn, strict=False) for mutant in row][:count]


def _drawn(path: Path, seed: int) -> Iterator[tuple[str, tuple[str, int]]]:
    """The mutants of a module in the order of a digest of what each changes: an edit moves no other line's."""
    file, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    lines, seen = text.splitlines(), Counter[tuple[str, ...]]()
    for number, (function, node, kind) in enumerate(places(ast.parse(text))):
        about = (file, function, lines[getattr(node, "lineno", 1) - 1].strip(), kind, ast.unparse(node))
        seen[about] += 1
        yield hashlib.sha256(repr((seed, about, seen[about])).encode()).hexdigest(), (file, number)


def with_tests(files: Sequence[str], work: Callable[[list[Any]], None]) -> None:
    """Collect the tests of files, import the package, and do some work with them."""
    import pytest
    from judging_mutants import Collected

    def warm(items: list[Any]) -> None:
        for folder in FOLDERS:
            for path in sorted((ROOT / folder).rglob("*.py")):
                importlib.import_module(
                    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
                )
        work(items)

    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    options = ("-q", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(ROOT))
    pytest.main([*options, *files], plugins=[Collected(warm)])


def mapped(folders: Sequence[str], seconds: float) -> None:
    """Run the tests of folders that have not been run, a file at a time, and write down what each calls."""
    from judging_mutants import in_a_copy, what_they_call

    done, until = {row["file"] for row in _rows(MAP) if "file" in row}, time.monotonic() + seconds
    files = [name for folder in folders for name in _files(ROOT / folder) if name not in done]

    def work(items: list[Any]) -> None:
        by_file: defaultdict[str, list[Any]] = defaultdict(list)
        for item in items:
            by_file[item.nodeid.split("::")[0]].append(item)
        for name in (f for f in files if time.monotonic() < until):
            found = in_a_copy(lambda own=by_file[name]: what_they_call(own, FOLDERS, _appended), 1000.0)
            _appended({"file": name, "outcome": found or "died"})

    if files:
        with_tests(files, work)


def _appended(row: dict[str, Any], path: Path = MAP) -> None:
    with path.open("a", encoding="utf-8") as out:
        print(json.dumps(row, ensure_ascii=False), file=out)


def _files(place: Path) -> list[str]:
    """Files of tests; of the package, those with examples."""
    found = [place] if place.is_file() else sorted(place.rglob("*.py"))
    return [
        str(p.relative_to(ROOT))
        for p in found
        if p.name.startswith("test_") or ("tests" not in p.parts and ">>>" in p.read_text(encoding="utf-8"))
    ]


def _source(file: str) -> str:
    return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:12]


class Judge:
    """Mutants, and the tests that call their functions."""

    def __init__(self, items: Sequence[Any], tests: Sequence[dict[str, Any]]) -> None:
        self._items = {item.nodeid: item for item in items}
        self._garden = Garden(FOLDERS)
        self._through: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for test in tests:
            for call in test["calls"] if test["test"] in self._items else ():
                self._through[call].append(test)
        #: whether tests pass in a copy without a mutant
        self._right: dict[str, bool] = {}

    def judged(self, file: str, number: int) -> dict[str, Any]:
        """One mutant: "killed", "slow" (one that never ends is noticed too), "alive", or "not run" by any test."""
        from judging_mutants import in_a_copy

        _, about = planted(ast.parse((ROOT / file).read_bytes()), number)
        about["text"] = (ROOT / file).read_text(encoding="utf-8").splitlines()[about["line"] - 1].strip()
        row = {"file": file, "number": number, "source": _source(file), **about}
        begun = time.monotonic()
        while True:
            chosen = self._chosen(file, about["function"])
            found = in_a_copy(partial(self._noticed, file, number, chosen), PATIENCE) if chosen else "not run"
            if found is None or found in ("", "not run", "not planted") or self._is_right(found):
                break
        outcome = {None: "slow", "": "alive", "not run": found, "not planted": found}.get(found, "killed")
        took = round(time.monotonic() - begun, 1)
        return {**row, "outcome": outcome, "tests": len(chosen), "by": found, "seconds": took}

    def _chosen(self, file: str, function: str) -> list[str]:
        """Tests for a function: those that are seen to call it before others, the quickest and nearest of them first."""
        chosen, seconds, call = [], 0.0, f"{file}:{function}"
        order = sorted(self._calling(file, function), key=lambda t: t["seconds"] / (1 + _near(file, t["test"])))
        for test in sorted(order, key=lambda t: call not in t["calls"]):
            if self._right.get(test["test"], True) and seconds + test["seconds"] <= CHOSEN:
                chosen.append(test["test"])
                seconds += test["seconds"]
        return chosen

    def _calling(self, file: str, function: str) -> list[dict[str, Any]]:
        """The tests that call a function; where nothing tells, as of compiled ones, those of modules that import its own."""
        found, asked, seen = self._through[f"{file}:{function}"], {file}, {file}
        while len(found) < FEW and asked:
            asked = {importer for one in asked for importer in _imports().get(one, ())} - seen
            seen |= asked
            calls = [c for one in asked for c in self._through if c.startswith(f"{one}:")]
            found = list({t["test"]: t for t in [*found, *(t for c in calls for t in self._through[c])]}.values())
        return found

    def _noticed(self, file: str, number: int, tests: list[str]) -> str:
        from judging_mutants import first_failure

        if not self._garden.plant(file, number):
            return "not planted"
        return first_failure([self._items[test] for test in tests])

    def _is_right(self, test: str) -> bool:
        from judging_mutants import first_failure, in_a_copy

        if test not in self._right:
            self._right[test] = in_a_copy(lambda: first_failure([self._items[test]]), PATIENCE) == ""
        return self._right[test]


@cache
def _imports() -> dict[str, tuple[str, ...]]:
    """The modules of the package that import each of its modules."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tplimits").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tplimits."):
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                for name in names:
                    found[f"{name.replace('.', '/')}.py"].append(str(path.relative_to(ROOT)))
    return {name: tuple(importers) for name, importers in found.items()}


def _near(file: str, test: str) -> int:
    """How many folders a module and a test share."""
    both = zip(file.split("/")[1:], test.split("::")[0].split("/")[1:], strict=False)
    return len(list(itertools.takewhile(lambda parts: parts[0] == parts[1], both)))


def run(asked: Sequence[tuple[str, int]], seconds: float) -> None:
    """Judge mutants, and write down how each ended."""
    until = time.monotonic() + seconds
    tests = [row for row in _rows(MAP) if row.get("passed")]
    files = sorted({test["test"].split("::")[0] for test in tests})

    def work(items: list[Any]) -> None:
        judge = Judge(items, tests)
        for mutant in asked:
            if time.monotonic() < until:
                _appended(judge.judged(*mutant), ROWS)

    if asked:
        with_tests([file for file in files if (ROOT / file).exists()], work)


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
    parser.add_argument("--folders", nargs="*", default=FOLDERS, help="folders of the package to draw from")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long; the next call goes on")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="folders or files of tests for the map")
    parser.add_argument("--again", nargs="*", default=(), help="outcomes that are judged again, as alive")
    asked = parser.parse_args()
    MAP.parent.mkdir(exist_ok=True)
    os.environ.setdefault("TPLIMITS_CACHE", str(MAP.parent / "mutants_cache"))  # what mutants compile is nobody else's
    if asked.what == "map":
        mapped(asked.tests, asked.seconds)
        return 0
    chosen = corpus(asked.count, asked.seed, asked.folders)
    if asked.what == "run":
        known = _known()
        run([m for m in chosen if m not in known or known[m]["outcome"] in asked.again], asked.seconds)
    known = _known()
    return _told([known[mutant] for mutant in chosen if mutant in known], len(chosen))


def _known() -> dict[tuple[str, int], dict[str, Any]]:
    """The latest row of every mutant of a module that is as it was."""
    rows = ((r["file"], r["number"], r) for r in _rows(ROWS))
    return {(file, number): r for file, number, r in rows if (ROOT / file).exists() and r["source"] == _source(file)}


def _told(rows: list[dict[str, Any]], asked: int) -> int:
    """Print how many were noticed, and every one that was not; how many live."""
    equivalent = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    for row in rows:
        if row["outcome"] != "killed" and _reason(row, equivalent):
            row["outcome"] = "equivalent"
    print(f"{len(rows)} of {asked}: {dict(Counter(r['outcome'] for r in rows))}")
    for about in ("kind", "folder"):
        counts = Counter((r["kind"] if about == "kind" else r["file"].split("/")[1], r["outcome"]) for r in rows)
        print("; ".join(f"{what} {outcome} {many}" for (what, outcome), many in sorted(counts.items())))
    left = [r for r in rows if r["outcome"] in ("alive", "not run", "not planted")]
    for r in left:
        print(f"{r['outcome']}: {r['file']}:{r['line']} {r['function']}: {r['before']} → {r['after']}")
    return int(any(r["outcome"] == "alive" for r in left))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines()) if path.exists() else iter(())


if __name__ == "__main__":
    sys.exit(main())
