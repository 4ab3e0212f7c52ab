"""The process that holonax runs in: without a home, forked, interrupted while it compiles."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from sections import in_part

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

MODEL = """
import holonax as hx

def pendulum(mass=1.0):
    model = hx.Model()
    model.planar_body("bar", mass, 0.1, position=(0.5, 0.0))
    model.revolute("pin", "ground", "bar", at=(0.0, 0.0))
    return model
"""


def python(script, *, cwd=None, options=(), timeout=120, **environment):
    """What a script of its own process prints; a variable that is None is taken away."""
    given = {k: v for k, v in {**os.environ, **environment}.items() if v is not None}
    done = subprocess.run(
        [sys.executable, *options, "-c", MODEL + textwrap.dedent(script)],
        cwd=cwd,
        env=given,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return done.returncode, done.stdout, done.stderr


# -- no home -----------------------------------------------------------------------------------

NO_CACHE = {
    "HOLONAX_CACHE": None,
    "JAX_COMPILATION_CACHE_DIR": None,
    "XDG_CACHE_HOME": None,
}
RUN = "print(pendulum().build()[1].diagnosis)"


@pytest.mark.parametrize("home", in_part([None, "", "/proc/nobody"], {"None", ""}))
def test_a_process_without_a_home_works_and_leaves_nothing_behind(home, tmp_path):
    nobody = """
    import pwd
    def unknown(uid):
        raise KeyError(uid)
    pwd.getpwuid = unknown
    """
    script = textwrap.dedent(nobody) + MODEL + RUN
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", script],
        cwd=tmp_path,
        env={
            **{k: v for k, v in os.environ.items() if k not in (*NO_CACHE, "HOME")},
            **({} if home is None else {"HOME": home}),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "mobility 1" in done.stdout, done.stderr
    assert not done.stderr and not list(tmp_path.iterdir())


def test_programs_are_kept_below_a_cache_folder_that_is_absolute_only(tmp_path):
    code, out, err = python(RUN, cwd=tmp_path, **NO_CACHE, HOME=str(tmp_path / "home"))
    assert code == 0 and "mobility 1" in out, err
    assert (tmp_path / "home" / ".cache" / "holonax").is_dir()
    python(RUN, cwd=tmp_path, **{**NO_CACHE, "XDG_CACHE_HOME": "here"}, HOME=str(tmp_path / "home"))
    assert [x.name for x in tmp_path.iterdir()] == ["home"]


@posix
@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_what_xla_compiles_is_kept_only_where_nobody_else_can_write(tmp_path, mode):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    asked = "import jax; print(jax.config.values['jax_compilation_cache_dir'])"
    _, out, err = python(asked, **{**NO_CACHE, "HOLONAX_CACHE": str(folder)})
    assert out.strip() == (str(folder) if mode == 0o700 else "None"), err


# -- fork --------------------------------------------------------------------------------------

FORK = """
import faulthandler, os, sys

def forked(function):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(60, exit=True)  # a hang
        try:
            print("child:", function(), flush=True)
        except RuntimeError as error:
            print("refused:", error, flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


@posix
def test_a_fork_goes_on_with_the_programs_of_its_parent():
    """A sweep over masses in forked workers, after a run in the parent."""
    script = """
    print(pendulum().simulate(0.05, dt=0.01).message)
    for mass in (1.0, 2.0, 3.0):
        forked(lambda: pendulum(mass).simulate(0.05, dt=0.01).message)
    """
    code, out, err = python(FORK + textwrap.dedent(script))
    assert code == 0, err
    assert out.count("child: reached t = 0.05 s in 5 steps") == 3


@posix
def test_a_fork_before_the_first_run_can_do_everything():
    script = """
    forked(lambda: pendulum().simulate(0.05, dt=0.01).message)
    forked(lambda: pendulum().simulate(0.05, dt=0.01).message)
    """
    code, out, err = python(FORK + textwrap.dedent(script))
    assert code == 0, err
    assert out.count("child: reached t = 0.05 s in 5 steps") == 2


@posix
def test_a_fork_that_would_hang_in_xla_says_so():
    script = """
    import jax, jax.numpy as jnp
    jax.jit(lambda x: x + 1)(jnp.ones(3)).block_until_ready()
    forked(lambda: pendulum().simulate(0.05, dt=0.01).message)  # nothing is compiled yet
    forked(lambda: hx.equilibrium(*pendulum().build()).message)
    forked(lambda: jnp.ones(7) * 3)
    forked(lambda: hx.Model().body("bar", 1, (1, 1, 1)).name)  # needs no JAX
    """
    code, out, err = python(FORK + textwrap.dedent(script))
    assert code == 0, err
    assert out.count("refused: holonax:") == 3 and out.count("spawn") == 3
    assert "child: bar" in out


# -- Ctrl-C while compiling ------------------------------------------------------------------------

SLOW = """
import os, signal, time
from holonax.compiler import machine
quick, calls = machine.object_code, []

def slow(*args):
    calls.append(args)
    if len(calls) < LAST:
        return quick(*args)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)

start = pendulum().build()
machine.object_code = slow
"""


def interrupted_compiling(last, save="steps"):
    """Interrupt the compilation of the `last`-th program of a run, which would take a minute."""
    script = f"""
    began = time.monotonic()
    try:
        result = hx.simulate(*start, 1.0, dt=0.01, integrator=hx.RK4(), save="{save}")
        print(result.status, "|", result.message, "|", result.t, "|", result.q.shape)
    except KeyboardInterrupt as error:
        print("interrupted:", error)
    print(time.monotonic() - began < 20)
    machine.object_code = quick
    print(hx.simulate(*start, 1.0, dt=0.01, integrator=hx.RK4()).message)
    """
    slow = SLOW.replace("LAST", str(last))
    code, out, err = python(slow + textwrap.dedent(script), HOLONAX_CACHE="off")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[1:] == ["True", "reached t = 1 s in 100 steps"], out
    return lines[0]


@posix
def test_ctrl_c_before_anything_is_compiled_raises_and_says_so():
    said = interrupted_compiling(1)
    assert said.startswith("interrupted: holonax was interrupted while it compiled")


@posix
@pytest.mark.parametrize("save", in_part(["steps", "end"], {"end"}))
def test_ctrl_c_while_the_loop_is_compiled_returns_the_start(save):
    status, message, times, shape = interrupted_compiling(2, save).split(" | ")
    assert status == "interrupt" and "interrupted at t = 0 s" in message
    assert times == "[0.]" and shape == "(1, 3)"


@posix
def test_ctrl_c_is_heard_while_xla_compiles():
    """XLA holds no lock of Python's, but its caller is not in Python either: a thread waits."""
    import threading

    from holonax.compiler.interrupt import patiently

    sender = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    began = time.monotonic()
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        patiently(time.sleep, 30)
    assert time.monotonic() - began < 5
    assert patiently(lambda x: x + 1, 2) == 3
    with pytest.raises(ZeroDivisionError):
        patiently(lambda: 1 / 0)
