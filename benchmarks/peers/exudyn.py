"""Exudyn: generalized-alpha with index 3, and its trapezoidal rule with index 2.

Best settings found: modified Newton; the dense solver for small models, the sparse one for large;
the Lie group node for rods in space; rho = 0.9 (with 1 it diverges). Its explicit solvers refuse
joints. For small errors Newton's tolerance has to be tightened.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import exudyn as exu
import numpy as np
from exudyn.itemInterface import (
    Force,
    GenericJoint,
    Gravity,
    MarkerBodyMass,
    MarkerBodyRigid,
    MarkerNodePosition,
    MarkerNodeRigid,
    NodeRigidBodyRotVecLG,
    ObjectBeamGeometricallyExact,
    ObjectGround,
    PrismaticJoint2D,
    RevoluteJoint2D,
    Rigid2D,
    RigidBody2D,
    SensorNode,
    SphericalJoint,
    SpringDamper,
    Torque,
    TorsionalSpringDamper,
)
from exudyn.utilities import RigidBodyInertia

from .. import fresh
from ..measure import Recorder, tool_main, version_of
from ..problems import (
    MANY_MASSES,
    PEER_RUNS,
    RHO,
    STEP,
    Andrews,
    Beam,
    BeamNet,
    Cable,
    FourBars,
    Gyroscope,
    Rods,
    SliderCrank,
    SpatialSliderCrank,
    StiffChain,
    chain,
    net,
    tree,
)

warnings.filterwarnings("ignore")

OUTPUT = exu.OutputVariableType


@dataclass(frozen=True)
class Method:
    """A solver of Exudyn with its options; the defaults are the best ones for small models."""

    solver: str = "GeneralizedAlpha"
    linear: str = "EigenDense"
    modified: bool = True
    tolerance: float | None = None

    def __str__(self) -> str:
        name = f"generalized-alpha index 3, rho={RHO}"
        if self.solver != "GeneralizedAlpha":
            name = "trapezoidal rule index 2"
        newton = "modified Newton" if self.modified else "full Newton"
        tight = "" if self.tolerance is None else f" to {self.tolerance:g}"
        return f"{name}, {self.linear}, {newton}{tight}"


@dataclass
class Model:
    """An assembled system; the container keeps it alive."""

    container: Any
    system: Any
    parts: list[int]


def solve(model: Model, method: Method, step: float, t_end: float) -> Model:
    """Run to `t_end`."""
    settings = exu.SimulationSettings()
    time = settings.timeIntegration
    time.numberOfSteps = round(t_end / step)
    time.endTime = t_end
    time.verboseMode = 0
    time.newton.useModifiedNewton = method.modified
    if method.tolerance is not None:
        time.newton.relativeTolerance = method.tolerance
        time.newton.absoluteTolerance = 1e-2 * method.tolerance
    time.generalizedAlpha.spectralRadius = RHO
    settings.solutionSettings.writeSolutionToFile = False
    settings.solutionSettings.sensorsWritePeriod = max(step, 0.01)
    settings.displayStatistics = False
    settings.parallel.numberOfThreads = 1
    settings.linearSolverType = getattr(exu.LinearSolverType, method.linear)
    model.system.SolveDynamic(
        settings,
        solverType=getattr(exu.DynamicSolverType, method.solver),
        storeSolver=True,
        showHints=False,
    )
    return model


def planar_body(system: Any, mass: float, inertia: float, state: Any, rate: Any = (0, 0, 0)) -> int:
    """The number of a new planar body's node; body and node have the same number."""
    node = system.AddNode(
        Rigid2D(referenceCoordinates=[float(x) for x in state], initialVelocities=list(rate))
    )
    return system.AddObject(
        RigidBody2D(physicsMass=float(mass), physicsInertia=float(inertia), nodeNumber=node)
    )


def marker(system: Any, body: int, x: float, y: float) -> int:
    """A point of a body in its own axes."""
    return system.AddMarker(
        MarkerBodyRigid(bodyNumber=body, localPosition=[float(x), float(y), 0.0])
    )


def node_of(system: Any, body: int) -> int:
    """The node of a planar body."""
    return system.GetObject(body)["nodeNumber"]


