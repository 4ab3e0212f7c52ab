"""A mechanism in motion, as a GIF or MP4 file, or at one time as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._arguments import checked_call, flag, folder
from .._messages import shown
from .._numbers import array, finite_number
from .._optional import require
from ..result.resampling import refined
from ..result.result import Result
from .drawable import check_drawn
from .panels import FINE
from .scene import draw, draw_scale
from .skeleton import Skeleton, Traces, skeleton

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
    axes: bool = True,
) -> Path:
    """Write an animation of the mechanism to `path`, a GIF or MP4 file, and return that path.

    Bodies are drawn by their shapes, and through the points where joints attach to them where they
    have none; planar mechanisms in the x-y plane, others in space. MP4 needs imageio-ffmpeg
    (``pip install "holonax[video]"``).

    **Arguments:**

    - `traces`: points whose paths are drawn, as pairs (body name, point in body coordinates [m]),
      or a dictionary from labels to such pairs.
    - `speed`: simulated seconds in one second of the animation.
    - `fps`: frames per second at most. A GIF has at most 200 frames: a longer animation shows fewer
      per second, so raise `speed` for a long run.
    - `size`: width and height in pixels; by default it follows the mechanism's shape.
    - `title`: a line above the picture.
    - `axes`: whether axes with their scales are drawn, and the time.

    A run that saved its steps is drawn from its dense output; of others the frames show the saved
    state nearest in time, so save them densely enough.
    """
    check_drawn("animate", result, title)
    target = folder("animate", "path", path)
    kind = target.suffix.lower()
    if kind not in (".gif", ".mp4"):
        raise ValueError(
            f"animate: {target.name!r} is neither a GIF nor an MP4 file. Give a path ending in "
            ".gif or .mp4."
        )
    speed = finite_number("animate", "speed", speed, positive=True)
    fps = finite_number("animate", "fps", fps, positive=True)
    pixels = _size("animate", size)
    video = require("imageio_ffmpeg") if kind == ".mp4" else None
    times, delay = _frame_times(result.t, speed, fps, most=MAX_FRAMES if video is None else 2000)
    framed = flag("animate", "axes", axes)
    frames = list(_drawn(result, times, traces, pixels, title, framed, even=video is not None))
    target.parent.mkdir(parents=True, exist_ok=True)
    if video is None:
        _write(frames, target, delay)
    else:
        _write_video(video, frames, target, delay)
    return target


@checked_call
def snapshot(
    result: Result,
    path: str | Path,
    *,
    t: float | None = None,
    traces: Traces = (),
    size: tuple[float, float] | None = None,
    title: str = "",
    axes: bool = True,
) -> Path:
    """Write a picture of the mechanism at the time `t` [s], its end unless given, to `path`, a PNG
    file, and return that path. The other arguments are those of `holonax.animate`."""
    check_drawn("snapshot", result, title)
    target = folder("snapshot", "path", path)
    if target.suffix.lower() != ".png":
        raise ValueError(f"snapshot: {target.name!r} is no picture. Give a path ending in .png.")
    when = float(result.t[-1]) if t is None else finite_number("snapshot", "t", t)
    if not result.t[0] <= when <= result.t[-1]:
        raise ValueError(
            f"snapshot: t={when:g} is outside of the run, which goes from {result.t[0]:g} to "
            f"{result.t[-1]:g} s."
        )
    framed, pixels = flag("snapshot", "axes", axes), _size("snapshot", size)
    (image,) = _drawn(result, np.array([when]), traces, pixels, title, framed)
    target.parent.mkdir(parents=True, exist_ok=True)
    image.save(target)
    return target


def _size(owner: str, size: Any) -> tuple[float, float] | None:
    if size is None:
        return None
    width, height = array(owner, "size", size, (2,))
    if not (50 <= width <= 10_000 and 50 <= height <= 10_000):
        raise ValueError(
            f"{owner}: size={shown(size)} must be a width and a height from 50 to 10000 pixels."
        )
    return width, height


def _drawn(
    result: Result,
    times: np.ndarray,
    traces: Traces,
    size: tuple[float, float] | None,
    title: str,
    framed: bool,
    *,
    even: bool = False,
) -> Iterator[Any]:
    """Images of the mechanism at these times; of `even` width and height, as videos want them."""
    figures, agg = require("matplotlib.figure"), require("matplotlib.backends.backend_agg")
    images = require("PIL.Image")
    result = refined(result, FINE, times)
    index = np.zeros(times.size, dtype=int)
    if result.t.size > 1:
        index = np.clip(np.searchsorted(result.t, times), 1, result.t.size - 1)
        index -= times - result.t[index - 1] < result.t[index] - times  # the nearer of the two
    picture = skeleton(result, index, traces)
    width, height = _pixels(picture) if size is None else size
    if even:
        width, height = (2 * math.ceil(x / 2) for x in (width, height))
    figure = figures.Figure(figsize=(width / 100, height / 100), dpi=100)
    figure.set_layout_engine("constrained")
    canvas = agg.FigureCanvasAgg(figure)
    axes = figure.add_subplot(projection=None if picture.dimension == 2 else "3d")
    update = draw(axes, picture)
    if not framed:
        axes.set_axis_off()
        if picture.dimension == 3:  # the room that the scales took
            axes.set_box_aspect(np.subtract(*picture.span()[::-1]), zoom=1.1)
    elif picture.dimension == 3:
        draw_scale(axes, picture)
    else:
        axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", fontsize=10)
    clock = axes.set_title("", loc="right", fontsize=10, family="monospace")
    step = float(times[1] - times[0]) if times.size > 1 else 1e-3
    digits = max(0, math.ceil(-math.log10(step)))
    for k, t in enumerate(times):
        update(k)
        clock.set_text(f"t = {t:.{digits}f} s" if framed else "")
        canvas.draw()
        if k == 0:
            figure.set_layout_engine("none")  # the layout of the first frame stays
        yield images.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")


def _frame_times(
    t: np.ndarray, speed: float, fps: float, *, most: int = MAX_FRAMES
) -> tuple[np.ndarray, float]:
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
    hundredths = max(2, round(100 / fps), math.ceil(100 * duration / most))
    delay = hundredths / 100
    n = max(int(duration / delay + 1e-9), 1)
    return t[0] + speed * delay * np.arange(n), delay


def _pixels(picture: Skeleton) -> tuple[int, int]:
    """A frame that suits the mechanism's shape, about 480 pixels along the longer side."""
    if picture.dimension == 3:
        return 480, 440
    low, high = picture.span()
    width, height = high - low
    scale = 420 / max(width, height)
    return round(scale * width) + 70, round(scale * height) + 80


def _write(frames: list[Any], target: Path, delay: float) -> None:
    """One palette for all frames, taken from the last one, where every trace is drawn."""
    palette = frames[-1].quantize(colors=128)
    entries = np.array(palette.getpalette())
    palette.putpalette(np.where(entries > 245, 255, entries).tolist())  # a white background
    dither = require("PIL.Image").Dither.NONE
    indexed = [frame.quantize(palette=palette, dither=dither) for frame in frames]
    indexed[0].save(
        target,
        save_all=True,
        append_images=indexed[1:],
        duration=round(1000 * delay),
        loop=0,
        optimize=False,
    )


def _write_video(video: Any, frames: list[Any], target: Path, delay: float) -> None:
    """H.264, which every browser plays."""
    writer = video.write_frames(str(target), frames[0].size, fps=1 / delay, macro_block_size=2)
    writer.send(None)
    for frame in frames:
        writer.send(np.asarray(frame).tobytes())
    writer.close()
