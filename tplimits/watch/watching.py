"""watch(): networks in training, beside their limit, as a value that remembers every frame."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import named_once
from tplimits.progress import Progress, reporting
from tplimits.version import VERSION
from tplimits.watch import file, making
from tplimits.watch.recording import Recording

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.parametrization.table import Parametrization
    from tplimits.watch.making.asked import Asked
    from tplimits.watch.making.recorder import Tape

#: the width of the limit
inf = math.inf


def watch(
    net: Program,
    X: Any,
    *,
    error: Any,
    optimizer: Any,
    lr: Any,
    steps: int,
    widths: float | Sequence[float] = (32, 128, inf),
    seeds: int | Sequence[int] = 1,
    weight_decay: Any = 0.0,
    parametrization: Parametrization | None = None,
    batches: Any = None,
    only: Iterable[str] | None = None,
    probes: Any = None,
    labels: Any = None,
    every: int | Sequence[int] | None = None,
    particles: int = 4096,
    samples: int = 256,
    sharpness: bool = False,
    path: str | PathLike[str] | None = None,
    ratios: Mapping[str, float] | None = None,
    constants: Mapping[str, Any] | None = None,
    progress: Progress = None,
    **named: Any,
) -> Recording:
    """Train a network at several widths, with its limit beside them, and remember every frame.

    >>> import tplimits as tp
    >>> @tp.network
    ... def shallow(ξ: tp.Input["d"], U: tp.Vector["d"], v: tp.Vector):
    ...     return v * tp.tanh(tp.sum(U * ξ, over="d"))
    >>> rec = watch(
    ...     shallow, [[1.0], [-1.0]], error=tp.squared_error([1.0, -1.0]), optimizer=tp.SGD(), lr=0.5, steps=4,
    ...     widths=(8, tp.inf), particles=64,
    ... )
    >>> rec.value("U", frame=-1, width=8).shape, rec.outputs(width=tp.inf).shape
    ((1, 8), (2,))
    """
    given = named_once(constants, named, "watch()", EvaluationError)
    how = making.asked.Training(error, optimizer, lr, steps, weight_decay, parametrization, batches, only)
    looked = making.asked.Looked(probes, labels, every, particles, samples, sharpness)
    asked = making.asked.asked(net, X, how, looked, given, ratios)
    pairs = [(w, s) for w in making.asked.widths_of(widths) for s in making.asked.seeds_of(seeds)]
    settings = _settings(asked)
    place = None if path is None else Path(fspath(path))
    tapes = _tapes(place, pairs)
    writer = making.recorder.Writer(place, asked, tapes, settings)
    with reporting(progress) as report:
        report.plan(sum(len(asked.frames) - len(t.frames) for t in tapes), f"training {net.name}")
        try:
            for tape in tapes:
                making.recorder.take_frames(asked, tape, report, writer.told)
        finally:
            writer.write()
    found = writer.contents()
    return Recording(found.program, found.steps, found.runs, found.probes, found.labels, found.settings)


def _tapes(path: Path | None, pairs: list[tuple[float, int]]) -> list[Tape]:
    """The runs, as far as they were recorded before."""
    known = {}
    if path is not None and path.exists():
        found = file.load(path)
        known = {(r.width, r.seed): making.recorder.tape_of(r, found.states.get((r.width, r.seed))) for r in found.runs}
    return [known.get(pair) or making.recorder.Tape(*pair) for pair in pairs]


def _settings(asked: Asked) -> dict[str, Any]:
    """How it was trained, as JSON has it."""
    recipe = asked.recipe
    exponents = {name: [str(x) for x in e] for name, e in recipe.exponents.items()}
    return {
        "parametrization": recipe.parametrization.name,
        "a_out": recipe.a_out,
        "exponents": exponents,
        "optimizers": {name: str(o) for name, o in recipe.optimizers.items()},
        "lr": {name: [rate(t) for t in asked.frames[:-1]] for name, rate in recipe.rates.items()},
        "weight_decay": {name: λ for name, λ in recipe.decays.items() if λ},
        "steps": asked.steps,
        "inputs": asked.count,
        "error": type(asked.error).__name__,
        "batches": None if asked.batches is None else str(asked.batches),
        "ratios": dict(asked.ratios),
        "particles": asked.particles,
        "samples": asked.samples,
        "version": VERSION,
    }
