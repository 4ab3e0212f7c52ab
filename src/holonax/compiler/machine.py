"""Machine code from LLVM's language, and functions from machine code."""

from __future__ import annotations

import ctypes
import sys
import threading
from functools import cache
from typing import Any, NamedTuple

from . import lapack

_lock = threading.Lock()  # LLVM's global state is not made for several threads at once


@cache
def binding() -> Any:
    """llvmlite, set up for this machine; None if it is not there."""
    try:
        import llvmlite.binding as llvm
    except (ImportError, OSError):
        return None
    for start in ("initialize_native_target", "initialize_native_asmprinter"):
        getattr(llvm, start)()
    return llvm


@cache
def processor() -> str:
    """The processor that code is made for, with its features and the version of LLVM."""
    llvm = binding()
    parts = _triple(), llvm.get_host_cpu_name(), _features()
    return "|".join([*parts, ".".join(map(str, llvm.llvm_version_info))])


@cache
def _features() -> str:
    return binding().get_host_cpu_features().flatten()


@cache
def _triple() -> str:
    """What LLVM calls this machine; on Windows its loader takes files of the ELF kind only."""
    triple = binding().get_process_triple()
    return f"{triple}-elf" if sys.platform == "win32" else triple


@cache
def is_x86() -> bool:
    """Whether this is a processor of Intel's or AMD's kind."""
    return _triple().startswith("x86_64")


@cache
def host_lanes() -> int:
    """How many numbers of 64 bits a vector of this processor has."""
    features = _features()
    if "+avx512f" in features:
        return 8
    return 4 if "+avx" in features else 2


class Effort(NamedTuple):
    """How much a program is worked on: LLVM's levels for the program, and for its instructions."""

    passes: int
    instructions: int


def _target(level: int) -> Any:
    llvm = binding()
    return llvm.Target.from_triple(_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=_features(), opt=level, jit=True
    )


def object_code(text: str, effort: Effort) -> bytes:
    """What a module becomes on this machine."""
    llvm = binding()
    with _lock:
        module = llvm.parse_assembly(text)
        target = _target(effort.instructions)
        if effort.passes:
            tuning = llvm.create_pipeline_tuning_options(speed_level=effort.passes)
            tuning.slp_vectorization = False
            tuning.loop_unrolling = False
            tuning.loop_vectorization = "add nuw nsw i64" in text or "@subtract" in text
            builder = llvm.create_pass_builder(target, tuning)
            builder.getModulePassManager().run(module, builder)
        return target.emit_object(module)


@cache
def _nvptx() -> Any:
    """The target for NVIDIA's GPUs, of any from Volta (2017) on."""
    llvm = binding()
    for start in ("initialize_all_targets", "initialize_all_asmprinters"):
        getattr(llvm, start)()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    return target.create_target_machine(cpu="sm_70", features="+ptx64", opt=3)


def ptx(text: str, threads: int) -> str:
    """What a module becomes for GPUs, in blocks of so many threads."""
    llvm = binding()
    with _lock:
        target = _nvptx()
        bounds = f'attributes #0 = {{ nounwind "nvvm.maxntid"="{threads}" }}'
        module = llvm.parse_assembly(f"{text}\n{bounds}\n")
        module.data_layout = str(target.target_data)
        tuning = llvm.create_pipeline_tuning_options(speed_level=2)
        tuning.slp_vectorization = tuning.loop_vectorization = tuning.loop_unrolling = False
        builder = llvm.create_pass_builder(target, tuning)
        builder.getModulePassManager().run(module, builder)
        return target.emit_assembly(module)


class Loaded(NamedTuple):
    """A function in memory, and what keeps it there."""

    call: Any
    engine: Any


_ARGUMENTS = {"p": ctypes.c_void_p, "i": ctypes.c_int64}


def load(code: bytes, arguments: str = "ppp") -> Loaded:
    """The function `program` of some object code, which takes pointers (p) and whole numbers (i);
    calls of it do not hold Python's lock."""
    llvm = binding()
    with _lock:
        lapack.provide(llvm, code)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target(1))
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        address = engine.get_function_address("program")
    kinds = [_ARGUMENTS[x] for x in arguments]
    return Loaded(ctypes.CFUNCTYPE(None, *kinds)(address), engine)
