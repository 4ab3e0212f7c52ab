"""Robots from URDF and MJCF: links where Pinocchio has them, motions as MuJoCo computes them."""

import json
import os
import random
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import holonax as hx

ROOT = Path(__file__).resolve().parent.parent
PEERS = Path(os.environ.get("HOLONAX_PEERS", ROOT / ".venv-bench" / "bin" / "python"))


def peer(kind, path, given):
    """What another library says of a robot; skips where none is installed."""
    module = {"urdf": "pinocchio", "mjcf": "mujoco"}[kind]
    if not PEERS.exists():
        pytest.skip("no environment with peers")
    clean = {k: x for k, x in os.environ.items() if k != "PYTHONPATH"}
    words = [str(PEERS), str(Path(__file__).parent / "peer_robot.py"), kind, str(path)]
    done = subprocess.run(
        [*words, json.dumps(given)], capture_output=True, text=True, env=clean, timeout=120
    )
    if f"No module named '{module}'" in done.stderr:
        pytest.skip(f"no {module}")
    assert done.returncode == 0, done.stderr[-800:]
    return json.loads(done.stdout)


def link(name, mass, com=(0, 0, 0), rpy=(0, 0, 0), inertia=(0.01, 0.001, 0.0, 0.012, 0.002, 0.02)):
    words = dict(zip(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), inertia, strict=True))
    said = " ".join(f'{k}="{x}"' for k, x in words.items())
    origin = f'<origin xyz="{" ".join(map(str, com))}" rpy="{" ".join(map(str, rpy))}"/>'
    return (
        f'<link name="{name}"><inertial>{origin}<mass value="{mass}"/><inertia {said}/></inertial>'
        "</link>\n"
    )


def joint(name, kind, parent, child, xyz=(0, 0, 0), rpy=(0, 0, 0), axis=(0, 0, 1), more=""):
    limit = '<limit effort="1" velocity="1" lower="-3" upper="3"/>'
    limit = "" if kind in ("fixed", "continuous", "floating") else limit
    place = f'xyz="{" ".join(map(str, xyz))}" rpy="{" ".join(map(str, rpy))}"'
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin {place}/><axis xyz="{" ".join(map(str, axis))}"/>{limit}{more}</joint>\n'
    )


def robot(*parts):
    return '<?xml version="1.0"?>\n<robot name="r">\n' + "".join(parts) + "</robot>\n"


ARM = robot(
    link("base", 3.0),
    link("upper", 2.0, (0.1, 0.02, 0.2), (0.1, 0.2, 0.3)),
    link("fore", 1.0, (0, 0, 0.15)),
    link("slider", 0.5, (0.01, 0, 0)),
    link("tool", 0.2, (0, 0.03, 0)),
    joint("shoulder", "revolute", "base", "upper", (0, 0, 0.3), (0.2, -0.1, 0.4), (0, 1, 0.2)),
    joint("elbow", "continuous", "upper", "fore", (0.05, 0, 0.5), (0, 0.3, 0), (1, 0, 0)),
    joint("slide", "prismatic", "fore", "slider", (0, 0, 0.3), (0.5, 0, 0), (0, 0.3, 1)),
    joint("mount", "fixed", "slider", "tool", (0, 0.02, 0.1), (0, 0, 1.2)),
)
GRIPPER = robot(
    link("palm", 1.0),
    link("left", 0.1, (0.02, 0, 0.05)),
    link("right", 0.1, (-0.02, 0, 0.05)),
    joint("left joint", "revolute", "palm", "left", (0.05, 0, 0), (0, 0, 0), (0, 1, 0)),
    joint(
        "right joint",
        "revolute",
        "palm",
        "right",
        (-0.05, 0, 0),
        (0, 0, 0),
        (0, 1, 0),
        '<mimic joint="left joint" multiplier="-1" offset="0"/>',
    ),
)
CORNERS = {"fl": (0.3, 0.2), "fr": (0.3, -0.2), "bl": (-0.3, 0.2), "br": (-0.3, -0.2)}


def hinge(leg, name, parent, child, at):
    ends = f"{leg} {parent}", f"{leg} {child}"
    return joint(f"{leg} {name}", "revolute", *ends, at, axis=(0, 1, 0))


