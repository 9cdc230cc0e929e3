"""What users give to `tp.watch`, checked before work begins."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import AnyArray as Array
from tplimits.errors import EvaluationError, ProgramError, shown
from tplimits.law.unroll import size_of
from tplimits.program.network.data import inputs_of, with_sizes
from tplimits.program.network.loss import error_signal
from tplimits.program.network.losses import Loss
from tplimits.program.network.parameters import parameters, refuse_others
from tplimits.program.network.schedules import Schedule, moving, parted
from tplimits.program.nodes.given import (
    array_of,
    names_of,
    real_array,
    seed_number,
    several,
    true_or_false,
    whole_from,
    whole_number,
    width_ratios,
)
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector
from tplimits.program.nodes.program import Program
from tplimits.program.parametrization.table import MUP, Parametrization
from tplimits.regimes.training.finite.recipe import recipe
from tplimits.watch.making.asked import Asked, Detail, Pair, refuse_no_batches
from tplimits.watch.making.kets import Kets, requested
from tplimits.watch.making.recorder import engine_of
from tplimits.watch.recording import Recording

if TYPE_CHECKING:
    from tplimits.watch.run import Run

#: frames of a recording, and probes, where nothing else is said
_FRAMES, _PROBES = 1000, 64
#: runs of one recording: each is trained and held
_MOST_RUNS = 1 << 14


@dataclass(frozen=True)
class Training:
    """How networks are trained, as it came in."""

    error: Any
    optimizer: Any
    lr: Any
    steps: Any
    weight_decay: Any
    parametrization: Parametrization | None
    batches: Any
    only: Iterable[str] | None
    start: Any


@dataclass(frozen=True)
class Looked:
    """What is looked at, as it came in."""

    probes: Any
    labels: Any
    every: Any
    record: Any
    samples: Any
    gradients: Any
    sharpness: Any
    particles: Any
    replicates: Any
    block: Any


def asked(net: Any, X: Any, how: Training, looked: Looked, given: Mapping[str, Any], ratios: Any) -> Asked:
    """Everything checked; EvaluationError and ProgramError name what is wrong."""
    if not isinstance(net, Program) or not net.is_network:
        raise ProgramError("tp.watch takes a network made by @tp.network.")
    data = inputs_of(net, X, "X")
    error_signal(how.error)
    if not isinstance(how.parametrization, Parametrization | None):
        raise EvaluationError(f"parametrization={shown(how.parametrization, 60)}: give one such as tp.MUP or tp.NTP.")
    only = None if how.only is None else names_of("only", how.only, EvaluationError)
    refuse_no_batches(how.error, how.batches)
    bound, initial, schedules = _bound(net, data, given)
    inputs_of(bound, X, "X")  # indices fit the sizes that are known now
    _refuse_misfits(bound, how.error, len(next(iter(data.values()))))
    refuse_others(bound, only or (), f"only={shown(how.only, 60)}", EvaluationError)
    table = MUP.adjusted(bound, how.optimizer) if how.parametrization is None else how.parametrization
    found = width_ratios(bound, ratios, EvaluationError)
    probes, labels = _probes(bound, data, looked)
    return Asked(
        data,
        how.error,
        how.batches,
        recipe(bound, table, how.optimizer, how.lr, how.weight_decay, only, schedules),
        _frames(whole_from("steps", how.steps, 0, EvaluationError), looked.every),
        probes,
        labels,
        _starts(bound, how.start, initial),
        {name: float(ratio) for name, ratio in found.items()},
        _detail(bound, looked),
    )


def _refuse_misfits(net: Program, error: Any, inputs: int) -> None:
    """EvaluationError for labels that do not fit the outputs, before any network is made."""
    if isinstance(error, Loss):
        axes = dict.fromkeys(a for p in net.returns for a in net[p].axes)
        outputs = numpy.zeros((inputs, *(size_of(net, a) for a in axes)))
        for loss in (error, None if error.train.all() else error.held_out):
            if loss is not None:
                loss.fitting(outputs)


def _detail(net: Program, looked: Looked) -> Detail:
    taken: dict[int, str] = {}
    for name, p in net.names.items():  # the first name of each; those of the tracer are numbers
        if not isinstance(net[p], InitialMatrix) and p not in net.inputs and not re.fullmatch(r"_\d+", name):
            taken.setdefault(p, name)
    asked_for = None if looked.record is None else names_of("record", looked.record, EvaluationError)
    names = tuple(taken[p] for p in sorted(taken)) if asked_for is None else asked_for
    for name in names:
        if isinstance(net[net.position(name)], InitialMatrix):
            raise EvaluationError(f"record={name!r}: it is a matrix, which has no samples; record vectors and scalars.")
    if looked.sharpness is True and net.released is not net:
        raise EvaluationError(
            f"sharpness=True: gradients stop inside `{net.name}`, so that what is followed is the gradient of no "
            "function, which has no Hessian. Give sharpness=False."
        )
    samples = None if looked.samples is None else whole_from("samples", looked.samples, 1, EvaluationError)
    return Detail(
        whole_from("particles", looked.particles, 16, EvaluationError),
        whole_from("replicates", looked.replicates, 2, EvaluationError),
        whole_from("block", looked.block, 2, EvaluationError),
        samples,
        true_or_false("gradients", looked.gradients, EvaluationError),
        true_or_false("sharpness", looked.sharpness, EvaluationError),
        names,
    )


def _bound(
    net: Program, X: Mapping[str, Array], given: Mapping[str, Any]
) -> tuple[Program, dict[str, Array], dict[str, Schedule]]:
    """The network with sizes and constants, the parameters that are given, and the constants that move."""
    known, names = parameters(net), {name: net[p].name for name, p in net.initial_names.items()}
    schedules, rest = parted(net, given)
    initial = {names[k]: real_array(k, v) for k, v in rest.items() if names.get(k) in known}
    fixed = {k: v for k, v in rest.items() if names.get(k) not in known}
    constant = net.bind(**{k: v for k, v in fixed.items() if k in net.constants})
    for name, value in constant.constants.items():
        if value is None and name not in schedules:
            raise EvaluationError(f"the constant `{name}` of `{net.name}` has no value: give {name}=….")
    bound, moved = moving(with_sizes(constant, X, fixed), schedules)
    return bound, initial, moved


def _starts(net: Program, start: Any, given: Mapping[str, Array]) -> dict[Pair | None, dict[str, Array]]:
    """Parameters to start from: for all runs, and for those of a recording."""
    found: dict[Pair | None, dict[str, Array]] = {None: dict(given)}
    if start is None:
        return found
    recording, frame = start if isinstance(start, tuple) and len(start) == 2 else (start, -1)
    if isinstance(recording, Recording):
        for run in recording.runs:
            if run.parameters and not _is_thinned(recording, run):
                held = recording.parameters(frame, run.width, run.seed)
                found[run.width, run.seed] = _named(net, held)
        return found
    if not isinstance(start, Mapping):
        raise EvaluationError(
            f"start={shown(start, 60)}: give parameters by name, a recording, or a recording and the number of a frame."
        )
    found[None] |= _named(net, start)
    return found


def _is_thinned(recording: Recording, run: Run) -> bool:
    """Whether fewer samples of a limit's kets were kept than it was trained on."""
    kept = samples_kept(recording.program, run, recording.settings.get("ratios", {})) if run.is_limit else None
    return kept is not None and kept < (recording.settings.get("particles") or 0)


