"""Figures and animations: the right files, the right points, and messages that help."""

import importlib

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest

import holonax as hx
from holonax.result.resampling import refined
from holonax.view.animate import MAX_FRAMES
from holonax.view.inline import _Pose
from holonax.view.scene import draw
from holonax.view.skeleton import skeleton

matplotlib.use("Agg")

from matplotlib import pyplot
from PIL import Image


@pytest.fixture(scope="module")
def planar():
    """A double pendulum."""
    model = hx.Model()
    model.planar_body("upper", hx.rod(1.0, mass=1.0), position=(0.5, 0.0))
    model.planar_body("lower", hx.rod(1.0, mass=1.0), position=(1.5, 0.0))
    model.revolute("top", "ground", "upper", at=(0.0, 0.0))
    model.revolute("elbow", "upper", "lower", at_a=(0.5, 0.0), at_b=(-0.5, 0.0))
    return model.simulate(0.6, dt=0.01)


@pytest.fixture(scope="module")
def spatial():
    model = hx.Model()
    arm = hx.cylinder(radius=0.05, length=1.0, axis="x", mass=1.0)
    model.body("arm", arm, position=(0.5, 0.0, 0.0), velocity=(0.0, 1.0, 0.0))
    model.spherical("ball", "ground", "arm", at=(0.0, 0.0, 0.0))
    return model.simulate(0.4, dt=0.02)


@pytest.fixture(scope="module")
def functions():
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(2),
        force=lambda q, v, t, p: jnp.array([0.0, -9.81]),
        constraint=lambda q, t, p: jnp.array([q[0] ** 2 + q[1] ** 2 - 1.0]),
    )
    return hx.simulate(system, ([1.0, 0.0], [0.0, 0.0]), 0.4, dt=0.02)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


def labels(figure):
    return [axes.get_ylabel() for axes in figure.get_axes()]


def test_a_planar_result_gives_picture_signals_energy_and_drift(planar, tmp_path):
    figure = hx.plot(planar, traces={"tip": ("lower", (0.5, 0.0))}, title="double pendulum")
    figure.savefig(tmp_path / "figure.png", dpi=100)
    with Image.open(tmp_path / "figure.png") as image:
        assert image.format == "PNG"
        assert image.width == 720
    assert labels(figure) == [
        "y [m]",
        "position [m]",
        "angle [rad]",
        "energy [J]",
        "total − start − work [J]",
        "drift [SI units]",
    ]
    assert figure.get_axes()[-1].get_yscale() == "log"
    assert all(axes.get_xlabel() for axes in figure.get_axes()[2:])


@pytest.mark.parametrize("which", ["spatial", "functions"])
def test_other_results_are_plotted_too(which, request, tmp_path):
    figure = hx.plot(request.getfixturevalue(which))
    figure.savefig(tmp_path / "figure.pdf")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert ("coordinates" if which == "functions" else "position [m]") in labels(figure)


def test_curves_of_a_panel_differ_in_line_style(planar):
    axes = hx.plot(planar).get_axes()[1]
    styles = {(line.get_linestyle(), line._unscaled_dash_pattern) for line in axes.lines}
    assert len(styles) == len(axes.lines) == 4


def test_signals_are_chosen_by_name_or_given_with_a_unit(planar):
    assert labels(hx.plot(planar, ["upper.angle", "lower"]))[1:3] == [
        "upper angle [rad]",
        "position [m]",
    ]
    given = {"tip, left [N]": planar.t, "tip, right [N]": planar.t, "speed [m/s]": planar.t}
    assert labels(hx.plot(planar, given))[1:3] == ["tip [N]", "speed [m/s]"]


@pytest.mark.parametrize(
    ("signals", "message"),
    [
        (["crank"], "no quantity 'crank'"),
        ({"speed [m/s]": [1.0, 2.0]}, "one number for each"),
        ("upper", "must be a list"),
    ],
)
def test_wrong_signals_are_refused(planar, signals, message):
    with pytest.raises((ValueError, TypeError), match=message):
        hx.plot(planar, signals)


