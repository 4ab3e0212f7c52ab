"""Pages: what they contain, and what a browser makes of them."""

import base64
import io
import json
import re
import struct
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import holonax as hx
from browser import CHROMIUM, Browser
from holonax.view.browser.contents import scene
from holonax.view.browser.parts import quaternion, shortest_turn
from holonax.view.meshes import read_mesh

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")


def slider_crank():
    model = hx.Model(gravity=(0.0, -9.81))
    model.planar_body("crank", hx.disc(0.2, mass=1.0), angular_velocity=8.0)
    model.planar_body("coupler", hx.rod(0.6, mass=2.0), position=(0.45, 0.0))
    model.planar_body("slider", hx.box((0.2, 0.12, 0.1), mass=1.5), position=(0.75, 0.0))
    model.revolute("A", "ground", "crank", at=(0.0, 0.0))
    model.revolute("B", "crank", "coupler", at_a=(0.15, 0.0), at_b=(-0.3, 0.0))
    model.revolute("C", "coupler", "slider", at_a=(0.3, 0.0), at_b=(0.0, 0.0))
    model.prismatic("P", "ground", "slider", at=(0.75, 0.0), axis=(1.0, 0.0))
    model.spring_damper(
        "spring", "ground", "slider", at_a=(1.3, 0), at_b=(0.1, 0), stiffness=200.0, length=0.5
    )
    return model


def top():
    model = hx.Model(gravity=(0.0, 0.0, -9.81))
    model.body(
        "top",
        hx.cylinder(0.1, 0.05, mass=1.0),
        position=(0.0, 0.0, 0.2),
        angular_velocity=(0.5, 0.0, 40.0),
    )
    model.spherical("foot", "ground", "top", at=(0.0, 0.0, 0.0))
    return model


@pytest.fixture(scope="module")
def planar():
    return slider_crank().simulate(1.0, rtol=1e-6)


@pytest.fixture(scope="module")
def spatial():
    return top().simulate(0.5, rtol=1e-6)


@pytest.fixture(scope="module")
def browser():
    with Browser() as found:
        yield found


# -- what a page contains -------------------------------------------------------------------------


def test_a_page_is_one_file_that_asks_for_nothing(planar, tmp_path):
    path = hx.page(planar, tmp_path / "new" / "motion.html", title="a </script> <b>title")
    text = path.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.findall(r"(?:src|href)\s*=|https?://", text)
    assert "a &lt;/script&gt; &lt;b&gt;title" in text and "</script> <b>" not in text
    said = json.loads(re.search(r'type="application/json">(.*?)</script>', text, re.DOTALL)[1])
    assert said["title"] == "a </script> <b>title"
    assert [x["name"] for x in said["bodies"]] == ["crank", "coupler", "slider"]


def test_shapes_springs_and_curves_are_there(planar):
    said = scene(planar, traces=[("coupler", (0.0, 0.1))])
    kinds = [[part["kind"] for part in body["parts"]] for body in said["bodies"]]
    assert kinds[0] == ["cylinder"] and kinds[2] == ["box"] and "box" in kinds[1]
    (spring,) = said["links"]
    assert spring["kind"] == "spring" and spring["a"] == [-1, [1.3, 0.0, 0.0]]
    assert spring["b"] == [2, [0.1, 0.0, 0.0]]
    names = {x["name"]: x["unit"] for x in said["quantities"]}
    assert names["A.angle"] == "rad" and names["spring.force"] == "N"
    assert set(said["chosen"]) <= set(names)
    assert len(said["trails"]) == 1 and len(said["arrows"]) == 4


def test_turns_are_rotations():
    rng = np.random.default_rng(3)
    for _ in range(20):
        a, b = (x / np.linalg.norm(x) for x in rng.normal(size=(2, 3)))
        w, x, y, z = shortest_turn(a, b)
        R = np.eye(3) + 2 * w * _cross((x, y, z)) + 2 * _cross((x, y, z)) @ _cross((x, y, z))
        assert np.allclose(R @ a, b)
        assert np.allclose(abs(quaternion(R) @ (w, x, y, z)), 1.0)
    for half in np.eye(3):
        R = 2 * np.outer(half, half) - np.eye(3)
        assert np.allclose(np.abs(quaternion(R)), [0, *half])
    assert np.allclose(shortest_turn(np.eye(3)[0], -np.eye(3)[0])[0], 0.0)


