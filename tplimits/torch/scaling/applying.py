"""Plans applied to models: groups for optimizers, initial entries, factors on outputs.

By names and shapes alone: nothing is replaced, nothing is written onto parameters, so that wrappers of models see
ordinary tensors in ordinary groups.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

from tplimits.errors import EvaluationError
from tplimits.program.nodes.given import several
from tplimits.torch.scaling.optimizers import RULES

if TYPE_CHECKING:
    from tplimits.torch.scaling.plan import Plan
    from tplimits.torch.scaling.table import Row, Size

#: what wrappers put into names, and before them
INNER, OUTER = ("_orig_mod", "_fsdp_wrapped_module"), "module."
#: an attribute of a module whose entries were scaled, in no state dict, and of hooks that multiply
SCALED = "_scaled_by_plan"
#: standard deviations of at least so many entries are known well enough to tell a new model from a trained one
MANY, APART = 64, 2.0


def plain(name: str) -> str:
    """A name without what wrappers put into it.

    >>> plain("_orig_mod.blocks.0._fsdp_wrapped_module.fc.weight")
    'blocks.0.fc.weight'
    """
    return ".".join(part for part in name.split(".") if part not in INNER)


def named(plan: Plan, model: Any) -> dict[str, Any]:
    """The parameters of a model, each once, under the names that the plan has.

    Wrappers hold the whole model as `module`, which a model may have as a name of its own, too.
    """
    if not hasattr(model, "named_parameters") or isinstance(model, type):
        raise EvaluationError(f"model={model!r:.60}: give a torch.nn.Module.")
    found = {plain(name): p for name, p in model.named_parameters()}
    for name, p in found.items():
        if hasattr(p, "materialize"):
            raise EvaluationError(f"`{name}` has no shape yet: call the lazy module once.")
    wrapped = all(name.startswith(OUTER) and plan.names.template(name) not in plan.by_template for name in found)
    return {name.removeprefix(OUTER): p for name, p in found.items()} if wrapped else found


def shapes_of(plan: Plan, model: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of all parameters."""
    return {name: tuple(p.shape) for name, p in named(plan, model).items()}


def param_groups(
    plan: Plan, model: Any, base: Mapping[str, Any], groups: Any, depth: int | None
) -> list[dict[str, Any]] | dict[str, list[dict[str, Any]]]:
    """See `Plan.param_groups`; base: rate, decay and ε of the base."""
    size = plan.size(model, depth)
    parameters = {name: p for name, p in named(plan, model).items() if p.requires_grad}
    if not parameters:
        raise EvaluationError("the model has no parameter that is trained: requires_grad is False for all.")
    for name in parameters:
        if plan.row(name).role == "frozen":
            raise EvaluationError(
                f"`{name}` is trained here and was not where the plan was derived (requires_grad=False), which has no "
                "rate for it. Derive the plan from a make(n) that trains the same parameters."
            )
    given = _given(groups, parameters) if groups is not None else [({}, list(parameters))]
    several = sorted({plan.row(name).optimizer for name in parameters})
    found: dict[str, dict[Any, dict[str, Any]]] = {optimizer: {} for optimizer in several}
    for i, (own, names) in enumerate(given):
        for name in names:
            row = plan.row(name)
            numbers = _numbers(row, size, {**base, **own})
            # one group for each set of numbers: fewer groups are fewer kernel calls of the optimizer
            key = (i, row.role, *(str(v) for v in numbers.values()))
            kept = {k: v for k, v in own.items() if k not in ("params", *numbers)}
            group = found[row.optimizer].setdefault(key, {"name": row.role, "params": [], **kept, **numbers})
            group["params"].append(parameters[name])
    result = {optimizer: list(by_key.values()) for optimizer, by_key in found.items()}
    # by optimizer wherever the plan has several, also for a model that trains what one of them moves alone
    return result if len(result) > 1 or plan.optimizer not in RULES else next(iter(result.values()))


def _numbers(row: Row, size: Size, base: Mapping[str, Any]) -> dict[str, float]:
    """Rate, decay and ε of a parameter, given those of the base."""
    rule = RULES[row.optimizer]
    lr = base["lr"]
    if isinstance(lr, Mapping):
        if row.optimizer not in lr:
            raise EvaluationError(f"lr={lr!r}: give the rate of {row.optimizer!r}, which trains `{row.name}`.")
        lr = lr[row.optimizer]
    decay = rule.decay if base["weight_decay"] is None else base["weight_decay"]
    eps = rule.eps if base["eps"] is None else base["eps"]
    found = {"lr": positive("lr", lr) * size.to(row.rate, row.deep.rate)}
    found["weight_decay"] = positive("weight_decay", decay) * size.to(row.decay, row.deep.decay)
    if row.eps is not None and eps is not None:
        found["eps"] = positive("eps", eps) * size.to(row.eps, row.deep.eps)
    return found


