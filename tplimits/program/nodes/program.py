"""The program: a frozen list of instructions with the names its author gave them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import networkx
from sympy import Expr, Symbol

from tplimits.errors import EvaluationError, ProgramError, shown
from tplimits.program.language import render
from tplimits.program.language.compose import inline
from tplimits.program.nodes.bind import bind
from tplimits.program.nodes.entries import N, constant_symbol, size_symbol, width_symbol
from tplimits.program.nodes.execution import run
from tplimits.program.nodes.frozen import FrozenDict
from tplimits.program.nodes.functions import stop_gradient
from tplimits.program.nodes.given import named_once
from tplimits.program.nodes.kinds import Initial, InitialScalar, Instruction, Nonlin, OuterNonlin, ScalarNonlin

if TYPE_CHECKING:
    from tplimits.program.nodes.stated import IndexTable


@dataclass(frozen=True)
class Known:
    """Widths and axes by name, widths as symbols, and `numbers`: all symbols that stand for numbers."""

    widths: frozenset[str]
    axes: frozenset[str]
    width_symbols: frozenset[Symbol]
    numbers: frozenset[Symbol]


def known_names(program: Program) -> Known:
    """The names of a program."""
    widths = frozenset(map(width_symbol, program.widths))
    sizes, constants = map(size_symbol, program.all_axes), map(constant_symbol, program.constants)
    return Known(
        frozenset(program.widths), frozenset(program.all_axes), widths, frozenset((N, *widths, *constants, *sizes))
    )


def _zero(s: Instruction) -> Instruction:
    kept = s.name, s.axes, s.line
    return ScalarNonlin(*kept) if s.width is None else OuterNonlin(*kept, over=s.width)


def root_axes(size_of: Mapping[str, str]) -> dict[str, str]:
    """For each axis that takes its size from another, the last in that chain (any of them in a circle).

    >>> root_axes({"a": "b", "b": "c"})
    {'a': 'c', 'b': 'c'}
    """
    found: dict[str, str] = {}
    for axis in size_of:
        # circles end at what was passed already
        chain: dict[str, None] = {}
        while axis in size_of and axis not in found and axis not in chain:
            chain[axis] = None
            axis = size_of[axis]
        found.update(dict.fromkeys(chain, found.get(axis, axis)))
    return found


@dataclass(frozen=True)
class Program:
    """A traced program: what runs at width n, and what `tplimits.derive` takes to the limit.

    `names` maps every name that a user may ask for to the position of its instruction; the
    printed name of an instruction is its own `name`.  `sizes` holds the sizes of finite axes that
    are known; `size_of` lists axes that must be as long as another.  `state` is the state of a block, `parts`
    are the blocks of a stack; `inputs` is the data of a network.
    """

    name: str
    instructions: tuple[Instruction, ...]
    returns: tuple[int, ...]
    names: Mapping[str, int] = field(hash=False)
    widths: tuple[str, ...] = ("n",)
    constants: Mapping[str, Expr | None] = field(default_factory=dict, hash=False)
    sizes: Mapping[str, Expr] = field(default_factory=dict, hash=False)
    size_of: Mapping[str, str] = field(default_factory=dict, hash=False)
    arrays: tuple[IndexTable, ...] = ()
    tables: tuple[IndexTable, ...] = ()
    arguments: tuple[int, ...] = ()
    returns_tuple: bool = False
    state: int | None = None
    inputs: tuple[int, ...] = ()
    parts: tuple[Program, ...] = ()
    #: functions of one argument that the user named, for print-outs: name → (argument, body)
    functions: Mapping[str, tuple[Symbol, Expr]] = field(default_factory=dict, hash=False, compare=False)
    #: what its author says of it; files hold what is computed and leave it out
    docstring: str = field(default="", compare=False, repr=False)
    #: why it has no values of names of its author: they are written out where they are read
    written_out: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("names", "constants", "sizes", "size_of", "functions", "written_out"):
            object.__setattr__(self, name, FrozenDict(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.instructions)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def __getitem__(self, position: int) -> Instruction:
        return self.instructions[position]

    @property
    def frozen(self) -> tuple[str, ...]:
        """Parameters that training leaves alone; imported models say which."""
        return ()

    @property
    def is_network(self) -> bool:
        """Whether it is a network: only those take data."""
        return bool(self.inputs)

    @cached_property
    def graph(self) -> networkx.DiGraph:
        """Instructions as nodes, an edge from each operand to its user."""
        graph = networkx.DiGraph(name=self.name)
        graph.add_nodes_from(range(len(self.instructions)))
        for position, instruction in enumerate(self.instructions):
            graph.add_edges_from((operand, position) for operand in instruction.operands)
        return graph

    def position(self, name: str) -> int:
        """The instruction a name stands for.

        A name bound several times stands for its last binding; `h#1` is the first.
        Raises ProgramError, with near names, when there is none.
        """
        if not isinstance(name, str):
            raise ProgramError(f'program `{self.name}` is asked for {shown(name)}; names are text, as in "return".')
        found = self.names.get(name)
        if found is None and name.endswith("#1"):
            found = next((i for i, s in enumerate(self.instructions) if s.name == name[:-2]), None)
        if found is None:
            if name in self.written_out:
                raise ProgramError(self.written_out[name])
            near = difflib.get_close_matches(name, self.names, n=3, cutoff=0.4)
            known = ", ".join(near or list(self.names)[:12])
            raise ProgramError(f"program `{self.name}` has nothing named `{name}`; its names include {known}.")
        return found

    @cached_property
    def initial_names(self) -> dict[str, int]:
        """The names under which initial data can be given: the printed ones, and those of the signature."""
        initial = {p: s.name for p, s in enumerate(self) if isinstance(s, Initial)}
        found = {name: p for p, name in initial.items()}
        for name, position in self.names.items():
            if position in initial:  # an argument that was bound again is still known as x#1
                found.setdefault(name.removesuffix("#1"), position)
        return found

    @cached_property
    def _roots(self) -> dict[str, str]:
        return root_axes(self.size_of)

    def root_axis(self, axis: str) -> str:
        """The axis whose size this axis shares."""
        return self._roots.get(axis, axis)

    def size(self, axis: str) -> Expr | None:
        """The size of a finite axis if it is known, else None."""
        return self.sizes.get(self.root_axis(axis)) if isinstance(axis, str) else None

    @property
    def other_widths(self) -> tuple[str, ...]:
        """The widths besides n."""
        return tuple(w for w in self.widths if w != "n")

    @cached_property
    def all_axes(self) -> tuple[str, ...]:
        """Every finite axis of the program, in order of first appearance."""
        seen: dict[str, None] = {}
        for instruction in self.instructions:
            seen.update(dict.fromkeys(instruction.axes))
            if isinstance(instruction, InitialScalar) and instruction.of is not None:
                seen.setdefault(instruction.of)
        for known in (*self.size_of, *self.size_of.values(), *self.sizes):
            seen.setdefault(known)
        return tuple(seen)

    @cached_property
    def known(self) -> Known:
        """Its names as sets."""
        return known_names(self)

    @cached_property
    def written(self) -> dict[Any, Any]:
        """What has been written for it, by what was asked; kept as long as the program is."""
        return {}

    def where(self, position: int) -> str:
        """How messages point at an instruction: number, name and source line."""
        instruction = self.instructions[position]
        return f"instruction {position + 1} `{instruction.name}` ({instruction.line})"

    def replace(self, **changes: Any) -> Program:
        """A copy with some fields changed."""
        return replace(self, **changes)

    def changed(self, body: Callable[[Expr], Expr]) -> Program:
        """A copy with other bodies in its instructions."""
        return self.replace(instructions=tuple(s.changed(body) for s in self))

    def rearranged(self, instructions: Iterable[Instruction], place: Callable[[int], int]) -> Program:
        """The program with other instructions, where its own stand at other places."""
        return self.replace(
            instructions=tuple(instructions),
            returns=tuple(map(place, self.returns)),
            names={name: place(p) for name, p in self.names.items()},
            arguments=tuple(map(place, self.arguments)),
            inputs=tuple(map(place, self.inputs)),
        )

    @cached_property
    def read(self) -> frozenset[int]:
        """What is returned, and all that it rests on."""
        return self.behind(self.returns)

    @property
    def output_width(self) -> str:
        """The width of what is returned first, over which a network sums its output; "n" where that is a scalar."""
        return self[self.returns[0]].width or "n"

    def behind(self, positions: Iterable[int]) -> frozenset[int]:
        """Some instructions, and all that they rest on."""
        ends = frozenset(positions)
        return ends.union(*(networkx.ancestors(self.graph, p) for p in ends))

    @cached_property
    def returned(self) -> Program:
        """The same outputs, with 0 for what none of them rests on: it can refuse nothing, and all places stay."""
        unread = {p for p, s in enumerate(self) if p not in self.read and not isinstance(s, Initial)}
        if not unread:
            return self
        return self.replace(instructions=tuple(_zero(s) if p in unread else s for p, s in enumerate(self)))

    @cached_property
    def released(self) -> Program:
        """The same values without stopped gradients: what limits are asked of, once gradients are written."""
        every = [s for program in (self, *self.parts) for s in program]
        if not any(isinstance(s, Nonlin) and s.body.has(stop_gradient) for s in every):
            return self
        written = self.changed(lambda expr: expr.replace(stop_gradient, lambda x: x))
        return written.replace(parts=tuple(part.released for part in self.parts))

    def __repr__(self) -> str:
        return render.text(self)

    def bind(self, /, **values: Any) -> Program:
        """The same program with finite sizes and symbolic constants fixed.

        Keywords are axis names (positive integers) and names of constants (numbers, or expressions
        in `tp.n`).  Raises ProgramError for a name the program does not have.

        >>> import tplimits as tp
        >>> from tplimits.program.language.trace import program
        >>> @program
        ... def scaled(x: tp.Vector["token"], *, γ):
        ...     return γ * tp.mean(x, over="token")
        >>> print(scaled.bind(token=2, γ=3))
        program scaled(x); sizes token=2
          1  x[token] = over n, entries N(0, 1)     vector
          2  return   = 3*Σ_token′1(x[token′1])/2   OuterNonlin
        returns return
        """
        return bind(self, values)

    def sized(self, sizes: Mapping[str, Any]) -> Program:
        """The same program with the axes that have no size yet fixed at those of `sizes`; None stands for none."""
        return bind(self, {a: size for a, size in sizes.items() if size is not None and self.size(a) is None})

    def run(
        self,
        n: int = 256,
        seed: int = 0,
        ratios: Mapping[str, float] | None = None,
        constants: Mapping[str, Any] | None = None,
        **arrays: Any,
    ) -> dict[str, Any]:
        """The program at finite width, with real matrices: every named value as an array, scalars as numbers.

        Keywords give initial data or constants by name (`constants=` where a name collides with an
        argument of this method); what is not given is drawn from its law with `seed`.  Vectors have
        shape (*axes, n), matrices (*axes, rows, columns); `ratios` sizes the widths other than n, and names
        of finite axes give sizes that the program leaves open.

        >>> import tplimits as tp
        >>> from tplimits.program.language.trace import program
        >>> @program
        ... def product(W: tp.Matrix, x: tp.Vector):
        ...     return W @ x
        >>> product.run(n=2, W=[[1, 1], [0, 1]], x=[1, 2])["return"].tolist()
        [3.0, 2.0]
        """
        given = named_once(constants, arrays, "run()", EvaluationError)
        return dict(run(self, n=n, seed=seed, ratios=ratios, given=given))

    def __call__(self, *values: Any, **keywords: Any) -> Any:
        """Inside another program: its instructions, inlined there."""
        return inline(self, values, keywords)
