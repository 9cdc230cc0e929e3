"""Kernels of a network, and their numbers, as JSON for other programs to read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import sympy

from tplimits.program.files.serial import to_json
from tplimits.regimes.kernels.report import latex as kernels_latex
from tplimits.regimes.kernels.report import text as kernels_text
from tplimits.regimes.kernels.report.outline import Equation, Layers, NamedMean, Outline
from tplimits.regimes.kernels.report.steps import assumptions, steps
from tplimits.report.json_report import NUMBERS, step_document, written_document
from tplimits.version import VERSION

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.kernels.numbers.request import KernelPair, NNGPAlone

#: what the files say they are
KERNELS = "tplimits kernel limit"


def kernel_limit(outline: Outline, citation: str) -> str:
    """Program, recursion (repeated layers once), named means, steps; expressions as text and as LaTeX."""
    derivation = outline.derivation
    return written_document(
        {
            "format": KERNELS,
            "tplimits": VERSION,
            "program": json.loads(to_json(derivation.network)),
            "trained": list(derivation.trained),
            "infinite": list(derivation.infinite),
            "recursion": [_item(outline, item) for item in outline.items],
            "means": [_mean(outline, mean) for mean in outline.named_means],
            "indices": {letter: axis for axis, letter in outline.letters.items()},
            "assumptions": list(assumptions(outline)),
            "steps": [step_document(step) for step in steps(outline)],
            "latex": kernels_latex.kernel_limit(outline),
            "citation": citation,
        }
    )


def kernel_numbers(program: Program, pair: KernelPair | NNGPAlone) -> str:
    """Gram matrices with their errors, as nested lists."""
    reason = getattr(pair, "reason", "")  # why there is no tangent kernel, where there is none
    names = ("nngp", "nngp_error") if reason else ("nngp", "ntk", "nngp_error", "ntk_error")
    parts = {name: getattr(pair, name) for name in names}
    values = {name: getattr(value, "tolist", lambda value=value: value)() for name, value in parts.items()}
    more = {"no_ntk": reason} if reason else {}
    document = {"format": NUMBERS, "tplimits": VERSION, "program": program.name, "kernels": values, **more}
    return written_document(document)


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
