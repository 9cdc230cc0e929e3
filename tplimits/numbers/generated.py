"""Generated modules: written to a cache folder under a name that is their content, compiled once on a machine."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pathlib
import sys
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import platformdirs


def cache_folder() -> pathlib.Path:
    """Where generated modules live: $TPLIMITS_CACHE, or the user's cache folder."""
    chosen = os.environ.get("TPLIMITS_CACHE")
    return pathlib.Path(chosen) if chosen else pathlib.Path(platformdirs.user_cache_dir("tplimits"))


@lru_cache(maxsize=256)
def functions(text: str, kind: str) -> Mapping[str, Any]:
    """What a text defines, by name; it is written to the cache folder, `kind` begins the name of its file."""
    name = _name(text, kind)
    try:
        path = _written(cache_folder(), name, text)
    except OSError:  # a read-only home: compile for this process only
        path = _written(pathlib.Path(tempfile.mkdtemp(prefix="tplimits-")), name, text)
    spec = importlib.util.spec_from_file_location(f"tplimits_generated_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Numba's cache refers to the module by name
    spec.loader.exec_module(module)
    return MappingProxyType(vars(module))


def _name(text: str, kind: str) -> str:
    return f"{kind}_{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def is_compiled(text: str, kind: str) -> bool:
    """Whether Numba has kept a compiled function of this text."""
    return any((cache_folder() / "__pycache__").glob(f"{_name(text, kind)}.*.nbi"))


def _written(folder: pathlib.Path, name: str, text: str) -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    if not path.exists():
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(temporary, path)  # never a half-written module
    return path
