"""Outputs of networks in training judged at finite widths: f[t,i] for the output on input i after t steps.

A draw is a network whose true matrices are trained (`tplimits.regimes.training.finite.networks`); the mean over draws
of each entry of f_1, …, f_steps is what is fitted.  Outputs are shifted to a given start, which the error sees too:
in the operator regime they are random there, and in the feature-learning limit, where they are not, what is left of
their noise at finite width would move all that follows, by more than powers of 1/n tell.  A network with output axes
has `f[t,i;a]`, outputs numbered in row order.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import CheckError, EvaluationError
from tplimits.law.unroll import size_of
from tplimits.program.network.data import inputs_of, sizes_of
from tplimits.program.network.loss import error_signal
from tplimits.program.nodes.evaluate import stream
from tplimits.program.nodes.given import by_name, sent_to, whole_from
from tplimits.regimes.training.derivation.labels import output_labels
from tplimits.regimes.training.finite.networks import Networks
from tplimits.sampling.adaptive import Inquiry
from tplimits.sampling.claims import Claim, on_one_number, stated_array
from tplimits.sampling.powers import HALVES, has_kink, layer_series
from tplimits.sampling.sample import Draws
from tplimits.sampling.sampling import Given, Sampling
from tplimits.sampling.verdict import Verdict, concluded
from tplimits.sampling.widths import MORE_WIDTHS, WIDTHS, sampled_widths
from tplimits.sampling.work import batch_size, member_count, update_work, work

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.regimes.training.finite.recipe import Recipe

_AS_CHOSEN, _NOTHING = Sampling(), Given()


@dataclass(frozen=True)
class OutputSampler:
    """Trains networks and reads their outputs on the inputs `X` (data by name).

    `start` is the path (steps + 1, inputs, *outputs) that the outputs are shifted to.
    """

    recipe: Recipe
    X: Mapping[str, Array]
    error: Any
    steps: int
    start: Array
    seed: int = 0
    ratios: Mapping[str, float] | None = None
    given: Mapping[str, Any] | None = None
    #: axes whose members grow in number with the width
    growing: tuple[str, ...] = ()

    def at(self, n: int) -> OutputSampler:
        """The sampler with the sizes that growing axes have at width n."""
        if not self.growing:
            return self
        net = self.recipe.net.bind(**dict.fromkeys(self.growing, member_count(n)))
        return replace(self, recipe=replace(self.recipe, net=net), growing=())

    @property
    def count(self) -> int:
        """The number of inputs."""
        return len(next(iter(self.X.values())))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the outputs at one time, (inputs, *outputs)."""
        net = self.recipe.net
        return (self.count, *(size_of(net, a) for a in self.recipe.sampler.output_axes))

    @property
    def path(self) -> tuple[int, ...]:
        """The shape of the outputs at all times, (steps + 1, inputs, *outputs)."""
        return (self.steps + 1, *self.shape)

    @cached_property
    def program(self) -> Program:
        """The total program on all inputs."""
        sampler = self.recipe.sampler
        return sampler.program.bind(**{sampler.axis: self.count})

    @cached_property
    def entries(self) -> dict[str, tuple[int, ...]]:
        """The place of every entry after the start, by label."""
        return {label: index for label, index in output_labels(self.path).items() if index[0]}

    @property
    def labels(self) -> tuple[str, ...]:
        """All entries."""
        return tuple(self.entries)

    def prepare(self) -> None:
        """What every batch needs, once: copies of the sampler go to other processes."""
        if not self.growing:
            _ = (self.program, self.entries, self.recipe.exponents, self.recipe.kinds, self.recipe.steppers)

    def batch(self, n: int) -> int:
        """Draws in a full batch at width n."""
        return batch_size(self.at(n).program, n, self.ratios)

    def work(self, n: int) -> float:
        """The work of one draw at width n."""
        program, steps = self.at(n).program, self.steps
        # the outputs of untrained networks are computed beside, at every step
        forward = 2 if self.recipe.drifting else 1
        moved = sum(
            update_work(program, name, _operations(optimizer), n, self.ratios)
            for name, optimizer in self.recipe.optimizers.items()
        )
        return work(program, n, self.ratios) * (1 + forward * steps) + moved * steps

    def run(self, n: int, index: int, draws: int) -> Draws:
        """Batch number `index` at width n."""
        if self.growing:
            return self.at(n).run(n, index, draws)
        rng = stream(self.seed, n, index)
        networks = Networks(self.recipe, n, draws, rng, self.given, self.ratios)
        try:
            f = networks.trained(self.X, error_signal(self.error), self.steps, start=self.start).f
        except EvaluationError as error:
            raise CheckError(f"a network of width {n} could not be trained: {error}") from None
        values, squares = f[:, 1:].reshape(draws, -1), numpy.repeat(_squares(f)[1:], f[0, 0].size)
        return Draws(n, values, squares)


def _operations(optimizer: Optimizer) -> int:
    """Operations an entry in one step of an optimizer; a norm takes two more."""
    entry = optimizer.entry_by_entry("vector")
    assert entry is not None
    return 3 + sum(int(e.count_ops()) for e in (entry.output, *(s.update for s in entry.states)))


def _squares(f: Array) -> Array:
    """The mean square, over draws, of the largest change since the start up to each time."""
    flat = f.reshape(*f.shape[:2], -1)
    # what a claim is wrong by is relative to what training did, not to outputs that it left alone
    moved = numpy.abs(flat - flat[:, :1]).max(axis=2)
    # the largest change so far: outputs that have come back are not known better for that
    return (numpy.maximum.accumulate(moved, axis=1) ** 2).mean(axis=0)


