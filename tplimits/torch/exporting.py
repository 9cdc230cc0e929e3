"""Building a module and exporting it: whatever a user's code raises is told, and nothing else is printed."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch.nn.modules import transformer

from tplimits.errors import ProgramError


def module_of(make: Callable[[int], Any], n: int) -> Any:
    """make(n), ready to be evaluated."""
    try:
        module = make(n)
    except Exception as error:  # whatever a user's code raises is told with the width that it was asked for
        raise ProgramError(f"make({n}) raises {type(error).__name__}: {error}.") from error
    if not isinstance(module, torch.nn.Module):
        raise ProgramError(f"make({n}) returns {type(module).__name__}; it builds a torch.nn.Module of width n.")
    for name, p in (*module.named_parameters(), *module.named_buffers()):
        if p.is_complex():
            raise ProgramError(f"`{name}` is complex; programs are real.")
        if p.is_quantized or p.layout != torch.strided:
            raise ProgramError(f"`{name}` is quantised or sparse; import the dense model in floating point.")
    if getattr(module, "_forward_hooks", None) is None:
        raise ProgramError(f"make({n}) returns a module whose __init__ did not call super().__init__().")
    return module.eval()


def called(module: Any, example: tuple[Any, ...], n: int) -> None:
    """ProgramError where the model cannot be called with the example."""
    try:
        with torch.no_grad(), _silently():
            module(*example)
    except Exception as error:  # whatever a user's code raises
        said = " ".join(str(error).split())[:300]
        raise ProgramError(f"make({n}) cannot be called with the example: {type(error).__name__}: {said}.") from error


def exported(module: Any, example: tuple[Any, ...], n: int) -> Any:
    """The program of torch.export."""
    try:
        # with gradients: without them a region under torch.no_grad() would leave no trace
        with torch.enable_grad(), _silently(), _masks_as_given():
            return torch.export.export(module, example, strict=False)
    except Exception as error:  # torch.export raises what it meets; the first lines say what and where
        said = " ".join(str(error).split())[:400]
        repair = " Control flow that depends on values of tensors has to be written with torch.where, or taken out."
        follows = "DataDependent" not in type(error).__name__ and "data-dependent" not in said
        raise ProgramError(
            f"torch.export cannot follow the model at width {n}: {type(error).__name__}: {said}."
            + ("" if follows else repair)
        ) from error


def _as_given(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    return bool(is_causal)


@contextmanager
def _masks_as_given() -> Iterator[None]:
    """Transformer layers compare their masks with a causal one, for a faster path: no graph can branch on that."""
    before = transformer._detect_is_causal_mask
    transformer._detect_is_causal_mask = _as_given
    try:
        yield
    finally:
        transformer._detect_is_causal_mask = before


@contextmanager
def _silently() -> Iterator[None]:
    """Without what torch.export prints and logs of a model that it cannot follow: the error says it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")  # of attributes that recurrent layers set while they are exported
            yield
    finally:
        logging.disable(before)
