"""A real Chromium, driven through its DevTools protocol over a pipe: no driver, no port, one JSON message before each NUL."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # a container's root has no user namespaces to make one
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--window-size=1280,900",
    "--remote-debugging-pipe",
)
KEYS = {"Enter": ("\r", 13), "Tab": ("", 9)}


class Tab:
    """One page, and what the browser complained about in it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.complaints: list[str] = []

    async def listen(self) -> None:
        """Sort what the browser says."""
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                told = json.loads((await self._reader.readuntil(b"\0"))[:-1])
                if "id" in told:
                    self._answers.pop(told["id"]).set_result(told)
                elif told["method"] == "Log.entryAdded":
                    entry = told["params"]["entry"]
                    self.complaints.append(f"{entry['level']}: {entry['text']} {entry.get('url', '')}")
                elif told["method"] in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening"):
                    self.complaints.append(json.dumps(told["params"]))

    async def tell(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._writer.write(json.dumps(message).encode() + b"\0")
        told = await self._answers[number]
        assert "error" not in told, told["error"]
        result: dict[str, Any] = told["result"]
        return result

    async def open(self) -> None:
        target = (await self.tell("Target.createTarget", url="about:blank"))["targetId"]
        attached = await self.tell("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            await self.tell(f"{domain}.enable")

    async def go(self, address: str) -> None:
        await self.tell("Page.navigate", url=address)

    async def find(self, expression: str) -> Any:
        told = await self.tell("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait for something to be true of the page, whichever page that is by then."""
        while True:
            with contextlib.suppress(AssertionError):
                if await self.find(f"Boolean(document.readyState === 'complete' && ({expression}))"):
                    return
            await asyncio.sleep(0.02)

    async def complains(self, words: str) -> None:
        """Wait for a complaint: that there is none elsewhere means something only because they are heard."""
        while not any(words in each for each in self.complaints):
            await self.find("1")

    async def shows(self, words: str) -> None:
        await self.until(f"document.body.innerText.includes({json.dumps(words)})")

    async def focus(self, selector: str) -> None:
        await self.until(f"document.querySelector({json.dumps(selector)})")
        await self.find(f"document.querySelector({json.dumps(selector)}).focus()")

    async def type(self, text: str) -> None:
        await self.tell("Input.insertText", text=text)

    async def press(self, key: str) -> None:
        text, code = KEYS[key]
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        await self.tell("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        await self.tell("Input.dispatchKeyEvent", type="keyUp", **about)

    async def picture(self, file: Path, scheme: str, width: int = 1280) -> None:
        """The whole page, as one sees it who prefers this scheme."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.tell("Emulation.setEmulatedMedia", features=features)
        await self.tell("Emulation.setScrollbarsHidden", hidden=True)
        about = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        await self.tell("Emulation.setDeviceMetricsOverride", **about)
        told = await self.tell("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        await asyncio.to_thread(file.write_bytes, base64.b64decode(told["data"]))


@contextlib.asynccontextmanager
async def chromium(command: str, profile: Path) -> AsyncIterator[Tab]:
    """A browser of its own, gone afterwards. It reads from its descriptor 3 and writes to 4."""
    ours, theirs = socket.socketpair()
    number = theirs.fileno()
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        f'exec "$0" "$@" 3<&{number} 4>&{number}',
        command,
        *FLAGS,
        f"--user-data-dir={profile}",
        pass_fds=(number,),
        stderr=asyncio.subprocess.DEVNULL,
    )
    theirs.close()
    reader, writer = await asyncio.open_connection(sock=ours, limit=64 * 1024 * 1024)
    tab = Tab(reader, writer)
    listening = asyncio.ensure_future(tab.listen())
    try:
        await tab.open()
        yield tab
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        listening.cancel()
        writer.transport.abort()
