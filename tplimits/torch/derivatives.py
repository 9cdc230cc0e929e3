"""Whether the graph of a module has the module's own gradients: functions of users may come with other ones."""

from __future__ import annotations

from typing import Any

import torch

from tplimits.errors import ProgramError
from tplimits.torch.rows import first_output

#: how far gradients in single precision may be apart, relative to the largest entry of each
CLOSE = 1e-2


def refuse_own_derivatives(module: Any, program: Any, example: tuple[Any, ...]) -> None:
    """ProgramError where a torch.autograd.Function has a backward that is not the derivative of its forward.

    torch.export keeps what such a function computes, and loses what it says of gradients.
    """
    functions = _functions(module, example)
    if not functions:
        return
    graph = program.module()
    mine = _gradients(module, example)
    others = _gradients(graph, example)
    for name, g in mine.items():
        h = others.get(name)
        scale = max(float(g.abs().max()), 1e-12)
        if h is None or float((g - h).abs().max()) > CLOSE * scale:
            path, function = functions[0]
            where = f"`{path}`" if path else "the model itself"
            raise ProgramError(
                f"{where}, torch.autograd.Function `{function}`: its backward is not the derivative of its forward "
                f"(the gradient of `{name}` is another one), and a program is differentiated as it is written; write "
                "it with detach(), as x + (f(x) - x).detach() passes gradients straight through."
            )


def _gradients(module: Any, example: tuple[Any, ...]) -> dict[str, Any]:
    names = {k: p for k, p in module.named_parameters() if p.requires_grad}
    with torch.enable_grad():
        y = first_output(module(*example))
        χ = torch.randn(y.shape, generator=torch.Generator().manual_seed(0), dtype=y.dtype)
        found = torch.autograd.grad((y * χ).sum(), list(names.values()), allow_unused=True)
    return {k: torch.zeros_like(p) if g is None else g for (k, p), g in zip(names.items(), found, strict=True)}


def _functions(module: Any, example: tuple[Any, ...]) -> list[tuple[str, str]]:
    """The functions of users behind the output, with the innermost modules that they stand in."""
    seen: list[tuple[str, str]] = []
    known: set[Any] = set()
    keep: list[Any] = []  # as long as they live, nodes have names of their own

    def hook(path: str) -> Any:
        def after(_: Any, __: Any, result: Any) -> None:  # inner modules end before outer ones
            leaves, _spec = torch.utils._pytree.tree_flatten(result)
            for leaf in leaves:
                for node in _behind(getattr(leaf, "grad_fn", None)):
                    if node not in known:
                        known.add(node)
                        keep.append(node)
                        seen.append((path, type(node).__name__.removesuffix("Backward")))

        return after

    hooks = [m.register_forward_hook(hook(path)) for path, m in module.named_modules()]
    try:
        with torch.enable_grad():
            module(*example)
    finally:
        for h in hooks:
            h.remove()
    return seen


def _behind(start: Any) -> list[Any]:
    """The nodes of users' functions that a result comes from."""
    found, left, seen = [], [start], set()
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            found.append(node)
        left += [other for other, _ in node.next_functions]
    return found
