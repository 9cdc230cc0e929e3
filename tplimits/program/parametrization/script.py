"""What to type into a training script: initial standard deviations and learning rates of weights without prefactors.

The script trains W = n^(−a_out − a) w itself, with the gradient G = n^(a + a_out) g, so

    std W = n^(−a_out − a − b),    ΔW = −η n^(−a_out − a − c) Q_t(n^(d − a − a_out) G_0, …),

with a_out for readouts only.  An optimizer of degree 1 takes the power inside of Q into the rate, one of degree 0
drops it, any other takes it as ε n^(a + a_out − d).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr

from tplimits.errors import ProgramError, shown
from tplimits.program.network.parameters import at_rest
from tplimits.program.nodes.entries import N
from tplimits.program.nodes.given import positive_number
from tplimits.program.parametrization.roles import roles

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.program.optimizers.recursion import Optimizer
    from tplimits.program.parametrization.exponents import Exponents
    from tplimits.program.parametrization.table import Parametrization


@dataclass(frozen=True)
class Multiplier:
    """One row: powers of n of the initial standard deviation, the learning rate, and ε (None where none is seen)."""

    name: str
    kind: str
    std: Expr
    lr: Expr
    eps: Expr | None


@dataclass(frozen=True)
class Script:
    """The rows of all parameters; `at` gives numbers for a width, relative to a width where rates were tuned."""

    rows: tuple[Multiplier, ...]

    def __iter__(self) -> Any:
        return iter(self.rows)

    def __getitem__(self, name: str) -> Multiplier:
        for row in self.rows:
            if row.name == name:
                return row
        raise ProgramError(f"there is no parameter `{name}`; there are {', '.join(r.name for r in self.rows)}.")

    def at(self, n: Any, base: Any = 1) -> dict[str, dict[str, float]]:
        """Standard deviations at width n, and factors on the rate and on ε that were found at width `base`."""
        width, tuned = positive_number("n", n, ProgramError), positive_number("base", base, ProgramError)
        if any(e is not None and e.free_symbols for r in self.rows for e in (r.std, r.lr, r.eps)):
            raise ProgramError("the exponents have symbols; give numbers: .substituted({…}) of the parametrization.")
        found = {}
        try:
            for r in self.rows:
                found[r.name] = {"std": width ** float(r.std), "lr": (width / tuned) ** float(r.lr)}
                if r.eps is not None:
                    found[r.name]["eps"] = (width / tuned) ** float(r.eps)
        except OverflowError:
            widths = f"at({shown(n)}, base={shown(base)})"
            raise ProgramError(f"{widths}: powers of them leave the range of doubles.") from None
        return found

    def __repr__(self) -> str:
        lines = [("parameter", "kind", "initial std", "lr ×", "ε ×")]
        for r in self.rows:
            lines.append((r.name, r.kind, _shown(r.std), _shown(r.lr), "—" if r.eps is None else _shown(r.eps)))
        widths = [max(len(row[i]) for row in lines) for i in range(5)]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in lines)


def script(network: Program, parametrization: Parametrization, optimizer: Any) -> Script:
    """The table of a network for one optimizer, or for optimizers by parameter."""
    kinds, rest = roles(network).kinds, at_rest(network)
    rows = []
    for name, e in parametrization.of(network).items():
        if name in rest:
            continue
        out = parametrization.a_out if kinds[name] == "readout" else sympy.S.Zero
        chosen: Optimizer = optimizer[name] if isinstance(optimizer, Mapping) else optimizer
        rows.append(_row(name, kinds[name], e, out, chosen))
    return Script(tuple(rows))


def _row(name: str, kind: str, e: Exponents, out: Expr, optimizer: Optimizer) -> Multiplier:
    inside = e.d - e.a - out
    lr = -(out + e.a + e.c + optimizer.extra_power(kind, e))
    if optimizer.degree == 1:
        return Multiplier(name, kind, -(out + e.a + e.b), lr + inside, None)
    return Multiplier(name, kind, -(out + e.a + e.b), lr, None if optimizer.degree == 0 else -inside)


def _shown(power: Expr) -> str:
    return str(N**power).replace("1/n", "n**-1").replace("1/sqrt(n)", "n**(-1/2)").replace("sqrt(n)", "n**(1/2)")