def angle(model: Model, part: int, start: float) -> float:
    """Of a planar body at the end, which began with `start`."""
    node = node_of(model.system, part)
    return model.system.GetNodeOutput(node, OUTPUT.Coordinates)[2] + start


def measure(
    recorder: Recorder,
    build: Callable[[], Model],
    method: Method,
    step: float,
    t_end: float,
    error: Callable[[Model], float],
    variant: str = "",
) -> None:
    """Microseconds per step; the building of the model is not counted."""
    steps = round(t_end / step)

    def newton(model: Model) -> str:
        count = model.system.sys["dynamicSolver"].it.newtonStepsCount
        return f"{count / steps:.2f} Newton iterations a step"

    recorder.per_step(
        variant or str(method),
        steps,
        lambda model: solve(model, method, step, t_end),
        error,
        prepare=build,
        note=newton,
    )


# -- slider-crank -------------------------------------------------------------------------------


def slider_crank_model(mass: float = SliderCrank.mass) -> Model:
    """Two planar bodies, two revolute joints and a prismatic one: 6 coordinates, 5 constraints."""
    p = SliderCrank
    container = exu.SystemContainer()
    system = container.AddSystem()
    ground = system.AddObject(ObjectGround())
    crank = planar_body(system, 1.0, p.crank_inertia, (0, 0, p.angle))
    rod = planar_body(system, mass, p.rod_inertia, (p.q0[2], p.q0[3], p.q0[1]))
    origin = marker(system, ground, 0, 0)
    near, far = marker(system, rod, -p.offset, 0), marker(system, rod, p.rod - p.offset, 0)
    system.AddObject(RevoluteJoint2D(markerNumbers=[origin, marker(system, crank, 0, 0)]))
    system.AddObject(RevoluteJoint2D(markerNumbers=[marker(system, crank, p.crank, 0), near]))
    system.AddObject(
        PrismaticJoint2D(
            markerNumbers=[far, origin],
            axisMarker0=[1, 0, 0],
            normalMarker1=[0, 1, 0],
            constrainRotation=False,
        )
    )
    weight = system.AddMarker(MarkerBodyMass(bodyNumber=rod))
    system.AddLoad(Gravity(markerNumber=weight, loadVector=[0, -p.gravity, 0]))
    sensor = system.AddSensor(
        SensorNode(
            nodeNumber=node_of(system, crank),
            storeInternal=True,
            outputVariableType=OUTPUT.Coordinates,
        )
    )
    system.Assemble()
    return Model(container, system, [crank, sensor])


def slider_crank(recorder: Recorder) -> None:
    """Time per step; the solution of the fastest settings is as good as that of the others."""
    for method in (Method(), Method(modified=False), Method(linear="EigenSparse")):
        measure(
            recorder,
            slider_crank_model,
            method,
            STEP,
            SliderCrank.t_end,
            lambda model: SliderCrank.end_error(angle(model, model.parts[0], SliderCrank.angle)),
        )


def many_slider_cranks(recorder: Recorder) -> None:
    """Its parameter variation over the mass of the rod, in one process; models are built in it."""
    from exudyn.processing import ParameterVariation

    p, method = SliderCrank, Method()

    def one(given: dict[str, Any]) -> float:
        model = solve(slider_crank_model(float(given["mass"])), method, STEP, p.t_end)
        return angle(model, model.parts[0], p.angle)

    masses = (float(MANY_MASSES[0]), float(MANY_MASSES[-1]), PEER_RUNS)

    def run() -> Any:
        return ParameterVariation(
            one, {"mass": masses}, useMultiProcessing=False, showProgress=False
        )

    steps = round(p.t_end / STEP) * PEER_RUNS
    note = lambda found: f"{PEER_RUNS} runs, ParameterVariation"  # noqa: E731
    recorder.per_step(str(method), steps, run, lambda found: p.end_error(found[1][0]), note=note)


