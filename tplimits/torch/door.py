"""`tp.from_torch`, `tp.scaling`: the doors to PyTorch, which is an extra and loaded behind them alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tplimits.errors import EvaluationError, ProgramError
from tplimits.pages.files import place_of
from tplimits.program.files.fields import text_in

if TYPE_CHECKING:
    from tplimits.progress import Progress
    from tplimits.torch.importing import TorchProgram
    from tplimits.torch.scaling.plan import Plan


def from_torch(
    make: Callable[[int], Any],
    example: Any,
    widths: Sequence[int] = (64, 128, 256),
    name: str | None = None,
    progress: Progress = None,
) -> TorchProgram:
    """The network program of a PyTorch model of every width, exactly.

    make(n) builds the module (`torch.nn.Module`) of width n; example is what it is called with, a tensor or a tuple of
    tensors, the same at all widths.  The graphs of three widths say which dimensions grow.  Where rows of the example
    do not see each other, the program is that of one of them.  progress: a callback, True or False; None shows a bar
    in a terminal.

    The program has the module's tree for names; `.weights(module)` and `.data(…)` are its parameters and inputs for
    `run`, `.matches(module, *inputs)` compares outputs and gradients, `.entries` are the initial entries as measured,
    `.parametrization` their powers of n, `.permutation_error` how much outputs change when neurons change places.

    Raises ProgramError with the path of the module and the operation for what is no program, EvaluationError for
    widths or an example that are none.
    """
    _need_pytorch("tp.from_torch")
    from tplimits.torch.importing import imported

    return imported(make, example, widths, name, progress)


def scaling(
    make: Callable[..., Any] | TorchProgram,
    example: Any = None,
    optimizer: Any = "adamw",
    base: int = 64,
    widths: Sequence[int] = (64, 128, 256),
    depth: int | None = None,
    residual: Any = 1,
) -> Plan:
    """What a training script has to set as a model is widened, so that every layer learns at every width.

    make(n) builds the model and example is what it is called with, as in `tp.from_torch`, whose result will do for
    make, too.  optimizer: a name such as "adamw", "sgd", "muon" (whose rest takes AdamW), PyTorch's class or object,
    or {"matrix": …, "rest": …}.  base: the width where rates were tuned; there, every factor is 1.

    depth: the depth where rates were tuned; then make(n, depth) builds the model, and factors are powers of the depth
    L, too, counted at the depths 2, 4 and 8.  residual: the power α of 1/L on every block, 1 (CompleteP: each block
    learns) or 1/2 (depth-muP: the output learns, single blocks move by L^(-1/2)).

    The plan prints its table.  `.initialize_(model)` and `.param_groups(model, lr=…)` apply it, `.multipliers(n)` are
    the factors that no parameter supplies, `.check(make, data)` trains narrow models and compares, `.to_json()` and
    `.save(path)` keep it for `tp.load_plan`.

    Raises ProgramError for a model that is no program and for an optimizer without a rule, EvaluationError for a base
    that is no width, NoLimitError where the blocks add up to no power of the depth.
    """
    _need_pytorch("tp.scaling")
    from tplimits.torch.importing import TorchProgram, imported
    from tplimits.torch.scaling.deriving import derived, optimizers_of, refuse_seeded, width_of_base

    # what is no optimizer is told before the model is read
    rules, width = optimizers_of(optimizer), width_of_base(base)
    if depth is None:
        net = make if isinstance(make, TorchProgram) else imported(make, example, widths, None)
        if not isinstance(make, TorchProgram):
            refuse_seeded(lambda: make(min(widths)))
        return derived(net, rules, width)
    from tplimits.torch.scaling.deepening import DEPTHS, Stack, deepened, residual_of

    α, deep = residual_of(residual), width_of_base(depth, "depth")
    if isinstance(make, TorchProgram):
        raise ProgramError("depth=…: an imported program has one depth. Give make(n, depth), which builds the model.")
    stack = Stack.of(make, lambda of_width: imported(of_width, example, widths, getattr(make, "__name__", None)))
    refuse_seeded(lambda: make(min(widths), min(DEPTHS)))
    return deepened(derived(stack.nets[min(DEPTHS)], rules, width), stack, deep, α)


def load_plan(path: Any) -> Plan:
    """The plan that `plan.save(path)` wrote; it needs no PyTorch to be read.

    Raises EvaluationError for what is no plan.
    """
    from tplimits.torch.scaling.plan import from_json

    try:
        return from_json(text_in(place_of("path", path)))
    except (OSError, ProgramError) as problem:
        raise EvaluationError(f"{path!s:.200} cannot be read: {str(problem).removesuffix('.')}.") from None


def _need_pytorch(who: str) -> None:
    if find_spec("torch") is None:
        raise ProgramError(f"{who} needs PyTorch: pip install 'tplimits[torch]'.")
