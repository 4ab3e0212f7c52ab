"""One file that shows a mechanism in motion, without a connection or an installation."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..._arguments import checked_call, folder
from ...result.result import Result
from ..drawable import check_drawn
from ..skeleton import Traces
from .contents import scene

_SCRIPTS = ("algebra.js", "meshes.js", "drawing.js", "motion.js", "page.js")


@checked_call
def page(
    result: Result,
    path: str | Path,
    *,
    traces: Traces = (),
    title: str = "",
) -> Path:
    """Write a page that plays the motion to `path`, an HTML file, and return that path.

    The file is complete: it opens from disk in any browser with WebGL 2 and asks for nothing
    outside. It shows the bodies by their shapes, joints and springs, reactions as arrows, and
    curves of the quantities that are chosen beside it.

    **Arguments:**

    - `traces`: points whose paths are drawn, as pairs (body name, point in body coordinates [m]),
      or a dictionary from labels to such pairs.
    - `title`: a line above the picture.
    """
    check_drawn("page", result, title)
    target = folder("page", "path", path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"page: {target.name!r} is not a page. Give a path ending in .html.")
    text = written(scene(result, traces=traces, title=title))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target


def written(said: Mapping[str, Any]) -> str:
    """The page of a scene, as text."""
    here = files(__name__.rpartition(".")[0])
    read = lambda name: here.joinpath(name).read_text(encoding="utf-8")  # noqa: E731
    # no text of a scene ends the element that holds it
    data = json.dumps(said, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "title": html.escape(str(said["title"])),
        "style": read("page.css"),
        "scene": data,
        "script": "\n".join(map(read, _SCRIPTS)).replace('"use strict";\n', ""),
    }
    pieces = read("page.html").split("{{")
    out = [pieces[0]]
    for piece in pieces[1:]:
        name, rest = piece.split("}}", 1)
        out += [parts[name], rest]
    return "".join(out)
