"""Figures and animations: the right files, the right points, and messages that help."""

import importlib

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest

import holonax as hx
from holonax.view.animate import MAX_FRAMES
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
    assert labels(hx.plot(planar, ["upper.angle", "lower"]))[1:3] == ["angle [rad]", "position [m]"]
    given = {"tip, left [N]": planar.t, "tip, right [N]": planar.t, "speed [m/s]": planar.t}
    assert labels(hx.plot(planar, given))[1:3] == ["tip [N]", "speed [m/s]"]


@pytest.mark.parametrize(
    ("signals", "message"),
    [
        (["crank"], "no coordinate or body 'crank'"),
        ({"speed [m/s]": [1.0, 2.0]}, "one number for each"),
        ("upper", "must be a list"),
    ],
)
def test_wrong_signals_are_refused(planar, signals, message):
    with pytest.raises((ValueError, TypeError), match=message):
        hx.plot(planar, signals)


def test_a_body_is_drawn_through_its_joints_and_traced_points(planar):
    index = np.array([0, planar.t.size - 1])
    picture = skeleton(planar, index, [("lower", (0.0, 0.2))])
    upper, lower = picture.strokes
    assert not upper.closed and lower.points.shape == (2, 2, 2)
    elbow = planar["lower"].point((-0.5, 0.0))[index]
    np.testing.assert_allclose(upper.points[:, -1], elbow, atol=1e-9)
    np.testing.assert_allclose(picture.pins[:, 1], elbow, atol=1e-9)
    np.testing.assert_allclose(picture.fixed, [[0.0, 0.0]], atol=1e-12)
    assert picture.rods.shape[1] == 0
    three = skeleton(planar, index, [("lower", (0.0, 0.2)), ("lower", (0.5, 0.0))]).strokes[1]
    assert three.closed and three.points.shape == (2, 3, 2)


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


def test_a_slow_animation_keeps_its_speed_and_has_few_frames(planar, tmp_path):
    path = hx.animate(planar, tmp_path / "slow.gif", speed=0.01, fps=50, size=(120, 120))
    with Image.open(path) as image:
        assert image.size == (120, 120)
        assert image.n_frames <= MAX_FRAMES


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "motion.mp4"}, "ending in .gif"),
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
