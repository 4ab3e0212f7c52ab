"""A picture of a result inside of a notebook."""

from __future__ import annotations

import base64
import io

import numpy as np

from .._arguments import checked_call
from .._optional import require
from ..result.result import Result
from ..system.mechanism import Mechanism
from .drawable import check_drawn
from .scene import draw
from .skeleton import skeleton


@checked_call
def inline(result: Result) -> str:
    """The mechanism at its start and at its end as an image in HTML; nothing where it cannot be
    drawn."""
    check_drawn("inline", result, "")
    if not isinstance(result.system, Mechanism):
        return ""
    try:
        figures = require("matplotlib.figure")
        agg = require("matplotlib.backends.backend_agg")
    except ImportError:
        return ""
    picture = skeleton(result, np.array([0, result.t.size - 1]))
    figure = figures.Figure(figsize=(7.0, 3.2), dpi=90, layout="constrained")
    agg.FigureCanvasAgg(figure)
    for k in range(2):
        kind = None if picture.dimension == 2 else "3d"
        axes = figure.add_subplot(1, 2, k + 1, projection=kind)
        draw(axes, picture)(k)
        axes.set_title(f"t = {result.t[[0, -1][k]]:g} s", fontsize=9)
    target = io.BytesIO()
    figure.savefig(target, format="png")
    data = base64.b64encode(target.getvalue()).decode()
    return f'<img alt="the mechanism at its start and end" src="data:image/png;base64,{data}">'
