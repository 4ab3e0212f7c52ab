"""Models in files: the same bits again, all errors at once, and nothing run that a file says."""

import json
import math
import re
import tomllib
from pathlib import Path

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import file_fuzz
import holonax as hx
import test_records
import test_robots
from holonax.compiler import counts
from holonax.examples.describing import MODELS
from holonax.io.lines import json_lines, toml_lines
from holonax.io.settings import EVENT, RUN
from holonax.io.toml_writer import toml_text
from holonax.io.values import SHAPES
from holonax.system.expression_parser import SIGNATURES


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def same_system(one, other):
    a, b = (jax.tree.flatten(model.system()) for model in (one, other))
    assert a[1] == b[1]
    assert all(np.array_equal(x, y) for x, y in zip(a[0], b[0], strict=True))
    assert all(map(np.array_equal, one.start_vectors(), other.start_vectors()))


# -- there and back -------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".toml", ".json"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_ready_mechanism_comes_back_to_the_bit(name, suffix, tmp_path):
    model, options = hx.examples.model_of(name)
    path = tmp_path / f"model{suffix}"
    model.save(path, run={"t_end": 0.1, **options})
    again = hx.ModelFile.read(path)
    assert again.model.to_dict() == model.to_dict()
    assert list(again.model.items.values()) == list(model.items.values())
    assert again.run == {"t_end": 0.1, **options}
    same_system(again.model, model)


@pytest.mark.parametrize("name", ["four_bar", "stiff_double_pendulum"])
def test_its_trajectory_is_the_same_to_the_bit(name, tmp_path):
    model, options = hx.examples.model_of(name)
    model.save(tmp_path / "model.toml", run={"t_end": 0.05, "dt": 0.001, **options})
    one = hx.simulate(*getattr(hx.examples, name)(), 0.05, dt=0.001)
    other = hx.ModelFile.read(tmp_path / "model.toml").simulate()
    assert np.array_equal(one.q, other.q) and np.array_equal(one.v, other.v)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_trajectory_is_the_same_to_the_bit(name, tmp_path):
    model, options = hx.examples.model_of(name)
    model.save(tmp_path / "model.json", run={"t_end": 0.02, "dt": 0.001, **options})
    one = hx.simulate(*model.build(**options), 0.02, dt=0.001)
    other = hx.ModelFile.read(tmp_path / "model.json").simulate()
    assert np.array_equal(one.q, other.q) and np.array_equal(one.v, other.v)


@pytest.mark.parametrize("suffix", [".toml", ".json"])
@pytest.mark.parametrize("kind", ["planar", "spatial"])
def test_every_type_of_record_comes_back(kind, suffix, tmp_path):
    model = test_records.MODELS[kind]()
    model.save(tmp_path / f"all{suffix}")
    again = hx.load(tmp_path / f"all{suffix}")
    assert again.to_dict() == model.to_dict()
    assert list(again.items.values()) == list(model.items.values())


def test_numbers_of_every_size_and_names_of_every_kind_come_back(tmp_path):
    model = hx.Model(gravity=(1e-320, -math.pi), breaks=[0.1, 1 / 3])
    for i, name in enumerate(
        ["a b", 'quo"te', "back\\slash", "ünï ☃", "new\nline", "#", "'", "\x7f"]
    ):
        x = float(np.nextafter(10.0 ** (3 * i - 9), 1.0))
        model.planar_body(name, x + 1, x + 1, position=(x, -x))
    for suffix in (".toml", ".json"):
        model.save(tmp_path / f"odd{suffix}")
        again = hx.load(tmp_path / f"odd{suffix}")
        assert again.to_dict() == model.to_dict()
        assert list(again) == list(model)


