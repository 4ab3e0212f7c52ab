"""Every example runs and passes its own checks, at small settings."""

import importlib.util
from pathlib import Path

import matplotlib
import pytest

matplotlib.use("Agg")

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SETTINGS = {"demo": {"t_end": 0.5}, "formulations": {"t_end": 2.0}}


def main_of(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def test_every_example_is_run_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SETTINGS)


@pytest.mark.parametrize("name", SETTINGS)
def test_example_passes_its_own_checks(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main_of(name)(**SETTINGS[name])
    if name == "demo":
        assert (tmp_path / "out" / "demo.png").stat().st_size > 10_000
        assert (tmp_path / "out" / "demo.gif").stat().st_size > 10_000
