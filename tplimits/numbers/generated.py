"""Generated modules: run from their text in this process; their compiled functions are kept by `jit`."""

from __future__ import annotations

import hashlib
import linecache
import sys
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType, ModuleType
from typing import Any

from tplimits.numbers import kept

#: what the names of generated modules begin with
PREFIX = "tplimits_generated_"


@lru_cache(maxsize=256)
def functions(text: str, kind: str) -> Mapping[str, Any]:
    """What a text defines, by name; `kind` begins the name of its module."""
    name = _name(text, kind)
    module, file = ModuleType(PREFIX + name), f"<{name}>"
    sys.modules[module.__name__] = module  # compiled functions refer to the module by name
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # lines for tracebacks
    exec(compile(text, file, "exec"), vars(module))
    return MappingProxyType(vars(module))


def _name(text: str, kind: str) -> str:
    return f"{kind}_{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def is_compiled(text: str, kind: str) -> bool:
    """Whether a compiled function of this text has been kept."""
    return kept.holds(f"{_name(text, kind)}.")