def test_a_body_is_drawn_through_its_joints_and_traced_points(planar):
    index = np.array([0, planar.t.size - 1])
    picture = skeleton(planar, index)
    upper, lower = picture.strokes
    assert not upper.closed and lower.points.shape == (2, 2, 2)
    elbow = planar["lower"].point((-0.5, 0.0))[index]
    np.testing.assert_allclose(upper.points[:, -1], elbow, atol=1e-9)
    np.testing.assert_allclose(picture.pins[:, 1], elbow, atol=1e-9)
    np.testing.assert_allclose(picture.fixed, [[0.0, 0.0]], atol=1e-12)
    assert picture.rods.shape[1] == 0


def test_a_body_without_a_shape_is_drawn_through_its_joints_and_traced_points():
    model = hx.Model()
    model.planar_body("plate", 1.0, 0.1)
    model.revolute("pin", "ground", "plate", at=(-0.5, 0.0))
    result = model.simulate(0.1, dt=0.01)
    (line,) = skeleton(result, np.array([0])).strokes
    np.testing.assert_allclose(line.points[0], [[-0.5, 0.0], [0.0, 0.0]], atol=1e-12)
    traces = [("plate", (0.0, 0.2)), ("plate", (0.5, 0.0))]
    three = skeleton(result, np.array([0]), traces).strokes[0]
    assert three.closed and three.points.shape == (1, 3, 2)


@pytest.mark.parametrize("which", ["planar", "spatial"])
def test_animation_is_a_gif_in_real_time(which, request, tmp_path):
    result = request.getfixturevalue(which)
    body = "lower" if which == "planar" else "arm"
    tip = (0.5, 0.0) if which == "planar" else (0.5, 0.0, 0.0)
    path = hx.animate(result, tmp_path / "new" / "motion.gif", traces=[(body, tip)], fps=10)
    with Image.open(path) as image:
        assert image.format == "GIF"
        shown = 0.0
        for k in range(image.n_frames):
            image.seek(k)
            shown += image.info["duration"] / 1000
    assert shown == pytest.approx(result.t[-1], abs=0.1)
    assert 1_000 < path.stat().st_size < 200_000


