"""Which powers of 1/n the finite-width mean of a quantity is expanded in, and the moments of one layer.

Averages of a program without explicit roots of n have means L + b/n + c/n² + ...  A body that holds an odd power
of √n (a shaped activation (1 + c/√n) relu, or a function of a fluctuation scalar) brings in the powers between:
L + b/√n + c/n + ...  So does a kink where a scalar may tend (`has_corner`).  A bare fluctuation scalar
√n·Avg does not, as long as only its covariance is judged.

A scalar fluctuates about its limit like n^(−1/2), so that E|s| = c/√n and E √|s| = c n^(−1/4) where s tends to 0.  A
kink of a function of a vector, relu(h − m), is passed by Gaussian entries and averaged over; one of relu(s), or of
relu(s h), is not.  A pole, a root or a logarithm that s rounds off, (h² + s²)^p, is another function of h where
|h| < |s|, as large as |s|^(2p): its mean moves by |s|^(1 + 2p).

Training in the operator regime moves entries by n^(−1/2), and across a kink of any function that leaves a bias: the
entries that are moved through it are a share n^(−1/2), each by n^(−1/2), on the side that has the larger gradient and
against the sign of their readout, which makes n^(−1/2) Σ_α v_α … of order n^(−1/2).

Into moments of a layer averages over neurons bring whole powers of 1/n only: E of their products is a sum over pairings
of weights, and every free neuron counts n.  Odd powers of n^(−1/2) come from roots of widths that stand in the
instructions, such as slopes 1 + c/√n.  Where the layer stays as it is when √n → −√n in all of them (√n tanh(x/√n) does,
√k/√n too), the odd powers drop out.  So they do where a change of sign of one matrix undoes that of √n, since W and −W
have one law: √n avg((Q x)(K x)) is the same at (−√n, −Q).

The sign of a scalar that fluctuates around a kink, sgn(avg(q k)), is that of √n times an average: it changes with √n,
whose powers |avg(q k)| = avg(q k) sgn(avg(q k)) thus brings in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import networkx
import sympy
from sympy import Dummy, Expr, S

from tplimits.law.observables import BracketObservable, Observable
from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import NO_NEURON, Entry, constant_symbol, width_symbol
from tplimits.program.nodes.functions import kinks
from tplimits.program.nodes.kinds import Avg, InitialMatrix, Instruction, MatMul, Nonlin, OuterNonlin, ScalarNonlin
from tplimits.program.nodes.parity import Sign, signs
from tplimits.sampling.estimate import Series

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.sampling.claims import Claim


#: how far beside their limits scalars are looked at, and denominators of powers
_BESIDE, _FINEST = (1e-2, 1e-4), 60


def has_corner(program: Program, position: int, beside_vectors: bool = False) -> bool:
    """Whether an instruction has a kink that scalars alone may reach; `beside_vectors` where vectors are its factors.

    >>> import tplimits as tp
    >>> @tp.program
    ... def gate(x: tp.Vector, y: tp.Vector):
    ...     z = tp.relu(tp.avg(x * y)) * x
    ...     return tp.avg(z * tp.relu(x - tp.avg(x)))
    >>> [has_corner(gate, p) for p, s in enumerate(gate) if isinstance(s, Nonlin)]
    [False, True, False]
    >>> @tp.program
    ... def scaled(x: tp.Vector, y: tp.Vector):
    ...     return tp.avg(tp.abs(tp.avg(x * y) * x))
    >>> any(has_corner(gate, p, beside_vectors=True) for p in range(len(gate)))
    False
    >>> any(has_corner(scaled, p, beside_vectors=True) for p in range(len(scaled)))
    True
    """
    instruction = program[position]
    if not isinstance(instruction, Nonlin):
        return False
    found = [argument for argument in kinks(instruction.body) if _of_scalars(program, argument)]
    return any(program[e.source].width is not None or not beside_vectors for a in found for e in a.atoms(Entry))


def rounded_off(program: Program, position: int) -> set[Fraction]:
    """The powers of 1/n below 1 that poles, roots and logarithms bring in where scalars keep them off zero.

    >>> import tplimits as tp
    >>> @tp.program
    ... def softened(x: tp.Vector, y: tp.Vector):
    ...     s = tp.avg(x * y)
    ...     return tp.avg(tp.log(x**2 + s**2)), tp.avg((x**2 + s**2) ** 0.25), tp.avg(1 / (1 + x**2 + s**2))
    >>> [sorted(map(str, rounded_off(softened, p))) for p, s in enumerate(softened) if isinstance(s, OuterNonlin)]
    [[], ['1/2'], ['3/4'], []]
    """
    instruction = program[position]
    if not isinstance(instruction, OuterNonlin):
        return set()
    found = set()
    for node in instruction.body.atoms(sympy.Pow, sympy.log):
        power = node.exp if node.is_Pow else S.Zero
        # poles are integrable beside numerators that vanish with them: a function of h/s alone, as a logarithm is
        order = Fraction(1, 2) + (Fraction(str(power)) if power.is_Rational and not power.is_Integer else 0)
        whole = power.is_Integer and power.is_nonnegative and node.is_Pow
        if not whole and order < 1 and _touches(program, node.args[0]):
            found.add(max(order, Fraction(1, 8)))
    return found


def rooted(program: Program, position: int, limits: Mapping[int, float]) -> set[Fraction]:
    """The powers of 1/n below 1 that roots of scalars bring in where what is under them tends to 0, by `limits`.

    >>> import tplimits as tp
    >>> @tp.program
    ... def apart(x: tp.Vector, y: tp.Vector):
    ...     s, t = tp.avg(x**2), tp.avg(y**2)
    ...     return tp.sqrt(tp.abs(s - t))
    >>> averages = [p for p, s in enumerate(apart) if isinstance(s, Avg)]
    >>> [sorted(map(str, rooted(apart, apart.returns[0], dict(zip(averages, at))))) for at in ((1, 1), (1, 2))]
    [['1/4', '3/4'], []]
    """
    instruction, found = program[position], set[Fraction]()
    if not isinstance(instruction, Nonlin):
        return found
    for node in instruction.body.atoms(sympy.Pow):
        if node.exp.is_Integer or not (node.exp.is_Rational and node.exp.is_positive):
            continue
        read = {int(e.source) for e in node.base.atoms(Entry)}
        known = {p: limits[p] for p in read if p in limits}
        if limits.get(position) == 0 and instruction.body.as_coeff_Mul()[1] == node:
            # it is 0: so is what nothing is claimed of, or differences of that
            known = {**dict.fromkeys(read, 0.0), **known}
        if read and known.keys() == read and (order := _order(program, node.base, known)):
            least = order / 2 * Fraction(str(node.exp)).limit_denominator(_FINEST)
            found |= {p for p in (least, least + Fraction(1, 2)) if p < 1}
    return found


def _order(program: Program, base: Expr, limits: Mapping[int, float]) -> Fraction:
    """The order of the zero that a function of scalars has at their limits; 0 of none."""
    read = sorted(base.atoms(Entry), key=str)
    if not all(_fluctuates(program, e.source) for e in read):
        return Fraction(0)

    def beside(t: float) -> float:  # each scalar by another share
        return abs(complex(sympy.N(base.xreplace({e: limits[int(e.source)] + t / k for k, e in enumerate(read, 2)}))))

    near, far = map(beside, _BESIDE)
    if not (read and near > far > 0 and beside(0) < far / 100):
        return Fraction(0)
    return Fraction(round(4 * math.log(near / far) / math.log(_BESIDE[0] / _BESIDE[1])), 4)


def _touches(program: Program, argument: Expr) -> bool:
    """Whether a function of vectors that does not cross zero may reach it where scalars that fluctuate vanish."""
    read = argument.atoms(Entry)
    vectors = {e for e in read if program[e.source].width is not None}
    if not vectors or not any(_fluctuates(program, e.source) for e in read - vectors):
        return False
    names = {e: Dummy(real=True) for e in read}
    argument, at_zero = argument.xreplace(names), {names[e]: S.Zero for e in vectors}
    if argument.xreplace(at_zero).is_nonzero:
        return False
    return all(argument.diff(v).xreplace(at_zero) == 0 for v in at_zero)


def has_kink(program: Program) -> bool:
    """Whether any function of the program has a kink or a jump."""
    return any(kinks(s.body) for s in program if isinstance(s, Nonlin))


def _of_scalars(program: Program, argument: Expr) -> bool:
    """Whether nothing but scalars that fluctuate is left of an argument where all of them vanish."""
    scalars = {e for e in argument.atoms(Entry) if _fluctuates(program, e.source)}
    # relu(s h) vanishes with s, relu(h − s) keeps its Gaussian h, which smooths the kink out
    return bool(scalars) and not argument.xreplace(dict.fromkeys(scalars, S.Zero)).has(Entry)


def _fluctuates(program: Program, position: int) -> bool:
    """Whether a value is a scalar made of averages; data and given scalars are what they are at every width."""
    s = program[position]
    if isinstance(s, ScalarNonlin):
        return any(_fluctuates(program, operand) for operand in s.operands)
    return isinstance(s, Avg)


def series(
    program: Program,
    observables: Mapping[str, Observable],
    claim: Claim,
    given: Mapping[str, Any] | None = None,
    limits: Mapping[int, float] = MappingProxyType({}),
) -> Series:
    """The powers for one claim: 1/q, 2/q, ..., 1 when the program, as far as it matters, holds powers of n^(1/q).

    `limits` are those of scalars that are claimed, too: a root whose argument vanishes there brings in its own.
    """
    constants = _constants(program, given or {})
    root, others = 1, set()
    for observable in (observables[x] for x in claim.labels):
        for position in _positions(observable):
            # whatever an observable is made of may hand its roots of n on to it
            for ancestor in networkx.ancestors(program.graph, position):
                root = sympy.ilcm(root, _root(program, ancestor, constants, limits))
                others |= rounded_off(program, ancestor) | rooted(program, ancestor, limits)
            others |= rounded_off(program, position) | rooted(program, position, limits)
            if claim.statistic == "mean" or not _bare_fluctuation(program, program[position], constants):
                root = sympy.ilcm(root, _root(program, position, constants, limits))
    return Series(tuple(sorted(others.union(Fraction(i, int(root)) for i in range(1, int(root) + 1)))))


def limits_of(observables: Mapping[str, Observable], claims: Iterable[Claim]) -> dict[int, float]:
    """What scalars without axes are claimed to tend to, by their positions."""
    means = (claim for claim in claims if claim.statistic == "mean")
    read = ((observables[claim.label], claim.value) for claim in means)
    return {o.key[0]: float(value) for o, value in read if not isinstance(o, BracketObservable)}


def _positions(observable: Observable) -> tuple[int, ...]:
    if isinstance(observable, BracketObservable):
        return observable.left[0], observable.right[0]
    return (observable.key[0],)


def _constants(program: Program, given: Mapping[str, Any]) -> dict[Expr, Expr]:
    """The constants whose values are expressions in widths."""
    values = {**program.constants, **{c: given[c] for c in program.constants if c in given}}
    return {constant_symbol(c): v for c, v in values.items() if isinstance(v, Expr)}


def _root(program: Program, position: int, constants: Mapping[Expr, Expr], limits: Mapping[int, float]) -> int:
    """The q such that an instruction holds powers of n^(1/q), and no smaller one."""
    # a kink under a root that vanishes, √|s|, has the powers of the root
    q = 2 if has_corner(program, position) and not rooted(program, position, limits) else 1
    instruction = program[position]
    widths = [width_symbol(w) for w in program.widths]
    for expr in instruction.expressions:
        for power in expr.xreplace(dict(constants)).atoms(sympy.Pow):
            if power.base.has(*widths) and power.exp.is_Rational:
                q = int(sympy.ilcm(q, power.exp.q))
    return q


def _bare_fluctuation(program: Program, instruction: Instruction, constants: Mapping[Expr, Expr]) -> bool:
    """Whether an instruction is one power of n times something without n."""
    if not isinstance(instruction, ScalarNonlin):
        return False
    widths = [width_symbol(w) for w in program.widths]
    terms = sympy.Add.make_args(instruction.body.xreplace(dict(constants)))
    # √n·(a + b) is multiplied out or not; either way there must be one power of n for all of it
    powers = {term.as_independent(*widths, as_Add=False)[1] for term in terms}
    return len(powers) == 1 and all(f.as_base_exp()[0] in widths for f in sympy.Mul.make_args(powers.pop()))


WHOLE, HALVES = Series(), Series((Fraction(1, 2), Fraction(1)))


def layer_series(program: Program, given: Mapping[str, Any] | None = None) -> Series:
    """L + b/n, or L + b/√n + c/n where the sign of √n matters.

    >>> import tplimits as tp
    >>> @tp.block
    ... def shaped(x: tp.State["token"], W: tp.Matrix, *, c):
    ...     return W @ ((1 + c / tp.sqrt(tp.n)) * tp.relu(x))
    >>> str(layer_series(shaped))
    'L + b/√n + c/n'
    >>> @tp.block
    ... def smooth(x: tp.State["token"], W: tp.Matrix):
    ...     return tp.sqrt(tp.n) * tp.tanh(W @ x / tp.sqrt(tp.n))
    >>> str(layer_series(smooth))
    'L + b/n'
    """
    known = _constants(program, given or {})
    bodies = {p: _in_signs(s.body.xreplace(known)) for p, s in enumerate(program) if isinstance(s, Nonlin)}
    try:
        flipped = {p: _with_other_roots(body, program) for p, body in bodies.items()}
    except _OtherRoots:
        return HALVES
    matrices = [p for p, s in enumerate(program) if isinstance(s, InitialMatrix)]
    if any(has_corner(program, p, beside_vectors=True) or rounded_off(program, p) for p in range(len(program))):
        return HALVES
    sides = {p: (body, flipped[p]) for p, body in bodies.items()}
    return WHOLE if any(_even(program, sides, W) for W in (None, *matrices)) else HALVES


class _OtherRoots(Exception):
    """A root of a width that is not a square root."""


def _with_other_roots(body: Expr, program: Program) -> Expr:
    widths = program.known.width_symbols
    roots = [p for p in body.atoms(sympy.Pow) if p.base in widths and not p.exp.is_integer]
    if any(not (2 * p.exp).is_integer for p in roots):
        raise _OtherRoots
    signs = {Dummy(): sign for sign in body.atoms(sympy.sign) if _holds_scalars_alone(sign)}
    rest = body.xreplace({sign: d for d, sign in signs.items()}).xreplace({p: -p for p in roots})
    return rest.xreplace({d: -sign for d, sign in signs.items()})


def _in_signs(body: Expr) -> Expr:
    """A body with the kinks of scalars written through their signs."""
    heads = (sympy.Abs, functions.step, functions.relu, functions.leaky_relu, functions.where)
    while bent := [h for h in body.atoms(*heads, functions.maximum, functions.minimum) if _holds_scalars_alone(h)]:
        head = min(bent, key=sympy.count_ops)  # one that holds others is another one when these are written
        written = functions.elementary(head)
        signs = {j: (1 + sympy.sign(j.args[0])) / 2 for j in written.atoms(functions.step)}
        body = body.xreplace({head: written.xreplace(signs)})
    return body


def _holds_scalars_alone(expr: Expr) -> bool:
    """Whether an expression holds scalars and no vectors."""
    entries = expr.atoms(Entry)
    return bool(entries) and all(e.neuron == NO_NEURON for e in entries)


def _even(program: Program, sides: Mapping[int, tuple[Expr, Expr]], matrix: int | None) -> bool:
    """Whether the program returns the same with the other sign of all roots of widths and of one matrix."""

    def image(s: MatMul, sign: Sign) -> Sign:
        return None if sign is None else sign * (-1 if s.matrix == matrix else 1)

    found = signs(program, 1, image, sides)
    return all(found[position] == 1 for position in program.returns)
