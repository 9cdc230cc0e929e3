"""Hostile cases: `make attack N=3000 START=0`, or `python -m attack --help`.

Outcomes go to a file, one line of JSON a case, and the same command goes on from there.  The exit status is 1 if a case
ended in an exception of others, in more than a minute, in a number that is none, or beyond the memory that is allowed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import sys
import tempfile
from collections import Counter
from pathlib import Path

from attack.arguments import cells, sweep
from attack.cases import KINDS, case, kind_of
from attack.judging import BAD, judge

#: what all cases of a process may take together
MEMORY = 1 << 30


def main() -> int:
    """Judge the cases that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m attack", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--count", type=int, help="3000; all calls of a sweep")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--kind", choices=[*KINDS])
    parser.add_argument("--sweep", action="store_true", help="every argument of every public function exchanged")
    parser.add_argument("--out", type=Path, help="build/attack.jsonl, build/sweep.jsonl")
    parser.add_argument("--show", type=int, metavar="SEED", help="judge one case and print how it ended")
    asked = parser.parse_args()
    if asked.show is not None:
        print(json.dumps(row(asked.show, asked.sweep), ensure_ascii=False, indent=1).replace("\\n", "\n"))
        return 0
    out = asked.out or Path("build/sweep.jsonl" if asked.sweep else "build/attack.jsonl")
    count = asked.count or (cells() if asked.sweep else 3000)
    out.parent.mkdir(parents=True, exist_ok=True)
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    known = {found["seed"]: found for found in map(json.loads, lines)}
    seeds = [s for s in range(asked.start, asked.start + count) if asked.sweep or asked.kind in (None, kind_of(s))]
    with out.open("a", encoding="utf-8") as file:
        for seed in seeds:
            if seed not in known:
                known[seed] = row(seed, asked.sweep)
                print(json.dumps(known[seed]), file=file, flush=True)
    found = [known[seed] for seed in seeds]
    counts = Counter((r["kind"], r["outcome"]) for r in found)
    for (kind, outcome), many in sorted(counts.items()):
        print(f"{kind:12} {outcome:12} {many}")
    bad = [r for r in found if r["outcome"] in BAD]
    for r in bad[:40]:
        print(f"\nseed {r['seed']}, {r['kind']}, {r['outcome']}: {r['said']}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    slowest = max(found, key=lambda r: r["seconds"], default={"seconds": 0, "seed": None})
    print(
        f"\n{len(found)} cases, {len(bad)} defects; slowest {slowest['seconds']} s (seed {slowest['seed']});", end=" "
    )
    print(f"memory {memory / 2**20:.0f} MB")
    return int(bool(bad) or memory > MEMORY)


def row(seed: int, of_sweep: bool = False) -> dict[str, object]:
    """How the case of a seed ended."""
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):  # names of files stand among the arguments
        try:
            run = sweep(seed) if of_sweep else case(seed, Path(place))
        except Exception as problem:
            raise RuntimeError(f"the case of seed {seed} cannot be made") from problem
        found = judge(run)
    said = found.said.encode("utf-8", "backslashreplace").decode()
    return {
        "seed": seed, "kind": "sweep" if of_sweep else kind_of(seed), "outcome": found.kind,
        "seconds": round(found.seconds, 2), "said": said,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
