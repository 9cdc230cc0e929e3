"""Training at infinite width beside the average of finite networks: CPU time to a given standard error, and growth.

A perceptron with two hidden layers (tanh, inputs in R^10) takes 20 steps of Adam (ε = η = 0.05) in μP on B samples.
Where PyTorch is installed, its gradients must give the same networks.

Cost.  A standard error σ of f at step 5 takes cost = CPU seconds × variance / σ² of a method, so methods are compared
by CPU seconds × variance of one unit: one network of width 4096 trained with its true matrices (`check.training`, and
PyTorch where it is installed, both in float64 and one thread), or one replicate of `tp.MaximalUpdate`.  CPU seconds
are of all 20 steps, for both, the smallest of several repeats in turn.  The variance is that of f_5, averaged over the
inputs: between replicates, and between networks; these are averaged as they are ("plain", which the bounds are about),
or trained and averaged with f_0 subtracted, which takes away much of their noise and leaves the limit.  Variances of
networks are measured at width 1024 and divided by 4: they fall like 1/n, and the fitted power between widths 256 and
1024 stands beside them.

Growth.  CPU seconds of a step over numbers of particles M at a fixed block K, layers, and steps × batch, fitted by
powers; and the peak memory of a run beside M × (K + columns) numbers.

    python benchmarks/training.py [--quick]

Prints tables and exits with 1 when a bound is broken; a full measurement, about ten minutes, is written to
benchmarks/results/training.json.
"""

from __future__ import annotations

import importlib
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import record
import threadpoolctl

import tplimits as tp
from tplimits.regimes.training.finite.networks import train

#: samples, and how many times less CPU time than networks of width 4096 is asked for
RATIOS = {12: 10.0, 100: 3.0}
WIDTH, NARROW, STEPS, AT = 4096, 1024, 20, 5
RATE = EPS = 0.05
#: particles and block of one replicate; 20 steps on 100 samples are 2,100 columns, four particles each at least
UNITS = {12: (4096, 256), 100: (10240, 256)}
REPEATS, NETWORKS, REPLICATES = 3, 48, 16
#: largest exponents of CPU time
EXPONENTS = {"particles": 1.15, "layers": 1.15, "steps": 2.1, "batch": 2.1}
#: bytes beside one array of M × (K + columns) float64: states of Adam, the update, columns of both sides, and a step
ARRAYS = 8.0


