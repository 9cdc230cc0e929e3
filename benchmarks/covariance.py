"""Paths of the shaped-attention SDE beside the usual ways to write them in NumPy, in one run.

Every route does the same job, `paths` paths of `steps` Euler steps in float64, timed in CPU seconds (minimum over the
repeats, the routes in turn).  The transcription evaluates drift and diffusion of Theorem 4.2 of Noci et al. 2023 by
einsum over all paths at once; the factored route forms the same diffusion from m × m products, as one would by hand.
Both draw the noise with an eigen-decomposition of the diffusion, of size m(m+1)/2.  Slow routes take fewer paths and
steps; times are per path and step.

Beside it, what gradients along depth cost: CPU seconds to derive the joint SDE of tokens and tangents, whatever their
number, and its paths beside those of the tokens alone.

    python benchmarks/covariance.py [--quick]

Prints tables and exits with 1 when a bound is broken; a full measurement is written to
benchmarks/results/covariance.json.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import record
import threadpoolctl

import tplimits as tp

γ, τ0, DT = 8**-0.5, 1.0, 0.01
PATHS, STEPS, REPEATS = 4096, 75, 5
#: ratios that are asked for, by number of tokens and route
BOUNDS = {(8, "factored"): 40, (8, "einsum"): 100, (16, "factored"): 500, (16, "einsum"): 500}
#: paths and steps of the NumPy routes
SLOW = {8: (512, 4), 16: (32, 2)}
#: numbers of tokens over which growth is measured, and its largest exponent
GROWTH, EXPONENT = (8, 16, 32), 3.0
#: numbers of tokens at which paths of tangents are measured, the most they may take beside those of the tokens alone,
#: and the most seconds of a derivation
TANGENTS, TIMES, SECONDS = (2, 4, 8, 16, 32), 8.0, 3.0


@tp.block
def shaped_attention(x: tp.State["token"], WQ: tp.Matrix["k", "n"], WK: tp.Matrix["k", "n"], WV: tp.Matrix, *, γ, τ0):
    v = WV @ x
    values = v.rename(token="key")
    logits = tp.avg((WQ @ x) * (WK @ x).rename(token="key")) * tp.sqrt(tp.width("k")) / (τ0 * tp.sqrt(tp.n))
    A = tp.softmax(logits, over="key")
    return tp.sqrt(1 - γ**2) * x + γ * (v + tp.sum(A * values, over="key") - tp.mean(values, over="key"))


def start(m: int) -> np.ndarray:
    """Unit variances, correlations 0.2."""
    return np.full((m, m), 0.2) + 0.8 * np.eye(m)


# -- the usual routes -----------------------------------------------------------------------------


def einsum_coefficients(V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drift (paths, m, m) and diffusion (paths, P, P) of Theorem 4.2, every sum an einsum."""
    m = V.shape[-1]
    row, mean = V.mean(axis=2), V.mean(axis=(1, 2))[:, None, None]
    S1 = np.einsum("pab,pdw->padbw", V, V - row[:, :, None] - row[:, None, :] + mean)
    d = np.einsum("paa->pa", V)
    S2 = np.einsum("pa,pd->pad", d, d - 2 * row + 2 * mean[:, 0] - d.mean(axis=1)[:, None])
    b = np.einsum("pnk,panbk->pab", V, S1) / m**2
    b += (np.einsum("pbn,pan->pab", V, S2) + np.einsum("pan,pbn->pab", V, S2)) / (2 * m)
    A = np.einsum("pak,pdn,pbkwn->pabdw", V, V, S1, optimize=True)
    A += np.einsum("pak,pwn,pbkdn->pabdw", V, V, S1, optimize=True)
    A += np.einsum("pbn,pdk,panwk->pabdw", V, V, S1, optimize=True)
    A += np.einsum("pbn,pwk,pandk->pabdw", V, V, S1, optimize=True)
    linear = np.einsum("pad,pbw->pabdw", V, V) + np.einsum("paw,pbd->pabdw", V, V)
    a, c = np.triu_indices(m)
    full = γ**2 * (2 - γ**2) * linear + γ**4 / τ0**2 / m**2 * A
    return γ**2 / τ0**2 * b, full[:, a[:, None], c[:, None], a[None, :], c[None, :]]


