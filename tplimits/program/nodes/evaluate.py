"""Bodies on arrays: how NumPy evaluates each head of the language; rules for means over normal variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
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
from tplimits.program.nodes.laws import GIVEN, ORTHOGONAL, Law, truncated
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
#: nodes of a panel of the means of this module
_COUNT = 20


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

    Gauss–Legendre panels between the kinks: about 1e-12 for f that vary on the scale of 1.
    """
    return float(_panels(integrand, variable, {}))


def _panels(integrand: Expr, variable: Symbol, known: Mapping[Expr, Any]) -> Any:
    """The mean over one normal variable; arrays in `known` have a last dimension of length 1 for its nodes."""
    # panels of one deviation, with kinks as ends: between them Gauss–Legendre converges exponentially
    ends = numpy.unique([*range(-_RANGE, _RANGE + 1), *_crossings(integrand, variable, known)])
    nodes, weights = (part.ravel() for part in panels(ends, legendre(_COUNT)))
    weights = weights * density(nodes)
    block = max(_COUNT, _BLOCK // max(1, *(numpy.size(v) for v in known.values()), 1))
    total: Any = 0.0
    with numpy.errstate(all="ignore"):
        for start in range(0, nodes.size, block):
            part = slice(start, start + block)
            values = evaluate(integrand, {**known, variable: nodes[part]})
            total = total + (values * weights[part]).sum(axis=-1)
    if not numpy.isfinite(total).all():
        raise EvaluationError(f"the mean of {integrand} over a standard normal {variable} is not a finite number.")
    return total


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

    one = partial(_mean_at, integrand, variable, tuple(others))
    values = [numpy.asarray(known[s], dtype=numpy.float64) for s in others]
    if all(v.ndim == 0 for v in values):
        return one(*map(float, values))
    # other panels for every entry: no nodes in common
    if any(k.has(variable) and k.has(*others) for k in functions.kinks(integrand)):  # kinks that move
        return numpy.vectorize(one, otypes=[float])(*values)
    return _panels(integrand, variable, {s: v[..., None] for s, v in zip(others, values, strict=True)})


# layers of a block ask for the same means, batch by batch
@remembered(512)
def _mean_at(integrand: Expr, variable: Symbol, others: tuple[Symbol, ...], *numbers: float) -> float:
    """The mean over one normal variable at numbers for the other symbols."""
    return float(_panels(integrand, variable, dict(zip(others, numbers, strict=True))))


def orthogonal(normal: Array) -> Array:
    """√n times uniformly distributed orthogonal matrices, from square matrices (…, n, n) of standard normal entries.

    The factor Q of G = QR is uniformly distributed if the diagonal of R is made positive.

    >>> W = orthogonal(numpy.random.default_rng(0).standard_normal((3, 3)))
    >>> bool(numpy.allclose(W @ W.T, 3 * numpy.eye(3)))
    True
    """
    q, r = numpy.linalg.qr(normal)
    # LAPACK leaves the signs of R open, and with them Q is not uniformly distributed
    signs = numpy.where(numpy.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return q * signs[..., None, :] * math.sqrt(normal.shape[-1])


def places(size: int) -> Array:
    """The places of neurons, in (0, 1).

    >>> places(2).tolist()
    [0.25, 0.75]
    """
    return (numpy.arange(size) + 0.5) / size


def drawn(law: Law, shape: tuple[int, ...], g: Callable[[], Array], leaves: Mapping[Expr, Any]) -> Array:
    """Entries of a law from standard normal draws of a shape; `g` is not asked for them where the law is a constant."""
    mean, std = (float(evaluate(v, leaves)) for v in (law.mean, law.std))
    if std == 0:
        return numpy.full(shape, mean)
    if law.shape == GIVEN:
        raise EvaluationError(
            "a vector of given numbers has no law to be drawn from; give its entries, as `weights(module)` of an "
            "imported model does."
        )
    if law.shape == ORTHOGONAL:
        return orthogonal(g())
    entries: Array = evaluate(law.shaped(_g), {_g: g()})
    # 1 and 0, which most laws have, cost no copy of a large array
    if std != 1:
        entries = std * entries
    return entries if mean == 0 else mean + entries
