"""Which row of a plan each parameter of a model has, how wide and how deep the model is.

By names and shapes alone: a plan that was saved is used without the model that it was derived from.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from tplimits.errors import EvaluationError
from tplimits.torch.scaling.table import Row, Size, width_of

if TYPE_CHECKING:
    from tplimits.torch.scaling.plan import Plan

Shapes = Mapping[str, tuple[int, ...]]


def row_of(plan: Plan, name: str) -> Row:
    """The row of a parameter, at any depth; EvaluationError where the plan has none, or blocks that differ."""
    template = plan.names.template(str(name))
    found = plan.by_template.get(template)
    if found is None:
        raise EvaluationError(
            f"the model has the parameter `{name}`, which the plan does not have: it was derived from another model. "
            "Derive it from a make(n) that builds this one."
        )
    same = {(row.powers, row.shape, row.started, row.deep) for row in found}
    if len(same) > 1 and name not in plan.by_name:
        raise EvaluationError(
            f"`{name}` is in a block that the plan was not derived from, and its blocks differ in `{template}`. Derive "
            "the plan at this depth: tp.scaling(lambda n: make(n, depth), …)."
        )
    return plan.by_name[name] if len(same) > 1 else found[0]


def size_of(plan: Plan, shapes: Shapes, depth: int | None = None) -> tuple[int, Fraction | None]:
    """The width and the depth of a model."""
    rows = [(row_of(plan, name), name, shape) for name, shape in shapes.items()]
    known = {plan.names.template(name) for name in shapes}
    for row in plan.rows:
        if len(apart := [name for name in row.names if name in shapes]) > 1:
            raise EvaluationError(
                f"`{apart[0]}` and `{apart[1]}` are one parameter in the plan, and two in the model: tie them, or "
                "derive the plan from a make(n) that does not."
            )
        if not known & {plan.names.template(name) for name in row.names}:
            raise EvaluationError(
                f"the model has no parameter `{row.name}`, which the plan has: it was derived from another model."
            )
    return width_of(rows), _depth(plan, shapes, depth)


def relative(plan: Plan, shapes: Shapes, depth: int | None = None) -> Size:
    """The size of a model in multiples of the base's; EvaluationError where it is smaller."""
    n, found = size_of(plan, shapes, depth)
    if n < plan.base:
        raise narrower(plan, n)
    if found is None or plan.depth is None:
        return Size(n / plan.base)
    if found < plan.depth:
        raise EvaluationError(
            f"the model has the depth {found}, the base is {plan.depth}: what was tuned at a depth is carried to "
            "deeper models. Derive the plan with a smaller depth."
        )
    return Size(n / plan.base, float(found / plan.depth))


def narrower(plan: Plan, n: int) -> EvaluationError:
    """What is said of a model that is narrower than the base."""
    return EvaluationError(
        f"the model has the width {n}, the base is {plan.base}: what was tuned at a width is carried to wider models. "
        "Derive the plan with a smaller base."
    )


def _depth(plan: Plan, shapes: Shapes, given: int | None) -> Fraction | None:
    if plan.depth is None:
        if given is not None:
            raise EvaluationError(f"depth={given!r}: the plan has no powers of it; tp.scaling(make, …, depth=…) has.")
        return None
    told = plan.names.depth(list(shapes))
    if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
        raise EvaluationError(f"depth={given!r}: give the depth of the model, a whole number.")
    if told is None and given is None:
        raise EvaluationError(
            f"the blocks of `{plan.model}` share their weights, whose names do not tell how often they are used: give "
            "depth=…, what make(n, depth) was called with."
        )
    if told is not None and given is not None and told != given:
        raise EvaluationError(f"depth={given}: the model has blocks as at depth {told}.")
    return told if told is not None else Fraction(given or 1)
