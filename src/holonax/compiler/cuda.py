"""Programs for NVIDIA's GPUs: made by LLVM as PTX, and run by the driver, which is all they need.

The driver, `libcuda`, compiles PTX for the GPU at hand. It is called through `ctypes`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

THREADS = 128  # of one block
_REGISTERS = 255  # that a thread can have
_CROWDED = 300_000  # characters of a program that has surely not room in these
_OPTIMISATION = 7  # the driver's number for how much it works on a program
_BANKED, _BANK = 512, 4096  # numbers in the memory for constants: of one array, and of all

_NAMES = {"linux": ("libcuda.so.1", "libcuda.so"), "win32": ("nvcuda.dll",)}
_CALLS = {
    "cuInit": (ctypes.c_uint,),
    "cuDeviceGetCount": (ctypes.c_void_p,),
    "cuDeviceGet": (ctypes.c_void_p, ctypes.c_int),
    "cuDeviceGetName": (ctypes.c_void_p, ctypes.c_int, ctypes.c_int),
    "cuDevicePrimaryCtxRetain": (ctypes.c_void_p, ctypes.c_int),
    "cuCtxSetCurrent": (ctypes.c_void_p,),
    "cuCtxSynchronize": (),
    "cuModuleLoadDataEx": (
        *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p),
    ),
    "cuModuleGetFunction": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p),
    "cuModuleGetGlobal_v2": (*[ctypes.c_void_p] * 3, ctypes.c_char_p),
    "cuModuleUnload": (ctypes.c_void_p,),
    "cuFuncGetAttribute": (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p),
    "cuMemAlloc_v2": (ctypes.c_void_p, ctypes.c_size_t),
    "cuMemFree_v2": (ctypes.c_uint64,),
    "cuMemcpyHtoD_v2": (ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t),
    "cuMemcpyDtoH_v2": (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t),
    "cuMemsetD8_v2": (ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t),
    "cuMemGetInfo_v2": (ctypes.c_void_p, ctypes.c_void_p),
    "cuGetErrorString": (ctypes.c_int, ctypes.c_void_p),
    "cuLaunchKernel": (
        *(ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p),
        *(ctypes.c_void_p, ctypes.c_void_p),
    ),
}


def in_bank(sizes: Iterable[int]) -> list[int | None]:
    """Where arrays of doubles that all runs share, of these sizes, begin in the memory for
    constants; None for those that are not there. It is the array `shared` of a program: operations
    read few numbers there without a register for them."""
    out, at = [], 0
    for size in sizes:
        fits = size <= _BANKED and at + size <= _BANK
        out.append(at if fits else None)
        at += size if fits else 0
    return out


class NoGPU(RuntimeError):
    """There is no GPU that could be used, or it has refused to work."""


class Driver:
    """The first GPU, as its driver offers it."""

    def __init__(self) -> None:
        self._library: Any = None
        for name in _NAMES.get(sys.platform, ()):
            try:
                self._library = ctypes.CDLL(name)
                break
            except OSError:
                continue
        if self._library is None:
            raise NoGPU("there is no NVIDIA driver on this machine (libcuda was not found)")
        for name, kinds in _CALLS.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = kinds, ctypes.c_int
        self("cuInit", 0)
        number = ctypes.c_int()
        self("cuDeviceGetCount", ctypes.byref(number))
        if number.value == 0:
            raise NoGPU("the NVIDIA driver sees no GPU")
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGet", ctypes.byref(device), 0)
        name = ctypes.create_string_buffer(100)
        self("cuDeviceGetName", name, 100, device.value)
        self.name = name.value.decode(errors="replace")
        self("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device.value)

    def __call__(self, name: str, *args: Any) -> None:
        code = getattr(self._library, name)(*args)
        if code:
            said = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(said))
            words = said.value.decode(errors="replace") if said.value else f"error {code}"
            raise NoGPU(f"the NVIDIA driver says of {name}: {words}")

    def current(self) -> None:
        """Use this GPU in the present thread."""
        self("cuCtxSetCurrent", self.context)

    def free(self) -> int:
        """Bytes of memory that are free."""
        left, whole = ctypes.c_size_t(), ctypes.c_size_t()
        self("cuMemGetInfo_v2", ctypes.byref(left), ctypes.byref(whole))
        return left.value


@cache
def driver() -> Driver:
    """The GPU; raises `NoGPU`."""
    return Driver()


class DeviceMemory:
    """Arrays on the GPU, given back at the end of a `with`."""

    def __init__(self, gpu: Driver):
        self._gpu, self._held = gpu, []

    def __enter__(self) -> DeviceMemory:
        return self

    def __exit__(self, *_: Any) -> None:
        for place in self._held:
            self._gpu("cuMemFree_v2", place)

    def empty(self, size: int, zeroed: bool = False) -> int:
        """Room for so many bytes."""
        place = ctypes.c_uint64()
        self._gpu("cuMemAlloc_v2", ctypes.byref(place), max(size, 8))
        self._held.append(place.value)
        if zeroed:
            self._gpu("cuMemsetD8_v2", place.value, 0, max(size, 8))
        return place.value

    def put(self, x: np.ndarray) -> int:
        """A copy of an array."""
        x = np.ascontiguousarray(x)
        place = self.empty(x.nbytes)
        self._gpu("cuMemcpyHtoD_v2", place, x.ctypes.data, x.nbytes)
        return place

    def get(self, place: int, shape: tuple[int, ...], kind: Any) -> np.ndarray:
        """An array that is there."""
        out = np.empty(shape, kind)
        self._gpu("cuMemcpyDtoH_v2", out.ctypes.data, place, out.nbytes)
        return out


class Kernel:
    """A program on the GPU, one thread for each run."""

    def __init__(self, ptx: str, threads: int = THREADS):
        self.gpu, self.threads = driver(), threads
        self.gpu.current()
        self._module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        crowded = len(ptx) > _CROWDED
        if not crowded:
            self._load(ptx)
            crowded = self.local() > 0 and self.registers() < _REGISTERS
            if crowded:
                self.gpu("cuModuleUnload", self._module)
        # For a program that has not room in registers the driver takes few, so that there are many
        # threads. All of these then wait for memory: with all registers it is up to three times as
        # fast, and faster still if operations stay in their order (see `order.py`), which the
        # driver changes at higher levels so that no operation waits for the one before.
        if crowded:
            everything = f".maxnreg {_REGISTERS}\n.maxntid"
            self._load(ptx.replace(".maxntid", everything, 1), {_OPTIMISATION: 1})

    def _load(self, ptx: str, options: dict[int, int] | None = None) -> None:
        text, options = ptx.encode() + b"\0", options or {}
        keys = (ctypes.c_int * len(options))(*options)
        values = (ctypes.c_void_p * len(options))(*options.values())
        self.gpu(
            *("cuModuleLoadDataEx", ctypes.byref(self._module), text),
            *(len(options), keys, values),
        )
        self.gpu("cuModuleGetFunction", ctypes.byref(self._function), self._module, b"program")

    def share(self, shared: list[np.ndarray]) -> None:
        """Put the numbers that all runs have in common into the memory for constants."""
        doubles = [x.ravel() for x in shared if x.dtype == np.dtype(float)]
        places = in_bank(x.size for x in doubles)
        bank = np.concatenate([[], *(x for x, k in zip(doubles, places) if k is not None)])
        if not bank.size:
            return
        place, room = ctypes.c_uint64(), ctypes.c_size_t()
        found = ctypes.byref(place), ctypes.byref(room)
        self.gpu("cuModuleGetGlobal_v2", *found, self._module, b"shared")
        assert room.value == bank.nbytes
        self.gpu("cuMemcpyHtoD_v2", place.value, bank.ctypes.data, bank.nbytes)

    def _attribute(self, number: int) -> int:
        found = ctypes.c_int()
        self.gpu("cuFuncGetAttribute", ctypes.byref(found), number, self._function)
        return found.value

    def registers(self) -> int:
        """How many each thread has."""
        return self._attribute(4)

    def local(self) -> int:
        """Bytes that each thread has beside its registers."""
        return self._attribute(3)

    def __call__(
        self, shared: list[np.ndarray], own: list[np.ndarray], outputs: list[Any], runs: int
    ) -> list[np.ndarray]:
        """Results (entry, run) of runs whose numbers lie as (entry, run); `outputs` are the (size,
        type, whether it is zero at first) of each."""
        gpu = self.gpu
        gpu.current()
        with DeviceMemory(gpu) as memory:
            given = [memory.put(x) for x in (*shared, *own)]
            made = [
                memory.empty(size * runs * np.dtype(kind).itemsize, zeroed)
                for size, kind, zeroed in outputs
            ]
            tables = [memory.put(np.array(x, dtype=np.uint64)) for x in (given, made)]
            self.share(shared)
            self.launch(tables[0], tables[1], runs)
            gpu("cuCtxSynchronize")
            return [
                memory.get(place, (size, runs), kind)
                for place, (size, kind, _) in zip(made, outputs, strict=True)
            ]

    def launch(self, given: int, made: int, runs: int) -> None:
        """Begin; tables of places on the GPU."""
        values = ctypes.c_uint64(given), ctypes.c_uint64(made), ctypes.c_int64(runs)
        places = (ctypes.c_void_p * 3)(*(ctypes.addressof(x) for x in values))
        blocks = -(-runs // self.threads)
        self.gpu(
            "cuLaunchKernel",
            self._function,
            blocks,
            1,
            1,
            self.threads,
            1,
            1,
            0,
            None,
            places,
            None,
        )
