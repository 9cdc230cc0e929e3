"""Powers of n measured on the modules themselves: no program of the package is run here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import scipy
import torch

#: so small a rate that everything moves in proportion to it: 1 − cos of what it turns is rounding
RATE = 1e-8
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=RATE),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=RATE, eps=1e-14),
}


@dataclass(frozen=True)
class Slope:
    """A fitted power of n, its standard error, and the mean sizes it is fitted to."""

    power: float
    error: float
    sizes: tuple[float, ...]


def slope(widths, sizes) -> Slope:
    """log size against log n; sizes: for each width those of all seeds.  The error is the larger one of what the
    scatter of seeds and what the distance of the means from the line tell."""
    logs = [numpy.log(numpy.asarray(s)) for s in sizes]
    x = numpy.log(numpy.asarray(widths, dtype=float))
    x = x - x.mean()
    means = numpy.array([y.mean() for y in logs])
    b = float((x * means).sum() / (x * x).sum())
    residual = means - means.mean() - b * x
    scatter = sum(float(y.var(ddof=1)) / len(y) * xi**2 for y, xi in zip(logs, x, strict=True)) ** 0.5 / (x * x).sum()
    line = math.sqrt(float((residual**2).sum()) / max(len(x) - 2, 1) / float((x * x).sum()))
    return Slope(b, max(float(scatter), line), tuple(float(numpy.exp(m)) for m in means))


def _first(result):
    leaves, _ = torch.utils._pytree.tree_flatten(result)
    return next((t for t in leaves if torch.is_tensor(t) and t.is_floating_point()), None)


def _rms(x):
    return float(x.detach().double().pow(2).mean().sqrt())


def changes(make, example, n, seed, optimizer, steps=1):
    """{(parameter or "all", value): rms of the change per unit of the rate}, values being paths of modules and f."""
    torch.manual_seed(1000 * seed + 17)
    model = make(n).double().eval()
    inputs = tuple(x.double() if torch.is_tensor(x) and x.is_floating_point() else x for x in example)
    kept: dict[str, Any] = {}
    calls: dict[str, int] = {}  # later calls of a module have the names that a program gives them

    def hook(name):
        def keep(_, __, result):
            if (found := _first(result)) is not None:
                calls[name] = calls.get(name, 0) + 1
                kept[name if calls[name] == 1 else f"{name}#{calls[name]}"] = found.detach().clone()

        return keep

    for name, module in model.named_modules():
        if name:
            module.register_forward_hook(hook(name))

    def values():
        kept.clear(), calls.clear()
        f = _first(model(*inputs))
        return f, {**kept, "f": f.detach().clone()}

    f, before = values()
    χ = torch.randn(f.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    names = {k: p for k, p in model.named_parameters() if p.requires_grad}
    start = {k: p.detach().clone() for k, p in names.items()}
    optimizer = OPTIMIZERS[optimizer](list(names.values()))
    for step in range(steps):
        optimizer.zero_grad()
        if step:
            f, _ = values()
        (f * χ).mean().backward()
        optimizer.step()
    largest = max(float(p.grad.abs().max()) for p in names.values() if p.grad is not None)
    # gradients that are exactly zero, those of the biases of keys, are rounding, which Adam divides by itself
    idle = {k for k, p in names.items() if p.grad is None or float(p.grad.abs().max()) < 1e-10 * largest}
    with torch.no_grad():
        for k in idle:
            names[k].copy_(start[k])
    moved = {k: p.detach().clone() for k, p in names.items()}
    found: dict[tuple[str, str], float] = {}

    def put(who):
        with torch.no_grad():
            for k, p in names.items():
                p.copy_(moved[k] if who in ("all", k) else start[k])
            _, after = values()
        for name, x in after.items():
            found[who, name] = _rms(x - before[name]) / RATE if x.shape == before[name].shape else 0.0

    for who in ("all", *(k for k in names if k not in idle)):
        put(who)
    return found


def powers(make, example, widths, seeds, optimizer, steps=1) -> dict[tuple[str, str], Slope]:
    """The fitted power of every change that is not zero."""
    many = [[changes(make, example, n, s, optimizer, steps) for s in range(seeds)] for n in widths]
    found = {}
    for key in many[0][0]:
        sizes = [[one[key] for one in runs] for runs in many]
        if min(min(s) for s in sizes) > 1e-5:  # less is rounding at the rate 1e−8
            found[key] = slope(widths, sizes)
    return found


def of_powers(widths, row, powers) -> tuple[list[float], list[float], float]:
    """The coefficients A ≥ 0 of Σ A (n/largest)^p for the sizes of a kept row, their errors, and the fit's p-value.

    Sizes are taken relative to the largest; each is as uncertain as the error of the row's slope tells, 2 % at least.
    """
    n, sizes = numpy.asarray(widths, dtype=float), numpy.asarray(row["sizes"])
    x = numpy.log(n) - numpy.log(n).mean()
    error = max(row["error"] * math.sqrt(float((x * x).sum())), 0.02)
    design = numpy.stack([(n / n.max()) ** p * sizes[-1] / sizes for p in powers], axis=1) / error
    found, left = scipy.optimize.nnls(design, numpy.ones(len(n)) / error)
    spread = numpy.sqrt(numpy.diag(numpy.linalg.pinv(design.T @ design)))
    free = max(len(n) - int((found > 0).sum()), 1)
    return [float(a) for a in found], [float(s) for s in spread], float(scipy.stats.chi2.sf(left**2, free))


def judged(counted: float, found: Slope) -> dict[str, Any]:
    """A measured power beside the counted one, within ¼ and two errors.

    A change that is the sum of two powers starts with the lower one where its coefficient is larger: that it grows
    slower than counted at these widths ("slower") refutes nothing; that it grows faster is wrong.
    """
    apart = found.power - counted
    allowed = 0.25 + 2 * found.error
    verdict = "undecided" if found.error > 0.25 else "wrong" if apart > allowed else "slower"
    return {
        "counted": counted, "measured": round(found.power, 3), "error": round(found.error, 3),
        "verdict": "right" if abs(apart) <= allowed and verdict != "undecided" else verdict,
        "sizes": [float(f"{s:.3g}") for s in found.sizes],
    }  # fmt: skip