@tp.network
def perceptron(ξ: tp.Input["d"], U: tp.Vector["d"], W: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(W @ tp.tanh(tp.sum(U * ξ, over="d")))


@tp.network
def three(ξ: tp.Input["d"], U: tp.Vector["d"], A: tp.Matrix, B: tp.Matrix, v: tp.Vector):
    return v * tp.tanh(B @ tp.tanh(A @ tp.tanh(tp.sum(U * ξ, over="d"))))


@tp.network
def five(ξ: tp.Input["d"], U: tp.Vector["d"], A: tp.Matrix, B: tp.Matrix, C: tp.Matrix, D: tp.Matrix, v: tp.Vector):
    x = tp.tanh(tp.sum(U * ξ, over="d"))
    for W in (A, B, C, D):
        x = tp.tanh(W @ x)
    return v * x


#: networks by their number of matrices
LAYERS = {1: perceptron, 2: three, 4: five}


def problem(B: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in R^10 and targets, standard normal."""
    rng = np.random.default_rng(B)
    return rng.standard_normal((B, 10)), rng.standard_normal(B)


def cpu(job: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of one call, and its result."""
    begun = time.process_time()
    found = job()
    return time.process_time() - begun, found


# -- networks of finite width ---------------------------------------------------------------------


def own_networks(B: int, n: int, draws: int, steps: int, seed: int, subtracted: bool = False) -> np.ndarray:
    """f (draws, steps + 1, B) of networks, one after the other."""
    X, y = problem(B)
    error, adam = tp.squared_error(y), tp.Adam(eps=EPS)
    runs = [
        train(perceptron, tp.MUP, adam, X, error, RATE, steps, n, seed + k, start=0 if subtracted else None).f[0]
        for k in range(draws)
    ]
    return np.array(runs)


def start(n: int, seed: int) -> list[np.ndarray]:
    """Initial U, W and v."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, 10)), rng.standard_normal((n, n)) / n**0.5, rng.standard_normal(n)]


def torch_network(torch: Any, B: int, n: int, steps: int, seed: int) -> np.ndarray:
    """f (steps + 1, B) of one network, with gradients by autograd and the same update rule."""
    X, y = (torch.from_numpy(a) for a in problem(B))
    θ = [torch.from_numpy(w).requires_grad_() for w in start(n, seed)]
    states = [(torch.zeros_like(w), torch.zeros_like(w)) for w in θ]
    moves = (1.0, 1.0 / n, 1.0)
    outputs = []
    for t in range(steps + 1):
        U, W, v = θ
        f = torch.tanh(torch.tanh(X @ U.T) @ W.T) @ v / n
        outputs.append(f.detach().numpy())
        if t == steps:
            break
        gradients = torch.autograd.grad((((f.detach() - y) / B) * f).sum(), θ)
        with torch.no_grad():
            for w, g, (m, s), move in zip(θ, gradients, states, moves, strict=True):
                m.mul_(0.9).add_(g, alpha=0.1 * n)
                s.mul_(0.999).addcmul_(g, g, value=0.001 * n**2)
                c1, c2 = 1 - 0.9 ** (t + 1), 1 - 0.999 ** (t + 1)
                w -= RATE * move * (m / c1) / torch.sqrt(s / c2 + EPS**2)
    return np.array(outputs)


def torch_agrees(torch: Any) -> float:
    """The largest difference of f over five steps, from the same weights, with and without autograd."""
    B, n, seed = 12, 64, 3
    X, y = problem(B)
    U, W, v = start(n, seed)
    given = {"U": U.T, "W": W, "v": v}
    error, adam = tp.squared_error(y), tp.Adam(eps=EPS)
    own = train(perceptron, tp.MUP, adam, X, error, RATE, AT, n, given=given).f[0]
    return float(np.abs(own - torch_network(torch, B, n, AT, seed)).max())


def torch_or_nothing() -> Any:
    """PyTorch with one thread, or None."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    torch.set_num_threads(1)
    return torch


def variance(f: np.ndarray) -> float:
    """Of f at step 5, averaged over inputs."""
    return float(f[:, AT].var(axis=0, ddof=1).mean())


def limit_run(net: tp.Program, B: int, M: int, K: int, steps: int, replicates: int, seed: int) -> Any:
    """Replicates of the limit."""
    X, y = problem(B)
    derived = tp.derive(net, tp.MaximalUpdate(tp.Adam(eps=EPS)))
    settings = {"particles": M, "block": K, "replicates": replicates, "seed": seed, "progress": False}
    return derived.evaluate(X, error=tp.squared_error(y), lr=RATE, steps=steps, **settings)


def cost(B: int, torch: Any, quick: bool) -> dict[str, Any]:
    """CPU seconds and variances of one unit of every method, and ratios of their products."""
    n, narrow, steps, repeats, networks, replicates = (
        (512, 256, AT + 1, 1, 8, 4) if quick else (WIDTH, NARROW, STEPS, REPEATS, NETWORKS, REPLICATES)
    )
    M, K = (3072, 128) if quick else UNITS[B]
    train_one: dict[str, Callable[[int], Any]] = {"networks": lambda k: own_networks(B, n, 1, steps, k)}
    if torch is not None:
        train_one["PyTorch"] = lambda k: torch_network(torch, B, n, steps, k)
    limit_run(perceptron, B, M, K, 1, 2, 0)  # compiled
    seconds: dict[str, list[float]] = {name: [] for name in (*train_one, "limit")}
    for k in range(repeats):  # in turn, so that all see the same machine
        for name, job in train_one.items():
            seconds[name].append(cpu(lambda job=job, k=k: job(k))[0])
        seconds["limit"].append(cpu(lambda k=k: limit_run(perceptron, B, M, K, steps, 2, k))[0] / 2)
    run = limit_run(perceptron, B, M, K, AT, replicates, 100)
    variances, powers = {"limit": variance(run.replicates)}, {}
    for kind, subtracted in (("plain", False), ("f − f_0", True)):
        by_width = {
            m: variance(own_networks(B, m, networks * narrow // m, AT, 7, subtracted)) for m in (narrow // 4, narrow)
        }
        variances[kind] = by_width[narrow] * narrow / n
        powers[kind] = round(float(np.log(by_width[narrow] / by_width[narrow // 4]) / np.log(4)), 3)
    ours = min(seconds["limit"]) * variances["limit"]
    theirs = {name: min(seconds[name]) for name in train_one}
    ratios = {f"{name}, {kind}": round(s * variances[kind] / ours, 2) for name, s in theirs.items() for kind in powers}
    return {
        "width": n,
        "steps": steps,
        "particles": M,
        "block": K,
        "seconds": {name: [round(s, 3) for s in found] for name, found in seconds.items()},
        "standard deviation of f_5": {name: float(f"{v**0.5:.4g}") for name, v in variances.items()},
        "power of n of the variance": powers,
        "ratios": ratios,
    }


# -- growth ---------------------------------------------------------------------------------------


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The power by which times grow."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def growth(quick: bool) -> dict[str, Any]:
    """CPU seconds of runs in which one size changes, and the fitted powers."""
    scale = 1 if quick else 4
    repeats = 1 if quick else REPEATS
    base = {"net": perceptron, "B": 12, "M": 2048 * scale, "K": 256, "steps": 5}
    changed: dict[str, tuple[str, Mapping[float, Any]]] = {
        "particles": ("M", {m: m for m in (2048 * scale, 4096 * scale, 8192 * scale)}),
        "layers": ("net", {layers: LAYERS[layers] for layers in LAYERS}),
        "steps": ("steps", {t: t for t in (4, 8, 16)}),
        "batch": ("B", {b: b for b in (8, 16, 32)}),
    }
    found: dict[str, Any] = {}
    for name, (what, sizes) in changed.items():
        times = {}
        for size, value in sizes.items():
            arguments = {**base, what: value}
            runs = [cpu(lambda a=arguments: limit_run(**a, replicates=2, seed=0))[0] for _ in range(repeats)]
            times[size] = min(runs)
        power = exponent(list(times), list(times.values()))
        found[name] = {"seconds": {k: round(t, 3) for k, t in times.items()}, "exponent": round(power, 3)}
    return found


def memory(quick: bool) -> dict[str, Any]:
    """Peak bytes of one replicate after another, in arrays of M × (K + columns) float64; four times the particles."""
    B, K, steps = 12, 256, 3 if quick else 10
    columns, found = 2 * B * (steps + 1), {}  # W is applied to every input, forward and backward, at every time
    for M in (4096, 16384):
        tracemalloc.start()
        limit_run(perceptron, B, M, K, steps, 2, 0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        found[M] = peak / (8 * M * (K + columns))
    return {"peak in arrays of M × (K + columns)": {m: round(v, 2) for m, v in found.items()}}


def main(arguments: list[str]) -> int:
    """Measure, print, judge, save."""
    quick = "--quick" in arguments
    begun, torch = time.time(), torch_or_nothing()
    if torch is None:
        print("PyTorch is not installed: networks are trained by tplimits.regimes.training.finite.networks alone")
    content: dict[str, Any] = {"steps": STEPS, "at": AT, "unit": "CPU seconds of all steps", "torch": torch is not None}
    rows, within = [], True
    if torch is not None:
        content["autograd is off by"] = off = torch_agrees(torch)
        within &= off < 1e-10
        print(f"gradients by autograd, five steps: f is {off:.1e} off, {record.verdict(off < 1e-10)}")
    for B, asked in RATIOS.items():
        found = content[f"B={B}"] = cost(B, torch, quick)
        for name, ratio in found["ratios"].items():
            trainer, kind = name.split(", ")
            both = (min(found["seconds"][k]) for k in (trainer, "limit"))
            spreads = (found["standard deviation of f_5"][k] for k in (kind, "limit"))
            cells = [f"{t:.2f}" for t in both] + [f"{s:.5f}" for s in spreads] + [f"{ratio:.1f}"]
            judged = [f"≥ {asked:g}", record.verdict(ratio >= asked)] if kind == "plain" else ["", ""]
            within &= kind != "plain" or ratio >= asked
            rows.append([str(B), name, *cells, *judged])
    head = ["samples", "beside", "s a network", "s a replicate", "sd of a network", "sd of a replicate", "ratio"]
    print(record.table([*head, "asked", ""], rows))
    content["growth"] = growth(quick)
    rows = []
    for name, bound in EXPONENTS.items():
        power = content["growth"][name]["exponent"]
        within &= power <= bound
        times = ", ".join(f"{k}: {t:.2f}" for k, t in content["growth"][name]["seconds"].items())
        rows.append([name, times, f"{power:.2f}", f"≤ {bound:g}", record.verdict(power <= bound)])
    print(record.table(["growing", "CPU seconds", "power", "asked", ""], rows))
    content["memory"] = memory(quick)
    peaks = content["memory"]["peak in arrays of M × (K + columns)"]
    good = max(peaks.values()) <= ARRAYS
    within &= good
    shown = ", ".join(f"M = {m}: {v:.1f}" for m, v in peaks.items())
    print(f"peak memory in arrays of M × (K + columns): {shown}; ≤ {ARRAYS:g}: {record.verdict(good)}")
    if not quick:
        record.save(record.RESULTS / "training.json", content, time.time() - begun)
    return 0 if within or quick else 1


if __name__ == "__main__":
    with threadpoolctl.threadpool_limits(1):  # threads of BLAS that wait count as CPU time
        sys.exit(main(sys.argv[1:]))
