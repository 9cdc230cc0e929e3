"""The file of a recording: one compressed .npz archive of numbered arrays, and a header in JSON that explains them.

Names of users stand in the header alone.  Reading it runs nothing: the archive is opened without pickle, the header
and the program in it are read field by field, and every array has to have the shape that the program gives it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError, TplimitsError
from tplimits.pages.files import place_of, write_by
from tplimits.program.files.arrays import pack, unpack
from tplimits.program.files.fields import Fields, parse, refuse
from tplimits.program.files.serial import from_json, to_json
from tplimits.watch.run import Run
from tplimits.watch.shapes import Shapes, settings_of

if TYPE_CHECKING:
    from os import PathLike

    from tplimits.program.nodes.program import Program

Array = NDArray[Any]
FORMAT, VERSION = "tplimits recording", "1"
#: the most runs of a file
MAX_RUNS = 100_000
_HEADER = "header"


@dataclass(frozen=True, eq=False)
class Contents:
    """What a file holds: the parts of a recording, and what unfinished runs need to go on, by (width, seed)."""

    program: Program
    steps: Array
    runs: tuple[Run, ...]
    probes: Mapping[str, Array]
    labels: Array | None
    settings: Mapping[str, Any]
    states: Mapping[tuple[float, int], Mapping[str, Array]]


# -- writing ----------------------------------------------------------------------------------


def save(contents: Contents, path: str | PathLike[str]) -> None:
    """Write a file whole or not at all."""
    arrays: dict[str, Array] = {}

    def kept(array: Any) -> str:
        arrays[str(len(arrays))] = numpy.asarray(array)
        return str(len(arrays) - 1)

    def by_name(found: Mapping[str, Array]) -> dict[str, str]:
        return {name: kept(array) for name, array in found.items()}

    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "program": to_json(contents.program),
        "settings": dict(contents.settings),
        "steps": kept(contents.steps),
        "probes": by_name(contents.probes),
        "labels": None if contents.labels is None else kept(contents.labels),
        "runs": [],
    }
    for run in contents.runs:
        state = contents.states.get((run.width, run.seed))
        header["runs"].append(
            {
                "width": "inf" if run.is_limit else str(int(run.width)),
                "seed": str(run.seed),
                "parameters": by_name(run.parameters),
                "curves": by_name(run.curves),
                "values": by_name(run.values),
                "outputs": None if run.outputs is None else kept(run.outputs),
                "state": None if state is None else by_name(state),
            }
        )
    text = json.dumps(header, ensure_ascii=False, allow_nan=False)
    arrays[_HEADER] = numpy.frombuffer(text.encode("utf-8"), dtype=numpy.uint8)
    write_by(place_of("path", path), lambda file: pack(file, arrays, compressed=True))


# -- reading ----------------------------------------------------------------------------------


def load(path: str | PathLike[str]) -> Contents:
    """Read what `save` wrote; nothing in the file is run.

    Raises EvaluationError for a file that is truncated, damaged, or no recording; OSError if it cannot be opened.
    """
    place = place_of("path", path)
    try:
        arrays = unpack(place)
        if _HEADER not in arrays or arrays[_HEADER].dtype != numpy.uint8:
            raise EvaluationError("it is no recording of tplimits")
        text = arrays.pop(_HEADER).tobytes().decode("utf-8")
        return _Reading(arrays).contents(parse(text, numbers=True))
    except UnicodeDecodeError:
        raise EvaluationError(f"{place}: its header is not UTF-8 text.") from None
    except TplimitsError as error:
        raise EvaluationError(f"{place}: {str(error).removesuffix('.')}.") from None


class _Reading:
    """One file: the arrays that are not read yet."""

    def __init__(self, arrays: dict[str, numpy.ndarray]) -> None:
        self.arrays = arrays

    def contents(self, header: Fields) -> Contents:
        """Everything, checked."""
        header.one_of("format", (FORMAT,))
        header.one_of("version", (VERSION,))
        program = from_json(header.long_text("program"))
        settings = settings_of(program, header.plain("settings"))
        steps, probes = self._array(header, "steps"), self._named(header, "probes")
        labels = self._optional(header, "labels")
        shapes = Shapes(program, settings, steps, probes, labels)
        runs: list[Run] = []
        states: dict[tuple[float, int], Mapping[str, Array]] = {}
        for fields in header.objects("runs", "run", MAX_RUNS):
            run, state = self._run(fields)
            shapes.check(run, fields.where)
            if any((run.width, run.seed) == (other.width, other.seed) for other in runs):
                refuse(fields.where, f"{run.title} stands twice", "keep one of the two")
            runs.append(run)
            if state is not None:
                states[run.width, run.seed] = state
        header.finish()
        if self.arrays:
            refuse(
                "the file", f"{len(self.arrays)} arrays that its header does not name", "it was put together wrongly"
            )
        return Contents(program, steps, tuple(runs), probes, labels, settings, states)

    def _run(self, fields: Fields) -> tuple[Run, dict[str, Array] | None]:
        width, seed = fields.plain("width"), fields.count("seed")
        if width != "inf" and not (isinstance(width, str) and re.fullmatch(r"[1-9][0-9]{0,8}", width)):
            refuse(fields.where, f"the width {width!r:.40}", 'it is a whole number in quotes, or "inf"')
        parameters, curves, values = (self._named(fields, key) for key in ("parameters", "curves", "values"))
        outputs = self._optional(fields, "outputs")
        state = None if fields.is_null("state") else self._named(fields, "state")
        fields.finish()
        return Run(math.inf if width == "inf" else int(width), seed, parameters, curves, values, outputs), state

    # -- arrays -------------------------------------------------------------------------------

    def _taken(self, key: str, where: str) -> numpy.ndarray:
        if key not in self.arrays:
            refuse(where, f"the array {key!r} is missing, or named twice", "it was put together wrongly")
        return self.arrays.pop(key)

    def _array(self, fields: Fields, key: str) -> numpy.ndarray:
        return self._taken(fields.text(key), f"{fields.where}, {key}")

    def _optional(self, fields: Fields, key: str) -> numpy.ndarray | None:
        return None if fields.is_null(key) else self._array(fields, key)

    def _named(self, fields: Fields, key: str) -> dict[str, numpy.ndarray]:
        return fields.mapping(key, lambda value, where: self._taken(str(value), where))
