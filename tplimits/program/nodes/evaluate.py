"""Bodies on arrays: how NumPy evaluates each head of the language; rules for means over normal variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy
import scipy
import sympy
from sympy import Expr, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError
from tplimits.program.nodes import functions
from tplimits.program.nodes.crossings import zeros
from tplimits.program.nodes.entries import AxisSum, GaussMean
from tplimits.program.nodes.laws import truncated
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


#: beyond ±38 the normal density is zero in double precision
_RANGE = 38
#: entries of one intermediate array of a mean inside a mean
_BLOCK = 200_000
#: nodes of a panel of the means of this module, by how much halves may disagree, and halvings
_COUNT, _AGREE, _HALVINGS = 20, 1e-15, 40
#: distances of panels from a peak
_SHRINKING = tuple(0.25**k for k in range(1, 16))


def density(z: Array) -> Array:
    """The standard normal density."""
    return numpy.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


@lru_cache(maxsize=64)
def legendre(count: int) -> tuple[Array, Array]:
    """Gauss–Legendre nodes and weights on [−1, 1]."""
    return numpy.polynomial.legendre.leggauss(count)


@lru_cache(maxsize=64)
def hermite(count: int) -> tuple[Array, Array]:
    """Gauss–Hermite nodes and weights of a standard normal variable, exact for polynomials below degree 2·count."""
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / math.sqrt(2 * math.pi)


def hermite_polynomials(z: Array, order: int, first: Array) -> Array:
    """Orthonormal h_k(z) for k < order, times `first`, which stands for h_0: (order, nodes)."""
    found = numpy.zeros((order, *z.shape))
    found[0] = first
    for k in range(1, order):
        numpy.multiply(z, found[k - 1], out=found[k])
        if k > 1:
            found[k] -= math.sqrt(k - 1) * found[k - 2]
        found[k] /= math.sqrt(k)
    return found


def panels(edges: Array, rule: tuple[Array, Array]) -> tuple[Array, Array]:
    """Nodes and weights of a rule on the pieces between edges (…, pieces + 1): (…, pieces, nodes)."""
    x, w = rule
    half = (edges[..., 1:] - edges[..., :-1])[..., None] / 2
    middle = (edges[..., 1:] + edges[..., :-1])[..., None] / 2
    return middle + half * x, half * w


@remembered(512)
def standard_normal_mean(integrand: Expr, variable: Symbol) -> float:
    """E f(g) for a standard normal g; f holds no symbol but `variable`.

    Gauss–Legendre panels between the kinks, halved until they agree.
    """
    return float(_panels(integrand, variable, {}))


def _panels(integrand: Expr, variable: Symbol, known: Mapping[Expr, Any]) -> Any:
    """The mean over one normal variable; arrays in `known` have a last dimension of length 1 for its nodes.

    Panels whose halves disagree are halved: all of them for all entries.
    """
    # panels of one deviation, with kinks as ends: between them Gauss–Legendre converges exponentially
    ends = numpy.unique(
        [*range(-_RANGE, _RANGE + 1), *_crossings(integrand, variable, known), *_peaks(integrand, variable, known)]
    )
    left = numpy.stack([ends[:-1], ends[1:]], axis=-1)
    total: Any = 0.0
    least: Any = None
    with numpy.errstate(all="ignore"):
        for _ in range(_HALVINGS):
            middle = left.mean(axis=-1)
            halves = numpy.stack([left[:, 0], middle, middle, left[:, 1]], axis=-1).reshape(-1, 2)
            whole, sizes = _of_panels(integrand, variable, known, left)
            parts = _of_panels(integrand, variable, known, halves)[0].reshape(*whole.shape, 2).sum(axis=-1)
            least = _AGREE * sizes.sum(axis=-1, keepdims=True) if least is None else least
            doubted = (abs(whole - parts) > least).reshape(-1, len(left)).any(axis=0)
            total = total + parts[..., ~doubted].sum(axis=-1)
            if not doubted.any():
                break
            left = halves.reshape(-1, 2, 2)[doubted].reshape(-1, 2)
        else:
            total = total + parts[..., doubted].sum(axis=-1)
    if not numpy.isfinite(total).all():
        raise EvaluationError(f"the mean of {integrand} over a standard normal {variable} is not a finite number.")
    return total


def _of_panels(integrand: Expr, variable: Symbol, known: Mapping[Expr, Any], pieces: Array) -> tuple[Array, Array]:
    """The integrals over panels, (…, panels), and those of the modulus."""
    nodes, weights = panels(pieces, legendre(_COUNT))
    nodes, weights = nodes[:, 0], weights[:, 0] * density(nodes[:, 0])
    block = max(1, _BLOCK // max(1, *(numpy.size(v) for v in known.values()), 1) // _COUNT)
    sums, sizes = [], []
    for start in range(0, len(nodes), block):
        part = slice(start, start + block)
        values = numpy.asarray(evaluate(integrand, {**known, variable: nodes[part].ravel()})) * weights[part].ravel()
        values = values.reshape(*values.shape[:-1], -1, _COUNT)
        sums.append(values.sum(axis=-1))
        sizes.append(abs(values).sum(axis=-1))
    return numpy.concatenate(sums, axis=-1), numpy.concatenate(sizes, axis=-1)


def _peaks(integrand: Expr, variable: Symbol, known: Mapping[Expr, Any]) -> list[float]:
    """Ends of panels that shrink towards where a smooth function turns on a small scale: halves see steps, no peaks."""
    found: list[float] = []
    for argument in _steep(integrand, variable, known):
        if any(numpy.ndim(known[s]) for s in argument.free_symbols - {variable}):
            continue  # `_gauss_mean` takes those that move entry by entry
        slopes = (argument, smooth_slope(argument, variable))
        places = {t for f in slopes if variable in f.free_symbols for t in _zeros(f, variable, known)}
        found += [t + side * x for t in places for x in (0.0, *_SHRINKING) for side in (1, -1) if abs(t) < _RANGE - 1]
    return found


def smooth_slope(expr: Expr, variable: Symbol) -> Expr:
    """The derivative between the jumps."""
    return expr.diff(variable).replace(sympy.DiracDelta, lambda *_: sympy.S.Zero)


def _steep(integrand: Expr, variable: Symbol, known: Mapping[Expr, Any]) -> list[Expr]:
    """Arguments of smooth functions that change by more than 1 from one node to another."""
    arguments = {n.args[0] for n in integrand.atoms(*functions.TURNING) if variable in n.args[0].free_symbols}
    line = numpy.linspace(-_RANGE, _RANGE, 32 * _RANGE + 1)
    with numpy.errstate(all="ignore"):
        return [
            a
            for a in sorted(arguments, key=sympy.default_sort_key)
            if a.free_symbols <= {variable, *known}
            and numpy.any(abs(evaluate(smooth_slope(a, variable), {**known, variable: line})) > _COUNT)
        ]


def _crossings(integrand: Expr, variable: Symbol, known: Mapping[Expr, Any]) -> list[float]:
    """Where the integrand has kinks or jumps: the zeros of the arguments of its kinked functions."""
    found: list[float] = []
    for kink in functions.kinks(integrand):
        if variable not in kink.free_symbols or not kink.free_symbols <= {variable, *known}:
            continue  # a kink in the variable of a mean inside is smoothed away by it
        found += _zeros(kink, variable, known)
    return found


def _zeros(expr: Expr, variable: Symbol, known: Mapping[Expr, Any]) -> list[float]:
    line = numpy.linspace(-_RANGE, _RANGE, 32 * _RANGE + 1)
    return zeros(lambda x: evaluate(expr, {**known, variable: x}), line)


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
    elif isinstance(expr, sympy.Add):
        value = evaluate(expr.args[0], known, memo)
        for a in expr.args[1:]:
            value = value + evaluate(a, known, memo)
    elif isinstance(expr, sympy.Mul):
        value = evaluate(expr.args[0], known, memo)
        for a in expr.args[1:]:
            value = value * evaluate(a, known, memo)
    elif isinstance(expr, sympy.Pow):
        value = _power(evaluate(expr.base, known, memo), expr.exp, known, memo)
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


def _power(base: Any, exponent: Expr, known: Mapping[Expr, Any], memo: dict[Expr, Any]) -> Any:
    if exponent == 2:
        return base * base
    if exponent == sympy.S.Half:
        return numpy.sqrt(base)
    if exponent == -1:
        return numpy.divide(1.0, base)
    if exponent == -sympy.S.Half:
        return numpy.divide(1.0, numpy.sqrt(base))
    # whole exponents stay exact for negative bases, and NumPy multiplies instead of taking a logarithm
    if exponent.is_Integer and 0 < exponent <= 64:
        return numpy.power(base, int(exponent))
    return numpy.power(base, evaluate(exponent, known, memo))


def _gauss_mean(mean: GaussMean, known: Mapping[Expr, Any]) -> Any:
    """The mean over a normal variable, entry by entry in the other symbols of the integrand."""
    integrand, variable = mean.args
    others = sorted(mean.free_symbols, key=lambda s: s.name)
    missing = [s for s in others if s not in known]
    if missing:
        raise EvaluationError(f"`{missing[0]}` in {mean} has no value.")
    if not others:
        return standard_normal_mean(integrand, variable)

    def one(*numbers: float) -> float:
        return float(_panels(integrand, variable, dict(zip(others, numbers, strict=True))))

    values = [numpy.asarray(known[s], dtype=numpy.float64) for s in others]
    if all(v.ndim == 0 for v in values):
        return one(*map(float, values))
    arrays = {s: v[..., None] for s, v in zip(others, values, strict=True)}
    # other panels for every entry: no nodes in common
    cuts = [k for k in functions.kinks(integrand) if k.has(variable)] + _steep(integrand, variable, arrays)
    if any(k.has(*others) for k in cuts):  # they move
        return numpy.vectorize(one, otypes=[float])(*values)
    return _panels(integrand, variable, arrays)
