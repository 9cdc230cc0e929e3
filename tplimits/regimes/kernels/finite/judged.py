"""Kernels of a network judged at finite widths: K[i,j] for the covariance of outputs, Θ[i,j] for the tangent kernel.

Both are means over draws of `tplimits.regimes.kernels.finite.gradients`; i counts the inputs X1 and j those of X2.  A
network with output axes has one of each for every pair of outputs, `K[i,j;a,b]` with outputs numbered in row order.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import CheckError
from tplimits.law.unroll import size_of
from tplimits.program.network.data import inputs_of, sizes_of
from tplimits.program.nodes.evaluate import stream
from tplimits.regimes.kernels.finite.gradients import GradientSampler
from tplimits.sampling.adaptive import Inquiry
from tplimits.sampling.claims import Claim, on_one_number, stated_array
from tplimits.sampling.powers import layer_series
from tplimits.sampling.sample import Draws
from tplimits.sampling.sampling import Given, Sampling
from tplimits.sampling.verdict import Verdict, concluded
from tplimits.sampling.widths import MORE_WIDTHS, WIDTHS, sampled_widths
from tplimits.sampling.work import batch_size, member_count, work

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program


_AS_CHOSEN, _NOTHING = Sampling(), Given()
#: the letter of each kernel in labels
LETTERS = {"nngp": "K", "ntk": "Θ"}
#: work of one multiplication in a product of gradients
_PRODUCT = 0.1


@dataclass(frozen=True)
class KernelSampler:
    """Runs a network with its gradients on some inputs and reads the kernels between them.

    `X` holds the inputs X1, then those of X2; `split` is the number of the first, None where X2 is X1.
    """

    gradients: GradientSampler
    X: Mapping[str, Array]
    split: int | None
    seed: int = 0
    ratios: Mapping[str, float] | None = None
    given: Mapping[str, Any] | None = None
    #: factors of the squared gradients of parameters that have one
    rates: Mapping[str, Any] = field(default_factory=dict)
    #: axes whose members grow in number with the width, such as heads (`member_count`)
    growing: tuple[str, ...] = ()
    #: a readout and the variance of its entries, where K is asked for given all that is below
    readout: tuple[str, float] | None = None

    def at(self, n: int) -> KernelSampler:
        """The sampler with the sizes that growing axes have at width n."""
        if not self.growing:
            return self
        sizes = dict.fromkeys(self.growing, member_count(n))
        bound = GradientSampler(self.gradients.network.bind(**sizes), self.gradients.train)
        return replace(self, gradients=bound, growing=())

    @property
    def count(self) -> int:
        """The number of all inputs."""
        return len(next(iter(self.X.values())))

    @cached_property
    def program(self) -> Program:
        """The total program on all inputs."""
        return self.gradients.program.bind(**{self.gradients.axis: self.count})

    @cached_property
    def outputs(self) -> int:
        """The number of outputs."""
        network = self.gradients.network
        return int(numpy.prod([size_of(network, a) for a in self.gradients.output_axes], dtype=int))

    @cached_property
    def pairs(self) -> tuple[tuple[int, int, int, int], ...]:
        """(i, j, a, b): inputs and outputs of each entry; of a symmetric kernel one half."""
        rows = range(self.count if self.split is None else self.split)
        columns = rows if self.split is None else range(self.count - self.split)
        return tuple(
            (i, j, a, b)
            for i in rows
            for j in columns
            for a in range(self.outputs)
            for b in range(self.outputs)
            if self.split is not None or (i, a) <= (j, b)
        )

    def label(self, kernel: str, i: int, j: int, a: int, b: int) -> str:
        """How claims call one entry."""
        return f"{LETTERS[kernel]}[{i},{j}" + (f";{a},{b}]" if self.gradients.output_axes else "]")

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """K of all pairs, then Θ."""
        return tuple(self.label(kernel, *pair) for kernel in LETTERS for pair in self.pairs)

    def prepare(self) -> None:
        """The total program, once: copies of the sampler go to other processes."""
        if not self.growing:
            _ = self.program, self.labels, self.gradients.on_data

    def batch(self, n: int) -> int:
        """Draws in a full batch at width n."""
        if self.growing:
            return self.at(n).batch(n)
        return batch_size(self.program, n, self.ratios)

    def work(self, n: int) -> float:
        """The work of one draw at width n."""
        if self.growing:
            return self.at(n).work(n)
        uses = (use for uses in self.gradients.backward.gradients.values() for use in uses)
        rows = sum(float(numpy.prod([size_of(self.program, a) for a in use.axes])) for use in uses)
        return work(self.program, n, self.ratios) + 2 * _PRODUCT * n * (self.count * rows) ** 2

    def run(self, n: int, index: int, draws: int) -> Draws:
        """Batch number `index` at width n."""
        if self.growing:
            return self.at(n).run(n, index, draws)
        rng = stream(self.seed, n, index)
        found = self.gradients.kernels(self.X, None, n, draws, rng, self.ratios, self.given)
        shape = (draws, self.count, self.count, self.outputs, self.outputs)
        values, squares = [], []
        first, second, a, b = numpy.array(self.pairs).T
        second = second + (self.split or 0)
        nngp = found.nngp if self.readout is None else found.below(*self.readout)
        for kernel in (nngp, found.weighted(self.rates)):
            entries = kernel.reshape(shape)
            sizes = numpy.einsum("diiaa->dia", entries)
            values.append(entries[:, first, second, a, b])
            squares.append((sizes[:, first, a] * sizes[:, second, b]).mean(axis=0))
        return Draws(n, numpy.concatenate(values, axis=1), numpy.concatenate(squares))


def check_kernels(
    program: Program,
    X1: Any,
    X2: Any = None,
    *,
    stated: Mapping[str, Any],
    train: Sequence[str] | Mapping[str, Any] | None = None,
    infinite: Sequence[str] = (),
    sampling: Sampling = _AS_CHOSEN,
    given: Given = _NOTHING,
) -> Verdict:
    """Run a network and its gradients at finite widths, and judge what is stated about its kernels.

    `stated` holds arrays by the names of kernels, {"nngp": K, "ntk": (Θ, its standard errors)}, between X1 and X2
    (X2=None: X1), of shape (N1, N2, *outputs, *outputs), or (N1, N2) where outputs are independent and alike; or
    numbers by the names of entries, {"Θ[0,1]": 0.3}.  `train` names the parameters that are trained, or gives each the
    factor of its squared gradients; axes in `infinite` have more members at larger widths.  Errors that have to be
    found are relative to the largest entry of the row and the column.

    Raises CheckError where this cannot be done as asked, or where a draw is not finite, EvaluationError for bad inputs.
    """
    start = time.perf_counter()
    sampler = kernel_sampler(program, X1, X2, sampling.seed, given, train, infinite)
    found = limit_claims(sampler, stated)
    some = sampler.at(WIDTHS[0])
    form = layer_series(some.gradients.network, given.constants)
    # a series in half powers has twice the terms to tell apart, and needs more widths
    asked = sampling.widths if sampling.widths is not None else WIDTHS if form.step == 1 else MORE_WIDTHS
    taken, remarks = sampled_widths(some.program, asked, form, given.ratios)
    inquiry = Inquiry(sampler, taken, found, (form,) * len(found), sampling.level, remarks)
    return concluded(inquiry, sampling, start)


def kernel_sampler(
    program: Program,
    X1: Any,
    X2: Any,
    seed: int,
    numbers: Given,
    train: Sequence[str] | Mapping[str, Any] | None,
    infinite: Sequence[str] = (),
) -> KernelSampler:
    """The sampler of a network on some inputs, all sizes fixed by these and by what is given."""
    first = inputs_of(program, X1, "X1")
    second = None if X2 is None else inputs_of(program, X2, "X2")
    together = first if second is None else {name: _joined(name, x, second[name]) for name, x in first.items()}
    given = numbers.constants
    sizes = {a: given[a] for a in given if a in program.known.axes} | sizes_of(program, together)
    bound = program.sized(sizes)
    values = {name: value for name, value in given.items() if name not in sizes}
    gradients = GradientSampler(bound, None if train is None else tuple(train))
    split = None if second is None else len(next(iter(first.values())))
    growing = tuple(a for a in infinite if bound.size(a) is None)
    rates = {n: float(r) for n, r in train.items()} if isinstance(train, Mapping) else {}
    return KernelSampler(gradients, together, split, seed, numbers.ratios, values, rates, growing)


def _joined(name: str, first: Array, second: Array) -> Array:
    if first.shape[1:] != second.shape[1:]:
        raise CheckError(
            f"X1 and X2 give `{name}` shapes {first.shape[1:]} and {second.shape[1:]} an input; give them the same."
        )
    return numpy.concatenate([first, second])


def limit_claims(sampler: KernelSampler, stated: Mapping[str, Any]) -> tuple[Claim, ...]:
    """One claim for each entry that something is stated about."""
    found: list[Claim] = []
    known = set(sampler.labels)
    for name, value in stated.items():
        if name in LETTERS:
            value, error = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
            found += _entries(sampler, name, value, error)
        elif name in known:
            found.append(on_one_number(name, value))
        else:
            shown = ", ".join(sampler.labels[:6])
            raise CheckError(f"there is no `{name}` to check; there is nngp, ntk, {shown}, …")
    if not found:
        raise CheckError("there is no claim to judge; claim nngp, ntk, or single entries.")
    return tuple(found)


def _entries(sampler: KernelSampler, kernel: str, value: Any, error: Any) -> list[Claim]:
    stated = full(sampler, kernel, value)
    errors = numpy.zeros_like(stated) if error is None else numpy.abs(full(sampler, f"{kernel}_error", error))
    sizes = numpy.abs(stated).max(axis=(2, 3))
    found = []
    for i, j, a, b in sampler.pairs:
        size = float(max(sizes[i, :].max(), sizes[:, j].max()))
        name, number = sampler.label(kernel, i, j, a, b), float(stated[i, j, a, b])
        found.append(Claim(name, number, float(errors[i, j, a, b]), size=size or None))
    return found


def full(sampler: KernelSampler, what: str, value: Any) -> Array:
    """A stated kernel as (N1, N2, outputs, outputs)."""
    array, outputs = stated_array(what, value), sampler.outputs
    rows = sampler.count if sampler.split is None else sampler.split
    columns = rows if sampler.split is None else sampler.count - sampler.split
    network = sampler.gradients.network
    shape = tuple(size_of(network, a) for a in sampler.gradients.output_axes)
    if array.shape == (rows, columns) and shape:
        return array[..., None, None] * numpy.eye(outputs)
    if array.shape != (rows, columns, *shape, *shape):
        raise CheckError(f"`{what}` has shape {array.shape}; it needs {(rows, columns, *shape, *shape)}.")
    return array.reshape(rows, columns, outputs, outputs)