def _cross(u):
    return np.cross(np.eye(3), np.array(u))


def test_what_cannot_be_a_page(planar, tmp_path):
    with pytest.raises(ValueError, match=r"^page: 'motion.gif' is not a page. Give .*html"):
        hx.page(planar, tmp_path / "motion.gif")
    with pytest.raises(TypeError, match=r"^page: result="):
        hx.page(3, tmp_path / "motion.html")
    system, start = hx.examples.slider_crank()
    run = hx.simulate(system, start, 0.1, dt=0.01)
    with pytest.raises(TypeError, match=r"needs one made with hx\.Model"):
        hx.page(run, tmp_path / "motion.html")


# -- meshes ---------------------------------------------------------------------------------------

CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)
SIDES = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])


def written(kind, folder):
    """A tetrahedron as a file of each kind."""
    path = folder / f"body.{kind.split()[-1]}"
    triangles = CORNERS[SIDES]
    if kind == "binary stl":
        rows = [struct.pack("<12fH", 0, 0, 0, *t.ravel(), 0) for t in triangles]
        path.write_bytes(b"solid, but binary".ljust(80) + struct.pack("<I", 4) + b"".join(rows))
    elif kind == "text stl":
        loops = ["vertex " + " vertex ".join(" ".join(map(str, p)) for p in t) for t in triangles]
        path.write_text("solid\n" + "\n".join(f"facet normal 0 0 0 {x} endfacet" for x in loops))
    elif kind == "obj":
        points = "".join(f"v {x} {y} {z}\n" for x, y, z in CORNERS)
        path.write_text(points + "".join(f"f {a + 1}/1 {b + 1}//2 {c - 4}\n" for a, b, c in SIDES))
    else:
        numbers = CORNERS.astype("<f4").tobytes() + SIDES.astype("<u2").tobytes()
        said = {
            "buffers": [{"byteLength": len(numbers)}],
            "bufferViews": [
                {"buffer": 0, "byteLength": 48},
                {"buffer": 0, "byteOffset": 48, "byteLength": 24},
            ],
            "accessors": [
                {"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3"},
                {"bufferView": 1, "componentType": 5123, "count": 12, "type": "SCALAR"},
            ],
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
            "nodes": [{"children": [1], "translation": [2, 0, 0]}, {"mesh": 0, "scale": [2, 2, 2]}],
            "scenes": [{"nodes": [0]}],
        }
        if kind == "gltf":
            said["buffers"][0]["uri"] = "body.bin"
            (folder / "body.bin").write_bytes(numbers)
            path.write_text(json.dumps(said))
        else:
            text = json.dumps(said).encode()
            text += b" " * (-len(text) % 4)
            chunks = struct.pack("<I4s", len(text), b"JSON") + text
            chunks += struct.pack("<I4s", len(numbers), b"BIN\0") + numbers
            path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks)
    return path


@pytest.mark.parametrize("kind", ["binary stl", "text stl", "obj", "gltf", "glb"])
def test_meshes_are_read(kind, tmp_path):
    vertices, faces = read_mesh(written(kind, tmp_path))
    expected = CORNERS * 2 + [2, 0, 0] if kind.startswith("gl") else CORNERS
    assert np.allclose(vertices[faces], expected[SIDES])


def test_spoilt_meshes_are_refused(tmp_path):
    rng = np.random.default_rng(5)
    for kind in ("binary stl", "text stl", "obj", "gltf", "glb"):
        path = written(kind, tmp_path)
        good = path.read_bytes()
        for _ in range(60):
            bad = bytearray(good)
            for k in rng.integers(len(bad), size=3):
                bad[k] = rng.integers(256)
            path.write_bytes(bytes(bad[: rng.integers(1, len(bad) + 1)]))
            try:
                vertices, faces = read_mesh(path)
            except ValueError as error:
                assert str(error).startswith("mesh 'body.")
            else:
                assert faces.max() < len(vertices) and np.all(np.isfinite(vertices))
    (tmp_path / "out.gltf").write_text(json.dumps({"buffers": [{"uri": "../secret"}]}))
    with pytest.raises(ValueError, match="not in its folder"):
        read_mesh(tmp_path / "out.gltf")
    with pytest.raises(ValueError, match=r"mesh 'nothing.stl' cannot be read"):
        read_mesh(tmp_path / "nothing.stl")


