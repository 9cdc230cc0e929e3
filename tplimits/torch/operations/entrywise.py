"""Operations that act entry by entry, and sums of tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sympy

from tplimits.program.language import entrywise as heads
from tplimits.program.language.matrices import MatrixValue
from tplimits.program.language.quantities import Quantity
from tplimits.program.language.values import Value
from tplimits.torch.functions import BINARY, LOGICAL, UNARY
from tplimits.torch.graph import Node, Ref, behind, refuse
from tplimits.torch.operations.registry import operation
from tplimits.torch.tensors import ONE, Dim, Tensor, spread
from tplimits.torch.totals import HIDDEN, Total

if TYPE_CHECKING:
    from tplimits.torch.lowering import Lowering


@operation(*UNARY)
def unary(low: Lowering, node: Node) -> Tensor:
    """A function of one value; its other arguments are numbers."""
    name, *others = node.arguments[0]
    options = {k: low.literal(node, k) for k in others if isinstance(node.arguments[0][k], (int, float, str))}
    varying = [k for k in others if isinstance(node.arguments[0][k], Ref)]
    values = [low.operand(node, k) for k in (name, *varying)]
    return low.entrywise(
        lambda x, *bounds: UNARY[node.op](x, **options, **dict(zip(varying, bounds, strict=True))),
        values,
        low.dims(node.number),
    )


@operation("contiguous", "clone", "alias", "lift_fresh_copy", "to", "_to_copy", "type_as", "float", "double", "dropout",
           "feature_dropout", "alpha_dropout", "positive", "nan_to_num")  # fmt: skip
def identity(low: Lowering, node: Node) -> Tensor:
    """What changes memory, precision or training alone: the values stay."""
    return low.operand(node, next(iter(node.arguments[0])))


@operation("zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full")
def filled(low: Lowering, node: Node) -> Tensor:
    """The same number everywhere."""
    value = 0.0 if "zeros" in node.op else 1.0 if "ones" in node.op else low.literal(node, "fill_value")
    return Tensor(value, low.dims(node.number), {})


@operation("expand", "expand_as", "broadcast_to")
def expand(low: Lowering, node: Node) -> Tensor:
    """The same entries along more dimensions."""
    return low.broadcast(low.operand(node, "self"), low.dims(node.number))


@operation("add", "sub", "rsub", "subtract")
def add(low: Lowering, node: Node) -> Tensor:
    """a + α b, a − α b, and b − α a."""
    a, b = (low.operand(node, k) for k in ("self", "other"))
    alpha = low.literal(node, "alpha") if "alpha" in node.arguments[0] else 1
    signs = {"add": (1, alpha), "sub": (1, -alpha), "subtract": (1, -alpha), "rsub": (-alpha, 1)}[node.op]
    return plus(low, [(signs[0], a), (signs[1], b)], low.dims(node.number))


def plus(low: Lowering, terms: list[tuple[Any, Tensor]], dims: tuple[Dim, ...]) -> Tensor:
    """A sum of tensors with numbers in front; sums over neurons stay sums over neurons, and logits hidden."""
    hidden = [t.hidden for _, t in terms if t.hidden is not None]
    totals = [t for _, t in terms if isinstance(t.value, Total)]
    # sums over different widths are no one sum over neurons
    if totals and len({t.value.vector.width for t in totals}) == 1:
        found = _sum_of_totals(low, terms, dims)
    else:
        factors = [f for f, _ in terms]
        found = low.entrywise(lambda *x: _weighted(factors, x), [replace(t, hidden=None) for _, t in terms], dims)
    if not hidden:
        return found
    seen = low.entrywise(_product, hidden, dims) if len(hidden) > 1 else low.broadcast(hidden[0], dims)
    return replace(found, hidden=seen)


def _product(*x: Any) -> Any:
    out = x[0]
    for other in x[1:]:
        out = out * other
    return out


def _weighted(factors: list[Any], x: tuple[Any, ...]) -> Any:
    out: Any = 0
    for f, v in zip(factors, x, strict=True):
        term = v if isinstance(f, int) and f == 1 else f * v
        out = term if isinstance(out, int) and out == 0 else out + term
    return out


def _sum_of_totals(low: Lowering, terms: list[tuple[Any, Tensor]], dims: tuple[Dim, ...]) -> Tensor:
    ((f, t), *others) = terms
    # a power of n in front is kept as the factor of the sum
    if not others and isinstance(f, Quantity) and t.value.shift is None:
        return low.broadcast(replace(t, value=Total(t.value.vector, factor=f * t.value.factor)), dims)
    along = [(f, low.broadcast(t, dims)) for f, t in terms]
    names = low.writer.names(dims, [t for _, t in along])
    vector: Any = 0
    shift: Any = None
    for f, t in along:
        parts = (t.value.summand, t.value.shift) if isinstance(t.value, Total) else (None, t.value)
        for at, part in enumerate(parts):
            if part is None:
                continue
            part = part if not isinstance(part, Value) else low.writer.written(low.part(t, part), names)
            term = part if isinstance(f, int) and f == 1 else f * part
            if at == 0:
                vector = vector + term
            else:
                shift = term if shift is None else shift + term
    if shift is not None and not isinstance(shift, Value):
        # a plain number as a value of the program, which a shift has to be
        shift = vector.derived(low.writer.trace.constant(shift), width=None, axes=())
    return low.total(Total(vector, shift), dims, names)


@operation("mul", "div", "true_divide", "multiply", "divide", "neg", "negative")
def multiply(low: Lowering, node: Node) -> Tensor:
    """Products and quotients; sums over neurons times a number stay sums over neurons."""
    a = low.operand(node, "self")
    b = Tensor(-1, (), {}) if node.op.startswith("neg") else low.operand(node, "other")
    dims = low.dims(node.number)
    down = "div" in node.op
    if node.arguments[0].get("rounding_mode"):
        refuse(node, "it rounds", "a program has no whole numbers")
    for x, f in ((a, b), (b, a)) if not down else ((a, b),):
        if isinstance(x.value, MatrixValue) and _is_number(f):
            _refuse_own_number(low, node)
            # a matrix stays a matrix: the number is applied to its products
            factor = f.value.now() if isinstance(f.value, Total) else f.value
            factor = 1 / factor if down else factor
            along = x if len(x.dims) == len(dims) else low.broadcast(x, dims)  # transposed, it keeps its own sides
            return replace(along, factor=x.factor * factor)
        if isinstance(x.value, Total) and not isinstance(f.value, (Total, Value)):
            factor = 1 / f.value if down else f.value
            return _sum_of_totals(low, [(factor, x)], dims)
        if x.hidden is not None and f.hidden is None:
            found = low.entrywise(
                (lambda p, q: p / q) if down else (lambda p, q: p * q), [replace(x, hidden=None), f], dims
            )
            return replace(found, hidden=low.broadcast(x.hidden, dims))
    return low.entrywise((lambda p, q: p / q) if down else (lambda p, q: p * q), [a, b], dims)


def _refuse_own_number(low: Lowering, node: Node) -> None:
    """ProgramError where a matrix is multiplied by a number that is computed from it, as spectral norms are."""
    graph = low.found.graph
    one, other = ({n for n in behind(graph, node.needed(k)) if graph[n].kind == "parameter"} if node.ref(k) is not None
                  else set() for k in ("self", "other"))  # fmt: skip
    if one & other:
        refuse(
            node,
            "it multiplies a weight matrix by a number that is computed from it",
            "a function of a weight matrix has no limit; a program only multiplies vectors by matrices",
        )


def _is_number(tensor: Tensor) -> bool:
    """Whether a tensor is one number, known or drawn."""
    if isinstance(tensor.value, MatrixValue) or any(d != ONE for d in tensor.dims):
        return False
    return not isinstance(tensor.value, Value) or (tensor.value.width is None and not tensor.value.axes)


@operation("pow", "float_power")
def pow_(low: Lowering, node: Node) -> Tensor:
    """Powers."""
    return low.entrywise(
        lambda p, q: p**q, [low.operand(node, "self"), low.operand(node, "exponent")], low.dims(node.number)
    )


@operation("maximum", "minimum", "fmax", "fmin")
def larger(low: Lowering, node: Node) -> Tensor:
    """The larger or the smaller of two values; gradients of equal ones are shared, as PyTorch does."""
    sign = 1 if "max" in node.op else -1
    pair = [low.operand(node, "self"), low.operand(node, "other")]
    # |·| has the slope 0 at 0: each of two equal values has half of the gradient
    return low.entrywise(lambda x, y: (x + y + sign * heads.abs(x - y)) / 2, pair, low.dims(node.number))


@operation(*BINARY)
def binary(low: Lowering, node: Node) -> Tensor:
    """A function of two values."""
    return low.entrywise(
        BINARY[node.op], [low.operand(node, name) for name in ("self", "other")], low.dims(node.number)
    )


@operation(*LOGICAL)
def compared(low: Lowering, node: Node) -> Tensor:
    """Comparisons of values, and what joins them."""
    names = [k for k in ("self", "other") if k in node.arguments[0]]
    return low.entrywise(LOGICAL[node.op], [low.operand(node, k) for k in names], low.dims(node.number))


@operation("addcmul", "addcdiv", "lerp")
def fused(low: Lowering, node: Node) -> Tensor:
    """Several operations that PyTorch has in one."""
    if node.op == "lerp":
        parts, body = ("self", "end", "weight"), lambda a, b, w: a + w * (b - a)
    else:
        value = low.literal(node, "value")
        parts = ("self", "tensor1", "tensor2")
        body = (lambda a, b, c: a + value * b * c) if node.op == "addcmul" else (lambda a, b, c: a + value * b / c)
    return low.entrywise(body, [low.operand(node, k) for k in parts], low.dims(node.number))


@operation("prelu")
def prelu(low: Lowering, node: Node) -> Tensor:
    """relu(x) − w relu(−x), with a number w for each channel."""
    x, w = low.operand(node, "self"), low.operand(node, "weight")
    dims = low.dims(node.number)
    w = spread(w, dims, [1]) if w.dims and w.dims[0] != ONE else Tensor(w.value, dims, {
        a: t.reshape([1] * sum(len(d.finite) for d in dims)) for a, t in w.tables.items()})  # fmt: skip
    return low.entrywise(lambda p, q: heads.relu(p) - q * heads.relu(-1 * p), [x, w], dims)


@operation("masked_fill", "where")
def masked(low: Lowering, node: Node) -> Tensor:
    """A choice by a mask that is data; −∞ hides an entry from softmax."""
    dims = low.dims(node.number)
    if node.op == "where":
        mask, yes, no = (low.operand(node, k) for k in ("condition", "self", "other"))
    else:
        mask, no, yes = low.operand(node, "mask"), low.operand(node, "self"), low.operand(node, "value")
    if node.ref("condition" if node.op == "where" else "mask") not in low.found.data:
        return low.entrywise(lambda m, p, q: heads.where(m - sympy.S.Half, p, q), [mask, yes, no], dims)
    one = low.entrywise(lambda m: 1 - m, [mask], mask.dims)
    # whichever side is −∞, the other one is what is left to see
    for x, other, seen in ((no, yes, one), (yes, no, mask)):
        if isinstance(other.value, (int, float)) and other.value <= HIDDEN:
            x = low.broadcast(x, dims)
            seen = low.broadcast(seen, dims)
            if x.hidden is not None:
                seen = low.entrywise(_product, [x.hidden, seen], dims)
            return replace(x, hidden=seen)
    return low.entrywise(lambda m, p, q: m * p + (1 - m) * q, [mask, yes, no], dims)
