"""Functions compiled by Numba whose machine code is kept between processes.

Numba's own cache writes beside the source or into a home, stops the import where it can do neither, unpickles whatever
lies there, and does not notice that a function called by another has changed.  Here the name of a file is a digest of
the function and of all that it calls, and what `kept` does not vouch for is compiled.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy
from numba.core import compiler, serialize
from numba.core.dispatcher import Dispatcher

from tplimits.numbers import kept
from tplimits.numbers.generated import PREFIX


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`numba.njit`, with the compiled function kept for later processes."""
    if function is None:
        return lambda given: njit(given, **options)
    # nothing here hands functions to compiled code as values, which is what the wrapper in C would be for
    chosen: dict[str, Any] = {"no_cfunc_wrapper": True, **options}
    made: Any = numba.njit(**chosen)(function)
    if hasattr(made, "_cache"):  # NUMBA_DISABLE_JIT leaves functions as they are
        made._cache = Kept(made, made.py_func)
    return made


class Kept:
    """What Numba asks of a cache for one function: `made` is all that its code depends on."""

    #: Numba prints it among statistics
    cache_path = None

    def __init__(self, made: Any, function: Callable[..., Any]) -> None:
        self._made, self._function, self._digest = made, function, ""

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled function of a signature, None if it has to be compiled."""
        context.refresh()
        content = kept.read(self._name(signature, context.codegen()))
        if content is None:
            return None
        try:
            return compiler.CompileResult._rebuild(context, *pickle.loads(content))
        # trusted by `kept`, yet a cache may never be a reason to fail
        except Exception:  # of another version in spite of its name, or whatever Numba finds in it: compile
            return None

    def save_overload(self, signature: Any, found: Any) -> None:
        """Keep a compiled function, if it can be used in other processes: addresses of this one cannot."""
        if found.library.has_dynamic_globals or any(not part.can_cache for part in found.lifted):
            return
        kept.write(self._name(signature, found.codegen), serialize.dumps(found._reduce()))

    def _name(self, signature: Any, codegen: Any) -> str:
        if not self._digest:
            self._digest = _digest_of(self._made)
        about = (self._digest, str(signature), codegen.magic_tuple(), sys.version, *_VERSIONS)
        key = hashlib.sha256(repr(about).encode()).hexdigest()[:32]
        return f"{self._function.__module__.removeprefix(PREFIX)}.{self._function.__name__}.{key}"

    def enable(self) -> None:
        """Asked for by Numba."""

    disable = flush = enable


_VERSIONS = (numba.__version__, llvmlite.__version__, numpy.__version__)


def _digest_of(made: Any) -> str:
    """A digest of a compiled function, of those it calls, of theirs, and of the numbers they read."""
    digest = hashlib.sha256()
    _Reading(digest.update).value(made)
    return digest.hexdigest()


class _Reading:
    """Functions as bytes: what they do, not where they stand."""

    def __init__(self, put: Callable[[bytes], None]) -> None:
        self._put, self._seen = put, set[int]()

    def value(self, found: Any) -> None:
        """One value that a function may read."""
        if isinstance(found, Dispatcher):
            self._say(sorted(found.targetoptions.items(), key=str))
            self.value(found.py_func)
        elif isinstance(found, FunctionType):
            self._function(found)
        elif isinstance(found, numpy.ndarray):
            self._say((found.dtype.str, found.shape))
            self._put(numpy.ascontiguousarray(found).tobytes())
        elif isinstance(found, (tuple, list, set, frozenset, Mapping)):
            self._say(type(found).__name__)
            for part in found if isinstance(found, (tuple, list)) else sorted(found, key=repr):
                self.value(part)
                if isinstance(found, Mapping):
                    self.value(found[part])
        elif isinstance(found, CodeType):
            self._code(found)
        elif isinstance(found, ModuleType):
            self._say(found.__name__)
        elif hasattr(found, "_defn"):  # code that Numba is told to write
            self.value(found._defn)
        else:
            self._say(
                found if isinstance(found, (bool, int, float, complex, str, bytes, numpy.generic)) else type(found)
            )

    def _function(self, function: FunctionType) -> None:
        # libraries are named by their versions; a function that calls itself would go on for ever
        if id(function) in self._seen or not _is_own(function.__module__):
            self._say(function.__qualname__)
            return
        self._seen.add(id(function))
        self._code(function.__code__)
        for default in function.__defaults__ or ():
            self.value(default)
        names = sorted(_names(function.__code__))
        for name in names:
            if name in function.__globals__:
                found = function.__globals__[name]
                self._say(name)
                self.value(found)
                if isinstance(found, ModuleType) and _is_own(found.__name__):
                    for inner in names:  # module.function: which belongs to which is not told apart
                        self.value(getattr(found, inner, None))
        for cell in function.__closure__ or ():
            self.value(cell.cell_contents)

    def _code(self, code: CodeType) -> None:
        # the code, not the lines: a comment or a moved function compiles nothing anew
        self._put(code.co_code)
        self._say((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount))
        for constant in code.co_consts:
            self.value(constant)

    def _say(self, found: Any) -> None:
        self._put(repr(_sorted(found)).encode() + b"\0")


def _sorted(found: Any) -> Any:
    """Sets in an order that does not change with the seed of hashes."""
    if isinstance(found, (set, frozenset)):
        return sorted(found, key=repr)
    return type(found)(map(_sorted, found)) if type(found) in (tuple, list) else found


def _names(code: CodeType) -> set[str]:
    """What a function and those inside it read by name."""
    return set(code.co_names).union(*(_names(c) for c in code.co_consts if isinstance(c, CodeType)))


def _is_own(module: str | None) -> bool:
    """Whether a module changes without its version: one of this package, or of its user."""
    return (module or "").split(".")[0] not in {"numba", "numpy", "llvmlite", "math", "scipy", "builtins", "cmath"}
