"""Calls with bad arguments, at random: of every public function, class and method of a Model.

Targets are found by looking at the package, so that a new one is covered when it appears. Each call
begins with arguments that would nearly do and spoils one or two of them. What may happen is success
or an exception that holonax raises itself, with a message that names an object and says what to do.

    python tests/fuzz.py SEED CALLS [FIRST]

prints one JSON line for each fault found, then one with the counts. A call that takes longer than a
few seconds is interrupted as by Ctrl-C; one that does not end then ends the process.
"""

import contextlib
import dis
import faulthandler
import hashlib
import inspect
import io
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
import webbrowser
from fractions import Fraction
from functools import cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import holonax as hx

PATIENCE, HANG = 6.0, 90.0  # seconds before a call is interrupted, and before it is a fault
HEAVY = 0.3  # share of calls of those that compile something of their own

NAN, INF = float("nan"), float("inf")


class Hostile:
    """An object that can be looked at in no way."""

    def __repr__(self):
        raise RuntimeError("no repr")

    def __array__(self, *args, **kwargs):
        raise RuntimeError("no array")

    def __len__(self):
        raise RuntimeError("no length")

    def __iter__(self):
        raise RuntimeError("no iteration")


def _nothing(*args, **kwargs):
    return None


def _one_argument(x):
    return x


def _raises(*args):
    raise RuntimeError("deliberate")


def _words(*args):
    return "word"


def _not_finite(*args):
    return NAN


def _many(*args):
    return jnp.zeros((2, 3, 4))


NASTY = [
    lambda r: True,
    lambda r: False,
    lambda r: None,
    lambda r: 10**400,
    lambda r: -(10**400),
    lambda r: 10**5000,
    lambda r: 2**63,
    lambda r: 2**64,
    lambda r: 2**31,
    lambda r: -1,
    lambda r: 0,
    lambda r: 1,
    lambda r: 3,
    lambda r: 90,
    lambda r: -0.5,
    lambda r: 1e-320,
    lambda r: 1e300,
    lambda r: -1e300,
    lambda r: 1e160,
    lambda r: NAN,
    lambda r: INF,
    lambda r: -INF,
    lambda r: 1 + 2j,
    lambda r: 1j,
    lambda r: (1j, 0, 0),
    lambda r: (1j, 0),
    lambda r: "",
    lambda r: "x",
    lambda r: "1.0",
    lambda r: "no.such.thing",
    lambda r: "crank",
    lambda r: "ground",
    lambda r: "{0} %s \n\u2603",
    lambda r: b"bytes",
    lambda r: b"\xff\x00",
    lambda r: [],
    lambda r: (),
    lambda r: {},
    lambda r: set(),
    lambda r: {"a", "b"},
    lambda r: [0],
    lambda r: [0.0],
    lambda r: [None],
    lambda r: [True],
    lambda r: ["x"],
    lambda r: ["crank"],
    lambda r: ["crank.angle", 0],
    lambda r: [[1, 2], [3]],
    lambda r: [1e300, 1e300, 1e300],
    lambda r: [1e300, 1e300],
    lambda r: [1e-320] * 3,
    lambda r: [NAN] * 3,
    lambda r: [10**400, 0, 0],
    lambda r: {"a": 1},
    lambda r: {"x": [3]},
    lambda r: object(),
    lambda r: Hostile(),
    lambda r: int,
    lambda r: hx,
    lambda r: hx.Model,
    lambda r: hx.Model(),
    lambda r: hx.RK4,
    lambda r: hx.RK4(),
    lambda r: hx.PostStabilized,
    lambda r: ValueError("an error"),
    lambda r: iter([1.0, 2.0]),
    lambda r: (x for x in (1.0, 2.0)),
    lambda r: range(3),
    lambda r: Fraction(1, 3),
    lambda r: np.float32(0.5),
    lambda r: np.int64(2),
    lambda r: np.bool_(True),
    lambda r: np.zeros(0),
    lambda r: np.zeros(1),
    lambda r: np.zeros(2),
    lambda r: np.zeros(3),
    lambda r: np.zeros((2, 2)),
    lambda r: np.eye(3),
    lambda r: np.eye(2),
    lambda r: -np.eye(3),
    lambda r: np.full((3, 3), NAN),
    lambda r: np.array("text"),
    lambda r: np.array(["a", "b", "c"]),
    lambda r: np.array([1, None, "x"], dtype=object),
    lambda r: np.array([1 + 1j, 2.0, 0.0]),
    lambda r: np.array([True, False, True]),
    lambda r: np.array(["2024-01-01"], dtype="datetime64[D]"),
    lambda r: jnp.zeros(3),
    lambda r: jnp.asarray(1j),
    lambda r: memoryview(b"abc"),
    lambda r: slice(0, 2),
    lambda r: Ellipsis,
    lambda r: NotImplemented,
    lambda r: print,
    lambda r: _nothing,
    lambda r: _one_argument,
    lambda r: _raises,
    lambda r: _words,
    lambda r: _not_finite,
    lambda r: _many,
    lambda r: lambda: 1.0,
    lambda r: Path("/nonexistent/folder"),
    lambda r: Path("/dev/null"),
    lambda r: "/proc/holonax",
    lambda r: "a\x00b",
]


