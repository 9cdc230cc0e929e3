"""Initial entries that depend on one another or are not alike: copies, symmetric, orthogonal and uneven matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from unittest.mock import patch

import numpy
import scipy
import torch

from tplimits.torch.exporting import quietly

#: models of one width that are looked at
SEEDS = 4
#: relative rounding of entries in single precision
ROUNDING = 1e-4
#: fewer entries than this may agree by chance, as signs do; so may many numbers in single precision, and what share
FEW, MANY, SHARE = 8, 2**18, 0.2
#: how rare differences between groups of entries are if these are alike, and how much of the variance they have to be
RARE, PART = 1e-8, 0.02
#: standard errors from which on a correlation is none of chance
CERTAIN = 6.5


def dependent(make: Callable[[int], Any], names: Iterable[str], n: int) -> dict[str, str]:
    """What of the start is not independent and alike, by parameter, in words; seen in a few models of one width."""
    many = []
    with torch.random.fork_rng(devices=()):
        for seed in range(SEEDS):
            torch.manual_seed(seed)
            with patch.object(torch, "manual_seed"):
                module = quietly(make, n)
            tensors = dict(module.named_parameters(remove_duplicate=False))
            many.append({k: tensors[k].detach().double() for k in names if k in tensors})
    first, second = many[:2]
    drawn = [k for k, v in first.items() if v.numel() >= FEW and v.std() > 0 and not torch.equal(v, second[k])]
    found = _of_others({k: numpy.stack([m[k].numpy().ravel() for m in many]) for k in drawn})
    for name in drawn:
        if name in found:
            continue
        if all(_is_orthogonal(m[name]) for m in many):  # rows of a few signs are now and then
            found[name] = "starts orthogonal"
        elif all(_is_symmetric(m[name]) for m in many):
            found[name] = "starts symmetric"
        elif _repeats(first[name].numpy()):
            found[name] = "starts with numbers that it holds several times"
        elif not _is_alike(numpy.stack([m[name].numpy() for m in many])):
            found[name] = "starts with rows or columns that are larger than others"
    return found


def _of_others(models: Mapping[str, numpy.ndarray]) -> dict[str, str]:
    """Parameters that start with numbers of earlier ones, or with what goes with them; a row for each model."""
    several = {k: w for k, w in models.items() if w[0].size <= MANY and len(numpy.unique(abs(w[0]))) > FEW}
    found: dict[str, str] = {}
    for later, earlier in _sharing([w[0] for w in several.values()]):
        names = list(several)
        found.setdefault(names[later], f"starts with the numbers of `{names[earlier]}`")
    for size in {w[0].size for w in models.values()}:
        names = [k for k, w in models.items() if w[0].size == size]
        signed = [k in several for k in names]
        for later, earlier, exact in _alike([models[k] for k in names], signed):
            how = "with multiples of the numbers of" if exact else "correlated with"
            found.setdefault(names[later], f"starts {how} `{names[earlier]}`")
    return found


def _sharing(many: list[numpy.ndarray]) -> Iterator[tuple[int, int]]:
    """Arrays a good part of whose entries are those of an earlier one, but for their sign."""
    if not many:
        return
    values = numpy.concatenate([abs(w).astype(numpy.float32) for w in many])
    owner = numpy.repeat(numpy.arange(len(many)), [w.size for w in many])
    order = numpy.argsort(values, kind="stable")
    values, owner = values[order], owner[order]
    shared = (values[1:] == values[:-1]) & (values[1:] > 0) & (owner[1:] != owner[:-1])
    pairs, counts = numpy.unique(numpy.stack([owner[1:], owner[:-1]])[:, shared], axis=1, return_counts=True)
    for (later, earlier), count in zip(pairs.T.tolist(), counts, strict=True):
        if count > SHARE * min(many[later].size, many[earlier].size):
            yield later, earlier


def _alike(many: list[numpy.ndarray], ordered: list[bool]) -> Iterator[tuple[int, int, bool]]:
    """Arrays of one size whose entries go with those of an earlier one, in this order or sorted: multiples or not.

    Sizes of entries may go together where the entries do not, as those of w and w².  ordered: whether an array has
    values enough for sorted ones to say something.
    """
    unit = _in_units(numpy.stack(many))
    size = unit[0].size
    flat = numpy.stack([unit, _in_units(abs(unit))]).reshape(2, len(many), size)
    related = numpy.stack([abs(a @ b.T) for a in flat for b in flat]).max(axis=0) / size
    places = numpy.linspace(0, unit.shape[2] - 1, FEW).astype(int)
    up, down = (numpy.sort(sign * unit[:, 0])[:, places] for sign in (1, -1))
    for later in range(len(many)):
        for earlier in range(later):
            same = ordered[later] and any(abs(up[later] - other[earlier]).max() < ROUNDING for other in (up, down))
            exact = same or abs(flat[0, later] @ flat[0, earlier]) / size > 1 - ROUNDING
            if exact or related[later, earlier] > CERTAIN / numpy.sqrt(size):
                yield later, earlier, bool(exact)


def _in_units(w: numpy.ndarray) -> numpy.ndarray:
    """Arrays of several models less their means, in units of their spread; 0 where they have none."""
    apart = w - w.mean(axis=2, keepdims=True)
    spread = numpy.sqrt((apart**2).mean(axis=2, keepdims=True))
    return numpy.where(spread > ROUNDING * abs(w).max(axis=2, keepdims=True), apart, 0) / numpy.maximum(spread, 1e-300)


def _repeats(w: numpy.ndarray) -> bool:
    """Whether entries are copies of others, but for their sign; two values alone are random signs."""
    if w.size > MANY:
        return False
    sizes, counts = numpy.unique(abs(w[w != 0]).astype(numpy.float32), return_counts=True)
    return len(sizes) > FEW and bool(counts[counts > 1].sum() > SHARE * w.size)


def _is_alike(models: numpy.ndarray) -> bool:
    """Whether entries of several models have the same mean and the same size along every dimension."""
    return all(_same(groups) for values in (models, abs(models)) for groups in _groups(values))


def _groups(values: numpy.ndarray) -> Iterator[numpy.ndarray]:
    """A row for each index of a dimension, in all models together and in each of them."""
    for axis in range(1, values.ndim):
        moved = numpy.moveaxis(values, axis, 0)
        yield moved.reshape(len(moved), -1)
        yield moved.reshape(len(moved) * len(values), -1)


def _same(groups: numpy.ndarray) -> bool:
    """Whether rows differ no more than chance lets them: Fisher's test, which bears laws that are not normal."""
    many, each = groups.shape
    within = float(groups.var(axis=1).mean()) * each / max(each - 1, 1)
    if many < 2 or each < 2 or within <= ROUNDING * float((groups**2).mean()):
        return True
    ratio = each * float(groups.mean(axis=1).var()) * many / (many - 1) / within
    return (ratio - 1) / each < PART or bool(scipy.stats.f.sf(ratio, many - 1, many * (each - 1)) > RARE)


def _is_symmetric(w: Any) -> bool:
    if w.ndim != 2 or w.shape[0] != w.shape[1]:
        return False
    return bool(min(float((w - w.T).abs().max()), float((w + w.T).abs().max())) <= ROUNDING * float(w.abs().max()))


def _is_orthogonal(w: Any) -> bool:
    if w.ndim < 2 or w.shape[0] < 2:
        return False
    w = w.reshape(w.shape[0], -1)
    w = w if w.shape[0] <= w.shape[1] else w.T
    if w.shape[0] < 2:
        return False
    gram = w @ w.T
    size = float(gram.diagonal().mean())
    return bool((gram - size * torch.eye(len(gram), dtype=gram.dtype)).abs().max() <= ROUNDING * size)