def test_a_python_function_is_refused_by_name(tmp_path):
    model = hx.Model()
    model.planar_body("crank", 1.0, 0.1)
    model.force("push", "crank", force=lambda t: (t, 0.0))
    with pytest.raises(hx.ModelError, match="force 'push': its force is a Python function"):
        model.save(tmp_path / "model.toml")
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_stays_where_saving_fails(tmp_path):
    path = tmp_path / "model.toml"
    model = hx.Model()
    model.planar_body("crank", 1.0, 0.1)
    model.save(path)
    before = path.read_bytes()
    model.planar_body("bad \ud800 name", 1.0, 0.1)
    with pytest.raises(hx.ModelError, match="UTF-8"):
        model.save(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


# -- what a file may say --------------------------------------------------------------------------


def test_arithmetic_of_parameters_in_any_order(tmp_path):
    path = written(tmp_path / "arm.toml", file_fuzz.ARM)
    file = hx.ModelFile.read(path)
    assert file.parameters == {"L": 0.6, "half": 0.3, "omega": 2 * math.pi, "T": 0.4}
    model = file.model
    assert model["crank"].mass == 1.0 and model["crank"].inertia == hx.rod(0.6, mass=1).planar()[1]
    assert model["rod"].position == (0.8999999999999999, 0.0) and model["B"].at == (0.6, 0)
    assert model["motor"].parameters == {"omega": 2 * math.pi}
    assert model["coil"].actuator == "-0.1 * speed + pulse(0.4, 2 * 0.4)"
    assert list(model.system().time_breaks()) == [0.4, 0.8]
    other = file.with_values({"L": 1.2, "rod.mass": 5.0, "wind.omega": 1.0})
    assert other.model["B"].at == (1.2, 0) and other.model["rod"].mass == 5.0
    assert other.model["wind"].parameters == {"omega": 1.0}
    assert other.model["motor"].parameters == {"omega": 2 * math.pi}


def test_a_file_runs_as_it_says_and_other_numbers_compile_nothing(tmp_path):
    file = hx.ModelFile.read(written(tmp_path / "arm.toml", file_fuzz.ARM))
    result = file.simulate()
    assert result.success and result.t[-1] == 0.5 and result.integrator == hx.Dopri5()
    assert type(result.formulation) is hx.PostStabilized
    before = counts.traced, counts.compiled
    heavier = file.with_values({"L": 0.7, "crank.mass": 2.0, "omega": 3.0}).simulate()
    assert (counts.traced, counts.compiled) == before and heavier.success
    assert heavier.q[-1, 0] != result.q[-1, 0]
    assert file.simulate(0.1, dt=0.01, integrator=hx.RK4()).dt == pytest.approx(0.01)


def test_the_same_file_in_both_formats(tmp_path):
    one = hx.ModelFile.read(written(tmp_path / "arm.toml", file_fuzz.ARM))
    text = json.dumps(tomllib.loads(file_fuzz.ARM))
    other = hx.ModelFile.read(written(tmp_path / "arm.json", text))
    assert one.model.to_dict() == other.model.to_dict() and one.run == other.run


FIVE = """
[parameters]
L = 0.6
half = "L /"

[run]
t_ende = 2.0

[[items]]
type = "planar_body"
name = "crank"
mass = -1.0
inertia = 0.1
position = ["half", 0]

[[items]]
type = "planar_body"
name = "rod"
mass = 1.0
inertia = 0.1

[[items]]
type = "revolut"
name = "A"
a = "ground"
b = "crank"

[[items]]
type = "revolute"
name = "B"
a = "crank"
b = "rot"
at = [0, 0]

[[items]]
type = "torque"
name = "motor"
body = "rod"
torque = "10 * tt"
"""


def test_all_errors_of_a_file_are_told_at_once_with_their_lines(tmp_path):
    said = FIVE.replace('["half", 0]', "[0, 0]")
    for suffix, text in ((".toml", said), (".json", json.dumps(tomllib.loads(said), indent=1))):
        path = written(tmp_path / f"five{suffix}", text)
        with pytest.raises(hx.FileError) as caught:
            hx.load(path)
        problems = caught.value.problems
        found = [problem.text for problem in problems]
        # B refers to crank, which failed, and is not blamed for it
        assert len(found) == 5, found
        for line, part in [
            ('half = "L /"', "parameter 'half'='L /', column 4: a number or a name"),
            ("t_ende = 2.0", "run: there is no setting 't_ende'"),
            ('type = "revolut"', "'revolut' is not known. Did you mean 'revolute'?"),
            ('torque = "10 * tt"', "torque 'motor': torque='10 * tt', column 6"),
        ]:
            (problem,) = [x for x in problems if part in x.text]
            if suffix == ".toml":
                assert text.splitlines()[problem.line - 1] == line
            else:
                key = line.partition(" ")[0]
                assert f'"{key}"' in text.splitlines()[problem.line - 1]
        assert any("mass must be" in x or ("mass" in x and "crank" in x) for x in found)
        assert str(caught.value).startswith(f"{path}: 5 errors\n  line ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("items = 3", "line 1: items=3 is not a list"),
        ("item = []", "line 1: there is no section 'item'. Did you mean 'items'?"),
        ("holonax = 2", "format that is not known here"),
        ("a = ", "line 1: this is not TOML: Invalid value"),
        ("[[items]]\nname = 'a'", "line 1: item 'a': its type is missing"),
        ("[[items]]\ntype = 'body'", "line 1: body None: name is missing"),
        ("[parameters]\na = 'b'\nb = 'a'", "depends on itself"),
        ("[parameters]\nt = 1", "'t' means something else"),
        ("[parameters]\n'a b' = 1", "is not a word"),
        ("[parameters]\na = true", "line 2: parameter 'a': True is not a number"),
        ("gravity = [0, 1, 2, 3]", "must have two or three components"),
        ("[run]\nformulation = 'Nobody'", "no formulation 'Nobody'"),
        ("[run]\nintegrator = { type = 'RK4', order = 3 }", "no argument 'order'"),
        ("[run]\nhold = ['crank']", "there is no object 'crank'"),
        ("[outputs]\nx = 'crank.x'", "'crank.x' is not known"),
        ("[[events]]\nname = 'e'\nfunction = 'x +'", "column 4"),
        ("x = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
    ],
)
def test_an_error_says_where_and_what(text, message, tmp_path):
    with pytest.raises(hx.FileError) as caught:
        hx.load(written(tmp_path / "bad.toml", text))
    assert message in str(caught.value)


def test_files_that_are_no_files(tmp_path):
    for name, message in [("none.toml", "No such file"), ("model.txt", "of no kind that is known")]:
        with pytest.raises(hx.ModelError, match=message):
            hx.load(tmp_path / name)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(hx.FileError, match="is not UTF-8"):
        hx.load(tmp_path / "bytes.json")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(hx.FileError, match="directory"):
        hx.load(tmp_path / "folder.toml")
    with pytest.raises(hx.FileError, match="given twice"):
        hx.load(written(tmp_path / "twice.json", '{"items": [], "items": []}'))
    with pytest.raises(TypeError, match="is not a path"):
        hx.load(3)


def test_lines_of_both_formats():
    text = '# a\nx = """\n[no]\n"""\n[[items]]\ny = [\n 1, # ]\n 2]\n"a b".c = 1\n'
    text += "[[items]]\n[items.z]\nw=1\n"
    lines = toml_lines(text)
    assert lines[("x",)] == 2 and lines[("items", 0)] == 5 and lines[("items", 0, "y")] == 6
    assert lines[("items", 0, "a b", "c")] == 9 and lines[("items", 1)] == 10
    assert lines[("items", 1, "z", "w")] == 12
    found = json_lines('{\n"a": [1,\n {"b": "}\\"",\n "c": 2}],\n"d": 3}')
    assert found[("a",)] == 2 and found[("a", 0)] == 2 and found[("a", 1)] == 3
    assert found[("a", 1, "c")] == 4 and found[("d",)] == 5


def test_what_the_writer_writes_tomllib_reads():
    said = {
        "x": 1,
        "y": [1.5, [True, "a"]],
        "t": {"a b": {"c": -0.0, "d": []}},
        "l": [{"z": 1e-320}],
    }
    assert tomllib.loads(toml_text(said, "a heading\nof two lines")) == said
    assert math.copysign(1, tomllib.loads(toml_text({"x": -0.0}))["x"]) == -1


# -- schema ---------------------------------------------------------------------------------------


def test_the_schema_that_is_delivered_is_that_of_the_records():
    path = Path(hx.io.__file__).parent / "model.schema.json"
    assert json.loads(path.read_text(encoding="utf-8")) == hx.io.schema()


def test_good_files_satisfy_the_schema_and_bad_ones_do_not():
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(hx.io.schema())
    check = jsonschema.Draft202012Validator(hx.io.schema())
    for _, text in file_fuzz.base_texts():
        said = tomllib.loads(text) if text.lstrip()[0] != "{" else json.loads(text)
        assert list(check.iter_errors(said)) == []
    for make in test_records.MODELS.values():
        assert list(check.iter_errors(make().to_dict())) == []
    for bad in (
        {"items": [{"type": "revolut", "name": "A"}]},
        {"items": [{"type": "revolute", "name": "A", "a": "x", "b": "y", "att": [0, 0]}]},
        {"items": [{"type": "revolute", "name": "A", "a": "x"}]},
        {"item": []},
        {"run": {"t_ende": 1}},
    ):
        assert list(check.iter_errors(bad)) != []


# -- spoilt files ---------------------------------------------------------------------------------


def fuzzed(seed, files, folder):
    faults, totals = file_fuzz.fuzz(seed, files, folder)
    assert faults == [], faults[0]
    assert totals["read"] > files // 50 and totals["refused"] > files // 2


def test_spoilt_files_give_a_model_or_our_message(tmp_path):
    fuzzed(17, 600, tmp_path)


@pytest.mark.slow
def test_ten_thousand_spoilt_files_give_a_model_or_our_message(tmp_path):
    fuzzed(18, 10_000, tmp_path)


def test_outputs_may_name_what_bodies_do(tmp_path):
    file = hx.ModelFile.read(written(tmp_path / "arm.toml", file_fuzz.ARM))
    assert file.outputs == {"tip": "crank.x + 0.3 * cos(crank.angle)"}
    assert_allclose(file.parameters["half"], 0.3)


# -- the page -------------------------------------------------------------------------------------


def test_the_page_on_files_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parent.parent / "docs" / "files.md").read_text(encoding="utf-8")
    file, beside = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    written(tmp_path / "four_bar.toml", file)
    written(tmp_path / "arm.loops.toml", beside)
    robot = hx.load(written(tmp_path / "arm.urdf", test_robots.ARM))
    assert "rod" in robot and robot["fore"].rotation != robot["upper"].rotation
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(block, "files.md", "exec"), names)
    for line in capsys.readouterr().out.splitlines():
        assert f"# {line}\n" in page
    for name in (*SIGNATURES, *RUN, *EVENT, *SHAPES):
        assert re.search(rf"[`( .]{name}\b", page), name