# -- things to call with ------------------------------------------------------------------------


def model(kind="planar"):
    """A pendulum of two bodies, with something of everything that other things refer to."""
    m = hx.Model()
    if kind == "planar":
        m.planar_body("crank", 1.0, 0.1, position=(0.5, 0.0))
        m.planar_body("rod", 1.0, 0.1, position=(1.5, 0.0))
        m.revolute("hinge", "ground", "crank", at=(0.0, 0.0))
        m.revolute("elbow", "crank", "rod", at=(1.0, 0.0))
        m.planar_body("block", 1.0, 0.1, position=(0.0, -1.0))
        m.prismatic("slide", "ground", "block", at=(0.0, -1.0), axis=(1.0, 0.0))
    else:
        m.body("crank", 1.0, (0.1, 0.1, 0.1), position=(0.5, 0.0, 0.0))
        m.body("rod", 1.0, (0.1, 0.1, 0.1), position=(1.5, 0.0, 0.0))
        m.revolute("hinge", "ground", "crank", at=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0))
        m.spherical("elbow", "crank", "rod", at=(1.0, 0.0, 0.0))
        m.body("block", 1.0, (0.1, 0.1, 0.1), position=(0.0, 0.0, -1.0))
        m.cylindrical("slide", "ground", "block", at=(0.0, 0.0, -1.0), axis=(1.0, 0.0, 0.0))
    return m


def small():
    """A pendulum of one body: what is compiled for it takes no time to speak of."""
    m = hx.Model()
    m.planar_body("crank", 1.0, 0.1, position=(0.0, -0.5))
    m.revolute("hinge", "ground", "crank", at=(0.0, 0.0))
    return m


def driven():
    m = small()
    m.drive_angle("motor", joint="hinge", angle=_sweep)
    return m


def _sweep(t):
    return 0.1 * t


def _doubled(values):
    return {"y": 2 * next(iter(values.values()))}


def _gap(t, q, v):
    return q[0] - 0.3


@cache
def built():
    return small().build()


@cache
def driven_built():
    return driven().build()


@cache
def result():
    return hx.simulate(*built(), 0.02, dt=0.01)


@cache
def spring():
    return hx.FunctionSystem(
        mass=lambda q, p: p["m"], force=lambda q, v, t, p: -q, parameters={"m": jnp.ones(1)}
    )


@cache
def mass_properties():
    return hx.box((1.0, 0.1, 0.1), mass=1.0)


def _event(r):
    return r.choice([hx.Event("low", _gap), hx.Event("stop", _gap, terminal=True)])


SCRATCH = tempfile.mkdtemp(prefix="holonax-fuzz-")


def _new_folder(r):
    return str(Path(SCRATCH) / f"run-{r.randrange(10**9)}")


def _vectors(r):
    return r.choice([(0.5, 0.0), (0.0, 1.0), (0.5, 0.0, 0.0), (0.0, 0.0, 1.0), None])


def _state(r):
    q = built()[1].q
    return r.choice([built()[1], (q, np.zeros(3)), q])


