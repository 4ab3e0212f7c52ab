"""Process-wide set-up done once, when holonax is imported.

JAX is switched to 64 bit. For what our own compiler (`compiler/`) leaves to XLA, the XLA CPU
backend is told to compile a small `while` loop as one function instead of dispatching its pieces,
and to run a program in the thread that calls it: handing it to another one and waiting there costs
a short run more than its steps. The backend reads its options when it starts, so this must happen
before the first JAX computation of the process.

What XLA compiles is kept on disk and read again by later processes: in the folder that JAX is told
of, else in that of HOLONAX_CACHE, else in holonax/jax below the user's cache folder. With
HOLONAX_CACHE=off nothing is kept. Programs of our own compiler are kept by `compiler/store.py`.
"""

import atexit
import gc
import os
import warnings
from typing import Any, NoReturn

# Importing makes many objects and drops few: looking for those is a tenth of its time.
_COLLECTING = gc.isenabled()
gc.disable()

import jax  # noqa: E402

from ._cache import cache_folder, is_private, writable  # noqa: E402
from ._collecting import collect_again, leave_the_rest  # noqa: E402

_OPTION = "xla_cpu_small_while_loop_byte_threshold"
_THRESHOLD = 10_000_000
_FLAG = "--xla_backend_extra_options="
_ASYNCHRONOUS = "jax_cpu_enable_async_dispatch"
_FORKED = (
    "holonax: this process was forked from one in which JAX had already computed, and it cannot "
    "compile in a fork. Start processes with multiprocessing.get_context('spawn'), or fork before "
    "the first run."
)


def _with_small_loop_option(flags: str) -> str:
    """`flags` with our backend option added beside whatever the user has."""
    if _OPTION in flags:
        return flags
    words = flags.split()
    for i, word in enumerate(words):
        if word.startswith(_FLAG):
            words[i] = f"{word},{_OPTION}={_THRESHOLD}"
            return " ".join(words)
    return " ".join([*words, f"{_FLAG}{_OPTION}={_THRESHOLD}"])


def _backend_has_started() -> bool:
    from jax._src import xla_bridge

    return xla_bridge.backends_are_initialized()


def _keep_programs() -> None:
    """Turn on JAX's cache of compiled programs, unless the user has said otherwise."""
    folder = cache_folder()
    if folder is None or jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    folder = folder if os.environ.get("HOLONAX_CACHE") else folder / "jax"
    if not writable(folder) or not is_private(folder):
        return  # JAX would warn of each program, or execute what others have put there
    jax.config.update("jax_compilation_cache_dir", str(folder))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


_forked_from_xla = False  # whether this process is a copy of one that had started XLA


def _after_fork() -> None:
    """XLA works in threads, and a fork copies none of them: the copy would wait for them forever.
    So what needs XLA says so there, and what needs none goes on."""
    global _forked_from_xla
    if not _backend_has_started():
        return
    from jax._src import compiler, xla_bridge

    def refused(*_: object, **__: Any) -> NoReturn:
        raise RuntimeError(_FORKED)

    _forked_from_xla = True
    for module, name in (
        (compiler, "compile_or_get_cached"),
        (xla_bridge, "get_backend"),
        (xla_bridge, "backends"),
    ):
        if hasattr(module, name):
            setattr(module, name, refused)


def refuse_after_fork() -> None:
    """Refuse to compile in a fork of a process that had started XLA."""
    if _forked_from_xla:
        raise RuntimeError(_FORKED)


def check_precision(owner: str) -> None:
    """Refuse to work where JAX has been switched back to 32 bit after the import."""
    if not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        raise RuntimeError(
            f"{owner}: JAX was switched to 32 bit after holonax was imported, which needs 64 bit "
            'to hold constraints. Take back jax.config.update("jax_enable_x64", False).'
        )


def imported() -> None:
    """What is to be done when all of holonax is there: garbage is collected again."""
    collect_again(_COLLECTING)


def configure() -> None:
    """Switch JAX to float64, keep what it compiles, and ask for compiled small loops, run where
    they are called."""
    jax.config.update("jax_enable_x64", True)
    atexit.register(leave_the_rest)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
    _keep_programs()
    if _ASYNCHRONOUS.upper() not in os.environ:
        jax.config.update(_ASYNCHRONOUS, False)
    flags = os.environ.get("XLA_FLAGS", "")
    if _OPTION in flags:
        return
    if _backend_has_started():
        warnings.warn(
            "holonax was imported after JAX's first computation: what is left to XLA, such as "
            "large mechanisms, will run slower. Import holonax before computing with JAX.",
            stacklevel=3,
        )
        return
    os.environ["XLA_FLAGS"] = _with_small_loop_option(flags)


configure()