# -- in a browser ---------------------------------------------------------------------------------


@needs_browser
def test_a_page_plays_from_disk(browser, planar, tmp_path):
    path = hx.page(planar, tmp_path / "motion.html", title="slider-crank")
    browser.requests.clear()
    browser.open(path.as_uri())
    assert browser.requests == [path.as_uri()] and browser.errors == []
    assert browser.get("document.title") == "slider-crank"
    browser.get("document.getElementById('play').click()")
    browser.until("holonax.time() > 0.2")
    browser.get("document.getElementById('play').click()")
    assert not browser.get("holonax.playing()")
    # scrub: the pose is the simulated one
    for share in (0.25, 0.9):
        browser.get(
            f"(s => {{ s.value = {share}; s.dispatchEvent(new Event('input')) }})"
            "(document.getElementById('scrub'))"
        )
        assert abs(browser.get("holonax.time()") - share) < 1e-6
        q, _ = planar.at([share])
        x, y = browser.get("holonax.pose('slider').at")[:2]
        assert np.allclose((x, y), (q[0, 2], q[0, 5]), atol=2e-5)
        w, *_, z = browser.get("holonax.pose('crank').turn")
        assert abs(np.sin(2 * np.arctan2(z, w) - q[0, 6])) < 2e-4
    assert browser.errors == []


