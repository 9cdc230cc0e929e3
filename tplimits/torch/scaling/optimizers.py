"""Optimizers of training scripts by name: the update function whose powers are counted, ε, and how weights decay.

ε goes with the gradient that it stands beside.  Decoupled decay multiplies weights by 1 − ηλ in a step: ηλ has to stay,
so that λ goes against the rate; so does that of updates linear in the gradient.  Coupled decay adds λw to the gradient
before it is divided by its own size: λ goes like gradient over weight.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy

from tplimits.errors import ProgramError
from tplimits.program.nodes.functions import maximum, where
from tplimits.program.optimizers.adaptive import Adagrad, Adam, NAdam, RMSProp
from tplimits.program.optimizers.entrywise import Entrywise
from tplimits.program.optimizers.linear import SGD, SignSGD
from tplimits.program.optimizers.shaped import Muon, RateByWeight

if TYPE_CHECKING:
    from tplimits.program.optimizers.recursion import Optimizer


@dataclass(frozen=True)
class Rule:
    """An optimizer of a script.

    update: its update function without ε.  eps: PyTorch's ε (None where there is none), which goes like the gradient to
    the power `eps_power`.  decoupled: whether weights decay by themselves.  decay: PyTorch's λ.
    """

    name: str
    update: Optimizer
    eps: float | None = None
    eps_power: int = 1
    decoupled: bool = False
    decay: float = 0.0
    #: of which shapes; the rest takes AdamW
    matrices_only: bool = False

    def of(self, starts_at_zero: bool) -> Optimizer:
        """The update function of a parameter."""
        if isinstance(self.update, RateByWeight):
            return RateByWeight(self.update.optimizer, started=not starts_at_zero)
        return self.update


def _lion() -> Optimizer:
    return Entrywise(
        lambda c: sympy.sign(c), states={"c": lambda g, m: 0.9 * m + 0.1 * g, "m": lambda g, m: 0.99 * m + 0.01 * g}
    )


def _adamax() -> Optimizer:
    return Entrywise(
        lambda m, u, t: where(u, m / ((1 - sympy.Rational(9, 10) ** (t + 1)) * u), 0),
        states={"m": lambda g, m: 0.9 * m + 0.1 * g, "u": lambda g, u: maximum(0.999 * u, sympy.Abs(g))},
    )


def _rules() -> dict[str, Rule]:
    """All rules; of ε = 0 and of jumps there is nothing to say where powers alone are counted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = (
            Rule("sgd", SGD()),
            Rule("momentum", SGD(momentum=0.9)),
            Rule("adam", Adam(eps=0), 1e-8),
            Rule("adamw", Adam(eps=0), 1e-8, decoupled=True, decay=1e-2),
            Rule("nadam", NAdam(eps=0), 1e-8),
            Rule("nadam decoupled", NAdam(eps=0), 1e-8, decoupled=True),
            Rule("adamax", _adamax(), 1e-8),
            Rule("rmsprop", RMSProp(eps=0), 1e-8),
            Rule("adagrad", Adagrad(eps=0), 1e-10),
            # both its ε go with the square of the gradient; then Δ(λg, λ²ε) = λ Δ(g, ε), as of gradient descent
            Rule("adadelta", SGD(), 1e-6, eps_power=2),
            Rule("lion", _lion(), decoupled=True),
            Rule("sign", SignSGD(), decoupled=True),
            Rule("adafactor", RateByWeight(SignSGD()), decoupled=True),
            Rule("muon", Muon(), decoupled=True, decay=0.1, matrices_only=True),
            Rule("muon matching adamw", Muon(match=True), decoupled=True, decay=0.1, matrices_only=True),
        )
    return {rule.name: rule for rule in found}


RULES: Mapping[str, Rule] = _rules()
#: why there is no rule
NO_RULE = {
    "radam": "its first steps are linear in the gradient, its later ones divide by it: no one power of n fits both",
    "lbfgs": "it solves for a step along past gradients",
    "rprop": "its steps depend on how often signs have changed, whatever the rate",
    "asgd": "its rate falls by a schedule of its own",
    "sparseadam": "it skips the entries without gradients",
    "shampoo": "the powers of its preconditioners are not counted",
    "without the size of weights": "its steps are not multiplied by the size of the weights (scale_parameter=False)",
    "soap": "the powers of its preconditioners are not counted",
}


def rule_of(given: Any) -> Rule:
    """The rule of an optimizer given by its name, or by PyTorch's class or object."""
    kind = given if isinstance(given, type) else type(given)
    name = given if isinstance(given, str) else kind.__name__
    key = name.lower()
    settings = getattr(given, "defaults", {}) if not isinstance(given, (str, type)) else {}
    if key == "sgd" and settings.get("momentum"):
        key = "momentum"
    if key == "muon" and settings.get("adjust_lr_fn") == "match_rms_adamw":
        key = "muon matching adamw"
    if settings.get("decoupled_weight_decay"):
        key = {"adam": "adamw", "nadam": "nadam decoupled"}.get(key, key)
    if settings.get("scale_parameter") is False:
        key = "without the size of weights"
    if key not in RULES:
        why = NO_RULE.get(key, "nothing is known of how its steps depend on gradients")
        raise ProgramError(
            f"optimizer={name!r}: there is no rule for it: {why}. There are rules for {', '.join(RULES)}."
        )
    return RULES[key]