# By the name of a parameter, what would nearly do.
USUAL = {
    "name": lambda r: r.choice(["new", "new", "new", "crank"]),
    "a": lambda r: r.choice(["ground", "crank"]),
    "b": lambda r: r.choice(["rod", "block"]),
    "body": lambda r: r.choice(["crank", "rod"]),
    "bodies": lambda r: r.choice(["crank", ["crank", "rod"], ["ground", "block"], ["crank"]]),
    "pinion": lambda r: "crank",
    "rack": lambda r: "block",
    "carrier": lambda r: r.choice([None, "ground", "rod"]),
    "joint": lambda r: r.choice(["hinge", "slide", "elbow", None]),
    "mass": lambda r: r.choice([1.0, 2, mass_properties()]),
    "inertia": lambda r: r.choice([0.1, (0.1, 0.1, 0.1), None]),
    "density": lambda r: r.choice([None, 1000.0]),
    "size": lambda r: r.choice([(1.0, 0.1, 0.1), (100, 100)]),
    "position": _vectors,
    "velocity": _vectors,
    "angular_velocity": lambda r: r.choice([0.0, (0.0, 0.0, 0.0)]),
    "rotation": lambda r: r.choice([None, (1, 0, 0, 0), (0, 0, 0.1), np.eye(3)]),
    "at": lambda r: r.choice([(0.5, 0.0), (0.5, 0.0, 0.0), ((0, 0), (1, 0)), None]),
    "at_a": _vectors,
    "at_b": _vectors,
    "axis": lambda r: r.choice([(0, 0, 1), (1, 0), None, "x"]),
    "axes": lambda r: r.choice(["world", "body", ((1, 0, 0), (0, 1, 0)), None]),
    "direction": lambda r: r.choice([(1, 0, 0), (1, 0), "falling", None]),
    "curve": lambda r: r.choice([lambda x, y: y, lambda x, y: x * x + y * y - 1]),
    "angle": lambda r: r.choice([0.1, 0.0, lambda t: 0.1 * t, None]),
    "function": lambda r: r.choice([_gap, lambda *a: (jnp.zeros(2), 0.0)]),
    "residual": lambda r: r.choice([lambda f, t: f.r.x, lambda f, g, t: f.r.x - g.r.x]),
    "rate": lambda r: r.choice([lambda f, t: f.v.x, lambda f, g, t: f.v.x - g.v.x]),
    "force": lambda r: r.choice([(1.0, 0.0), (1.0, 0.0, 0.0), lambda t: jnp.zeros(2)]),
    "torque": lambda r: r.choice([1.0, (0.0, 0.0, 1.0), lambda t: t]),
    "stiffness": lambda r: r.choice([10.0, [1, 1, 1], [1] * 6]),
    "damping": lambda r: r.choice([0.1, [1, 1, 1], None]),
    "length": lambda r: r.choice([1.0, None]),
    "actuator": lambda r: r.choice([None, 1.0, lambda t, x, v: t]),
    "friction": lambda r: 1.0,
    "transition_speed": lambda r: 0.1,
    "radius": lambda r: 0.5,
    "outer_radius": lambda r: 0.5,
    "inner_radius": lambda r: 0.2,
    "thickness": lambda r: 0.1,
    "pitch": lambda r: 0.01,
    "teeth": lambda r: (12, 24),
    "ratio": lambda r: r.choice([None, 0.5]),
    "t": lambda r: r.choice([0.0, 0.01]),
    "t_end": lambda r: r.choice([0.02, 0.02, 0.02, 0.011]),
    "dt": lambda r: r.choice([0.01, 0.005]),
    "times": lambda r: r.choice([None, [0.0, 0.01]]),
    "rtol": lambda r: r.choice([None, 1e-4]),
    "save": lambda r: r.choice(["steps", "end", 2, [0.01, 0.02]]),
    "events": lambda r: r.choice([(), _event(r), [_event(r)]]),
    "progress": lambda r: r.choice([False, lambda now: None]),
    "checkpoint": lambda r: r.choice([None, None, _new_folder(r)]),
    "store": lambda r: r.choice([None, None, _new_folder(r)]),
    "formulation": lambda r: r.choice(
        [None, hx.Baumgarte(5.0), hx.GGL(), hx.Index3(condition=True)]
    ),
    "integrator": lambda r: r.choice([None, hx.RK4(), hx.RadauIIA()]),
    "system": lambda r: r.choice([built()[0], built()[0], spring()]),
    "start": _state,
    "starts": lambda r: r.choice(
        [_state(r), (built()[1].q, np.zeros((2, 3))), lambda n: (np.zeros((len(n), 3)),) * 2]
    ),
    "parameters": lambda r: r.choice(
        [None, {"crank.mass": [1.0, 2.0]}, {"crank.mas": [1.0]}, lambda n: {"crank.mass": n + 1.0}]
    ),
    "runs": lambda r: r.choice([None, 2]),
    "what": lambda r: r.choice([built(), _doubled, small()]),
    "over": lambda r: r.choice([{"crank.mass": [1.0, 2.0]}, {"crank.mass": 3.0}]),
    "ranges": lambda r: r.choice([{"crank.mass": (1.0, 2.0)}, {"crank.mass": (2.0, 1.0)}]),
    "executor": lambda r: None,
    "cost": lambda r: r.choice([lambda motion: motion.q[-1, 0], lambda motion: motion.q, 3.0]),
    "constraints": lambda r: r.choice(
        [None, {"end": (lambda motion: motion.q[-1], None, 9.0)}, {"end": (_gap, 1.0)}]
    ),
    "bounds": lambda r: r.choice([None, {"crank.mass": (0.5, 2.0)}, {"crank": (1.0, 2.0)}]),
    "observer": lambda r: r.choice([_gap, "crank.angle", 3]),
    "reduce": lambda r: r.choice(
        [None, {"x": hx.many.Largest("crank.angle")}, {"x": hx.many.Mean(lambda t, q, v: v)}]
    ),
    "q": lambda r: built()[1].q,
    "v": lambda r: r.choice([None, np.zeros(3)]),
    "hold": lambda r: r.choice([(), ["crank"], ["crank.angle"]]),
    "hold_velocity": lambda r: r.choice([(), ["crank.angle"]]),
    "released": lambda r: r.choice([(), ["hinge"]]),
    "m": lambda r: r.choice([1, 2, 4]),
    "order": lambda r: r.choice([1, 2]),
    "solver": lambda r: r.choice(["auto", "dense"]),
    "result": lambda r: result(),
    "path": lambda r: str(Path(SCRATCH) / r.choice(["picture.gif", "model.toml", "model.json"])),
    "model": lambda r: small(),
    "run": lambda r: r.choice([None, {"t_end": 1.0}]),
    "outputs": lambda r: r.choice([(), ["hinge.angle"], {"x": "2 * crank.x"}]),
    "table": lambda r: {"t": [0.0, 1.0]},
    "objective": lambda r: r.choice([lambda motion: motion.q[-1, 0], 3.0]),
    "with_respect_to": lambda r: r.choice(["q", ["q", "v"], ["bodies.mass"]]),
    "period": lambda r: 0.02,
    "values": lambda r: r.choice([{}, {"crank.mass": 2.0}, {"no.such": 1.0}]),
    "item": lambda r: small()["crank"],
    "coordinates": lambda r: r.choice([None, ["crank.angle"]]),
    "lam": lambda r: r.choice([1.0, 1 + 1j]),
    "case": lambda r: r.choice(["I", "II"]),
    "n": lambda r: r.choice([1, 2]),
    "out": lambda r: None,
    "quick": lambda r: True,
    "kind": lambda r: r.choice(["box", "rod", "sphere", "mesh"]),
    "shape": lambda r: r.choice([None, mass_properties(), "part.stl"]),
    "controllers": lambda r: hx.Controller(
        lambda t, x: 0.0, period=0.01, inputs=["crank.x"], outputs=["no.such"]
    ),
    "inputs": lambda r: r.choice([[], "crank.x"]),
    "target": lambda r: r.choice([None, 0.1, lambda t: t]),
    "command": lambda r: r.choice([1.0, lambda t, x, v: t]),
    "x": lambda r: r.choice([None, "crank.x"]),
    "y": lambda r: r.choice([None, "crank.y"]),
}