def output_sampler(
    recipe: Recipe,
    X: Any,
    error: Any,
    steps: Any,
    start: Any = 0.0,
    seed: int = 0,
    numbers: Given = _NOTHING,
    growing: Sequence[str] = (),
) -> OutputSampler:
    """The sampler of a recipe on some inputs, all sizes fixed by these and by what is given.

    `start` is what outputs are shifted to: one number, outputs, or a path of them.
    """
    error_signal(error)
    net, given = recipe.net, dict(numbers.constants)
    data = inputs_of(net, X, "X")
    # constants= holds sizes of axes as well as constants
    sizes = {a: given.pop(a) for a in tuple(given) if a in net.known.axes}
    bound = net.sized(sizes | sizes_of(net, data))
    open_axes = tuple(a for a in growing if bound.size(a) is None)
    times = whole_from("steps", steps, 1, CheckError)
    still = numpy.empty(0)
    sampler = OutputSampler(
        replace(recipe, net=bound), data, error, times, still, seed, numbers.ratios, given, open_axes
    )
    return replace(sampler, start=_path(sampler, start))


def _path(sampler: OutputSampler, start: Any) -> Array:
    """What the outputs are shifted to, at all times."""
    array = stated_array("f0", start)
    along = array.shape == sampler.path
    if not along and array.shape not in ((), sampler.shape):
        raise CheckError(f"f0 has shape {array.shape}; it is {sampler.shape}, or {sampler.path} for a path.")
    # outputs at the start alone do not say where untrained networks would be later
    if not along and array.ndim and sampler.recipe.drifting:
        why = "weight decay" if sampler.recipe.decaying else "constants that move"
        raise CheckError(
            f"f0 has shape {array.shape}, but with {why} the outputs of the untrained network change in time: "
            f"give their path, {sampler.path}, or leave f0 out, which takes 0 at all times."
        )
    return numpy.broadcast_to(array, sampler.path).copy()


def check_outputs(
    sampler: OutputSampler,
    stated: tuple[Any, Any, int] | None,
    claims: Mapping[str, Any] | None = None,
    sampling: Sampling = _AS_CHOSEN,
    starts_there: bool = True,
) -> Verdict:
    """Train networks of several widths, and judge what is claimed about the means of their outputs.

    `stated` is the limit at all times, (steps + 1, inputs, *outputs), its standard errors and how many degrees of
    freedom they have; `claims` replace them:
    {"f": array} or single entries, {"f[2,0]": 0.6}.  Errors of an array that have to be found are relative to the
    largest change |f_t − f_0| of any entry at that time.  `starts_there`: stated arrays have to start at the networks'
    own start.

    Raises CheckError where this cannot be done as asked, or where networks diverge.
    """
    began = time.perf_counter()
    if claims is None:
        assert stated is not None
        f, error, degrees = stated
        claimed = _entries(sampler, "f", f, error, starts_there)
        found = [replace(claim, degrees=max(degrees, 1)) for claim in claimed]
    else:
        found = [
            c
            for label, value in by_name(claims, "claims", CheckError).items()
            for c in _claim(sampler, label, value, starts_there)
        ]
    if not found:
        raise CheckError('there is no claim to judge; claim "f" or single entries.')
    functions = {"error": sampler.error, "lr": sampler.recipe.rates, **sampler.recipe.schedules}
    sent_to(sampling.executor, functions, CheckError)
    some = sampler.at(WIDTHS[0])
    # at a kink a change of order 1/n moves a share of the neurons of that order: the series is in n^(−1/2)
    form = HALVES if _crosses_kinks(some.recipe) else layer_series(some.recipe.net, sampler.given)
    taken, remarks = sampled_widths(
        some.program, MORE_WIDTHS if sampling.widths is None else sampling.widths, form, sampler.ratios
    )
    inquiry = Inquiry(sampler, taken, tuple(found), (form,) * len(found), sampling.level, remarks)
    return concluded(inquiry, sampling, began)


def _crosses_kinks(recipe: Recipe) -> bool:
    """Whether a step moves entries by a power of 1/n, and through kinks (`tplimits.sampling.powers`)."""
    return recipe.a_out < 1 and has_kink(recipe.net)


def _claim(sampler: OutputSampler, label: str, value: Any, starts_there: bool) -> list[Claim]:
    if label == "f":
        return _entries(sampler, 'claims["f"]', value, None, starts_there)
    if label not in sampler.entries:
        first, last = next(iter(sampler.entries)), next(reversed(sampler.entries))
        raise CheckError(f"there is no `{label}` to check; there is f, and its entries {first}, …, {last}.")
    return [on_one_number(label, value)]


def _entries(sampler: OutputSampler, what: str, value: Any, error: Any, starts_there: bool) -> list[Claim]:
    """A claim for every entry after the start."""
    f = stated_array(what, value)
    if f.shape != sampler.path:
        raise CheckError(f"`{what}` has shape {f.shape}; it needs {sampler.path}, (steps + 1, inputs, *outputs).")
    if starts_there and not numpy.allclose(f[0], sampler.start[0], rtol=1e-6, atol=1e-9):
        raise CheckError(f"`{what}` starts elsewhere than the networks do: give f0={what}[0].")
    errors = numpy.zeros_like(f) if error is None else numpy.abs(stated_array(f"{what}, stderr", error))
    sizes = numpy.abs(f - f[0]).reshape(len(f), -1).max(axis=1)
    return [
        Claim(label, float(f[index]), float(errors[index]), size=float(sizes[index[0]]) or None)
        for label, index in sampler.entries.items()
    ]