def quadruped():
    """Four legs, each a thigh and a shank, with a crank and a rod beside the thigh: a four-bar that
    is closed between rod and shank. Returns the URDF and the file beside it."""
    parts, loops = [link("trunk", 8.0, inertia=(0.2, 0, 0, 0.3, 0, 0.4))], ['base = "floating"\n']
    for leg, (x, y) in CORNERS.items():
        parts += [
            link(f"{leg} thigh", 1.0, (0, 0, -0.15)),
            link(f"{leg} shank", 0.5, (0, 0, -0.1)),
            link(f"{leg} crank", 0.2, (0.03, 0, 0), inertia=(1e-3, 0, 0, 1e-3, 0, 1e-3)),
            link(f"{leg} rod", 0.3, (0, 0, -0.15)),
            joint(f"{leg} hip", "revolute", "trunk", f"{leg} thigh", (x, y, 0), axis=(0, 1, 0)),
            joint(
                f"{leg} knee",
                "revolute",
                f"{leg} thigh",
                f"{leg} shank",
                (0, 0, -0.3),
                axis=(0, 1, 0),
            ),
            joint(f"{leg} motor", "revolute", "trunk", f"{leg} crank", (x, y, 0), axis=(0, 1, 0)),
            joint(
                f"{leg} pin", "revolute", f"{leg} crank", f"{leg} rod", (0.06, 0, 0), axis=(0, 1, 0)
            ),
        ]
        loops.append(
            f'[[items]]\ntype = "point_on_line"\nname = "{leg} loop"\na = "{leg} rod"\n'
            f'b = "{leg} shank"\nat_a = [0, 0, -0.3]\nat_b = [0.06, 0, 0]\naxis = [0, 1, 0]\n'
        )
    return robot(*parts), "\n".join(loops)


def saved(folder, name, text, beside=None):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    if beside is not None:
        path.with_suffix(".loops.toml").write_text(beside, encoding="utf-8")
    return path


def start_file(values):
    return "[start]\n" + "".join(f'"{k}" = {v!r}\n' for k, v in values.items())


# -- URDF -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (ARM, {}),
        (ARM, {"shoulder": 0.7, "elbow": -1.1, "slide": 0.15}),
        (GRIPPER, {"left joint": 0.4, "right joint": -0.4}),
        (quadruped()[0], {"fl hip": 0.3, "br knee": -0.5, "fr motor": 0.2, "fr pin": 1.0}),
    ],
    ids=["arm", "arm that is bent", "gripper", "quadruped"],
)
def test_links_are_where_pinocchio_has_them(text, values, tmp_path):
    path = saved(tmp_path, "robot.urdf", text, start_file(values))
    model = hx.load(path)
    frames = peer("urdf", path, values)
    bodies = [x.name for x in model.items.values() if x.type == "body"]
    assert len(bodies) >= 2
    for name in bodies:
        position, rotation = frames[name]
        assert_allclose(model[name].position, position, atol=1e-14)
        assert_allclose(model[name].rotation, rotation, atol=1e-14)


def test_a_link_that_is_fixed_to_another_becomes_part_of_it(tmp_path):
    model = hx.load(saved(tmp_path, "arm.urdf", ARM))
    assert "tool" not in model and "base" not in model
    slider = model["slider"]
    assert slider.mass == pytest.approx(0.7)
    turn = np.array([[np.cos(1.2), -np.sin(1.2)], [np.sin(1.2), np.cos(1.2)]])
    tool = np.array([0.0, 0.02, 0.1]) + np.append(turn @ [0.0, 0.03], 0.0)
    assert_allclose(slider.com, (0.5 * np.array([0.01, 0, 0]) + 0.2 * tool) / 0.7, atol=1e-15)


@pytest.mark.slow
def test_fingers_that_mimic_each_other_stay_symmetric(tmp_path):
    model = hx.load(saved(tmp_path, "gripper.urdf", GRIPPER))
    model.torque("squeeze", "left", torque=(0.0, 0.05, 0.0))
    result = model.simulate(0.2, dt=0.002)
    left, right = (result.joint(f"{side} joint").angle for side in ("left", "right"))
    assert abs(left[-1]) > 0.01
    assert_allclose(right, -left, atol=1e-12)


def test_a_quadruped_has_its_loops_closed_where_it_begins(tmp_path):
    model = hx.load(saved(tmp_path, "dog.urdf", *quadruped()))
    assert sum(x.type == "body" for x in model.items.values()) == 1 + 4 * 4
    for leg, (x, y) in CORNERS.items():
        rod, shank = model[f"{leg} rod"], model[f"{leg} shank"]
        assert_allclose(np.add(rod.position, (0, 0, -0.3)), (x + 0.06, y, -0.3), atol=1e-15)
        assert_allclose(np.add(shank.position, (0.06, 0, 0)), (x + 0.06, y, -0.3), atol=1e-15)


