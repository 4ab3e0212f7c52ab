"""A mechanism in motion, as a GIF file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from .._arguments import checked_call, folder
from .._messages import shown
from .._numbers import array, finite_number
from .._optional import require
from ..result.resampling import refined
from ..result.result import Result
from .drawable import check_drawn
from .panels import FINE
from .scene import draw
from .skeleton import Traces, skeleton

MAX_FRAMES = 200


@checked_call
def animate(
    result: Result,
    path: str | Path,
    *,
    traces: Traces = (),
    speed: float = 1.0,
    fps: float = 20.0,
    size: tuple[float, float] | None = None,
    title: str = "",
) -> Path:
    """Write an animation of the mechanism to `path`, a GIF file, and return that path.

    Bodies are drawn by their shapes, and through the points where joints attach to them where they
    have none; planar mechanisms in the x-y plane, others in space.

    **Arguments:**

    - `traces`: points whose paths are drawn, as pairs (body name, point in body coordinates [m]),
      or a dictionary from labels to such pairs.
    - `speed`: simulated seconds in one second of the animation.
    - `fps`: frames per second at most. There are at most 200 frames: a longer animation shows fewer
      per second, so raise `speed` for a long run.
    - `size`: width and height in pixels; by default it follows the mechanism's shape.
    - `title`: a line above the picture.

    A run that saved its steps is drawn from its dense output; of others the frames show the saved
    state nearest in time, so save them densely enough.
    """
    check_drawn("animate", result, title)
    target = folder("animate", "path", path)
    if target.suffix.lower() != ".gif":
        raise ValueError(f"animate: {target.name!r} is not a GIF file. Give a path ending in .gif.")
    speed = finite_number("animate", "speed", speed, positive=True)
    fps = finite_number("animate", "fps", fps, positive=True)
    if size is not None:
        width, height = array("animate", "size", size, (2,))
        if not (50 <= width <= 10_000 and 50 <= height <= 10_000):
            raise ValueError(
                f"animate: size={shown(size)} must be a width and a height from 50 to 10000 pixels."
            )
    figure_module, agg = require("matplotlib.figure"), require("matplotlib.backends.backend_agg")
    images = require("PIL.Image")
    times, delay = _frame_times(result.t, speed, fps)
    result = refined(result, FINE, times)
    index = np.clip(np.searchsorted(result.t, times), 1, result.t.size - 1)
    index -= times - result.t[index - 1] < result.t[index] - times  # the nearer of the two
    picture = skeleton(result, index, traces)
    width, height = _pixels(picture.span(), picture.dimension) if size is None else size
    figure = figure_module.Figure(figsize=(width / 100, height / 100), dpi=100)
    figure.set_layout_engine("constrained")
    canvas = agg.FigureCanvasAgg(figure)
    axes = figure.add_subplot(projection=None if picture.dimension == 2 else "3d")
    update = draw(axes, picture)
    if picture.dimension == 2:
        axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", fontsize=10)
    clock = axes.set_title("t = 0 s", loc="right", fontsize=10, family="monospace")
    digits = max(0, math.ceil(-math.log10(speed * delay)))
    frames: list[Any] = []
    for k, t in enumerate(times):
        update(k)
        clock.set_text(f"t = {t:.{digits}f} s")
        canvas.draw()
        if k == 0:
            figure.set_layout_engine("none")  # the layout of the first frame stays
        frames.append(images.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))
    _write(frames, target, delay)
    return target


def _frame_times(t: np.ndarray, speed: float, fps: float) -> tuple[np.ndarray, float]:
    """(simulated times of the frames, seconds that each is shown)."""
    if t.size < 2:
        raise ValueError(
            "animate: the result has one saved state. Simulate with save='steps' or a number."
        )
    duration = (t[-1] - t[0]) / speed
    if not math.isfinite(1e3 * duration):
        raise ValueError(
            f"animate: speed={speed:g} makes the animation endless. Give a larger one, such as 1."
        )
    # GIF counts hundredths of a second, and browsers slow down anything below two of them.
    hundredths = max(2, round(100 / fps), math.ceil(100 * duration / MAX_FRAMES))
    delay = hundredths / 100
    n = max(int(duration / delay + 1e-9), 1)
    return t[0] + speed * delay * np.arange(n), delay


def _pixels(span: tuple[np.ndarray, np.ndarray], dimension: int) -> tuple[int, int]:
    """A frame that suits the mechanism's shape, about 480 pixels along the longer side."""
    if dimension == 3:
        return 480, 440
    width, height = span[1] - span[0]
    scale = 420 / max(width, height)
    return round(scale * width) + 70, round(scale * height) + 80


def _write(frames: list[Any], target: Path, delay: float) -> None:
    """One palette for all frames, taken from the last one, where every trace is drawn."""
    palette = frames[-1].quantize(colors=128)
    entries = np.array(palette.getpalette())
    palette.putpalette(np.where(entries > 245, 255, entries).tolist())  # a white background
    dither = require("PIL.Image").Dither.NONE
    indexed = [frame.quantize(palette=palette, dither=dither) for frame in frames]
    target.parent.mkdir(parents=True, exist_ok=True)
    indexed[0].save(
        target,
        save_all=True,
        append_images=indexed[1:],
        duration=round(1000 * delay),
        loop=0,
        optimize=False,
    )