def samples_kept(net: Program, run: Run, ratios: Mapping[str, float]) -> int | None:
    """How many samples of kets the run of a limit holds; None where it holds none."""
    sizes = {name: array.shape[-1] for name, array in run.values.items() if net[net.position(name)].width is not None}
    for s in net:
        if isinstance(s, InitialVector) and s.name in run.parameters:
            sizes[s.name] = round(run.parameters[s.name].shape[-1] / ratios.get(s.over, 1.0))
    return max(sizes.values(), default=None)


def _named(net: Program, start: Mapping[Any, Any]) -> dict[str, Array]:
    refuse_others(net, start, "start=…", EvaluationError)
    return {name: real_array(name, array) for name, array in start.items()}


def _probes(net: Program, X: Mapping[str, Array], looked: Looked) -> tuple[dict[str, Array], Array | None]:
    """The probes, the first inputs where none are given, and their labels."""
    given = {name: x[:_PROBES] for name, x in X.items()} if looked.probes is None else looked.probes
    probes = inputs_of(net, given, "probes")
    if looked.labels is None:
        return probes, None
    count = len(next(iter(probes.values())))
    try:
        labels = array_of(looked.labels)
    except Exception:  # rows of different lengths, what has no end, and the code of users
        labels = numpy.empty(0)
    if labels.shape != (count,) or labels.dtype.kind not in "biufU":
        raise EvaluationError(f"labels=…: give one number or text for each of the {count} probes.")
    if labels.dtype.kind == "f" and not numpy.isfinite(labels).all():
        raise EvaluationError("labels=…: they hold NaN or infinite numbers; give text, or finite numbers.")
    if any(0xD800 <= ord(c) < 0xE000 for label in labels for c in str(label)):
        raise EvaluationError("labels=…: they hold half a surrogate pair, which is no text.")
    return probes, labels


