"""Machine code from the text of a module: compiled once on a machine, kept in the cache folder."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from functools import lru_cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import scipy

from tplimits.numbers import kept

#: vectors of so many numbers are what loops over neurons and inputs work on
LANES = 8
#: how much LLVM does for speed when it chooses instructions, 0 to 3
_SPEED = 3
#: what the product of matrices of BLAS is called in modules
PRODUCT = "tplimits_dgemm"
_LOCK = threading.Lock()


def _machine() -> Any:
    """The processor of this machine.

    An engine owns the one it is given and frees it with itself, so that no two may share one.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=_SPEED,
        jit=True,
        codemodel="jitdefault",
    )


def compiled(text: str, rewritten: bool = True) -> Code:
    """The functions of a module in LLVM's assembly.

    `rewritten`: values are held in registers, and instructions combined.  That is all that loops gain from that are
    written as they are to run: the other passes of LLVM take five times as long, and save no time of a run.
    """
    with _LOCK:
        return _compiled(text, rewritten)


@lru_cache(maxsize=256)
def _compiled(text: str, rewritten: bool) -> Code:
    processor = f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    target = f"{processor} {llvmlite.__version__} {rewritten} {_SPEED}"
    name = hashlib.sha256(f"{target}\n{text}".encode()).hexdigest()[:32]
    made = kept.read(f"loops_{name}.o")
    if made is None:
        made = _made(text, rewritten)
        kept.write(f"loops_{name}.o", made)
    if PRODUCT in text:
        llvm.add_symbol(PRODUCT, _product())
    return Code(made)


def _made(text: str, rewritten: bool) -> bytes:
    module = llvm.parse_assembly(text)
    module.verify()
    target = _machine()
    if rewritten:
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.run(module, llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options()))
    return bytes(target.emit_object(module))


@lru_cache(maxsize=1)
def _product() -> int:
    """The address of BLAS's product of matrices, which SciPy hands to compiled code in a capsule."""
    capsule = scipy.linalg.cython_blas.__pyx_capi__["dgemm"]
    python = ctypes.pythonapi
    python.PyCapsule_GetName.restype, python.PyCapsule_GetPointer.restype = ctypes.c_char_p, ctypes.c_void_p
    python.PyCapsule_GetName.argtypes = [ctypes.py_object]
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return int(python.PyCapsule_GetPointer(capsule, python.PyCapsule_GetName(capsule)))


class Code:
    """Compiled functions, which take pointers and whole numbers and give a whole number."""

    def __init__(self, made: bytes) -> None:
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(made))
        self._engine.finalize_object()

    def function(self, name: str, arguments: int) -> Any:
        """A function of so many arguments, all of them addresses or whole numbers."""
        address = self._engine.get_function_address(name)
        function: Any = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)(address)
        function.code = self  # its instructions are freed with the engine
        return function