@pytest.mark.slow
def test_a_quadruped_moves_as_its_four_bars_let_it(tmp_path):
    """They are parallelograms: crank and shank stay parallel."""
    model = hx.load(saved(tmp_path, "dog.urdf", *quadruped()))
    system, start = model.build()
    found = hx.diagnose(system, start.q)
    assert found.mobility == 6 + 2 * 4 and found.redundant == 0  # the trunk's, and two in each leg
    for leg in CORNERS:
        model.torque(f"{leg} turn", f"{leg} crank", torque=(0.0, 0.3, 0.0))
    result = model.simulate(0.1, dt=0.005)
    assert result.success
    crank, shank = (result["fl " + x].rotation for x in ("crank", "shank"))
    assert_allclose(crank, shank, atol=1e-10)
    assert abs(result.joint("fl motor").angle[-1]) > 0.01


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("<robot", "<robt"), "this is not XML: mismatched tag"),
        (
            ('<robot name="r">', '<!DOCTYPE r [<!ENTITY a "b">]><robot>'),
            "document type or entities",
        ),
        (('type="revolute"', 'type="planar"'), "its type 'planar' is not read"),
        (('mass value="2.0"', 'mass value="x"'), "value='x' must be 1 finite numbers"),
        (('child link="fore"', 'child link="fort"'), "its child, 'fort', is no link"),
        (('child link="fore"', 'child link="upper"'), "hangs on 'base' already"),
        (('mass value="1.0"', 'mass value="0"'), "link 'fore': it moves but has no mass"),
        (('xyz="0 0.3 1"', 'xyz="0 0 0"'), "its axis has no length"),
    ],
)
def test_what_is_wrong_with_a_robot_is_told(change, message, tmp_path):
    path = saved(tmp_path, "arm.urdf", ARM.replace(*change, 1))
    with pytest.raises(hx.FileError) as caught:
        hx.load(path)
    assert message in str(caught.value)
    assert any(x.line for x in caught.value.problems)


def test_what_is_wrong_beside_a_robot_is_told(tmp_path):
    beside = '[start]\nelbo = 1\n[[items]]\ntype = "revolute"\nname = "A"\na = "fore"\nb = "x"\n'
    with pytest.raises(hx.FileError, match="there is no joint 'elbo'"):
        hx.load(saved(tmp_path, "arm.urdf", ARM, beside))
    with pytest.raises(hx.FileError, match="there is no body 'x'"):
        hx.load(saved(tmp_path, "arm.urdf", ARM, beside.replace("elbo =", "elbow =")))


# -- MJCF -----------------------------------------------------------------------------------------

TREE = """<mujoco>
  <compiler angle="degree"/>
  <option timestep="0.0005" integrator="RK4" gravity="0.3 0 -9.81">
    <flag contact="disable"/>
  </option>
  <default><geom density="700"/><joint damping="0.02"/></default>
  <worldbody>
    <body name="upper" pos="0 0 1" euler="10 20 30">
      <joint name="shoulder" axis="0 1 0.2" stiffness="3" springref="20"/>
      <geom type="capsule" fromto="0 0 0 0.1 0 -0.5" size="0.04"/>
      <body name="fore" pos="0.1 0 -0.5" axisangle="1 0 0 15">
        <joint name="elbow" pos="0 0.01 0" axis="1 0 0"/>
        <geom type="box" size="0.03 0.04 0.2" pos="0 0 -0.2" quat="0.9 0.1 0 0.2"/>
        <body name="hand" pos="0 0 -0.4">
          <joint name="rail" type="slide" axis="0 0.2 1" damping="5"/>
          <inertial mass="0.7" pos="0.01 0 0" diaginertia="0.002 0.003 0.004" euler="5 0 10"/>
          <body name="plate" pos="0 0.05 0">
            <geom type="cylinder" size="0.03 0.01" mass="0.1"/>
          </body>
        </body>
      </body>
      <body name="bob" pos="0 0.2 0">
        <joint name="ball" type="ball"/>
        <geom type="ellipsoid" size="0.05 0.06 0.07" pos="0 0 -0.3"/>
        <geom type="sphere" size="0.05" pos="0.1 0 -0.1"/>
      </body>
    </body>
    <body name="stone" pos="1 1 2" xyaxes="1 0.1 0 0 1 0.2"><freejoint/>
      <geom type="box" size="0.1 0.2 0.3"/>
    </body>
  </worldbody>
</mujoco>
"""


