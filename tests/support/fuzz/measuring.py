"""What networks themselves say about a program that was refused: run at two widths, with none of the rules."""

from __future__ import annotations

from typing import Any

import numpy as np

import tplimits as tp
from tplimits.program.nodes.kinds import InitialMatrix

#: what has no square in floating point is as good as infinite
LARGEST = 1e150
WIDTHS, DRAWS = (32, 512), (48, 24)
NOT_FINITE, RESTLESS, VANISHING, SETTLED = "not finite", "does not settle", "something vanishes", "settles"


def _runs(program: tp.Program, n: int, draws: int, options: dict[str, Any]) -> dict[str, np.ndarray]:
    with np.errstate(all="ignore"):
        data = {"ξ": options["X1"][0]} if "X1" in options else {}  # of a network the first input
        runs = [program.run(n=n, seed=1000 * k + n, ratios=options.get("ratios"), **data) for k in range(draws)]
        return {name: np.stack([np.asarray(run[name]) for run in runs]) for name in runs[0]}


def measured(program: tp.Program, options: dict[str, Any]) -> frozenset[str]:
    """What is seen from width 32 to 512: numbers that are not finite at the larger one, returned scalars whose spread
    over networks does not fall, values that vanish, or none of it.
    """
    narrow, wide = (_runs(program, n, draws, options) for n, draws in zip(WIDTHS, DRAWS, strict=True))
    found = set()
    for name, values in wide.items():
        if isinstance(program[program.position(name)], InitialMatrix):  # entries of order n^(-1/2)
            continue
        if not (np.abs(values) < LARGEST).all():
            found.add(NOT_FINITE)
            continue
        sizes = [np.sqrt(np.mean(np.where(np.abs(v[name]) < LARGEST, v[name], 0) ** 2)) for v in (narrow, wide)]
        if sizes[1] < 0.5 * sizes[0] or sizes[1] < 1e-9:
            found.add(VANISHING)
        if name.startswith("return") and values.ndim - 1 < 2 and np.isfinite(narrow[name]).all():
            with np.errstate(all="ignore"):
                spread = [v[name].std(axis=0) for v in (narrow, wide)]
            if (spread[1] > 0.7 * np.maximum(spread[0], 1e-9)).any():
                found.add(RESTLESS)
    return frozenset(found) or frozenset({SETTLED})


def roots_of_some(program: tp.Program, options: dict[str, Any]) -> dict[str, float]:
    """Scalars that the first values are computed from which some networks have and others have not, with their spreads
    at the larger width: networks have a root where such a scalar happens to be positive.
    """
    wide = _runs(program, WIDTHS[1], DRAWS[1], options)
    lacking = {name: ~np.isfinite(v.reshape(len(v), -1)).all(axis=1) for name, v in wide.items()}
    broken = [program.position(name) for name, without in lacking.items() if without.any()]
    names = {program.position(name): name for name in wide}
    if not broken or lacking[names[min(broken)]].all():
        return {}
    operands = {names.get(i, "") for i in program[min(broken)].operands}
    return {name: float(wide[name].std()) for name in sorted(operands - {""}) if wide[name].ndim == 1}


def sizes_of_vectors(program: tp.Program, options: dict[str, Any]) -> dict[str, float]:
    """⟨v|v⟩ of the named vectors of networks at the larger width."""
    wide = _runs(program, WIDTHS[1], DRAWS[1], options)
    return {name: float(np.mean(v**2)) for name, v in wide.items() if v.ndim == 2 and np.isfinite(v).all()}


def spreads_of_scalars(program: tp.Program, options: dict[str, Any]) -> dict[str, float]:
    """The spread of named scalars among networks of the larger width."""
    wide = _runs(program, WIDTHS[1], DRAWS[1], options)
    return {name: float(v.std()) for name, v in wide.items() if v.ndim == 1 and np.isfinite(v).all()}
