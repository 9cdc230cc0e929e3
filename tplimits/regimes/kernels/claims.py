"""What a kernel limit claims about networks of finite width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tplimits.errors import CheckError, NoLimitError
from tplimits.program.nodes.evaluate import evaluate
from tplimits.program.nodes.given import by_name
from tplimits.regimes.kernels import finite
from tplimits.regimes.kernels import numbers as kernels

if TYPE_CHECKING:
    from tplimits.regimes.kernels.first_order.perceptron import Perceptron
    from tplimits.regimes.kernels.limit import KernelLimit
    from tplimits.regimes.protocol import CheckAsked
    from tplimits.sampling.verdict import Verdict


def kernel_verdict(result: KernelLimit, asked: CheckAsked) -> Verdict:
    """The kernels between X1 and X2, or a user's own claims, judged at finite widths."""
    if asked.own.get("X1") is None:
        raise CheckError("check() of kernels needs X1=, the inputs they are between, as evaluate() takes them.")
    if result.layers is not None:
        return _to_first_order(result, asked, result.layers)
    reason = result.derivation.no_ntk
    stated = _own_claims(result, asked) if asked.claims is None else by_name(asked.claims, "claims", CheckError)
    if reason and any(name == "ntk" or name.startswith("Θ") for name in stated):
        raise NoLimitError(reason)
    return finite.judged.check_kernels(
        result.program,
        asked.own["X1"],
        asked.own.get("X2"),
        stated=stated,
        train=() if reason else result.derivation.rates or result.trained,  # the NNGP alone: gradients are infinite
        infinite=result.regime.infinite,
        sampling=asked.sampling,
        given=asked.given,
    )


def _to_first_order(result: KernelLimit, asked: CheckAsked, layers: Perceptron) -> Verdict:
    """K and Θ with their b and C."""
    inputs, numbers, readout = (asked.own["X1"], asked.own.get("X2")), _numbers(result, asked), layers.readout
    known = kernels.request.request(result.derivation, *inputs, numbers, asked.given.ratios).constants
    found: Any = result.evaluate(*inputs, ratios=asked.given.ratios, constants=numbers, seed=asked.sampling.seed)
    return finite.orders.check_orders(
        result.program,
        asked,
        found,
        None if asked.claims is None else by_name(asked.claims, "claims", CheckError),
        {name: float(result.derivation.rates.get(name, 1)) for name in result.trained},
        (readout.name, float(evaluate(readout.std, known)) ** 2),
    )


def _numbers(result: KernelLimit, asked: CheckAsked) -> dict[str, Any]:
    """The constants of the limit: no sizes of infinite axes."""
    return {k: v for k, v in asked.given.constants.items() if k not in result.regime.infinite}


def _own_claims(result: KernelLimit, asked: CheckAsked) -> dict[str, Any]:
    """Both kernels, or the NNGP alone, with standard errors where they were drawn."""
    pair = result.evaluate(
        asked.own["X1"],
        asked.own.get("X2"),
        ratios=asked.given.ratios,
        constants=_numbers(result, asked),
        seed=asked.sampling.seed,
    )
    kinds = ("nngp",) if result.derivation.no_ntk else ("nngp", "ntk")
    if numpy.ndim(pair.nngp_error) == 0:
        return {kind: getattr(pair, kind) for kind in kinds}
    return {kind: (getattr(pair, kind), getattr(pair, f"{kind}_error")) for kind in kinds}
