"""Pictures inside of a notebook: of a result, and of a model as it is described."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arguments import checked_call
from .._optional import require
from ..result.motion import BodyMotion, body_motion
from ..result.result import Result
from ..system.mechanism import Mechanism
from .drawable import check_drawn
from .scene import draw
from .skeleton import Skeleton, skeleton


@checked_call
def inline(result: Result) -> str:
    """The mechanism at its start and at its end as an image in HTML; nothing where it cannot be
    drawn."""
    check_drawn("inline", result, "")
    if not isinstance(result.system, Mechanism):
        return ""
    titles = [f"t = {t:g} s" for t in result.t[[0, -1]]]
    said = "the mechanism at its start and end"
    return _image(skeleton(result, np.array([0, result.t.size - 1])), titles, said)


def inline_described(system: Mechanism, q: Any, v: Any) -> str:
    """A mechanism in one configuration as an image in HTML; nothing where it cannot be drawn."""
    pose = _Pose(system, np.asarray(q)[None], np.asarray(v)[None])
    return _image(skeleton(pose, np.array([0])), [""], "the mechanism as it is described")


@dataclass(frozen=True)
class _Pose:
    """What a picture needs of a result, in one configuration."""

    system: Mechanism
    q: np.ndarray
    v: np.ndarray

    def __getitem__(self, name: str) -> BodyMotion:
        return body_motion(self.system, name, self.q, self.v, np.zeros_like(self.v))


def _image(picture: Skeleton, titles: list[str], said: str) -> str:
    try:
        figures = require("matplotlib.figure")
        agg = require("matplotlib.backends.backend_agg")
    except ImportError:
        return ""
    figure = figures.Figure(figsize=(3.5 * len(titles), 3.2), dpi=90, layout="constrained")
    agg.FigureCanvasAgg(figure)
    for k, title in enumerate(titles):
        kind = None if picture.dimension == 2 else "3d"
        axes = figure.add_subplot(1, len(titles), k + 1, projection=kind)
        draw(axes, picture)(k)
        axes.set_title(title, fontsize=9)
    target = io.BytesIO()
    figure.savefig(target, format="png")
    data = base64.b64encode(target.getvalue()).decode()
    return f'<img alt="{said}" src="data:image/png;base64,{data}">'