def slider_crank_accuracy(recorder: Recorder) -> None:
    """With a sensor that writes at the 1001 times, which costs next to nothing."""
    p = SliderCrank

    def error(model: Model) -> float:
        data = model.system.GetSensorStoredData(model.parts[1])
        at = np.rint(data[:, 0] / 0.01).astype(int)
        keep = np.abs(data[:, 0] - p.times[at]) < 1e-9
        angles = np.full(p.times.size, np.nan)
        angles[at[keep]] = data[keep, 3] + p.angle
        return p.error(angles)

    methods = (
        Method(),
        Method(tolerance=1e-12),
        Method("TrapezoidalIndex2"),
        Method("TrapezoidalIndex2", tolerance=1e-12),
    )
    for method in methods:
        settings = (1e-2, 1e-3, 1e-4) if method.tolerance is None else (1e-3, 1e-4, 5e-5)
        recorder.curve(
            str(method),
            "dt",
            settings,
            lambda h, model, m=method: solve(model, m, h, p.t_end),
            error,
            prepare=lambda h: slider_crank_model(),
        )


# -- Andrews' mechanism -------------------------------------------------------------------------


def andrews_model() -> Model:
    """Seven planar bodies in 21 coordinates, ten revolute joints, a spring and a torque."""
    p = Andrews
    angles, centres, points = p.bodies()
    container = exu.SystemContainer()
    system = container.AddSystem()
    ground = system.AddObject(ObjectGround())
    bodies = [
        planar_body(system, p.masses[i], p.inertias[i], (*centres[i], angles[i])) for i in range(7)
    ]

    def at(body: int, name: str) -> int:
        point = points[name]
        if body < 0:
            return marker(system, ground, *point)
        c, s = np.cos(angles[body]), np.sin(angles[body])
        x, y = point - centres[body]
        return marker(system, bodies[body], c * x + s * y, c * y - s * x)

    for a, b, name in p.pins:
        system.AddObject(RevoluteJoint2D(markerNumbers=[at(a, name), at(b, name)]))
    system.AddObject(
        SpringDamper(
            markerNumbers=[at(-1, "C"), at(2, "D")],
            stiffness=p.stiffness,
            damping=0.0,
            referenceLength=p.free_length,
        )
    )
    drive = system.AddMarker(MarkerNodeRigid(nodeNumber=node_of(system, bodies[0])))
    system.AddLoad(Torque(markerNumber=drive, loadVector=[0, 0, p.torque]))
    system.Assemble()
    return Model(container, system, bodies)


def andrews_error(model: Model) -> float:
    """Of the seven angles at the end."""
    starts = Andrews.bodies()[0]
    angles = [angle(model, part, start) for part, start in zip(model.parts, starts)]
    return Andrews.error_of_bodies(np.array(angles))


def andrews_cartesian(recorder: Recorder) -> None:
    """Time per step."""
    for method in (Method(), Method(modified=False), Method(linear="EigenSparse")):
        measure(recorder, andrews_model, method, Andrews.step, Andrews.t_end, andrews_error)


def andrews_accuracy(recorder: Recorder) -> None:
    """Time to reach an error."""
    methods = (
        Method(),
        Method(modified=False),
        Method(tolerance=1e-11),
        Method("TrapezoidalIndex2", tolerance=1e-11),
    )
    for method in methods:
        recorder.curve(
            str(method),
            "dt",
            (1e-4, 3e-5, 1e-5, 1e-6),
            lambda h, model, m=method: solve(model, m, h, Andrews.t_end),
            andrews_error,
            prepare=lambda h: andrews_model(),
        )


# -- many bodies --------------------------------------------------------------------------------


def rods_model(rods: Rods, node: str) -> Model:
    """Rods on spherical joints."""
    container = exu.SystemContainer()
    system = container.AddSystem()
    ground = system.CreateGround()
    inertia = RigidBodyInertia(
        mass=rods.mass,
        inertiaTensor=np.diag([rods.axial_inertia, *[rods.transverse_inertia] * 2]),
    )
    bodies = []
    for centre, heading in zip(rods.centres, rods.headings):
        c, s = np.cos(heading), np.sin(heading)
        bodies.append(
            system.CreateRigidBody(
                inertia=inertia,
                nodeType=getattr(exu.NodeType, node),
                referencePosition=list(centre),
                referenceRotationMatrix=np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]),
                gravity=[0, 0, -rods.gravity],
            )
        )
    for a, b, point in rods.joints:
        pair = [ground if a < 0 else bodies[a], bodies[b]]
        system.CreateSphericalJoint(bodyNumbers=pair, position=list(point), useGlobalFrame=True)
    system.Assemble()
    return Model(container, system, bodies)


