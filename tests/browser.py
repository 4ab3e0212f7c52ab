"""A headless Chromium for tests, driven through a pipe by its own protocol."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((x for x in map(shutil.which, _NAMES) if x), None)
_FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--disable-default-apps",
    "--remote-debugging-pipe",
    "--window-size=1200,720",
]


class Browser:
    """One page: what it asks for is in `requests`, its complaints in `errors`."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        (ours_in, its_out), (its_in, ours_out) = os.pipe(), os.pipe()
        # it speaks through the descriptors 3 and 4
        become = "import os, sys; a, b, *run = sys.argv[1:]; os.dup2(int(a), 3); "
        become += "os.dup2(int(b), 4); os.execv(run[0], run)"
        ends = its_in, its_out
        profile = f"--user-data-dir={self.folder.name}"
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                become,
                *map(str, ends),
                CHROMIUM,
                *_FLAGS,
                profile,
                "about:blank",
            ],
            pass_fds=ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for x in ends:
            os.close(x)
        self.read_from, self.write_to = ours_in, ours_out
        self.buffer, self.numbers = b"", itertools.count(1)
        self.requests, self.errors = [], []
        self.session = None
        pages = self.ask("Target.getTargets")["targetInfos"]
        page = next(x for x in pages if x["type"] == "page")
        attached = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *details):
        self.process.kill()
        self.process.wait()
        os.close(self.read_from)
        os.close(self.write_to)
        for _ in range(20):  # its children write until they are gone
            try:
                self.folder.cleanup()
                return
            except OSError:
                time.sleep(0.1)

    def ask(self, method, **parameters):
        number = next(self.numbers)
        said = {"id": number, "method": method, "params": parameters}
        if self.session is not None:
            said["sessionId"] = self.session
        os.write(self.write_to, json.dumps(said).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _next(self):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_from], [], [], 60.0)
            assert ready, "the browser does not answer"
            more = os.read(self.read_from, 1 << 20)
            assert more, "the browser has gone"
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        said = json.loads(text)
        self._heard(said.get("method"), said.get("params", {}))
        return said

    def _heard(self, method, details):
        if method == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            said = details["exceptionDetails"]
            self.errors.append(said.get("exception", {}).get("description", str(said)))
        elif method == "Log.entryAdded" and details["entry"]["level"] == "error":
            self.errors.append(details["entry"]["text"])

    def open(self, url):
        self.ask("Page.navigate", url=url)
        self.until("document.readyState == 'complete' && !!window.holonax")

    def get(self, expression):
        """The value of a JavaScript expression."""
        found = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression, seconds=30.0):
        end = time.monotonic() + seconds
        while not self.get(expression):
            assert time.monotonic() < end, f"not within {seconds} s: {expression}"
            time.sleep(0.05)

    def picture(self):
        """A screenshot as PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot")["data"])
