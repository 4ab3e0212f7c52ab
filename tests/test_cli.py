"""The command line: what it lists, what it writes, and how it refuses."""

import base64
import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import holonax as hx
from holonax import cli, papers
from holonax.compiler import counts
from holonax_cli.running import method_names

SOURCE = Path(hx.__file__).resolve().parent.parent


def test_papers_are_listed(capsys):
    assert cli.main(["papers"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in papers.PAPERS)


@pytest.mark.slow
def test_a_paper_is_recomputed_into_a_folder(capsys, tmp_path):
    assert cli.main(["papers", "haug1997", "--quick", "--out", str(tmp_path)]) == 0
    assert "2 are ours only" in capsys.readouterr().out
    assert (tmp_path / "haug1997" / "index.html").exists()


def test_an_unknown_paper_is_one_line(capsys, tmp_path):
    assert cli.main(["papers", "nobody1900", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("holonax: papers: name='nobody1900' is not known. Choose one of")
    assert error.count("\n") == 1


def test_methods_are_listed_and_filtered(capsys):
    assert cli.main(["methods", "rattle"]) == 0
    (line,) = capsys.readouterr().out.strip().splitlines()
    assert "Index3" in line and "Rattle" in line


def test_no_command_shows_the_help(capsys):
    cli.main([])
    said = capsys.readouterr()
    assert "Usage: holonax" in said.out + said.err and "examples" in said.out + said.err


def test_the_installed_command_says_its_version():
    run = subprocess.run(
        [sys.executable, "-m", "holonax.cli", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert hx.__version__ in run.stdout


@pytest.mark.parametrize(
    ("options", "method"),
    [
        (["--formulation", "Baumgarte"], "Baumgarte(10, beta=10) with Dopri5"),
        pytest.param(
            *(["--integrator", "AdamsMoulton"], "passes=2) with AdamsMoulton"),
            marks=pytest.mark.slow,
        ),
        (["--integrator", "VariableBDF"], "passes=2) with VariableBDF"),
        pytest.param(
            *(["--integrator", "GeneralizedAlpha"], "passes=2) with GeneralizedAlpha"),
            marks=pytest.mark.slow,
        ),
        (["--integrator", "Rattle"], "Index3('physical') with Rattle"),
        (["--integrator", "RK4", "--dt", "0.01"], "passes=2) with RK4"),
    ],
    ids=lambda x: "-".join(x).strip("-") if isinstance(x, list) else "",
)
def test_a_method_by_its_name_needs_no_more(options, method, capsys):
    """Required options, the other half of the pair and the steps have defaults."""
    assert cli.main(["simulate", "slider_crank", "--t-end", "0.1", *options]) == 0
    out = capsys.readouterr().out
    assert "success" in out and method in out


def test_every_method_has_defaults_on_the_command_line():
    from holonax.run.pairs import check_pair, usual_formulations, usual_integrators

    for kind, usual in (("formulation", usual_formulations()), ("integrator", usual_integrators())):
        for method in usual:
            options = hx.study.options_by_name(**{kind: type(method).__name__})
            check_pair(options["formulation"], options["integrator"])
            assert (options["dt"] is None) != (options["rtol"] is None)
            assert type(options["integrator"]).estimates_error or options["rtol"] is None


def test_an_unknown_method_is_one_line(capsys):
    assert cli.main(["simulate", "slider_crank", "--integrator", "RK5"]) == 2
    error = capsys.readouterr().err
    assert "no integrator 'RK5'" in error and "VariableBDF" in error and error.count("\n") == 1


# -- models ---------------------------------------------------------------------------------------


@pytest.fixture
def four_bar(tmp_path, monkeypatch, capsys):
    """The file that `examples copy` writes, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["examples", "copy", "four_bar"]) == 0
    assert capsys.readouterr().out == "four_bar.toml\n"
    return "four_bar.toml"


def test_every_example_is_listed_and_copied_or_refused(tmp_path, capsys):
    assert cli.main(["examples"]) == 0
    listed = [x.split()[0] for x in capsys.readouterr().out.partition("\n\n")[0].splitlines()]
    assert "four_bar" in listed and "model_of" not in listed
    for name in listed:
        code = cli.main(["examples", "copy", name, str(tmp_path)])
        error = capsys.readouterr().err
        if code == 0:
            assert hx.ModelFile.read(tmp_path / f"{name}.toml").run["t_end"] > 0
        else:
            assert code == 2 and "written as Python functions" in error
    assert cli.main(["examples", "copy", "four_bar", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert cli.main(["examples", "copy", "four_bar", str(tmp_path), "--force"]) == 0


def test_the_file_of_the_four_bar_is_the_ready_mechanism(four_bar):
    model, options = hx.examples.model_of("four_bar")
    file = hx.ModelFile.read(four_bar)
    one, other = (m.build(**options)[1] for m in (model, file.model))
    np.testing.assert_allclose(other.q, one.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(other.v, one.v, rtol=0, atol=1e-11)


def test_a_run_writes_tables_and_tells_what_it_did(four_bar, capsys):
    out = ["--out", "motion.csv", "--out", "motion.nc", "--plot", "motion.png"]
    assert cli.main(["run", four_bar, "--t-end", "0.1", "--set", "coupler=0.55", *out]) == 0
    said = capsys.readouterr().out
    assert "success" in said and "motion.nc" in said and Path("motion.png").stat().st_size > 10_000
    result = hx.ModelFile.read(four_bar).with_values({"coupler": 0.55}).simulate(0.1)
    with open("motion.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["t"]) for row in rows] == result.t.tolist()
    height = result.quantity("coupler.y") + 0.55 / 4 * np.sin(result.quantity("coupler.angle"))
    np.testing.assert_allclose([float(row["height"]) for row in rows], height, rtol=1e-14)
    from scipy.io import netcdf_file

    with netcdf_file("motion.nc", mmap=False) as file:
        np.testing.assert_allclose(file.variables["height"][:], height, rtol=1e-14)
        assert file.variables["t"].units == b"s"


def test_parquet_or_how_to_get_it(four_bar, capsys):
    code = cli.main(["run", four_bar, "--t-end", "0.1", "-q", "--out", "motion.parquet"])
    try:
        import pyarrow.parquet
    except ImportError:
        assert code == 2 and "pip install pyarrow" in capsys.readouterr().err
    else:
        table = pyarrow.parquet.read_table("motion.parquet").to_pydict()
        assert code == 0 and list(table) == ["t", "height"]


def test_json_is_one_object_and_quiet_says_nothing(four_bar, capsys):
    run = ["run", four_bar, "--t-end", "0.1", "--quantity", "A.angle", "--quantity", "x=2*A.rate"]
    assert cli.main([*run, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["success"] and said["end"]["t"] == 0.1 and said["written"] == []
    result = hx.ModelFile.read(four_bar).simulate(0.1)
    assert said["end"]["A.angle"] == result.joint("A").angle[-1]
    assert said["end"]["x"] == pytest.approx(2 * result.joint("A").rate[-1], rel=1e-14)
    assert cli.main([*run, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nobody.toml"], "No such file"),
        (["run", "nobody"], "'nobody' is no model. There is no such file; ready mechanisms are"),
        (["run", "four_bar", "--method", "RK5"], "there is no integrator 'RK5'"),
        (["run", "four_bar", "--method", "auto", "--dt", "0.1"], "Give --rtol instead of --dt"),
        (["run", "four_bar", "--set", "crank.mass"], "Write NAME=VALUE"),
        (["run", "four_bar", "--set", "crank.mass=x"], "'x' is not a number"),
        (["run", "four_bar", "--set", "crank.masss=1"], "it has no 'masss'"),
        (["run", "four_bar", "--t-end", "-1"], "is not after the start"),
        (["run", "slider_crank", "--set", "M=1"], "has no 'M'; it has"),
        (["sweep", "four_bar", "--vary", "crank.mass=1:2"], "NAME=FIRST:LAST:COUNT"),
        (["compare", "four_bar", "--methods", "RK5"], "there is no integrator 'RK5'"),
        (["examples", "copy", "slider_crank"], "written as Python functions"),
    ],
    ids=lambda x: "-".join(x) if isinstance(x, list) else "",
)
def test_wrong_input_is_one_line_and_status_two(arguments, message, capsys):
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("holonax: ") and message in error and error.count("\n") == 1


def test_all_errors_of_a_file_are_told(four_bar, capsys):
    text = Path(four_bar).read_text().replace('"crank / 2"', '"crnk / 2"').replace("t_end", "end")
    Path("wrong.toml").write_text(text)
    assert cli.main(["check", "wrong.toml"]) == 2
    error = capsys.readouterr().err
    assert "wrong.toml: 3 errors" in error and error.count("\n  line ") == 3


def test_a_run_that_fails_has_status_one(four_bar, capsys):
    # a coupler that cannot reach the rocker has no start: wrong input
    assert cli.main(["run", four_bar, "--set", "coupler=3"]) == 2
    # a torque that blows up in the middle of a run
    text = Path(four_bar).read_text()
    text += '[[items]]\ntype = "torque"\nname = "m"\nbody = "crank"\ntorque = "1 / (0.05 - t)"\n'
    Path("blown.toml").write_text(text)
    assert cli.main(["run", "blown.toml", "--dt", "0.01", "-q"]) == 1
    assert "holonax: " in capsys.readouterr().err


def test_a_check_says_mobility_masses_and_the_graph(four_bar, capsys):
    assert cli.main(["check", four_bar, "--png", "graph.png"]) == 0
    said = capsys.readouterr().out
    assert "mobility 1" in said and "+- A (revolute joint) -> crank" in said
    assert said.count("closes a loop") == 1 and Path("graph.png").stat().st_size > 5000
    assert cli.main(["check", "bricard", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["mobility"] == 1 and said["redundant"] == 1 and len(said["joints"]) == 6


@pytest.mark.slow
def test_a_comparison_finds_the_orders_of_the_methods(four_bar, capsys):
    options = ["--methods", "RK4,Euler", "--t-end", "0.2", "--dt", "0.001", "--levels", "2"]
    files = ["--plot", "work.png", "--out", "work.csv"]
    assert cli.main(["compare", four_bar, *options, *files, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    error = {name: [x["error"] for x in rows if x["method"] == name] for name in ("RK4", "Euler")}
    order = {name: np.log2(x[0] / x[1]) for name, x in error.items()}
    # within a quarter, for what higher powers of the step add
    assert abs(order["Euler"] - 1) < 0.25 and abs(order["RK4"] - 4) < 0.25, order
    assert Path("work.png").stat().st_size > 10_000
    assert Path("work.csv").read_text().count("\n") == 5


def test_a_sweep_compiles_once(four_bar, capsys):
    options = ["--t-end", "0.1", "--dt", "0.002", "--quantity", "A.angle"]
    assert cli.main(["sweep", four_bar, "--vary", "crank.mass=1,2", *options]) == 0
    capsys.readouterr()
    before = counts.traced, counts.compiled
    vary = ["--vary", "crank.mass=1:3:5", "--vary", "coupler=0.5,0.55"]
    assert cli.main(["sweep", four_bar, *vary, *options, "--out", "sweep.csv"]) == 0
    assert (counts.traced, counts.compiled) == before
    rows = list(csv.DictReader(Path("sweep.csv").read_text().splitlines()))
    assert len(rows) == 10 and all(row["success"] == "1" for row in rows)
    file = hx.ModelFile.read(four_bar).with_values({"crank.mass": 3.0, "coupler": 0.55})
    assert float(rows[-1]["A.angle"]) == file.simulate(0.1, dt=0.002).joint("A").angle[-1]


def test_a_sweep_of_samples_is_a_dataset(four_bar, capsys):
    command = ["sweep", four_bar, "--vary", "crank.mass=1:3", "--samples", "16", "--t-end", "0.05"]
    command += ["--dt", "0.005", "--quantity", "rocker.angle", "--out", "runs.zarr"]
    assert cli.main(command) == 0
    assert "16 points, 16 done" in capsys.readouterr().out
    found = hx.many.open_sweep("runs.zarr")
    k = int(np.argmax(found["crank.mass"]))
    file = hx.ModelFile.read(four_bar).with_values({"crank.mass": float(found["crank.mass"][k])})
    angle = file.simulate(0.05, dt=0.005)["rocker"].angle
    assert abs(found["rocker.angle"][k] - angle[-1]) < 1e-12
    assert abs(found["max rocker.angle"][k] - angle.max()) < 1e-12
    assert cli.main([*command, "-q"]) == 0  # nothing is left to do
    assert cli.main([*command, "--design", "star"]) == 2
    assert cli.main([*command, "--samples", "32"]) == 2
    assert "a sweep of other points" in capsys.readouterr().err


@pytest.mark.slow
def test_a_sweep_on_a_cluster(four_bar, capsys):
    """The dataset that workers of Dask write is that of this process."""
    distributed = pytest.importorskip("distributed")
    command = ["sweep", four_bar, "--vary", "crank.mass=1:3", "--samples", "16", "--t-end", "0.05"]
    command += ["--dt", "0.005", "--quantity", "rocker.angle"]
    assert cli.main([*command, "--out", "here.zarr"]) == 0
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        address = ["--dask", cluster.scheduler_address]
        assert cli.main([*command, *address, "--out", "there.zarr"]) == 0
    assert "16 points, 16 done" in capsys.readouterr().out
    here, there = (hx.many.open_sweep(f"{name}.zarr") for name in ("here", "there"))
    for name in ("crank.mass", "rocker.angle", "max rocker.angle"):
        np.testing.assert_allclose(there[name], here[name], atol=1e-13)
    assert cli.main([*command, "--dask", "tcp://127.0.0.1:1", "--out", "none.zarr"]) == 2
    assert "no scheduler of Dask answers" in capsys.readouterr().err


def test_the_page_and_the_picture(four_bar, capsys):
    assert cli.main(["view", four_bar, "--t-end", "0.1", "--html", "motion.html", "-q"]) == 0
    assert "<html" in Path("motion.html").read_text(encoding="utf-8")
    assert cli.main(["plot", four_bar, "crank.angle", "--t-end", "0.1", "-o", "p.png", "-q"]) == 0
    assert Path("p.png").exists() and capsys.readouterr().out == ""


def test_pictures_and_films_without_a_screen(four_bar, capsys):
    options = ["--t-end", "0.2", "--png", "a.png", "--at", "0.1", "--gif", "a.gif"]
    assert cli.main(["view", four_bar, *options]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["a.png", "a.gif"]
    assert not Path("motion.html").exists()  # a page is written where nothing else is asked for
    with Image.open("a.png") as picture, Image.open("a.gif") as film:
        assert picture.size[0] == film.size[0] and film.n_frames == 4


def test_a_video_without_a_screen(four_bar):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    assert cli.main(["view", four_bar, "--t-end", "0.5", "--mp4", "a.mp4", "-q"]) == 0
    frames, seconds = ffmpeg.count_frames_and_secs("a.mp4")
    assert frames == 10 and abs(seconds - 0.5) < 0.11


def test_a_video_without_the_library_for_it(four_bar, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert cli.main(["view", four_bar, "--t-end", "0.1", "--mp4", "a.mp4", "-q"]) != 0
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "imageio_ffmpeg" in line and 'pip install "holonax[video]"' in line
    assert not Path("a.mp4").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--png", "a.gif"], "--png a.gif must end in .png"),
        (["--at", "0.1"], "Give --png too"),
        (["--png", "a.png", "--at", "9"], "t=9 is outside of the run"),
        (["--speed", "0"], "must be positive"),
        (["--slider", "coupler=0.4:0.6"], "Give --live too"),
        (["--live", "--slider", "coupler"], "Write NAME=LOW:HIGH"),
        (["--live", "--slider", "nobody=1:2"], "no parameter 'nobody'"),
        (["--live", "--gif", "a.gif"], "by a command of its own"),
    ],
)
def test_wrong_ways_to_view_are_one_line(four_bar, capsys, options, message):
    assert cli.main(["view", four_bar, "--t-end", "0.1", "--no-browser", *options]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_a_live_page_runs_the_file_again(four_bar):
    options = ["--live", "--no-browser", "--t-end", "0.1", "--set", "crank.mass=2"]
    sliders = ["--slider", "coupler=0.45:0.6", "--slider", "crank.mass=1:3"]
    process = command("view", four_bar, *options, *sliders, stdout=subprocess.PIPE)
    try:
        url = process.stdout.readline().strip()
        with urllib.request.urlopen(url) as page:
            text = page.read().decode()
        assert '"name":"crank.mass","value":2.0' in text and '"name":"coupler"' in text
        asked = urllib.request.Request(f"{url}run", data=b'{"coupler": 0.55}')
        with urllib.request.urlopen(asked) as answer:
            scene = json.loads(answer.read())
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0
    times = np.frombuffer(base64.b64decode(scene["times"]), "<f8")
    poses = next(x["poses"] for x in scene["bodies"] if x["name"] == "rocker")
    poses = np.frombuffer(base64.b64decode(poses), "<f4").reshape(times.size, 7)
    file = hx.ModelFile.read(four_bar).with_values({"crank.mass": 2.0, "coupler": 0.55})
    exact = file.simulate(0.1)["rocker"].position[-1]
    assert times[-1] == 0.1 and np.abs(poses[-1, :2] - exact).max() < 1e-6


def test_values_that_were_set_stay_when_others_are_varied(four_bar):
    options = ["--set", "crank.mass=7", "--t-end", "0.1", "--quantity", "A.angle"]
    assert cli.main(["sweep", four_bar, *options, "--vary", "coupler=0.55", "-o", "s.csv"]) == 0
    (row,) = csv.DictReader(Path("s.csv").read_text().splitlines())
    file = hx.ModelFile.read(four_bar).with_values({"crank.mass": 7.0, "coupler": 0.55})
    assert float(row["A.angle"]) == file.simulate(0.1).joint("A").angle[-1]


def test_the_schema_is_printed(capsys):
    assert cli.main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == hx.io.schema()


def command(*arguments, **options):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    words = [sys.executable, "-m", "holonax_cli", *arguments]
    return subprocess.Popen(words, env=environment, text=True, **options)


def test_help_is_quick_and_imports_no_jax():
    program = (
        "import sys, holonax_cli; holonax_cli.main(['--help']); assert 'jax' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    began = os.times().children_user
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    spent = os.times().children_user - began
    assert spent < 1.0 and "four_bar" in done.stdout and "Exit status" in done.stdout


def test_a_closed_pipe_is_no_error():
    run = command("methods", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout.readline()
    run.stdout.close()
    error = run.stderr.read()
    assert run.wait() == 0 and error == ""


def test_without_typer_one_sentence_says_what_to_install():
    program = (
        "import sys; sys.modules['typer'] = None\n"
        "import holonax_cli; sys.exit(holonax_cli.main(['--help']))"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2 and "pip install typer rich" in done.stderr


def test_the_page_on_the_command_line_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda url: True)
    monkeypatch.setattr("holonax.view.browser.server.Viewer.wait", lambda self: self.close())
    page = (SOURCE.parent / "docs" / "command-line.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL)
    readme = (SOURCE.parent / "README.md").read_text(encoding="utf-8")
    (own,) = [x for x in re.findall(r"```sh\n(.*?)```", readme, flags=re.DOTALL) if "copy" in x]
    own = own.replace("copy four_bar", "copy four_bar --force")
    for line in (*block.splitlines(), *own.splitlines()):
        first, *arguments = shlex.split(line, comments=True)
        assert first == "holonax" and cli.main(arguments) == 0, line
    assert {"motion.csv", "motion.html", "work.png", "sweep.csv", "angle.png"} <= {
        path.name for path in tmp_path.iterdir()
    }
    capsys.readouterr()
    cli.main(["--help"])
    listed = re.findall(r"^. ([a-z]+) ", capsys.readouterr().out, flags=re.MULTILINE)
    assert len(listed) >= 11 and [x for x in listed if f"`{x}" not in page] == []


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("RK4", (None, "RK4")),
        ("Baumgarte", ("Baumgarte", None)),
        ("Baumgarte/RK4", ("Baumgarte", "RK4")),
        ("Index3 + GeneralizedAlpha", ("Index3", "GeneralizedAlpha")),
    ],
)
def test_both_halves_of_a_method_are_parted_by_a_slash_or_a_plus(given, names):
    assert method_names(given) == names