def factored_coefficients(V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same with C = P V P and D = V C V/m²: the diffusion on pairs α ≤ β from two m × m matrices."""
    m = V.shape[-1]
    row = V.mean(axis=2)
    C = V - row[:, :, None] - row[:, None, :] + V.mean(axis=(1, 2))[:, None, None]
    d, centred = np.einsum("paa->pa", V), np.einsum("paa->pa", C)
    u = np.einsum("pab,pb->pa", V, centred - centred.mean(axis=1)[:, None])
    b = V * (C**2).sum(axis=(1, 2))[:, None, None] / m**2
    b += (d[:, :, None] * u[:, None, :] + u[:, :, None] * d[:, None, :]) / (2 * m)
    D = V @ C @ V / m**2
    a, c = np.triu_indices(m)
    ad, bw, aw, bd = ((x[:, None], y[None, :]) for x, y in ((a, a), (c, c), (a, c), (c, a)))

    def pairs(M: np.ndarray, at: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        return M[:, at[0], at[1]]

    V1, V2, V3, V4 = (pairs(V, at) for at in (ad, bw, aw, bd))
    D1, D2, D3, D4 = (pairs(D, at) for at in (ad, bw, aw, bd))
    linear = γ**2 * (2 - γ**2) * (V1 * V2 + V3 * V4)
    return γ**2 / τ0**2 * b, linear + γ**4 / τ0**2 * (V1 * D2 + V2 * D1 + V3 * D4 + V4 * D3)


def numpy_route(coefficients: Callable, m: int, paths: int, steps: int) -> np.ndarray:
    """Euler steps of all paths at once with the square root of Σ from its eigenvectors."""
    rng = np.random.default_rng(0)
    V = np.broadcast_to(start(m), (paths, m, m)).copy()
    a, c = np.triu_indices(m)
    for _ in range(steps):
        b, sigma = coefficients(V)
        values, vectors = np.linalg.eigh(sigma)
        z = rng.standard_normal(values.shape)
        noise = np.einsum("pij,pj->pi", vectors, np.sqrt(values.clip(0)) * z)
        change = DT * b[:, a, c] + DT**0.5 * noise
        V[:, a, c] += change
        V[:, c, a] = V[:, a, c]
    return V


# -- measurement ----------------------------------------------------------------------------------


def cpu(job: Callable[[], Any]) -> float:
    """CPU seconds of one call."""
    begun = time.process_time()
    job()
    return time.process_time() - begun


def agreement(sde: tp.CovarianceSDE) -> float:
    """The largest relative distance of the coefficients of the three routes at one V."""
    X = np.random.default_rng(1).standard_normal((6, 9))
    V = X @ X.T / 9
    ours = sde.drift_at(V, γ=γ, τ0=τ0), sde.diffusion_at(V, γ=γ, τ0=τ0)
    found = [
        np.abs(theirs[0] - own).max() / np.abs(own).max()
        for coefficients in (einsum_coefficients, factored_coefficients)
        for theirs, own in zip(coefficients(V[None]), ours, strict=True)
    ]
    return max(found)


def measured(sde: tp.CovarianceSDE, m: int, repeats: int, paths: int) -> dict[str, list[float]]:
    """Microseconds a path and step, by route, one number a repeat."""
    slow_paths, slow_steps = SLOW[m]
    slow_paths = min(slow_paths, paths)

    def ours(method: str) -> Callable[[], Any]:
        return lambda: sde.simulate(start(m), T=STEPS * DT, dt=DT, paths=paths, method=method, γ=γ, τ0=τ0)

    routes: dict[str, tuple[Callable[[], Any], int]] = {
        "psd": (ours("psd"), paths * STEPS),
        "euler": (ours("euler"), paths * STEPS),
        "factored": (lambda: numpy_route(factored_coefficients, m, slow_paths, slow_steps), slow_paths * slow_steps),
        "einsum": (lambda: numpy_route(einsum_coefficients, m, slow_paths, slow_steps), slow_paths * slow_steps),
    }
    for route in ("psd", "euler"):
        routes[route][0]()  # compiled, or read from the cache
    found: dict[str, list[float]] = {name: [] for name in routes}
    for _ in range(repeats):
        for name, (job, work) in routes.items():
            found[name].append(cpu(job) / work * 1e6)
    return found


def growth(sde: tp.CovarianceSDE, repeats: int, paths: int) -> tuple[dict[int, float], float]:
    """Microseconds a step by number of tokens, and the largest exponent between neighbours."""
    times = {}
    for m in GROWTH:
        count = max(32, paths * 64 // m**3)

        def job(m: int = m, count: int = count) -> Any:
            return sde.simulate(start(m), T=STEPS * DT, dt=DT, paths=count, γ=γ, τ0=τ0)

        job()
        times[m] = min(cpu(job) for _ in range(repeats)) / (count * STEPS) * 1e6
    return times, max(float(np.log(times[b] / times[a]) / np.log(b / a)) for a, b in itertools.pairwise(GROWTH))


def tangents(sde: tp.CovarianceSDE, repeats: int, paths: int) -> tuple[float, dict[int, float]]:
    """CPU seconds to derive the SDE of tokens and tangents, and its paths over those of the tokens by their number."""
    begun = time.process_time()
    tangent = tp.derive(shaped_attention, tp.Proportional(tangent=True))
    repr(tangent)  # where every gradient starts
    seconds = time.process_time() - begun
    found = {}
    for m in TANGENTS:
        count = max(32, paths * 8 // m**2)
        asked: dict[str, Any] = {"T": STEPS * DT, "dt": DT, "paths": count, "stop": 100.0, "γ": γ, "τ0": τ0}

        def alone(m: int = m, asked: dict[str, Any] = asked) -> Any:
            return sde.simulate(start(m), **asked)

        def both(m: int = m, asked: dict[str, Any] = asked) -> Any:
            return tangent.simulate(start(m), np.eye(m), **asked)

        both()
        times = [(cpu(alone), cpu(both)) for _ in range(repeats)]
        found[m] = min(t for _, t in times) / min(t for t, _ in times)
    return seconds, found


def main(arguments: list[str]) -> int:
    """Measure, print, judge, save."""
    quick = "--quick" in arguments
    repeats, paths = (2, 256) if quick else (REPEATS, PATHS)
    begun = time.time()
    sde = tp.derive(shaped_attention, tp.Proportional())
    distance = agreement(sde)
    content: dict[str, Any] = {"paths": paths, "steps": STEPS, "unit": "µs a path and step, CPU", "agreement": distance}
    rows, within = [], distance < 1e-10
    for m in SLOW:
        times = measured(sde, m, repeats, paths)
        best = {name: min(values) for name, values in times.items()}
        content[f"m={m}"] = {name: [round(v, 3) for v in values] for name, values in times.items()}
        for name, value in best.items():
            ratio = value / best["psd"]
            bound = BOUNDS.get((m, name))
            good = bound is None or ratio >= bound
            within &= good
            asked = [f"{ratio:.0f}", f"≥ {bound}", record.verdict(good)] if bound else ["", "", ""]
            rows.append([str(m), name, f"{value:.2f}", *asked])
            if bound:
                content[f"m={m}"][f"{name} over psd"] = round(ratio, 1)
    print(record.table(["tokens", "route", "µs a step", "times ours", "asked", ""], rows))
    times_by_m, exponent = growth(sde, repeats, paths)
    within &= exponent <= EXPONENT
    content["growth"] = {"µs": {m: round(t, 3) for m, t in times_by_m.items()}, "exponent": round(exponent, 3)}
    shown = ", ".join(f"m={m}: {t:.2f} µs" for m, t in times_by_m.items())
    print(f"growth {shown}; exponent {exponent:.2f} ≤ {EXPONENT}: {record.verdict(exponent <= EXPONENT)}")
    seconds, times_of = tangents(sde, repeats, paths)
    within &= seconds <= SECONDS and max(times_of.values()) <= TIMES
    content["tangents"] = {"derived in": round(seconds, 2), "paths": {m: round(t, 2) for m, t in times_of.items()}}
    shown = ", ".join(f"m={m}: {t:.1f}" for m, t in times_of.items())
    print(f"tangents derived in {seconds:.2f} s ≤ {SECONDS:g}: {record.verdict(seconds <= SECONDS)}")
    print(
        f"their paths beside the tokens alone {shown}; ≤ {TIMES:g}: {record.verdict(max(times_of.values()) <= TIMES)}"
    )
    if not quick:
        record.save(record.RESULTS / "covariance.json", content, time.time() - begun)
    return 0 if within else 1


if __name__ == "__main__":
    with threadpoolctl.threadpool_limits(1):  # threads of BLAS that wait count as CPU time
        sys.exit(main(sys.argv[1:]))
