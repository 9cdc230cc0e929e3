"""Bodies on arrays: how NumPy evaluates each head of the language; rules for means over normal variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy
import scipy
import sympy
from sympy import Expr, Symbol

from tplimits.arrays import Array, raised
from tplimits.errors import EvaluationError
from tplimits.program.nodes import functions
from tplimits.program.nodes.crossings import crossings
from tplimits.program.nodes.entries import AxisSum, GaussMean
from tplimits.program.nodes.functions import truncated
from tplimits.program.nodes.log_sums import in_doubles
from tplimits.program.nodes.normal_means import normal_mean
from tplimits.program.nodes.rules import Mean, density, legendre, panels
from tplimits.program.nodes.running_errors import mean_of_errors, samples
from tplimits.program.nodes.series import near, on_arrays
from tplimits.program.parts import remembered

_g = Symbol("g", real=True)

#: how NumPy evaluates each head
ARRAY_FUNCTIONS: dict[type, Callable[..., Any]] = {
    functions.step: lambda x: numpy.where(x > 0, 1.0, 0.0),
    functions.relu: lambda x: numpy.maximum(x, 0.0),
    functions.leaky_relu: lambda x, slope: numpy.where(x > 0, x, slope * x),
    functions.maximum: numpy.maximum,
    functions.minimum: numpy.minimum,
    functions.where: lambda c, x, y: numpy.where(c > 0, x, y),
    functions.sigmoid: lambda x: scipy.special.expit(x),
    functions.softplus: lambda x: numpy.logaddexp(0.0, x),
    functions.stop_gradient: lambda x: x,
    functions.gelu: lambda x: x * scipy.special.ndtr(x),
    truncated: lambda x, c: _truncated(x, c),
    sympy.Abs: numpy.abs,
    sympy.sign: numpy.sign,
    sympy.exp: numpy.exp,
    sympy.log: numpy.log,
    sympy.sin: numpy.sin,
    sympy.cos: numpy.cos,
    sympy.tan: numpy.tan,
    sympy.asin: numpy.arcsin,
    sympy.acos: numpy.arccos,
    sympy.atan: numpy.arctan,
    sympy.sinh: numpy.sinh,
    sympy.cosh: numpy.cosh,
    sympy.tanh: numpy.tanh,
    sympy.sech: lambda x: numpy.divide(1.0, numpy.cosh(numpy.clip(x, -700.0, 700.0))),
    sympy.asinh: numpy.arcsinh,
    sympy.atanh: numpy.arctanh,
    sympy.erf: lambda x: scipy.special.erf(x),
    sympy.erfc: lambda x: scipy.special.erfc(x),
}


def _truncated(x: Any, c: Any) -> Any:
    """√2 erfinv(erf(c/√2) erf(x/√2)), through the tail beyond |x| where erf is nearly 1 and would lose its digits."""
    inside, beyond = scipy.special.erf(c / math.sqrt(2)), scipy.special.ndtr(-c)
    # the share of the law within ±T(x): beyond ½ the tail is inverted instead, which keeps its digits
    share = inside * scipy.special.erf(numpy.abs(x) / math.sqrt(2))
    near = math.sqrt(2) * scipy.special.erfinv(numpy.minimum(share, 0.5))
    far = -scipy.special.ndtri(scipy.special.ndtr(-numpy.abs(x)) * inside + beyond)
    return numpy.sign(x) * numpy.minimum(numpy.where(share < 0.5, near, far), c)


def stream(seed: int, *key: int) -> numpy.random.Generator:
    """Random numbers that those of other keys are independent of, whichever are drawn first."""
    return numpy.random.Generator(numpy.random.SFC64(numpy.random.SeedSequence(seed, spawn_key=key)))


#: entries of one intermediate array of a mean inside a mean
_BLOCK = 200_000
#: how far a mean inside a mean looks at first, and where two resolutions of it agree, relative to E|f|
_NEAR, _FAR, _AGREED = 13, 12, 1e-13
#: nodes of a panel of it, panels a deviation, cuts of one kink
_COUNT, _PARTS, _KINKS = 20, (2, 4, 8, 16, 32), 8
#: points at which rounding is bounded
_SEEN = 256


def evaluate(expr: Expr, known: Mapping[Expr, Any], memo: dict[Expr, Any] | None = None) -> Any:
    """An expression on arrays: `known` gives its leaves, everything broadcasts."""
    memo = {} if memo is None else memo
    if expr in known:
        return known[expr]
    if expr in memo:
        return memo[expr]
    value: Any
    if (number := _number(expr)) is not None:
        value = number
    elif (stable := in_doubles(expr)) is not expr:
        value = evaluate(stable, known, memo)
    elif isinstance(expr, sympy.Add):
        value = evaluate(expr.args[0], known, memo)
        for a in expr.args[1:]:
            value = value + evaluate(a, known, memo)
    elif isinstance(expr, sympy.Mul):
        first, *rest = number_first(expr)
        value = evaluate(first, known, memo)
        for a in rest:
            value = value * evaluate(a, known, memo)
    elif isinstance(expr, sympy.Pow):
        base, exponent = evaluate(expr.base, known, memo), expr.exp
        # a number that is exact is no leaf that may be off
        exact = exponent.is_Integer or exponent in (sympy.S.Half, -sympy.S.Half)
        value = raised(base, evaluate(exponent, {})) if exact else numpy.power(base, evaluate(exponent, known, memo))
    elif isinstance(expr, GaussMean):
        value = _gauss_mean(expr, known)
    elif isinstance(expr, near):
        # its series stands where the function has no number
        with numpy.errstate(all="ignore"):
            value = on_arrays(*(evaluate(a, known, memo) for a in expr.args))
    elif type(expr) in ARRAY_FUNCTIONS:
        value = ARRAY_FUNCTIONS[type(expr)](*(evaluate(a, known, memo) for a in expr.args))
    else:
        raise EvaluationError(f"`{expr}` ({type(expr).__name__}) has no numerical form.")
    memo[expr] = value
    return value


def with_differences(body: Expr) -> Expr:
    """Every softmax e^x/Σ e^x′ as 1/Σ e^(x′ − x), which does not overflow; it costs a dimension more."""
    rewritten = {}
    for product in body.atoms(sympy.Mul):
        weights = [f for f in product.args if isinstance(f, sympy.exp)]
        totals = [f for f in product.args if f.is_Pow and f.exp == -1 and isinstance(f.base, AxisSum)]
        if len(weights) == len(totals) == 1:
            (weight,), (total,) = weights, totals
            # left out by hand: e^x·e^(−x) stays as it is where x is a sum, and is 0·∞ where a mask holds −10⁹
            others = [f for f in product.args if f not in (weight, total)]
            rewritten[product] = sympy.Mul(*others, 1 / _times(total.base, sympy.exp(-weight.exp)))
    return body.xreplace(rewritten)


def _times(total: Expr, factor: Expr) -> Expr:
    """A sum with a factor on every summand."""
    if isinstance(total, AxisSum):
        return AxisSum(_times(total.summand, factor), *total.args[1:])
    return sympy.powsimp(total * factor)


@remembered(1 << 14)
def number_first(product: Expr) -> tuple[Expr, ...]:
    """The factors of a product, its numbers as one: 10^280 and e^(−800) are doubles together, neither is alone.

    >>> number_first(_g * sympy.exp(-8) * 100)
    (100*exp(-8), g)
    """
    numbers = [f for f in product.args if f.is_number and not f.has(GaussMean)]
    if len(numbers) < 2:
        return product.args
    return (sympy.Mul(*numbers), *(f for f in product.args if f not in numbers))


@remembered(1 << 14)
def _number(expr: Expr) -> float | None:
    """A number without means inside as one, None for other expressions."""
    if not expr.is_number or expr.has(GaussMean):
        return None
    try:
        number = float(expr)
    except (TypeError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise EvaluationError(f"the constant {expr!s:.60} is not a real number in double precision.")
    return number


def _gauss_mean(mean: GaussMean, known: Mapping[Expr, Any]) -> Any:
    """The mean over a normal variable, entry by entry in the other symbols of the integrand."""
    others = sorted(mean.free_symbols, key=lambda s: s.name)
    missing = [s for s in others if s not in known]
    if missing:
        raise EvaluationError(f"`{missing[0]}` in {mean} has no value.")
    values = {s: numpy.asarray(known[s], dtype=numpy.float64) for s in others}
    moving = {s: v for s, v in values.items() if v.ndim}
    if not moving:
        return mean_of_numbers(mean, values).value
    numbers: dict[Expr, Expr] = {s: as_number(float(v)) for s, v in values.items() if v.ndim == 0}
    return _on_arrays(mean.args[0].xreplace(numbers), mean.args[1], moving)


def mean_of_numbers(mean: GaussMean, known: Mapping[Expr, Any]) -> Mean:
    """A mean ± its error where each symbol in it is one number."""
    numbers: dict[Expr, Expr] = {s: as_number(float(known[s])) for s in mean.free_symbols}
    return constant_mean(mean.args[0].xreplace(numbers), mean.args[1])


def as_number(number: float) -> Expr:
    """A double as SymPy's number, a whole one exactly."""
    return sympy.Integer(int(number)) if number.is_integer() else sympy.Float(number, 17)


