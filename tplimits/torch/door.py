"""`tp.from_torch`, `tp.scaling`: the doors to PyTorch, which is an extra and loaded behind them alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tplimits.errors import EvaluationError, ProgramError

if TYPE_CHECKING:
    from tplimits.torch.importing import TorchProgram
    from tplimits.torch.scaling.plan import Plan


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
    _need_pytorch("tp.from_torch")
    from tplimits.torch.importing import imported

    return imported(make, example, widths, name)


def scaling(
    make: Callable[[int], Any] | TorchProgram,
    example: Any = None,
    optimizer: Any = "adamw",
    base: int = 64,
    widths: Sequence[int] = (64, 128, 256),
) -> Plan:
    """What a training script has to set as a model is widened, so that every layer learns at every width.

    make(n) builds the model and example is what it is called with, as in `tp.from_torch`, whose result will do for
    make, too.  optimizer: a name such as "adamw", "sgd", "muon" (whose rest takes AdamW), PyTorch's class or object,
    or {"matrix": …, "rest": …}.  base: the width where rates were tuned; there, every factor is 1.

    The plan prints its table.  `.initialize_(model)` and `.param_groups(model, lr=…)` apply it, `.multipliers(n)` are
    the factors that no parameter supplies, `.check(make, data)` trains narrow models and compares, `.to_json()` and
    `.save(path)` keep it for `tp.load_plan`.

    Raises ProgramError for a model that is no program and for an optimizer without a rule, EvaluationError for a base
    that is no width.
    """
    _need_pytorch("tp.scaling")
    from tplimits.torch.importing import TorchProgram, imported
    from tplimits.torch.scaling.deriving import derived, optimizers_of, width_of_base

    # what is no optimizer is told before the model is read
    rules, width = optimizers_of(optimizer), width_of_base(base)
    net = make if isinstance(make, TorchProgram) else imported(make, example, widths, None)
    return derived(net, rules, width)


def load_plan(path: Any) -> Plan:
    """The plan that `plan.save(path)` wrote; it needs no PyTorch to be read.

    Raises EvaluationError for what is no plan.
    """
    from tplimits.torch.scaling.plan import from_json

    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError, TypeError) as problem:
        raise EvaluationError(f"{path!s:.200} cannot be read: {problem}.") from problem
    return from_json(text)


def _need_pytorch(who: str) -> None:
    if find_spec("torch") is None:
        raise ProgramError(f"{who} needs PyTorch: pip install 'tplimits[torch]'.")
