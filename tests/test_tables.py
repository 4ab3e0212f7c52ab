"""Results as tables and files: the same numbers by the same names."""

import csv
import importlib

import matplotlib
import numpy as np
import pytest

import holonax as hx

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def result():
    model = hx.Model()
    model.planar_body("bob", hx.rod(1.0, mass=1.0), position=(0.5, 0.0))
    model.revolute("A", "ground", "bob", at=(0.0, 0.0))
    model.spring_damper("spring", "ground", "bob", at=((0.0, 1.0), (1.0, 0.0)), stiffness=5.0)
    return model.simulate(0.5, dt=0.01)


def test_a_result_in_a_netcdf_file_is_the_same_result(result, tmp_path):
    path = result.save(tmp_path / "run.nc")
    again = hx.load_result(path)
    assert (again.success, again.status, again.message) == (True, "end", result.message)
    np.testing.assert_array_equal(again.t, result.t)
    assert set(again.quantities()) == set(result._named.numbers())
    for name, unit in again.quantities().items():
        np.testing.assert_array_equal(again.quantity(name), result.quantity(name))
        assert unit == result._named.numbers()[name]
    model = hx.Model.from_dict(again.model)
    np.testing.assert_array_equal(model.simulate(0.5, dt=0.01).q, result.q)
    assert len(again.plot("A.angle", "energy").get_axes()) == 2
    assert "quantities" in repr(again)
    twice = hx.load_result(again.save(tmp_path / "again.nc"))
    np.testing.assert_array_equal(twice.quantity("A.rate"), result.joint("A").rate)


def test_a_csv_file_has_the_names_and_every_bit(result, tmp_path):
    path = result.save(tmp_path / "run.csv", "A", "spring.force", "bob.velocity")
    with path.open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["t", "A.angle", "spring.force", "bob.velocity.x", "bob.velocity.y"]
    values = np.array(rows[1:], dtype=float)
    np.testing.assert_array_equal(values[:, 1], result.joint("A").angle)
    np.testing.assert_array_equal(values[:, 2], result.force("spring").force)


def test_a_dataframe_and_a_dataset_have_the_same_names(result, tmp_path):
    pytest.importorskip("pandas")
    xarray = pytest.importorskip("xarray")
    frame = result.to_dataframe("A.angle", "energy")
    names = ["A.angle", "energy.kinetic", "energy.potential", "energy.total", "energy.work"]
    assert list(frame.columns) == names
    np.testing.assert_array_equal(frame["A.angle"].to_numpy(), result.joint("A").angle)
    np.testing.assert_array_equal(frame.index.to_numpy(), result.t)
    data = result.to_xarray("A.angle", "bob.position")
    assert data["A.angle"].attrs["units"] == "rad" and set(data.data_vars) == {
        "A.angle",
        "bob.position.x",
        "bob.position.y",
    }
    with xarray.open_dataset(result.save(tmp_path / "run.nc"), engine="scipy") as read:
        np.testing.assert_array_equal(read["A.angle"].values, result.joint("A").angle)
        assert read["spring.force"].attrs["units"] == "N"


@pytest.mark.parametrize(
    ("method", "library"), [("to_dataframe", "pandas"), ("to_xarray", "xarray")]
)
def test_a_missing_library_is_named(result, monkeypatch, method, library):
    found = importlib.import_module

    def without(name, package=None):
        if name.partition(".")[0] == library:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return found(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ImportError, match=rf'{library}.*pip install "holonax\[data\]"'):
        getattr(result, method)()


def test_what_is_no_result_is_refused(result, tmp_path):
    (tmp_path / "text.nc").write_text("nothing")
    with pytest.raises(ValueError, match="cannot be read"):
        hx.load_result(tmp_path / "text.nc")
    with pytest.raises(ValueError, match="cannot be read"):
        hx.load_result(tmp_path / "none.nc")
    with pytest.raises(hx.ModelError, match="a table ends in"):
        result.save(tmp_path / "run.xyz")
    with pytest.raises(ValueError, match="no quantity 'A"):
        result.save(tmp_path / "run.nc", "A.angel")


def test_notebooks_show_a_picture_and_short_lines(result):
    html = result._repr_html_()
    assert html.startswith("<img") and "data:image/png;base64," in html and "<pre>" in html
    assert len(repr(result.start)) < 80 and "free motions" in repr(result.start)
    assert len(repr(result["bob"])) < 140