NODES = {"Lie group node": "RotationRotationVector", "Tait-Bryan node": "RotationRxyz"}


def far_end(rods: Rods, model: Model) -> np.ndarray:
    """Where the last rod ends."""
    return model.system.GetObjectOutputBody(
        model.parts[-1], OUTPUT.Position, localPosition=[0.5 * rods.length, 0, 0]
    )


def per_step_rods(recorder: Recorder, rods: Rods) -> None:
    """Generalized-alpha with either node, sparse, modified Newton; dense too where it is small."""
    small = len(rods.centres) <= 10
    for name, node in NODES.items():
        for linear in ("EigenSparse", "EigenDense") if small else ("EigenSparse",):
            method = Method(linear=linear)
            measure(
                recorder,
                lambda node=node: rods_model(rods, node),
                method,
                STEP,
                rods.t_end,
                lambda model: rods.error(far_end(rods, model)),
                f"{method}, {name}",
            )


def chain_accuracy(recorder: Recorder, n: int) -> None:
    """The free end of the chain; with a tighter Newton tolerance the solver gives up."""
    rods = chain(n)
    method = Method(linear="EigenSparse")
    recorder.curve(
        f"{method}, Lie group node",
        "dt",
        (2e-3, 1e-3, 5e-4, 2.5e-4) if n < 1000 else (1e-2, 5e-3, 2.5e-3, 1e-3),
        lambda h, model: solve(model, method, h, rods.t_end),
        lambda model: rods.error(far_end(rods, model)),
        prepare=lambda h: rods_model(rods, NODES["Lie group node"]),
    )


def stiff_chain_model(n: int) -> Model:
    """Planar rods on hinges with torsion springs."""
    p = StiffChain
    container = exu.SystemContainer()
    system = container.AddSystem()
    half, rods = 0.5 * p.length, []
    end = marker(system, system.AddObject(ObjectGround()), 0, 0)
    for i in range(n):
        rods.append(planar_body(system, p.mass, p.inertia, (i * p.length + half, 0.0, 0.0)))
        pair = [end, marker(system, rods[-1], -half, 0)]
        system.AddObject(RevoluteJoint2D(markerNumbers=pair))
        spring = {"stiffness": p.stiffness, "damping": p.damping}
        system.AddObject(TorsionalSpringDamper(markerNumbers=pair, **spring))
        weight = system.AddMarker(MarkerBodyMass(bodyNumber=rods[-1]))
        system.AddLoad(Gravity(markerNumber=weight, loadVector=[0.0, -p.gravity, 0.0]))
        end = marker(system, rods[-1], half, 0)
    system.Assemble()
    return Model(container, system, rods)


def stiff_chain_accuracy(recorder: Recorder, n: int) -> None:
    """Sparse, with modified and full Newton; dense too where it is small."""
    centre = lambda model, i: model.system.GetObjectOutputBody(  # noqa: E731
        model.parts[i], OUTPUT.Position, localPosition=[0, 0, 0]
    )
    first = range(StiffChain.watched)
    linear = ("EigenSparse", "EigenDense") if n <= 10 else ("EigenSparse",)
    for solver, modified in itertools.product(linear, (True, False)):
        method = Method(linear=solver, modified=modified)
        recorder.curve(
            str(method),
            "dt",
            (1e-2, 5e-3, 2e-3, 1e-3, 5e-4, 2.5e-4),
            lambda h, model, m=method: solve(model, m, h, StiffChain.t_end),
            lambda model: StiffChain.error(n, np.stack([centre(model, i)[:2] for i in first])),
            prepare=lambda h: stiff_chain_model(n),
        )


