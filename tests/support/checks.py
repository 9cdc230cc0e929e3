"""Checks asked for in one line: keywords of `Sampling` and `Given` beside those of the check itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tplimits.regimes.depth.finite import judged as depth
from tplimits.regimes.kernels.finite import judged as kernels
from tplimits.sampling import verdict
from tplimits.sampling.sampling import Given, Sampling

SAMPLING = [f.name for f in fields(Sampling)]


def _asked(named: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords, with those of sampling and of what is given gathered in one value each."""
    rest = dict(named)
    sampling = Sampling(**{name: rest.pop(name) for name in SAMPLING if name in rest})
    given = Given(rest.pop("given", {}), rest.pop("ratios", {}))
    return {**rest, "sampling": sampling, "given": given}


def run_check(program, claims, **named):
    """`tplimits.sampling.verdict.run_check`."""
    return verdict.run_check(program, claims, **_asked(named))


def check_kernels(program, X1, X2=None, nngp=None, ntk=None, claims=None, **named):
    """`tplimits.regimes.kernels.finite.judged.check_kernels`, kernels by position."""
    stated = {name: value for name, value in (("nngp", nngp), ("ntk", ntk)) if value is not None}
    return kernels.check_kernels(program, X1, X2, stated=stated if claims is None else claims, **_asked(named))


def run_layers(request, claims, **sampling):
    """`tplimits.regimes.depth.finite.judged.run_layers`."""
    return depth.run_layers(request, claims, Sampling(**sampling))
