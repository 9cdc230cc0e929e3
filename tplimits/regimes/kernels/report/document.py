"""Kernels of a network, and their numbers, as JSON for other programs to read and on a page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import sympy

from tplimits import report
from tplimits.program.files.serial import to_json
from tplimits.regimes.kernels.report import latex as kernels_latex
from tplimits.regimes.kernels.report import text as kernels_text
from tplimits.regimes.kernels.report.outline import Equation, Layers, NamedMean, Outline
from tplimits.regimes.kernels.report.steps import assumptions
from tplimits.report.json_report import numbers_document

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.kernels.numbers.request import KernelPair, NNGPAlone


def kernel_limit(outline: Outline) -> dict[str, Any]:
    """The recursion (repeated layers once) and named means; expressions as text and as LaTeX."""
    derivation = outline.derivation
    return {
        "program": json.loads(to_json(derivation.network)),  # the recursion names arguments of functions as it has them
        "trained": list(derivation.trained),
        **({"rates": {name: str(rate) for name, rate in derivation.rates.items()}} if derivation.rates else {}),
        "infinite": list(derivation.infinite),
        "recursion": [_item(outline, item) for item in outline.items],
        "means": [_mean(outline, mean) for mean in outline.named_means],
        "indices": {letter: axis for axis, letter in outline.letters.items()},
        "assumptions": list(assumptions(outline)),
    }


def kernel_page(outline: Outline) -> dict[str, Any]:
    """What the page of a kernel limit shows."""
    return {
        "program": outline.derivation.network,
        "equations": [report.html.cells(row) for row in kernels_latex.formulas(outline)],
        "indices": ", ".join(f"{letter} over {axis}" for axis, letter in outline.letters.items()),
        "assumptions": assumptions(outline),
    }


def kernel_numbers(program: Program, pair: KernelPair | NNGPAlone) -> str:
    """Gram matrices with their errors, as nested lists."""
    reason = getattr(pair, "reason", "")  # why there is no tangent kernel, where there is none
    names = ("nngp", "nngp_error") if reason else ("nngp", "ntk", "nngp_error", "ntk_error")
    parts = {name: getattr(pair, name) for name in names}
    values = {name: getattr(value, "tolist", lambda value=value: value)() for name, value in parts.items()}
    return numbers_document(program, kernels=values, **({"no_ntk": reason} if reason else {}))


def _item(outline: Outline, item: Equation | Layers) -> dict[str, Any]:
    printer, typeset = kernels_text.Printer(outline), kernels_latex.Printer(outline)
    if isinstance(item, Equation):
        return {
            "name": kernels_text.title(item.title),
            "left": printer.left(item),
            "right": printer.doprint(item.right),
            "latex": str(typeset.equation(item)),
        }
    return {
        "layers": [item.first, item.last],
        "before": {kernels_text.title(a): kernels_text.title(b) for a, b in item.before},
        "equations": [_item(outline, equation) for equation in item.equations],
    }


def _mean(outline: Outline, mean: NamedMean) -> dict[str, Any]:
    return {
        "name": mean.name,
        "arguments": [str(a) for a in mean.function.arguments],
        "integrand": sympy.sstr(mean.function.integrand),
        "variables": [str(z) for z in mean.function.variables],
        "covariances": [str(c) for c in mean.function.covariances],
        "closed": None if mean.closed is None else sympy.sstr(mean.closed),
        "latex": [str(row) for row in kernels_latex.Printer(outline).mean(mean)],
    }
