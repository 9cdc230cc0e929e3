"""The coordinate check of a plan: models of several widths train for a few steps; how everything moves is compared.

The same data at all widths and a loss that is bounded below, so that errors do not grow with the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from tplimits.errors import CheckError, EvaluationError, TplimitsError
from tplimits.program.nodes.given import seed_number, whole_from
from tplimits.regimes.classification.finite.judging import OPEN, Rule, is_certain, judged, measured_power
from tplimits.torch.rows import first_output
from tplimits.torch.scaling.applying import named
from tplimits.torch.scaling.families import Family
from tplimits.torch.scaling.recording import recorded
from tplimits.torch.scaling.verdicts import CoordinateReport, Measured

if TYPE_CHECKING:
    from tplimits.torch.scaling.plan import Plan

#: rates at the base where none is given
RATES = {"sgd": 0.1, "momentum": 0.02, "adadelta": 1.0, "adafactor": 1e-2, "muon": 2e-2}
RATE = 2e-3
#: scores as they should be are sums of n^0 and of less, others hold n^(1/2): a fit tells a power between, and growth
SCORES = 0.24


def check_plan(
    plan: Plan,
    make: Callable[[int], Any],
    data: Any,
    *,
    widths: Sequence[int] = (64, 128, 256, 512),
    depths: Sequence[int] | None = None,
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
    where it is left out.  depths: the same over the depth L, at the width of the base, for plans with powers of it.
    seeds: models of each size; three times as many where these are not sure.

    The result prints the verdict; `.accepted`, `.alarms`, `.rows`, `.plot()`, `.to_json()`.

    Raises CheckError for widths or steps that are none, EvaluationError for models that the plan is not of, and for a
    loss that is not finite.
    """
    family = Family(plan, make, depths is not None)
    sizes = _whole("widths", widths, 3) if depths is None else _whole("depths", depths, 3)
    times = _whole("steps", steps, 1)
    whole_from("seeds", seeds, 1, CheckError)
    seed_number(seed, CheckError)
    inputs, target = _data(data, loss)
    rate = lr if lr is not None else RATES.get(plan.optimizer, RATE)
    runs: dict[Any, dict[int, list[float]]] = {}

    def run(draws: range) -> list[Measured]:
        with torch.random.fork_rng(devices=()):
            for n in sizes:
                for draw in draws:
                    torch.manual_seed((7919 * (3 * seeds * seed + draw) + n) % 2**63)
                    model = family.model(n)
                    optimizers = _prepared(setup, model) if setup else family.prepared(model, n, rate)
                    drawn = _drawn(model, inputs, n)
                    goal = target if target is not None else drawn
                    error = _told(loss or _loss(goal))
                    found = recorded(
                        model, optimizers, (inputs, goal), error, times, family.wide(model), named(plan, model)
                    )
                    for key, size in family.shown(found, model).items():
                        runs.setdefault(key, {}).setdefault(n, []).append(size)
        return [
            _judged(family, key, by_size, sizes, times)
            for key, by_size in runs.items()
            if len(by_size) == len(sizes) and family.is_told(key, by_size)
        ]

    rows = run(range(seeds))
    unsure = [row for row in rows if not row.certain and row.verdict != OPEN]
    # of a hundred sizes some are far off by chance, and some that are off may be hidden by their errors
    if unsure and not any(row.certain for row in rows if row.is_alarm):
        rows = run(range(seeds, 3 * seeds))
    asked = () if depths is not None else tuple(plan.scores)
    return CoordinateReport(plan.model, plan.optimizer, tuple(sizes), tuple(rows), family.growing, asked)


