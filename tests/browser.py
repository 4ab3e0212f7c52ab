"""A headless Chromium for tests, driven through a pipe by its own protocol."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --use-angle=swiftshader --enable-unsafe-swiftshader "
    "--no-first-run --disable-background-networking --disable-component-update --disable-sync "
    "--disable-quic --disable-default-apps --remote-debugging-pipe --window-size=1200,720"
).split()


class Browser:
    """One page. What it asks for outside of `data:` is in `requests`, its complaints in `errors`."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        (ours_in, its_out), (its_in, ours_out) = os.pipe(), os.pipe()
        high = [os.dup2(x, y) for x, y in ((its_in, 103), (its_out, 104))]

        def descriptors():  # 3 and 4 are what it speaks through
            os.dup2(103, 3)
            os.dup2(104, 4)

        self.process = subprocess.Popen(
            [CHROMIUM, *_FLAGS, f"--user-data-dir={self.folder.name}", "about:blank"],
            pass_fds=(3, 4, *high),
            preexec_fn=descriptors,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for x in (its_in, its_out, *high):
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
            self.errors.append(details["exceptionDetails"]["exception"].get("description", details))
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
