"""Entries of parameters as PyTorch makes them, measured: mean and standard deviation as powers of n, and the law.

Models of two widths are made several times.  A power is log(ratio)/log(ratio of the widths), taken for a multiple of ¼
where it lies within five standard errors of one; uniform and normal laws are told apart by their fourth moment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy
import scipy
import sympy
import torch
from sympy import S

from tplimits.errors import ProgramError
from tplimits.program.nodes.laws import GIVEN, Law, uniform
from tplimits.torch.exporting import quietly, repeated

#: models that are made of each width; more of those with parameters of a few numbers, until they are as many as FEW
SEEDS, MORE, FEW = 8, 64, 256
#: a power is known where its standard error is no larger
SURE = 2e-3
#: constants that initialisers are made of, and roots of them, are read off to this relative accuracy
EXACT = 1e-3
#: as known is the end of a truncated law
CUT = 2e-2


@dataclass(frozen=True)
class Entries:
    """The initial entries of a parameter: mean and std·n^(−power)·ζ, ζ of mean 0 and variance 1.

    shape: "uniform", "normal", "truncated" at `cut` deviations, "signs" (two values), "constant", or "given": the same
    different numbers in every model.  error: the standard error of the measured power; doubt: that of std, relative to
    it, three times.  shift: s where n + s stands for n.
    """

    mean: float
    std: float
    power: Fraction
    shape: str
    error: float
    doubt: float = EXACT
    cut: float | None = None
    shift: float = 0.0

    def law(self, base: sympy.Expr = S.One) -> Law:
        """The law without its power of n, where the program's n is `base` times that of make(n)."""
        if self.shape == "constant":
            return Law(number(self.mean, 1e-6) * base**self.exponent, sympy.S.Zero)
        mean = number(self.mean)
        if self.shape == GIVEN:
            return Law(S.Zero, S.One, GIVEN)
        spread = self.spread * base**self.exponent
        half = sympy.sqrt(3) * spread
        if self.shape == "uniform":
            return uniform(mean - half, mean + half)
        return Law(mean, spread, *self._shape)

    @property
    def starts_at_zero(self) -> bool:
        """Whether all entries start at 0."""
        return self.shape == "constant" and self.mean == 0

    def shape_alone(self) -> Law:
        """The law with mean 0 and variance 1, as matrices have it."""
        return Law() if self.shape in ("constant", GIVEN) else Law(S.Zero, S.One, *self._shape)

    @property
    def exponent(self) -> sympy.Expr:
        """The power that entries fall with."""
        return sympy.Rational(self.power.numerator, self.power.denominator)

    @property
    def _shape(self) -> tuple[str, sympy.Expr | None]:
        return self.shape, None if self.cut is None else number(self.cut, CUT)

    @property
    def spread(self) -> sympy.Expr:
        """The standard deviation without its power of n, as the simplest number within its error."""
        if self.shape == "uniform":  # the ends are what an initialiser is given
            return number(math.sqrt(3) * self.std, self.doubt) / sympy.sqrt(3)
        return number(self.std, self.doubt)

    def __str__(self) -> str:
        if self.shape in ("constant", GIVEN):
            power = f"·n^{-self.power}" if self.power else ""
            return f"{self.mean:g}{power}" if self.shape == "constant" else "given numbers"
        base = f"(n + {self.shift:g})" if self.shift else "n"
        power = "" if not self.power else f"·{base}^{-self.power}"
        centre = "" if abs(self.mean) < EXACT * self.std else f", mean {self.mean:.3g}"
        return f"{self.shape}, std {float(self.spread):.4g}{power}{centre}"


def number(value: float, error: float = EXACT) -> sympy.Expr:
    """The simplest number near a measured one: a rational or the root of one, within a relative error.

    A decimal of one digit, as people write it, goes before fractions of larger numbers: 0.02 is no 1/49.

    >>> number(0.5774), number(0.0201, 0.02), number(0.0)
    (sqrt(3)/3, 1/50, 0)
    """
    if value == 0:
        return sympy.S.Zero
    size = abs(value)
    plain = simplest(size * (1 - error), size * (1 + error))
    decimal = Fraction(f"{size:.0e}")
    if plain.numerator * plain.denominator > 16 and abs(float(decimal) / size - 1) <= error:
        plain = decimal
    square = simplest(size**2 * (1 - 2 * error), size**2 * (1 + 2 * error))
    if plain != decimal and 4 * square.numerator * square.denominator < (plain.numerator * plain.denominator) ** 2:
        found = sympy.sqrt(sympy.Rational(square.numerator, square.denominator))
    else:
        found = sympy.Rational(plain.numerator, plain.denominator)
    return found if value > 0 else -found


def simplest(low: float, high: float) -> Fraction:
    """The fraction with the smallest denominator between two positive numbers (Stern and Brocot's tree).

    >>> simplest(0.196, 0.204), simplest(3.1, 3.2)
    (Fraction(1, 5), Fraction(16, 5))
    """
    whole = math.floor(low)
    if whole == low:
        return Fraction(whole)
    if whole + 1 <= high:
        return Fraction(whole + 1)
    inner = simplest(1 / (high - whole), 1 / (low - whole))
    return whole + 1 / inner


