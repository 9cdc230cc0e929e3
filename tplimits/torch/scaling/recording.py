"""Sizes of everything inside of a model while it trains for a few steps: outputs of modules, scores, parameters.

A score is what enters a softmax over a finite axis; that of `scaled_dot_product_attention` is no output of a module,
and is computed again from its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from tplimits.errors import EvaluationError
from tplimits.torch.rows import first_output

#: gradients below this part of the largest are rounding, which adaptive optimizers divide by itself
IDLE = 1e-6
#: what masks put in place of scores is left out
MASKED = -1e4


def rms(x: Any) -> float:
    """The root mean square of the finite entries."""
    x = x.detach().double()
    x = x[x.isfinite() & (x > MASKED)] if x.dtype.is_floating_point else x
    return float(x.pow(2).mean().sqrt()) if x.numel() else 0.0


class Values(TorchFunctionMode):
    """The values of one pass through a model, by module and by what is computed in it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.found: dict[str, Any] = {}
        self._inside: list[str] = [""]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.multi_head_attention_forward:  # inside of it, calls are not seen from here
            attention, softmax = F.scaled_dot_product_attention, F.softmax
            with (
                patch.object(F, "scaled_dot_product_attention", self._told(attention)),
                patch.object(F, "softmax", self._told(softmax)),
            ):
                return func(*args, **kwargs)
        self._look(func, args, kwargs)
        return func(*args, **kwargs)

    def _told(self, func: Any) -> Callable[..., Any]:
        def told(*args: Any, **kwargs: Any) -> Any:
            self._look(func, args, kwargs)
            return func(*args, **kwargs)

        return told

    def _look(self, func: Any, args: Any, kwargs: Any) -> None:
        """Keep the scores that an operation is called with."""
        if getattr(func, "__name__", "") == "scaled_dot_product_attention":
            self._scores(*args, **kwargs)
        elif getattr(func, "__name__", "") in ("softmax", "log_softmax", "_softmax") and torch.is_tensor(args[0]):
            self._keep(self._called, args[0])

    @property
    def _called(self) -> str:
        return f"scores in {self._inside[-1]}" if self._inside[-1] else "scores"

    def _scores(self, q: Any, k: Any, *args: Any, scale: float | None = None, **kwargs: Any) -> None:
        # the product here is not the model's, and must not be looked at in turn
        with torch._C.DisableTorchFunctionSubclass():
            # grouped queries: several heads read one of keys
            repeated = q.shape[-3] // k.shape[-3] if q.dim() > 2 and k.dim() > 2 else 1
            keys = k.repeat_interleave(repeated, -3) if repeated > 1 else k
            scores = q.detach() @ keys.detach().transpose(-1, -2)
        scores = scores * (scale if scale is not None else q.shape[-1] ** -0.5)
        self._keep(self._called, scores)

    def _keep(self, name: str, value: Any) -> None:
        key, again = name, 1
        # a module that is called twice has values of each call
        while key in self.found:
            again += 1
            key = f"{name} (call {again})"
        self.found[key] = value.detach().clone()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Values of modules are kept inside of this."""
        handles = []
        for name, module in self.model.named_modules():
            if name:
                handles.append(module.register_forward_pre_hook(lambda *_, name=name: self._inside.append(name)))
                handles.append(module.register_forward_hook(self._end(name)))
        try:
            with self:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _end(self, name: str) -> Callable[..., None]:
        def end(_: Any, __: Any, result: Any) -> None:
            self._inside.pop()
            leaves, _ = torch.utils._pytree.tree_flatten(result)
            tensors = [t for t in leaves if torch.is_tensor(t) and t.is_floating_point()]
            if tensors:
                self._keep(name, tensors[0])

        return end


def image(change: Any, wide: Sequence[int]) -> float:
    """The size of what a change of a parameter does to entries of order 1 that it is aligned with.

    Of a matrix the largest singular value, over all indices that do not grow; the root mean square of all other ones.
    """
    if len(wide) < 2:
        return rms(change)
    rest = [d for d in range(change.dim()) if d not in wide]
    matrices = change.detach().double().permute(*rest, *wide).reshape(-1, change.shape[wide[0]], change.shape[wide[1]])
    v = torch.randn(matrices.shape[0], matrices.shape[2], 1, dtype=torch.float64,
                    generator=torch.Generator().manual_seed(0))  # fmt: skip
    for _ in range(8):  # the largest singular value of an update stands apart from the others
        u = matrices @ v
        v = matrices.transpose(1, 2) @ u
        v = v / v.norm(dim=1, keepdim=True).clamp_min(1e-300)
    return float((matrices @ v).norm(dim=1).max())


def recorded(
    model: Any,
    optimizers: Sequence[Any],
    data: tuple[tuple[Any, ...], Any],
    loss: Callable[[Any, Any], Any],
    times: Sequence[int],
    wide: Mapping[str, Sequence[int]],
    names: Mapping[str, Any],
) -> dict[tuple[str, str, int], float]:
    """{(kind, name, step): size}: values at the start (step 0), and their changes since after some steps.

    kinds: "value" of a module, its "kernel" (of products of two inputs, averaged over neurons), "f", "score",
    "entries" of a parameter at the start, and of its change the "norm" (of an entry) and the "image".  Parameters whose
    gradients are 0 but for rounding have none of the last two.
    """
    inputs, target = data
    parameters = {k: p for k, p in names.items() if p.requires_grad}
    start = {k: p.detach().clone() for k, p in parameters.items()}
    found = {("entries", k, 0): rms(p) for k, p in parameters.items()}
    first: dict[str, Any] = {}
    idle = set(parameters)
    for t in range(max(times) + 1):
        values = Values(model)
        with values.kept() if t == 0 or t in times else _nothing():
            f = first_output(model(*inputs))
        if values.found or t == 0 or t in times:
            now = {**values.found, "f": f.detach().clone()}
            first = first or _without_output(now)
            found |= {(_kind(k), k, t): rms(x - first[k] if t else x) for k, x in now.items() if k in first}
            for k, x in now.items():
                if t and k in first and _kind(k) == "value" and x.dim() > 1 and x.shape[0] > 1:
                    found["kernel", k, t] = rms(_kernel(x) - _kernel(first[k]))
            for k, p in parameters.items() if t else ():
                found["image", k, t] = image(p.detach() - start[k], wide.get(k, ()))
                found["norm", k, t] = rms(p.detach() - start[k])
        if t == max(times):
            break
        value = loss(f, target)
        if not math.isfinite(value.item()):
            raise EvaluationError(f"the loss is {value.item()} in step {t + 1} at this rate: give a smaller lr.")
        for optimizer in optimizers:
            optimizer.zero_grad()
        for p in parameters.values():
            p.grad = None
        value.backward()
        idle &= _refuse_rounding(parameters)
        for optimizer in optimizers:
            optimizer.step()
    return {key: size for key, size in found.items() if key[0] not in ("image", "norm") or key[1] not in idle}


def _kernel(x: Any) -> Any:
    """The feature kernel: averages over neurons of products of the values of pairs of inputs."""
    flat = x.double().flatten(1)
    return flat @ flat.T / flat.shape[1]


def _without_output(values: dict[str, Any]) -> dict[str, Any]:
    """The values without those that are the output but for a factor: it is judged as f."""
    f = values["f"].double()
    kept = {"f": values["f"]}
    for name, x in values.items():
        if x.shape == f.shape and name != "f":
            factor = (x.double() * f).sum() / x.double().pow(2).sum().clamp_min(1e-300)
            if rms(factor * x.double() - f) <= 1e-5 * rms(f):
                continue
        kept[name] = x
    return kept


def _kind(name: str) -> str:
    return "f" if name == "f" else "score" if name.startswith("scores") else "value"


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _refuse_rounding(parameters: Mapping[str, Any]) -> set[str]:
    """Gradients that are exactly 0, as those of the biases of keys, are rounding and move nothing: whose they are."""
    for k, p in parameters.items():
        if p.grad is not None and p.grad.layout != torch.strided:
            raise EvaluationError(f"`{k}` has sparse gradients: build the module with sparse=False.")
    sizes = {k: rms(p.grad) for k, p in parameters.items() if p.grad is not None}
    largest = max(sizes.values(), default=0.0)
    for k, p in parameters.items():
        if p.grad is not None and sizes[k] < IDLE * largest:
            p.grad = None
    return {k for k, p in parameters.items() if p.grad is None and k in sizes}
