"""The gallery: each example runs and finds what is known of its motion; its page is up to date."""

import importlib.util
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "docs" / "gallery"
# Those that take seconds to compile, and simple ones.
SLOW = (
    "bricard cam cantilever conical_pendulum coupled_pendulums double_pendulum four_bar governor "
    "gyroscope pantograph pendulum planetary_gear quick_return rolling_coin rotor scissor_lift "
    "scotch_yoke slider_crank stewart_platform straight_line trebuchet universal_joint"
)


def make_gallery():
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "docs" / "make_gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(x.stem, marks=[pytest.mark.slow] if x.stem in SLOW.split() else [])
        for x in sorted(EXAMPLES.glob("*.py"))
    ],
)
def test_an_example_moves_as_it_should(name):
    found = runpy.run_path(str(EXAMPLES / f"{name}.py"))  # it asserts what is known
    assert found["result"].status in ("end", "rest")


def test_the_page_shows_every_example_as_it_is():
    gallery = make_gallery()
    pytest.importorskip("PIL")
    assert sorted(gallery.names()) == sorted(x.stem for x in EXAMPLES.glob("*.py"))
    assert len(gallery.names()) >= 24
    assert gallery.PAGE.read_text(encoding="utf-8") == gallery.written()  # else: make gallery


def test_pictures_move_and_are_small():
    images = pytest.importorskip("PIL.Image")
    gallery = make_gallery()
    sizes = {}
    for name in gallery.names():
        path = gallery.IMAGES / f"{name}.gif"
        sizes[name] = path.stat().st_size
        with images.open(path) as image:
            assert image.n_frames > 15, name
    assert max(sizes.values()) < 125_000 and sum(sizes.values()) < 1_400_000
