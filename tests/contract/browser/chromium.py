"""A real browser without a screen, driven by its own protocol: what it loads, how it lays out, and what is seen."""

import asyncio
import base64
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 60


def program() -> str | None:
    """The browser; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@dataclass
class Browser:
    """One page of it, and what it reported."""

    socket: aiohttp.ClientWebSocketResponse
    events: list[dict[str, Any]] = field(default_factory=list)
    number: int = 0

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol; what is reported meanwhile is kept."""
        self.number += 1
        await self.socket.send_json({"id": self.number, "method": method, "params": params})
        while (message := await self._next()).get("id") != self.number:
            self.events.append(message)
        assert "error" not in message, message
        return dict(message["result"])

    async def open(self, file: Path) -> None:
        """Load a file, to the end."""
        for domain in ("Page", "Network", "Log", "Runtime"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=file.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(await self._next())

    async def look(self, *, width: int, height: int = 900, media: str = "screen", scheme: str = "light") -> None:
        """Show the page in a width, for a medium and a colour scheme."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", media=media, features=features)

    async def value(self, expression: str) -> Any:
        """Evaluate an expression in the page."""
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def screenshot(self) -> bytes:
        """Take a picture of the whole page, as PNG."""
        return base64.b64decode((await self.call("Page.captureScreenshot", captureBeyondViewport=True))["data"])

    async def pdf(self) -> bytes:
        """Print it."""
        return base64.b64decode((await self.call("Page.printToPDF", preferCSSPageSize=True))["data"])

    def reported(self, method: str) -> list[dict[str, Any]]:
        """What the browser reported of one kind."""
        return [event["params"] for event in self.events if event["method"] == method]

    async def _next(self) -> dict[str, Any]:
        return dict(json.loads(await self.socket.receive_str(timeout=SECONDS)))


@asynccontextmanager
async def running(binary: str) -> AsyncIterator[Browser]:
    """Start a browser with a profile of its own, and end it."""
    with tempfile.TemporaryDirectory(prefix="nodeupgrade-browser-", ignore_cleanup_errors=True) as profile:
        arguments = ("--headless", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0", "about:blank")
        root = ("--no-sandbox",) if os.geteuid() == 0 else ()
        process = await asyncio.create_subprocess_exec(
            binary, f"--user-data-dir={profile}", *root, *arguments, stdout=-3, stderr=-3
        )
        try:
            async with aiohttp.ClientSession() as session:
                port = await _port(Path(profile))
                async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    targets = await answer.json()
                url = next(each["webSocketDebuggerUrl"] for each in targets if each["type"] == "page")
                async with session.ws_connect(url, max_msg_size=0) as socket:
                    yield Browser(socket)
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _port(profile: Path) -> int:
    for _ in range(SECONDS * 10):
        with suppress(FileNotFoundError, IndexError):
            return int((profile / "DevToolsActivePort").read_text().splitlines()[0])
        await asyncio.sleep(0.1)
    raise TimeoutError("the browser does not start")
