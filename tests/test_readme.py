"""Code of the README and of the page on the compiler runs as it stands; what they name exists."""

import re
from pathlib import Path
from textwrap import dedent

import matplotlib
import numpy as np
import pytest

import holonax as hx
from holonax.compiler import counts, lowering
from holonax.model import items

matplotlib.use("Agg")

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_blocks_run_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 3
    names = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert names["result"].success
    assert np.max(names["position_drift"]) < 1e-13
    assert np.max(names["velocity_drift"]) < 1e-13
    assert (tmp_path / "four_bar.png").exists() and (tmp_path / "four_bar.gif").exists()


def test_everything_in_the_table_exists():
    table = README.partition("## What exists")[2].partition("\n## ")[0]
    names = re.findall(r"`(\w+)`", "".join(x for x in table.splitlines(True) if x[0] == "|"))
    assert len(names) > 40
    assert [x for x in names if not (hasattr(hx, x) or hasattr(hx.Model, x))] == []


def test_every_joint_and_force_of_the_model_is_in_the_table():
    public = {x for x in dir(hx.Model) if not x.startswith("_")}
    others = {"breaks", "build", "gravity", "ground", "simulate", "start_vectors", "system"}
    assert [x for x in sorted(public - others) if f"`{x}`" not in README] == []


def test_pictures_exist_and_are_small():
    images = re.findall(r"!\[.*?\]\((.*?)\)", README)
    assert images
    for image in images:
        assert (ROOT / image).stat().st_size < (1_000_000 if image.endswith("gif") else 150_000)


def test_pages_that_are_linked_exist():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        assert [x for x in links if not (page.parent / x).exists()] == []


def test_the_code_of_the_page_on_the_architecture_runs(monkeypatch, capsys):
    monkeypatch.setattr(items, "REGISTRY", dict(items.REGISTRY))  # the page adds two
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"^ *```python\n(.*?)```", page, flags=re.DOTALL | re.MULTILINE):
        exec(compile(dedent(block), "architecture.md", "exec"), names)
    for line in capsys.readouterr().out.splitlines():
        assert f"# {line}\n" in page
    assert names["result"].success


def test_the_code_of_the_page_on_the_compiler_runs(monkeypatch, capsys):
    monkeypatch.setattr(lowering, "RULES", dict(lowering.RULES))  # the page adds one
    page = (ROOT / "docs" / "compiler.md").read_text(encoding="utf-8")
    names = {}
    before = len(counts.left_to_xla)
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(block, "compiler.md", "exec"), names)
    assert counts.left_to_xla[before:] == [("quantile", "the primitive erf_inv")]
    program = names["text"].partition("define void @program")[2].partition("}")[0]
    assert program and program in page
    assert f"{lowering.MOST // 1000} 000 operations" in page
    assert "'quantile', 'the primitive erf_inv'" in capsys.readouterr().out


@pytest.mark.slow
def test_the_code_of_the_page_on_gradients_runs():
    page = (ROOT / "docs" / "gradients.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(block, "gradients.md", "exec"), names)
    system, gradient = names["system"], names["gradient"]
    assert gradient["B.at_b"].shape == (2,) and gradient["v"].shape == (9,)
    assert float(system.parameters()["coupler.mass"]) == 2.0
    masses, values = np.linspace(1.5, 2.5, 4), names["batch"]
    # a cubic through the batch: smooth over this range, but no more than a check of the slope
    inner = np.polynomial.Polynomial.fit(masses, values, 3)
    assert abs(names["value"] / inner(2.0) - 1) < 1e-3
    assert abs(gradient["coupler.mass"] / inner.deriv()(2.0) - 1) < 1e-2
    found = names["found"]
    assert abs(found.values["coupler.mass"] - 2.3) < 4 * found.std["coupler.mass"] < 0.2


@pytest.mark.slow
def test_the_code_of_the_page_on_names_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "names.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(block, "names.md", "exec"), names)
    assert names["result"].status == "event" and names["gap"].shape == (601,)


@pytest.mark.slow
def test_the_code_of_the_page_on_control_runs():
    page = (ROOT / "docs" / "control.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(block, "control.md", "exec"), names)
    assert names["result"].stats["samples"] == 300


@pytest.mark.slow
def test_the_code_of_the_page_on_many_runs_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # sweeps write there
    page = (ROOT / "docs" / "many-runs.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(block, "many-runs.md", "exec"), names)
    said = capsys.readouterr().out
    assert "Ensemble of 1000 runs to t = 1 s: 1000 successful, 0 not" in said
    assert "cannot be assembled at the start" in said
    assert np.all(names["turned"] < 1.0) and names["band"].mean.shape == (101,)
    assert np.all(names["result"].reduced["path"] > 0)
