"""tplimits: infinite-width limits of neural networks, derived, evaluated and checked.

What users call is listed in `__init__.pyi` and imported on first use: a user of one regime does not wait for all.
The stages in reading order, each importing only those above it:

    errors      what can go wrong
    program     what runs at width n: tracing a Python function into instructions
    law         what it becomes, exactly: kets, rules, hypotheses, closed forms
    numbers     the number: quadrature, particles, compiled loops
    sampling    is it true: the same program at finite widths
    report      what a person reads: text, LaTeX, HTML
    regimes     the limits, a folder each: derivation, numbers, claims, report
    derive, check, watch, torch, sklearn      what users call
    cli         the command line
"""

import lazy_loader as _lazy_loader

# functions that have the name of a module are taken now: loading the module later would put it in their place
from tplimits.check import check as check
from tplimits.derive import derive as derive
from tplimits.errors import elsewhere as _elsewhere
from tplimits.program import layers as layers
from tplimits.program.language.trace import program as program
from tplimits.version import VERSION as __version__
from tplimits.watch.watching import watch as watch

_listed, _, __all__ = _lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name in __all__:
        return _listed(name)
    raise _elsewhere(name)


def __dir__() -> list[str]:
    """What users call: stages of the package are modules that other stages have loaded."""
    return sorted({*__all__, *(name for name in globals() if name[0] == "_")})
