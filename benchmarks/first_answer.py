"""What a user runs for a first answer, each in a process of its own.

    python -m benchmarks.first_answer four_bar              from the root of the repository
    python -m benchmarks.first_answer pairs slider_crank --pairs 10

`make bench WORKS=first-answer` times such processes from the start of their interpreter to their
end, so everything but the standard library is imported where it is needed.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

README = Path(__file__).parent.parent / "README.md"

# -- holonax ------------------------------------------------------------------------------------


def only_import() -> None:
    """Nothing else."""
    import holonax  # noqa: F401


def readme_blocks(heading: str) -> list[str]:
    """The Python code under a heading of the README, without its pictures."""
    section = README.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    section = section.partition("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    if not blocks:
        raise LookupError(f'the README has no code under "{heading}"')
    return [re.sub(r"^hx\.(plot|animate)\(.*\n", "", block, flags=re.MULTILINE) for block in blocks]


def four_bar() -> None:
    """The README's mechanism in ten lines, and what its result knows."""
    names: dict[str, Any] = {}
    for block in readme_blocks("A mechanism in ten lines"):
        exec(compile(block, "README.md", "exec"), names)


def example(name: str, t_end: float, body: str = "", joint: str = "") -> None:
    """A ready mechanism, its method chosen by its motion; of a `joint` also what else is asked."""
    import numpy as np

    import holonax as hx

    system, start = getattr(hx.examples, name)()
    result = hx.simulate(system, start, t_end, method="auto")
    print(result)
    print(result[body].position[-1] if body else result.q[-1])
    if joint:
        times = np.linspace(0.0, t_end, 101)
        print(result.at(times)[0].shape)
        sampled = hx.simulate(system, start, t_end, method="auto", save=times)
        print(sampled[body].position[-1])
        print(result.reaction(joint).force[-1])


def gyroscope() -> None:
    """A heavy rotor in two gimbals; the last line is its axis at the end."""
    import holonax as hx

    from .problems import Gyroscope as g

    model = hx.Model(gravity=(0.0, 0.0, -g.gravity))
    model.body("outer", g.outer_mass, g.outer_inertia)
    model.body("inner", g.inner_mass, g.inner_inertia)
    model.body(
        "rotor",
        g.rotor_mass,
        g.rotor_inertia,
        position=(0.0, g.offset, 0.0),
        angular_velocity=(0.0, g.spin, 0.0),
    )
    model.revolute("stand", "ground", "outer", at=(0.0, 0.0, 0.0), axis=(0.0, 0.0, 1.0))
    model.revolute("hinge", "outer", "inner", at=(0.0, 0.0, 0.0), axis=(1.0, 0.0, 0.0))
    model.revolute("bearing", "inner", "rotor", at=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0))
    result = model.simulate(g.t_end)
    print(result)
    print(result["rotor"].position[-1])
    print(result.reaction("bearing").force[-1])
    print(*result["rotor"].rotation[-1, :, 1])


def ensemble() -> None:
    """A thousand of the README's four-bars, the coupler of another mass in each."""
    import numpy as np

    import holonax as hx

    from .gradients import four_bar as built

    system, start = built()
    masses = np.linspace(1.8, 2.2, 1000)
    result = hx.ensemble(
        system, start, parameters={"coupler.mass": masses}, t_end=1.0, dt=1e-3, threads=1
    )
    print(result)
    print(result.q[-1])


# -- the gyroscope elsewhere --------------------------------------------------------------------


def gyroscope_mujoco() -> None:
    """In MuJoCo, a tree of hinges."""
    import mujoco

    from .problems import Gyroscope as g

    numbers = lambda *x: " ".join(map(str, x))  # noqa: E731
    model = mujoco.MjModel.from_xml_string(f"""
        <mujoco>
          <option timestep="0.001" integrator="RK4" gravity="{numbers(0, 0, -g.gravity)}"/>
          <worldbody>
            <body name="outer">
              <joint axis="0 0 1"/>
              <inertial pos="0 0 0" mass="{g.outer_mass}"
                        diaginertia="{numbers(*g.outer_inertia)}"/>
              <body name="inner">
                <joint axis="1 0 0"/>
                <inertial pos="0 0 0" mass="{g.inner_mass}"
                          diaginertia="{numbers(*g.inner_inertia)}"/>
                <body name="rotor">
                  <joint axis="0 1 0"/>
                  <inertial pos="{numbers(0, g.offset, 0)}" mass="{g.rotor_mass}"
                            diaginertia="{numbers(*g.rotor_inertia)}"/>
                </body>
              </body>
            </body>
          </worldbody>
        </mujoco>""")
    data = mujoco.MjData(model)
    data.qvel[2] = g.spin
    mujoco.mj_step(model, data, nstep=round(g.t_end / model.opt.timestep))
    mujoco.mj_forward(model, data)
    print(data.body("rotor").xipos)
    print(*data.body("rotor").xmat.reshape(3, 3)[:, 1])


