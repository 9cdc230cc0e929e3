"""What the package says of a case: numbers with their errors, or why there are none; and whether two answers agree."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy

import tplimits as tp
from fuzz.draft import Case
from fuzz.refusals import reason_of
from tplimits.regimes.kernels.numbers.request import NNGPAlone

#: how far apart two numbers by the same means may be, in their told errors, and in their sizes where these are smaller:
#: errors of eight replicates are Student's, and a ten of them is met at 2·10⁻⁵
ERRORS, ROUNDING = 10, 1e-6


@dataclass(frozen=True)
class Effort:
    """Widths and draws of one look."""

    widths: tuple[int, ...]
    draws: tuple[int, ...]
    particles: int = 1024


@dataclass(frozen=True)
class Answer:
    """Numbers by label, each with its error, or the reason why there are none."""

    numbers: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    reason: str = ""
    message: str = ""

    def apart(self, other: Answer) -> list[str]:
        """Where two answers to the same question differ: in numbers, in whether there are any, or in the reason."""
        if self.reason or other.reason:
            said = [a.reason or "a number" for a in (self, other)]
            return [] if said[0] == said[1] else [" ≠ ".join(said)]
        if alone := set(self.numbers) ^ set(other.numbers):
            return [f"{', '.join(sorted(alone))}: by one alone"]
        found = []
        for name in self.numbers:
            (a, e), (b, f) = (map(np.asarray, x.numbers[name]) for x in (self, other))
            near = ERRORS * np.hypot(e, f) + ROUNDING * np.maximum(1, np.abs(a).max(initial=0))
            if a.shape != b.shape or (np.abs(a - b) > near).any():
                found.append(f"{name}: {a.tolist()} ± {e.tolist()} ≠ {b.tolist()} ± {f.tolist()}")
        return found


def made(case: Case) -> Any:
    """The subject of a case, bound to its sizes."""
    names: dict[str, Any] = {"tp": tp, "sympy": sympy, "np": np}
    exec(compile(case.source, f"<seed {case.seed}>", "exec"), names)
    subject = names["subject"]
    return subject.bind(**case.options["bind"]) if case.options.get("bind") else subject


def derived(case: Case) -> Any:
    """Its limit."""
    subject = made(case)
    if "limit" not in case.options:
        return tp.derive(subject)
    return tp.derive(subject, eval(case.options["limit"], {"tp": tp, "sympy": sympy}))


def asked(case: Case, effort: Effort) -> dict[str, Any]:
    """Keywords of evaluate that check takes as well."""
    given = {k: v for k, v in case.options.items() if k not in ("bind", "limit")}
    if case.regime == "training":
        given["error"] = eval(given["error"], {"tp": tp})
        given |= {"particles": effort.particles, "replicates": 8}
    return given


def pair_of(limit: Any, given: dict[str, Any], draws: int) -> Any:
    """Both kernels; of a mixture, whose kernels are random, so many draws."""
    options = {k: v for k, v in given.items() if k != "X1"}
    if limit.is_mixture:
        return limit.sample(given["X1"], draws=draws, seed=0, **options)
    return limit.evaluate(given["X1"], **options)


def _kernels(limit: Any, given: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """NNGP and NTK; of a mixture the means and errors over draws."""
    pair = pair_of(limit, given, 64)
    if limit.is_mixture:
        kernels = {"nngp": pair.nngp, "ntk": pair.ntk}
        return {k: (v.mean(axis=0), v.std(axis=0) / len(v) ** 0.5) for k, v in kernels.items() if v is not None}
    found = {"nngp": (pair.nngp, pair.nngp_error)}
    return found if isinstance(pair, NNGPAlone) or pair.ntk is None else found | {"ntk": (pair.ntk, pair.ntk_error)}


def evaluated(case: Case, limit: Any, effort: Effort) -> dict[str, tuple[Any, Any]]:
    """Its numbers with their errors, all finite; AssertionError otherwise."""
    given = asked(case, effort)
    if case.regime == "depth":
        V0 = given.pop("V0")
        drift = limit.drift_estimate_at(V0, **given)
        found = {"drift": (drift.value, drift.error), "diffusion": (limit.diffusion_at(V0, **given), drift.error.max())}
    elif case.regime == "kernels":
        found = _kernels(limit, given)
    elif case.regime == "training":
        run = limit.evaluate(**given)
        found = {"f": (run.f, run.stderr)}
    else:
        numbers = limit.evaluate(**given)
        found = {name: (x.value, x.error) for name, x in numbers.items()}
        found |= {f"variance of {name}": (x.variance, x.variance_error) for name, x in numbers.items()}
    assert all(np.isfinite(np.asarray(x, dtype=float)).all() for x, _ in found.values()), f"not finite: {found}"
    return found


def of_results(case: Case, numbers: dict[str, tuple[Any, Any]]) -> Answer:
    """Without what a program does not return: its scalars are no results."""
    kept = {name: x for name, x in numbers.items() if case.regime != "width" or "return" in name}
    return Answer(kept)


def refusal_of(error: tp.TplimitsError) -> Answer:
    """The answer that a refusal is."""
    return Answer(reason=reason_of(str(error)), message=str(error))


def answer(case: Case, effort: Effort) -> Answer:
    """What the package says of results alone, as 1/s by a name of its own has no mean; exceptions of others are not
    caught.
    """
    try:
        limit = derived(case)
        if case.regime == "width":
            results = [o.label for o in limit.observables if "return" in o.label]
            case = replace(case, options={**case.options, "only": results})
        return of_results(case, evaluated(case, limit, effort))
    except tp.TplimitsError as error:
        return refusal_of(error)
