"""Gram matrices as they are asked for: in memory or in a folder, here or by the workers of an executor."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

import numpy

from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import working_executor
from tplimits.progress import Progress, reporting
from tplimits.regimes.kernels.numbers import evaluation, workers
from tplimits.regimes.kernels.numbers.folder import GramFolder, Stored, read_folder
from tplimits.regimes.kernels.numbers.job import Job
from tplimits.regimes.kernels.numbers.request import (
    GramRequest,
    KernelPair,
    NNGPAlone,
    paired,
    refuse_mixture,
    shape_of,
)
from tplimits.regimes.kernels.numbers.symmetry import put_transposed


def evaluated(
    asked: GramRequest, sampling: Mapping[str, Any], progress: Progress, executor: Executor | None
) -> KernelPair | NNGPAlone:
    """Both kernels of a request, in memory."""
    working_executor(executor, EvaluationError)
    if executor is None:
        return evaluation.evaluate(asked, **sampling, progress=progress)
    refuse_mixture(asked.derivation)
    job = Job(asked, sampling)
    arrays = {name: numpy.empty(shape_of(job.asked), job.asked.dtype) for name in job.names}
    largest = 0.0
    with reporting(progress) as report:
        report.plan(len(job.places), "tiles of pairs")
        for number, found in workers.in_turn(job, range(len(job.places)), executor):
            rows, columns = job.places[number]
            for array, value in zip(arrays.values(), found.values, strict=True):
                array[rows, columns] = value
                if job.asked.symmetric and rows != columns:
                    put_transposed(array[columns, rows], value)
            largest = max(largest, found.error)
            report.advance(1)
    return paired(arrays, largest, job.asked.derivation.no_ntk)


def stored(
    asked: GramRequest, sampling: Mapping[str, Any], progress: Progress, out: Any, executor: Executor | None
) -> Stored:
    """Both kernels of a request in a folder; tiles that are there are not computed again."""
    working_executor(executor, EvaluationError)
    refuse_mixture(asked.derivation)
    job = Job(asked, sampling)
    folder = GramFolder(out, job)
    if folder.is_complete:
        folder.tidy()
    else:
        with folder, reporting(progress) as report:
            missing = [n for n in range(len(job.places)) if n not in folder.finished]
            report.plan(len(job.places), "tiles of pairs")
            report.advance(len(folder.finished))
            for number, found in workers.in_turn(job, missing, executor):
                folder.keep(number, found)
                report.advance(1)
            folder.assembled()
    return read_folder(folder.path)
