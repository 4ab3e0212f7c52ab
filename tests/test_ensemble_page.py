"""The page of an ensemble: what it holds, and that a browser shows it."""

import json
import re

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from browser import CHROMIUM, Browser

TIMES = np.linspace(0.0, 0.2, 11)


@pytest.fixture(scope="module")
def runs():
    """Pendulums of other lengths."""
    model = hx.Model()
    model.planar_body("bob", hx.rod(1.0, mass=1.0), position=(0.5, 0.0))
    model.revolute("A", "ground", "bob", at=(0.0, 0.0))
    system, start = model.build()
    masses = np.linspace(1.0, 2.0, 50)
    reduce = {
        "fast": hx.many.Largest(lambda t, q, v: jnp.abs(v[2])),
        "band": hx.many.Bands("bob.angle"),
    }
    parameters = {"bob.inertia": masses / 12}
    return hx.ensemble(system, start, parameters=parameters, times=TIMES, dt=0.01, reduce=reduce)


def contents(path):
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"(?:src|href)\s*=|https?://", text)
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_page_holds_bands_and_histograms(runs, tmp_path):
    said = contents(hx.view.ensemble_page(runs, tmp_path / "runs.html", ghosts=3))
    items = {x["name"]: x for x in said["items"]}
    assert {"bob.x", "bob.y", "bob.angle", "fast", "band"} == set(items)
    angle = items["bob.angle"]
    np.testing.assert_allclose(angle["bands"]["middle"], np.median(runs.q[:, :, 2], axis=0))
    np.testing.assert_allclose(angle["bands"]["low"], runs.q[:, :, 2].min(axis=0))
    assert all(sum(x) == 50 for x in angle["histogram"]["counts"])
    assert sum(items["fast"]["histogram"]["counts"][0]) == 50
    np.testing.assert_allclose(items["band"]["bands"]["middle"], runs.reduced["band"].mean)
    assert len(said["ghosts"]) == 3
    ends = np.array(said["ghosts"][-1][0][-1])  # of the rod of the last run, at the end
    assert np.hypot(*(ends[0] - ends[-1])) == pytest.approx(1.0, abs=1e-5)


def test_mistakes_are_said(runs, tmp_path):
    with pytest.raises(TypeError, match="is not an ensemble"):
        hx.view.ensemble_page(3, tmp_path / "a.html")
    with pytest.raises(ValueError, match=r"ending in \.html"):
        hx.view.ensemble_page(runs, tmp_path / "a.png")
    with pytest.raises(ValueError, match="ghosts=-1"):
        hx.view.ensemble_page(runs, tmp_path / "a.html", ghosts=-1)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_a_browser_shows_it(runs, tmp_path):
    path = hx.view.ensemble_page(runs, tmp_path / "runs.html", ghosts=3)
    with Browser() as browser:
        browser.open(path.as_uri())
        blank = "(id) => { const c = document.getElementById(id); const d = c.getContext('2d')"
        blank += ".getImageData(0, 0, c.width, c.height).data; return d.some((x) => x > 0); }"
        for name in ("stage", "bands", "counts"):
            assert browser.get(f"({blank})('{name}')")
        browser.get("slider.value = 60; names.value = 2; draw()")
        assert "0.1" in browser.get("document.getElementById('clock').textContent")
        assert not browser.errors