def gyroscope_exudyn() -> None:
    """In Exudyn, free bodies and revolute joints; generalized-alpha gives up at this step."""
    import exudyn as exu
    import numpy as np
    from exudyn.utilities import RigidBodyInertia

    from .problems import Gyroscope as g

    container = exu.SystemContainer()
    system = container.AddSystem()

    def body(mass: float, moments: Any, offset: float = 0.0, spin: float = 0.0) -> int:
        return system.CreateRigidBody(
            inertia=RigidBodyInertia(mass=mass, inertiaTensor=np.diag(moments)),
            referencePosition=[0.0, offset, 0.0],
            initialAngularVelocity=[0.0, spin, 0.0],
            gravity=[0.0, 0.0, -g.gravity],
        )

    bodies = [
        system.CreateGround(),
        body(g.outer_mass, g.outer_inertia),
        body(g.inner_mass, g.inner_inertia),
        body(g.rotor_mass, g.rotor_inertia, g.offset, g.spin),
    ]
    for i, axis in enumerate(([0, 0, 1], [1, 0, 0], [0, 1, 0])):
        system.CreateRevoluteJoint(itemNumbers=bodies[i : i + 2], position=[0, 0, 0], axis=axis)
    system.Assemble()
    settings = exu.SimulationSettings()
    settings.timeIntegration.numberOfSteps = round(g.t_end / 1e-3)
    settings.timeIntegration.endTime = g.t_end
    settings.timeIntegration.newton.useModifiedNewton = True
    settings.solution.file.write = False
    system.SolveDynamic(settings, solverType=exu.DynamicSolverType.TrapezoidalIndex2)
    print(system.GetObjectOutputBody(bodies[-1], exu.OutputVariableType.Position))
    rotation = system.GetObjectOutputBody(bodies[-1], exu.OutputVariableType.RotationMatrix)
    print(*rotation.reshape(3, 3)[:, 1])


# -- every legal pair of methods ----------------------------------------------------------------

STEPS, STEP = 10, 1e-3


def build_four_bar() -> tuple[Any, Any]:
    """The README's four-bar, without running it."""
    names: dict[str, Any] = {}
    lines = readme_blocks("A mechanism in ten lines")[0].splitlines()
    made = [line for line in lines if not line.startswith(("result", "print"))]
    exec(compile("\n".join(made), "README.md", "exec"), names)
    return names["model"].build(hold=["crank"], hold_velocity=["crank.angle"])


def build_example(name: str) -> tuple[Any, Any]:
    """A ready mechanism."""
    import holonax as hx

    return getattr(hx.examples, name)()


MECHANISMS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "slider_crank": partial(build_example, "slider_crank"),
    "four_bar": build_four_bar,
    "spatial_slider_crank": partial(build_example, "spatial_slider_crank"),
}


def forget() -> None:
    """Drop what was traced and compiled in this process, so that no pair helps another."""
    if "holonax" in sys.modules:
        import jax

        from holonax.compiler import forget as forget_programs

        forget_programs()
        jax.clear_caches()


def pairs(mechanism: str, most: int | None, seconds: float) -> None:
    """CPU time of each pair's first `simulate`, a few steps, in an order without meaning.

    The first line has the time until the mechanism is built, from the start of the interpreter; of
    a first answer with a pair it is a part. No pair is begun after `seconds` of wall time.
    """
    import holonax as hx

    begin = time.monotonic()
    system, start = MECHANISMS[mechanism]()
    print(f"{time.process_time():.3f}\tuntil built", flush=True)
    methods = hx.methods()
    random.Random(0).shuffle(methods)
    for method in methods[:most]:
        if time.monotonic() - begin > seconds:
            return
        forget()
        steps = {"rtol": 1e-6} if method.integrator.needs_tolerance else {"dt": STEP}
        before = time.process_time()
        try:
            result = hx.simulate(
                system,
                start,
                STEPS * STEP,
                formulation=method.formulation,
                integrator=method.integrator,
                **steps,
            )
            how = "" if result.success else f"stopped: {result.message}"
        except Exception as error:
            how = f"refused: {error}"
        spent = time.process_time() - before
        name = f"{type(method.formulation).__name__} + {type(method.integrator).__name__}"
        print(f"{spent:.3f}\t{name}\t{' '.join(how.split())}".rstrip(), flush=True)


# -- which one ----------------------------------------------------------------------------------

ANSWERS: dict[str, Callable[[], None]] = {
    "import": only_import,
    "four_bar": four_bar,
    "slider_crank": partial(example, "slider_crank", 1.0),
    "andrews": partial(example, "andrews", 0.05),
    "spatial_slider_crank": partial(example, "spatial_slider_crank", 1.0, "slider", "guide"),
    "flyball_governor": partial(example, "flyball_governor", 1.0, "slider", "bearing"),
    "gyroscope": gyroscope,
    "ensemble": ensemble,
    "gyroscope_mujoco": gyroscope_mujoco,
    "gyroscope_exudyn": gyroscope_exudyn,
}


def main() -> None:
    """Run the one that is named."""
    parser = argparse.ArgumentParser(description="What a user runs for a first answer.")
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name in ANSWERS:
        names.add_parser(name)
    every = names.add_parser("pairs", help="the first steps with every legal pair of methods")
    every.add_argument("mechanism", choices=MECHANISMS, metavar="MECHANISM")
    every.add_argument("--pairs", type=int, metavar="N", help="that many of them only")
    every.add_argument("--seconds", type=float, default=float("inf"), help="begin none after these")
    given = parser.parse_args()
    if given.name == "pairs":
        pairs(given.mechanism, given.pairs, given.seconds)
    else:
        ANSWERS[given.name]()


if __name__ == "__main__":
    main()
