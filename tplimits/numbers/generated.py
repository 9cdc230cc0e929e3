"""Generated modules: run from their text in this process; their compiled functions are kept by `jit`."""

from __future__ import annotations

import hashlib
import linecache
import sys
import threading
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Any

#: what the names of generated modules begin with
PREFIX = "tplimits_generated_"


#: modules that are remembered, the one that was used last at the end; more are forgotten, and run again when asked for
_LOADED: dict[str, dict[str, Any]] = {}
_MOST = 256
_LOCK = threading.RLock()


def functions(text: str, kind: str) -> Mapping[str, Any]:
    """What a text defines, by name; `kind` begins the name of its module."""
    name = f"{kind}_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    with _LOCK:
        names = _LOADED[name] = _LOADED.pop(name, {}) or _run(name, text)
        while len(_LOADED) > _MOST:
            _forget(next(iter(_LOADED)))
    return MappingProxyType(names)


def _run(name: str, text: str) -> dict[str, Any]:
    module, file = ModuleType(PREFIX + name), f"<{name}>"
    sys.modules[module.__name__] = module  # compiled functions refer to the module by name
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # lines for tracebacks
    exec(compile(text, file, "exec"), vars(module))
    return vars(module)


def _forget(name: str) -> None:
    """Let a module go: who holds its functions keeps what they need."""
    del _LOADED[name]
    sys.modules.pop(PREFIX + name, None)
    linecache.cache.pop(f"<{name}>", None)