@needs_browser
def test_the_picture_shows_the_pose(browser, planar, tmp_path):
    """The slider's colour is where it was simulated, and the background elsewhere."""
    image = pytest.importorskip("PIL.Image")
    browser.open(hx.page(planar, tmp_path / "motion.html").as_uri())
    browser.get("document.getElementById('show-joints').click()")
    browser.get("document.getElementById('show-grid').click()")
    for t in (0.1, 0.6):
        browser.get(f"holonax.setTime({t})")
        browser.get("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        picture = np.asarray(image.open(io.BytesIO(browser.picture())).convert("RGB"), float)
        q, _ = planar.at([t])
        for dy, coloured in ((0.03, True), (0.09, False)):
            x, y = browser.get(f"holonax.pixel([{q[0, 2] + 0.07}, {dy}, 0])")
            red, green, blue = picture[round(y), round(x)]
            assert (green > red + 20 and green > blue + 20) == coloured


@needs_browser
def test_a_slider_runs_the_model_again(browser):
    model = slider_crank()
    with hx.show(
        model, 1.0, sliders={"slider.mass": (0.5, 20.0)}, rtol=1e-6, browser=False
    ) as viewer:
        browser.open(viewer.url)
        first = browser.get("holonax.setTime(1.0), holonax.pose('slider').at[0]")
        browser.get(
            "(s => { s.value = 12; s.dispatchEvent(new Event('input')) })"
            "(document.querySelector('#parameters input'))"
        )
        old = browser.get("holonax.runs()")
        browser.until(f"holonax.runs() != {old}")
        second = browser.get("holonax.setTime(1.0), holonax.pose('slider').at[0]")
    expected = model.with_parameters({"slider.mass": 12.0}).simulate(1.0, rtol=1e-6)
    assert abs(second - expected["slider"].position[-1, 0]) < 1e-5
    assert abs(second - first) > 1e-3
    assert browser.errors == []


@needs_browser
def test_bodies_in_space_turn(browser, spatial, tmp_path):
    browser.open(hx.page(spatial, tmp_path / "top.html").as_uri())
    browser.get("holonax.setTime(0.37)")
    q, _ = spatial.at([0.37])
    turn = browser.get("holonax.pose('top').turn")
    assert abs(abs(np.dot(turn, q[0, 3:7])) - 1) < 1e-3  # between frames
    assert browser.errors == []


# -- the server -----------------------------------------------------------------------------------


def test_the_server_answers_its_own_page_only(planar):
    with hx.show(planar, browser=False) as viewer:
        with urllib.request.urlopen(viewer.url) as answer:
            assert b"holonax" in answer.read()
        base = viewer.url.rsplit("/", 2)[0]
        other = urllib.request.Request(viewer.url, headers={"Host": "evil.example"})
        for url in (base + "/", base + "/run", viewer.url + "../x", other):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(url)
        said = _post(viewer.url + "run", b"{}")
        assert "one result" in said["error"]


def test_what_a_page_asks_for_is_checked():
    with hx.show(
        slider_crank(), 0.1, dt=0.01, sliders={"B.at_a.0": (0.1, 0.2)}, browser=False
    ) as viewer:
        for text, words in (
            (b"{", "Expecting"),
            (b"[]", "no slider"),
            (b'{"crank.mass": 1}', "no slider"),
            (b'{"B.at_a.0": NaN}', "must be a number"),
            (b'{"B.at_a.0": "x"}', "must be a number"),
            (b'{"B.at_a.0": 7}', "outside of 0.1 to 0.2"),
        ):
            assert words in _post(viewer.url + "run", text)["error"]
        said = _post(viewer.url + "run", b'{"B.at_a.0": 0.12}')
        assert said["bodies"][0]["name"] == "crank"


def test_a_gain_of_a_function_has_a_slider():
    model = slider_crank()
    model.torque("motor", "crank", torque="u", parameters={"u": 0.5})
    with hx.show(model, 0.1, dt=0.01, sliders={"motor.u": (0, 5)}, browser=False) as viewer:
        said = _post(viewer.url + "run", b'{"motor.u": 3.0}')
    expected = model.with_parameters({"motor.parameters": {"u": 3.0}}).simulate(0.1, dt=0.01)
    power = next(x for x in said["quantities"] if x["name"] == "motor.power")
    found = np.frombuffer(base64.b64decode(power["values"]), "<f8")
    assert abs(found[-1] - expected.force("motor").power[-1]) < 1e-9


def _post(url, data):
    with urllib.request.urlopen(urllib.request.Request(url, data=data)) as answer:
        return json.loads(answer.read())


def test_what_cannot_be_shown(planar):
    model = slider_crank()
    for given, options, words in (
        (3, {}, "neither a result nor a model"),
        (model, {}, "t_end is missing"),
        (planar, {"t_end": 1.0}, "a result has been computed"),
        (model, {"t_end": 1.0, "sliders": {"cranc.mass": (0, 1)}}, "no parameter 'cranc.mass'"),
        (model, {"t_end": 1.0, "sliders": {"crank.mass": 3}}, "give a pair"),
        (model, {"t_end": 1.0, "sliders": {"crank.mass": (2, 3)}}, "must lie between"),
        (model, {"t_end": 1.0, "sliders": 3}, "sliders=3 is not a dictionary"),
        (model, {"t_end": 1.0, "sliders": np.zeros(3)}, "sliders=.* is not a dictionary"),
        (model, {"t_end": 1.0, "title": np.zeros(3)}, "title=.* must be a string"),
        (planar, {"title": 1j}, "title=1j must be a string"),
        (planar, {"port": 1.5}, "port=1.5"),
    ):
        with pytest.raises((ValueError, TypeError), match=f"^show: .*{words}"):
            hx.show(given, browser=False, **options)


def test_the_code_of_the_page_on_it_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parent.parent / "docs" / "viewer.md"
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, page.name, "exec"), names)
    assert names["result"].success and (tmp_path / "motion.html").stat().st_size > 10_000


@pytest.mark.slow
def test_a_beam_is_drawn_through_its_nodes(tmp_path):
    model = hx.Model(gravity=(0.0, 0.0, -9.81))
    section = hx.Section.rectangle(0.1, 0.1, E=4e6, G=1e6, density=300.0)  # soft, for long steps
    model.beam("beam", (0, 0, 0), (0.8, 0, 0), section=section, elements=3)
    model.fixed("root", "ground", "beam.start")
    result = model.simulate(0.005, dt=5e-4, integrator=hx.RK4())
    (beam,) = scene(result)["beams"]
    assert beam["nodes"] == [0, 1, 2, 3] and beam["largest"] > 0.0
    assert hx.animate(result, tmp_path / "beam.gif").exists()
