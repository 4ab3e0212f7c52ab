"""Programs for a GPU, as far as that can be told without one.

The kernel is written in LLVM's language before it becomes PTX. Here that text is compiled for the
processor instead, with one thread after the other, and compared with `jax.vmap`.
"""

import ctypes
import json
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import holonax as hx
from holonax.compiler import cuda, machine, program, survey
from holonax.compiler.batched import Lanes
from holonax.compiler.cuda import THREADS, NoGPU, driver, in_bank
from holonax.compiler.operations import DTYPES, Unsupported
from holonax.compiler.program import plain, written_in_threads
from holonax.many.gpu import driver_trouble

PLACE = """
@place = global i32 0
define i32 @tid() { %x = load volatile i32, ptr @place ret i32 %x }
declare double @pow(double, double)
define i32 @none() { ret i32 0 }
define void @at(i32 %k) { store volatile i32 %k, ptr @place ret void }
define double @upper(double %x) {
  %b = bitcast double %x to i64
  %u = and i64 %b, -4294967296
  %e = and i64 %b, 9218868437227405312
  %tiny = icmp eq i64 %e, 0
  %s = and i64 %b, -9223372036854775808
  %v = select i1 %tiny, i64 %s, i64 %u
  %y = bitcast i64 %v to double
  ret double %y
}
define double @rcp(double %x) {
  %u = call double @upper(double %x)
  %r = fdiv double 1.0, %u
  %y = call double @upper(double %r)
  ret double %y
}
define double @rsqrt(double %x) {
  %u = call double @upper(double %x)
  %r = call double @pow(double %u, double -0.5)
  %y = call double @upper(double %r)
  ret double %y
}
"""  # approximations as a GPU has them: of the upper half of a number, to the upper half of another


def on_the_host(text, layout, shared, own):
    """The kernel for each run in turn, by this processor."""
    text = re.sub(r'target triple = ".*"', "", text)
    text = re.sub(r"declare \w+ @llvm.nvvm.*\n", "", text)
    text = re.sub(r"@llvm\.nvvm\.(\w+)\.approx\.ftz\.d", r"@\1", text)
    text = text.replace("addrspace(4) ", "")
    text = text.replace("ptx_kernel ", "").replace("#0 ", "")
    text = text.replace("@llvm.nvvm.read.ptx.sreg.tid.x", "@tid")
    text = re.sub(r"@llvm\.nvvm\.read\.ptx\.sreg\.\w+\.x", "@none", text)
    loaded = machine.load(machine.object_code(text + PLACE, machine.Effort(1, 1)), "ppi")
    doubles = [np.ravel(x) for x in shared if np.asarray(x).dtype == float]
    places = in_bank(x.size for x in doubles)
    for x, place in zip(doubles, places):
        if place is not None:
            base = loaded.engine.get_global_value_address("shared")
            ctypes.memmove(base + 8 * place, x.ctypes.data, x.nbytes)
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


def in_threads(function, shared, own, built_in=()):
    """The kernel's text, and what it makes."""
    one = jax.tree.map(lambda x: np.asarray(x)[0], own)
    number = len(jax.tree.leaves(shared))
    closed = jax.make_jaxpr(lambda *x: jax.tree.leaves(function(*x)))(shared, one)
    batched = range(number, number + len(jax.tree.leaves(own)))
    text, layout = written_in_threads(closed, list(batched), built_in)
    return text, on_the_host(text, layout, jax.tree.leaves(shared), jax.tree.leaves(own))


def compared(function, shared, own):
    text, found = in_threads(function, shared, own)
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


def units(found, want):
    """The largest error in units of the last place."""
    return np.max(np.abs(found - want) / np.spacing(np.abs(want).astype(float)))


def test_arithmetic_without_branches_is_right_to_the_last_place():
    random = np.random.default_rng(1)
    x = random.uniform(1, 2, 4000) * 2.0 ** random.integers(-400, 400, 4000)
    x *= random.choice([-1, 1], 4000)
    y, angle = random.normal(size=4000), random.normal(size=4000) * 10.0 ** random.uniform(-3, 6)
    wide = np.longdouble
    sizes = jnp.abs
    _, found = in_threads(
        lambda _, own: (
            *(1 / own[0], own[1] / own[0], own[1] / 3.0, jnp.sqrt(sizes(own[0]))),
            *(jnp.maximum(sizes(own[0]), sizes(own[1])), jnp.sin(own[2]), jnp.cos(own[2])),
        ),
        (),
        (x, y, angle),
    )
    inverse, quotient, third, root, larger, sine, cosine = found
    assert units(inverse, 1 / x.astype(wide)) < 1
    assert units(quotient, y / x.astype(wide)) < 2
    assert units(third, y.astype(wide) / 3) < 2
    assert units(root, np.sqrt(np.abs(x).astype(wide))) < 1
    np.testing.assert_array_equal(larger, np.maximum(np.abs(x), np.abs(y)))
    assert units(sine, np.sin(angle.astype(wide))) < 2
    assert units(cosine, np.cos(angle.astype(wide))) < 2