def spatial_slider_crank_model() -> Model:
    """Haug's spatial slider-crank: a hinge about x, a ball, a cardan joint, a guide along x."""
    container = exu.SystemContainer()
    system = container.AddSystem()
    ground = system.CreateGround()
    shaft, pin, end = np.array([[0.0, 0.1, 0.12], [0.0, 0.1, 0.2], [0.2, 0.0, 0.0]])
    along = (end - pin) / 0.3
    arm = np.cross([1.0, 0.0, 0.0], along)
    arm /= np.linalg.norm(arm)
    axes = np.column_stack([along, arm, np.cross(along, arm)])
    # the velocities that go with the crank's 6 rad/s
    spin = np.array([6.0, 0.0, 0.0])
    at_pin = np.cross(spin, pin - shaft)
    sliding = np.array([at_pin @ along / along[0], 0.0, 0.0])
    turning = np.cross(along, sliding - at_pin) / 0.3
    # the cardan joint keeps the rod's arm square to x, which turns it about itself
    turning += along * (np.cross(turning, arm)[0] / -np.cross(along, arm)[0])
    bodies = []
    for mass, inertia, place, rotation, velocity, omega in (
        (0.12, (1e-4, 1e-5, 1e-4), shaft, np.eye(3), np.zeros(3), spin),
        (0.5, (4e-4, 4e-3, 4e-3), (pin + end) / 2, axes, (at_pin + sliding) / 2, turning),
        (2.0, (1e-4, 1e-4, 1e-4), end, np.eye(3), sliding, np.zeros(3)),
    ):
        bodies.append(
            system.CreateRigidBody(
                inertia=RigidBodyInertia(mass=mass, inertiaTensor=np.diag(inertia)),
                nodeType=exu.NodeType.RotationRotationVector,
                referencePosition=list(place),
                referenceRotationMatrix=rotation,
                initialVelocity=list(velocity),
                initialAngularVelocity=list(omega),
                gravity=[0, 0, -9.81],
            )
        )
    crank, rod, slider = bodies
    cross = np.column_stack([arm, [1.0, 0.0, 0.0], np.cross(arm, [1.0, 0.0, 0.0])])
    joint = functools.partial(system.CreateGenericJoint, useGlobalFrame=True)
    joint(bodyNumbers=[ground, crank], position=list(shaft), constrainedAxes=[1, 1, 1, 0, 1, 1])
    system.CreateSphericalJoint(bodyNumbers=[crank, rod], position=list(pin))
    joint(
        bodyNumbers=[rod, slider],
        position=list(end),
        rotationMatrixAxes=cross,
        constrainedAxes=[1, 1, 1, 0, 0, 1],
    )
    joint(bodyNumbers=[ground, slider], position=list(end), constrainedAxes=[0, 1, 1, 1, 1, 1])
    system.Assemble()
    return Model(container, system, bodies)


def spatial_slider_crank(recorder: Recorder) -> None:
    """Dense, with modified and full Newton."""
    for modified in (True, False):
        measure(
            recorder,
            spatial_slider_crank_model,
            Method(modified=modified),
            STEP,
            SpatialSliderCrank.t_end,
            lambda model: SpatialSliderCrank.error(
                model.system.GetObjectOutputBody(
                    model.parts[-1], OUTPUT.Position, localPosition=[0, 0, 0]
                )[0]
            ),
        )


def four_bars_model(n: int) -> Model:
    """2 n + 1 planar rods and 3 n + 1 revolute joints."""
    p = FourBars
    container = exu.SystemContainer()
    system = container.AddSystem()
    ground = system.AddObject(ObjectGround())
    half = 0.5 * p.length
    cranks, couplers = [], []
    for i in range(n + 1):
        spin = -p.speed / p.length
        state, rate = (i * p.length, half, 0.5 * np.pi), (0.5 * p.speed, 0.0, spin)
        crank = planar_body(system, p.mass, p.inertia, state, rate)
        below, foot = marker(system, ground, i * p.length, 0), marker(system, crank, -half, 0)
        system.AddObject(RevoluteJoint2D(markerNumbers=[below, foot]))
        cranks.append(crank)
    for i in range(n):
        state, rate = ((i + 0.5) * p.length, p.length, 0.0), (p.speed, 0.0, 0.0)
        coupler = planar_body(system, p.mass, p.inertia, state, rate)
        for crank, end in ((cranks[i], -half), (cranks[i + 1], half)):
            head = marker(system, crank, half, 0)
            system.AddObject(RevoluteJoint2D(markerNumbers=[head, marker(system, coupler, end, 0)]))
        couplers.append(coupler)
    for body in cranks + couplers:
        weight = system.AddMarker(MarkerBodyMass(bodyNumber=body))
        system.AddLoad(Gravity(markerNumber=weight, loadVector=[0, -p.gravity * p.mass, 0]))
    system.Assemble()
    return Model(container, system, cranks)


