"""The plan of a model: its program's powers, and PyTorch's names and shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import networkx
import torch

from tplimits.errors import EvaluationError, ProgramError, shown
from tplimits.program.nodes.given import whole_number
from tplimits.program.nodes.kinds import Avg, MatMul
from tplimits.program.optimizers.linear import Frozen
from tplimits.program.parametrization.roles import roles
from tplimits.regimes.classification.derivation.powers_within import damped_scores
from tplimits.regimes.classification.derivation.rates import MaximalRates, ParameterPowers, maximal_rates
from tplimits.regimes.classification.derivation.sizes import HALF, NOTHING
from tplimits.torch.scaling.optimizers import Rule, rule_of
from tplimits.torch.scaling.plan import Plan
from tplimits.torch.scaling.table import Dimension, Row

if TYPE_CHECKING:
    from tplimits.program.nodes.program import Program
    from tplimits.torch.importing import TorchProgram


def width_of_base(base: Any, what: str = "base") -> int:
    """The base, if it is a width or a depth."""
    number = whole_number(base)
    if number is None or number < 1:
        size = "width" if what == "base" else what
        raise EvaluationError(f"{what}={shown(base)}: give the {size} where rates were tuned, a whole number.")
    return number


def refuse_seeded(make: Callable[[], Any]) -> None:
    """ProgramError where make sets the seed of random numbers: all models would start with the same ones."""
    states = []
    with torch.random.fork_rng(devices=()):
        for seed in (1, 2):
            # two seeds of the outside: a make that sets its own ends in one state
            torch.manual_seed(seed)
            make()
            states.append(torch.get_rng_state())
    if torch.equal(*states):
        raise ProgramError(
            "make sets the seed of random numbers (torch.manual_seed), so that what it draws cannot be told from fixed "
            "numbers. Set the seed before make is called."
        )


def derived(net: TorchProgram, chosen: Mapping[str, Rule], base: int) -> Plan:
    """The plan of an imported model; see `tplimits.torch.door.scaling`."""
    if not net.built.is_readout:
        raise ProgramError(
            f"`{net.name}` returns neurons; how they move depends on what reads them. Give a make(n) with its head."
        )
    frozen = set(net.frozen)
    names = list(net.parametrization.of(net))
    rules = {name: _rule(chosen, net, name) for name in names}
    updates = {name: Frozen() if name in frozen else rules[name].of(net.entries[name].starts_at_zero) for name in names}
    found = maximal_rates(_as_it_stays(net), updates)
    rows = [
        _row(net, found.parameters[name], rules[name], name in frozen, base)
        for name in names
        if _is_parameter(net, name)
    ]
    rows += _unread(net, chosen)
    scores = {_called(net, name): p for name, p in found.scores.items()}
    trained = [row for row in rows if row.role not in ("frozen", "unused")]
    said = "+".join(sorted({row.optimizer for row in trained or rows}))
    norm = Fraction(0) if found.norm == NOTHING else Fraction(found.norm)
    return Plan(net.name, said, base, tuple(rows), found.output, scores, _left(found), norm)


def _as_it_stays(net: TorchProgram) -> Program:
    """The network with normal entries; what no script sets, buffers, keeps the powers of n that the model gives it."""
    network = net.gaussian()
    natural = {name: HALF if kind == "matrix" else Fraction(0) for name, kind in roles(network).kinds.items()}
    off = {name: net.entries[name].power - p for name, p in natural.items() if not _is_parameter(net, name)}
    small: dict[int, Fraction] = {}
    for p, s in enumerate(network):
        if isinstance(s, (MatMul, Avg)):
            matrix = small.get(s.matrix, Fraction(0)) if isinstance(s, MatMul) else 0
            # products and averages hand on what a buffer is small by; functions are damped where they read it
            small[p] = small.get(int(s.operand.source), Fraction(0)) + matrix
        elif s.name in off:
            small[p] = off[s.name]
    return damped_scores(network, {p: power for p, power in small.items() if power})


def optimizers_of(given: Any) -> Mapping[str, Rule]:
    """Rules for matrices and for all the rest."""
    if isinstance(given, Mapping):
        if set(given) != {"matrix", "rest"}:
            raise ProgramError(f'optimizer={given!r}: give one optimizer, or {{"matrix": …, "rest": …}}.')
        chosen = {key: rule_of(value) for key, value in given.items()}
        if chosen["rest"].matrices_only:
            raise ProgramError(f'"rest": {chosen["rest"].name!r} trains matrices alone: give another one, as "adamw".')
        return chosen
    rule = rule_of(given)
    return {"matrix": rule, "rest": rule_of("adamw") if rule.matrices_only else rule}


def _rule(chosen: Mapping[str, Rule], net: TorchProgram, name: str) -> Rule:
    tensor = net.built.found.graph.tensors[0][name]
    is_matrix = len([d for d in _shape(net, name) if d.ratio]) == 2 and tensor.ndim == 2
    if chosen["matrix"].matrices_only:  # orthogonalised updates are those of two-dimensional arrays
        return chosen["matrix"] if is_matrix else chosen["rest"]
    wide = len([d for d in _shape(net, name) if d.ratio])
    return chosen["matrix"] if wide == 2 else chosen["rest"]


def _is_parameter(net: TorchProgram, name: str) -> bool:
    return net.built.found.graph[net.built.weights[name]].kind == "parameter"


def _row(net: TorchProgram, powers: ParameterPowers, rule: Rule, frozen: bool, base: int) -> Row:
    name = powers.name
    entries = net.entries[name]
    known = entries.shape not in ("constant", "given") or entries.power != 0
    aliases = net.built.found.graph.aliases.get(name, (name,))
    role = "frozen" if frozen else _role(net, powers)
    random = entries.shape not in ("constant", "given")
    rate = powers.rate if powers.rate is not None else Fraction(0)
    gradient = Fraction(powers.gradient) if powers.gradient != NOTHING else Fraction(0)
    return Row(
        names=(name, *(a for a in aliases if a != name)),
        role=role,
        optimizer=rule.name,
        shape=_shape(net, name),
        std=entries.std * base ** -float(entries.power) if random else None,
        started=-entries.power if known else None,
        initial=powers.std,
        rate=rate,
        eps=None if rule.eps is None else rule.eps_power * gradient,
        decay=_decay(rule, powers.std, rate, gradient),
        early=_early(rule, powers, gradient),
        gradient=gradient,
    )


def _decay(rule: Rule, std: Fraction, rate: Fraction, gradient: Fraction) -> Fraction:
    """The power of λ: ηλ stays, or λw goes like the gradient that it is added to."""
    if rule.decoupled or (rule.update.degree == 1 and rule.eps is None):
        return -rate
    return gradient - std


def _early(rule: Rule, powers: ParameterPowers, gradient: Fraction) -> Fraction:
    """How much smaller the first steps are, where they are linear in the gradient."""
    if rule.update.degree == 0 or powers.first_gradient == NOTHING:
        return Fraction(0)
    return min(Fraction(powers.first_gradient) - gradient, Fraction(0))


def _role(net: TorchProgram, powers: ParameterPowers) -> str:
    if powers.kind == "matrix":
        return "hidden matrix"
    random = net.entries[powers.name].shape not in ("constant", "given")
    if (powers.std < 0 and powers.kind in ("readout", "vector")) or (powers.kind == "readout" and random):
        return "readout"
    if powers.kind == "scalar":
        return "finite"
    number = net.built.weights[powers.name]
    graph = net.built.found.graph
    if any(graph[r].op == "embedding" for r in graph.readers.get(number, ())):
        return "embedding"
    return "input weight" if len(_shape(net, powers.name)) > 1 else "bias or gain"


def _shape(net: TorchProgram, name: str) -> tuple[Dimension, ...]:
    graph = net.built.found.graph
    return _dimensions([t[name].shape for t in graph.tensors], graph.widths, name)


def _dimensions(shapes: list[Any], widths: tuple[int, ...], name: str) -> tuple[Dimension, ...]:
    found = []
    for sizes in zip(*shapes, strict=True):
        if len(set(sizes)) == 1:
            found.append(Dimension(size=int(sizes[0])))
            continue
        ratios = {Fraction(int(s), n) for s, n in zip(sizes, widths, strict=True)}
        if len(ratios) > 1:
            raise ProgramError(
                f"`{name}` has {sizes} entries along a dimension at the widths {widths}: no multiple of n."
            )
        found.append(Dimension(ratios.pop()))
    return tuple(found)


def _unread(net: TorchProgram, chosen: Mapping[str, Rule]) -> list[Row]:
    """Parameters that the output does not depend on."""
    graph = net.built.found.graph
    known = {a for name in net.built.weights for a in graph.aliases.get(name, (name,))} | set(net.built.weights)
    every = [dict(m.named_parameters()) for m in graph.modules]
    zero = Fraction(0)
    rows = []
    for name in every[0]:
        if name not in known:
            shape = _dimensions([m[name].shape for m in every], graph.widths, name)
            rule = chosen["rest"]
            rows.append(
                Row(
                    (name,),
                    "unused",
                    rule.name,
                    shape,
                    None,
                    None,
                    zero,
                    zero,
                    None if rule.eps is None else zero,
                    zero,
                )
            )
    return rows


def _called(net: TorchProgram, name: str) -> str:
    """What a value is made of, in names of modules."""
    graph, names = net.graph, {s.name: p for p, s in enumerate(net)}
    behind = networkx.ancestors(graph, names[name])
    made = {
        net[p].name
        for p in behind
        if not isinstance(net[p], MatMul) and net[p].operands and not net[p].name.startswith("_")
    }
    nearest = [
        net[p].name
        for p in sorted(behind, reverse=True)
        if net[p].name in made and not any(q in behind and net[q].name in made for q in networkx.descendants(graph, p))
    ]
    return f"scores of {', '.join(nearest[:2])}" if nearest else f"scores {name}"


def _left(found: MaximalRates) -> dict[str, Fraction]:
    known = {name for name in found.left if not name.startswith("_")} or set(found.left)
    return {name: Fraction(p) for name, p in found.left.items() if name in known}