webbrowser.open = lambda *arguments, **options: True  # nobody looks at what is shown here

# Those that compile programs of their own are called less often, on what is known already.
COMPILING = {
    *("simulate", "resume", "equilibrium", "linearize", "kinematics", "inverse_dynamics"),
    *("kinematic_motion", "convergence", "condition_numbers", "reference_solution", "animate"),
    *("page", "show"),
    *("plot", "stability_region", "real_axis_limit", "spectral_radius", "step_matrix", "build"),
    *("amplification", "linear_problem", "reproduce", "write_index", "custom_joint"),
    *("custom_rate_joint", "custom_force", "point_on_curve", "diagnose", "consistent"),
    *("floquet", "trajectory", "value_and_gradient", "ensemble", "fit", "simulate_controlled"),
    *("curves", "output", "quantity", "sampled", "sweep", "optimize", "equilibrium_path"),
    *("campbell", "steady_rotation", "buckling"),
}
# Methods of a model that build what it describes.
BUILDING = {
    *("simulate", "build", "equilibrium", "equilibrium_path", "linearize", "buckling"),
}
# What holonax makes and nobody else.
RECORDS = {
    *("Start", "Result", "Energy", "Occurrence", "Progress", "Diagnosis", "Method", "Body"),
    *("Equilibrium", "Linearization", "Modes", "Motion", "ActuatorForces", "Convergence"),
    *("StabilityRegion", "Floquet", "Trajectory", "Vec2", "Vec3", "ModelFile", "FileError"),
    *("Ensemble", "Band", "Reduction", "Fit", "SavedResult", "Sweep", "SweepPoints", "Optimum"),
    *("EquilibriumSensitivity", "ModeSensitivity", "OrbitSensitivity", "Buckling"),
    *("EquilibriumPath", "CriticalPoint", "Campbell"),
}
# What takes minutes where its arguments are good.
ALWAYS_SPOILT = {"reproduce": "name", "n_four_bar": "n"}


