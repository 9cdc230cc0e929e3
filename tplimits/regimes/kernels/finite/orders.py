"""Kernels of order 1 judged at finite widths: b(K[i,j]), C(K[i,j]) and the same of Θ, beside K and Θ themselves.

Draws are those of `tplimits.regimes.kernels.finite.judged`, but for K, which is the covariance of outputs given all
that is below the readout: an average over neurons without the squares of the readout, whose noise is none of K.
Claims on b and C are those of `tplimits.sampling.orders`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.errors import CheckError
from tplimits.regimes.kernels.finite.judged import LETTERS, Array, KernelSampler, full, kernel_sampler, limit_claims
from tplimits.sampling.claims import Claim, on_one_number
from tplimits.sampling.orders import (
    SERIES,
    WIDTHS,
    OfOrders,
    bias_claim,
    bias_name,
    covariance_claim,
    parsed,
    root_name,
)
from tplimits.sampling.sample import Derived, Draws
from tplimits.sampling.verdict import Verdict, concluded
from tplimits.sampling.widths import sampled_widths

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.kernels.first_order.evaluation import FirstOrder
    from tplimits.regimes.protocol import CheckAsked

#: C below this share of the square of its kernel is that of what does not fluctuate
_FIXED = 1e-12
#: whole arrays that can be claimed, by the kind of claim on their entries
ARRAYS = {
    f"{kernel}_{what}": (kernel, letter) for kernel in LETTERS for what, letter in (("bias", "b"), ("variance", "C"))
}


@dataclass(frozen=True)
class ScaledKernels(Derived):
    """Draws of kernels θ, of n (θ − L) and of √n (θ − L); `limit` holds L of every label."""

    inner: KernelSampler
    limit: Array

    @property
    def labels(self) -> tuple[str, ...]:
        """θ, b(θ) and √n·θ of every entry."""
        names = self.inner.labels
        return (*names, *map(bias_name, names), *map(root_name, names))

    def run(self, n: int, index: int, draws: int) -> Draws:
        """Batch number `index` at width n."""
        found = self.inner.run(n, index, draws)
        off = found.values - self.limit
        scaled = numpy.concatenate([n * off, math.sqrt(n) * off], axis=1)
        squares = numpy.concatenate([found.squares, (scaled**2).mean(axis=0)])
        return Draws(n, numpy.concatenate([found.values, scaled], axis=1), squares)


def check_orders(
    program: Program,
    asked: CheckAsked,
    found: FirstOrder,
    stated: Mapping[str, Any] | None,
    rates: Mapping[str, float],
    readout: tuple[str, float],
) -> Verdict:
    """All that kernels of order 1 claim of the inputs asked for, or what is `stated`, judged at finite widths.

    `readout` is the name of the weights of outputs and the variance of their entries.

    `stated` holds arrays "nngp", "ntk", "nngp_bias", "nngp_variance", "ntk_bias", "ntk_variance", or numbers by names
    of entries, "Θ[0,1]", "b(Θ[0,1])", "C(Θ[0,1])", "C(K[0,0], Θ[0,1])".  Errors that have to be found are relative to
    |b| + √C and to C as derived.
    """
    start = time.perf_counter()
    sampling = asked.sampling
    trained = {readout[0]: 0.0, **rates}
    plain = kernel_sampler(program, asked.own["X1"], asked.own.get("X2"), sampling.seed, asked.given, trained)
    inner = replace(plain, readout=readout)
    taken, remarks = sampled_widths(inner.program, sampling.widths or WIDTHS, SERIES, asked.given.ratios)
    writer = _Claims(inner, found, taken[-1])
    claims = writer.claims(writer.own() if stated is None else stated)
    source = ScaledKernels(inner, writer.entries("nngp", "ntk"))
    inquiry = OfOrders(source, taken, claims, (SERIES,) * len(claims), sampling.level, remarks)
    return concluded(inquiry, sampling, start)


@dataclass(frozen=True)
class _Claims:
    """Claims by their names; `widest` is the largest width that is sampled."""

    sampler: KernelSampler
    found: FirstOrder
    widest: int

    def entries(self, *kinds: str) -> Array:
        """Arrays of the expansion, entry by entry as labels are."""
        return numpy.concatenate([self._listed(kind, getattr(self.found, kind)) for kind in kinds])

    def _listed(self, kind: str, array: Any) -> Array:
        whole = full(self.sampler, kind, array)
        return numpy.array([whole[pair] for pair in self.sampler.pairs])

    def own(self) -> dict[str, Any]:
        """All that is derived; C of what does not fluctuate is left out."""
        names: dict[str, Any] = {kernel: getattr(self.found, kernel) for kernel in LETTERS}
        # a variance of 0 has no size that an error of it could be relative to
        fixed = self.entries("nngp_variance", "ntk_variance") <= _FIXED * self.entries("nngp", "ntk") ** 2
        names |= {bias_name(label): None for label in self.sampler.labels}
        return names | {f"C({x})": None for x, still in zip(self.sampler.labels, fixed, strict=True) if not still}

    def claims(self, stated: Mapping[str, Any]) -> tuple[Claim, ...]:
        """One claim for each entry that something is stated about; CheckError for names of nothing."""
        labels = self.sampler.labels
        claims: list[Claim] = []
        for name, value in stated.items():
            about = parsed(name, labels)
            if about is not None:
                claims.append(self._claim(name, *about, value))
            elif name in ARRAYS:
                kernel, what = ARRAYS[name]
                own = [self.sampler.label(kernel, *pair) for pair in self.sampler.pairs]
                numbers = self._listed(name, value)
                claims += [self._claim(name, what, (labels.index(x),), v) for x, v in zip(own, numbers, strict=True)]
            elif name in LETTERS or name in labels:
                claims += limit_claims(self.sampler, {name: value})
            else:
                shown = ", ".join((*LETTERS, *ARRAYS, labels[0], bias_name(labels[0]), f"C({labels[0]})"))
                raise CheckError(f"there is no `{name}` to check; there is {shown}, …")
        if not claims:
            raise CheckError("there is no claim to judge; claim b(…) or C(…) of entries of K and Θ.")
        return tuple(claims)

    def _claim(self, name: str, what: str, places: tuple[int, ...], value: Any) -> Claim:
        """A claim, with the value of the expansion where none is given."""
        labels = [self.sampler.labels[i] for i in places]
        variances = numpy.maximum(self.entries("nngp_variance", "ntk_variance")[list(places)], 0.0)
        if value is None:
            kinds = ("nngp_bias", "ntk_bias") if what == "b" else ("nngp_variance", "ntk_variance")
            number, error = (float(self.entries(*(k + s for k in kinds))[places[0]]) for s in ("", "_error"))
        else:
            number, error = on_one_number(name, value).value, 0.0
        if what == "b":
            # n (θ − L) has the error of L times n
            off = error + (self.widest * self._error(places[0]) if value is None else 0.0)
            return bias_claim(labels[0], number, off, float(variances[0]))
        return covariance_claim([*map(root_name, labels)], number, error, math.sqrt(variances[0] * variances[-1]))

    def _error(self, place: int) -> float:
        """The error of L of a label."""
        kernel = list(LETTERS)[place >= len(self.sampler.pairs)]
        error = numpy.abs(getattr(self.found, f"{kernel}_error"))
        if numpy.ndim(error) == 0:
            return float(error)
        return float(self._listed(f"{kernel}_error", error)[place % len(self.sampler.pairs)])