@pytest.mark.slow
def test_a_slow_animation_keeps_its_speed_and_has_few_frames(planar, tmp_path):
    path = hx.animate(planar, tmp_path / "slow.gif", speed=0.01, fps=50, size=(120, 120))
    with Image.open(path) as image:
        assert image.size == (120, 120)
        assert image.n_frames <= MAX_FRAMES


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "motion.avi"}, "ending in .gif or .mp4"),
        ({"speed": 0.0}, "speed=0.0 is out of range"),
        ({"traces": [("elbow", (0.0, 0.0))]}, "no body 'elbow'"),
        ({"traces": [("upper", (0.0, 0.0, 0.0))]}, "2 coordinates"),
        ({"traces": ["upper"]}, "must be a pair"),
    ],
)
def test_wrong_options_are_refused(planar, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        hx.animate(planar, **{"path": "motion.gif", **options})


def test_a_picture_at_a_time_with_and_without_axes(planar, tmp_path):
    paths = [hx.view.snapshot(planar, tmp_path / f"{x}.png", t=0.1, axes=x) for x in (True, False)]
    images = [np.asarray(Image.open(x).convert("L")) for x in paths]
    ink = [np.mean(x < 128) for x in images]
    assert ink[0] > 1.2 * ink[1] > 0.005  # scales and labels are gone, the mechanism is not
    with pytest.raises(ValueError, match=r"t=-1 is outside of the run"):
        hx.view.snapshot(planar, tmp_path / "a.png", t=-1.0)


def test_a_ring_gear_that_is_the_ground_is_drawn(tmp_path):
    model = hx.Model(gravity=(0.0, 0.0))
    model.planar_body("arm", hx.rod(0.2, mass=1.0))
    model.planar_body("planet", hx.disc(0.05, mass=1.0), position=(0.1, 0.0))
    model.revolute("A", "ground", "arm", at=(0.0, 0.0))
    model.revolute("B", "arm", "planet", at=(0.1, 0.0))
    model.gear("ring", "ground", "planet", carrier="arm", teeth=(60, 20), internal=True)
    path = hx.view.snapshot(model.simulate(0.1, dt=0.05), tmp_path / "a.png")
    assert path.stat().st_size > 1000


def test_a_beam_is_a_tube_and_not_a_row_of_balls():
    section = hx.Section.circle(0.05, E=4e6, G=1e6, density=300.0)
    model = hx.Model()
    model.beam("bar", (0, 0, 0), (1, 0, 0), section=section, up=(0, 0, 1), elements=2, order=2)
    model.fixed("root", "ground", "bar.start")
    system, start = model.build()
    pose = _Pose(system, start.q[None], start.v[None])
    picture = skeleton(pose, np.array([0]), {"tip": ("bar.end", (0.0, 0.0, 0.0))})
    assert not picture.solids and not picture.rods.shape[1]
    (tube,) = picture.tubes
    np.testing.assert_allclose(np.linalg.norm(tube.rings(0)[..., 1:], axis=-1), 0.05)
    assert tube.faces(0).shape == (4, 8, 4, 3) and not tube.bent.any()
    np.testing.assert_allclose(picture.traces["tip"], [[1.0, 0.0, 0.0]])


def test_a_model_shows_itself_in_a_notebook():
    model = hx.Model()
    assert "<img" not in model._repr_html_()
    model.planar_body("<rod>", hx.rod(1.0, mass=1.0))
    text = model._repr_html_()
    assert text.startswith("<img") and "&lt;rod&gt;" in text and "<rod>" not in text


def test_only_mechanisms_are_animated(functions, tmp_path):
    with pytest.raises(TypeError, match=r"made with hx\.Model"):
        hx.animate(functions, tmp_path / "motion.gif")


@pytest.mark.parametrize(("missing", "library"), [("matplotlib", "matplotlib"), ("PIL", "pillow")])
def test_a_missing_library_says_how_to_install_it(planar, tmp_path, monkeypatch, missing, library):
    found = importlib.import_module

    def without(name, package=None):
        if name.partition(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return found(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ImportError, match=rf'{library}.*pip install "holonax\[plot\]"'):
        hx.animate(planar, tmp_path / "motion.gif")
    if missing == "matplotlib":
        with pytest.raises(ImportError, match=r'pip install "holonax\[plot\]"'):
            hx.plot(planar)


# -- shapes and symbols ------------------------------------------------------------------------


def free_ball(**solid):
    model = hx.Model()
    model.planar_body("ball", solid.pop("solid", None) or 1.0, **solid)
    return model.simulate(0.1, dt=0.01)


def drawn_share(figure, colour):
    """The share of the picture's axes that is of about this colour."""
    figure.canvas.draw()
    image = np.asarray(figure.canvas.buffer_rgba())[..., :3].astype(float)
    box = figure.axes[0].get_window_extent()
    height = image.shape[0]
    inside = image[height - int(box.y1) : height - int(box.y0), int(box.x0) : int(box.x1)]
    return np.mean(np.max(np.abs(inside - colour), axis=-1) < 12)


@pytest.mark.parametrize(
    ("given", "radius"),
    [({"solid": hx.sphere(0.3, mass=1.0)}, 0.3), ({"inertia": 0.04}, 0.2)],
)
def test_a_free_body_is_drawn_by_its_shape_or_its_radius_of_gyration(given, radius):
    picture = skeleton(free_ball(**given), np.array([0]))
    figure = pyplot.figure(figsize=(4, 4), dpi=100)
    axes = figure.add_subplot()
    draw(axes, picture)
    (solid,) = picture.solids
    np.testing.assert_allclose(np.linalg.norm(solid.fills[0], axis=1), radius)
    x, y = np.diff(axes.get_xlim())[0], np.diff(axes.get_ylim())[0]
    fill = 255 * (1 - 0x70 / 255 * (1 - np.array([0x1F, 0x4E, 0x79]) / 255))
    share = drawn_share(figure, fill)
    assert share == pytest.approx(np.pi * radius**2 / (x * y), rel=0.1)


@pytest.fixture(scope="module")
def machine():
    """A crank with a wheel, a block on a spring and damper, gears, a slot and a cam."""
    model = hx.Model()
    model.planar_body("wheel", hx.disc(0.2, mass=1.0), angular_velocity=3.0)
    model.planar_body("large", hx.disc(0.4, mass=2.0), position=(0.6, 0.0))
    model.planar_body("block", 1.0, 0.01, position=(0.0, 1.0))
    angle = np.arctan2(0.7, 0.5)
    middle = (0.1 + 0.5 * np.cos(angle), -1.0 + 0.5 * np.sin(angle))
    model.planar_body("lever", hx.rod(1.0, mass=1.0), position=middle, angle=angle)
    model.planar_body("follower", hx.rod(0.5, axis="y", mass=1.0), position=(2.0, 0.45))
    model.planar_body("cam", 1.0, 0.02, position=(2.0, 0.0), angular_velocity=1.0)
    model.revolute("A", "ground", "wheel", at=(0.0, 0.0))
    model.revolute("B", "ground", "large", at=(0.6, 0.0))
    model.gear("gear", "wheel", "large", teeth=(20, 40))
    model.prismatic("rail", "ground", "block", at=(0.0, 1.0), axis=(1.0, 0.0))
    ends = ((1.0, 1.0), (0.0, 1.0))
    model.spring_damper(
        "spring", "ground", "block", at=ends, stiffness=9.0, damping=0.1, length=0.7
    )
    model.revolute("C", "ground", "lever", at=(0.1, -1.0))
    model.pin_in_slot(
        "slot", "lever", "large", at_a=(0.0, 0.0), at_b=(0.0, -0.3), direction_a=(1.0, 0.0)
    )
    model.revolute("D", "ground", "cam", at=(2.0, 0.0))
    model.prismatic("guide", "ground", "follower", at=(2.0, 0.45), axis=(0.0, 1.0))
    model.point_on_curve("contact", "cam", "follower", curve=_ellipse, at_b=(0.0, -0.25))
    return model.simulate(0.3, dt=0.01)


def _ellipse(x, y):
    return x**2 / 0.3**2 + y**2 / 0.2**2 - 1


@pytest.mark.slow
def test_springs_end_where_they_are_attached(machine):
    index = np.arange(machine.t.size)
    picture = skeleton(machine, index)
    springs = [m for m in picture.marks if m.style == "spring"]
    assert len(springs) == 1
    block = machine["block"].position
    across = springs[0].points[:, :, 1] - 1.0
    assert np.max(across) - np.min(across) > 0.03  # a zig-zag
    ends = springs[0].points[:, [0, -1], 0]
    length = 1.0 - block[:, 0]
    np.testing.assert_allclose(ends[:, 0], 1.0 - 0.12 * length, atol=1e-9)
    np.testing.assert_allclose(ends[:, 1], 1.0 - 0.88 * length, atol=1e-9)
    assert [m.style for m in picture.marks].count("damper") == 8


def test_gears_touch_and_turn_with_their_wheels(machine):
    picture = skeleton(machine, np.array([0, machine.t.size - 1]))
    gears = {m.body: m.points for m in picture.marks if m.body in ("wheel", "large") and m.closed}
    mean = {
        x: np.mean(np.linalg.norm(p - p.mean(axis=1, keepdims=True), axis=2))
        for x, p in gears.items()
    }
    assert mean["wheel"] == pytest.approx(0.2, rel=0.01)
    assert mean["large"] == pytest.approx(0.4, rel=0.01)
    arm = gears["wheel"][:, 0] - machine["wheel"].position[[0, -1]]
    turned = np.arctan2(*arm[1][::-1]) - np.arctan2(*arm[0][::-1])
    angle = machine.joint("A").angle
    assert turned == pytest.approx(angle[-1] - angle[0], abs=1e-9)


def test_a_cam_is_its_curve_and_turns_with_it(machine):
    picture = skeleton(machine, np.arange(machine.t.size))
    (cam,) = [m for m in picture.marks if m.body == "cam"]
    assert cam.closed and cam.style == "fill"
    tip = machine["follower"].point((0.0, -0.25))
    distance = np.linalg.norm(cam.points - tip[:, None], axis=2).min(axis=1)
    assert np.max(distance) < 0.02  # between two corners of the polygon
    (start,) = cam.points[:1]
    np.testing.assert_allclose(np.ptp(start, axis=0), (0.6, 0.4), atol=5e-3)


def test_a_slider_without_a_shape_is_a_block_on_its_rail(machine):
    picture = skeleton(machine, np.array([0]))
    (block,) = [m for m in picture.marks if m.body == "block" and m.style == "fill"]
    np.testing.assert_allclose(block.points[0].mean(axis=0), (0.0, 1.0), atol=1e-12)
    (rail,) = [
        m for m in picture.marks if m.style == "rail" and abs(m.points[0, 0, 1] - 1.0) < 1e-9
    ]
    slide = machine.joint("rail").slide
    assert rail.points[0, 0, 0] < slide.min() and rail.points[0, 1, 0] > slide.max()
    (slot,) = [m for m in picture.marks if m.body == "lever"]
    assert slot.closed and slot.style == "outline"


@pytest.mark.slow
def test_space_is_drawn_with_faces_springs_and_wheels(tmp_path):
    model = hx.Model()
    model.body("arm", hx.cylinder(0.05, 1.0, axis="x", mass=1.0), position=(0.5, 0.0, 0.0))
    model.body("free", 1.0, (0.01, 0.02, 0.03), position=(0.0, 1.0, 0.0))
    model.body("disc", 1.0, (0.02, 0.04, 0.02), position=(0.0, 2.0, 0.4), velocity=(0.4, 0.0, 0.0),
               angular_velocity=(0.0, 1.0, 0.0))  # fmt: skip
    model.spherical("ball", "ground", "arm", at=(0.0, 0.0, 0.0))
    ends = ((1.0, 0.0, 1.0), (1.0, 0.0, 0.0))
    model.spring_damper("spring", "ground", "arm", at=ends, stiffness=9.0)
    model.rolling_disc("roll", "disc", radius=0.4, axis=(0.0, 1.0, 0.0))
    result = model.simulate(0.1, dt=0.01)
    picture = skeleton(result, np.array([0]))
    assert {x.name for x in picture.solids} == {"arm", "free"}
    arm = next(x for x in picture.solids if x.name == "arm")
    low, high = arm.at(0, arm.corners()).min(axis=0), arm.at(0, arm.corners()).max(axis=0)
    np.testing.assert_allclose(high - low, (1.0, 0.1, 0.1), atol=1e-12)
    (coil,) = [m for m in picture.marks if m.style == "spring"]
    np.testing.assert_allclose(coil.points[0, [0, -1]], ends, atol=1e-12)
    rim = next(m for m in picture.marks if m.body == "disc" and m.closed)
    assert rim.points[0, :, 2].min() == pytest.approx(0.0, abs=1e-3)
    path = hx.animate(result, tmp_path / "space.gif", fps=10)
    assert path.stat().st_size > 1000


# -- dense output and named curves -------------------------------------------------------------


@pytest.fixture(scope="module")
def adaptive():
    """A pendulum in few and long steps."""
    model = hx.Model()
    model.planar_body("bob", hx.rod(1.0, mass=1.0), position=(0.5, 0.0))
    model.revolute("A", "ground", "bob", at=(0.0, 0.0))
    return model.simulate(3.0, rtol=1e-6)


def test_curves_of_adaptive_runs_come_from_their_dense_output(adaptive):
    assert adaptive.t.size < 100
    fine = refined(adaptive, 500, also=[0.1234])
    assert fine.t.size >= 500 and 0.1234 in fine.t and set(adaptive.t) <= set(fine.t)
    np.testing.assert_allclose(np.linalg.norm(fine["bob"].position, axis=1), 0.5, atol=1e-9)
    energy = fine.energy.total
    np.testing.assert_allclose(energy, energy[0], atol=1e-4)
    (line,) = adaptive.plot("A.angle").get_axes()[0].lines
    assert len(line.get_xdata()) >= 500


def test_states_on_both_sides_of_an_event_are_kept():
    model = hx.Model()
    model.planar_body("ball", hx.sphere(0.1, mass=1.0), position=(0.0, 1.0))
    bounce = hx.Event("floor", "ball.y", direction="falling", change=hx.Impact(0.5))
    result = model.simulate(0.6, rtol=1e-6, events=bounce)
    fine = refined(result, 200)
    twice = np.flatnonzero(np.diff(fine.t) == 0)
    assert len(twice) == 1 and np.all(np.diff(fine.t) >= 0)
    before, after = fine["ball"].velocity[twice[0] : twice[0] + 2, 1]
    assert after == pytest.approx(-0.5 * before, rel=1e-9)


def test_a_result_at_other_times_is_a_result(adaptive):
    times = np.linspace(0.0, 3.0, 31)
    at = adaptive.sampled(times)
    np.testing.assert_array_equal(at.t, times)
    reaction, rate = at.joint("A").reaction.force, at.joint("A").rate
    along = np.stack([np.cos(at.joint("A").angle), np.sin(at.joint("A").angle)], axis=1)
    # towards the pin: m w^2 l / 2 - m g.e, with w^2 = -3 g sin(angle) / l
    pull = -np.einsum("ij,ij->i", reaction, along)
    np.testing.assert_allclose(pull, 0.5 * rate**2 - 9.81 * along[:, 1], atol=1e-9)
    with pytest.raises(ValueError, match="rising order"):
        adaptive.sampled([1.0, 0.5])


def test_names_stand_for_what_is_usual(adaptive):
    figure = adaptive.plot("bob", "A", "A.reaction.force", "energy", "drift")
    wanted = ["position [m]", "A angle [rad]", "force [N]", "energy [J]", "drift"]
    assert labels(figure) == wanted
    assert [len(axes.lines) for axes in figure.get_axes()] == [2, 1, 2, 4, 2]
    assert len(adaptive.plot().get_axes()) == 6


def test_a_phase_portrait_is_one_quantity_over_another(adaptive):
    (axes,) = adaptive.plot(x="A.angle", y="A.rate").get_axes()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("A angle [rad]", "A rate [rad/s]")
    angle, rate = axes.lines[0].get_data()
    np.testing.assert_allclose(rate**2, -3 * 9.81 * np.sin(angle), atol=2e-3)
    with pytest.raises(TypeError, match="give x= and y= alone"):
        adaptive.plot("A", x="A.angle", y="A.rate")
    with pytest.raises(ValueError, match=r"no quantity 'A\.angel'. Did you mean A\.angle"):
        adaptive.plot("A.angel")
    with pytest.raises(ValueError, match="Name one"):
        adaptive.plot(x="bob", y="A.rate")


def test_a_mesh_is_drawn_by_its_triangles(tmp_path):
    (tmp_path / "part.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\n")
    shape = hx.Shape("mesh", path=str(tmp_path / "part.obj"), scale=0.001, position=(0.2, 0.0, 0.0))
    model = hx.Model()
    model.planar_body("part", 1.0, 0.1, shape=shape)
    (solid,) = skeleton(model.simulate(0.02, dt=0.01), np.array([0])).solids
    assert len(solid.fills) == 2
    np.testing.assert_allclose(solid.corners().max(axis=0), (0.201, 0.001), atol=1e-12)


def test_a_mass_without_a_shape_is_drawn_by_its_way(tmp_path):
    """On a rail, where nothing has a size at the start."""
    model = hx.Model()
    model.planar_body("mass", mass=1.0, inertia=1.0)
    model.prismatic("rail", "ground", "mass", at=(0.0, 0.0), axis=(0.0, 1.0))
    run = model.simulate(0.3, dt=0.01)
    hx.page(run, tmp_path / "fall.html")
    assert (tmp_path / "fall.html").stat().st_size < 5_000_000
