"""Matrices whose entries are not normal have the limits of normal ones (Yang & Littwin, Setup 2.6.4).

Hypotheses: entries are independent, of mean 0 and variance 1/columns, with moments E|√columns W|^k bounded in n;
initial vectors are smooth functions of normal variables; all functions of vectors are smooth, with derivatives
bounded by polynomials.  Then every average has the limit that it has with normal entries.  Outside of this are

    functions with kinks or jumps, and those that grow faster, as exp
    √n times an average, a fluctuation: the theorem is about averages themselves
    what is of the order 1/n, such as drift and noise of deep networks: fourth moments of the entries enter

Entries of orthogonal matrices are not independent.  Let W be one, uniformly distributed, and known on x_1, …, x_k: on
what is orthogonal to these it is uniformly distributed again, onto what is orthogonal to their images, so that W x is
Σ c_i W x_i and a vector of a known length in a uniform direction of n − k dimensions.  That is the law for iid normal
entries up to k directions of n, with any functions behind it: as long as W alone is applied, or Wᵀ alone.  Applied both
ways they differ: WᵀW x is x, and for iid entries has beside x a part as long as x that is orthogonal to it.  Updates of
training hold Wᵀ, and √n ⟨(Wx)²⟩ does not fluctuate where x does not.  Tangent kernels are means over a program of
tangents, W δx + δW x with fresh iid δW, that applies W as the network does: they have the limits of iid entries, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
from sympy import Expr, Symbol

from tplimits.errors import NoLimitError
from tplimits.program.nodes import functions
from tplimits.program.nodes.entries import Entry, reads_vectors
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector, Instruction, MatMul, Nonlin
from tplimits.program.nodes.laws import NORMAL, ORTHOGONAL, of_columns
from tplimits.program.nodes.properties import ENTIRE, EXPONENTIAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tplimits.program.nodes.program import Program

#: what users call it when they take it on themselves
UNIVERSALITY = "universality"
#: smooth functions whose derivatives are bounded, or grow like powers
_TAME = (*(head for head in ENTIRE if head not in EXPONENTIAL), functions.stop_gradient)

_HEADS = {head for head, _ in functions.HEADS.values()} - {sympy.Add, sympy.Mul, sympy.Pow}


def unlike_normal(program: Program) -> tuple[str, ...]:
    """The matrices of a program whose entries have another law than the normal one."""
    return tuple(s.name for s in program if isinstance(s, InitialMatrix) and s.law.shape not in ("normal", ORTHOGONAL))


def unestablished(program: Program) -> str:
    """Why universality is not established for a program with such matrices; nothing where it is, or is not needed."""
    if not unlike_normal(program):
        return ""
    for position, s in enumerate(program):
        # Setup 2.6.4 reads initial vectors as smooth images of normal ones: two values are none
        if isinstance(s, InitialVector) and s.law.shape == "signs":
            return f"`{s.name}` has entries {s.law.described()}, no smooth function of normal variables"
        if isinstance(s, Nonlin):
            if (found := next(_rough(s.body), None)) is not None:
                return f"{program.where(position)} holds {found}"
            # a fluctuation sees fourth moments of the entries, where ±1 and normal entries differ
            if _is_scaled_up(s.body, program.known.width_symbols):
                return f"{program.where(position)} multiplies by a power of n, as a fluctuation √n ⟨…⟩ does"
    return ""


def stated(program: Iterable[Instruction]) -> tuple[str, ...]:
    """What a limit says of matrices that are not normal."""
    found = []
    for s in program:
        if isinstance(s, InitialMatrix) and s.law != NORMAL:
            law = f"has entries {of_columns(s.law, s.columns)}: by universality"
            law = "is orthogonal, and applied in one direction alone:" if s.law.shape == ORTHOGONAL else law
            found.append(f"{s.name} {law} the limits are those of normal entries")
    return tuple(found)


def refuse_orthogonal(program: Program, of_order_one_over_n: bool = False, trained: bool = False) -> None:
    """NoLimitError where matrices are orthogonal and their limits are not those of iid entries.

    Of a network that is trained updates are part of its program, although they are not written in it.
    """
    for position, s in enumerate(program):
        if not (isinstance(s, InitialMatrix) and s.law.shape == ORTHOGONAL):
            continue
        # the argument from conditional uniformity holds for one direction at a time
        ways = {m.transposed for m in program if isinstance(m, MatMul) and m.matrix == position}
        bodies = [m.body for m in program if isinstance(m, Nonlin)]
        why = ""
        if of_order_one_over_n:
            why = "drift and noise of a layer are of the order 1/n, where the entries' dependence enters"
        elif trained:
            why = f"gradients apply {s.name}ᵀ beside {s.name}"
        elif len(ways) == 2:
            why = f"the program applies {s.name}ᵀ beside {s.name}"
        elif any(_is_scaled_up(body, program.known.width_symbols) for body in bodies):
            why = "fluctuations √n ⟨…⟩ see more of it than averages do"
        if why:
            raise NoLimitError(
                f"`{s.name}` is orthogonal, and {why}: its entries are not independent, and WᵀW x = x, where for "
                "independent entries a part orthogonal to x is added (hypothesis of the Master Theorem: iid entries). "
                f"Networks of finite width run; for a limit take tp.Matrix, or apply {s.name} in one direction alone."
            )


def refuse_unestablished(program: Program, taken_on: tuple[str, ...], of_order_one_over_n: bool) -> None:
    """NoLimitError where matrices are not normal and the theorem does not reach."""
    refuse_orthogonal(program, of_order_one_over_n)
    names = unlike_normal(program)
    if not names:
        return
    shown = ", ".join(f"`{name}`" for name in names)
    if of_order_one_over_n:
        raise NoLimitError(
            f"entries of {shown} are not normal: drift and noise of a layer are of the order 1/n, where fourth moments "
            "of entries enter and universality ends (Setup 2.6.4 is about averages). Take normal entries, tp.Matrix."
        )
    why = unestablished(program)
    if why and UNIVERSALITY not in taken_on:
        raise NoLimitError(
            f"entries of {shown} are not normal, and {why}: that limits are those of normal entries is proved for "
            "smooth functions of vectors whose derivatives are bounded by polynomials, and for averages (Setup 2.6.4). "
            f'Take normal entries, or smooth functions; or take it on yourself: assume=("{UNIVERSALITY}",).'
        )


def _rough(expr: Expr) -> Iterator[str]:
    """Functions of vectors in a body that are not smooth, or grow faster than powers."""
    # of scalars any function is allowed that is continuous at the limit: averages converge, then are put in
    if isinstance(expr, Entry) or not reads_vectors(expr):
        return
    if isinstance(expr, sympy.Pow):
        if not (expr.exp.is_Integer and expr.exp.is_nonnegative):
            yield f"a power {expr.exp} of vectors, with a pole or a root at 0"
    elif type(expr) in _HEADS and not isinstance(expr, _TAME):
        fast = isinstance(expr, EXPONENTIAL)
        why = "derivatives that no polynomial bounds" if fast else "a kink, a jump or a pole"
        yield f"{type(expr).__name__.lower()} of vectors, with {why}"
    for argument in expr.args:
        if isinstance(argument, Expr):
            yield from _rough(argument)


def _is_scaled_up(body: Expr, widths: frozenset[Symbol]) -> bool:
    """Whether a positive power of a width stands in a body."""
    powers = {p for p in body.atoms(sympy.Pow) if p.base in widths}
    bare = body.xreplace(dict.fromkeys(powers, sympy.S.One)).free_symbols & widths
    return bool(bare) or any(not p.exp.is_negative for p in powers)
