"""What a kernel limit claims about networks of finite width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tplimits import check as finite
from tplimits.errors import CheckError, NoLimitError
from tplimits.program.given import by_name
from tplimits.results.kernels import KernelLimit

if TYPE_CHECKING:
    from tplimits.check.verdict import Verdict


def kernel_verdict(
    result: KernelLimit,
    X1: Any,
    X2: Any,
    widths: Sequence[int] | None,
    draws: int | Sequence[int] | None,
    seed: int,
    level: float,
    given: Mapping[str, Any],
    ratios: Mapping[str, float] | None,
    claims: Mapping[str, Any] | None,
    **options: Any,
) -> Verdict:
    """The kernels between X1 and X2, or a user's own claims, judged at finite widths."""
    if X1 is None:
        raise CheckError("check() of kernels needs X1=, the inputs they are between, as evaluate() takes them.")
    stated: dict[str, Any] = {}
    reason, trained = result.derivation.no_ntk, result.trained
    if reason:
        if any(name == "ntk" or name.startswith("Θ") for name in by_name(claims, "claims", CheckError)):
            raise NoLimitError(reason)
        trained = ()  # the NNGP alone: gradients are infinite
    if claims is None:
        numbers = {k: v for k, v in given.items() if k not in result.regime.infinite}
        pair = result.evaluate(X1, X2, ratios=ratios, constants=numbers, seed=seed)
        for kernel in ("nngp",) if reason else ("nngp", "ntk"):
            stated[kernel] = getattr(pair, kernel)
            if result.is_drawn:
                stated[f"{kernel}_error"] = getattr(pair, f"{kernel}_error")
    verdict: Verdict = finite.kernels.check_kernels(
        result.program,
        X1,
        X2,
        widths=widths,
        draws=draws,
        seed=seed,
        level=level,
        ratios=ratios,
        given=given,
        train=trained,
        claims=claims,
        infinite=result.regime.infinite,
        **stated,
        **options,
    )
    return verdict