def targets():
    """(name, where it is found, how to get what is called), for all that is public."""
    found = []
    for place, names in (
        ("hx", hx.__all__),
        *((f"hx.{m}", getattr(hx, m).__all__) for m in hx._MODULES),
    ):
        module = hx if place == "hx" else getattr(hx, place.removeprefix("hx."))
        for name in names:
            thing = getattr(module, name)
            if (inspect.isfunction(thing) or inspect.isclass(thing)) and _ours(thing):
                found.append((name, place, thing, None))
    for name, thing in inspect.getmembers(hx.Model, inspect.isfunction):
        if not name.startswith("_"):
            found += [(name, "Model", thing, which) for which in ("planar", "spatial")]
    for cls, make in ((hx.Result, result), (hx.MassProperties, mass_properties)):
        for name, thing in inspect.getmembers(cls, inspect.isfunction):
            if not name.startswith("_") and inspect.isfunction(vars(cls)[name]):
                found.append((name, cls.__name__, thing, make))
    return found


def _ours(thing):
    if inspect.isfunction(thing):
        return True
    made = issubclass(thing, (Exception, hx.System)) and thing is not hx.FunctionSystem
    told = thing.__name__ in RECORDS or thing.__module__.startswith("holonax.papers")
    return not made and not told


# -- one call -----------------------------------------------------------------------------------


def arguments(r, name, thing, method):
    """Positional and keyword arguments of a call: nearly good ones, one or two of them spoilt."""
    parameters = list(inspect.signature(thing).parameters.values())
    if method or (parameters and parameters[0].name == "self"):
        parameters = [p for p in parameters if p.name != "self"]
    kwargs, args, names = {}, [], []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            args = [mass_properties() for _ in range(r.randrange(3))]
        elif p.kind is not p.VAR_KEYWORD:
            names.append(p.name)
            if p.default is p.empty or r.random() < 0.15:
                kwargs[p.name] = usual(r, p)
    if name == "ensemble":
        kwargs.setdefault("dt", 0.01)
        kwargs.setdefault("t_end", 0.02)
        kwargs.setdefault("parameters", {"crank.mass": [1.0, 2.0]})
    if name == "sweep":
        kwargs["path"] = _new_folder(r)
    if name == "simulate":
        kwargs.setdefault("dt", 0.01)
        kwargs.setdefault("save", usual(r, inspect.Parameter("save", 3)))
    spoilt = r.choices([0, 1, 2, 3], [0.05, 0.7, 0.2, 0.05])[0]
    if name in ALWAYS_SPOILT:
        kwargs[ALWAYS_SPOILT[name]] = r.choice([3.5, "nobody", None, True, -1, "\x00", []])
        spoilt = 0
    for _ in range(min(spoilt, len(names))):
        kwargs[r.choice(names)] = r.choice(NASTY)(r)
    # equinox looks into what its classes are given before they are asked
    if spoilt == 3 and names and not inspect.isclass(thing):
        kwargs[r.choice(names)] = {1: 2, "x": [3]}
    if r.random() < 0.03 and kwargs:  # a slip of the finger
        key = r.choice(list(kwargs))
        kwargs[key[:-1] + r.choice("xyz")] = kwargs.pop(key)
    if r.random() < 0.02:
        args.append(r.choice(NASTY)(r))
    return args, kwargs


