"""Which powers of 1/n the finite-width mean of a quantity is expanded in.

Averages of a program without explicit roots of n have means L + b/n + c/n² + ...  A body that holds an odd power
of √n (a shaped activation (1 + c/√n) relu, or a function of a fluctuation scalar) brings in the powers between:
L + b/√n + c/n + ...  So does a kink where a scalar may tend (`tplimits.sampling.corners`).  A bare fluctuation scalar
√n·Avg does not, as long as only its covariance is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import networkx
import sympy
from sympy import Expr

from tplimits.law.observables import BracketObservable, Observable
from tplimits.program.nodes.entries import constant_symbol, width_symbol
from tplimits.program.nodes.kinds import InitialScalar, InitialVector, Instruction, OuterNonlin, ScalarNonlin
from tplimits.sampling.corners import has_corner
from tplimits.sampling.estimate import Series

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.sampling.claims import Claim


def series(
    program: Program, observables: Mapping[str, Observable], claim: Claim, given: Mapping[str, Any] | None = None
) -> Series:
    """The powers for one claim: 1/q, 2/q, ..., 1 when the program, as far as it matters, holds powers of n^(1/q).

    >>> import tplimits as tp
    >>> from tplimits.law.observables import observables
    >>> from tplimits.sampling.claims import Claim
    >>> @tp.program
    ... def shaped(x: tp.Vector):
    ...     y = (1 + 1 / tp.sqrt(tp.n)) * tp.relu(x)
    ...     return tp.avg(y)
    >>> str(series(shaped, {o.label: o for o in observables(shaped)}, Claim("return", 0.4)))
    'L + b/√n + c/n'
    """
    constants = _constants(program, given or {})
    root = 1
    for observable in (observables[x] for x in claim.labels):
        for position in _positions(observable):
            # whatever an observable is made of may hand its roots of n on to it
            for ancestor in networkx.ancestors(program.graph, position):
                root = sympy.ilcm(root, _root(program, ancestor, constants))
            if claim.statistic == "mean" or not _bare_fluctuation(program, program[position], constants):
                root = sympy.ilcm(root, _root(program, position, constants))
    return Series(tuple(Fraction(i, int(root)) for i in range(1, int(root) + 1)))


def _positions(observable: Observable) -> tuple[int, ...]:
    if isinstance(observable, BracketObservable):
        return observable.left[0], observable.right[0]
    return (observable.key[0],)


def _constants(program: Program, given: Mapping[str, Any]) -> dict[Expr, Expr]:
    """The constants whose values are expressions in widths."""
    values = {**program.constants, **{c: given[c] for c in program.constants if c in given}}
    return {constant_symbol(c): v for c, v in values.items() if isinstance(v, Expr)}


def _root(program: Program, position: int, constants: Mapping[Expr, Expr]) -> int:
    """The q such that an instruction holds powers of n^(1/q), and no smaller one."""
    instruction, q = program[position], 2 if has_corner(program, position) else 1
    widths = [width_symbol(w) for w in program.widths]
    for expr in _expressions(instruction):
        for power in expr.xreplace(dict(constants)).atoms(sympy.Pow):
            if power.base.has(*widths) and power.exp.is_Rational:
                q = int(sympy.ilcm(q, power.exp.q))
    return q


def _expressions(instruction: Instruction) -> tuple[Expr, ...]:
    if isinstance(instruction, (OuterNonlin, ScalarNonlin)):
        return (instruction.body,)
    if isinstance(instruction, InitialVector):
        return instruction.law.mean, instruction.law.std
    if isinstance(instruction, InitialScalar) and instruction.value is not None:
        return (instruction.value,)
    return ()


def _bare_fluctuation(program: Program, instruction: Instruction, constants: Mapping[Expr, Expr]) -> bool:
    """Whether an instruction is one power of n times something without n."""
    if not isinstance(instruction, ScalarNonlin):
        return False
    widths = [width_symbol(w) for w in program.widths]
    terms = sympy.Add.make_args(instruction.body.xreplace(dict(constants)))
    # √n·(a + b) is multiplied out or not; either way there must be one power of n for all of it
    powers = {term.as_independent(*widths, as_Add=False)[1] for term in terms}
    return len(powers) == 1 and all(f.as_base_exp()[0] in widths for f in sympy.Mul.make_args(powers.pop()))
