"""Finished replicates of a run in the operator regime, kept in a file."""

from __future__ import annotations

import hashlib

import numpy
from numpy.typing import NDArray

from tplimits.numeric.training import checkpoint
from tplimits.numeric.training.tangent_request import TangentRequest
from tplimits.program.serial import to_json

Array = NDArray[numpy.float64]


def fingerprint(asked: TangentRequest) -> str:
    """What a run was asked for, as a short text; of functions (error signals, rates) only values at the start are seen.

    A checkpoint of another run is refused; the number of replicates may grow.
    """
    operator, digest = asked.operator, hashlib.sha256()
    parts = [
        to_json(operator.whole),
        repr(sorted(operator.optimizers.items(), key=lambda item: item[0])),
        repr(operator.weight_decay),
        repr(asked.steps),
    ]
    parts += [repr((asked.particles, asked.block, asked.white, asked.seed)), repr(sorted(asked.ratios.items()))]
    parts += [
        repr(
            [
                (name, rate(t))
                for name, rate in sorted(asked.rates.items(), key=lambda item: item[0])
                for t in range(asked.steps)
            ]
        )
    ]
    for part in parts:
        digest.update(part.encode())
    arrays = {**asked.X, **asked.given, "f0": 0.0 if asked.f0 is None else asked.f0}
    for name, array in sorted(arrays.items()):
        digest.update(name.encode())
        digest.update(numpy.ascontiguousarray(numpy.asarray(array, dtype=numpy.float64)).tobytes())
    return digest.hexdigest()


def finished(asked: TangentRequest) -> list[Array]:
    """The replicates that the file holds."""
    assert asked.checkpoint is not None
    held = checkpoint.load(asked.checkpoint, fingerprint(asked))
    return list(held["runs"])[: asked.replicates] if held else []


def keep(asked: TangentRequest, runs: list[Array]) -> None:
    """Write the replicates so far."""
    assert asked.checkpoint is not None
    checkpoint.save(asked.checkpoint, {"fingerprint": fingerprint(asked), "runs": numpy.array(runs)})
