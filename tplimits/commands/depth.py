"""tplimits depth"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy
import typer
from typer.exceptions import TyperException

from tplimits.commands import limits
from tplimits.commands.assignments import assigned
from tplimits.commands.options import Html, Json, Latex, Ratios, Seed, Sets, Sizes, Target
from tplimits.commands.output import writable, write_report
from tplimits.derive import derive
from tplimits.errors import EvaluationError
from tplimits.pages.report import Report, Reported
from tplimits.regimes.depth.expanded.limit import NumericSDE
from tplimits.regimes.depth.limit import Proportional
from tplimits.regimes.depth.tangent.limit import derive_gradients
from tplimits.terminal import show, working

#: quantiles of the correlation that are shown
_LEVELS = (0.05, 0.5, 0.95)


def depth(
    target: Target,
    layers: Annotated[int, typer.Option("--depth", min=1, help="layers of the networks meant")] = 100,
    width: Annotated[int, typer.Option(min=1, help="their width")] = 200,
    tokens: Annotated[int, typer.Option(min=1, help="tokens of the input, of variance 1")] = 2,
    rho: Annotated[float, typer.Option(help="the correlation of any two of them")] = 0.2,
    paths: Annotated[int, typer.Option(min=2, help="paths of the SDE")] = 4096,
    dt: Annotated[float, typer.Option(help="their step")] = 0.01,
    stop: Annotated[float | None, typer.Option(help="stop a path whose covariance has a larger eigenvalue")] = None,
    gradients: Annotated[bool, typer.Option(help="laws of gradient norms beside those of correlations")] = True,
    seed: Seed = 0,
    set_: Sets = [],  # noqa: B006
    size: Sizes = [],  # noqa: B006
    ratio: Ratios = [],  # noqa: B006
    latex: Latex = None,
    html: Html = None,
    json: Json = None,
) -> None:
    """Say what deep networks of a block do to the correlation of tokens, and to gradients on their way back."""
    writable(latex, html, json)
    program, constants, ratios = limits.bound(target, size), assigned("--set", set_), assigned("--ratio", ratio)
    if program.state is None:
        raise TyperException(f"`{program.name}` is no block, one layer of a deep network: tplimits derive.")
    V0, T = numpy.full((tokens, tokens), rho) + (1 - rho) * numpy.eye(tokens), layers / width
    asked: dict[str, Any] = {
        "T": T,
        "dt": dt,
        "paths": paths,
        "seed": seed,
        "stop": stop,
        "ratios": ratios,
        "constants": constants,
    }
    with working(f"deriving {program.name}"):
        sde = derive(program, Proportional())
    with working("drawing paths"):
        found = sde.simulate(V0, **asked, progress=False)
    show(f"{program.name}, depth {layers} and width {width}: T = {T:g}", repr(found))
    if tokens > 1:
        low, middle, high = numpy.quantile(found.correlation(0, 1), _LEVELS)
        show(f"correlation of tokens 0 and 1, {rho:g} at the start: median {middle:.3f} ({low:.3f} to {high:.3f})")
    if isinstance(sde, NumericSDE) and gradients:
        show("gradients: not derived for blocks that normalise by the state")
    if not gradients or isinstance(sde, NumericSDE):
        write_report(found, latex, html, json)
        return
    with working("deriving gradients"):
        tangent = derive_gradients(program)
    try:
        with working("drawing gradients"):
            laws = tangent.gradients(V0, **asked)
    except EvaluationError as refused:
        raise TyperException(f"{refused} Correlations alone: --no-gradients.") from None
    show("", repr(laws))
    write_report(_Both(found, laws), latex, html, json)


@dataclass(frozen=True)
class _Both(Reported):
    """Gradients beside the correlations of the same networks, on one page."""

    paths: Reported
    laws: Reported

    def report(self) -> Report:
        first, second = self.paths.report(), self.laws.report()
        return replace(
            second,
            text=f"{first.text}\n\n{second.text}",
            numbers=(*first.numbers, *second.numbers),
            picture=first.picture + second.picture,
        )
