"""Many independent jobs over several processes, with a bar in a terminal."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from tplimits.progress import reporting

T = TypeVar("T")


def results(job: Callable[..., T], arguments: Sequence[tuple[Any, ...]], workers: int, text: str) -> list[T]:
    """job(*a) for all a, in their order; seeds belong to the arguments, so that workers change nothing."""
    found = []
    # new interpreters: a fork of a process with threads of linear algebra can hang
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool, reporting(None) as report:
        report.plan(len(arguments), text)
        waiting = [pool.submit(job, *a) for a in arguments]
        for future in waiting:
            found.append(future.result())
            report.advance(1)
    return found


def command(description: str | None, seeds: int, quick: int) -> argparse.ArgumentParser:
    """The options that the measurements have in common."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=seeds, help=f"seeds per program ({seeds})")
    parser.add_argument(
        "--quick", dest="seeds", action="store_const", const=quick, help=f"{quick} seeds: a look, not a measurement"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (one per processor)")
    parser.add_argument("--json", type=Path, help="where the numbers go (a full measurement: benchmarks/results)")
    return parser
