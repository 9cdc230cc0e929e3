"""A check of gradients along depth: backpropagation in real networks against the SDE, and against responses.

Of every quantity, as `WV@0` for the matrix WV of the first layer or `input[1]@0` for token 1 of the input, the 5, 50
and 95 % quantiles of log(|∂L/∂θ|²/n) are judged by a fit over widths, L one token of the end read by a standard normal
vector.  At every width the same quantiles of the response to a perturbation, in networks of their own, have to be those
of backpropagation: `duality 50% WV@0` is claimed to be zero.  `correlation end WV@0` is that of log |∂L/∂WV|² with the
log of |x|² behind the last layer, of the token that is read: gradients meet the weights that the state has met, which
tangents with C kept at 0, or gradients independent of the way there, do not.  Both logs are clipped to their 5 and 95 %
quantiles, as paths that explode count as above all others.  `alignment WV@0` is the mean of the squared cosine of that
state and its response, C²/(V D), which is 0 where C is.  Of one token and a homogeneous block, for which the law
over layers is known (`TangentSDE.chain`), correlations of two layers are judged too: `correlation W@0 W@1`, of log
|∂L/∂W|² in the first and in the last.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy

from tplimits.arrays import Array
from tplimits.errors import CheckError, NoLimitError
from tplimits.numbers.threads import one_thread
from tplimits.regimes.depth.finite.ends import LEAST_DRAWS, MOST_STOPPED
from tplimits.regimes.depth.finite.request import LayersRequest
from tplimits.regimes.depth.numbers.influence import LEVELS, QUANTILES, of_correlation, of_quantile
from tplimits.regimes.depth.tangent.finite.backpropagation import Network
from tplimits.regimes.depth.tangent.finite.quantities import (
    Quantity,
    aligned,
    correlated,
    labels,
    met,
    pairs,
)
from tplimits.regimes.depth.tangent.finite.responses import responses
from tplimits.regimes.depth.tangent.verdict import token_of
from tplimits.sampling.adaptive import Inquiry
from tplimits.sampling.claims import Claim
from tplimits.sampling.powers import WHOLE
from tplimits.sampling.sample import Draws
from tplimits.sampling.verdict import Verdict, concluded
from tplimits.sampling.work import layer_batch, layer_work

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.depth.finite.states import Start
    from tplimits.regimes.depth.tangent.chain import Chain
    from tplimits.regimes.depth.tangent.limit import TangentSDE
    from tplimits.regimes.depth.tangent.verdict import Row
    from tplimits.regimes.protocol import CheckAsked

#: the token that L reads
READOUT = 0
_DEFAULTS: dict[str, Any] = {"dt": 0.01, "paths": 16384, "stop": None}


@dataclass(frozen=True)
class GradientSampler:
    """Log gradient norms of chains, by backpropagation, and behind them by perturbations of other chains."""

    program: Program
    start: Start
    depth: float
    quantities: tuple[Quantity, ...]
    seed: int = 0
    ratios: Mapping[str, float] | None = None
    given: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What the columns of the draws are."""
        back = [f"log {q.name}" for q in self.quantities]
        first = [q for q in self.quantities if q.place == 0]
        return (*back, *(f"response {q.name}" for q in first), *map(aligned, first), "end")

    def prepare(self) -> None:
        """What is the same for every batch, found once."""
        _ = self.labels

    def layers(self, n: int) -> int:
        """The layers of a chain at width n."""
        return max(1, round(self.depth * n))

    def batch(self, n: int) -> int:
        """Chains in a full batch at width n."""
        return max(1, layer_batch(self.program, n, self.ratios, False) // 2)

    def work(self, n: int) -> float:
        """The work of one chain at width n: there and back, and a response for every quantity."""
        beside = sum(q.place == 0 for q in self.quantities)
        forth = layer_work(self.program, n, self.ratios, False)
        return self.layers(n) * (3 * forth + 2 * beside * layer_work(self.program, n, self.ratios, True))

    def run(self, n: int, index: int, draws: int) -> Draws:
        """Batch number `index` at width n."""

        def stream(*key: int) -> numpy.random.Generator:
            return numpy.random.Generator(
                numpy.random.SFC64(numpy.random.SeedSequence(self.seed, spawn_key=(n, index, *key)))
            )

        layers = self.layers(n)
        at = {q: min(layers - 1, round(q.place * layers)) for q in self.quantities}
        with numpy.errstate(all="ignore"):
            x, _ = self.start.states(draws, n, stream(0))
            network = Network(self.program, layers, READOUT, self.ratios, self.given)
            found = network.squared_norms(x, lambda layer: stream(1, layer), stream(2), tuple(set(at.values())))
            columns = [self._log(q, found["input" if q.of.startswith("input") else q.of, at[q]], n) for q in at]
            beside = [
                self._response(q, draws, n, layers, stream(3, number))
                for number, q in enumerate(self.quantities)
                if q.place == 0
            ]
            columns += [size for size, _ in beside] + [cosine for _, cosine in beside]
            columns.append(numpy.log(found["end", layers][:, READOUT] / n))
        values = numpy.stack(columns, axis=1)
        return Draws(n, values, (values**2).mean(axis=0))

    def _log(self, q: Quantity, squares: Array, n: int) -> Array:
        if q.of.startswith("input"):
            token = token_of(q.of)
            squares = squares.sum(axis=1) if token is None else squares[:, token]
        return numpy.asarray(numpy.log(squares / n) + q.order * math.log(n))

    def _response(self, q: Quantity, draws: int, n: int, layers: int, rng: numpy.random.Generator) -> Any:
        """The log of the size of the response of the token that is read, and its squared cosine with the state."""
        x, _ = self.start.states(draws, n, rng)
        moved: Any = q.of
        if q.of.startswith("input"):
            moved = rng.standard_normal(x.shape)
            if (token := token_of(q.of)) is not None:
                moved[:, [a for a in range(x.shape[1]) if a != token]] = 0.0
        moving = responses(self.program, x, moved, layers, rng, self.ratios, self.given)
        state, δ = (v[:, READOUT] for v in moving)
        size = (δ**2).mean(axis=-1)
        cosine = (state * δ).mean(axis=-1) ** 2 / ((state**2).mean(axis=-1) * size)
        return numpy.log(size) + q.order * math.log(n), cosine


@dataclass(frozen=True)
class GradientInquiry(Inquiry):
    """Claims on the laws of log gradient norms."""

    least = LEAST_DRAWS

    @property
    def _quantities(self) -> tuple[Quantity, ...]:
        assert isinstance(self.sampler, GradientSampler)
        return self.sampler.quantities

    @property
    def columns(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(labels(self._quantities))}

    def measured(self, samples: Sequence[Draws]) -> tuple[Draws, ...]:
        """One column for each quantile, of backpropagation and of its difference from responses."""
        with one_thread():
            return tuple(self._measured(s) for s in samples)

    def _measured(self, sample: Draws) -> Draws:
        quantities = self._quantities
        count = len(quantities)
        back = {q: sample.values[:, k] for k, q in enumerate(quantities)}
        first = [q for q in quantities if q.place == 0]
        beside = {q: sample.values[:, count + k] for k, q in enumerate(first)}
        own = [of_quantile(values, level) for values in back.values() for level in QUANTILES]
        apart = [of_quantile(back[q], p) - of_quantile(v, p) for q, v in beside.items() for p in QUANTILES]
        spread: list[Any] = [
            numpy.ptp(numpy.quantile(values, QUANTILES)) for values in back.values() for _ in QUANTILES
        ]
        spread += [numpy.ptp(numpy.quantile(back[q], QUANTILES)) for q in beside for _ in QUANTILES]
        end = sample.values[:, -1]
        joint = [_clipped_correlation(back[q], end) for q in beside]
        joint += [sample.values[:, count + len(first) + k] for k in range(len(first))]
        joint += [of_correlation(back[one], back[two]) for one, two in pairs(quantities)]
        spread += [1.0] * len(joint)
        return Draws(sample.n, numpy.stack([*own, *apart, *joint], axis=1), numpy.array(spread) ** 2)


def judged(sde: TangentSDE, asked: CheckAsked) -> Verdict:
    """Quantiles of log gradient norms, or the user's claims on them, against networks.

    Raises CheckError where this cannot be done as asked, and where more than one path in a hundred explodes.
    """
    begin, own, sampling = time.perf_counter(), asked.own, asked.sampling
    request = LayersRequest.of(sde, asked, "real")
    if request.depth is None:
        raise CheckError("a check of gradients runs chains of layers: give layers=, two or more.")
    if sde.fixed:
        raise CheckError("a check of gradients with widths that stay fixed is not run; leave `fixed` out.")
    laws = {**_DEFAULTS, **{name: own[name] for name in _DEFAULTS if name in own}}
    quantities, claims = _claims(sde, request, asked.claims, laws)
    sampler = GradientSampler(
        request.block, request.start, request.depth, quantities, request.seed, request.ratios, request.constants
    )
    # duality holds at every width: any series will do, and the shortest sees most
    series = tuple(WHOLE if c.label.startswith("duality") else request.series for c in claims)
    inquiry = GradientInquiry(sampler, request.taken, tuple(claims), series, sampling.level, request.remarks)
    return concluded(inquiry, sampling, begin)


def _claims(
    sde: TangentSDE, request: LayersRequest, stated: Mapping[str, Any] | None, laws: Mapping[str, Any]
) -> tuple[tuple[Quantity, ...], list[Claim]]:
    """What is judged: the quantiles of paths, of gradients that reach the readout, and duality."""
    T = request.depth or 0.0
    m, names = request.start.tokens, [n for n in sde.limit.parameters if sde.is_derived(n)]
    wanted = [*(f"input[{a}]" for a in range(m)), *names] if m > 1 else ["input", *names]
    chains = _chains(sde, request, laws) if m == 1 else []
    found = [
        sde.gradients(
            request.start.V,
            T,
            of=wanted,
            layers=(0.0, 0.5, 1.0) if chains else (0.0, 0.5),
            readout=READOUT,
            dt=dt,
            paths=laws["paths"],
            stop=laws["stop"],
            seed=request.seed,
            ratios=request.ratios,
            constants=request.given,
        )
        for dt in (laws["dt"], laws["dt"] / 2)
    ]
    coarse, fine = found
    quantities: list[Quantity] = []
    claims: list[Claim] = []
    ends: list[Claim] = []
    alignments: list[Claim] = []
    for row, other in zip(fine.rows, coarse.rows, strict=True):
        if row.stopped.mean() > MOST_STOPPED:
            raise CheckError(
                f"{row.stopped.mean():.1%} of the paths of the SDE exploded before T = {T:g}: gradients "
                "have no law at the end to compare with; take fewer layers, or smaller constants."
            )
        if not numpy.isfinite(row.logs).all():
            continue  # the readout does not depend on this token
        if row.layer == 1 and row.of == "input":
            continue  # the readout itself
        q = Quantity(row.of, row.layer, row.order)
        quantities.append(q)
        values, size = [row.quantile(p) for p in QUANTILES], float(numpy.ptp(row.quantiles))
        if q.place == 0:
            ends.append(_with_end(q, row, other))
            alignments.append(_alignment(q, row, other))
        for level, (value, error), rough in zip(LEVELS, values, other.quantiles, strict=True):
            error = math.hypot(error, value - rough)
            claims.append(Claim(f"{level} {q.name}", value, error, size=size))
    every = tuple(quantities)
    claims += [Claim(label, 0.0) for label in labels(every) if label.startswith("duality")]
    claims += ends + alignments
    if chains:
        claims += [_joint(chains, *pair) for pair in pairs(every)]
    if stated is None:
        return every, claims
    known = {claim.label: claim for claim in claims}
    for label in stated:
        if label not in known:
            raise CheckError(f"there is no `{label}` to check; there is {', '.join(list(known)[:6])}, …")
    return every, [Claim(label, float(value), size=known[label].size) for label, value in stated.items()]


def _clipped_correlation(x: Array, y: Array) -> Array:
    low, high = QUANTILES[0], QUANTILES[-1]
    return of_correlation(*(numpy.clip(v, *numpy.quantile(v, [low, high], method="lower")) for v in (x, y)))


def _with_end(q: Quantity, *rows: Row) -> Claim:
    """The correlation with the state behind the last layer, with a step and with twice that."""
    found = []
    for row in rows:
        with numpy.errstate(divide="ignore"):
            logs = (row.logs, numpy.log(row.ends[:, READOUT]))
        found.append(_clipped_correlation(*(numpy.where(row.stopped, numpy.inf, v) for v in logs)))
    fine, rough = found
    error = math.hypot(float(fine.std()) / math.sqrt(len(fine)), float(fine.mean() - rough.mean()))
    return Claim(met(q), float(fine.mean()), error, size=1.0)


def _alignment(q: Quantity, row: Row, rough: Row) -> Claim:
    """The mean squared cosine of state and response, with the errors of paths, of the step, and of what was stopped."""
    values, coarse = (r.alignments[:, READOUT] for r in (row, rough))
    mean = float(values.mean())
    errors = (float(values.std()) / math.sqrt(len(values)), mean - float(coarse.mean()), float(row.stopped.mean()))
    return Claim(aligned(q), mean, math.hypot(*errors), size=1.0)


def _chains(sde: TangentSDE, request: LayersRequest, laws: Mapping[str, Any]) -> list[Chain]:
    """The joint law over layers with a step and with half of it; none where it is not derived."""
    T, V = request.depth or 0.0, float(request.start.V[0, 0])
    asked: dict[str, Any] = {"paths": laws["paths"], "seed": request.seed}
    asked |= {"ratios": request.ratios, "constants": request.given}
    try:
        return [sde.chain(T=T, V0=V, dt=dt, **asked) for dt in (laws["dt"], laws["dt"] / 2)]
    except NoLimitError:
        return []


def _joint(chains: Sequence[Chain], first: Quantity, second: Quantity) -> Claim:
    """A correlation over layers, with the errors of paths and of the step."""
    rough, fine = (c.correlation(first.place, second.place) for c in chains)
    values = of_correlation(*(chains[1].weights(q.place) for q in (first, second)))
    error = math.hypot(float(values.std()) / math.sqrt(len(values)), fine - rough)
    return Claim(correlated(first, second), fine, error, size=1.0)