def four_bars(recorder: Recorder, n: int) -> None:
    """Sparse, and dense where it is small."""
    methods = [Method(linear="EigenSparse"), Method(linear="EigenSparse", modified=False)]
    for method in methods + [Method()] * (n <= 40):
        measure(
            recorder,
            lambda: four_bars_model(n),
            method,
            STEP,
            FourBars.t_end,
            lambda model: FourBars.error(n, angle(model, model.parts[0], 0.5 * np.pi)),
        )


# With its own tolerance of Newton's method, 1e-8, what is left of the equations of many beams does
# not fall so far for rounding, and steps are halved again and again. With this one they take two or
# three iterations, and errors are those of the step.
LOOSE = 1e-4
BEAM_METHODS = [Method("GeneralizedAlpha", "EigenSparse", x, LOOSE) for x in (True, False)]


def beam_model(n: int) -> Model:
    """A cantilever of `n` geometrically exact beam elements; its weight acts at the nodes."""
    container = exu.SystemContainer()
    system = container.AddSystem()
    nodes = row_of_beams(system, n, (0.0, 0.0), Beam.length)
    clamp = ground_at(system, (0.0, 0.0, 0.0))
    root = system.AddMarker(MarkerNodeRigid(nodeNumber=nodes[0]))
    system.AddObject(GenericJoint(markerNumbers=[clamp, root]))
    system.Assemble()
    return Model(container, system, nodes)


def row_of_beams(
    system: Any, n: int, start: tuple[float, float], length: float, turn: float = 0.0
) -> list[int]:
    """The nodes of `n` elements, level from `start` on, with their weight."""
    p = Beam
    section = exu.BeamSection()
    section.massPerLength = p.mass
    section.inertia = np.diag(p.inertia)
    section.stiffnessMatrix = np.diag([p.EA, *p.GA, p.GJ, *p.EI])
    nodes = []
    for s in np.linspace(0.0, length, n + 1):
        at = [start[0] + s * np.cos(turn), start[1] + s * np.sin(turn), 0, 0, 0, turn]
        nodes.append(system.AddNode(NodeRigidBodyRotVecLG(referenceCoordinates=at)))
    for pair in itertools.pairwise(nodes):
        system.AddObject(
            ObjectBeamGeometricallyExact(
                nodeNumbers=list(pair), length=length / n, sectionData=section
            )
        )
    for node in nodes:
        part = length / n * (0.5 if node in (nodes[0], nodes[-1]) else 1.0)
        place = system.AddMarker(MarkerNodePosition(nodeNumber=node))
        weight = [0, 0, -p.gravity * p.mass * part]
        system.AddLoad(Force(markerNumber=place, loadVector=weight))
    return nodes


def ground_at(system: Any, place: Any) -> int:
    """A marker of the ground."""
    ground = system.AddObject(ObjectGround(referencePosition=[float(x) for x in place]))
    return system.AddMarker(MarkerBodyRigid(bodyNumber=ground))


def positions(model: Model, nodes: list[int]) -> np.ndarray:
    """Of nodes at the end."""
    return np.stack([model.system.GetNodeOutput(k, OUTPUT.Position) for k in nodes])


def cable_model(n: int) -> Model:
    """A line of `n` elements on spherical joints."""
    container = exu.SystemContainer()
    system = container.AddSystem()
    nodes = row_of_beams(system, n, (0.0, 0.0), Cable.length)
    for node, x in ((nodes[0], 0.0), (nodes[-1], Cable.length)):
        end = system.AddMarker(MarkerNodeRigid(nodeNumber=node))
        ground = ground_at(system, (x, 0.0, 0.0))
        system.AddObject(SphericalJoint(markerNumbers=[ground, end]))
    system.Assemble()
    return Model(container, system, nodes)


