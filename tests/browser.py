"""A headless Chromium driven over its debugging pipe: enough to open a page, look at it and print
it.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
# Chromium reads commands from descriptor 3 and answers on 4.
LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One page. What it complained about is in `complaints`, what it asked the network for in
    `requests`.
    """

    def __init__(
        self, profile: Path, width: int = 1366, height: int = 768, limit: float = 60.0
    ) -> None:
        assert CHROMIUM is not None
        commands, self._out = os.pipe()
        self._in, answers = os.pipe()
        for end in (commands, answers):
            os.set_inheritable(end, True)
        self._errors = open(profile.parent / "chromium.log", "wb")  # noqa: SIM115
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                LAUNCH,
                str(commands),
                str(answers),
                CHROMIUM,
                *FLAGS,
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
                f"--window-size={width},{height}",
            ],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
        )
        os.close(commands)
        os.close(answers)
        self._limit, self._count, self._buffer = limit, 0, b""
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has gone"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, page: Path | str) -> None:
        """Load a file or an address and wait until it is there."""
        self.events.clear()
        self.call("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        end = time.monotonic() + self._limit
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            assert time.monotonic() < end, "the page did not load"
            self._next()

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, seconds: float) -> None:
        """Let the page live for a while."""
        self.run(f"new Promise(done => setTimeout(done, {1000 * seconds}))")

    @property
    def complaints(self) -> list[str]:
        """Everything that went to the console or was thrown."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(e["params"]) for e in self.events if e["method"] in kinds]

    @property
    def requests(self) -> list[str]:
        """Addresses the page asked for, itself first."""
        return [
            e["params"]["request"]["url"]
            for e in self.events
            if e["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(
        self, path: Path, *, full: bool = True, clip: dict[str, float] | None = None
    ) -> None:
        """Save a picture of the page as PNG."""
        options: dict[str, Any] = {"captureBeyondViewport": full}
        if full and clip is None:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"]}
        if clip is not None:
            options["clip"] = clip | {"scale": clip.get("scale", 1)}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **options)["data"]))

    def pdf(self, path: Path) -> None:
        """Print the page as PDF."""
        content = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"]
        path.write_bytes(base64.b64decode(content))

    def close(self) -> None:
        """End the browser."""
        try:
            self._session = None
            self.call("Browser.close")
        except (AssertionError, OSError):
            pass
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._errors.close()
