"""NNGP and NTK beside Neural Tangents, in one run: first and later calls, memory, agreement, growth, physical count.

Every measurement is a fresh process with one thread, in CPU seconds.  Own: with empty caches (a call does what its
work is worth, compiled or not), and with compiled functions kept on disk, in float64 and float32.  The peer: compiled
(jit) in float64 and float32, and not (eager); its best of both dtypes and modes counts, of first calls that of jit.
A first call is from data to numbers, with what derives or builds a network before it; imports count on neither side.
Memory is the peak of a whole process above what was resident after its imports, both kernels included.

    python benchmarks/kernels.py [--quick] [--rows TEXT] [--alone] [--again] [--peer .venv-peer/bin/python]

Prints tables and exits with 1 when a bound is broken.  Rows are written to benchmarks/results/kernels.json as they are
measured; a row that stands there of the same code on the same machine is not measured again, so that the whole can be
run in parts, and one of other code stays until its turn comes, with the digest of that code.
Rows that miss a bound are measured once more, both sides; of both times the faster call counts.  Tables of
docs/comparison.md and docs/large-kernels.md are written from the file (kernel_pages.py).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import record
from kernel_rows import ALONE, QUICK, ROWS, Row, exponent

HERE = Path(__file__).parent
FILE = record.RESULTS / "kernels.json"
#: seconds after which a process is given up
PATIENCE = 400
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
ENVIRONMENT = {
    **dict.fromkeys(THREADS, "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
DTYPES = ("float64", "float32")
#: what one side answers for one row: numbers by what was run
Found = dict[str, dict[str, Any]]


def process(python: str, side: str, row: Row, job: Mapping[str, Any], caches: str) -> dict[str, Any] | None:
    """One process of one side; None where it is given up or does not offer this."""
    command = [python, "-W", "ignore", str(HERE / f"kernel_{side}.py"), row.text, json.dumps(job)]
    folders = {"XDG_CACHE_HOME": caches, "TPLIMITS_CACHE": f"{caches}/tplimits", "NUMBA_CACHE_DIR": f"{caches}/numba"}
    try:
        done = subprocess.run(
            command, env={**os.environ, **ENVIRONMENT, **folders}, capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        print(f"{side}, {row.name}, {dict(job)}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def own(row: Row, repeats: int) -> Found:
    """Our side: "cold" in float64; "warm" in both dtypes, with what a process before them has compiled."""
    found: dict[str, dict[str, Any] | None] = {}
    with tempfile.TemporaryDirectory() as caches:
        job = {"dtype": "float64", "compile": False, "repeats": 1}
        found["cold float64"] = process(sys.executable, "own", row, job, caches)
        for dtype in DTYPES:
            process(sys.executable, "own", row, {"dtype": dtype, "compile": True, "repeats": 0}, caches)
            job = {"dtype": dtype, "compile": True, "repeats": repeats}
            found[f"warm {dtype}"] = process(sys.executable, "own", row, job, caches)
    return {kind: run for kind, run in found.items() if run is not None}


def peer(python: str, row: Row, repeats: int) -> Found:
    """The other side: jit in both dtypes and eager in float64, as far as they come to an end."""
    found: Found = {}
    with tempfile.TemporaryDirectory() as caches:
        for kind in ("jit float64", "jit float32", "eager float64")[: 3 if row.eager else 2]:
            mode, dtype = kind.split()
            job = {"dtype": dtype, "jit": mode == "jit", "repeats": repeats if mode == "jit" else 1}
            run = process(python, "peer", row, job, caches)
            if run is not None:
                found[kind] = run
    return found


def later(found: Found, *kinds: str) -> float:
    """The fastest later call of some kinds of processes."""
    return min((t for k in kinds if k in found for t in found[k]["again"]), default=float("nan"))


def first(found: Found, *kinds: str) -> float:
    """The quickest way to the first numbers."""
    return min((found[k]["prepare"] + found[k]["first"] for k in kinds if k in found), default=float("nan"))


def memory(found: Found, *kinds: str) -> float:
    """The smallest peak of a process."""
    known = [found[k]["peak MiB"] for k in kinds if k in found and found[k]["peak MiB"] is not None]
    return min(known, default=float("nan"))


def difference(mine: Found, theirs: Found) -> float:
    """The largest relative difference of the corners of both kernels, in float64."""
    kind = next((k for k in ("jit float64", "eager float64") if k in theirs), None)
    if kind is None or "cold float64" not in mine:
        return float("nan")
    both = zip(mine["cold float64"]["corners"], theirs[kind]["corners"], strict=True)
    return max(float(np.abs(np.divide(a, b) - 1).max()) for a, b in both)


OWN_LATER = ("warm float64", "warm float32", "cold float64")
PEER_LATER = ("jit float64", "jit float32", "eager float64")


def judged(row: Row, mine: Found, theirs: Found) -> list[tuple[str, float, float | None]]:
    """(what, peer over own, asked): later calls in the peer's best mode and dtype, first calls of jit, memory."""
    return [
        ("later calls", later(theirs, *PEER_LATER) / later(mine, *OWN_LATER), row.faster),
        ("first call, cold", first(theirs, "jit float64") / first(mine, "cold float64"), row.sooner),
        ("memory", memory(theirs, "jit float64") / max(memory(mine, "warm float64"), 0.1), row.leaner),
    ]


