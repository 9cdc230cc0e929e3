"""The limit that a command is about: a target, what was given for it, and a regime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from sympy import Expr
from typer.exceptions import TyperException

from tplimits.commands import options as of
from tplimits.commands.assignments import assigned, optimizer_named
from tplimits.commands.loading import array, batch, complete, infinite_axes, load, targets_in
from tplimits.derive import derive as derive_limit
from tplimits.program.nodes.entries import axis_symbol, entries
from tplimits.program.nodes.kinds import InitialMatrix, InitialVector, MatMul
from tplimits.program.nodes.program import Program
from tplimits.regimes.known import REGIMES
from tplimits.regimes.protocol import Regime
from tplimits.terminal import working

#: the regimes by the names they have on the command line
BY_WORD: Mapping[str, type[Regime]] = {kind.word: kind for kind, _ in REGIMES}
_KNOWN = {**BY_WORD, **{kind.formerly: kind for kind, _ in REGIMES if kind.formerly is not None}}
#: what `evaluate` calls the things that options give
_ARGUMENTS = {"data": ("X", "X1"), "targets": ("error",)}
#: options that every regime has
_OF_ALL = ("regime", "seed", "set_", "size", "ratio")


@dataclass(frozen=True)
class Options:
    """What is said about a regime; None or [] where it is left out."""

    infinite: of.Infinite = field(default_factory=list)
    train: of.Train = field(default_factory=list)
    optimizer: of.Optimizer = None
    weight_decay: of.Decay = None

    @property
    def given(self) -> dict[str, Any]:
        """The options that are there."""
        return {n: v for n, v in vars(self).items() if v is not None and v is not False and v != []}

    def refuse_foreign(self, kind: type[Regime]) -> None:
        """Refuse options of other regimes."""
        for name in self.given:
            if name not in _OF_ALL and not _takes(kind, name):
                regimes = " or ".join(f"--regime {word}" for word, other in BY_WORD.items() if _takes(other, name))
                raise TyperException(f"--{name.replace('_', '-')} goes with {regimes}.")


@dataclass(frozen=True)
class NumberOptions(Options):
    """What is said about a regime and its numbers."""

    regime: of.AskedRegime = None
    data: of.Data = field(default_factory=list)
    targets: of.Targets = None
    lr: of.Rate = None
    steps: of.Times = None
    f0: of.Start = None
    method: of.Method = None
    particles: of.Particles = None
    replicates: of.Replicates = None
    seed: of.Seed = 0
    set_: of.Sets = field(default_factory=list)
    size: of.Sizes = field(default_factory=list)
    ratio: of.Ratios = field(default_factory=list)


def _takes(kind: type[Regime], option: str) -> bool:
    """Whether an option says something about a regime, or about its numbers."""
    return option in kind.options or any(a in (kind.inputs or ()) for a in _ARGUMENTS.get(option, (option,)))


def regime_named(word: str, options: Options) -> type[Regime]:
    """A regime; TyperException for words that are none, and for options of others."""
    if word not in _KNOWN:
        raise TyperException(f"--regime {word}: this version knows the regimes {', '.join(BY_WORD)}.")
    options.refuse_foreign(_KNOWN[word])
    return _KNOWN[word]


def with_numbers(target: str, options: NumberOptions) -> tuple[Any, dict[str, Any]]:
    """The limit that `evaluate` and `check` are about, and what both are given for its numbers."""
    constants, ratios = assigned("--set", options.set_), assigned("--ratio", options.ratio)
    kind = _regime_with_numbers(options.regime, options)
    given = {**inputs(kind, options), "seed": options.seed, "ratios": ratios, "constants": constants}
    return limit(kind, target, bound(target, options.size), options, constants), given


def _regime_with_numbers(asked: str | None, options: NumberOptions) -> type[Regime]:
    """Kernels where something is said about them, else width."""
    known = [word for word, kind in BY_WORD.items() if kind.inputs is not None]
    if asked is not None and (asked not in _KNOWN or _KNOWN[asked].inputs is None):
        raise TyperException(f"--regime {asked}: numbers are those of {', '.join(known)}.")
    about_kernels = options.data or options.infinite or options.train
    return regime_named(asked or ("kernels" if about_kernels else "width"), options)


def bound(target: str, sizes: Sequence[str], constants: Sequence[str] = ()) -> Program:
    """The target with sizes and constants, and sizes that leave no choice; others stay open."""
    values = {**assigned("--size", sizes), **assigned("--set", constants)}
    program: Program = load(target)
    program = program.bind(**values) if values else program
    known = inferred(program)
    return program.bind(**known) if known else program


def limit(
    kind: type[Regime], target: str, program: Program, options: Options, given: Mapping[str, Any] | None = None
) -> Any:
    """The limit of the target; of a plain program `given` is told from what numbers will need."""
    if kind.takes == "program":
        _refuse_others(program)
        complete(program, given)
    regime = kind(**_fields(kind, target, program, options))
    with working(f"deriving {program.name}"):
        return derive_limit(program, regime)


def _fields(kind: type[Regime], target: str, program: Program, options: Options) -> dict[str, Any]:
    """The fields of the regime; a network of the zoo says itself which of its axes are infinite."""
    found: dict[str, Any] = {
        "fixed": tuple(vars(options).get("fixed", ())),
        "tangent": vars(options).get("tangent", False),
        "train": tuple(options.train) or None,
        "infinite": tuple(options.infinite) or infinite_axes(target, program),
        "optimizer": optimizer_named(options.optimizer or "sgd"),
        "weight_decay": options.weight_decay or 0,
    }
    return {name: found[name] for name in kind.options if name in found}


def _refuse_others(program: Program) -> None:
    if program.state is not None:
        raise TyperException(
            f"`{program.name}` is a block, one layer of a deep network: tplimits derive --regime depth."
        )
    if program.is_network:
        raise TyperException(
            f"`{program.name}` is a network: tplimits derive --regime kernels, feature or operator, or evaluate "
            "and check with --data."
        )


def inputs(kind: type[Regime], options: NumberOptions) -> dict[str, Any]:
    """The arguments of `evaluate` and `check` that are read from files, and numbers of training."""
    taken = kind.inputs or ()
    settings = ("method", "particles", "replicates", "only")
    found: dict[str, Any] = {
        n: value for n, value in vars(options).items() if n in settings and n in taken and value != []
    }
    if "X1" in taken:
        if not 1 <= len(options.data) <= 2:
            raise TyperException("kernels are between the inputs in --data FILE: one batch, or two.")
        found |= dict(zip(("X1", "X2"), map(batch, options.data), strict=False))
    if "X" in taken:
        found |= _training(kind.word, options)
    return {name: value for name, value in found.items() if value is not None}


def _training(word: str, options: NumberOptions) -> dict[str, Any]:
    if len(options.data) != 1:
        raise TyperException(f"--regime {word} takes its inputs from --data FILE, one batch.")
    for option, value in (("targets FILE", options.targets), ("lr 0.1", options.lr), ("steps 10", options.steps)):
        if value is None:
            raise TyperException(f"--regime {word} evolves in training: add --{option}.")
    assert options.targets is not None
    return {
        "X": batch(options.data[0]),
        "error": targets_in(options.targets),
        "lr": options.lr,
        "steps": options.steps,
        "f0": None if options.f0 is None else array(options.f0),
        "checkpoint": vars(options).get("checkpoint"),
    }


def inferred(program: Program) -> dict[str, int]:
    """Open axes of which members 0, …, k are chosen by number and no other, with k + 1.

    Not where an axis is summed over, looked up, or on anything that is computed: any size from k + 1 on would do there.
    """
    found = {}
    for axis in program.all_axes:
        holders = [i for i, s in enumerate(program.instructions) if axis in s.axes]
        drawn = all(isinstance(program.instructions[i], (InitialMatrix, InitialVector)) for i in holders)
        if program.size(axis) is not None or not drawn:
            continue
        chosen = [index for i in holders for index in _read(program, i, program.instructions[i].axes.index(axis))]
        numbers = {int(i) for i in chosen if i.is_Integer}
        if chosen and all(i.is_Integer for i in chosen) and numbers == set(range(len(numbers))):
            found[axis] = len(numbers)
    return found


def _read(program: Program, source: int, place: int) -> Iterator[Expr]:
    """The indices at which an axis of an initial matrix or vector is read."""
    for s in program.instructions:
        if isinstance(s, MatMul) and s.matrix == source:
            yield s.matrix_indices[place]
        for part in fields(s):
            value = getattr(s, part.name)
            if isinstance(value, Expr):
                yield from (e.indices[place] for e in entries(value) if e.source == source)
    if source in program.returns:
        yield axis_symbol(program.instructions[source].axes[place])
