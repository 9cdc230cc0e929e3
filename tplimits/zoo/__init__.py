"""Ready programs, from one matrix product to attention.

Every program that stands at the top level of a file here is an entry under its own name, described by its docstring;
finite axes have sizes, so that each can be derived, evaluated and checked as it is.

>>> import tplimits
>>> entry = get("tied_relu")
>>> tplimits.derive(entry.program).braket("z", "z")
3/4
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from tplimits.errors import ProgramError
from tplimits.program.nodes.program import Program
from tplimits.zoo import kernels, layered, networks, outer_products, polynomials, scalars, tied
from tplimits.zoo.entry import ZooEntry

#: the files in reading order
_FILES = (polynomials, tied, kernels, outer_products, scalars, layered)


def _entries(file: ModuleType) -> list[ZooEntry]:
    return [ZooEntry.described(p, p.docstring) for p in vars(file).values() if isinstance(p, Program)]


#: all programs of the zoo by name, in reading order
PROGRAMS: Mapping[str, ZooEntry] = MappingProxyType({e.name: e for file in _FILES for e in _entries(file)})

#: all networks, in reading order; they are derived in a regime, such as tp.Kernels()
NETWORKS: Mapping[str, ZooEntry] = MappingProxyType({e.name: e for file in networks.FILES for e in _entries(file)})


def get(name: str) -> ZooEntry:
    """The entry of a name, of a program or a network.

    Raises ProgramError, with near names, when there is none.
    """
    known = {**PROGRAMS, **NETWORKS}
    if not isinstance(name, str) or name not in known:
        near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
        hint = f"near names are {', '.join(near)}" if near else f"there are {', '.join(known)}"
        raise ProgramError(f"the zoo has no program `{name}`; {hint}.")
    return known[name]


__all__ = ["NETWORKS", "PROGRAMS", "ZooEntry", "get"]