def positive(what: str, value: Any) -> float:
    """A number of the base; EvaluationError for what is none."""
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        number = math.inf
    if not number >= 0 or math.isinf(number):
        raise EvaluationError(f"{what}={value!r}: give a number of 0 or more, that of the base.")
    return number


def _given(groups: Any, parameters: Mapping[str, Any]) -> list[tuple[dict[str, Any], list[str]]]:
    """The user's own groups with names for tensors; every trained parameter stands in one of them."""
    by_id = {id(p): name for name, p in parameters.items()}
    seen: dict[str, int] = {}
    found = []
    for i, group in enumerate(several(groups) or ()):
        if not isinstance(group, Mapping) or "params" not in group:
            raise EvaluationError(f'groups[{i}] is {type(group).__name__}: give dictionaries with "params".')
        names = []
        for tensor in _tensors(group["params"], f'groups[{i}]["params"]'):
            if not tensor.requires_grad:
                continue
            if id(tensor) not in by_id:
                raise EvaluationError(
                    f"groups[{i}] has a parameter of the shape {tuple(tensor.shape)} that the model does not have."
                )
            name = by_id[id(tensor)]
            if name in seen:
                places = f"twice in groups[{i}]" if seen[name] == i else f"in groups[{seen[name]}] and in groups[{i}]"
                raise EvaluationError(f"`{name}` stands {places}: leave it in one place, under one of its names.")
            seen[name] = i
            names.append(name)
        found.append((dict(group), names))
    if missing := [name for name in parameters if name not in seen]:
        raise EvaluationError(f"`{missing[0]}` stands in no group, so that no optimizer trains it: put it into one.")
    return found


def _tensors(given: Any, where: str) -> list[Any]:
    """The tensors of a group, which may come with their names."""
    many = [given] if hasattr(given, "requires_grad") else several(given)
    found = [p[1] if isinstance(p, tuple) and len(p) == 2 else p for p in many or ()]
    wrong = [p for p in found if not hasattr(p, "requires_grad")] if many is not None else [given]
    if wrong:
        raise EvaluationError(f"{where} has {type(wrong[0]).__name__}: give parameters of the model.")
    return found


def initialize(plan: Plan, model: Any, depth: int | None) -> Any:
    """See `Plan.initialize_`."""
    size = plan.size(model, depth)
    if getattr(model, SCALED, False):
        return model
    parameters = named(plan, model)
    rows = [(plan.row(name), name) for name in parameters]
    if any(p.is_meta for p in parameters.values()):
        raise EvaluationError(
            "the model is on the device meta, where parameters have no entries: call initialize_ after to_empty and "
            "your own initialisation."
        )
    # all are looked at before any is scaled: a refusal leaves the model as it was
    for row, name in rows:
        _refuse_used(plan, row, name, parameters[name], size)
    for row, name in rows:
        factor = row.rescaling(size)
        if factor != 1.0:
            parameters[name].data.mul_(factor)
    setattr(model, SCALED, True)
    return model


def _refuse_used(plan: Plan, row: Row, name: str, tensor: Any, size: Size) -> None:
    """EvaluationError where entries are not those that make(n) draws."""
    # the spread of few entries is off by chance alone
    if row.std is None or row.started is None or tensor.numel() < MANY:
        return
    wanted = row.std * size.to(row.started, row.deep.started)
    found = float(tensor.detach().float().std())
    n = round(plan.base * size.width)
    if not wanted / APART < found < wanted * APART:
        raise EvaluationError(
            f"`{name}` has the standard deviation {found:.3g}; make({n}) draws {wanted:.3g}: "
            "initialize_ is for new models, before they are trained, loaded, or scaled by other means."
        )


def attach(plan: Plan, model: Any, at: str) -> Any:
    """See `Plan.attach`."""
    factor = plan.multipliers(plan.width(model)).get("output", 1.0)
    modules = dict(model.named_modules())
    if at not in modules:
        raise EvaluationError(f"at={at!r}: the model has no such module; give one of {', '.join(list(modules)[1:9])}.")
    for name, module in modules.items():
        # twice attached, outputs would have the factor squared
        if any(hasattr(hook, SCALED) for hook in module._forward_hooks.values()):
            where = f"module `{name}`" if name else "model"
            raise EvaluationError(f"the {where} has the factor already: remove the handle that attach returned first.")

    def times(_: Any, __: Any, result: Any) -> Any:
        if hasattr(result, "shape"):
            return result * factor
        raise EvaluationError(
            f"the model returns {type(result).__name__}: multiply its output by {factor:g} where it is made, or name "
            'the module that makes it, as in plan.attach(model, at="head").'
        )

    setattr(times, SCALED, True)
    return modules[at].register_forward_hook(times)