def measured(
    make: Callable[[int], Any], names: Iterable[str], widths: tuple[int, ...], rounded: Iterable[tuple[float, ...]] = ()
) -> dict[str, Entries]:
    """The entries of parameters and buffers, from models of the first and the last width.

    Where they are no power of n they may be one of a rounded size, or of n + s as Glorot's initialisation of a layer
    between n neurons and s inputs, which the width between decides.  rounded: sizes at all widths, in units in which
    that of the last one is n.
    """
    names = tuple(names)
    ends = (widths[0], widths[-1])
    pairs = [_samples(make, names, n) for n in ends]
    found: dict[str, Entries] = {}
    left: dict[str, ProgramError] = {}
    for name in names:
        for sizes in (ends, *((r[0], r[-1]) for r in rounded)):
            try:
                found[name] = _entries(name, [p[name] for p in pairs], sizes)
                break
            except ProgramError as error:
                left.setdefault(name, error)
    # fourth roots of n are rare, and 1/log n is close to one: they are asked for again, as what is no power is
    rare = [k for k, e in found.items() if e.power.denominator == 4 and e.error > SURE]
    missing = [*(name for name in names if name not in found), *rare]
    if not missing:
        return found
    many = [_samples(make, missing, n, MORE) for n in widths[:2] + widths[-1:]]
    for name in missing:
        pair = [many[0][name], many[-1][name]]
        try:  # what a few models told apart by chance, many do not
            found[name] = _entries(name, pair, ends, 3 if name in rare else 5)
            continue
        except ProgramError as error:
            left[name] = error
        shift = _shift([_spread(m[name]) for m in many], (ends[0], widths[1], ends[1]))
        if shift is None or shift > 4 * pair[0][0].size / ends[0]:  # s is a finite dimension of the parameter
            raise left[name]
        found[name] = replace(_entries(name, pair, (ends[0] + shift, ends[1] + shift)), shift=shift)
    return found


def _samples(make: Any, names: Iterable[str], n: int, seeds: int = SEEDS) -> dict[str, list[numpy.ndarray]]:
    """Entries of parameters in several models of one width."""
    many: dict[str, list[numpy.ndarray]] = {}
    with torch.random.fork_rng():
        for seed in range(MORE):
            wanted = [k for k in names if seed < seeds or _is_few(many[k])]
            if not wanted:
                break
            torch.manual_seed(seed)
            with (
                patch.object(torch, "manual_seed"),  # a make that seeds itself draws the same numbers every time
                repeated() if seed >= seeds else nullcontext(),
            ):
                module = quietly(make, n)
            tensors = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers())}
            for name in wanted:
                many.setdefault(name, []).append(tensors[name].detach().double().numpy().ravel())
    return many


def _spread(samples: list[numpy.ndarray]) -> tuple[float, float]:
    """The standard deviation of entries, and its relative error; half the interval of uniform ones."""
    pooled = numpy.concatenate(samples)
    if pooled.std() and ((pooled - pooled.mean()) ** 4).mean() < 2.2 * pooled.var() ** 2 and _is_flat([pooled]):
        return _half(pooled), 4 / pooled.size
    return float(pooled.std()), math.sqrt(_kurtosis_error(pooled) / pooled.size)


def _shift(spreads: list[tuple[float, float]], widths: tuple[int, int, int]) -> float | None:
    """s where 1/std² is proportional to n + s at three widths, to the nearest half; None where it is not."""
    (a, _), (b, _), (c, _) = spreads
    if min(a, b, c) <= 0:
        return None
    slope = (c**-2 - a**-2) / (widths[2] - widths[0])
    shift = a**-2 / slope - widths[0] if slope > 0 else -1.0
    middle = (b**-2 / (slope * (widths[1] + shift))) if slope > 0 else 0.0
    error = 2 * math.hypot(*(e for _, e in spreads))
    if shift < 0 or abs(middle - 1) > max(4 * error, 0.01):
        return None
    return round(2 * shift) / 2


def _is_few(samples: list[numpy.ndarray]) -> bool:
    """Whether entries are random and too few for their spread to be known."""
    return samples[0].size * len(samples) < FEW and any((s != samples[0]).any() for s in samples[1:])


