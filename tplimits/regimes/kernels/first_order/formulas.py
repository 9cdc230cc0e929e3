"""K, V and G of one input, layer by layer, for any activation: E Avg φ² = K + G/n, Var Avg φ² = V/n.

Given the layer below, Avg φ(h)² has mean Φ(Σ) = E φ(h)², h ~ N(0, Σ), Σ = w² A + c with A the average there, and
neurons are independent.  So with D and H the derivatives of Φ by A

    K = Φ,    V = E φ⁴ − K² + D² V′,    G = D G′ + ½ H V′,

where V′ and G′ are those of the layer below.  Derivatives by a variance are means,
∂_Σ E f(h) = ½ E f″(h), in the sense of distributions where f has a kink.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy
from sympy import Expr, Symbol

from tplimits.regimes.kernels.first_order.perceptron import H
from tplimits.report.latex_formulas import Formula, FormulaPrinter

#: E over h ~ N(0, Σ)
E = sympy.Function("E")
#: any activation
ACTIVATION = sympy.Function("φ")(H)
#: w of the matrix
FACTOR = Symbol("w", positive=True)
#: what the rows are called: D, H and K of a layer, V and G of the one below
FIRST, SECOND, MEAN, VERTEX, SHIFT = (Symbol(name, real=True) for name in ("D", "H", "K", "V'", "G'"))
_MOST_PRIMES = 4


@dataclass(frozen=True)
class LayerFormulas:
    """One layer: means of φ alone, then V and G by the names of these and of the layer below."""

    mean: Expr
    first: Expr
    second: Expr
    vertex: Expr
    shift: Expr


def step(activation: Expr = ACTIVATION) -> LayerFormulas:
    """The recursion for φ as an expression in `H`.

    >>> step().first
    w**2*E(φ(h)*Derivative(φ(h), (h, 2)) + Derivative(φ(h), h)**2)
    >>> step().vertex, step().shift
    (D**2*V' - K**2 + E(φ(h)**4), D*G' + H*V'/2)
    """
    first, second = (FACTOR ** (2 * k) * E(_by_variance(activation**2, k)) for k in (1, 2))
    vertex = E(activation**4) - MEAN**2 + FIRST**2 * VERTEX
    return LayerFormulas(E(activation**2), first, second, vertex, FIRST * SHIFT + SECOND * VERTEX / 2)


def _by_variance(function: Expr, times: int) -> Expr:
    """f such that E f(h) is a derivative of E function(h) by the variance of h."""
    return sympy.expand(sympy.diff(function, H, 2 * times) / 2**times)


def _rows(name: str) -> list[tuple[str, Expr]]:
    """K, D, H, V and G of any activation, by the name that it and its derivatives have."""
    primes = {ACTIVATION.diff(H, k): Symbol(name.format("'" * k), real=True) for k in range(_MOST_PRIMES, 0, -1)}
    found = step()
    rows = (found.mean, found.first, found.second, found.vertex, found.shift)
    return [
        (left, right.xreplace(primes).xreplace({ACTIVATION: Symbol(name.format(""), real=True)}))
        for left, right in zip("KDHVG", rows, strict=True)
    ]


def text() -> str:
    """The recursion as lines."""
    rows = [f"  {left} = {sympy.sstr(right)}" for left, right in _rows("φ{}")]
    head = "order 1/n of one input: E Avg φ(h)² = K + G/n, Var Avg φ(h)² = V/n, with h ~ N(0, w² K' + c)"
    first = "K', V', G' are those of the layer below, V' = G' = 0 at the first"
    return "\n".join((head, first, *rows))


def formulas() -> list[Formula]:
    """The recursion in LaTeX."""
    printer = FormulaPrinter()
    below = {VERTEX: Symbol(r"{V^{(\ell-1)}}"), SHIFT: Symbol(r"{G^{(\ell-1)}}")}
    own = {s: Symbol(f"{{{s.name}^{{(\\ell)}}}}") for s in (FIRST, SECOND, MEAN)}
    rows = _rows(r"{{\varphi{}}}")
    return [Formula(rf"{left}^{{(\ell)}}", "=", printer.addends(right.xreplace(below | own))) for left, right in rows]
