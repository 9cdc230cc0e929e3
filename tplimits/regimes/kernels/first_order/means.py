"""What the expansion of one layer reads of x = φ(h), h ~ N(0, Σ), for pairs of inputs.

Derivatives by Σ are means of derivatives of φ (Price: ∂/∂Σ_ab → ∂_a ∂_b, ∂/∂Σ_aa → ½ ∂_a²) where φ is smooth; for a φ
with kinks the closed forms of E φφ′ and E φ̇φ̇′ are differentiated.  Entries of pairs are in the order aa, ab, bb, inputs
in the order a, b; for an input with itself there is one of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy
import sympy
from sympy import DiracDelta, Expr, Symbol

from tplimits.arrays import Array
from tplimits.errors import EvaluationError, NoLimitError
from tplimits.numbers.moments.determinants import gram_determinant
from tplimits.numbers.moments.function import closed_code
from tplimits.numbers.moments.writing import function
from tplimits.program.nodes.entries import variable
from tplimits.program.nodes.functions import step
from tplimits.program.parts import remembered
from tplimits.regimes.kernels.derivation.closing import MeanFunction, closed_form
from tplimits.regimes.kernels.derivation.deltas import without_vanishing_deltas
from tplimits.regimes.kernels.first_order.laws import (
    ROUNDED,
    G,
    Law,
    Measured,
    mean_of_pair,
    moment_of_pair,
)
from tplimits.regimes.kernels.first_order.perceptron import H

_C = (Symbol("c11", positive=True), variable("c12"), Symbol("c22", positive=True))
_DET = Symbol("det", positive=True)
#: derivatives of φ that the tangent kernel asks for
_MOST = 5
#: of which functions of h_a and of h_b means are read
_PAIRS = (
    *(("x", "x"), ("x3", "x"), ("x", "x3"), ("x2", "x2"), ("d", "d"), ("d2", "d2")),
    *(("dx2", "d"), ("dx", "dx"), ("d", "dx2"), ("h2d", "d"), ("hd", "hd"), ("d", "h2d")),
    *(("hd", "x"), ("d", "hx"), ("hx", "d"), ("x", "hd")),
)
#: 1 − ρ² below this is that of inputs which a kink does not tell apart
_ALIKE = 1e-9
#: rounding of a covariance, relative
_LAST_DIGITS = 5e-16


@dataclass(frozen=True)
class LayerMeans:
    """Means of one layer at P pairs; E entries (3, or 1) and C inputs (2, or 1) of a pair."""

    #: E x x′ (P, E), its derivatives by Σ (P, E, E) and (P, E, E, E), covariances of x x′ (P, E, E)
    features: Array
    first: Array
    second: Array
    spread: Array
    #: E φ̇ φ̇′ of the pair, its derivatives (P, E) and (P, E, E), and those of both inputs with themselves (P, C)
    slope: Array
    slope_first: Array
    slope_second: Array
    own: Array
    #: E φ̇ φ̇′ x x′ (P, E), E φ̇² φ̇′² (P,), E h_c h_d φ̇ φ̇′ (P, C, C), E h_c φ̇_a x_e and E h_c φ̇_b x_e (P, C, C)
    mixed: Array
    square: Array
    turned: Array
    back: Array
    forth: Array


@dataclass(frozen=True)
class Activation:
    """One φ, an expression in `H`; NoLimitError where it jumps, or has kinks and no closed form."""

    body: Expr

    def __post_init__(self) -> None:
        if self.slope.has(DiracDelta):
            raise NoLimitError(f"tp.Kernels(order=1): φ = {self.body} jumps, so that its kernels have no derivatives.")
        if not self.is_smooth and self._closed is None:
            raise NoLimitError(
                f"tp.Kernels(order=1): φ = {self.body} has a kink, and the mean of φ φ′ no closed form to be "
                "differentiated. Smooth the kink, or place it at 0."
            )

    @cached_property
    def slope(self) -> Expr:
        """φ̇, without the deltas of a jump where nothing is left of what jumps: of h step(h) it is step(h)."""
        return without_vanishing_deltas(self.body.diff(H), (H,))

    @cached_property
    def is_smooth(self) -> bool:
        """Whether all derivatives that are read are functions."""
        last = self.body.diff(H, _MOST)
        return not last.has(DiracDelta, step, sympy.sign, sympy.Heaviside, sympy.Derivative, sympy.Subs)

    @cached_property
    def _closed(self) -> Callable[..., Any] | None:
        """First and second derivatives of E φφ′ and of E φ̇φ̇′ by the covariances, from their closed forms."""
        found = []
        for f in (self.body, self.slope):
            form = closed_form(MeanFunction(f * f.xreplace({H: G}), (H, G), _C, ()))
            if form is None or form[0].has(DiracDelta):
                return None
            first = [form[0].diff(c) for c in _C]
            found += [*first, *(d.diff(c) for i, d in enumerate(first) for c in _C[i:])]
        return sympy.lambdify((*_C, _DET), [_with_determinant(f) for f in found], "numpy", cse=True)

    def read(self, law: Law) -> LayerMeans:
        """All that is asked of one layer: of inputs with themselves, or of pairs of different inputs."""
        # at a variance of 0 derivatives of φ alone tell those of its kernel
        if not self.is_smooth and not all((c > 0).all() for c in (law.covariances[0], law.covariances[-1])):
            raise EvaluationError(
                f"tp.Kernels(order=1): an input is 0, or its image in some layer, and φ = {self.body} has a kink: its "
                "kernel has no derivatives there. Leave that input out."
            )
        return self._alone(law) if len(law.covariances) == 1 else self._pairs(law)

    def _alone(self, law: Law) -> LayerMeans:
        x, d = self.body, self.slope
        k, fourth, p = (law.single(f) for f in (x**2, x**4, d**2))
        first, second = self._by_variance(x**2, law)
        slope_first, slope_second = self._by_variance(d**2, law)
        mixed, square = law.single(d**2 * x**2), law.single(d**4)
        turned, back = law.single(H**2 * d**2), law.single(H * d * x)
        one = lambda a, more: a.reshape(-1, *[1] * more)  # noqa: E731
        return LayerMeans(
            one(k, 1),
            one(first, 2),
            one(second, 3),
            one(fourth - k**2, 2),
            p,
            one(slope_first, 1),
            one(slope_second, 2),
            one(p, 1),
            one(mixed, 1),
            square,
            one(turned, 2),
            one(back, 2),
            one(back, 2),
        )

    def _by_variance(self, f: Expr, law: Law, place: int = 0) -> tuple[Array, Array]:
        """d/dc and d²/dc² of E f(√c g): ½ E f″ and ¼ E f⁗, or by Hermite polynomials where these are no functions."""
        if self.is_smooth:
            return law.single(_derived(f, 2), place) / 2, law.single(_derived(f, 4), place) / 4
        c = law.covariances[place]
        e0, e2, e4 = (law.single(H**k * f, place) for k in (0, 2, 4))
        return (e2 / c - e0) / (2 * c), (e4 / c**2 - 6 * e2 / c + 3 * e0) / (4 * c**2)

    def _pairs(self, law: Law) -> LayerMeans:
        c11, c12, c22 = law.covariances
        of = dict(zip(_PAIRS, law.read(_PAIRS, lambda: self._together(law.covariances)), strict=True))
        a, b = self._own(law, 0), self._own(law, 2)
        features = numpy.stack([a["x2"], of["x", "x"], b["x2"]], axis=-1)
        mean_first, mean_second, slope_first, slope_second = self._derivatives(law, of["d", "d"])
        zero = numpy.zeros_like(c12)
        first = _stacked([[a["first"], zero, zero], mean_first, [zero, zero, b["first"]]])
        second = numpy.zeros((*c12.shape, 3, 3, 3))
        second[..., 0, 0, 0], second[..., 2, 2, 2] = a["second"], b["second"]
        second[..., 1, :, :] = _symmetric(mean_second)
        left, right, both = of["x3", "x"], of["x", "x3"], of["x2", "x2"]
        fourth = _stacked([[a["x4"], left, both], [left, both, right], [both, right, b["x4"]]])
        cross, own_a, own_b = of["hd", "hd"], a["hdx"], b["hdx"]
        return LayerMeans(
            features,
            first,
            second,
            fourth - features[..., :, None] * features[..., None, :],
            of["d", "d"],
            numpy.stack(slope_first, axis=-1),
            _symmetric(slope_second),
            numpy.stack([a["d2"], b["d2"]], axis=-1),
            numpy.stack([of["dx2", "d"], of["dx", "dx"], of["d", "dx2"]], axis=-1),
            of["d2", "d2"],
            _stacked([[of["h2d", "d"], cross], [cross, of["d", "h2d"]]]),
            _stacked([[own_a, of["hd", "x"]], [_share(c12, c11) * own_a, of["d", "hx"]]]),
            _stacked([[of["hx", "d"], _share(c12, c22) * own_b], [of["x", "hd"], own_b]]),
        )

    @cached_property
    def _functions(self) -> dict[str, Expr]:
        """The functions of one argument that pairs are averaged of."""
        x, d = self.body, self.slope
        powers = {"x": x, "x2": x**2, "x3": x**3, "d": d, "d2": d**2}
        return powers | {"dx": d * x, "dx2": d * x**2, "hd": H * d, "hx": H * x, "h2d": H**2 * d}

    @cached_property
    def _closed_pairs(self) -> tuple[tuple[tuple[str, str], ...], Callable[..., Any]]:
        """Which of the means of pairs have formulas, and all of these in one function."""
        of = self._functions
        found = {
            (f, g): known
            for f, g in _PAIRS
            if of[f].has(H) and of[g].has(H) and (known := moment_of_pair(of[f], of[g])).route == "closed"
        }
        code = closed_code(list(found.values()), scalar=False)
        return tuple(found), function(code, "means_of_a_layer", ("c11", "c12", "c22", "det"), scalar=False)

    def _together(self, here: tuple[Array, ...]) -> Measured:
        """E f(h_a) g(h_b) for all that is asked of pairs."""
        found: dict[tuple[str, str], tuple[Array, Array]] = {}
        closed, run = self._closed_pairs
        if closed:
            with numpy.errstate(all="ignore"):
                values = run(*here, gram_determinant(*here))
            # of one mean the function returns the values themselves, and no tuple of them
            several = values if len(closed) > 1 else (values,)
            found = {pair: (v, ROUNDED * abs(v)) for pair, v in zip(closed, several, strict=True)}
        of = self._functions
        return [found[f, g] if (f, g) in found else mean_of_pair(of[f], of[g])(*here) for f, g in _PAIRS]

    def _own(self, law: Law, place: int) -> dict[str, Array]:
        x, d = self.body, self.slope
        first, second = self._by_variance(x**2, law, place)
        told = (("x2", x**2), ("x4", x**4), ("d2", d**2), ("hdx", H * d * x))
        return {"first": first, "second": second} | {name: law.single(f, place) for name, f in told}

    def _derivatives(self, law: Law, p: Array) -> tuple[Any, Any, Any, Any]:
        """First derivatives (3) and second ones (6, row by row) of E φφ′, and of E φ̇φ̇′."""
        if not self.is_smooth:
            way = law.way()
            c11, c12, c22 = law.covariances
            found = law.read(("derivatives", way), lambda: self._of_closed(c11, c12 * (1 + way * _LAST_DIGITS), c22))
            return found[:3], found[3:9], found[9:12], found[12:]
        order = [_derived(self.body, k) for k in range(_MOST + 1)]
        m = lambda i, j: law.pair(order[i], order[j])  # noqa: E731
        m22, m13, m31, m33 = m(2, 2), m(1, 3), m(3, 1), m(3, 3)
        return (
            [m(2, 0) / 2, p, m(0, 2) / 2],
            [m(4, 0) / 4, m31 / 2, m22 / 4, m22, m13 / 2, m(0, 4) / 4],
            [m31 / 2, m22, m13 / 2],
            [m(5, 1) / 4, m(4, 2) / 2, m33 / 4, m33, m(2, 4) / 2, m(1, 5) / 4],
        )

    def _of_closed(self, c11: Array, c12: Array, c22: Array) -> Measured:
        """Derivatives of closed forms."""
        assert self._closed is not None
        det = gram_determinant(c11, c12, c22)
        if (det < _ALIKE * c11 * c22).any():
            raise EvaluationError(
                f"tp.Kernels(order=1): two inputs are the same up to a factor in some layer, and φ = {self.body} "
                "has a kink there: derivatives of its kernel are infinite. Leave one of them out."
            )
        found = self._closed(c11, c12, c22, det)
        values: list[Array] = [numpy.broadcast_to(numpy.asarray(v, float), c12.shape) for v in found]
        return [(v, ROUNDED * abs(v)) for v in values]


def _with_determinant(form: Expr) -> Expr:
    """With one symbol for c11 c22 − c12², whose powers cancel between derivatives only where all read one number."""
    c11, c12, c22 = _C
    swap = {}
    for node in form.atoms(sympy.Add):
        share = sympy.cancel(node / (c11 * c22 - c12**2))
        if not share.has(sympy.Add):
            swap[node] = share * _DET
    return form.xreplace(swap)


@remembered(1 << 8)
def _derived(f: Expr, order: int) -> Expr:
    """The derivative of so high an order; every layer asks for the same ones."""
    return f.diff(H, order)


def _share(c12: Array, c11: Array) -> Array:
    """E[h_b | h_a]/h_a; 0 for an h_a that is 0."""
    return numpy.where(c11 > 0, c12 / numpy.where(c11 > 0, c11, 1.0), 0.0)


def _stacked(rows: Any) -> Array:
    return numpy.stack([numpy.stack(row, axis=-1) for row in rows], axis=-2)


def _symmetric(upper: Any) -> Array:
    """(…, 3, 3) from six entries row by row."""
    a, b, c, d, e, f = upper
    return _stacked([[a, b, c], [b, d, e], [c, e, f]])
