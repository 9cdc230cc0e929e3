"""Gram matrices that are stored: read without running anything, predicted with without the network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.errors import EvaluationError
from tplimits.pages.report import Report, Reported
from tplimits.program.files.serial import from_json
from tplimits.regimes.kernels import numbers as kernels
from tplimits.regimes.kernels import regression as inference
from tplimits.regimes.kernels.inference import Inference

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.progress import Progress
    from tplimits.regimes.kernels.numbers.folder import Stored
    from tplimits.regimes.kernels.numbers.request import Array
    from tplimits.regimes.kernels.regression.blocks import Blocks


@dataclass(frozen=True, eq=False)
class StoredKernels(Reported, Inference):
    """Gram matrices of a folder, (N1, N2, *axes, *axes), mapped to memory; unpacks into NNGP and NTK.

    Predictions are those of `tp.KernelLimit`, with numbers of inputs where these have data: `posterior(train, y, test)`
    takes the outputs y of the inputs number `train` and predicts those number `test` (None: of `train`).

    Raises EvaluationError for numbers that are none of its inputs, a matrix between two batches, constants that are
    given again, and what predictions from data raise.
    """

    _found: Stored

    def __repr__(self) -> str:
        about = self._found.manifest
        kernels_of = " and ".join(name.upper() for name in ("nngp", "ntk") if name in about.names)
        return f"{kernels_of} of `{about.network}` in {str(self.path)!r}: {about.dtype} of shape {about.shape}"

    def __iter__(self) -> Iterator[Array]:
        return iter(self._found.pair)

    def report(self) -> Report:
        """The matrices as pictures, drawn from some of their rows; the files stay where they are."""
        return replace(self._found.pair.report(), title=f"Stored kernels of {self.program.name}", text=repr(self))

    @property
    def nngp(self) -> Array:
        """K, read-only."""
        return self._found.pair.nngp

    @property
    def ntk(self) -> Array:
        """Θ, read-only; NoLimitError where it has no limit."""
        return self._found.pair.ntk

    @property
    def nngp_error(self) -> Array | float:
        """Standard errors where logits are drawn, else an error bound."""
        return self._found.pair.nngp_error

    @property
    def ntk_error(self) -> Array | float:
        """The same of Θ."""
        return getattr(self._found.pair, "ntk_error", self.nngp_error)

    @property
    def path(self) -> Path:
        """The folder."""
        return self._found.path

    @property
    def program(self) -> Program:
        """The network."""
        return from_json(self._found.manifest.program)

    @property
    def trained(self) -> tuple[str, ...]:
        """The parameters whose training Θ describes."""
        return self._found.manifest.trained

    def _blocks(
        self, X1: Any, X2: Any, constants: Any, named: dict[str, Any], ratios: Any, progress: Progress, call: str
    ) -> Blocks:
        about = self._found.manifest
        for option in ("constants", "ratios", *named):
            if named.get(option, {"constants": constants, "ratios": ratios}.get(option)) is not None:
                raise EvaluationError(
                    f"{call}: `{option}` is given, but the matrices in {str(self.path)!r} are there, for the constants "
                    "of their own; leave it out, or evaluate the limit into another folder."
                )
        if not about.symmetric:
            raise EvaluationError(
                f"{call}: {str(self.path)!r} holds a matrix between two batches; predictions need one of all inputs, "
                "training and test, with themselves: evaluate(X, out=…)."
            )
        inference.blocks.refuse_mean(about.network, about.mean)
        one = self._numbers("the first argument", X1)
        sides = {
            inference.blocks.TRAIN: one,
            inference.blocks.TEST: one if X2 is None else self._numbers("the test inputs", X2),
        }
        return inference.blocks.StoredBlocks(self._found.pair, sides)

    def _numbers(self, called: str, value: Any) -> Any:
        """Numbers of inputs, as they are given or as a mask."""
        many = self._found.manifest.shape[0]
        found = numpy.asarray(value)
        if found.dtype == bool and found.shape == (many,):
            found = numpy.flatnonzero(found)
        if (
            found.ndim != 1
            or not found.size
            or found.dtype.kind not in "iu"
            or not ((found >= 0) & (found < many)).all()
        ):
            raise EvaluationError(
                f"{called}: {value!r:.60}; give numbers of inputs of {str(self.path)!r}, from 0 to {many - 1}, or a "
                f"mask of {many}."
            )
        return found.astype(numpy.intp)


def load_kernels(path: str | PathLike[str]) -> StoredKernels:
    """What `evaluate(…, out=path)` wrote, when it is complete; nothing that the files hold is run.

    >>> import tempfile, tplimits as tp
    >>> @tp.network
    ... def linear(ξ: tp.Input["d"], U: tp.Vector["d"]):
    ...     return tp.sum(U * ξ, over="d")
    >>> with tempfile.TemporaryDirectory() as place:
    ...     limit = tp.derive(linear, tp.Kernels())
    ...     nngp, ntk = limit.evaluate([[1.0], [2.0]], out=place + "/gram")
    ...     gram = tp.load_kernels(place + "/gram")
    ...     print(gram.nngp.tolist(), gram.posterior([0], [3.0], [1], noise=1).mean)  # K = 1, K* = 2
    [[1.0, 2.0], [2.0, 4.0]] [3.]

    Raises EvaluationError for a folder that is not complete, is none, or whose files do not fit its manifest.
    """
    return StoredKernels(kernels.folder.read_folder(path))