def test_bodies_move_as_mujoco_moves_them(tmp_path):
    """MuJoCo by RK4 in steps of half a millisecond, we with a tolerance of 1e-10: positions differ
    by 5e-12 m over the second; 1e-9 leaves room for other machines and versions."""
    path = saved(tmp_path, "tree.xml", TREE)
    model = hx.load(path)
    times = np.linspace(0.0, 1.0, 11)
    exact = peer("mjcf", path, times.tolist())
    mass = dict(zip(exact["names"], exact["mass"], strict=True))
    assert model["upper"].mass == pytest.approx(mass["upper"], rel=1e-12)
    assert model["hand"].mass == pytest.approx(mass["hand"] + mass["plate"], rel=1e-12)
    options = {"formulation": hx.PostStabilized("both", passes=2), "integrator": hx.Dopri5()}
    result = model.simulate(1.0, rtol=1e-10, atol=1e-12, save=times, **options)
    for k, name in enumerate(exact["names"]):
        if name == "plate":
            continue
        position = np.array([frame[k][0] for frame in exact["frames"]])
        axes = np.array([frame[k][1] for frame in exact["frames"]]).reshape(-1, 3, 3)
        assert_allclose(result[name].position[0], position[0], atol=1e-13)
        assert_allclose(result[name].rotation[0], axes[0], atol=1e-13)
        assert_allclose(result[name].position, position, atol=1e-9)
        assert_allclose(result[name].rotation, axes, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('<joint name="elbow"', '<joint name="x"/><joint name="elbow"'), "it has 2 joints"),
        (("</mujoco>", "<actuator/></mujoco>"), "<actuator>: this is not read"),
        (('name="rail"', 'name="rail" armature="1"'), "armature is not read"),
        (('type="cylinder"', 'type="mesh"'), "geom of type 'mesh'"),
        (('size="0.04"', 'size="-1"'), "must be 1 lengths"),
        (('pos="1 1 2"', 'pos="1 1"'), "must be 3 finite numbers"),
        (('name="rail"', 'name="rail" class="c"'), "classes of defaults are not read"),
    ],
)
def test_what_is_not_read_of_a_model_of_mujoco_is_told(change, message, tmp_path):
    with pytest.raises(hx.FileError) as caught:
        hx.load(saved(tmp_path, "tree.xml", TREE.replace(*change, 1)))
    assert message in str(caught.value) and "line " in str(caught.value)


def test_contacts_are_left_out_with_a_warning(tmp_path):
    text = TREE.replace('<flag contact="disable"/>', "")
    with pytest.warns(UserWarning, match="contacts are not read"):
        hx.load(saved(tmp_path, "tree.xml", text))


@pytest.mark.slow
def test_a_loop_closed_by_connect(tmp_path):
    bar = '<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" contype="0" conaffinity="0"/>'
    text = f"""<mujoco><worldbody>
      <body name="a" euler="0 -90 0"><joint axis="0 1 0"/>{bar}
        <body name="b" pos="0.3 0 0" euler="0 90 0"><joint axis="0 1 0"/>{bar}
          <body name="c" pos="0.3 0 0" euler="0 70 0"><joint type="ball"/>{bar}</body>
        </body>
      </body></worldbody>
      <equality><connect body1="c" anchor="0.3 0 0"/></equality></mujoco>"""
    result = hx.load(saved(tmp_path, "loop.xml", text)).simulate(0.1, dt=0.005)
    held = result["c"].point((0.3, 0.0, 0.0))
    assert result.success
    assert_allclose(held, np.tile(held[0], (len(held), 1)), atol=1e-12)


