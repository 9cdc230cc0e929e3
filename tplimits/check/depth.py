"""A check of a covariance SDE: one layer against drift and noise, or a whole depth against the law of V at its end."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy
from numpy.typing import NDArray

from tplimits.check.adaptive import Inquiry
from tplimits.check.chains import (
    ChainSampler,
    LayerInquiry,
    depth_labels,
    depth_values,
    diffusion_labels,
    drift_labels,
    uses_controls,
)
from tplimits.check.claims import Claim
from tplimits.check.layer import Weights
from tplimits.check.parity import layer_series
from tplimits.check.states import Start, cholesky
from tplimits.check.verdict import Verdict, checked_level, concluded
from tplimits.check.widths import sampled_widths
from tplimits.errors import CheckError, EvaluationError
from tplimits.numeric.covariance import covariances
from tplimits.program.given import whole_number
from tplimits.program.program import Program
from tplimits.progress import Progress

Array = NDArray[numpy.float64]

#: the widths of a check of one layer, and of a depth, unless it is told others
LAYER_WIDTHS = (50, 100, 200, 400, 800)
DEPTH_WIDTHS = (32, 64, 128)
#: a negative eigenvalue of V0 is rounding below this part of the trace
_ROUNDING = 1e-10
_PLAIN = "Too few draws for control variates: the noise of single draws is all there."


def start(V0: Any, program: Program) -> Start:
    """V0 checked: a covariance of as many tokens as the block has.

    Raises CheckError where it is none.
    """
    if V0 is None:
        raise CheckError(f"check() of `{program.name}` needs V0=, the covariance (m, m) that its first layer is given.")
    try:
        V = covariances(V0)
    except EvaluationError as wrong:
        raise CheckError(f"V0: {wrong}") from None
    if V.ndim != 2:
        raise CheckError(f"V0 has shape {V.shape}; a check starts from one covariance, of shape (m, m).")
    least = float(numpy.linalg.eigvalsh(V)[0])
    if least < -_ROUNDING * float(numpy.trace(V)):
        raise CheckError(f"V0 has the eigenvalue {least:.3g}; a covariance has none below zero.")
    return Start(V, cholesky(V))


def layer_count(layers: Any) -> int:
    """A whole number of layers; CheckError for anything else."""
    number = whole_number(layers)
    if number is None or number < 1:
        raise CheckError(f"layers={layers!r}: a chain has a whole number of layers, 1 or more.")
    return number


def run_layers(
    program: Program,
    claims: Sequence[Claim],
    V0: Any,
    layers: int = 1,
    widths: Sequence[int] | None = None,
    draws: int | Sequence[int] | None = None,
    seed: int = 0,
    level: float = 1e-2,
    weights: Weights = "law",
    ratios: Mapping[str, float] | None = None,
    given: Mapping[str, Any] | None = None,
    fixed: Sequence[str] = (),
    executor: Executor | None = None,
    progress: Progress = None,
) -> Verdict:
    """Run layers of a block from states of covariance V0, and judge what is claimed about them.

    With `layers=1` the claims are about b and Σ, with more about V after that many layers at the largest width, and
    in proportion at the others.  `weights="law"` draws products with matrices, `"real"` the matrices.

    Raises CheckError where this cannot be done as asked, or where a draw is not finite.
    """
    begin = time.perf_counter()
    inquiry = inquire(program, claims, V0, layers, widths, seed, level, weights, ratios, given, fixed)
    verdict = concluded(inquiry, draws, executor, progress, begin)
    if isinstance(inquiry, LayerInquiry) and not uses_controls(inquiry.chain, verdict.draws):
        verdict = replace(verdict, sentence=f"{verdict.sentence} {_PLAIN}")
    return verdict


def inquire(
    program: Program,
    claims: Sequence[Claim],
    V0: Any,
    layers: int = 1,
    widths: Sequence[int] | None = None,
    seed: int = 0,
    level: float = 1e-2,
    weights: Weights = "law",
    ratios: Mapping[str, float] | None = None,
    given: Mapping[str, Any] | None = None,
    fixed: Sequence[str] = (),
) -> Inquiry:
    """What is to be sampled and judged."""
    begin, number = start(V0, program), layer_count(layers)
    if weights not in ("law", "real"):
        raise CheckError(f"weights={weights!r}: use 'law' (products with matrices are drawn) or 'real' (matrices are).")
    bound, values = bound_block(program, begin.tokens, given)
    numbers = {w: _fixed_width(program, w, values.pop(w, None)) for w in fixed}
    form = layer_series(bound, values)
    asked = widths if widths is not None else LAYER_WIDTHS if number == 1 else DEPTH_WIDTHS
    taken, remarks = sampled_widths(bound, asked, form, {w: r for w, r in (ratios or {}).items() if w not in fixed})
    if taken[0] < begin.tokens:
        raise CheckError(
            f"width {taken[0]} cannot hold {begin.tokens} tokens of a given covariance; start from a larger one."
        )
    depth = None if number == 1 else number / taken[-1]
    chain = ChainSampler(bound, begin, depth, seed, weights, ratios, values, numbers, depth is None and form.step != 1)
    kind = LayerInquiry if number == 1 else Inquiry
    found = _known(claims, chain, number)
    return kind(chain, taken, found, (form,) * len(found), checked_level(level), remarks)


def bound_block(program: Program, tokens: int, given: Mapping[str, Any] | None) -> tuple[Program, dict[str, Any]]:
    """The block with all sizes fixed, and what is given beside them."""
    values = dict(given or {})
    sizes = {a: values.pop(a) for a in list(values) if a in program.known.axes}
    assert program.state is not None
    return program.bind(**{program[program.state].axes[0]: tokens, **sizes}), values


def _fixed_width(program: Program, name: str, value: Any) -> int:
    size = whole_number(value)
    if size is None or size < 1:
        raise CheckError(f"the width `{name}` of `{program.name}` stays fixed: give {name}=, a positive whole number.")
    return size


def _known(claims: Sequence[Claim], chain: ChainSampler, layers: int) -> tuple[Claim, ...]:
    m = chain.start.tokens
    known = depth_labels(m) if layers > 1 else (*drift_labels(m), *diffusion_labels(m))
    for claim in claims:
        if claim.label not in known:
            shown = ", ".join(known[:6])
            raise CheckError(
                f"there is no `{claim.label}` to check in {layers} layers of {m} tokens; there is {shown}, …"
            )
        if not math.isfinite(claim.value):
            raise CheckError(f"the claim {claim.name} = {claim.value} is not a finite number; a check needs one.")
    if not claims:
        raise CheckError("there is no claim to judge; claim a drift or a diffusion.")
    return tuple(claims)


def named_claims(claims: Mapping[str, Any], tokens: int) -> list[Claim]:
    """Claims by name: single entries, or `drift` (m, m) and `diffusion` (P, P) as whole arrays.

    >>> [c.name for c in named_claims({"drift": [[1, 2], [2, 3]], "Σ[0,0;0,0]": 2}, 2)]
    ['b[0,0]', 'b[0,1]', 'b[1,1]', 'Σ[0,0;0,0]']
    """
    upper, many = numpy.triu_indices(tokens), tokens * (tokens + 1) // 2
    wanted: dict[str, tuple[tuple[str, ...], Any]] = {
        "drift": (drift_labels(tokens), upper),
        "diffusion": (diffusion_labels(tokens), numpy.triu_indices(many)),
    }
    found = []
    for name, value in claims.items():
        if name not in wanted:
            found.append(Claim(name, _number(name, value)))
            continue
        labels, places = wanted[name]
        array, size = numpy.asarray(value, dtype=numpy.float64), tokens if name == "drift" else many
        if array.shape != (size, size):
            raise CheckError(
                f"the claim on {name} has shape {array.shape}; for {tokens} tokens it is ({size}, {size})."
            )
        most = float(numpy.abs(array).max())
        found += [Claim(label, float(v), size=most) for label, v in zip(labels, array[places], strict=True)]
    return found


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise CheckError(f"the claim on `{name}` is {value!r}; give a number.") from None


def terminal_claims(V: Array) -> list[Claim]:
    """What simulated terminal covariances, (paths, m, m), say about a chain of layers, with their standard errors."""
    values = depth_values(V)
    means, errors = values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(len(values))
    labels = depth_labels(V.shape[-1])
    return [Claim(x, float(v), float(e)) for x, v, e in zip(labels, means, errors, strict=True)]
