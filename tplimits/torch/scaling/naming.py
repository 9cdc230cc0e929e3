"""Names of parameters at any depth: what is repeated, and how deep a model is.

A plan is derived from shallow models and used with deep ones, whose blocks have names of their own.  Whatever grows in
number with the depth stands in a container, `blocks.` in `blocks.7.fc.weight`; a row of one block is that of all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from tplimits.errors import EvaluationError, ProgramError

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Names:
    """The containers of a model's blocks: at the depth L each holds slope·L + offset of them."""

    containers: Mapping[str, tuple[Fraction, Fraction]] = field(default_factory=dict)

    def template(self, name: str) -> str:
        """The name with a star for the number of the block.

        >>> Names({"blocks.": (Fraction(1), Fraction(0))}).template("blocks.7.net.0.weight")
        'blocks.*.net.0.weight'
        """
        prefix, number = self.place(name)
        return name if number is None else f"{prefix}*{name[len(prefix) + len(str(number)) :]}"

    def place(self, name: str) -> tuple[str, int | None]:
        """The container and the number of the block, if the name is that of one."""
        for prefix in self.containers:
            found = _NUMBER.match(name, len(prefix)) if name.startswith(prefix) else None
            if found and str(int(found[0])) == found[0]:
                return prefix, int(found[0])
        return "", None

    def depth(self, names: Collection[str]) -> Fraction | None:
        """L of a model with parameters of these names; None where no container tells."""
        found: dict[str, Fraction] = {}
        for prefix, (slope, offset) in self.containers.items():
            many = len({n for p, n in map(self.place, names) if p == prefix})
            found[prefix] = (many - offset) / slope
        if len(set(found.values())) > 1:
            said = ", ".join(f"{p}* as at depth {d}" for p, d in found.items())
            raise EvaluationError(f"the model has blocks of several depths: {said}; is it what make(n, depth) builds?")
        return next(iter(found.values()), None)


def containers(names: Mapping[int, Collection[str]]) -> Names:
    """What is repeated, from the names at several depths.

    >>> containers({2: ["e", "b.0.w", "b.1.w"], 4: ["e", "b.0.w", "b.1.w", "b.2.w", "b.3.w"]}).template("b.3.w")
    'b.*.w'
    """
    numbers = {depth: _numbers(many) for depth, many in names.items()}
    shallow, *deeper = sorted(names)
    found: dict[str, tuple[Fraction, Fraction]] = {}
    for prefix, first in numbers[shallow].items():
        counts = {d: len(numbers[d].get(prefix, ())) for d in names}
        if len(set(counts.values())) == 1 or any(prefix.startswith(p) and p != prefix for p in found):
            continue
        slope = Fraction(counts[deeper[-1]] - len(first), deeper[-1] - shallow)
        offset = len(first) - slope * shallow
        if any(slope * d + offset != many for d, many in counts.items()) or slope <= 0:
            raise ProgramError(
                f"there are {', '.join(f'{c} of {prefix}* at depth {d}' for d, c in counts.items())}: the depth that "
                "make(n, depth) takes is to be proportional to the number of blocks."
            )
        found[prefix] = (slope, offset)
    known = Names(found)
    templates = {depth: {known.template(n) for n in many} for depth, many in names.items()}
    for depth in deeper:
        if odd := sorted(templates[depth] ^ templates[shallow]):
            where = depth if odd[0] in templates[depth] else shallow
            other = shallow if where == depth else depth
            raise ProgramError(
                f"make(n, {where}) has the parameter `{odd[0]}`, make(n, {other}) has not: give blocks a container of "
                "their own, such as a torch.nn.ModuleList, so that all else keeps its name."
            )
    return known


def _numbers(names: Collection[str]) -> dict[str, set[int]]:
    """What stands before numbers, and the numbers; outer ones first."""
    found: dict[str, set[int]] = {}
    for name in names:
        for number in _NUMBER.finditer(name):
            found.setdefault(name[: number.start()], set()).add(int(number[0]))
    return dict(sorted(found.items(), key=lambda item: len(item[0])))
