"""What a page holds of a recording: parameters at as many frames as there is room for, curves, probes, panels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import AnyArray as Array
from tplimits.errors import EvaluationError
from tplimits.program.loops.form import CONSTANT, DATA, PARAMETER
from tplimits.program.nodes.given import positive_number, several, whole_number
from tplimits.version import VERSION
from tplimits.watch.forward import widths_in
from tplimits.watch.page.packing import Pack
from tplimits.watch.page.views import Probes, View

if TYPE_CHECKING:
    from tplimits.watch.page.shown import Shown
    from tplimits.watch.recording import Recording
    from tplimits.watch.run import Run


#: about the bytes that a recorded number takes on a page, rounded or with all its digits
_BYTES, _EXACT = 2.4, 4.0
#: errors against the width are computed at this many frames
_ERRORS = 41


@dataclass(frozen=True)
class Room:
    """How much of a recording a page holds: the runs with their parameters, and every how many frames of each.

    `exact` says whether there is room for all digits of parameters, from which other values are computed.
    """

    strides: Mapping[Run, int]
    exact: bool = False

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs whose parameters are on the page."""
        return tuple(self.strides)


def room(recording: Recording, seeds: Any, size: float) -> Room:
    """The runs of some seeds: by number, or how many; those of other seeds are on the page as curves alone."""
    many_of_each = whole_number(seeds)
    wanted = several(seeds) or ()
    by_width: dict[float, list[Run]] = {}
    for run in recording.runs:
        by_width.setdefault(run.width, []).append(run)
    if many_of_each is not None:
        chosen = [run for many in by_width.values() for run in many[: max(0, many_of_each)]]
    else:
        numbers = set(map(whole_number, wanted))
        chosen = [run for run in recording.runs if run.seed in numbers]
    if not chosen or not any(run.frames for run in chosen):
        raise EvaluationError(f"seeds={seeds!r}: the recording has no run with frames of these seeds.")
    most = max(1.0, positive_number("size", size, EvaluationError))
    return Room(_strides(chosen, most), sum(_bytes(run, _EXACT) for run in chosen) <= most)


def _bytes(run: Run, each: float = _BYTES) -> float:
    """About how many bytes a run takes on a page, `each` number of its parameters so many."""
    parameters, values = (sum(a.size for a in many.values()) for many in (run.parameters, run.values))
    return parameters * each + values * _BYTES


def _strides(runs: list[Run], size: float) -> dict[Run, int]:
    """Frames are left out of the largest runs until all fit; small ones keep what they have."""
    bytes_of = {run: _bytes(run) for run in runs}
    found: dict[Run, int] = {}
    left = size
    for count, run in enumerate(sorted(runs, key=lambda r: bytes_of[r])):
        share = left / (len(runs) - count)
        found[run] = max(1, math.ceil(bytes_of[run] / share))
        left -= bytes_of[run] / found[run]
    return found


def payload(recording: Recording, page: Shown, views: Iterable[View], kept: Room) -> str:
    """The text of a page's data."""
    pack = Pack()
    listed = list(views)
    probes = next((v for v in listed if isinstance(v, Probes)), Probes())
    header = {
        "title": recording.program.name,
        "about": f"{recording.program!r}\n\n{recording!r}",
        "version": VERSION,
        "steps": [int(t) for t in recording.steps],
        "values": {name: _value(page, name) for name in page.values},
        "inputs": [_input(page, name, array) for name, array in recording.probes.items()],
        "constants": _constants(page),
        "probes": _probes(recording, probes),
        "runs": [_run(page, recording, run, pack, kept) for run in recording.runs if run.frames],
        "views": [v.spec() for v in listed if not isinstance(v, Probes)],
        "errors": errors(recording),
    }
    return pack.text(header)


def _value(page: Shown, name: str) -> dict[str, Any]:
    """The array of a value, and its dimensions in the order of storage."""
    named = zip(page.axes(name), page.links(name), page.sizes(name), strict=True)
    dims: list[dict[str, Any]] = [{"kind": "axis", "axis": a, "key": key, "size": size} for a, key, size in named]
    if page.on_data(name):
        dims.append({"kind": "probe", "axis": "probe", "key": "probe", "size": None})
    width = page.width(name)
    if width is not None:
        dims.append({"kind": "neuron", "axis": "neuron", "key": "neuron", "width": page.program.widths.index(width)})
    return {"id": _array(page, name), "dims": dims}


def _array(page: Shown, name: str) -> str:
    """The array of a name: parameters and data are known by their titles."""
    found = page.loops.names.get(name)
    if found is not None:
        return found
    printed = page.program[page.position(name)].name
    return next(a.name for a in page.loops.of_role(DATA, PARAMETER) if a.title == printed)


def _input(page: Shown, name: str, array: Array) -> dict[str, Any]:
    """A data array as it was recorded, one row for each probe."""
    values = numpy.asarray(array, dtype=numpy.float64)
    position = page.position(name)
    vocab = getattr(page.program[position], "of", None)
    size = None if vocab is None else int(page.program.size(vocab) or 0)
    whole = vocab is not None
    return {
        **{"name": name, "id": _array(page, name), "size": int(math.prod(values.shape[1:])), "vocab": size},
        **{"whole": whole, "data": [float(f"{x:.9g}") for x in values.ravel()]},
    }


