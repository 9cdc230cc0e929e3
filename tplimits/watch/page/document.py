"""The page as one HTML file that loads nothing, sends nothing, and reads no text of a recording as markup.

The data stands in it as letters and digits.  Its policy allows one script and one style, by their hashes, and no
address.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
import numpy
import scipy
from numpy.typing import NDArray

from tplimits.errors import EvaluationError, TplimitsError
from tplimits.pages.files import place_of, write_by
from tplimits.version import VERSION
from tplimits.watch.page import choosing
from tplimits.watch.page.checking import checked
from tplimits.watch.page.javascript import source
from tplimits.watch.page.payload import compared, payload, room
from tplimits.watch.page.shown import Shown, shown
from tplimits.watch.page.views import Errors, View

if TYPE_CHECKING:
    from os import PathLike

    from tplimits.watch.recording import Recording


#: the parts of the script, in order
_SCRIPTS = (
    *("numbers", "machine", "drawing", "panels", "planes", "densities", "tables", "maps", "curves"),
    *("player", "controls"),
)


def write(
    recording: Recording, path: str | PathLike[str], views: Any = None, seeds: Any = 1, size: float = 2.6e6
) -> None:
    """Write the page of a recording, whole or not at all; `Recording.page` says what its arguments are."""
    text = html(recording, views, seeds, size)
    write_by(place_of("path", path), lambda file: file.write(text.encode("utf-8")))


def html(recording: Recording, views: Any = None, seeds: Any = 1, size: float = 2.6e6) -> str:
    """The page of a recording."""
    page = shown(recording.program, recording.settings)
    kept = room(recording, seeds, size)
    curves = curves_of(recording)
    listed = chosen(recording, page) if views is None else checked(page, views, recording.labels is not None, curves)
    if any(isinstance(view, Errors) for view in listed) and not compared(recording):
        apart = any(run.starts_apart for run in recording.runs)
        why = (
            "the outputs of a limit of the operator regime start from a draw of their own" if apart else "there is none"
        )
        raise EvaluationError(f"Errors(): it takes networks and a limit that they come near to; {why}.")
    data = payload(recording, page, listed, kept)
    parts = ['"use strict";', f"const ERFC = {erfc_series()!r};", f"const COMPUTE = {source(page.loops)};"]
    script = "\n".join([*parts, *(_asset(f"{name}.js") for name in _SCRIPTS)])
    style = _asset("page.css")
    policy = "; ".join(
        [
            *("default-src 'none'", f"script-src 'sha256-{_hash(script)}'", f"style-src 'sha256-{_hash(style)}'"),
            *("img-src blob: data:", "base-uri 'none'", "form-action 'none'"),
        ]
    )
    template = jinja2.Template(_asset("page.html"), undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return template.render(policy=policy, version=VERSION, style=style, script=script, payload=data)


def curves_of(recording: Recording) -> list[str]:
    """The names of the curves of all runs."""
    return list(dict.fromkeys(name for run in recording.runs for name in run.curves))


def chosen(recording: Recording, page: Shown) -> list[View]:
    """The panels that follow from the shapes of the values."""
    run = next((r for r in recording.runs if r.parameters and r.frames), None)

    def numbers(name: str) -> NDArray[Any] | None:
        if run is None or name not in recording.program.names:
            return None
        try:
            return recording.value(name, -1, run.width, run.seed)
        except TplimitsError:
            return None

    return choosing.chosen(page, curves_of(recording), numbers, bool(compared(recording)))


@lru_cache(maxsize=16)
def _asset(name: str) -> str:
    return resources.files("tplimits.watch.page").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def erfc_series() -> list[float]:
    """P in erfc(x) = t exp(−x² + P(t)), t = 2/(2 + x) for x ≥ 0, as a Chebyshev series in 2t − 1.

    >>> import math
    >>> series, x = erfc_series(), 1.5
    >>> t = 2 / (2 + x)
    >>> found = t * math.exp(-x * x + numpy.polynomial.chebyshev.chebval(2 * t - 1, series))
    >>> abs(found / math.erfc(x) - 1) < 1e-13
    True
    """

    u = numpy.polynomial.chebyshev.chebpts1(31)
    t = (u + 1) / 2
    exponent = numpy.log(scipy.special.erfcx(2 / t - 2) / t)
    return [float(c) for c in numpy.polynomial.chebyshev.chebfit(u, exponent, 30)]
