"""Building a module and exporting it: whatever a user's code raises is told, and nothing else is printed.

Models that are made for their small parameters alone repeat one block of random numbers in large tensors: the entries
of a bias of three numbers are known from many models, and nearly all of the time that making one takes is spent on
drawing the entries of its matrices.
"""

from __future__ import annotations

import io
import linecache
import logging
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch.nn.modules import transformer
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.utils._python_dispatch import TorchDispatchMode

from tplimits.errors import ProgramError


def quietly(make: Callable[[int], Any], n: int) -> Any:
    """make(n) without the warnings of layers: models are made many times, and their authors have seen them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(n)


def module_of(make: Callable[[int], Any], n: int) -> Any:
    """make(n), ready to be evaluated."""
    try:
        module = quietly(make, n)
    except Exception as error:  # whatever a user's code raises is told with the width that it was asked for
        raise ProgramError(f"make({n}) raises {type(error).__name__}: {error}.") from error
    if not isinstance(module, torch.nn.Module):
        raise ProgramError(f"make({n}) returns {type(module).__name__}; it builds a torch.nn.Module of width n.")
    _refuse_other_kinds(module)
    for name, p in (*module.named_parameters(), *module.named_buffers()):
        if isinstance(p, (UninitializedParameter, UninitializedBuffer)):
            raise ProgramError(f"`{name}` has no shape yet: call the lazy module once in make.")
        if p.is_complex():
            raise ProgramError(f"`{name}` is complex; programs are real.")
        if p.is_quantized or p.layout != torch.strided:
            raise ProgramError(f"`{name}` is quantised or sparse; import the dense model in floating point.")
    if getattr(module, "_forward_hooks", None) is None:
        raise ProgramError(f"make({n}) returns a module whose __init__ did not call super().__init__().")
    return module.eval()


def _refuse_other_kinds(module: Any) -> None:
    """ProgramError for modules that wrap a model, or hold one in another form."""
    for path, part in module.named_modules():
        where = f"`{path}`" if path else "make(n)"
        if isinstance(part, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            raise ProgramError(f"{where} is a {type(part).__name__}: return the module inside of it.")
        if isinstance(part, torch.jit.ScriptModule):
            raise ProgramError(f"{where} is compiled by TorchScript: return the module that it was made from.")
        if ".quantized" in type(part).__module__:
            raise ProgramError(f"{where} ({type(part).__name__}) is quantised: import the model in floating point.")


def only_evaluated(module: Any) -> tuple[str, ...]:
    """What a model does in training alone, and a program does not: dropout, and statistics of batches."""
    found = []
    for path, part in module.named_modules():
        if isinstance(part, torch.nn.modules.dropout._DropoutNd) and part.p > 0:
            found.append(f"dropout in {path or 'the model'}")
        elif isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.track_running_stats:
            found.append(f"statistics of batches in {path or 'the model'}")
    return tuple(found)


def called(module: Any, example: tuple[Any, ...], n: int) -> None:
    """ProgramError where the model cannot be called with the example."""
    try:
        with torch.no_grad(), silently():
            module(*example)
    except Exception as error:  # whatever a user's code raises
        said = " ".join(str(error).split())[:300]
        if "does not require grad" in said:
            raise ProgramError(
                f"make({n}) differentiates in forward{_line_of(error, module)}: the graph of a derivative is none of "
                "the model; return what is differentiated, and differentiate outside."
            ) from error
        raise ProgramError(f"make({n}) cannot be called with the example: {type(error).__name__}: {said}.") from error


def exported(module: Any, example: tuple[Any, ...], n: int) -> Any:
    """The program of torch.export."""
    try:
        # with gradients: without them a region under torch.no_grad() would leave no trace
        with torch.enable_grad(), silently(), _masks_as_given():
            return torch.export.export(module, example, strict=False)
    except Exception as error:  # torch.export raises what it meets; the first lines say what and where
        said = " ".join(str(error).split())[:400]
        if "DataDependent" in type(error).__name__:
            said = "control flow depends on values of tensors"
        repair = " It has to be written with torch.where, or taken out."
        follows = "DataDependent" not in type(error).__name__ and "data-dependent" not in said
        kind = f"{type(error).__name__}: " if follows else ""
        where = _line_of(error, module)
        raise ProgramError(
            f"torch.export cannot follow the model at width {n}{where}: {kind}{said}." + ("" if follows else repair)
        ) from error


def _line_of(error: BaseException, module: Any) -> str:
    """The module and the line of a user's code that an error comes from."""
    paths = {id(part): path for path, part in module.named_modules()}
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        own = frame.f_code.co_varnames[:1]  # `self`, whatever it is called
        path = paths.get(id(frame.f_locals.get(own[0]))) if own and frame.f_code.co_argcount else None
        file = frame.f_code.co_filename
        if path is not None and not file.startswith(os.path.dirname(torch.__file__)):
            text = linecache.getline(file, line).strip()
            found = f", {f'`{path}`' if path else 'the model itself'}, line {line} of {os.path.basename(file)} ({text})"
    return found


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
def silently() -> Iterator[None]:
    """Without what torch.export prints and logs of a model that it cannot follow: the error says it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")  # of attributes that recurrent layers set while they are exported
            yield
    finally:
        logging.disable(before)


#: random entries that a tensor has of its own
BLOCK = 2**14


class repeated(TorchDispatchMode):
    """Random numbers of large tensors are those of their first entries again and again."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        drawn = torch.Tag.nondeterministic_seeded in func.tags and func.overloadpacket.__name__.endswith("_")
        tensor: Any = args[0] if drawn and args else None
        if not torch.is_tensor(tensor) or tensor.numel() <= BLOCK or not tensor.is_contiguous():
            return func(*args, **given)
        flat = tensor.view(-1)
        func(flat[:BLOCK], *args[1:], **given)
        whole = flat[: flat.numel() // BLOCK * BLOCK].view(-1, BLOCK)
        whole[1:] = whole[0]
        flat[whole.numel() :] = flat[: flat.numel() - whole.numel()]
        return tensor
