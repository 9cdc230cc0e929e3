"""Rows of long studies, kept in `results/`: what `--full` measured once, and everybody else reads.

A study is a file of JSON lines, one a run: what was run, what came out, and the seconds of one processor that it took.
With `--full` rows that are missing are made and written one by one: killed anywhere, the same call goes on.  Without it
scripts judge the rows that are there, and make few of them again to see that they are still what is found.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.stats import binomtest

#: digits that are kept
DIGITS = 5
FOLDER = pathlib.Path(__file__).parent / "results"
Row = Mapping[str, Any]


class Study:
    """The rows of one study by what was run."""

    def __init__(self, name: str, full: bool) -> None:
        self.path, self.full = FOLDER / f"{name}.jsonl", full
        text = self.path.read_text() if self.path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text and full:  # killed while it wrote a line
            self.path.write_text(whole)
        self.rows: dict[str, Row] = {}
        for line in whole.splitlines():
            row = json.loads(line)
            self.rows[_key(row["run"])] = row

    def row(self, make: Callable[[], Mapping[str, Any]], **run: Any) -> Row | None:
        """The row of a run; one that is missing is made with `--full`, and None without."""
        key = _key(run)
        if key not in self.rows and self.full:
            begun = time.process_time()
            found = {name: rounded(value) for name, value in make().items()}
            row = {"run": run, **found, "seconds": round(time.process_time() - begun, 2)}
            self.path.parent.mkdir(exist_ok=True)
            with self.path.open("a") as out:
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
            self.rows[key] = row
        return self.rows.get(key)

    def again(self, make: Callable[[], Mapping[str, Any]], **run: Any) -> float:
        """The largest difference between a row and the same made now, relative where numbers are above 1."""
        row = self.row(make, **run)
        if row is None:
            return float("nan")
        pairs = ((np.array(row[name], float), np.array(value, float)) for name, value in make().items())
        return float(max((np.abs(a - b) / np.maximum(1, np.abs(a))).max() for a, b in pairs))

    def having(self, **run: Any) -> list[Row]:
        """All rows of runs with these settings."""
        return [row for row in self.rows.values() if all(row["run"].get(k) == v for k, v in run.items())]

    @property
    def seconds(self) -> float:
        """What all rows took, on one processor."""
        return float(sum(row["seconds"] for row in self.rows.values()))

    def told(self) -> None:
        """How much there is."""
        state = f"{len(self.rows)} runs, {self.seconds / 60:.0f} minutes of one processor"
        print(f"  {self.path.name}: {state}" + ("" if self.full else "; --full makes those that are missing"))


def rounded(value: Any) -> Any:
    """Arrays and numbers as JSON has them, with few digits."""
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, np.ndarray | list | tuple):
        return [rounded(one) for one in (value.tolist() if isinstance(value, np.ndarray) else value)]
    return value.item() if isinstance(value, np.generic) else value


def share(successes: int, of: int) -> tuple[float, float, float]:
    """A share with both ends of its interval of 95 %, after Clopper and Pearson."""
    ends = binomtest(successes, of).proportion_ci()
    return successes / of, float(ends.low), float(ends.high)


def shown(successes: int, of: int) -> str:
    """The same, as text."""
    p, low, high = share(successes, of)
    return f"{successes} of {of} = {p:.2f} ({low:.2f} to {high:.2f})"


def _key(run: Mapping[str, Any]) -> str:
    return json.dumps(run, sort_keys=True)