def test_arithmetic_without_branches_at_its_ends():
    nan, inf = np.nan, np.inf
    a = np.array([1.0, -1.0, 0.0, 1.0, inf, nan, 1.0, 2.0, -0.0])
    b = np.array([0.0, 0.0, 0.0, -inf, 2.0, 1.0, nan, -3.0, 5.0])
    text, (quotient, root, larger) = in_threads(
        lambda _, own: (
            own[0] / own[1],
            jnp.sqrt(own[0]),
            jnp.maximum(jnp.abs(own[0]), jnp.abs(own[1])),
        ),
        (),
        (a, b),
    )
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(quotient, a / b, rtol=4e-16)
        np.testing.assert_allclose(root, np.sqrt(a), rtol=4e-16)
    np.testing.assert_array_equal(larger, np.maximum(np.abs(a), np.abs(b)))
    assert "fdiv" not in text and "llvm.sqrt" not in text


def test_zeros_and_ones_that_are_known_are_built_in():
    def f(shared, own):
        matrix, other = shared
        return matrix @ own * other

    matrix, other = np.array([[0.0, 1.0, 2.0], [-1.0, 0.0, 0.0]]), np.asarray(3.0)
    own = np.random.default_rng(2).normal(size=(4, 3))
    built_in = [plain(matrix)]
    assert dict(built_in[0]) == {0: 0.0, 1: 1.0, 3: -1.0, 4: 0.0, 5: 0.0}
    text, (found,) = in_threads(f, (matrix, other), own, built_in)
    np.testing.assert_allclose(found, own @ matrix.T * 3, rtol=1e-15)
    assert text.count("fmul") == 3  # one by 2, and two by 3


def test_few_numbers_are_in_the_memory_for_constants():
    assert in_bank([3, 513, 512, 0, 1]) == [0, None, 3, 515, 515]
    assert in_bank([512] * 10) == [*range(0, 4096, 512), None, None]


def test_ptx_is_made_without_a_gpu():
    lanes = Lanes(lambda shared, own: shared * jnp.sin(own))
    ptx, layout, _ = lanes.kernel(np.ones(3), np.ones(3), THREADS)
    assert ".entry program" in ptx and f".maxntid {THREADS}" in ptx
    assert "call" not in ptx and len(layout.outputs) == 1
    lanes = Lanes(lambda shared, own: jnp.sqrt(own) / shared)
    ptx = lanes.kernel(np.ones(3), np.ones(3), THREADS)[0]
    assert "rcp.approx.ftz.f64" in ptx and "rsqrt.approx.ftz.f64" in ptx
    assert "div." not in ptx and "sqrt.rn" not in ptx
    settled = lanes.kernel(np.ones(3), np.ones(3), THREADS, 1)[0]
    assert "rsqrt" in settled and "rcp" not in settled
    assert "ld.const" in ptx and "ld.const" not in settled


@pytest.mark.parametrize(
    ("local", "registers", "texts"), [(0, 160, 1), (0, 255, 1), (760, 255, 1), (12088, 32, 2)]
)
def test_a_program_without_room_in_registers_has_all_of_them(monkeypatch, local, registers, texts):
    loaded = []

    class Pretended:
        def current(self):
            pass

        def __call__(self, name, *args):
            if name == "cuModuleLoadDataEx":
                loaded.append((args[1].decode(), dict(zip(args[3], args[4]))))
            if name == "cuFuncGetAttribute":
                args[0]._obj.value = {3: local, 4: registers}[args[1]]

    monkeypatch.setattr(cuda, "driver", Pretended)
    cuda.Kernel(".entry program()\n.maxntid 128\n{}")
    assert [".maxnreg 255\n.maxntid 128" in text for text, _ in loaded] == [False, True][:texts]
    assert [options for _, options in loaded] == [{}, {7: 1}][:texts]
    loaded.clear()
    cuda.Kernel(".entry program()\n.maxntid 128\n{" + " " * 400_000 + "}")  # of a long one that is
    ((text, options),) = loaded  # known without a try
    assert ".maxnreg 255\n.maxntid 128" in text and options == {7: 1}


