"""Checkpoints of long runs: nested dictionaries of arrays, numbers and text in one NumPy archive.

Files are written whole or not at all, and reading one runs no code.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy

from tplimits.errors import EvaluationError
from tplimits.numeric.training.columns import State
from tplimits.numeric.training.request import Request
from tplimits.program.loss import SquaredError
from tplimits.program.serial import to_json


def fingerprint(asked: Request) -> str:
    """What a run was asked for, as a short text.

    Of rates that are functions the value at the start is seen, of error signals only those of `squared_error`.
    """
    digest = hashlib.sha256()
    parts: list[object] = [to_json(asked.recursion.network), asked.recursion.optimizers, asked.recursion.weight_decay]
    parts += [
        asked.particles,
        asked.block,
        asked.white,
        asked.seed,
        asked.steps,
        sorted(asked.ratios.items()),
        asked.record,
    ]
    parts += [{name: rate(0) for name, rate in asked.lr.items()}]
    if isinstance(asked.error, SquaredError):
        parts += [asked.error.targets.tolist(), asked.error.train.tolist()]
    for part in parts:
        digest.update(repr(part).encode())
    for name, array in [*sorted(asked.X.items()), *sorted(asked.given.items())]:
        digest.update(name.encode())
        digest.update(numpy.ascontiguousarray(numpy.asarray(array, dtype=numpy.float64)).tobytes())
    return digest.hexdigest()


def save(path: Path, state: State) -> None:
    """Write a nested dictionary."""
    temporary = path.with_name(path.name + ".part")
    with open(temporary, "wb") as file:
        numpy.savez(file, **_flat(state, ""))
    os.replace(temporary, path)


def load(path: Path, expected: str) -> State | None:
    """Read what `save` wrote; None if there is no such file.

    Raises EvaluationError for a file that is no checkpoint, or one of another run.
    """
    if not path.exists():
        return None
    try:
        with numpy.load(path, allow_pickle=False) as archive:
            state = _nested({key: archive[key] for key in archive.files})
    except (OSError, ValueError, zipfile.BadZipFile, EOFError):
        raise EvaluationError(f"checkpoint={str(path)!r}: the file is no checkpoint of tplimits.") from None
    if str(state.get("fingerprint")) != expected:
        raise EvaluationError(
            f"checkpoint={str(path)!r}: the file belongs to another run (another network, data, optimizer, seed or "
            "number of particles); give another file, or delete it."
        )
    return state


def _flat(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in state.items():
        if isinstance(value, Mapping):
            found[f"{prefix}{key}/"] = numpy.empty(0)  # dictionaries may be empty
            found.update(_flat(value, f"{prefix}{key}/"))
        else:
            found[prefix + key] = numpy.asarray(value)
    return found


def _nested(flat: Mapping[str, Any]) -> State:
    found: State = {}
    for key, value in flat.items():
        *folders, name = key.split("/")
        place = found
        for folder in folders:
            place = place.setdefault(folder, {})
        if name:
            place[name] = value
    return found
