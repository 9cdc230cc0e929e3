"""Random programs against finite width: `make fuzz N=1000 START=0`, or `python -m fuzz --help`.

Outcomes go to a file, one line of JSON a case; what stands in it already is not judged again, so that a run that was
interrupted goes on where it stopped.  The exit status is 1 if anything was wrong or foreign.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from fuzz.cases import MAKERS, case, seeds
from fuzz.judging import judge, row_of
from fuzz.patience import PATIENCE

#: outcomes that a person reads with the source beside them
SHOWN = ("wrong", "spelling", "foreign", "illegal", "unchecked", "slow", "series")
#: what may not happen
BAD = ("wrong", "foreign", "illegal")


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="how many cases")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--regime", choices=[*MAKERS], help="this regime alone")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz.jsonl"), help="where outcomes are kept")
    parser.add_argument("--seconds", type=int, default=PATIENCE, help="patience with one case")
    parser.add_argument("--show", type=int, metavar="SEED", help="print and judge one case")
    return parser.parse_args(given)


def kept(path: Path) -> dict[int, dict[str, Any]]:
    """Outcomes that were found before, by seed."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {row["seed"]: row for row in map(json.loads, lines)}


def table(rows: Iterable[dict[str, Any]]) -> Table:
    """Outcomes by regime: how many of each kind, refusals by reason and by why they are reasonable."""
    rows = list(rows)
    counts = Counter((r["kind"], r["reason"], r["verdict"], r["regime"]) for r in rows)
    found = Table("outcome", "reason", "judged", *MAKERS, "all", title=f"{len(rows)} random programs")
    for kind, reason, verdict in sorted({key[:3] for key in counts}):
        numbers = [counts[kind, reason, verdict, regime] for regime in MAKERS]
        found.add_row(kind, reason, verdict, *(str(x or "") for x in numbers), str(sum(numbers)))
    totals = [sum(1 for r in rows if r["regime"] == regime) for regime in MAKERS]
    found.add_row("all", "", "", *map(str, totals), str(len(rows)))
    return found


def tell(console: Console, row: dict[str, Any]) -> None:
    """One case with its source and what was found."""
    what = " · ".join(x for x in (row["kind"], row["reason"], row["verdict"]) if x)
    console.print(f"\n== {what} ({row['seconds']} s)", markup=False, highlight=False)
    console.print(str(case(row["seed"])), row["detail"], sep="\n", markup=False, highlight=False, soft_wrap=True)


def main(given: list[str] | None = None) -> int:
    """Judge what was asked for and print a table; 1 where something was wrong."""
    asked, console = arguments(given), Console()
    if asked.show is not None:
        row = row_of(judge(case(asked.show), seconds=asked.seconds))
        tell(console, row)
        return int(row["kind"] in BAD)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    known = kept(asked.out)
    wanted = seeds(asked.start, asked.count, asked.regime)
    with asked.out.open("a", encoding="utf-8") as file:
        for seed in track([s for s in wanted if s not in known], "fuzz", console=Console(stderr=True)):
            row = row_of(judge(case(seed), seconds=asked.seconds))
            known[seed] = row
            print(json.dumps(row, ensure_ascii=False), file=file, flush=True)
            if row["kind"] in SHOWN or row["verdict"] == "to read":
                tell(console, row)
    rows = [known[s] for s in wanted]
    console.print(table(rows))
    return int(any(row["kind"] in BAD for row in rows))


if __name__ == "__main__":
    sys.exit(main())
