"""A headless Chromium, driven through its debugging pipe: opens a page, runs scripts in it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Optional

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find() -> Optional[str]:
    """Its path, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of it at a time. A context."""

    def __init__(self, program: str, folder: Path) -> None:
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
            "--no-first-run",
        ]
        command = [program, *options, f"--user-data-dir={folder}/profile", "about:blank"]
        # Chromium reads descriptor 3 and writes 4.
        words = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *command]
        self._process = subprocess.Popen(
            words, pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL, start_new_session=True
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")
        self._rest, self._count, self._session = b"", 0, ""
        self.anew()

    def anew(self) -> None:
        """Another page, of which nothing was asked yet."""
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.call("Page.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_error: object) -> None:
        self._in.close()
        self._out.close()
        self._process.terminate()
        self._process.wait(20)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A call of the debugging protocol, and its answer."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        answer: dict[str, Any] = self._until(lambda said: said.get("id") == self._count).get("result", {})
        return answer

    def _until(self, wanted: Any) -> dict[str, Any]:
        while True:
            while b"\0" not in self._rest:
                chunk = os.read(self._in.fileno(), 1 << 16)
                assert chunk, "the browser ended"
                self._rest += chunk
            line, self._rest = self._rest.split(b"\0", 1)
            said: dict[str, Any] = json.loads(line)
            if wanted(said):
                return said

    def open(self, path: Path) -> None:
        """Open a file, and return when it is loaded."""
        self.call("Page.navigate", url=path.as_uri())
        self.run(
            "new Promise(done => document.readyState === 'complete' ? done(1) :"
            " addEventListener('load', () => done(1)))"
        )

    def run(self, script: str) -> Any:
        """What an expression is in the page."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(
        self, path: Path, width: int, height: int, *, dark: bool = False, paper: bool = False
    ) -> None:
        """What is to be seen, as PNG; `paper`: as it is printed."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="print" if paper else "screen", features=[feature])
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