def _judged(
    family: Family, key: tuple[str, str, int], by_size: dict[int, list[float]], sizes: list[int], times: list[int]
) -> Measured:
    kind, name, t = key
    found = measured_power(sizes, [by_size[n] for n in sizes])
    counted = family.counted(kind, name)
    # scores start as sums that are centred, and so do their gradients: how soon they are aligned the rate decides;
    # kernels change by products of small changes, beside averages that are centred
    late = t == max(times) and kind not in ("score", "kernel")
    # where all that is trained begins small, as low-rank factors alone, what they move together is smaller still
    late = late and not (kind in ("f", "value") and family.begins_small)
    least = counted + family.early(name) if kind in ("image", "norm") else counted
    rule = Rule(late, float(least), output=kind == "f", **({"gap": SCORES} if kind == "score" else {}))
    verdict = judged(found, counted, rule)
    if kind in ("image", "norm") and not late and found.power == float("-inf"):
        verdict = OPEN  # a readout that starts at zero lets others move from the second step on
    certain = is_certain(found, counted, rule)
    return Measured(kind, name, t, counted, found.power, found.error, found.sizes, verdict, certain, family.growing)


def _whole(what: str, given: Any, least: int) -> list[int]:
    found = sorted(set(given)) if isinstance(given, (list, tuple, range)) else []
    if len(found) < least or any(isinstance(x, bool) or not isinstance(x, int) or x < 1 for x in found):
        raise CheckError(f"{what}={given!r}: give {least} or more different whole numbers.")
    return found


def _data(data: Any, loss: Any) -> tuple[tuple[Any, ...], Any]:
    inputs, target = data if isinstance(data, (tuple, list)) and len(data) == 2 else (data, None)
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if not any(torch.is_tensor(x) for x in inputs):
        raise EvaluationError("data: give (inputs, target), inputs being a tensor or a tuple of them.")
    if loss is None and target is not None and not torch.is_tensor(target):
        raise EvaluationError(f"data: the target is {type(target).__name__}; give a tensor, or a loss of your own.")
    return inputs, target


def _prepared(setup: Any, model: Any) -> list[Any]:
    """The optimizers that a script prepares."""
    try:
        found = setup(model)
    except TplimitsError:
        raise
    except Exception as error:  # whatever a user's code raises
        raise EvaluationError(f"setup(model) raises {type(error).__name__}: {error}.") from error
    optimizers = list(found) if isinstance(found, (list, tuple)) else [found]
    if not optimizers or any(isinstance(x, type) or not hasattr(x, "zero_grad") for x in optimizers):
        raise EvaluationError(f"setup(model) returns {found!r:.60}: return the optimizer, or several in a list.")
    return optimizers


def _drawn(model: Any, inputs: tuple[Any, ...], n: int) -> Any:
    """A target in the shape of the output."""
    try:
        with torch.no_grad():
            f = first_output(model(*inputs))
    except TplimitsError:
        raise
    except Exception as error:  # whatever a user's code raises
        raise EvaluationError(f"make({n}) cannot be called with the data: {type(error).__name__}: {error}.") from error
    if f is None:
        raise EvaluationError(f"make({n}) returns no tensor of real numbers.")
    return torch.randn(f.shape, generator=torch.Generator().manual_seed(0), dtype=f.dtype)


def _loss(target: Any) -> Callable[[Any, Any], Any]:
    if target.is_floating_point():
        return _squared
    return lambda f, y: F.cross_entropy(f.reshape(-1, f.shape[-1]), y.reshape(-1))


def _squared(f: Any, y: Any) -> Any:
    if f.shape != y.shape:
        raise EvaluationError(
            f"the target has the shape {tuple(y.shape)}, the output {tuple(f.shape)}: give the same, or a loss."
        )
    return (f - y).pow(2).mean() / 2


def _told(loss: Any) -> Callable[[Any, Any], Any]:
    """The loss, refused where it is none of the output."""

    def told(f: Any, target: Any) -> Any:
        try:
            value = loss(f, target)
        except TplimitsError:
            raise
        except Exception as error:  # whatever a user's code raises
            raise EvaluationError(f"loss(f, target) raises {type(error).__name__}: {error}.") from error
        if not torch.is_tensor(value) or value.numel() != 1 or not value.requires_grad:
            raise EvaluationError("loss(f, target): return one number, as a tensor that depends on f.")
        return value

    return told
