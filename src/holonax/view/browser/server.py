"""A page that runs the mechanism again when a parameter is moved."""

from __future__ import annotations

import json
import math
import secrets
import threading
import webbrowser
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ..._arguments import checked_call, flag
from ..._messages import listed, shown
from ..._numbers import finite_number
from ..._places import changes, places
from ...result.result import Result
from ..drawable import check_title
from ..skeleton import Traces
from .contents import scene
from .page import written

_LONGEST = 100_000  # bytes of a request
_HOSTS = ("127.0.0.1", "localhost")


class Viewer:
    """A page that is being shown at `url`, until `close`.

    Usable in a ``with`` statement; `wait` blocks until the keyboard interrupts it.
    """

    def __init__(self, first: Mapping[str, Any], again: Any, port: int):
        self._key, self._again, self._lock = secrets.token_urlsafe(12), again, threading.Lock()
        self._text = written(first)
        viewer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                viewer._get(self)

            def do_POST(self) -> None:
                viewer._post(self)

            def log_message(self, format: str, *args: Any) -> None:
                """A page that is looked at says nothing on the terminal."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where the page is; the key in it keeps other pages of the browser out."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{self._key}/"

    def __repr__(self) -> str:
        return f"Viewer({self.url})"

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *details: Any) -> None:
        self.close()

    def close(self) -> None:
        """Stop showing the page."""
        self._server.shutdown()
        self._server.server_close()

    def wait(self) -> None:
        """Show the page until the keyboard interrupts (Ctrl-C)."""
        try:
            self._thread.join()
        except KeyboardInterrupt:
            self.close()

    # -- requests ------------------------------------------------------------------------------

    def _is_ours(self, request: Any, path: str) -> bool:
        """From this machine, under its own name, with the key."""
        host = request.headers.get("Host", "").rsplit(":", 1)[0]
        good = host in _HOSTS and secrets.compare_digest(request.path, path)
        if not good:
            self._answer(request, HTTPStatus.NOT_FOUND, "text/plain", b"There is nothing here.")
        return good

    def _get(self, request: Any) -> None:
        if self._is_ours(request, f"/{self._key}/"):
            self._answer(request, HTTPStatus.OK, "text/html", self._text.encode())

    def _post(self, request: Any) -> None:
        if not self._is_ours(request, f"/{self._key}/run"):
            return
        length = request.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > _LONGEST:
            said = {"error": "The request is too long."}
        else:
            said = self._run(request.rfile.read(int(length)))
        self._answer(request, HTTPStatus.OK, "application/json", json.dumps(said).encode())

    def _run(self, text: bytes) -> Mapping[str, Any]:
        try:
            values = json.loads(text)
            with self._lock:  # one run at a time
                return self._again(values)
        except Exception as error:
            return {"error": f"{error}"}

    def _answer(self, request: Any, status: HTTPStatus, kind: str, content: bytes) -> None:
        try:
            request.send_response(status)
            request.send_header("Content-Type", f"{kind}; charset=utf-8")
            request.send_header("Content-Length", str(len(content)))
            request.send_header("Cache-Control", "no-store")
            request.end_headers()
            request.wfile.write(content)
        except ConnectionError:
            pass  # the page was closed meanwhile


@checked_call
def show(
    what: Any,
    t_end: float | None = None,
    *,
    sliders: Mapping[str, Any] | None = None,
    traces: Traces = (),
    title: str = "",
    port: int = 0,
    browser: bool = True,
    **options: Any,
) -> Viewer:
    """Show a result, or a model that runs again when a slider is moved, in the browser.

    **Arguments:**

    - `what`: a result; or a `Model`, which is simulated to `t_end` [s] with the further `options`
      of `Model.simulate`.
    - `sliders`: for a model, from names of its parameters (``"crank.mass"``) to pairs (lowest,
      highest value). A parameter that has components is named with the component's number:
      ``"A.at_b.0"``. Moving one runs the same compiled program with another number.
    - `traces`: points whose paths are drawn, as for `holonax.page`.
    - `title`: a line above the picture.
    - `port`: of this machine; 0 takes any that is free.
    - `browser`: whether to open a window of the browser.

    The page is served on this machine only, under an address that cannot be guessed.
    """
    open_window = flag("show", "browser", browser)
    port = _port(port)
    check_title("show", title)
    if isinstance(what, Result):
        if sliders is not None or t_end is not None or options:
            raise ValueError(
                "show: a result has been computed: t_end, sliders and options of a run mean "
                "nothing for it. Give the model instead."
            )
        viewer = Viewer(scene(what, traces=traces, title=title), _cannot, port)
    else:
        viewer = _of_model(what, t_end, sliders, traces, title, port, options)
    if open_window:
        webbrowser.open(viewer.url)
    return viewer


def _cannot(values: Any) -> Any:
    raise ValueError("This page shows one result; nothing is run again.")


def _port(port: Any) -> int:
    number = finite_number("show", "port", port)
    if number != int(number) or not 0 <= number < 65536:
        raise ValueError(f"show: port={shown(port)} must be a whole number from 0 to 65535.")
    return int(number)


def _of_model(
    model: Any,
    t_end: Any,
    sliders: Mapping[str, Any] | None,
    traces: Traces,
    title: str,
    port: int,
    options: dict[str, Any],
) -> Viewer:
    if not hasattr(model, "with_parameters") or not hasattr(model, "simulate"):
        raise TypeError(
            f"show: {shown(model)} is neither a result nor a model. Give what simulate returns, or "
            "an hx.Model with t_end."
        )
    if t_end is None:
        raise ValueError("show: t_end is missing. Say how long the model shall run [s].")
    sliders = {} if sliders is None else sliders
    if not isinstance(sliders, Mapping):
        raise TypeError(
            f"show: sliders={shown(sliders)} is not a dictionary. Give names of parameters with "
            "pairs (lowest, highest value)."
        )
    known = {name: x.value for name, x in places(model.parameters()).items()}
    rows = [_slider(name, ends, known) for name, ends in sliders.items()]

    def ran(values: Mapping[str, float]) -> dict[str, Any]:
        given = model.with_parameters(changes(model.parameters(), values)) if values else model
        return scene(given.simulate(t_end, **options), traces=traces, title=title, sliders=rows)

    def again(values: Any) -> dict[str, Any]:
        limits = {row["name"]: (row["low"], row["high"]) for row in rows}
        if not isinstance(values, dict) or not set(values) <= set(limits):
            raise ValueError("The page asks for parameters that have no slider.")
        for name, value in values.items():
            low, high = limits[name]
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"{name} must be a number.")
            if not low <= value <= high:
                raise ValueError(f"{name}={value:g} is outside of {low:g} to {high:g}.")
        return ran(values)

    return Viewer(ran({}), again, port)


def _slider(name: Any, ends: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    if name not in known:
        raise ValueError(
            f"show: sliders: there is no parameter {shown(name)}. The model's parameters are "
            f"{listed(list(known), 12)}."
        )
    try:
        low, high = (finite_number("show", f"the slider of {name}", x) for x in ends)
    except TypeError:
        raise ValueError(
            f"show: the slider of {name!r} is {shown(ends)}; give a pair (lowest, highest value)."
        ) from None
    value = float(known[name])
    if not low < high or not low <= value <= high:
        raise ValueError(
            f"show: the slider of {name!r} goes from {low:g} to {high:g}; the model's own value, "
            f"{value:g}, must lie between."
        )
    return {"name": name, "value": value, "low": low, "high": high}