@remembered(512)
def constant_mean(integrand: Expr, variable: Symbol) -> Mean:
    """E f(g) ± error for a standard normal g; f holds no symbol but `variable`."""
    return _rounded(integrand, variable, {})


def _rounded(integrand: Expr, variable: Symbol, known: Mapping[Expr, float]) -> Mean:
    """E f(g), its error with what rounding of f makes of it."""
    found = normal_mean(integrand, variable, known, evaluate)
    x, weights = samples(1, _SEEN)
    lost = mean_of_errors(integrand, {**known, variable: x[..., 0]}, weights, found.size, evaluate)
    return Mean(found.value, found.error + lost, found.size)


def _on_arrays(integrand: Expr, variable: Symbol, moving: Mapping[Expr, Array]) -> Any:
    """The mean where other symbols are arrays, as nodes of an outer mean are: rows that agree late one by one."""
    arrays = numpy.broadcast_arrays(*moving.values())
    rows = numpy.stack([v.reshape(-1) for v in arrays])
    found, left = numpy.zeros(rows.shape[1]), numpy.arange(rows.shape[1])
    before = _resolved(integrand, variable, dict(zip(moving, rows, strict=True)), 1)[0]
    for parts in _PARTS:
        now, size, far = _resolved(integrand, variable, dict(zip(moving, rows[:, left], strict=True)), parts)
        # what cancels leaves rounding, which an outer mean would take for a function of its own
        found[left] = numpy.where(abs(now) <= _AGREED * size, 0.0, now)
        with numpy.errstate(all="ignore"):
            open_ = ~((abs(now - before) <= _AGREED * size) & (far <= _AGREED * size))
        before, left = now[open_], left[open_]
        if not left.size:
            break
    for at in left:
        known = dict(zip(moving, map(float, rows[:, at]), strict=True))
        found[at] = _rounded(integrand, variable, known).value
    return found.reshape(arrays[0].shape)