def test_a_long_program_keeps_its_loops(monkeypatch):
    def f(_, x):
        return lax.fori_loop(0, 8, lambda k, y: y + jnp.sin(y) * k, x)

    closed = jax.make_jaxpr(f)((), 1.0)
    short, _ = written_in_threads(closed, [0])
    monkeypatch.setattr(program, "LONG", 10)
    monkeypatch.setattr(survey, "UNROLLED", 10)
    long, layout = written_in_threads(closed, [0])
    # the first time, the sine is multiplied by zero
    assert short.count("call { double") == 7 and long.count("call { double") == 1
    (found,) = on_the_host(long, layout, (), (np.array([0.3]),))
    np.testing.assert_allclose(found, f((), 0.3), rtol=1e-12)


@pytest.mark.slow
def test_measurements_are_prepared_for_another_machine(tmp_path):
    command = [
        sys.executable,
        "-m",
        "benchmarks.gpu",
        "prepare",
        str(tmp_path),
        "slider-crank, RK4",
    ]
    subprocess.run(command, cwd=Path(__file__).parents[1], check=True)
    said = json.loads((tmp_path / "0.json").read_text())
    sizes = {name: shape for name, (_, shape, _) in zip(said["results"], said["layout"][1])}
    assert sizes["q"] == [4] and sizes["steps"] == [] and sizes["drift"] == [2]
    assert ".entry program" in (tmp_path / "0.ptx").read_text()
    assert {path.name for path in tmp_path.glob("*.py")} == {"cuda.py", "gpu.py"}


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


def four_bar():
    """A crank, a coupler and a rocker of rods, falling from where it is."""
    model = hx.Model()
    model.planar_body("crank", hx.rod(0.2, mass=1.0), position=(0.1, 0.0))
    model.planar_body("coupler", hx.rod(0.5, mass=2.0), position=(0.4, 0.2), angle=0.9)
    model.planar_body("rocker", hx.rod(0.4, mass=1.5), position=(0.55, 0.2), angle=1.8)
    model.revolute("A", "ground", "crank", at_a=(0.0, 0.0), at_b=(-0.1, 0.0))
    model.revolute("B", "crank", "coupler", at_a=(0.1, 0.0), at_b=(-0.25, 0.0))
    model.revolute("C", "coupler", "rocker", at_a=(0.25, 0.0), at_b=(0.2, 0.0))
    model.revolute("D", "ground", "rocker", at_a=(0.6, 0.0), at_b=(-0.2, 0.0))
    return model.build(hold=["crank"])


@pytest.mark.skipif(driver_trouble() is not None, reason="there is no GPU")
@pytest.mark.parametrize("steps", [{"dt": 1e-3}, {"rtol": 1e-8}], ids=["equal", "by error"])
@pytest.mark.parametrize("name", ["slider-crank", "four-bar"])
def test_what_runs_end_by_is_the_same_on_a_gpu(name, steps):
    """Some end at an event, some fail, the others go on; what is observed of them is the same."""
    assert_same_on("gpu", name, steps)


def assert_same_on(device, name, steps):
    if name == "four-bar":
        (system, start), parameter = four_bar(), "coupler.mass"
    else:
        (system, start), parameter = hx.examples.slider_crank(), "m"
    speed = lambda t, q, v: v @ v  # noqa: E731
    values = float(system.parameters()[parameter]) * np.linspace(0.5, 2.0, 300)
    values[[3, 150]] = 1e308  # too heavy for numbers
    middle = system.with_parameters({parameter: values[140]})
    run = hx.simulate(middle, start, 0.3, **steps)
    level = 0.999 * np.max(np.sum(run.v**2, axis=1))  # what the faster half of the runs comes to
    fast = hx.Event("fast", speed, level=level, terminal=True, direction="rising")
    given = {
        "parameters": {parameter: values},
        "t_end": 0.3,
        "events": [fast],
        "reduce": {
            "most": hx.many.Largest(speed),
            "mean": hx.many.Mean(speed),
            "when": hx.many.FirstPassage(speed, level=level / 3),
        },
        **steps,
    }
    one, two = (hx.ensemble(system, start, device=x, **given) for x in ("cpu", device))
    assert {0, 1} == set(one.success.astype(int)) and "fast" in set(one.event)
    np.testing.assert_array_equal(one.success, two.success)
    np.testing.assert_array_equal(one.event, two.event)
    np.testing.assert_array_equal(one.reason, two.reason)
    good = one.success
    np.testing.assert_allclose(two.q[good], one.q[good], atol=1e-10)
    np.testing.assert_allclose(two.ended[good], one.ended[good], atol=1e-11)
    for key, seen in one.reduced.items():
        # over other steps where rounding has chosen these otherwise
        np.testing.assert_allclose(two.reduced[key][good], seen[good], rtol=1e-7)
