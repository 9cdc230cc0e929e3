"""What `tp.watch` is asked for, checked before work begins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError, ProgramError
from tplimits.program.network.data import inputs_of, with_sizes
from tplimits.program.network.loss import error_signal
from tplimits.program.network.network import parameters
from tplimits.program.nodes.given import seed_number, whole_from, whole_number, width_ratios
from tplimits.program.nodes.program import Program
from tplimits.program.parametrization.table import MUP
from tplimits.regimes.training.finite.recipe import Recipe, recipe

if TYPE_CHECKING:
    from tplimits.program.parametrization.table import Parametrization

Array = NDArray[Any]
#: frames of a recording, and probes, where nothing else is said
_FRAMES, _PROBES = 1000, 64


@dataclass(frozen=True)
class Training:
    """How networks are trained, as `tp.watch` takes it; not yet checked."""

    error: Any
    optimizer: Any
    lr: Any
    steps: Any
    weight_decay: Any
    parametrization: Parametrization | None
    batches: Any
    only: Iterable[str] | None


@dataclass(frozen=True)
class Looked:
    """What is looked at: inputs, frames, samples of limits."""

    probes: Any
    labels: Any
    every: Any
    particles: Any
    samples: Any
    sharpness: bool


@dataclass(frozen=True, eq=False)
class Asked:
    """A recording that is to be made: everything but widths and seeds."""

    X: Mapping[str, Array]
    error: Any
    recipe: Recipe
    steps: int
    frames: tuple[int, ...]
    batches: Any
    probes: Mapping[str, Array]
    labels: Array | None
    given: Mapping[str, Array]
    ratios: Mapping[str, float]
    particles: int
    samples: int
    sharpness: bool

    @property
    def net(self) -> Program:
        """The network, with all sizes."""
        return self.recipe.net

    @property
    def count(self) -> int:
        """The number of inputs."""
        return len(next(iter(self.X.values())))

    def rows(self, t: int) -> Array | None:
        """The inputs of step t, or None for all of them."""
        return None if self.batches is None else numpy.asarray(self.batches.indices(t, self.count))

    @cached_property
    def trained(self) -> tuple[str, ...]:
        """The parameters that are trained."""
        return tuple(self.recipe.optimizers)


def asked(net: Any, X: Any, how: Training, looked: Looked, given: Mapping[str, Any], ratios: Any) -> Asked:
    """Everything checked; EvaluationError and ProgramError name what is wrong."""
    if not isinstance(net, Program) or not net.is_network:
        raise ProgramError("tp.watch takes a network made by @tp.network.")
    data = inputs_of(net, X, "X")
    error_signal(how.error)
    bound, initial = _bound(net, data, given)
    table = MUP.adjusted(bound, how.optimizer) if how.parametrization is None else how.parametrization
    training = recipe(bound, table, how.optimizer, how.lr, how.weight_decay, how.only)
    steps = whole_from("steps", how.steps, 0, EvaluationError)
    others = [w for w in bound.widths if w != "n"]
    found = width_ratios(bound.name, others, ratios, EvaluationError)
    probes, labels = _probes(bound, data, looked)
    return Asked(
        data,
        how.error,
        training,
        steps,
        _frames(steps, looked.every),
        how.batches,
        probes,
        labels,
        initial,
        {name: float(ratio) for name, ratio in found.items()},
        whole_from("particles", looked.particles, 16, EvaluationError),
        whole_from("samples", looked.samples, 1, EvaluationError),
        bool(looked.sharpness),
    )


def _bound(net: Program, X: Mapping[str, Array], given: Mapping[str, Any]) -> tuple[Program, dict[str, Array]]:
    """The network with sizes and constants, and the parameters that are given."""
    known = parameters(net)
    names = {name: net[p].name for name, p in net.initial_names.items()}
    initial = {names.get(k, k): v for k, v in given.items() if names.get(k, k) in known}
    fixed = {k: v for k, v in given.items() if names.get(k, k) not in known}
    for name in fixed:
        if name not in net.constants and name not in net.all_axes:
            has = ", ".join((*net.constants, *known, *net.all_axes))
            raise EvaluationError(
                f"{name}=…: `{net.name}` has no constant, parameter or axis of this name; it has {has}."
            )
    with_constants = net.bind(**{k: v for k, v in fixed.items() if k in net.constants})
    for name, value in with_constants.constants.items():
        if value is None:
            raise EvaluationError(f"the constant `{name}` of `{net.name}` has no value: give {name}=….")
    return with_sizes(with_constants, X, fixed), {k: numpy.asarray(v, dtype=numpy.float64) for k, v in initial.items()}


def _probes(net: Program, X: Mapping[str, Array], looked: Looked) -> tuple[dict[str, Array], Array | None]:
    """The probes, the first inputs where none are given, and their labels."""
    given = {name: x[:_PROBES] for name, x in X.items()} if looked.probes is None else looked.probes
    probes = inputs_of(net, given, "probes")
    if looked.labels is None:
        return probes, None
    labels = numpy.asarray(looked.labels)
    count = len(next(iter(probes.values())))
    if labels.ndim < 1 or len(labels) != count or labels.dtype.kind not in "biufU":
        raise EvaluationError(f"labels=…: give one number or text for each of the {count} probes.")
    return probes, labels


def _frames(steps: int, every: Any) -> tuple[int, ...]:
    """The steps after which frames are taken, the first and the last among them."""
    if every is not None and whole_number(every) is None:
        listed = list(every) if isinstance(every, Iterable) and not isinstance(every, str) else [None]
        numbers = [whole_number(t) for t in listed]
        if any(t is None or not 0 <= t <= steps for t in numbers):
            raise EvaluationError(f"every={every!r:.60}: give a whole number, or steps between 0 and {steps}.")
        return tuple(sorted({t for t in numbers if t is not None} | {0, steps}))
    each = max(1, math.ceil(steps / _FRAMES)) if every is None else whole_from("every", every, 1, EvaluationError)
    return tuple(dict.fromkeys((*range(0, steps, each), steps)))


def widths_of(widths: Any) -> tuple[float, ...]:
    """Widths, whole numbers and `tp.inf`; one or several, each once."""
    listed = tuple(widths) if isinstance(widths, Iterable) and not isinstance(widths, str) else (widths,)
    found: list[float] = []
    for width in listed:
        limit = isinstance(width, float) and math.isinf(width) and width > 0
        number = math.inf if limit else whole_number(width)
        if number is None or number < 1:
            raise EvaluationError(
                f"widths={widths!r:.60}: widths are positive whole numbers, and tp.inf for the limit."
            )
        found.append(number)
    if not found:
        raise EvaluationError("widths=(): give at least one width, or tp.inf for the limit.")
    return tuple(dict.fromkeys(found))


def seeds_of(seeds: Any) -> tuple[int, ...]:
    """Seeds: several by their numbers, or how many, 0, 1, …"""
    if whole_number(seeds) is not None:
        return tuple(range(whole_from("seeds", seeds, 1, EvaluationError)))
    listed = tuple(seeds) if isinstance(seeds, Iterable) and not isinstance(seeds, str) else ()
    if not listed:
        raise EvaluationError(f"seeds={seeds!r:.60}: give how many, or their numbers.")
    return tuple(dict.fromkeys(seed_number(seed, EvaluationError) for seed in listed))