def _resolved(integrand: Expr, variable: Symbol, outer: Mapping[Expr, Array], parts: int) -> tuple[Array, Array, Array]:
    """E f, E|f| and its part far out for every row of the outer symbols, by so many panels a deviation and kinks."""
    grid = numpy.linspace(-_NEAR, _NEAR, 2 * _NEAR * parts + 1)
    line, rows = numpy.linspace(-_NEAR, _NEAR, 32 * _NEAR + 1), next(iter(outer.values())).size
    kinks = [k for k in functions.kinks(integrand) if variable in k.free_symbols]
    found, step = numpy.zeros((3, rows)), max(1, _BLOCK // (grid.size * _COUNT))
    for start in range(0, rows, step):
        part = slice(start, min(start + step, rows))
        edges = numpy.broadcast_to(grid, (len(range(*part.indices(rows))), grid.size))
        with numpy.errstate(all="ignore"):
            flat = {s: v[part, None] for s, v in outer.items()}
            for kink in kinks:

                def along(
                    x: Array, kink: Expr = kink, flat: Mapping[Expr, Array] = flat, many: int = len(edges)
                ) -> Array:
                    values = evaluate(kink, {**flat, variable: x})
                    return numpy.broadcast_to(values, (many, x.shape[-1]))

                edges = numpy.concatenate([edges, crossings(along, line, _NEAR, _KINKS)], axis=-1)
            nodes, weights = panels(numpy.sort(edges, axis=-1), legendre(_COUNT))
            values = evaluate(integrand, {**{s: v[..., None] for s, v in flat.items()}, variable: nodes})
            f = numpy.broadcast_to(values, nodes.shape) * weights * density(nodes)
        sizes = abs(f)
        found[:, part] = f.sum((1, 2)), sizes.sum((1, 2)), numpy.where(abs(nodes) > _FAR, sizes, 0.0).sum((1, 2))
    return found[0], found[1], found[2]
