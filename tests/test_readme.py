"""The README's code runs as it stands, and what it lists exists."""

import re
from pathlib import Path

import matplotlib
import numpy as np

import holonax as hx

matplotlib.use("Agg")

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")


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
    others = {"build", "gravity", "ground", "simulate", "start_vectors", "system"}
    assert [x for x in sorted(public - others) if f"`{x}`" not in README] == []


def test_pictures_exist_and_are_small():
    images = re.findall(r"!\[.*?\]\((.*?)\)", README)
    assert images
    root = Path(__file__).resolve().parent.parent
    for image in images:
        assert (root / image).stat().st_size < (1_000_000 if image.endswith("gif") else 150_000)
