"""The coordinate check of a plan: models of several widths train for a few steps; how everything moves is compared.

The same data at all widths and a loss that is bounded below, so that errors do not grow with the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from tplimits.errors import CheckError, EvaluationError
from tplimits.regimes.classification.finite.judging import OPEN, judged, measured_power
from tplimits.torch.rows import first_output
from tplimits.torch.scaling.applying import named
from tplimits.torch.scaling.recording import recorded
from tplimits.torch.scaling.stepping import optimizers_of
from tplimits.torch.scaling.verdicts import CoordinateReport, Measured

if TYPE_CHECKING:
    from tplimits.torch.scaling.plan import Plan

#: rates at the base where none is given
RATES = {"sgd": 0.1, "momentum": 0.02, "adadelta": 1.0, "adafactor": 1e-2, "muon": 2e-2}
RATE = 2e-3


def check_plan(
    plan: Plan,
    make: Callable[[int], Any],
    data: Any,
    *,
    widths: Sequence[int] = (64, 128, 256, 512),
    seeds: int = 2,
    steps: Sequence[int] = (1, 5, 15),
    lr: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    setup: Callable[[Any], Any] | None = None,
    seed: int = 0,
) -> CoordinateReport:
    """Train make(n) at several widths and compare how everything moves with the plan.

    data: (inputs, target), inputs being a tensor or a tuple of them; a target is drawn where it is left out or None.
    loss(f, target): cross entropy for whole numbers, the squared error for others.  lr: the rate at the base.
    setup(model) prepares a model as your script does and returns its optimizer, or several in a list; the plan does
    where it is left out.  seeds: models of each width; three times as many where these alarm, but not for certain.

    The result prints the verdict; `.accepted`, `.alarms`, `.rows`, `.plot()`, `.to_json()`.

    Raises CheckError for widths or steps that are none, EvaluationError for models that the plan is not of, and for a
    loss that is not finite.
    """
    sizes = _whole("widths", widths, 3)
    times = _whole("steps", steps, 1)
    inputs, target = _data(data)
    rate = lr if lr is not None else RATES.get(plan.optimizer, RATE)
    prepare = setup or (lambda model: _as_planned(plan, model, rate))
    wide = {name: [d for d, size in enumerate(row.shape) if size.ratio] for name, row in plan.by_name.items()}
    runs: dict[Any, dict[int, list[float]]] = {}

    def run(draws: range) -> list[Measured]:
        with torch.random.fork_rng(devices=()):
            for n in sizes:
                for draw in draws:
                    torch.manual_seed(7919 * (3 * seeds * seed + draw) + n)
                    model = make(n).eval()
                    optimizers = prepare(model)
                    optimizers = list(optimizers) if isinstance(optimizers, (list, tuple)) else [optimizers]
                    goal = target if target is not None else _drawn(model, inputs)
                    found = recorded(model, optimizers, (inputs, goal), loss or _loss(goal), times, wide, named(model))
                    for key, size in found.items():
                        runs.setdefault(key, {}).setdefault(n, []).append(size)
        return [
            _judged(plan, key, by_width, sizes, times)
            for key, by_width in runs.items()
            if len(by_width) == len(sizes) and _is_told(plan, key, by_width)
        ]

    rows = run(range(seeds))
    alarms = [row for row in rows if row.is_alarm]
    if alarms and not any(row.certain for row in alarms):  # of a hundred sizes some are far off by chance
        rows = run(range(seeds, 3 * seeds))
    return CoordinateReport(plan.model, plan.optimizer, tuple(sizes), tuple(rows), setup is None)


def _as_planned(plan: Plan, model: Any, lr: Any) -> list[Any]:
    plan.initialize_(model)
    if plan.output:
        plan.attach(model)
    return optimizers_of(plan.optimizer, plan.param_groups(model, lr=lr, weight_decay=0.0))


def _is_told(plan: Plan, key: tuple[str, str, int], by_width: dict[int, list[float]]) -> bool:
    """Whether something is to be judged: zeros at the start are natural, what is frozen does not move."""
    kind, name, _ = key
    row = plan.by_name.get(name) if kind in ("image", "entries") else None
    if row is not None and (row.role in ("frozen", "unused") or (kind == "entries" and row.started is None)):
        return False
    return kind == "image" or all(min(many) > 0 for many in by_width.values())


def _judged(
    plan: Plan, key: tuple[str, str, int], by_width: dict[int, list[float]], sizes: list[int], times: list[int]
) -> Measured:
    kind, name, t = key
    found = measured_power(sizes, [by_width[n] for n in sizes])
    counted = _counted(plan, kind, name)
    # scores start as sums that are centred, and so do their gradients: how soon they are aligned the rate decides
    late = t == max(times) and kind != "score"
    least = counted + plan.by_name[name].early if kind == "image" else counted
    verdict = judged(found, counted, late, least, output=kind == "f")
    if kind == "image" and not late and found.power == float("-inf"):
        verdict = OPEN  # a readout that starts at zero lets others move from the second step on
    twice = replace(found, error=2 * found.error)
    certain = verdict == judged(twice, counted, late, least, output=kind == "f")
    return Measured(kind, name, t, counted, found.power, found.error, found.sizes, verdict, certain)


def _counted(plan: Plan, kind: str, name: str) -> Fraction:
    """The power that the plan gives."""
    if kind not in ("image", "entries"):
        return Fraction(0)
    row = plan.by_name[name]
    matrix = sum(1 for d in row.shape if d.ratio) == 2
    return row.initial + (Fraction(1, 2) if matrix and kind == "image" else 0)


# -- what is given ----------------------------------------------------------------------------


def _whole(what: str, given: Any, least: int) -> list[int]:
    found = sorted(set(given)) if isinstance(given, (list, tuple, range)) else []
    if len(found) < least or any(isinstance(x, bool) or not isinstance(x, int) or x < 1 for x in found):
        raise CheckError(f"{what}={given!r}: give {least} or more different whole numbers.")
    return found


def _data(data: Any) -> tuple[tuple[Any, ...], Any]:
    inputs, target = data if isinstance(data, (tuple, list)) and len(data) == 2 else (data, None)
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if not any(torch.is_tensor(x) for x in inputs):
        raise EvaluationError("data: give (inputs, target), inputs being a tensor or a tuple of them.")
    return inputs, target


def _drawn(model: Any, inputs: tuple[Any, ...]) -> Any:
    with torch.no_grad():
        f = first_output(model(*inputs))
    return torch.randn(f.shape, generator=torch.Generator().manual_seed(0), dtype=f.dtype)


def _loss(target: Any) -> Callable[[Any, Any], Any]:
    if target.is_floating_point():
        return lambda f, y: (f - y).pow(2).mean() / 2
    return lambda f, y: F.cross_entropy(f.reshape(-1, f.shape[-1]), y.reshape(-1))