def _constants(page: Shown) -> dict[str, list[float]]:
    """The constant arrays and tables of the program."""
    found = {}
    for array in page.loops.of_role(CONSTANT):
        assert array.values is not None
        found[array.name] = [float(x) for x in array.values.values.ravel()]
    return found


def _probes(recording: Recording, given: Probes) -> dict[str, Any]:
    """How many probes there are, and how they are coloured, marked and named."""
    labels, classes, texts = recording.labels, None, given.texts
    count = len(next(iter(recording.probes.values())))
    if labels is not None and labels.ndim == 1:
        known = [str(x) for x in labels]
        distinct = list(dict.fromkeys(sorted(known)))
        is_whole = labels.dtype.kind in "biu" or (labels.dtype.kind == "f" and bool((labels == labels.round()).all()))
        classes = [int(x) for x in labels] if is_whole else [distinct.index(x) for x in known]
        if not is_whole and texts is None and labels.dtype.kind == "U":
            texts = tuple(known)
    for what, listed in (("colours", given.colours), ("marks", given.marks), ("texts", given.texts)):
        if listed is not None and len(listed) != count:
            raise EvaluationError(f"Probes({what}=…): it has {len(listed)} entries for {count} probes.")
    return {**{"count": count, "classes": classes, "texts": texts}, **{"colours": given.colours, "marks": given.marks}}


def _run(page: Shown, recording: Recording, run: Run, pack: Pack, kept: Room) -> dict[str, Any]:
    """A run: its curves, and its parameters where there is room for them."""
    arrays: dict[str, Any] = {}
    stride = kept.strides.get(run, 1)
    for name, values in recording.settings.get("schedules", {}).items():
        arrays[_array(page, name)] = _moving(pack, numpy.array(values[: run.frames]), 1, True, f"`{name}`")
    if run in kept.strides:
        for name, array in run.parameters.items():
            arrays[_array(page, name)] = _moving(pack, array[::stride], stride, kept.exact, f"`{name}` of {run.title}")
        for name, array in _recorded(page, run).items():
            if name in page.values:
                stored = _stored(page, name, array)[::stride]
                arrays[_array(page, name)] = {
                    **_moving(pack, stored, stride, False, f"`{name}` of {run.title}"),
                    "probes": True,
                }
    return {
        "title": run.title + ("" if stride == 1 else f", every {stride} frames"),
        "width": None if run.is_limit else int(run.width),
        "seed": int(run.seed),
        "frames": run.frames,
        "recordedOnly": not run.parameters,
        "widths": _widths(page, run),
        "arrays": arrays,
        "curves": {name: pack.curve(curve) for name, curve in run.curves.items()},
    }


def _recorded(page: Shown, run: Run) -> Mapping[str, Array]:
    """What was recorded of the probes: values without parameters, outputs where samples tell them roughly."""
    values = {} if run.parameters else dict(run.values)
    return values if run.outputs is None else {**values, page.output: run.outputs}


def _moving(pack: Pack, array: Array, stride: int, exact: bool, what: str) -> dict[str, Any]:
    if not numpy.isfinite(array).all():
        raise EvaluationError(f"{what} holds NaN or infinite numbers; a page shows finite ones alone.")
    return {"stride": stride, "probes": False, "pack": pack.moving(array, exact)}


def _stored(page: Shown, name: str, array: Array) -> Array:
    """Recorded values (frames, probes, *axes[, n]) in the order of storage: axes, probes, neurons."""
    axes = len(page.axes(name))
    return numpy.moveaxis(array, 1, 1 + axes) if page.on_data(name) else array


def _widths(page: Shown, run: Run) -> list[int]:
    """The sizes of the widths of the program in a run."""
    found = widths_in(page.program, run.parameters)
    for name, array in run.values.items():
        if name in page.values and (width := page.width(name)) is not None:
            found[width] = array.shape[-1]
    return [found.get(w, 1) for w in page.program.widths]


def compared(recording: Recording) -> list[tuple[Run, Run]]:
    """Networks, each with the limit of its own seed, whose random scalars it shares, or with the only limit.

    In the operator regime none: f_t depends on f_0, which the limit draws for itself, so that the distance to it says
    nothing of the width.
    """
    limits = {run.seed: run for run in recording.runs if run.is_limit and run.frames and not run.starts_apart}
    only = next(iter(limits.values())) if len(limits) == 1 else None
    networks = [run for run in recording.runs if not run.is_limit and run.frames]
    return [(run, limit) for run in networks if (limit := limits.get(run.seed, only)) is not None]


def errors(recording: Recording) -> dict[str, Any] | None:
    """How far outputs on the probes are from those of the limit, root mean square over probes and outputs.

    None where nothing is `compared`.
    """
    pairs = compared(recording)
    if not pairs:
        return None
    last = min(min(run.frames, limit.frames) for run, limit in pairs) - 1
    frames = sorted({round(k * last / (_ERRORS - 1)) for k in range(_ERRORS)})
    rows = []
    for run, limit in pairs:
        values = []
        for frame in frames:
            gap = recording.outputs(frame, run.width, run.seed) - recording.outputs(frame, limit.width, limit.seed)
            values.append(float(numpy.sqrt((gap * gap).mean())))
        rows.append({"width": int(run.width), "seed": int(run.seed), "values": values})
    return {"frames": frames, "rows": rows}