def _frames(steps: int, every: Any) -> tuple[int, ...]:
    """The steps after which frames are taken, the first and the last among them."""
    if every is not None and whole_number(every) is None:
        numbers = [whole_number(t) for t in several(every) or (None,)]
        if any(t is None or not 0 <= t <= steps for t in numbers):
            raise EvaluationError(f"every={shown(every, 60)}: give a whole number, or steps between 0 and {steps}.")
        return tuple(sorted({t for t in numbers if t is not None} | {0, steps}))
    each = max(1, math.ceil(steps / _FRAMES)) if every is None else whole_from("every", every, 1, EvaluationError)
    return tuple(dict.fromkeys((*range(0, steps, each), steps)))


def runs_of(found: Asked, widths: Any, seeds: Any) -> list[Pair]:
    """The runs of some widths and seeds; those of limits are derived here, so that refusals come first."""
    pairs = [(width, seed) for width in widths_of(widths) for seed in seeds_of(seeds)]
    if len(pairs) > _MOST_RUNS:
        raise EvaluationError(f"{len(pairs)} networks, widths times seeds: a recording has {_MOST_RUNS} at most.")
    started = {pair for pair in found.starts if pair is not None}
    for width, seed in pairs:
        if started and (width, seed) not in started:
            what = "tp.inf" if math.isinf(width) else f"{width:g}"
            why = " Of a limit all samples of kets are needed: record it with samples= as large as particles="
            raise EvaluationError(
                f"start=…: the recording has no parameters of width {what} and seed {seed}."
                + (f"{why}, or leave tp.inf out." if math.isinf(width) else "")
            )
    for width in {width for width, _ in pairs if not math.isinf(width)}:
        for name, ratio in found.ratios.items():
            if width * ratio != round(width * ratio) or width * ratio < 1:
                raise EvaluationError(
                    f"widths=…: at width {width:g} the width `{name}` is {width * ratio:g}, {ratio:g} times as much: "
                    "give multiples for which it is whole."
                )
    limits = [seed for width, seed in pairs if math.isinf(width)]
    if limits:
        assert found.limit.derived and found.samples
        if engine_of(found, math.inf) is Kets:  # not after hours of finite widths
            requested(found, math.inf, limits[0])
    return pairs


def widths_of(widths: Any) -> tuple[float, ...]:
    """Widths, whole numbers and `tp.inf`; one or several, each once."""
    listed = several(widths)
    found: list[float] = []
    for width in (widths,) if listed is None else listed:
        limit = isinstance(width, float) and math.isinf(width) and width > 0
        number = math.inf if limit else whole_number(width)
        if number is None or not (limit or 1 <= number < 10**9):
            raise EvaluationError(
                f"widths={shown(widths, 60)}: widths are positive whole numbers, and tp.inf for the limit."
            )
        found.append(number)
    if not found:
        raise EvaluationError("widths=(): give at least one width, or tp.inf for the limit.")
    return tuple(dict.fromkeys(found))


def seeds_of(seeds: Any) -> tuple[int, ...]:
    """Seeds: several by their numbers, or how many, 0, 1, …"""
    if whole_number(seeds) is not None:
        seeds = range(whole_from("seeds", seeds, 1, EvaluationError))
    listed = several(seeds)
    if not listed:
        raise EvaluationError(f"seeds={shown(seeds, 60)}: give how many, or their numbers.")
    return tuple(dict.fromkeys(seed_number(seed, EvaluationError) for seed in listed))
