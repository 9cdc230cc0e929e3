"""Why a training run has no numbers: a scalar that vanishes is divided by, or stands under a root or a logarithm.

The hypotheses of `tplimits.law.hypotheses.pole` and `root`, asked of numbers: the limits of scalars in training are
numbers alone.  They are asked at every step, with the spread of replicates for an error, and again when a run has no
finite numbers.  Updates that keep their size however small a gradient is divide by something that vanishes with it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy
from sympy import Expr

from tplimits.errors import EvaluationError
from tplimits.law.hypotheses.zero import positive
from tplimits.program.nodes.entries import NO_NEURON, entries, free_axes, with_names
from tplimits.program.nodes.kinds import Nonlin, ScalarNonlin
from tplimits.regimes.training.derivation.vanishing_gradients import vanishing_gradients
from tplimits.regimes.training.numbers.continued import continued, of_scalars, places
from tplimits.regimes.training.numbers.replicates import ROUNDED, Seen
from tplimits.regimes.training.numbers.rounding import ROUNDING, terms_of

if TYPE_CHECKING:
    from tplimits.numbers.frame import Array
    from tplimits.program.network.schedules import Rate
    from tplimits.program.network.total import TotalProgram
    from tplimits.program.nodes.execution import Execution
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer

#: neurons on either side of a matrix whose pairs are asked whether a gradient cancels
_SEEN = 32
#: the gradient of a network that is wider than any
_STEEP = 1e-6
#: directions of signals may be so far apart: four times this is the bias of what follows in errors of 8 replicates
_TURNED = 0.2


@dataclass(frozen=True)
class Singular:
    """A scalar that is divided by, or stands in a logarithm or under a root, and where it is read first."""

    position: int
    what: str
    argument: Expr


def singular(total: TotalProgram) -> tuple[Singular, ...]:
    """All of them in what outputs and gradients rest on, each once; what is positive at any width is left out.

    A sum of exponentials is, as a softmax divides by, however far apart those of two replicates are.
    """
    found: dict[Expr, Singular] = {}
    program = continued(total.program)
    known: frozenset[int] = frozenset()
    for position in sorted(total.needed):
        s = program[position]
        if not isinstance(s, Nonlin):
            continue
        if positive(s.body, known):
            known |= {position}
        for what, written, _ in places(s.body):
            argument = written.as_coeff_Mul()[1]  # a small multiple is as far from 0 as what it is of
            if of_scalars(argument) and not positive(argument, known):
                # the first place that reads it: where a run stops being finite
                found.setdefault(argument, Singular(position, what, argument))
    return tuple(found.values())


def seen(found: Sequence[Singular], run: Execution, count: int) -> dict[str, Array]:
    """Their values among the first `count` instructions, by number."""
    values = {}
    for number, one in enumerate(found):
        if one.position < count:
            name = f"singular {number}"
            values[name], values[ROUNDED.format(name)] = _value(run, one.position, one.argument)
    return values


def _value(run: Execution, position: int, argument: Expr) -> tuple[Array, Array]:
    """An argument over the axes that it has, and its rounding; indices of sums are among them."""
    axes, line = tuple(a.name for a in free_axes(argument)), run.program[position].line
    bodies = argument, ROUNDING * terms_of(run.program, argument)
    value, rounding = (run.scalar(ScalarNonlin("", axes, line, body=body)) for body in bodies)
    return value, rounding


def judge(total: TotalProgram, runs: Seen) -> None:
    """EvaluationError where one of them is zero within its error over replicates."""
    for number, one in enumerate(singular(total)):
        values, near = runs.vanishing(f"singular {number}")
        if near.any():
            place = tuple(numpy.argwhere(near)[0])
            found = float(values.mean(axis=0)[place])
            raise EvaluationError(_told(total.program, one.position, one.what, one.argument, found))


def judge_signals(
    optimizers: Mapping[str, Optimizer],
    signals: Callable[[int], Array],
    silent: Callable[[int], Array],
    rates: Sequence[Mapping[str, float]],
) -> None:
    """EvaluationError where updates keep their size whatever that of error signals is, and these have no direction.

    `signals` are those of every replicate at a step, `silent` those that they had for outputs of 0: beside these, and
    those of steps before, they are told from rounding.  What is 0 in all of them moves nothing.
    """
    loudest = 0.0
    for t, rate in enumerate(rates):
        free = [
            name
            for name, one in optimizers.items()
            if rate[name] != 0 and (_is_free_of_size(one, t) or _divides_whole(one))
        ]
        # asked only then: functions of users may be slow
        if not free:
            continue
        here = signals(t)
        loudest = max(loudest, float(abs(here).max()), float(abs(silent(t)).max()))
        if here.any() and _turn(here, ROUNDING * loudest) > _TURNED:
            raise EvaluationError(
                f"no number: the error signals of step {t}, {abs(here).max():.2g} at most, have no direction that is "
                f"known within their error, and {optimizers[free[0]]} moves `{free[0]}` as far by the smallest of "
                "them: where signals vanish networks go either way at any width (hypothesis: what updates are divided "
                "by does not vanish). Give an ε, targets that the outputs do not meet, fewer steps or more particles."
            )


def _turn(signals: Array, rounding: float) -> float:
    """How far the directions of error signals are from those of other replicates; of what is rounding there is none."""
    flat = signals.reshape(len(signals), -1)
    sizes = numpy.linalg.norm(flat, axis=1, keepdims=True)
    if (sizes <= rounding).any():
        return numpy.inf
    return float(numpy.linalg.norm((flat / sizes).std(axis=0, ddof=1)))


def refuse_vanishing(
    total: TotalProgram, optimizers: Mapping[str, Optimizer], rates: Mapping[str, Rate], steps: int
) -> None:
    """EvaluationError where a gradient is 0 in the limit alone when a run first moves, and updates keep their size.

    Where features move: in the operator regime outputs change by updates times gradients, which vanish together.
    Warns of an ε below the gradients of all networks that are ever run.
    """
    first = next((t for t in range(steps) if any(rate(t) != 0 for rate in rates.values())), None)
    moving = {} if first is None else {name: one for name, one in optimizers.items() if rates[name](first) != 0}
    # what went before saw no gradient either
    free = {name: _is_free_of_size(one, 0) for name, one in moving.items()}
    asked = [name for name, one in moving.items() if free[name] or _is_steep(one)]
    found = [name for name in vanishing_gradients(total) if name in asked] if asked else []
    for name in sorted(found, key=lambda name: not free[name]):
        told = (
            f"the gradient of `{name}` at the start is 0 in the limit and not in networks, and {moving[name]} moves as "
            "far by the smallest gradient as by any other: networks follow random signs at any width"
        )
        if free[name]:
            raise EvaluationError(
                f"no number: {told} (hypothesis: update functions are continuous where gradients vanish). Give an ε, "
                f"or tp.SGD() for `{name}`."
            )
        # one of them is enough
        warnings.warn(f"{told} where gradients of order 1/√n are above its ε. Give a larger ε.", stacklevel=4)
        return


def _is_steep(optimizer: Optimizer) -> bool:
    """Whether entries move half as far by a gradient of 10⁻⁶, that of networks of width 10¹², as by one of 1."""
    entry = optimizer.entry_by_entry("vector")
    if entry is None:
        return False
    stepper, gradients = entry.stepper(), numpy.array([_STEEP, 1.0])
    _, (near, far) = stepper.step(0, stepper.start((2,)), gradients)
    return bool(abs(near) >= abs(far) / 2 > 0)


def refuse_cancelled(
    optimizer: Optimizer, t: int, gradient: Array | float, size: Callable[[], Array | float], whole: bool = False
) -> None:
    """EvaluationError where the terms of a gradient cancel but for rounding, and updates keep their size all the same.

    `size` gives the sum of the terms with the absolute values of all factors; it is asked of few optimizers.  `whole`:
    the gradient is that of all parameters which are clipped together, or its square.
    """
    if not (_divides_whole(optimizer) if whole else _is_free_of_size(optimizer, t)):
        return
    largest = numpy.asarray(size())
    if ((largest > 0) & (numpy.abs(gradient) <= ROUNDING * largest)).any():
        raise EvaluationError(
            f"no number: in step {t} the parts of a gradient that come from different inputs cancel, and {optimizer} "
            "moves as far by what rounding leaves of it, networks by their fluctuations, as by any other gradient "
            "(hypothesis: update functions are continuous where gradients vanish). Give an ε, or other targets: equal "
            "inputs, or opposite ones, may have targets that contradict each other."
        )


def refuse_cancelled_pairs(optimizer: Optimizer, t: int, left: Array, right: Array) -> None:
    """The same for Σ left ⊗ right over the rows: inputs that cancel do so in every entry, and some of them will do."""
    if _is_free_of_size(optimizer, t):  # before a product is made for nothing
        a, b = left[:, :_SEEN], right[:, :_SEEN]
        refuse_cancelled(optimizer, t, a.T @ b, lambda: abs(a).T @ abs(b))


def _is_free_of_size(optimizer: Optimizer, t: int) -> bool:
    """Whether small gradients move a parameter as far as large ones, with none before that are remembered."""
    # by its own norm an update is divided however small it is, unless the norm is clipped
    by_own_norm = optimizer.divides_by == "update" and (optimizer.clips_at or ("min",))[0] == "min"
    normalises = optimizer.degree == 0 or by_own_norm
    return normalises and not optimizer.is_still and (t == 0 or optimizer.is_memoryless)


def _divides_whole(optimizer: Optimizer) -> bool:
    """Whether the gradient of all parameters together is divided by its norm however small that is."""
    return (optimizer.clips_gradient or ("max",))[0] == "min"


@contextmanager
def explained(run: Execution) -> Iterator[None]:
    """An EvaluationError about numbers that are not finite, with the scalar that made them so where one is seen."""
    try:
        yield
    except EvaluationError:
        reason = why_not_finite(run)
        if reason:
            raise EvaluationError(reason) from None
        raise


def why_not_finite(run: Execution) -> str:
    """The first instruction that is not finite because of a scalar at a pole, or beyond the end of a root; or ""."""
    program = run.program
    for position, array in enumerate(run.arrays):
        s = program[position]
        if isinstance(s, Nonlin) and array.size and not numpy.isfinite(array).all():
            for what, argument, root in places(s.body):
                read = entries(argument)
                # entries of vectors pass zero at single neurons, which is not a matter of scalars
                if not read or any(e.neuron != NO_NEURON for e in read):
                    continue
                value, rounding = _value(run, position, argument)
                # below a root the sign counts: a negative number is as bad as 0
                found = numpy.nanmin((value if root else abs(value)) - rounding)
                if numpy.isfinite(found) and found <= 0:
                    return _told(program, position, what, argument, float(found))
    return ""


def _told(program: Program, position: int, what: str, argument: Expr, value: float) -> str:
    shown = with_names(argument, lambda entry: program[entry.source].name, indexed=False)
    return (
        f"no number: {program.where(position)}: {what} `{shown}`, is {value:.2g}, not clear of 0 (hypothesis of Def. "
        "2.6.5: ψ and its derivatives are continuous at the limits of their scalars). Keep it away from zero."
    )
