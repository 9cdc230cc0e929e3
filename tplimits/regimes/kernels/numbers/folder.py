"""Gram matrices in a folder: tiles as they are finished, then whole arrays; read without running anything.

    manifest.json         what was asked: network, parameters, constants, a hash of the data, sizes, versions
    lock                  held by the process that writes
    tile-00017.npz        a finished tile, until the arrays are complete
    nngp.npy, ntk.npy     the arrays, in the end

Every file is written beside its place and renamed, so that it is there whole or not at all.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy

from tplimits.arrays import AnyArray as Array
from tplimits.errors import EvaluationError
from tplimits.pages.files import place_of, write_by
from tplimits.program.files.arrays import mapped, unpack
from tplimits.program.files.locks import BusyError, FileLock
from tplimits.regimes.kernels.numbers.manifest import Manifest, read_manifest
from tplimits.regimes.kernels.numbers.request import KernelPair, NNGPAlone, paired, shape_of
from tplimits.regimes.kernels.numbers.symmetry import transposed

if TYPE_CHECKING:
    from tplimits.regimes.kernels.numbers.job import Found, Job

_MANIFEST = "manifest.json"


class GramFolder:
    """A folder that a job fills; a context, which holds its lock.

    Raises EvaluationError for a folder of another computation or of other files, one that another process writes to,
    and where nothing can be written: what was complete stays.
    """

    def __init__(self, place: Any, job: Job) -> None:
        try:
            self.path = Path(place)
        except TypeError:
            raise EvaluationError(f'out={place!r}: give a folder, as in out="gram".') from None
        if not self.path.name or "\0" in self.path.name:
            raise self.refused('it has no name; give a folder of its own, as in out="gram"')
        if not self.path.absolute().parent.is_dir():
            raise self.refused(f"there is no folder {str(self.path.parent)!r} to make it in")
        self.job, self.manifest = job, Manifest.of(job)
        self.finished: set[int] = set()

    def refused(self, reason: str) -> EvaluationError:
        """The error of this folder."""
        return EvaluationError(f"out={str(self.path)!r}: {reason}.")

    @property
    def is_complete(self) -> bool:
        """Whether the arrays are there, those of this job."""
        known = self._known()
        return known is not None and known.is_complete

    def __enter__(self) -> GramFolder:
        try:
            self.path.mkdir(exist_ok=True)
            known = self._known()
            self._lock = FileLock(self.path / "lock")
            self._lock.__enter__()
        except BusyError as error:
            raise self.refused(f"{error} is writing there; wait for it, or give another folder") from None
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            self._begin(known)
        except BaseException:
            self._lock.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(*error)

    def _known(self) -> Manifest | None:
        """What the folder holds, None if nothing; refuses what is not of this job."""
        if self.path.exists() and not self.path.is_dir():
            raise self.refused("it is a file; give a folder")
        here = sorted(p.name for p in self.path.iterdir()) if self.path.is_dir() else []
        if _MANIFEST not in here:
            others = [name for name in here if name != "lock" and not name.startswith(_MANIFEST)]
            if others:
                raise self.refused(
                    f"it holds other files ({others[0]!r}), and no Gram matrices; give a folder of its own"
                )
            return None
        known = read_manifest(self.path / _MANIFEST)
        other = self.manifest.difference(known)
        if other:
            raise self.refused(
                f"it holds Gram matrices of another computation ({other}); give another folder, or delete this one"
            )
        return known

    def _begin(self, known: Manifest | None) -> None:
        if known is None:
            self._say(self.manifest)
        for path in self.path.glob("*.part"):  # of a process that was killed
            path.unlink()
        if known is not None and known.is_complete:
            self._clear()
        numbers = range(len(self.job.places))
        self.finished = {n for n in numbers if self._tile(n).exists()}

    def tidy(self) -> None:
        """Remove the tiles that a process killed at the very end has left beside complete arrays, if that can be."""
        if next(self.path.glob("tile-*.npz"), None) is not None:
            with suppress(EvaluationError), self:
                pass

    def keep(self, number: int, found: Found) -> None:
        """Write a tile; it is there when this returns."""
        arrays = dict(zip(self.job.names, found.values, strict=True))
        buffer = io.BytesIO()
        numpy.savez(buffer, error=numpy.float64(found.error), **arrays)  # type: ignore[arg-type]
        self._written(self._tile(number).name, lambda file: file.write(buffer.getbuffer()))
        # after the write: an interruption before it has the tile made again
        self.finished.add(number)

    def assembled(self) -> None:
        """Write the arrays from all tiles, then remove these."""
        errors = [float(self._read(n, "error")) for n in range(len(self.job.places))]
        for name in self.job.names:
            self._written(f"{name}.npy", partial(self._fill, name))
        # tiles go only once a manifest says that the arrays are whole
        self._say(self.manifest.completed(max(errors)))
        self._clear()

    def _fill(self, name: str, file: BinaryIO) -> None:
        """An array in the order of its rows, a row of tiles at a time."""
        asked = self.job.asked
        shape = shape_of(asked)
        header = {"descr": numpy.lib.format.dtype_to_descr(numpy.dtype(asked.dtype)), "fortran_order": False}
        numpy.lib.format.write_array_header_1_0(file, {**header, "shape": shape})
        # a band at a time: the whole array may not fit into memory
        for rows in dict.fromkeys((p[0].start, p[0].stop) for p in self.job.places):
            band = numpy.empty((rows[1] - rows[0], *shape[1:]), asked.dtype)
            for number, (i, j) in enumerate(self.job.places):
                if (i.start, i.stop) == rows:
                    band[:, j] = self._read(number, name)
                # tiles below the diagonal are not made
                elif asked.symmetric and (j.start, j.stop) == rows:
                    band[:, i] = transposed(self._read(number, name))
            file.write(band.data)

    def _read(self, number: int, name: str) -> Array:
        path = self._tile(number)
        try:
            found: Array = unpack(path, (name,))[name]
        except (OSError, KeyError, EvaluationError) as error:
            raise self.refused(f"{path.name} is damaged ({error}); delete it and call again") from None
        rows, columns = self.job.places[number]
        inner = shape_of(self.job.asked)[2:]
        wanted = () if name == "error" else (rows.stop - rows.start, columns.stop - columns.start, *inner)
        if found.shape != wanted or found.dtype.kind != "f":
            what = f"{found.dtype} of shape {found.shape}"
            raise self.refused(f"{path.name} is damaged ({what}); delete it and call again")
        return found

    def _tile(self, number: int) -> Path:
        return self.path / f"tile-{number:05d}.npz"

    def _clear(self) -> None:
        for path in self.path.glob("tile-*.npz"):
            path.unlink()

    def _say(self, manifest: Manifest) -> None:
        self._written(_MANIFEST, lambda file: file.write(manifest.text.encode()))

    def _written(self, name: str, fill: Callable[[BinaryIO], Any]) -> None:
        try:
            write_by(self.path / name, fill)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> EvaluationError:
        done, many = len(self.finished), len(self.job.places)
        return self.refused(
            f"{os.strerror(error.errno) if error.errno else error}; {done} of {many} tiles are complete and stay. "
            "Make room or give a folder that can be written to, and call again"
        )


@dataclass(frozen=True)
class Stored:
    """What a complete folder holds."""

    pair: KernelPair | NNGPAlone
    manifest: Manifest
    path: Path


def read_folder(place: Any) -> Stored:
    """The complete arrays of a folder, mapped to memory, read-only; EvaluationError where there are none."""
    path = place_of("path", place)
    manifest = read_manifest(path / _MANIFEST)
    if manifest.error is None:
        done = sum(1 for _ in path.glob("tile-*.npz"))
        raise EvaluationError(
            f"{str(path)!r} holds {done} of {manifest.tiles} tiles: evaluate(…, out=…) of the same data goes on there."
        )
    arrays = {name: _mapped(path / f"{name}.npy", manifest) for name in manifest.names}
    return Stored(paired(arrays, manifest.error, manifest.no_ntk), manifest, path)


def _mapped(path: Path, manifest: Manifest) -> Array:
    """One array, mapped; EvaluationError for what is no array of this shape."""
    try:
        found: Array = mapped(path)
    except (OSError, EvaluationError) as error:
        raise EvaluationError(f"{str(path)!r} cannot be read: {error}.") from None
    if found.shape != manifest.shape or found.dtype.name != manifest.dtype:
        raise EvaluationError(
            f"{str(path)!r} holds {found.dtype} of shape {found.shape}, not {manifest.dtype} of {manifest.shape}."
        )
    for band in found:  # a row at a time: the array may be larger than memory
        if not numpy.isfinite(band).all():
            raise EvaluationError(f"{str(path)!r} is damaged: it has NaN or infinite entries.")
    return found
