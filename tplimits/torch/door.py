"""`tp.from_torch`: the door to PyTorch, which is an extra and loaded behind it alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tplimits.errors import ProgramError

if TYPE_CHECKING:
    from tplimits.torch.importing import TorchProgram


def from_torch(
    make: Callable[[int], Any],
    example: Any,
    widths: Sequence[int] = (64, 128, 256),
    name: str | None = None,
) -> TorchProgram:
    """The network program of a PyTorch model of every width, exactly.

    make(n) builds the module (`torch.nn.Module`) of width n; example is what it is called with, a tensor or a tuple of
    tensors, the same at all widths.  The graphs of three widths say which dimensions grow.  Where rows of the example
    do not see each other, the program is that of one of them.

    The program has the module's tree for names; `.weights(module)` and `.data(…)` are its parameters and inputs for
    `run`, `.matches(module, *inputs)` compares outputs and gradients, `.entries` are the initial entries as measured,
    `.parametrization` their powers of n, `.permutation_error` how much outputs change when neurons change places.

    Raises ProgramError with the path of the module and the operation for what is no program, EvaluationError for
    widths or an example that are none.
    """
    if find_spec("torch") is None:
        raise ProgramError("tp.from_torch needs PyTorch: pip install 'tplimits[torch]'.")
    from tplimits.torch.importing import imported

    return imported(make, example, widths, name)
