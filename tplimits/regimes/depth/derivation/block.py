"""A block in the limit of depth proportional to width: drift, diffusion, root and verdict; stacks of blocks.

The limit theorem: if E[V′ − V | V] = b(V)/n + o(1/n) and Cov(V′ | V) = Σ(V)/n + o(1/n) for a Markov chain V, then V at
layer ⌊tn⌋ converges to the solution of dV = b(V) dt + Σ(V)^(1/2) dB, up to the time at which it leaves a ball.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy
import sympy
from sympy import Expr, S

from tplimits.errors import NoLimitError
from tplimits.law.kets import Step
from tplimits.program.nodes.centred import with_centred_vectors
from tplimits.program.nodes.kinds import Avg, InitialMatrix
from tplimits.program.nodes.members import members_apart
from tplimits.regimes.depth.algebra.arrays import merged
from tplimits.regimes.depth.algebra.forms import Form, Orders, collected
from tplimits.regimes.depth.algebra.vanishing import vanishes
from tplimits.regimes.depth.algebra.writing import defined, text
from tplimits.regimes.depth.derivation.assumptions import LI, NOCI, assumed
from tplimits.regimes.depth.derivation.copies import in_sequences
from tplimits.regimes.depth.derivation.derivation import IDENTITY, OneLayer, lowered
from tplimits.regimes.depth.derivation.lowering import AS_WRITTEN, Taken
from tplimits.regimes.depth.derivation.multiplied import with_arrays_multiplied
from tplimits.regimes.depth.derivation.neurons import insist_on_one_neuron
from tplimits.regimes.depth.derivation.not_covered import EntangledError, LargeWeightError, NoFormulasError
from tplimits.regimes.depth.derivation.orientations import with_rows
from tplimits.regimes.depth.derivation.roots import Root, structured_root
from tplimits.regimes.depth.derivation.scalars.sizes import laws
from tplimits.regimes.depth.derivation.sublayers import with_sublayers_at_the_state
from tplimits.regimes.depth.derivation.verdict import DepthVerdict, equation, insist_on_digits, refused, solved

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.regimes.depth.algebra.model import Jump
    from tplimits.regimes.depth.derivation.scalars.limits import Law, Weight


@dataclass(frozen=True)
class BlockLimit:
    """What the derivation of a block, or of a stack of them, found."""

    drift: Form
    diffusion: Form
    root: Root | None
    verdict: DepthVerdict
    assumptions: tuple[str, ...]
    steps: tuple[Step, ...]
    #: V → scale·V at order 1; 1 unless the block is part of a stack
    scale: Expr = S.One
    arrays: Mapping[str, numpy.ndarray] = field(default_factory=dict, compare=False, repr=False)
    #: of a stack, the scales of its blocks
    scales: tuple[Expr, ...] = ()
    #: why there is no root
    rootless: str = ""
    #: functions of scalars of order 1 in the drift, the factors "Y|…", and the law of the scalars
    weights: Mapping[str, Weight] = field(default_factory=dict)
    laws: Mapping[str, Law] = field(default_factory=dict)
    #: arguments of functions that were expanded, with n times their variance: small where the limit describes networks
    expanded: Mapping[str, Form] = field(default_factory=dict)
    #: functions that are not differentiable at zero, or have a value there that the forms do not tell
    jumps: Mapping[str, Jump] = field(default_factory=dict)
    #: numbers in open constants that may not be negative, by the root or logarithm of them
    domains: Mapping[str, Expr] = field(default_factory=dict)


def derive_block(
    program: Program, fixed: tuple[str, ...] = (), sequences: bool = False, weighed: bool = False
) -> BlockLimit:
    """The limit of a block or a stack; NoLimitError with the verdict's sentence where there is none.

    With `sequences` the free tokens of the forms are of four sequences that share their weights (`copies`).  `weighed`:
    what has a law alone, functions of scalars and of several entries of dense layers, is averaged over it by draws.
    """
    if len(program.parts) > 1:
        return _stacked(program, fixed, sequences, weighed)
    return _one_block(program, fixed, False, sequences, weighed)


def _one_block(program: Program, fixed: tuple[str, ...], in_stack: bool, sequences: bool, weighed: bool) -> BlockLimit:
    # responses are those of the families that the program has
    program = with_centred_vectors(program if sequences else _members_apart(program))
    program = with_arrays_multiplied(program)
    written, program = program, program if sequences else with_sublayers_at_the_state(program, fixed)
    taken, first = AS_WRITTEN, None
    if weighed:
        taken = Taken(frozenset(p for p, s in enumerate(program) if isinstance(s, InitialMatrix)))
    while True:
        try:
            return _lowered_limit(program, fixed, in_stack, sequences, taken)
        except NoLimitError as error:
            # what cannot be averaged apart is random together, and what is larger than a weight may be has a mean as a
            # factor; where that has no limit either, the plainer reason is told: for a factor, what it adds up to
            first = first or error
            more = _taken_anew(taken, error)
            if weighed or more == taken:
                told = error if taken.as_factors and error.verdict else first
                raise (told if program is written else NoFormulasError(str(told), told.verdict)) from None
            taken = more


def _members_apart(program: Program) -> Program:
    """A block with a matrix or vector for each member of a family that is only read by its number."""
    assert program.state is not None
    # tokens are alike: no number tells one of them
    of_tokens = {program.root_axis(axis) for axis in program[program.state].axes}
    together = frozenset(a for s in program for a in s.axes if program.root_axis(a) in of_tokens)
    split, places = members_apart(program, (*program.returns, program.state), together)
    if split is program or any(place.keys() - {()} for place in (places[p] for p in program.returns)):
        return program
    state, *returns = (places[p][()] for p in (program.state, *program.returns))
    return split.replace(state=state, returns=tuple(returns))


def _taken_anew(taken: Taken, refused: NoLimitError) -> Taken:
    """How functions of scalars are taken after a refusal."""
    if isinstance(refused, EntangledError):
        return taken._replace(as_weights=taken.as_weights | refused.matrices)
    if isinstance(refused, LargeWeightError):
        return taken._replace(as_factors=taken.as_factors | refused.matrices)
    return taken


def _lowered_limit(
    program: Program, fixed: tuple[str, ...], in_stack: bool, sequences: bool, taken: Taken
) -> BlockLimit:
    layer = lowered(program, fixed, taken)
    try:
        if sequences and layer.model.weights:  # that there is no limit at all is the plainer reason
            _limit(program, fixed, layer, in_stack)
        layer = in_sequences(layer) if sequences else layer
        return _limit(program, fixed, layer, in_stack)
    except NoLimitError as error:
        # where functions of several layers have no place in drift and noise the expansion in 1/n may have numbers
        raise (NoFormulasError(str(error), error.verdict) if layer.model.neurons else error) from None


def _limit(program: Program, fixed: tuple[str, ...], layer: OneLayer, in_stack: bool) -> BlockLimit:
    drift = layer.drift(layer.mean())
    scale = S.One
    if in_stack:
        scale, drift = _without_growth(program, drift, layer.arrays.values)
    # the drift first: what is of too low an order there is the plainer reason, and Cov(V′) takes longer
    _insist(refused(program.name, drift, None, layer.arrays.values))
    covariance = layer.covariance()
    _insist(refused(program.name, drift, covariance, layer.arrays.values))
    insist_on_digits(program.name, drift, covariance, layer.arrays.values)
    groups = [layer.groups(p) for p, s in enumerate(program) if isinstance(s, Avg)]
    diffusion = covariance[2]
    root, rootless = structured_root(layer, list(dict.fromkeys(g for g in groups if g)), diffusion)
    responses = [] if root is None else [r.form for r in root.responses]
    forms, arrays = with_rows([drift[2], diffusion, *responses], layer.arrays.values)
    b, diffusion, root = forms[0], forms[1], _with_responses(root, forms[2:])
    known, jumps = layer.arrays.values, layer.jumps
    weights, law = _weights(program, layer, b)
    beside = [*layer.model.expanded.values(), *(j.variance for j in jumps.values()), *forms_of(law)]
    steps = (
        Step("mean over the weights", (program.name,), lambda: f"n·E[V′ − V] → b = {text(b)}", LI),
        Step("covariance over the weights", (program.name,), lambda: f"n·Cov(V′) → Σ = {text(diffusion)}", LI),
        Step("diffusion limit", ("b", "Σ"), lambda: _verdict(program.name, diffusion).sentence, NOCI),
    )
    return BlockLimit(
        b,
        diffusion,
        root,
        _verdict(program.name, diffusion),
        (*assumed(program, fixed), *layer.remarks),
        (*steps, *_root_step(rootless)),
        scale,
        {**_arrays_in(beside, known), **arrays},
        (),
        rootless,
        weights,
        law,
        layer.model.expanded,
        jumps,
        layer.model.domains,
    )


def _arrays_in(forms: Iterable[Form], known: Mapping[str, numpy.ndarray]) -> dict[str, numpy.ndarray]:
    held = {f[0] for form in forms for factors in form.terms for f in factors}
    return {label: known[label] for label in sorted(held & known.keys())}


def forms_of(laws_: Mapping[str, Law]) -> list[Form]:
    """The covariances of the scalars that weights of order 1 read."""
    return [form for law in laws_.values() for form in law.values()]


def _weights(program: Program, layer: OneLayer, drift: Form) -> tuple[dict[str, Weight], dict[str, Law]]:
    """The weights of order 1 in a drift, and the law of their scalars.

    The law is asked for where a drift holds none, too: that relu(avg(x·x)) is of size n^(−1/2) rests on its mean zero.
    """
    if not layer.model.weights:
        return {}, {}
    law = laws(layer.model, layer.ring, layer.arrays)
    insist_on_one_neuron(layer.model, program.name, drift)
    labels = {f[0] for factors in drift.terms for f in factors if f[0][0] == "Y"}
    if not labels:
        return {}, {}
    return {label: layer.model.weights[label] for label in sorted(labels)}, {program.name: law}


def _with_responses(root: Root | None, forms: list[Form]) -> Root | None:
    if root is None:
        return None
    return replace(root, responses=tuple(replace(r, form=f) for r, f in zip(root.responses, forms, strict=True)))


def _root_step(rootless: str) -> list[Step]:
    return [Step("square root", ("Σ",), lambda: f"no structured root of Σ: {rootless}", NOCI)] if rootless else []


def _insist(verdict: DepthVerdict | None) -> None:
    if verdict is not None:
        raise NoLimitError(verdict.sentence, verdict)


def _verdict(name: str, diffusion: Form) -> DepthVerdict:
    if diffusion:
        return DepthVerdict("SDE", f"`{name}`: V at layer t·n converges to dV = b(V) dt + Σ(V)^(1/2) dB.")
    return DepthVerdict(
        "ODE", f"`{name}`: V at layer t·n converges to the ODE dV/dt = b(V); the noise of a layer is o(1/n)."
    )


def _without_growth(program: Program, drift: Orders, arrays: Mapping[str, numpy.ndarray]) -> tuple[Expr, Orders]:
    """A block that multiplies V by a number at order 1 as that number and the rest of its drift."""
    order_zero = drift[0]
    # other blocks of the stack may undo a factor s, V → s V; anything else at order 1 cannot be undone by numbers
    growth = order_zero.terms.get(IDENTITY, S.Zero)
    if not vanishes(order_zero - collected([(IDENTITY, growth)]), arrays):
        shown, where = defined(order_zero, arrays)
        raise NoLimitError(
            f"`{program.name}` in a stack: its covariance changes at order 1 by {shown}{where}; stacks are "
            "covered for blocks that multiply V by a number. Shape the block so that the rest is of order 1/n."
        )
    return sympy.simplify(1 + growth), replace(drift, forms={o: f for o, f in drift.forms.items() if o})


def _met(program: Program, fixed: tuple[str, ...], sequences: bool, weighed: bool) -> list[tuple[Expr, BlockLimit]]:
    """The limits of the blocks of a stack, each with the V that it meets as a multiple of that of the stack."""
    found: list[tuple[Expr, BlockLimit]] = []
    known: list[tuple[Program, Expr, BlockLimit]] = []
    before: Expr = S.One
    for number, one in enumerate(program.parts, start=1):
        part = next((limit for p, scale, limit in known if p == one and scale == before), None)
        if part is None:
            # functions of scalars and their laws are kept by the name of the block: another law needs another name
            again = any(p.name == one.name for p, _, _ in known)
            named = one.replace(name=f"{one.name}[{number}]") if again else one
            part = _one_block(named, tuple(w for w in fixed if w in one.widths), True, sequences, weighed)
            known.append((one, before, part))
        found.append((before, part))
        before = sympy.simplify(before * part.scale)
    return found


def _expanded(met: Sequence[tuple[Expr, BlockLimit]]) -> dict[str, Form]:
    """The arguments that are expanded, each at the V that its block meets; equal names are told apart."""
    found: dict[str, Form] = {}
    for number, (scale, part) in enumerate(met, start=1):
        for name, form in part.expanded.items():
            scaled = form.degree_scaled(scale)
            if all(known != scaled for other, known in found.items() if other.startswith(name)):
                found[f"{name} of block {number}" if name in found else name] = scaled
    return found


def _stacked(program: Program, fixed: tuple[str, ...], sequences: bool, weighed: bool) -> BlockLimit:
    """b = Σ_k (Π_{j>k} s_j) b_k(Π_{j<k} s_j V), and Σ with squares, for blocks with V → s_k V at order 1."""
    met = _met(program, fixed, sequences, weighed)
    parts = [part for _, part in met]
    whole = sympy.simplify(sympy.Mul(*(p.scale for p in parts)))
    if whole != 1:
        condition = sympy.factor(sympy.together(whole - 1))
        conditions = solved([condition])
        repair = f"needs {' and '.join(map(equation, conditions))}" if conditions else "it does so for all parameters"
        sentence = (
            f"`{program.name}` has no limit of depth proportional to width: its blocks multiply V by {whole} in every "
            f"layer, so that V grows like ({whole})^depth; {repair}."
        )
        raise NoLimitError(sentence, DepthVerdict("none", sentence, conditions or ()))
    drift, diffusion, roots = Form({}), Form({}), []
    for k, (before, part) in enumerate(met):
        after = sympy.Mul(*(p.scale for p in parts[k + 1 :]))
        # to order 1/n the parts add up: each sees V as scaled by those before, and is scaled by those after
        drift = drift + part.drift.degree_scaled(before).scaled(after)
        # weights of different blocks are independent: covariances add
        diffusion = diffusion + part.diffusion.degree_scaled(before).scaled(after**2)
        roots.append(part.root.rescaled(before, after) if part.root is not None else None)
    root = None
    # one block without a structured root leaves none for the sum
    if all(r is not None for r in roots):
        known = [r for r in roots if r is not None]
        isotropic = sympy.expand(sympy.Add(*(r.isotropic for r in known)))
        root = Root(isotropic, tuple(response for r in known for response in r.responses))
    steps = [s for p in parts for s in p.steps[:2]]
    steps.append(Step("stack", tuple(p.name for p in program.parts), lambda: "b = Σ b_k, Σ = Σ Σ_k", NOCI))
    steps.append(Step("diffusion limit", ("b", "Σ"), lambda: _verdict(program.name, diffusion).sentence, NOCI))
    rootless = "; ".join(dict.fromkeys(p.rootless for p in parts if p.rootless))
    return BlockLimit(
        drift,
        diffusion,
        root,
        _verdict(program.name, diffusion),
        tuple(dict.fromkeys(a for p in parts for a in p.assumptions)),
        (*steps, *_root_step(rootless)),
        S.One,
        merged(*(p.arrays for p in parts)),
        tuple(p.scale for p in parts),
        rootless,
        {label: w.met(s) for s, p in met for label, w in p.weights.items()},
        {name: {k: f.degree_scaled(s) for k, f in law.items()} for s, p in met for name, law in p.laws.items()},
        _expanded(met),
        {name: j._replace(variance=j.variance.degree_scaled(s)) for s, p in met for name, j in p.jumps.items()},
        {shown: number for p in parts for shown, number in p.domains.items()},
    )