def _entries(name: str, samples: list[list[numpy.ndarray]], widths: tuple[float, float], errors: float = 5) -> Entries:
    """What samples at two widths are; powers may be so many standard errors from a multiple of ¼."""
    means = [float(numpy.mean([s.mean() for s in many])) for many in samples]
    spreads = [numpy.array([s.std() if s.size > 1 else 0.0 for s in many]) for many in samples]
    pooled = [numpy.concatenate(many) for many in samples]
    if all(numpy.ptp(p) == 0 for p in pooled):
        return _constant(name, means, widths)
    if all((s == many[0]).all() for many in samples for s in many):
        return Entries(0.0, 1.0, Fraction(0), GIVEN, 0.0)
    if samples[0][0].size < 8:  # a few numbers: their spread is that between models
        spreads = [numpy.array([p.std()]) for p in pooled]
    stds = [float(numpy.sqrt(numpy.mean(s**2))) for s in spreads]
    if min(stds) == 0:
        raise ProgramError(
            f"`{name}` is constant at one width and random at another: no power of n makes one of the other."
        )
    ratio = math.log(widths[1] / widths[0])
    counts = [p.size for p in pooled]
    fourth = float(numpy.mean([((p - p.mean()) ** 4).mean() / p.var() ** 2 for p in pooled]))
    flat = fourth < 2.2 and _is_flat(pooled)
    if flat:  # the ends of uniform laws are known better than their spread; their errors have long tails
        ends = [_half(p) for p in pooled]
        power, error = -math.log(ends[1] / ends[0]) / ratio, math.hypot(*(4 / c for c in counts)) / ratio
    else:
        power = -math.log(stds[1] / stds[0]) / ratio
        error = math.sqrt(sum(_kurtosis_error(p) / c for p, c in zip(pooled, counts, strict=True))) / ratio
    rounded = Fraction(round(4 * power), 4)
    if abs(power - float(rounded)) > max(errors * error, 0.004 * errors):
        raise ProgramError(
            f"the entries of `{name}` scale like n^{-power:.3f} ± {error:.3f}, which is no multiple of 1/4: its law is "
            "not that of one power of n. Initialise it with n**p, p a multiple of 1/4, or choose widths= further apart."
        )
    if not math.isclose(means[0], means[1], abs_tol=4 * max(stds) / math.sqrt(min(counts)) + 1e-12):
        raise ProgramError(f"the mean of `{name}` depends on the width: {means[0]:.3g} and {means[1]:.3g}.")
    mean = float(numpy.concatenate(list(pooled)).mean())
    mean = 0.0 if abs(mean) < 4 * max(stds) / math.sqrt(min(counts)) else mean
    # by their numbers of entries: the few of the narrow models would spoil what the many of the wide ones tell
    std = math.sqrt(numpy.average((numpy.array(stds) * numpy.power(widths, float(rounded))) ** 2, weights=counts))
    if _is_two_valued(pooled):
        return Entries(mean, std, rounded, "signs", error)
    if not flat:
        cut = _cut(pooled)
        shape = "normal" if cut is None else "truncated"
        return Entries(mean, std, rounded, shape, error, max(3 / math.sqrt(2 * sum(counts)), 1e-6), cut)
    # the largest of many uniform entries is closer to the end than their spread tells
    p, n = max(zip(pooled, widths, strict=True), key=lambda pair: pair[0].size)
    half = _half(p) * n ** float(rounded)
    return Entries(mean, half / math.sqrt(3), rounded, "uniform", error, max(16 / p.size, 1e-6))


def _constant(name: str, means: list[float], widths: tuple[float, float]) -> Entries:
    """Entries that are one number at each width."""
    if numpy.isclose(means[0], means[1], rtol=1e-6, atol=0):
        return Entries(means[0], 0.0, Fraction(0), "constant", 0.0)
    if means[0] * means[1] > 0:
        power = -math.log(means[1] / means[0]) / math.log(widths[1] / widths[0])
        rounded = Fraction(round(4 * power), 4)
        if abs(power - float(rounded)) < 1e-5:
            return Entries(means[0] * widths[0] ** float(rounded), 0.0, rounded, "constant", 0.0)
    raise ProgramError(
        f"all entries of `{name}` are {means[0]:.4g} at one width and {means[1]:.4g} at another, which is no power of "
        "n; use c·n**p with p a multiple of 1/4."
    )


def _is_two_valued(pooled: list[numpy.ndarray]) -> bool:
    """Whether entries are two numbers, as random signs are."""
    return all(numpy.allclose(abs(p - p.mean()), p.std(), rtol=1e-3 + 3 / math.sqrt(p.size)) for p in pooled)


def _is_flat(pooled: list[numpy.ndarray]) -> bool:
    """Whether the ends of entries are √3 deviations away, as those of a uniform law are."""
    p = max(pooled, key=len)
    return abs(float(numpy.ptp(p) / p.std()) / math.sqrt(12) - 1) < 2 / math.sqrt(p.size)


def _cut(pooled: list[numpy.ndarray]) -> float | None:
    """Where normal entries are truncated, in deviations of the normal law; None where no end is seen."""
    p = max(pooled, key=len)
    end = float(numpy.abs(p - p.mean()).max() / p.std())
    if not 1.8 < end < 0.7 * scipy.stats.norm.isf(1 / (2 * p.size)):  # the largest of so many normal ones
        return None

    def beyond(c: float) -> float:
        return float(c / scipy.stats.truncnorm.std(-c, c) - end)

    return float(scipy.optimize.brentq(beyond, 1e-2, 10.0))


def _half(p: numpy.ndarray) -> float:
    """Half the length of the interval that uniform entries come from."""
    return float(numpy.ptp(p)) / 2 * (p.size + 1) / (p.size - 1)


def _kurtosis_error(p: numpy.ndarray) -> float:
    """The variance of log std, times the number of entries."""
    fourth = float(((p - p.mean()) ** 4).mean() / max(p.var() ** 2, 1e-300))
    return max(fourth - 1, 0.1) / 4
