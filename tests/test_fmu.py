"""Models as units for co-simulation, run by another tool."""

import sys
from types import ModuleType

import numpy as np
import pytest

import holonax as hx
from holonax.io import export_fmu

fmpy = pytest.importorskip("fmpy")
pytest.importorskip("pythonfmu")


def crank():
    model = hx.Model(gravity=(0.0, -9.81))
    model.planar_body("crank", hx.rod(0.3, mass=1.0), position=(0.15, 0.0))
    model.revolute("A", "ground", "crank", at=(0.0, 0.0))
    model.torque("motor", "crank", torque="u", parameters={"u": 0.0})
    model.state("turned", "crank.w", bodies="crank", unit="rad")
    return model


@pytest.mark.parametrize("fmi", ["2.0", "3.0"])
def test_a_unit_runs_as_the_model_does(fmi, tmp_path):
    pytest.importorskip({"2.0": "pythonfmu", "3.0": "pythonfmu3"}[fmi])
    model = crank()
    path = export_fmu(
        model,
        tmp_path / "new" / "Crank.fmu",
        outputs=["A.angle", "crank.position.x", "turned"],
        inputs=["motor.u"],
        parameters=["crank.mass", "gravity.1"],
        rtol=1e-8,
        fmi=fmi,
    )
    said = fmpy.read_model_description(str(path))
    assert said.fmiVersion == fmi
    causality = {x.name: x.causality for x in said.modelVariables if x.name != "time"}
    assert causality == {
        "crank.mass": "parameter",
        "gravity.1": "parameter",
        "motor.u": "input",
        "A.angle": "output",
        "crank.position.x": "output",
        "turned": "output",
    }
    given = np.array([(0.0, 1.5), (0.5, 1.5)], dtype=[("time", "f8"), ("motor.u", "f8")])
    found = fmpy.simulate_fmu(
        str(path),
        stop_time=0.5,
        output_interval=0.05,
        start_values={"crank.mass": 2.0, "gravity.1": -5.0},
        input=given,
    )
    changes = {"crank.mass": 2.0, "gravity": (0.0, -5.0), "motor.parameters": {"u": 1.5}}
    expected = model.with_parameters(changes).simulate(0.5, rtol=1e-10, save=found["time"])
    assert np.max(np.abs(found["A.angle"] - expected.joint("A").angle)) < 1e-6
    assert np.max(np.abs(found["turned"] - expected.joint("A").angle)) < 1e-6  # kept over steps
    assert np.max(np.abs(found["crank.position.x"] - expected["crank"].position[:, 0])) < 1e-6


def test_what_cannot_be_a_unit(tmp_path):
    good = {"model": crank(), "path": tmp_path / "Crank.fmu", "outputs": ["A.angle"]}
    own = crank()
    own.torque("brake", "crank", torque=lambda t: -0.1)
    for words, change in (
        ("must be a name of letters", {"path": tmp_path / "2 cranks.fmu"}),
        ("must be a name of letters", {"path": tmp_path / "crank.zip"}),
        ("at least one output", {"outputs": []}),
        ("nothing twice", {"outputs": ["A.angle", "A.angle"]}),
        ("is a vector. Name a component", {"outputs": ["crank.position"]}),
        ("A.angel", {"outputs": ["A.angel"]}),
        ("motor.x", {"inputs": ["motor.x"]}),
        ("not a Model", {"model": 3}),
        ("brake", {"model": own}),
    ):
        with pytest.raises((ValueError, TypeError, KeyError), match=words):
            export_fmu(**good | change)
    assert not (tmp_path / "Crank.fmu").exists()


@pytest.mark.parametrize(("fmi", "library"), [("2.0", "pythonfmu"), ("3.0", "pythonfmu3")])
def test_a_missing_library_is_named(fmi, library, tmp_path, monkeypatch):
    for name in (library, f"{library}.builder"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf'needs {library}, .* pip install "holonax\[fmu\]"'):
        export_fmu(crank(), tmp_path / "Crank.fmu", outputs=["A.angle"], fmi=fmi)


def test_a_unit_may_have_the_name_of_a_module(tmp_path, monkeypatch):
    """As one that was run in this process is: neither is in the other's way."""
    pytest.importorskip("pythonfmu")
    other = ModuleType("Crank")
    monkeypatch.setitem(sys.modules, "Crank", other)
    assert export_fmu(crank(), tmp_path / "Crank.fmu", outputs=["A.angle"], dt=0.01).exists()
    assert sys.modules["Crank"] is other
