"""Gram matrices in files, which appear under their names when they are complete."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError

Array = NDArray[numpy.float64]


class GramFiles:
    """Arrays STEM.nngp.npy and STEM.ntk.npy: written under temporary names, which are gone afterwards in any case."""

    def __init__(self, stem: Any) -> None:
        try:
            self.stem = Path(stem)
        except TypeError:
            raise EvaluationError(f'out={stem!r}: give the beginning of file names, as in out="gram".') from None
        if not self.stem.name:
            raise EvaluationError(f'out={stem!r} has no name; give the beginning of file names, as in out="gram".')
        if not self.stem.parent.is_dir():
            raise EvaluationError(f"out={str(stem)!r}: there is no folder {str(self.stem.parent)!r}.")
        self.parts: dict[str, tuple[Path, numpy.memmap[Any, Any]]] = {}

    def __enter__(self) -> GramFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path, _ in self.parts.values():
            path.unlink(missing_ok=True)

    def empty(self, kernel: str, shape: tuple[int, ...]) -> Array:
        """The array of one kernel, to be filled."""
        part = self._path(kernel).with_suffix(f".{uuid.uuid4().hex[:8]}.part")
        try:
            array = numpy.lib.format.open_memmap(part, mode="w+", dtype=numpy.float64, shape=shape)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise EvaluationError(f"out={str(self.stem)!r}: the file cannot be written: {error}.") from None
        self.parts[kernel] = (part, array)
        return array

    def published(self) -> dict[str, Array]:
        """The complete arrays under their names, mapped to memory, read-only."""
        for kernel, (part, array) in self.parts.items():
            array.flush()
            os.replace(part, self._path(kernel))
        return {kernel: numpy.load(self._path(kernel), mmap_mode="r") for kernel in self.parts}

    def _path(self, kernel: str) -> Path:
        return self.stem.with_name(f"{self.stem.name}.{kernel}.npy")
