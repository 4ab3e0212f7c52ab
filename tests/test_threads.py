"""Programs for a GPU, as far as that can be told without one.

The kernel is written in LLVM's language before it becomes PTX. Here that text is compiled for the
processor instead, with one thread after the other, and compared with `jax.vmap`.
"""

import ctypes
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import holonax as hx
from holonax.compiler import machine
from holonax.compiler.batched import Lanes
from holonax.compiler.cuda import THREADS, NoGPU, driver
from holonax.compiler.operations import DTYPES, Unsupported
from holonax.compiler.program import written_in_threads
from holonax.many.gpu import driver_trouble

PLACE = """
@place = global i32 0
define i32 @tid() { %x = load volatile i32, ptr @place ret i32 %x }
define i32 @none() { ret i32 0 }
define void @at(i32 %k) { store volatile i32 %k, ptr @place ret void }
"""


def on_the_host(text, layout, shared, own):
    """The kernel for each run in turn, by this processor."""
    text = re.sub(r'target triple = ".*"', "", text)
    text = re.sub(r"declare i32 @llvm.nvvm.*\n", "", text)
    text = text.replace("ptx_kernel ", "").replace("#0 ", "")
    text = text.replace("@llvm.nvvm.read.ptx.sreg.tid.x", "@tid")
    text = re.sub(r"@llvm\.nvvm\.read\.ptx\.sreg\.\w+\.x", "@none", text)
    loaded = machine.load(machine.object_code(text + PLACE, machine.Effort(1, 1)), "ppi")
    move = ctypes.CFUNCTYPE(None, ctypes.c_int)(loaded.engine.get_function_address("at"))
    runs = len(own[0])
    given = [np.ascontiguousarray(x, DTYPES[k]) for x, (k, _) in zip(shared, layout.inputs)]
    given += [
        np.ascontiguousarray(np.asarray(x, DTYPES[k]).reshape(runs, -1).T)
        for x, (k, _) in zip(own, layout.inputs[len(shared) :])
    ]
    out = [
        np.zeros((int(np.prod(shape, dtype=int)), runs), DTYPES[k])
        for k, shape, _ in layout.outputs
    ]
    tables = [np.array([x.ctypes.data for x in xs], np.uint64) for xs in (given, out)]
    for k in range(runs):
        move(k)
        loaded.call(tables[0].ctypes.data, tables[1].ctypes.data, runs)
    return [x.T.reshape(runs, *shape) for x, (_, shape, _) in zip(out, layout.outputs)]


def compared(function, shared, own):
    one = jax.tree.map(lambda x: np.asarray(x)[0], own)
    number = len(jax.tree.leaves(shared))
    closed = jax.make_jaxpr(lambda *x: jax.tree.leaves(function(*x)))(shared, one)
    batched = range(number, number + len(jax.tree.leaves(own)))
    text, layout = written_in_threads(closed, list(batched))
    found = on_the_host(text, layout, jax.tree.leaves(shared), jax.tree.leaves(own))
    want = jax.jit(jax.vmap(lambda o: jax.tree.leaves(function(shared, o))))(own)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    return text


def test_a_kernel_computes_what_one_run_does():
    def f(shared, own):
        x, y = own
        table = jnp.linspace(0.0, 1.0, 40)

        def body(s):
            k, z, rows = s
            z = jnp.where(z > shared, 0.5 * z + jnp.exp(-(y[0] ** 2)), jnp.sin(z) + jnp.cos(z) ** 2)
            return k + 1, z + table[k % 40], rows.at[k].set(z)

        start = 0, y[1], jnp.zeros(1100)
        k, z, rows = lax.while_loop(lambda s: (s[1] < x) & (s[0] < 90), body, start)
        A = jnp.array([[2.0, z, 0.1], [z, -3.0, y[0]], [0.0, 1.0, y[1]]])
        return k, jnp.linalg.solve(A, jnp.ones(3)), rows, jnp.abs(x) ** y[0], jnp.arctan2(x, z)

    random = np.random.default_rng(0)
    own = random.uniform(0, 9, 5), random.normal(size=(5, 2))
    text = compared(f, np.asarray(0.7), own)
    assert "llvm.sin" not in text and "@hx.sincos" in text  # a driver brings no library


def test_ptx_is_made_without_a_gpu():
    lanes = Lanes(lambda shared, own: shared * jnp.sin(own))
    ptx, layout, _ = lanes.kernel(np.ones(3), np.ones(3), THREADS)
    assert ".entry program" in ptx and f".maxntid {THREADS}" in ptx
    assert "call" not in ptx and len(layout.outputs) == 1


def test_what_a_gpu_does_not_know_is_said():
    with pytest.raises(Unsupported, match="erf on a GPU"):
        Lanes(lambda _, x: jax.scipy.special.erf(x)).kernel((), np.ones(()), THREADS)


@pytest.mark.skipif(driver_trouble() is None, reason="there is a GPU")
def test_without_a_gpu_that_is_said():
    with pytest.raises(NoGPU, match="NVIDIA"):
        driver()


@pytest.mark.skipif(driver_trouble() is not None, reason="there is no GPU")
def test_runs_on_a_gpu_are_those_of_the_processor():
    system, start = hx.examples.slider_crank()
    masses = np.linspace(0.8, 1.2, 300)
    for steps in ({"dt": 1e-3}, {"rtol": 1e-7}):
        given = {"parameters": {"m": masses}, "times": [0.0, 0.1, 0.2], **steps}
        one, two = (hx.ensemble(system, start, device=d, **given) for d in ("cpu", "gpu"))
        assert "GPU" in two.road
        np.testing.assert_allclose(one.q, two.q, atol=1e-11)
