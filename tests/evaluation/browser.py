"""A headless Chromium for tests of pages, driven over its debugging pipe (the Chrome DevTools Protocol)."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
)
PATIENCE_S = 60.0
KEYS = {
    "Tab": 9,
    "Enter": 13,
    " ": 32,
    "PageUp": 33,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
} | {
    "ArrowRight": 39,
    "ArrowDown": 40,
}
"""Windows virtual key codes, which the protocol requires."""


class Browser:
    """A page in a browser: commands out, events in. `errors` collects exceptions and console errors of the page."""

    def __init__(self, commands: int, answers: int) -> None:
        """Take the ends of both pipes, and attach to the first page."""
        self._commands, self._answers, self._buffer, self._number, self._session = (
            commands,
            answers,
            b"",
            0,
            "",
        )
        self.errors: list[str] = []
        self.loads = 0
        page = next(each for each in self._do("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self._session = self._do("Target.attachToTarget", targetId=page["targetId"], flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self._do(f"{domain}.enable")

    def _do(self, method: str, **params: Any) -> Any:
        """Send a command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            pass
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _next(self) -> Any:
        """Return the next message, noting errors and loads of the page."""
        while b"\0" not in self._buffer:
            if not select.select([self._answers], [], [], PATIENCE_S)[0]:
                raise TimeoutError("the browser does not answer")
            self._buffer += os.read(self._answers, 1 << 20)
        line, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(line)
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(message["params"]["exceptionDetails"]))
            case "Log.entryAdded" if message["params"]["entry"]["level"] == "error":
                self.errors.append(str(message["params"]["entry"]["text"]))
            case "Page.loadEventFired":
                self.loads += 1
        return message

    def open(self, file: Path, *, width: int = 1280, height: int = 900, **media: str) -> float:
        """Open a file at a size; media: features such as prefers_color_scheme. Return the seconds until its load."""
        phone = {"deviceScaleFactor": 1, "mobile": False}
        self._do("Emulation.setDeviceMetricsOverride", width=width, height=height, **phone)
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self._do("Emulation.setEmulatedMedia", features=features)
        before, began = self.loads, time.monotonic()
        self._do("Page.navigate", url=file.as_uri())
        while self.loads == before:
            self._next()
        return time.monotonic() - began

    def run(self, script: str) -> Any:
        """Return the value of an expression, awaited if it is a promise."""
        how = {"returnByValue": True, "awaitPromise": True}
        found = self._do("Runtime.evaluate", expression=script, **how)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, condition: str, patience_s: float = 20.0) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + patience_s
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < until, f"not within {patience_s:g} s: {condition}"
            time.sleep(0.02)

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key."""
        named = {"key": key, "code": key.strip() or "Space", "windowsVirtualKeyCode": KEYS[key]}
        text = {"Enter": "\r", " ": " "}.get(key)
        down: Mapping[str, Any] = (
            named | ({"text": text} if text else {}) | ({"modifiers": 8} if shift else {})
        )
        self._do("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **down)
        self._do("Input.dispatchKeyEvent", type="keyUp", **named)

    def click(self, x: float, y: float) -> None:
        """Click at a point of the window."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self._do("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def screenshot(self, file: Path, *, full: bool = True) -> None:
        """Write a picture of the page, or of what is in sight."""
        picture = self._do("Page.captureScreenshot", captureBeyondViewport=full, **self._clip(full))
        file.write_bytes(base64.b64decode(picture["data"]))

    def _clip(self, full: bool) -> dict[str, Any]:
        if not full:
            return {}
        size = self._do("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Yield a browser with its profile in a folder; the test is skipped where none is installed."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        pytest.skip("no chromium: this test opens the page in it")
    pipes = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (*os.pipe(), *os.pipe())]
    its_commands, commands, answers, its_answers = pipes
    # the browser reads commands from file descriptor 3 and writes to 4
    line = f'exec "$0" "$@" 3<&{its_commands} 4>&{its_answers}'
    profile = f"--user-data-dir={folder}"
    with (folder / "browser.log").open("wb") as log:
        process = subprocess.Popen(
            ["/bin/bash", "-c", line, found, *FLAGS, profile, "about:blank"],
            pass_fds=(its_commands, its_answers),
            stdout=log,
            stderr=log,
        )
    os.close(its_commands)
    os.close(its_answers)
    try:
        yield Browser(commands, answers)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        os.close(commands)
        os.close(answers)