def cable(recorder: Recorder, n: int) -> None:
    """Sparse, with modified and full Newton."""
    for method in BEAM_METHODS:
        measure(
            recorder,
            lambda: cable_model(n),
            method,
            STEP,
            Cable.t_end,
            lambda model: Cable.error(positions(model, model.parts[:: n // Cable.places])),
        )


def beam_net_model(n: int) -> Model:
    """`n` rows across `n` others; joints at all crossings, as their frames have different axes."""
    container = exu.SystemContainer()
    system = container.AddSystem()
    width = (n - 1) * BeamNet.spacing
    start = lambda k: k * BeamNet.spacing  # noqa: E731
    along = [row_of_beams(system, n - 1, (0.0, start(k)), width) for k in range(n)]
    across = [row_of_beams(system, n - 1, (start(k), 0.0), width, 0.5 * np.pi) for k in range(n)]
    quarter = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    for i, j in BeamNet.crossings(n):
        ends = [
            system.AddMarker(MarkerNodeRigid(nodeNumber=k)) for k in (along[j][i], across[i][j])
        ]
        system.AddObject(GenericJoint(markerNumbers=ends, rotationMarker1=quarter))
        if (i, j) in BeamNet.corners(n):
            ground = ground_at(system, (start(i), start(j), 0.0))
            system.AddObject(GenericJoint(markerNumbers=[ground, ends[0]]))
    system.Assemble()
    return Model(container, system, [along[j][i] for i, j in BeamNet.crossings(n)])


def beam_net(recorder: Recorder, n: int) -> None:
    """Sparse, with modified and full Newton."""
    for method in BEAM_METHODS:
        measure(
            recorder,
            lambda: beam_net_model(n),
            method,
            STEP,
            BeamNet.t_end,
            lambda model: BeamNet.error(n, positions(model, model.parts)),
        )


def beam(recorder: Recorder, n: int) -> None:
    """Sparse, with modified and full Newton; dense too where it is small."""
    methods = [Method(linear="EigenSparse"), Method(linear="EigenSparse", modified=False)]
    for method in BEAM_METHODS + methods + [Method()] * (n <= 16):
        measure(
            recorder,
            lambda: beam_model(n),
            method,
            STEP,
            Beam.t_end,
            lambda model: Beam.error(model.system.GetNodeOutput(model.parts[-1], OUTPUT.Position)),
        )


def first_answer(recorder: Recorder) -> None:
    """The gyroscope as free bodies on revolute joints."""
    setting = "trapezoidal rule index 2, modified Newton, dt=0.001"
    fresh.answer(recorder, "gyroscope", "gyroscope_exudyn", Gyroscope.error, setting)


WORKS: dict[str, Callable[[Recorder], None]] = {
    "slider-crank": slider_crank,
    "many slider-cranks": many_slider_cranks,
    "andrews cartesian": andrews_cartesian,
    "slider-crank accuracy": slider_crank_accuracy,
    "andrews accuracy": andrews_accuracy,
    "spatial slider-crank": spatial_slider_crank,
    "n-four-bar N=40": lambda r: four_bars(r, 40),
    "n-four-bar N=400": lambda r: four_bars(r, 400),
    "net 20x20": lambda r: per_step_rods(r, net(20)),
    "tree 500": lambda r: per_step_rods(r, tree(500)),
    "beam N=16": lambda r: beam(r, 16),
    "beam N=64": lambda r: beam(r, 64),
    "cable N=100": lambda r: cable(r, 100),
    "cable N=1000": lambda r: cable(r, 1000),
    **{f"beam-net {n}x{n}": lambda r, n=n: beam_net(r, n) for n in BeamNet.sizes},
    "first-answer/gyroscope": first_answer,
}
for _n in (10, 100, 1000):
    WORKS[f"chain N={_n}"] = lambda r, n=_n: per_step_rods(r, chain(n))
    WORKS[f"chain N={_n} accuracy"] = lambda r, n=_n: chain_accuracy(r, n)
    WORKS[f"stiff-chain N={_n} accuracy"] = lambda r, n=_n: stiff_chain_accuracy(r, n)


if __name__ == "__main__":
    tool_main("Exudyn", version_of("exudyn"), WORKS)