def usual(r, p):
    if p.name in USUAL:
        return USUAL[p.name](r)
    if p.default is not p.empty:
        return p.default
    return 1.0


def called(thing, place, which, args, kwargs):
    if place == "Model":
        if thing.__name__ in BUILDING:
            return thing(small(), *args, **kwargs)
        if thing.__name__ == "kinematics":
            return thing(driven(), *args, **kwargs)
        return thing(model(which), *args, **kwargs)
    if which is not None:
        return thing(which(), *args, **kwargs)
    return thing(*args, **kwargs)


def fault(error):
    """What is wrong with an exception; None for one of ours, with an object and a remedy."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    module = str(trace.tb_frame.f_globals.get("__name__", ""))
    raised = next((i for i in dis.get_instructions(code) if i.offset == trace.tb_lasti), None)
    deliberate = raised is not None and raised.opname in ("RAISE_VARARGS", "RERAISE")
    if not module.startswith("holonax") or not deliberate:
        return f"raw exception in {module}, line {trace.tb_lineno}"
    message = str(error.args[0]) if error.args else ""
    if len(message) < 25 or not re.search(r"[.?]$", message):
        return "no sentence"
    if len(message) > 700 or "\n" in message:
        return "not one short message"
    if not REMEDY.search(message):
        return "no remedy"
    return None


REMEDY = re.compile(
    r"\b(give|use|choose|must|make|leave|did you mean|there (are|is)|check|start|add|take|remove|"
    r"write|name|put|install|release|describe|let|return|known|needs?|exchange|look|call|save|run|"
    r"try|the \w+ are|move|raise|import|see|set|sort|pass|wait|free|lower|drive)\b",
    re.IGNORECASE,
)


class Long(BaseException):
    """A call that had to be interrupted."""


def one(r, all_targets):
    """Draw a call, make it, and say what is wrong with what happened, if anything is."""
    heavy = r.random() < HEAVY
    # The one whose name comes first in an order of this draw: a new name takes its own share of
    # the draws and leaves the others what they were.
    salt = r.getrandbits(32)
    name, place, thing, which = min(
        (x for x in all_targets if heavy == (x[0] in COMPILING)),
        key=lambda x: hashlib.blake2s(f"{salt} {x[1]} {x[0]} {_said(x[3])}".encode()).digest(),
    )
    args, kwargs = arguments(r, name, thing, place in ("Model", "Result", "MassProperties"))
    began = time.perf_counter()
    faulthandler.dump_traceback_later(HANG, exit=True)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE, PATIENCE)
    problem = None
    said = ""
    try:
        with (
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            called(thing, place, which, args, kwargs)
    except KeyboardInterrupt:
        pass  # it was long, and let itself be interrupted
    except Exception as error:
        problem = fault(error)
        said = f"{type(error).__name__}: {error}"[:400]
        if problem is not None:
            lines = traceback.extract_tb(error.__traceback__)
            ours = [x for x in lines if "holonax/" in x.filename]
            at = ours[-1] if ours else lines[-1]
            said += f" [{Path(at.filename).name}:{at.lineno}]"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
    spent = time.perf_counter() - began
    if problem is None:
        return None, spent, f"{place}.{name}"
    return (
        {"call": f"{place}.{name}", "given": _shown(args, kwargs), "fault": problem, "said": said},
        spent,
        f"{place}.{name}",
    )


def _said(which):
    return getattr(which, "__name__", which)


def _shown(args, kwargs):
    from holonax._messages import shown

    return ", ".join([*map(shown, args), *(f"{k}={shown(v)}" for k, v in kwargs.items())])


def main(seed, calls, first=0):
    os.chdir(SCRATCH)  # paths that are taken for folders are not made in the user's
    signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    everything = targets()
    slowest: list = []
    faults = 0
    for k in range(first, calls):
        problem, spent, name = one(random.Random(f"{seed}-{k}"), everything)
        slowest = sorted([*slowest, (round(spent, 2), k, name)], reverse=True)[:10]
        if problem is not None:
            faults += 1
            print(json.dumps({"number": k, **problem}), flush=True)
    print(
        json.dumps(
            {
                "calls": calls - first,
                "faults": faults,
                "targets": len(everything),
                "cpu": round(time.process_time(), 1),
                "slowest": slowest,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