BAR = '<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" contype="0" conaffinity="0"/>'
TIED = {
    "connect": ('<connect body1="c" anchor="0.3 0 0" {}/>', "", "c"),
    "weld": ('<weld body1="b" body2="d" {}/>', '<body name="d" pos="0 0.1 0.3"><freejoint/>', "d"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", TIED)
def test_equalities_hold_as_those_of_mujoco_when_these_are_made_hard(kind, tmp_path):
    """MuJoCo's are soft: they give way as the square of their time constant, so one ten times as
    short leaves a hundredth of the difference from ours, which do not."""
    tie, free, last = TIED[kind]
    end = f'<body name="c" pos="0.3 0 0" euler="0 70 0"><joint type="ball"/>{BAR}</body>'
    inner, outer = (end, "") if not free else ("", f'{free}<geom size="0.05"/></body>')
    times, found = np.linspace(0.0, 0.2, 3), []
    for soft in (0.004, 0.0004):
        hard = tie.format(f'solref="{soft} 1" solimp="0.9999 0.9999 0.001"')
        text = f"""<mujoco><option timestep="{soft / 4}" integrator="RK4" tolerance="1e-14">
          <flag contact="disable"/></option><worldbody>
          <body name="a" euler="0 -90 0"><joint axis="0 1 0"/>{BAR}
            <body name="b" pos="0.3 0 0" euler="0 90 0"><joint axis="0 1 0"/>{BAR}{inner}</body>
          </body>{outer}</worldbody><equality>{hard}</equality></mujoco>"""
        path = saved(tmp_path, "tied.xml", text)
        exact = peer("mjcf", path, times.tolist())
        result = hx.load(path).simulate(0.2, rtol=1e-9, save=times)
        k = exact["names"].index(last)
        other = np.array([frame[k][0] for frame in exact["frames"]])
        found.append(np.abs(result[last].position - other).max())
    assert found[0] < 1e-6 and 0.003 < found[1] / found[0] < 0.03


def test_links_look_as_their_visuals_say(tmp_path):
    (tmp_path / "meshes").mkdir()
    corners = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]
    facet = "".join(f"vertex {x} {y} {z}\n" for x, y, z in corners)
    solid = f"solid s\nfacet normal 0 0 1\nouter loop\n{facet}endloop\nendfacet\nendsolid s\n"
    (tmp_path / "meshes" / "hand.stl").write_text(solid)
    looks = (
        '<visual><origin xyz="0 0 0.2" rpy="0 1.5707963267948966 0"/><geometry>'
        '<cylinder radius="0.05" length="0.4"/></geometry></visual>'
        '<visual><geometry><mesh filename="package://arm/meshes/hand.stl" scale="0.1 0.1 0.1"/>'
        "</geometry></visual>"
        '<visual><geometry><mesh filename="nowhere.stl"/></geometry></visual>'
    )
    text = robot(
        link("base", 1.0),
        link("fore", 1.0).replace("</link>", looks + "</link>"),
        joint("elbow", "revolute", "base", "fore", xyz=(0, 0, 1)),
    )
    with pytest.warns(UserWarning) as told:
        model = hx.load(saved(tmp_path, "arm.urdf", text))
    said = [str(x.message) for x in told]
    assert any("link 'fore': it is not shown: there is no file 'nowhere.stl'" in x for x in said)
    assert any("limits of joints are not enforced (elbow -3 to 3 rad)" in x for x in said)
    cylinder, mesh = model["fore"].shape
    assert cylinder.kind == "cylinder" and mesh.scale == 0.1
    assert_allclose(cylinder.pose[0] @ [0, 0, 1], [1, 0, 0], atol=1e-12)
    assert hx.page(model.simulate(0.1, dt=0.01), tmp_path / "arm.html").exists()


def test_geoms_are_shown_where_mujoco_has_them(tmp_path):
    text = TREE.replace('name="elbow"', 'name="elbow" range="-90 45"')
    with pytest.warns(UserWarning, match=r"elbow -1\.5708 to 0\.785398 rad"):
        model = hx.load(saved(tmp_path, "tree.xml", text))
    (capsule,) = model["upper"].shape
    R, middle = capsule.pose
    assert capsule.length == pytest.approx(np.hypot(0.1, 0.5))
    ends = [middle + s * capsule.length / 2 * R[:, 2] for s in (-1, 1)]
    assert_allclose(ends, [[0, 0, 0], [0.1, 0, -0.5]], atol=1e-12)
    (box,) = model["fore"].shape
    assert box.size == (0.06, 0.08, 0.4)
    assert_allclose(box.position, [0, 0, -0.2], atol=1e-12)
    (plate,) = model["hand"].shape  # of the body that is fixed to it
    assert_allclose(plate.position, [0, 0.05, 0], atol=1e-12)


def test_spoilt_robots_give_a_model_or_our_message(tmp_path):
    r = random.Random(5)
    counts = {"read": 0, "refused": 0}
    nasty = ["", "x", "1e999", "nan", "<", "&lt;", "&amp;", '"', "-1", "0 0 0", "<a>", "</link>"]
    for _ in range(400):
        name, text = r.choice([("a.urdf", ARM), ("g.urdf", GRIPPER), ("t.xml", TREE)])
        for _ in range(r.choice([1, 1, 2, 4])):
            at = r.randrange(len(text))
            words = [x for x in text.replace('"', " ").split() if x.isalnum()]
            if r.random() < 0.4:
                text = text[:at] + r.choice(nasty) + text[at + r.choice([0, 1, 5]) :]
            else:
                text = text.replace(r.choice(words), r.choice([*words, *nasty]), r.choice([1, -1]))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                hx.load(saved(tmp_path, name, text))
            counts["read"] += 1
        except hx.ModelError as error:
            assert isinstance(error, hx.FileError), error
            counts["refused"] += 1
    assert counts["read"] > 10 and counts["refused"] > 100
