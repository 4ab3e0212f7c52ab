"""The picture of docs/many-runs.md: a four-bar whose bearing is placed to a millimetre."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import holonax as hx

HERE = Path(__file__).parent
RUNS = 1000


def four_bar():
    """The mechanism of the page."""
    page = (HERE / "many-runs.md").read_text(encoding="utf-8")
    text = re.findall(r"```python\n(.*?)```", page, re.S)[0].partition("random =")[0]
    names = {}
    exec(compile(text, "many-runs.md", "exec"), names)
    return names["system"], names["start"]


def main():
    """Compute and draw."""
    system, start = four_bar()
    foot = np.random.default_rng(0).normal((0.6, 0.0), 1e-3, (RUNS, 2))
    times = np.linspace(0.0, 2.0, 201)
    reduce = {
        "rocker": hx.many.Bands("rocker.angle"),
        "turned": hx.many.FirstPassage("crank.angle", level=4 * np.pi),
    }
    result = hx.ensemble(
        *(system, start),
        parameters={"D.at_a": foot},
        times=times,
        rtol=1e-8,
        reduce=reduce,
        save="none",
    )
    print(result)
    band, turned = result.reduced["rocker"], 1e3 * result.reduced["turned"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    off = lambda x: 1e3 * (x - band.mean)  # noqa: E731
    left.fill_between(times, off(band.smallest), off(band.largest), color="0.85", label="all runs")
    left.fill_between(
        times, -1e3 * band.std, 1e3 * band.std, color="tab:blue", alpha=0.6, label="one deviation"
    )
    left.set(xlabel="t [s]", ylabel="rocker's angle off its mean [mrad]", xlim=(0, 2))
    left.legend(loc="upper left", frameon=False)
    right.hist(turned, bins=40, color="tab:blue", alpha=0.8)
    right.set(xlabel="two turns of the crank after [ms]", ylabel="runs")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(HERE / "images" / "many-runs.png", dpi=110)


if __name__ == "__main__":
    main()
