"""MatMul: |Wx⟩ = |Wx⟩^ + |Wx⟩˙ (Yang & Littwin, Eqs. 2.18 and 2.19).

Hat part: centred Gaussian, Cov(|Wx⟩^, |Wy⟩^) = κ ⟨x|y⟩, independent of the initial kets and of the
hats of other matrices; Wᵀ counts as another matrix.

Dot part: what is left of earlier uses of the transpose,

    |Wx⟩˙ = κ Σ_y |y⟩ E[∂|x⟩ / ∂|Wᵀy⟩^]           (derivative form)
          = κ |y⟩⟨y|y⟩⁺⟨|Wᵀy⟩^ | x⟩                 (Stein form: no derivative of a kink is needed)

over all y that Wᵀ was applied to earlier.  κ is the entry variance times the length of the sum: 1 for W
with entry variance 1/columns, rows/columns for Wᵀ.

A vector in the span of earlier operands of W brings nothing new: |W(Σ c_i x_i)⟩ = Σ c_i |W x_i⟩
(the operator |W| is linear, Def. 2.6.7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sympy
from sympy import Expr, S, Symbol

from tplimits.law.closed_forms.integrand import NotClosed, step_products, tidy
from tplimits.law.expanding import OPEN_HEADS, multiplied_out
from tplimits.law.gaussians import HatSource, View
from tplimits.law.hypotheses.moments import tail
from tplimits.law.kets import MASTER, DotTerm, Ket, Key, Reference, Step
from tplimits.law.moments import OpenMoment
from tplimits.law.rules.dots import NotAFunction, beside_jump, coefficient, solved
from tplimits.law.span import Span
from tplimits.law.state import Derivation, Use
from tplimits.program.nodes.domains import singular_places
from tplimits.program.nodes.functions import JUMPS, elementary
from tplimits.program.nodes.rounding import DATA_TOLERANCE
from tplimits.program.parts import found, holds, symbols

HAT = Reference(f"{MASTER}, Eq. (2.18)", "yang2023tensor")
DOT = Reference(f"{MASTER}, Eq. (2.19)", "yang2023tensor")
#: kets of so few terms have their variance taken at once
_FEW_TERMS = 4
LINEAR = Reference(f"{MASTER}, Def. 2.6.7", "yang2023tensor")


def matmul(state: Derivation, key: Key, view: View, x: Ket, over: str) -> None:
    """The ket of W x (or Wᵀ x, by `view`)."""
    name = state.label(key)
    if x.expr == 0:
        state.kets[key] = Ket(name, S.Zero, hat=S.Zero, width=over)
        state.steps.append(Step("matmul of zero", (x.label,), lambda: f"|{name}⟩ = 0", LINEAR))
        return
    uses = state.uses.setdefault(view, [])
    # a dependent operand would make the Gram of the hats singular, and its image is known already
    combination = _combination(state, view, x.expr, len(uses))
    if combination is not None:
        _repeat(state, key, view, x, combination, over)
        return
    # its place among the uses is the hat's identity: covariances are brackets of the operands kept there
    hat = state.gaussians.add(_hat_name(name), HatSource(view, len(uses)))
    dots = _dot_terms(state, view, x) if state.with_dots else ()
    total = state.combined([(S.One, hat), *((t.coefficient, t.partner_ket) for t in dots)])
    state.kets[key] = Ket(name, total, hat=hat, dot=dots, width=over)
    uses.append(Use(x.label, x.expr, hat, name, state.kets[key].expr))
    if len(state.engine.terms(x.expr)) <= _FEW_TERMS:
        state.engine.covariance(hat, hat)  # now: asked for at the end, it would recurse through all layers
    _record(state, view, state.kets[key], x, uses)


def _hat_name(name: str) -> str:
    base, bracket, rest = name.partition("[")
    return f"{base}\u0302{bracket}{rest}"


def _combination(state: Derivation, view: View, ket: Expr, name: int) -> dict[int, Expr] | None:
    # one span for each matrix and direction: W and Wᵀ count as different matrices in (2.18)
    span = state.spans.setdefault(view, Span(state.tolerance))
    terms: dict[Expr, Expr] = {}
    for atom, c in state.engine.terms(ket).items():
        # relu(x) − relu(−x) is x: dependences show once kinks are written through steps
        # what no row of the table closes stays an atom: rewritten it would only be longer
        factors = [f if holds(f, *OPEN_HEADS) else step_products(elementary(f)) for f in sympy.Mul.make_args(atom)]
        for inner, d in state.engine.terms(sympy.Mul(*factors)).items():
            terms[inner] = terms.get(inner, S.Zero) + c * d
    return span.add({a: c for a, c in terms.items() if c != 0}, name)


def _repeat(state: Derivation, key: Key, view: View, x: Ket, combination: dict[int, Expr], over: str) -> None:
    uses, name = state.uses[view], state.label(key)
    # images of the earlier operands with their dots: the operator |W| is linear on whole kets
    expr = state.combined([(c, uses[i].result_ket) for i, c in combination.items()])
    hat = sympy.Add(*(c * uses[i].hat for i, c in combination.items()))
    # the dot part of a combination is the combination of the dot parts
    dots = []
    for i, c in combination.items():
        for ket in state.kets.values():
            if ket.hat == uses[i].hat:
                dots += [_scaled(t, c) for t in ket.dot]
    state.kets[key] = Ket(name, expr, hat=hat, dot=tuple(dots), width=over)
    premises = tuple(uses[i].result for i in combination)

    judged = f", judged at {DATA_TOLERANCE:g} (array constants are data)" if state.spans[view].judged else ""

    def remark() -> tuple[str]:
        shown = " + ".join(f"{state.text(c)}·|{uses[i].operand}⟩" for i, c in combination.items())
        same = f"{state.matrix_label(view)} of it is the same combination of earlier images"
        return (f"|{x.label}⟩ = {shown}, so {same}{judged}",)

    text = lambda: f"|{name}⟩ = {state.text(expr)}"  # noqa: E731 - written when read
    state.steps.append(Step("linear dependence", premises, text, LINEAR, remark))


def _scaled(term: DotTerm, c: Expr) -> DotTerm:
    return replace(term, coefficient=c * term.coefficient, derivative=c * term.derivative)


def _dot_terms(state: Derivation, view: View, x: Ket) -> tuple[DotTerm, ...]:
    position, index, transposed = view
    # only what the transpose was applied to before: (2.19) sums over earlier uses, later ones get dots of their own
    partners = state.uses.get((position, index, not transposed), [])
    factor = state.hat_factor(view)
    free = state.gaussians.of(x.expr)
    terms = []
    for use in partners:
        # x does not see this use of the transpose: its coefficient E[∂x/∂ŷ] is zero
        if use.hat not in free:
            continue
        derivative = state.engine.derivative(x.expr, use.hat)
        coefficient, form = _coefficient(state, use.hat, partners, x.expr, derivative)
        # multiplied out, so that a coefficient that cancels is 0 and its term is gone from all that follows
        coefficient = state.engine.named(multiplied_out(factor * coefficient))
        terms.append(DotTerm(use.operand, use.operand_ket, use.hat, x.label, coefficient, derivative, factor, form))
    return tuple(terms)


def _coefficient(state: Derivation, hat: Symbol, partners: list[Use], x: Expr, derivative: Expr) -> tuple[Expr, str]:
    """E[∂x/∂hat] in one of the forms of `rules.dots`; an open mean of a delta has no quadrature."""

    def by_derivative() -> Expr:
        if _ambiguous(state, derivative) or _diverges(state, derivative):
            raise NotAFunction
        value = state.engine.mean(derivative)
        opened = [state.engine.moments.get(s) for s in symbols(value)]
        # points of a quadrature never meet a delta: the number would be that of the integrand without it
        if any(isinstance(m, OpenMoment) and state.gaussians.has_delta(m.integrand) for m in opened):
            raise NotAFunction
        return value

    def by_stein() -> Expr:
        # of the hats that x reads: by the lemma E[ŷ_j x] = Σ_i C_ji E[∂x/∂ŷ_i], the other derivatives are 0
        hats = [u.hat for u in partners if u.hat in state.gaussians.of(x)]
        gram = [[state.engine.covariance(a, b) for b in hats] for a in hats]
        products = [state.engine.named(state.engine.mean(h * x)) for h in hats]
        place = hats.index(hat)
        # symbolic inverses of more would swell; singular Grams need ⁺, which the numbers take with a tolerance
        if len(hats) <= 3 and _certainly_regular(state, sympy.Matrix(gram)):
            return solved(gram, products)[place]
        return state.engine.stein(place, tuple(map(tuple, gram)), tuple(products))

    return coefficient(by_derivative, by_stein)


def _certainly_regular(state: Derivation, gram: sympy.Matrix) -> bool:
    """Whether a Gram can be inverted: of more than one image only where no open mean may make it singular."""
    # a determinant of open means may vanish by an identity that no algebra sees; one variance is that of a ket ≠ 0
    if gram.rows > 1 and any(map(state.rests_on_open_means, gram)):
        return False
    try:
        return bool(tidy(gram.det()) != 0)
    except NotClosed:
        return False


def _ambiguous(state: Derivation, derivative: Expr) -> bool:
    """Whether a delta stands beside a jump, or inside a named factor."""
    if not state.gaussians.has_delta(derivative):
        return False
    # the delta is hidden under a name, so that what stands beside it cannot be looked at
    if not holds(derivative, sympy.DiracDelta):
        return True
    return beside_jump(derivative, lambda factor: factor.has(*JUMPS) or state.gaussians.has_delta(factor))


def _diverges(state: Derivation, derivative: Expr) -> bool:
    """Whether a derivative has poles that leave it no second moment, as step(h)/√relu(h) has; deltas apart."""
    bare = derivative.xreplace(dict.fromkeys(found(derivative, sympy.DiracDelta), S.Zero))
    return bool(singular_places(bare)) and not tail(bare, state.gaussians).established


def _record(state: Derivation, view: View, ket: Ket, x: Ket, uses: list[Use]) -> None:
    """The two steps of a MatMul: the hat with its covariance row, the dot with its coefficients."""
    known = tuple(uses)
    factor = state.hat_factor(view)
    kappa = "" if factor == 1 else f"{factor}·"

    def hat() -> str:
        row = ", ".join(f"Cov({ket.hat}, {u.hat}) = {kappa}⟨{x.label}|{u.operand}⟩" for u in known)
        return f"|{ket.label}⟩^ = {ket.hat} ~ Gaussian: {row}"

    def rank() -> tuple[str, ...]:
        if len(known) == 1 or not _rank_open(state, known):
            return ()
        return (
            f"the rank of the Gram of the {len(known)} inputs of {state.matrix_label(view)} is not settled "
            "symbolically; evaluate() judges it numerically, at relative 1e-10",
        )

    def dot() -> str:
        terms = [f"{kappa}|{t.partner}⟩·E[∂|{t.operand}⟩/∂{t.hat}]" for t in ket.dot]
        return f"|{ket.label}⟩˙ = {' + '.join(terms) or '0'}"

    def coefficients() -> list[str]:
        if not ket.dot:
            transpose = state.matrix_label((view[0], view[1], not view[2]))
            return [f"|{x.label}⟩ does not depend on hats of {transpose}"]
        return [_coefficient_line(state, ket, t, kappa) for t in ket.dot]

    state.steps.append(Step("hat", (x.label,), hat, HAT, rank))
    premises = tuple(t.partner for t in ket.dot) or (x.label,)
    state.steps.append(Step("dot", premises, dot, DOT, coefficients))


def _coefficient_line(state: Derivation, ket: Ket, term: DotTerm, kappa: str) -> str:
    """A coefficient in derivative form, in Stein form, and its value."""
    if len(ket.dot) == 1:
        stein = f"⟨{term.partner}|{term.partner}⟩⁺⟨{term.hat}|{term.operand}⟩"
    else:
        stein = f"[⟨y|y⟩⁺⟨ŷ|{term.operand}⟩] at y = {term.partner}"
    value = state.text(term.coefficient)
    zero = " (no dot)" if term.coefficient == 0 else ""
    return f"{kappa}E[∂|{term.operand}⟩/∂{term.hat}] = {kappa}{stein} = {value}{zero}, by the {term.form} form"


def _rank_open(state: Derivation, uses: Sequence[Use]) -> bool:
    """Whether some bracket of the newest operand with the others has no closed form."""
    newest = uses[-1].hat
    if len(uses) > 12:  # a long table: leave the question to the numbers
        return True
    covariances = [state.engine.covariance(newest, u.hat) for u in uses]
    return any(isinstance(state.engine.moments.get(s), OpenMoment) for c in covariances for s in symbols(c))