def shown(row: Row, mine: Found, theirs: Found, dual: float | None) -> list[str]:
    """The cells of a row of the table of seconds."""
    columns = [
        first(mine, "cold float64"),
        first(mine, "warm float64"),
        later(mine, "cold float64"),
        later(mine, "warm float64"),
        later(mine, "warm float32"),
        first(theirs, "jit float64"),
        later(theirs, "jit float64"),
        later(theirs, "jit float32"),
        later(theirs, "eager float64"),
    ]
    reached = [1e9 * later(mine, f"warm {dtype}") / (row.pairs * row.laws) for dtype in DTYPES]
    physical = "" if dual is None else f"{row.pairs * row.laws * dual:.2g}"
    sizes = [memory(mine, "warm float64"), memory(theirs, "jit float64")]
    return [
        row.name,
        str(row.inputs),
        *("" if t != t else f"{t:.3g}" for t in columns),
        *("" if m != m else f"{m:.0f}" for m in sizes),
        f"{row.pairs * row.laws:.2g}",
        *("" if c != c else f"{c:.2f}" for c in reached),
        physical,
    ]


HEAD = (
    *("network", "N", "first cold", "first warm", "arrays f64", "later f64", "later f32"),
    *("jit first", "jit f64", "jit f32", "eager", "MiB", "jit MiB", "entries·layers", "ns f64", "ns f32", "physical s"),
)


def growth(measured: Mapping[Row, Found]) -> dict[str, float]:
    """Exponents of own later calls in inputs, places and depth, from rows that differ in one of them."""
    found = {}
    for a, b in ((a, b) for a in measured for b in measured if a.network == b.network):
        for size, name in ((a.inputs, "inputs"), (a.size, "size"), (a.depth, "depth")):
            bigger = {"inputs": b.inputs, "size": b.size, "depth": b.depth}[name]
            if size < bigger and replace(a, **{name: bigger}, name="").__dict__ | _ASKED == b.__dict__ | _ASKED:
                times = later(measured[a], "warm float64"), later(measured[b], "warm float64")
                # places go with the square of a side
                factor = (bigger / size) ** (2 if name == "size" and a.network in ("flat", "myrtle") else 1)
                found[f"{a.name}: {name} {size} → {bigger}"] = round(exponent(*times, factor), 2)
    return found


_ASKED = {"name": "", "faster": None, "sooner": None, "leaner": None, "apart": 0.0, "eager": True}


def dual_seconds(measured: Mapping[Row, Found]) -> float | None:
    """What a law costs a pair in the loop of perceptrons: the slope of their time in depth."""
    fc = sorted((r for r in measured if r.network == "perceptron" and r.size == 8), key=lambda r: r.depth)
    slopes = [
        (later(measured[b], "warm float64") - later(measured[a], "warm float64")) / (a.pairs * (b.depth - a.depth))
        for a, b in pairwise(fc)
    ]
    return min(slopes, default=None)


def within(row: Row, mine: Found, theirs: Found) -> bool:
    """Whether a row keeps its bounds."""
    return all(asked is None or ratio >= asked for _, ratio, asked in judged(row, mine, theirs))


