"""A model that is seen to move: as files, or in the browser with sliders."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import holonax as hx

from .running import Opened, simulated


@dataclass(frozen=True)
class Files:
    """What is to be written: a page, a picture (`at` a time [s]), an animation and a video (`speed`
    simulated seconds in one); a page if nothing is said."""

    html: Path | None
    png: Path | None
    gif: Path | None
    mp4: Path | None
    at: float | None
    speed: float

    def __post_init__(self) -> None:
        asked = {"html": self.html, "png": self.png, "gif": self.gif, "mp4": self.mp4}
        for kind, path in asked.items():
            if path is not None and path.suffix.lower() != f".{kind}":
                raise ValueError(f"view: --{kind} {path} must end in .{kind}.")
        if not (math.isfinite(self.speed) and self.speed > 0):
            raise ValueError(f"view: --speed {self.speed:g} must be positive.")
        if self.at is not None and self.png is None:
            raise ValueError("view: --at is the time of a picture. Give --png too.")

    def of(self, result: Any, title: str) -> list[Path]:
        """Write them; where they are."""
        made = []
        if self.png is not None:
            made.append(hx.view.snapshot(result, self.png, t=self.at, title=title))
        for path in (self.gif, self.mp4):
            if path is not None:
                made.append(hx.animate(result, path, speed=self.speed, title=title))
        if self.html is not None or not made:
            made.append(hx.page(result, self.html or "motion.html", title=title))
        return made


def written(
    opened: Opened, t_end: float | None, options: dict[str, Any], files: Files, quiet: bool
) -> int:
    """Run, and write what is asked for."""
    result = simulated(opened, t_end, options, quiet=quiet)
    made = files.of(result, opened.name)
    if not quiet:
        print("\n".join(map(str, made)))
    return 0 if result.success else 1


class _Changing:
    """A model file in the role of a `Model`: parameters of the file have sliders as well."""

    def __init__(self, file: hx.ModelFile):
        self._file = file

    def parameters(self) -> dict[str, Any]:
        return {**self._file.model.parameters(), **self._file.parameters}

    def with_parameters(self, values: Mapping[str, Any]) -> _Changing:
        return _Changing(self._file.with_values(values))

    def simulate(self, t_end: float, **options: Any) -> hx.Result:
        return self._file.simulate(t_end, **options)


def _slider(text: str) -> tuple[str, tuple[float, float]]:
    name, sign, ends = text.partition("=")
    try:
        if not sign or not name.strip():
            raise ValueError
        low, high = (float(x) for x in ends.split(":"))
    except ValueError:
        raise ValueError(
            f"--slider {text!r} is not understood. Write NAME=LOW:HIGH: crank.mass=1:3."
        ) from None
    return name.strip(), (low, high)


def shown_live(
    opened: Opened,
    t_end: float | None,
    options: dict[str, Any],
    sliders: list[str],
    port: int,
    browser: bool,
    files: list[Path],
) -> int:
    """Serve the page until the keyboard interrupts."""
    if files:
        raise ValueError(f"view: --live serves a page. Write {files[0]} by a command of its own.")
    ends, end = dict(map(_slider, sliders)), opened.end(t_end)
    if opened.file is None:
        if ends:
            raise ValueError(
                f"view: {opened.name} is written as Python functions, and has no parameters with "
                "sliders. Use --set."
            )
        what: Any = opened.simulate(end, options)
        viewer = hx.show(what, title=opened.name, port=port, browser=browser)
    else:
        viewer = hx.show(
            _Changing(opened.file),
            end,
            sliders=ends,
            title=opened.name,
            port=port,
            browser=browser,
            **options,
        )
    print(f"{viewer.url}\nCtrl-C ends it.", flush=True)
    viewer.wait()
    return 0
