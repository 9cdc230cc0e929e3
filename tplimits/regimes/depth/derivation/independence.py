"""When functions of scalars of order 1 are independent of the averages that they stand beside.

Let S = √n times an average be random of order 1, and P a product of averages, of size ε^p with ε = n^(−1/2).  What P is
more than its mean comes with one ε more and is Gaussian together with S, so that

    E[P F(S)] = E[P]·E[F(S)] + ε^(p + 1)·(covariance of the two)·… + O(ε^(p + 2)).

The covariance is zero where a matrix M stands in S to an odd power and not in P: S changes its sign with M, P does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tplimits.regimes.depth.algebra.activations import LINEAR
from tplimits.regimes.depth.algebra.products import MOST, Factors, ProductTerm
from tplimits.regimes.depth.derivation.not_covered import EntangledError

if TYPE_CHECKING:
    from tplimits.regimes.depth.algebra.model import Model
    from tplimits.regimes.depth.derivation.scalars.limits import Weight


def entangled(model: Model, matrix: int, term: ProductTerm, exactly: bool) -> EntangledError | None:
    """The refusal of a matrix beside a function of scalars of order 1 that is joined to it, or of a neuron.

    With `exactly`, orders beyond `MOST` are wanted too.
    """
    held = [model.weights[label] for label, _, _ in term.factors if label[0] == "Y"]
    joined = [w for w in held if matrix in w.matrices]
    if not joined:
        return None
    # an average beside another vector fluctuates as the scalars do, and `pert` may count that as its size
    at = {f[1][-1] for f in term.factors if model.is_of(matrix, f)}
    beside = any(f[0][0] in "FX" and f[1][-1] in at and not model.is_of(matrix, f) for f in term.factors)
    small = term.pert >= MOST and not beside
    apart = small or (term.pert + 2 > MOST and all(_is_turned(model, w, term.factors) for w in joined))
    if apart and not exactly and not any(w.of_neuron for w in joined):
        return None
    return EntangledError(
        f"{joined[0].refusal} On a branch of size n^(-1/2) it would have one, if `{model.names[matrix]}` stood inside "
        "these scalars alone; it multiplies another vector too.",
        joined[0].matrices,
    )


def _is_turned(model: Model, weight: Weight, factors: Factors) -> bool:
    """Whether each scalar of a weight changes its sign with a matrix that the other factors do not hold."""
    others = model.matrices_behind(factors)
    return all(
        any(_is_odd(model, average, m) for m in weight.matrices - others)
        for average in weight.read
        if average in model.averages
    )


def _is_odd(model: Model, average: int, matrix: int) -> bool:
    """Whether an average changes its sign with a matrix."""
    for term in model.averages[average].terms:
        mine = [f for f in term.factors if model.is_of(matrix, f)]
        if len(mine) % 2 == 0 or any(model.layers[f[0]].basis != LINEAR for f in mine):
            return False
        operands = [model.layers[f[0]].operand for f in term.factors if f[0][0] == "F"]
        if matrix in model.matrices_in(*(model.operands[o] for o in operands if o is not None)):
            return False
    return True