def together(one: Found, other: Found) -> Found:
    """Two measurements of a row: later calls of both, the quicker first call, the smaller memory."""
    found = dict(one)
    for kind, run in other.items():
        if kind in one:
            quicker = min((one[kind], run), key=lambda r: r["prepare"] + r["first"])
            sizes = [r["peak MiB"] for r in (one[kind], run) if r["peak MiB"] is not None]
            run = {**quicker, "again": one[kind]["again"] + run["again"], "peak MiB": min(sizes, default=None)}
        found[kind] = run
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure what is not there, print, judge, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small inputs and no bounds: a look, not a measurement")
    parser.add_argument("--rows", default="", help="only rows whose name contains this text")
    parser.add_argument("--alone", action="store_true", help="our side alone: nothing is kept")
    parser.add_argument("--again", action="store_true", help="measure rows that are kept, too")
    parser.add_argument("--peer", default=str(HERE.parent / ".venv-peer/bin/python"), help="its Python")
    options = parser.parse_args(arguments)
    rows = [r for r in (QUICK if options.quick else (*ROWS, *ALONE)) if options.rows in r.name]
    keeping = not (options.quick or options.alone)
    kept = kept_rows() if keeping else {}

    def measure(row: Row) -> None:
        repeats = (2 if options.quick else 3) if row.inputs < 1000 else 1
        begun, mine = time.time(), own(row, repeats)
        theirs = {} if options.alone or row in ALONE else peer(options.peer, row, repeats)
        apart = difference(mine, theirs)
        known = kept.get(row)
        if known is not None and known.code == code():
            mine, theirs = together(known.own, mine), together(known.peer, theirs)
        kept[row] = Kept(mine, theirs, apart, time.time() - begun, code())
        print(*shown(row, mine, theirs, None), sep="  ", flush=True)
        if keeping:
            save(kept)

    for row in rows:
        if row not in kept or kept[row].code != code() or options.again:
            measure(row)
    for row in rows:
        if keeping and row not in ALONE and not within(row, kept[row].own, kept[row].peer):
            measure(row)
    found = {row: kept[row] for row in rows}
    dual = dual_seconds({r: k.own for r, k in found.items()})
    print(record.table(HEAD, [shown(r, k.own, k.peer, dual) for r, k in found.items()]))
    good, lines = judgement({r: k for r, k in found.items() if r not in ALONE and not options.alone}, options.quick)
    print(record.table(["network", "N", "peer over own", "", "asked", ""], lines))
    exponents = growth({r: k.own for r, k in found.items()})
    print(
        record.table(["own later calls, float64", "grow with the power"], [[k, str(v)] for k, v in exponents.items()])
    )
    return 0 if good else 1


def judgement(found: Mapping[Row, Kept], quick: bool) -> tuple[bool, list[list[str]]]:
    """Whether all rows agree and keep their bounds, and a line for each."""
    good, lines = True, []
    for row, kept in found.items():
        agrees = kept.apart <= row.apart
        cells = ["differ by", f"{kept.apart:.1e}", f"≤ {row.apart:g}", record.verdict(agrees)]
        lines.append([row.name, str(row.inputs), *cells])
        good &= agrees
        for what, ratio, asked in judged(row, kept.own, kept.peer):
            fine = asked is None or quick or ratio >= asked
            good &= fine
            bound = f"≥ {asked}" if asked else ""
            lines.append([row.name, str(row.inputs), what, f"{ratio:.2f}", bound, record.verdict(fine)])
    return good, lines


@dataclass
class Kept:
    """What a row has found: both sides, the largest relative difference, how long it took, by which code."""

    own: Found
    peer: Found
    apart: float
    seconds: float
    code: str


def code() -> str:
    """A digest of the files that decide these numbers."""
    package = HERE.parent / "tplimits"
    folders = [package / "numbers", *(package / "regimes/kernels" / name for name in ("derivation", "numbers"))]
    files = [
        *(HERE / f"kernel_{name}.py" for name in ("clock", "own", "peer")),
        *(f for d in folders for f in d.rglob("*.py")),
    ]
    text = b"".join(f.name.encode() + f.read_bytes() for f in sorted(files))
    return hashlib.sha256(text).hexdigest()[:16]


def kept_rows() -> dict[Row, Kept]:
    """Rows of the file that were measured on this machine and with these versions."""
    try:
        known = json.loads(FILE.read_text())
    except (OSError, ValueError):
        return {}
    if (known.get("machine"), known.get("versions")) != (record.machine(), record.versions()):
        return {}
    return {Row(**r["row"]): Kept(r["own"], r["peer"], r["apart"], r["seconds"], r["code"]) for r in known["rows"]}


def save(kept: Mapping[Row, Kept]) -> None:
    """Leave the measurements in a file, and their tables in the pages."""
    order = [r for r in (*ROWS, *ALONE) if r in kept]
    rows = [
        {"row": asdict(r), "own": _kept(kept[r].own), "peer": _kept(kept[r].peer), "apart": kept[r].apart}
        | {"seconds": round(kept[r].seconds, 1), "code": kept[r].code}
        for r in order
    ]
    owns = {r: kept[r].own for r in order}
    _, lines = judgement({r: kept[r] for r in order if r not in ALONE}, False)
    whole = {"rows": rows, "growth": growth(owns), "seconds of a law": dual_seconds(owns)}
    record.save(FILE, {**whole, "judged": lines}, sum(k.seconds for k in kept.values()))


def _kept(found: Found) -> Found:
    return {kind: {k: v for k, v in run.items() if k != "corners"} for kind, run in found.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
